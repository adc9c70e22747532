"""The kill switch in the console: under its cover, with its report, and the way back that resumes nothing by itself."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.console.agents import AGENTS, GATES, goal
from tests.console.conftest import LIMITS, SETTINGS, Opening
from tests.console.fleets import elsewhere
from tests.console.pages import GUARD, Api, Window, until
from tests.console.test_accessible import AXE, THEMES, grave
from tests.server.live_server import Running, serving

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def freezing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of their own: a kill switch is everybody's."""
    url = f"sqlite:///{tmp_path_factory.mktemp('kill') / 'sessions.db'}"
    with serving(url, *AGENTS, settings=SETTINGS, limits=LIMITS, durability="process") as running:
        GATES.begin()
        yield running
        GATES.end()


@pytest.fixture
def there(freezing: Running) -> Iterator[Api]:
    """That server behind the browser's back. What stands after a test is lifted, and what is left is cancelled."""
    with Api(freezing.url) as api:
        yield api
        for one in api.get("/kill-switches")["switches"]:
            if one["stands"]:
                api.post(f"/kill-switches/{one['id']}/lift", why="the test is over")
        open_ones = [
            head["id"] for head in api.get("/sessions", limit=200)["sessions"] if head["status"] != "cancelled"
        ]
        if open_ones:
            api.post("/sessions/bulk", verb="cancel", sessions=open_ones, grace=0)


def cover(page: Page) -> Locator:
    """The switch under its cover."""
    return page.get_by_role("region", name="Kill switch", exact=True)


def report(page: Page) -> Locator:
    """What a switch that is on says."""
    return page.get_by_role("region", name="Kill switch report")


def figure(page: Page, name: str) -> Locator:
    """A figure of the report."""
    return (
        report(page)
        .locator("dl.figures > div")
        .filter(has=page.locator("dt", has_text=re.compile(f"^{name}$")))
        .locator("dd")
    )


def halt(page: Page, reason: str, sessions: int) -> None:
    """Lift the cover, say why, press."""
    page.get_by_role("button", name="Kill switch…").click()
    expect(cover(page)).to_contain_text(f"{sessions} session")
    cover(page).get_by_label("Reason").fill(reason)
    page.wait_for_timeout(550)
    cover(page).get_by_role("button", name=f"Halt {sessions} session").click()


def going(api: Api, page: Page, *words: str) -> list[str]:
    """Runs that are under way."""
    names = [api.start("memo", goal(f"Frozen {one}".strip()), labels=["repo:api"]) for one in words]
    until(page, lambda: all(api.get(f"/sessions/{one}")["finished_steps"] >= 2 for one in names))
    return names


def test_the_fleet_is_halted_its_report_read_and_let_go_back(opening: Opening, freezing: Running, there: Api) -> None:
    window = opening(freezing.url)
    page = window.open()
    sending, *others = going(there, page, "send", "one", "two")
    until(page, lambda: any(one["data"]["name"] == "send_report" for one in there.events(sending, "step.begun")))
    expect(page.locator("tr[data-id]").first).to_be_visible()
    halt(page, "The release is frozen.", 3)

    expect(figure(page, "stopped")).to_have_text("2")
    expect(figure(page, "still running")).to_have_text("1send_report")
    expect(figure(page, "not reachable")).to_have_text("0")
    expect(report(page)).to_contain_text("The release is frozen.")
    expect(report(page).get_by_role("row", name="Frozen send")).to_contain_text("still running: send_report")
    expect(report(page).get_by_role("row", name="Frozen one")).to_contain_text("stopped")
    assert {there.status(one) for one in (sending, *others)} == {"halted"}
    expect(cover(page)).to_have_count(0)

    late = there.start("memo", goal("Too late"))
    until(page, lambda: there.status(late) == "halted")
    GATES.open(sending, "send")
    expect(figure(page, "still running")).to_have_text("0")
    expect(figure(page, "stopped")).to_have_text("4")

    other = opening(freezing.url)
    run = other.watch(others[0])
    run.is_at("halted")
    expect(run.tray).to_contain_text("Halted by you at")
    expect(run.tray).to_contain_text("The release is frozen.")
    expect(run.tray).to_contain_text("Kill switch over all sessions, on since")
    expect(run.tray).to_contain_text("Lift it in its report, then release this session, or cancel it here.")
    expect(run.slot("Lift halt")).to_contain_text("lift the kill switch first")
    expect(run.slot("Lift halt")).to_have_attribute("aria-disabled", "true")
    expect(run.tray).to_contain_text("It was running, and returns to that. Nothing is running.")
    expect(other.page.get_by_role("alert").filter(has_text="Kill switch is on")).to_contain_text("all sessions")
    other.is_calm()

    page.get_by_role("button", name="Lift it…").click()
    report(page).get_by_label("Why it is lifted").fill("The release is out.")
    last = report(page).get_by_role("button", name=re.compile("^Lift it"))
    expect(last).to_contain_text("4 sessions stay halted until you release them")
    last.click()
    expect(report(page)).to_contain_text("Kill switch was lifted")
    expect(report(page)).to_contain_text("4 sessions stay halted until you release them.")
    assert {there.status(one) for one in (sending, *others, late)} == {"halted"}
    expect(other.page.get_by_role("alert").filter(has_text="Kill switch is on")).to_have_count(0)
    expect(run.tray).to_contain_text("This session stays halted until you release it.")
    run.press("Cancel")
    expect(run.slot("Keep it")).to_contain_text("stays halted, as it was")
    expect(run.slot("Redirect")).to_contain_text("refused while halted")
    run.key("Escape")
    run.is_at("halted")
    run.press("Lift halt")
    run.is_at("running")

    report(page).get_by_role("button", name="Release 3 sessions").click()
    expect(report(page)).to_contain_text("3 sessions went back to where they were.")
    until(page, lambda: there.status(others[1]) == "running")
    window.is_calm()


def test_a_scope_is_counted_before_it_is_pressed_and_a_reason_is_needed(
    opening: Opening, freezing: Running, there: Api
) -> None:
    window = opening(freezing.url)
    page = window.open()
    inside, outside = going(there, page, "in scope")[0], there.start("chooser", goal("Not in scope"))
    until(page, lambda: there.status(outside) == "waiting")
    page.get_by_role("button", name="Kill switch…").click()
    expect(cover(page).get_by_label("Scope")).to_be_focused()
    expect(cover(page)).to_contain_text("2 sessions now (1 running, 1 waiting).")
    cover(page).get_by_label("Scope").select_option("One label")
    press = cover(page).get_by_role("button", name=re.compile("^Halt"))
    expect(press).to_contain_text("name its scope first")
    cover(page).get_by_label("Which label").fill("repo:api")
    expect(cover(page)).to_contain_text("1 session now (1 running).")
    expect(press).to_have_attribute("aria-disabled", "true")
    expect(press).to_contain_text("give a reason first")
    press.click(force=True)
    expect(cover(page)).to_be_visible()
    assert (
        there.get("/kill-switches", limit=1)["switches"] == []
        or not there.get("/kill-switches")["switches"][0]["stands"]
    )
    cover(page).get_by_label("Reason").fill("Only these.")
    expect(press).not_to_have_attribute("aria-disabled", "true")
    page.wait_for_timeout(GUARD)  # a cover that has just opened takes no press
    page.keyboard.press("Enter")
    expect(report(page)).to_contain_text("Kill switch is on: label repo:api")
    assert (there.status(inside), there.status(outside)) == ("halted", "waiting")
    window.is_calm()


def test_a_press_after_a_lost_answer_throws_no_second_switch(opening: Opening, freezing: Running, there: Api) -> None:
    window = opening(freezing.url)
    page = window.open()
    [session] = going(there, page, "once")
    before = len(there.get("/kill-switches")["switches"])
    keys: list[str] = []

    def lose(route: Route) -> None:
        if route.request.method != "POST":
            route.fallback()
            return
        keys.append(route.request.headers["idempotency-key"])
        route.fetch()
        route.abort()

    page.route("**/kill-switches", lose)
    halt(page, "Pressed twice.", 1)
    said = cover(page).get_by_role("status")
    expect(said).to_contain_text("No reply came: whether it arrived is not known.")
    expect(said).to_contain_text("Press again: it is not thrown twice.")
    page.unroute("**/kill-switches", lose)
    with page.expect_request(lambda sent: sent.url.endswith("/kill-switches") and sent.method == "POST") as again:
        cover(page).get_by_role("button", name=re.compile("^Halt")).click()
    expect(cover(page)).to_have_count(0)
    expect(report(page)).to_have_count(1)
    assert [again.value.headers["idempotency-key"]] == keys
    assert len(there.get("/kill-switches")["switches"]) == before + 1
    assert there.status(session) == "halted"


def test_a_press_whose_first_try_was_lifted_meanwhile_says_so_and_the_next_one_halts(
    opening: Opening, freezing: Running, there: Api
) -> None:
    window = opening(freezing.url)
    page = window.open()
    [session] = going(there, page, "lifted")

    def lose(route: Route) -> None:
        if route.request.method == "POST":
            route.fetch()
            route.abort()
        else:
            route.fallback()

    page.route("**/kill-switches", lose)
    halt(page, "Lifted meanwhile.", 1)
    expect(cover(page).get_by_role("status")).to_contain_text("No reply came")
    page.unroute("**/kill-switches", lose)
    [thrown] = [one["id"] for one in there.get("/kill-switches")["switches"] if one["stands"]]
    there.post(f"/kill-switches/{thrown}/lift", why="By somebody else.")
    cover(page).get_by_role("button", name=re.compile("^Halt")).click()
    expect(cover(page).get_by_role("status")).to_have_text(
        "It was on, and has been lifted since. Press again to halt again."
    )
    cover(page).get_by_role("button", name=re.compile("^Halt")).click()
    expect(report(page).filter(has_text="Kill switch is on")).to_have_count(1)
    assert [one["id"] == thrown for one in there.get("/kill-switches")["switches"] if one["stands"]] == [False]
    assert there.status(session) == "halted"


def test_a_name_that_nothing_has_is_hinted_at_in_the_report(opening: Opening, freezing: Running, there: Api) -> None:
    page = opening(freezing.url).open()
    page.get_by_role("button", name="Kill switch…").click()
    cover(page).get_by_label("Scope").select_option("One agent")
    cover(page).get_by_label("Which agent").fill("memos")
    cover(page).get_by_label("Reason").fill("A slip of the hand.")
    page.wait_for_timeout(GUARD)
    page.keyboard.press("Enter")
    expect(report(page)).to_contain_text("No agent of that name is known here. Did you mean 'memo'?")


@pytest.mark.browser_full
def test_the_cover_closes_by_itself_and_with_escape(opening: Opening, freezing: Running, there: Api) -> None:
    window = opening(freezing.url)
    window.page.clock.install()
    page = window.open()
    page.get_by_role("button", name="Kill switch…").click()
    expect(cover(page)).to_contain_text("20 s after the last change")
    page.clock.fast_forward(15_000)
    cover(page).get_by_label("Reason").fill("Still typing")
    page.clock.fast_forward(15_000)
    expect(cover(page)).to_be_visible()
    page.clock.fast_forward(6_000)
    expect(cover(page)).to_have_count(0)
    page.get_by_role("button", name="Kill switch…").click()
    page.keyboard.press("Escape")
    expect(cover(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Kill switch…")).to_be_focused()
    assert not any(one["stands"] for one in there.get("/kill-switches")["switches"])


def test_a_report_that_goes_with_its_switch_gives_the_focus_to_the_one_that_is_left(
    opening: Opening, freezing: Running, there: Api
) -> None:
    for agent in ("first", "second"):
        there.post("/kill-switches", scope={"kind": "agent", "value": agent}, reason="Nothing runs there.")
    page = opening(freezing.url).open()
    for agent, left in (("second", "Lift it…"), ("first", "Kill switch…")):
        lifted = report(page).filter(has_text=f"Kill switch is on: agent {agent}")
        lifted.get_by_role("button", name="Lift it…").click()
        expect(lifted.get_by_label("Why it is lifted")).to_be_focused()
        page.keyboard.type("It is over.")
        page.keyboard.press("Enter")
        expect(lifted).to_have_count(0)
        expect(page.get_by_role("button", name=left)).to_be_focused()


def test_who_is_no_operator_sees_it_standing_and_why(opening: Opening, freezing: Running, there: Api) -> None:
    halted = there.start("memo", goal("Halted"))
    there.post("/kill-switches", scope={"kind": "agent", "value": "memo"}, reason="Nobody but operators.")
    token = there.post("/tokens", name="steerer", role="steer")["token"]
    window = opening(freezing.url, token=token)
    page = window.open()
    expect(report(page)).to_contain_text("Nobody but operators.")
    expect(report(page)).to_contain_text("Only an operator can lift this.")
    expect(page.get_by_role("button", name="Kill switch…")).to_have_count(0)
    expect(page.get_by_role("button", name="Lift it…")).to_have_count(0)
    page.get_by_role("link", name="New run", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="Kill switch is on")).to_contain_text("agent memo")
    run = window.watch(halted)
    run.is_at("halted")
    expect(run.tray).to_contain_text("Only an operator can lift it.")
    expect(run.slot("Resume")).to_contain_text("only an operator can lift this")
    expect(run.slot("Cancel")).to_contain_text("only an operator, while halted")


@pytest.mark.browser_full
def test_axe_finds_nothing_grave_under_the_cover_and_in_the_report(
    opening: Opening, freezing: Running, there: Api
) -> None:
    window = opening(freezing.url, bypass_csp=True)
    page = window.open()
    going(there, page, "one")
    there.post("/kill-switches", scope={"kind": "all"}, reason="Looked at.")
    page.reload()
    report(page).get_by_text("one by one").click()
    page.get_by_role("button", name="Kill switch…").click()
    expect(cover(page)).to_be_visible()
    page.get_by_label("Select all").check()
    # Once the page is live again: before that a cancel cannot be previewed.
    slot = page.get_by_role("group", name="Controls").get_by_role("button", name=re.compile("^Cancel 1"))
    expect(slot).not_to_have_attribute("aria-disabled", "true")
    page.keyboard.press("c")
    expect(page.locator(".tray")).to_contain_text("Cancel 1 session?")
    assert looked_at(window) == []


def looked_at(window: Window) -> list[str]:
    """What axe finds, light and wide, dark and narrow."""
    window.page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = []
    for theme, (width, height) in THEMES:
        window.page.emulate_media(color_scheme=theme)
        window.page.set_viewport_size({"width": width, "height": height})
        expect(window.page.locator("html")).to_have_attribute("data-theme", theme)
        window.is_narrow()
        found += [f"{theme} {width}: {one}" for one in grave(window)]
    return found


@pytest.mark.browser_full
def test_200_running_sessions_are_halted_and_each_is_named(
    opening: Opening, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('storm') / 'sessions.db'}"
    more: dict[str, Any] = {"settings": SETTINGS, "limits": LIMITS, "durability": "process"}
    with elsewhere(url) as silent, serving(url, *AGENTS, **more) as running, Api(running.url) as api:
        GATES.begin()
        silent.fill(20)  # 12 run, and 1 is paused, where nobody answers
        window = opening(running.url, viewport={"width": 1376, "height": 900})
        page = window.open()
        names = [api.start("memo", goal(f"Storm {number:03}")) for number in range(200)]
        expect(
            page.get_by_role("group", name="Sessions by status").get_by_role("button", name=re.compile("running$"))
        ).to_contain_text("212")
        halt(page, "Stop everything.", 213)
        expect(figure(page, "stopped")).to_have_text("200")
        expect(figure(page, "not reachable")).to_contain_text("13")
        assert {api.status(one) for one in names} == {"halted"}
        expect(report(page).get_by_role("row", name="Storm 117")).to_contain_text("stopped")
        expect(report(page).get_by_role("row", name="Task 00003")).to_contain_text("not reachable")
        begun = {one: len(api.events(one, "step.begun")) for one in names[::20]}
        page.wait_for_timeout(1_000)
        assert {one: len(api.events(one, "step.begun")) for one in begun} == begun
        window.is_calm()
