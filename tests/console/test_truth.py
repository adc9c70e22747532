"""What a page says is so: what nobody knows is no number, what nobody drives does not run, one clock on all pages."""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Page, expect

from midcourse.clock import SystemClock
from midcourse.core import events as ev
from midcourse.core.ids import StepId
from midcourse.wiring import open_store
from tests.console.agents import AGENTS, GATES, goal
from tests.console.conftest import LIMITS, SETTINGS, Opening
from tests.console.pages import GUARD, PHONE, Api, Window, until
from tests.reports.journals import Journal
from tests.reports.stores import keep
from tests.server.live_server import TOKEN, Running, serving

pytestmark = pytest.mark.timeout(180)
LEFT: Final = "sess_left_alone"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server over a store in which a session was at work when its process died; nobody here has its agent."""
    where = f"sqlite:///{tmp_path_factory.mktemp('truth')}/runs.db"

    async def prepare() -> None:
        store = await open_store(where)
        left = Journal(LEFT, agent="elsewhere", began=SystemClock().now() - 600).started()
        left.happens(
            ev.StepBegun(step=StepId("1/fetch#0"), name="fetch", kind="tool", attempt=1, digest="d", arguments="{}"),
            at=70.0,
        )
        await keep(store, left)
        await store.close()

    # In a thread of its own: in this one Playwright's loop may run.
    preparing = threading.Thread(target=lambda: asyncio.run(prepare()))
    preparing.start()
    preparing.join()
    with serving(where, *AGENTS, settings=SETTINGS, limits=LIMITS, durability="process") as running:
        GATES.begin()
        yield running
        GATES.end()


def row(page: Page, session: str) -> Locator:
    """Its row in the fleet."""
    return page.locator(f"tr[data-id='{session}']")


def test_a_price_that_nobody_knows_is_said_in_the_fleet_on_the_run_and_by_the_api(window: Window, api: Api) -> None:
    """And is no known nothing: of a model that is free, and of a session that asks none."""
    none = api.start("quick", goal("Asks no model"))
    free = api.start("cleaner", goal("Asks a model that is free"), budget=10)
    unknown = api.start("memo", goal("unpriced"), budget=10)
    partly = api.start("memo", goal("costly"))
    until(window.page, lambda: api.get(f"/sessions/{free}")["asks"] != [])
    until(window.page, lambda: api.get(f"/sessions/{unknown}")["unpriced"] == 1)  # a second one is being written
    until(window.page, lambda: api.get(f"/sessions/{partly}")["cost"] == 2.5)
    api.post(f"/sessions/{partly}/redirect", text="go on", level="step")  # which cuts what it says
    until(window.page, lambda: api.get(f"/sessions/{partly}")["unpriced"] == 1)
    page = window.open()
    told = {none: "$0.00", free: "$0.00", unknown: "price unknown", partly: "≥ $2.50"}
    for session, words in told.items():
        expect(row(page, session).locator("td.co")).to_have_text(words)
    expect(row(page, free).locator("td.co")).to_have_attribute("title", "of $10")
    expect(row(page, unknown).locator("td.co")).to_have_attribute(
        "title", re.compile(r"of \$10; \d model calls? ha\w+ no known price")
    )
    heads = {head["id"]: head for head in api.get("/sessions")["sessions"]}
    assert [heads[one]["unpriced"] for one in (none, free, unknown, partly)][:2] == [0, 0]
    assert all(heads[one]["unpriced"] >= 1 for one in (unknown, partly))
    desk = page.viewport_size
    assert desk is not None
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    for session, words in told.items():
        shown = row(page, session).locator("td.co")
        shown.scroll_into_view_if_needed()
        expect(shown).to_be_in_viewport(ratio=1)
        expect(shown).to_have_text(words)
    window.is_narrow()
    page.set_viewport_size(desk)

    dials = window.watch(free).handle.locator(".dials")
    expect(dials).to_contain_text("$0.00 / $10")
    dials = window.watch(unknown).handle.locator(".dials")
    expect(dials).to_contain_text("price unknown / $10")
    expect(dials.get_by_role("meter")).to_have_count(0)  # an empty bar would say that nothing was spent
    dials = window.watch(partly).handle.locator(".dials")
    expect(dials).to_contain_text("≥ $2.50 no cap")


def test_worked_is_the_same_number_in_the_fleet_and_on_the_run(window: Window, api: Api) -> None:
    session = api.start("chooser", goal("Waits for a person"))
    until(window.page, lambda: api.status(session) == "waiting")
    told = api.get(f"/sessions/{session}")
    assert told["working_since"] is None
    page = window.page
    page.clock.install()
    window.open()
    expect(page.get_by_role("columnheader", name="Worked")).to_be_visible()
    expect(row(page, session).locator("td.el")).to_have_text("00:00")
    page.clock.fast_forward(120_000)
    expect(row(page, session).locator("td.el")).to_have_text("00:00")
    run = window.watch(session)
    worked = run.handle.locator(".dials > div", has_text="worked").locator("dd")
    expect(worked).to_have_text("00:00")
    page.clock.fast_forward(120_000)
    expect(worked).to_have_text("00:00")


def test_a_session_that_nobody_drives_does_not_look_like_a_running_one(opening: Opening, server: Running) -> None:
    window = opening(server.url)
    window.page.clock.install()
    page = window.open()
    expect(row(page, LEFT)).to_contain_text("its worker is gone")
    # It began at 1, and its last word came at 70: what came after that was no work.
    expect(row(page, LEFT).locator("td.el")).to_have_text("01:09")
    expect(page.get_by_role("main")).to_contain_text("1 without a worker")
    run = window.watch(LEFT)
    page.clock.run_for(10_000)
    run.is_at("Last seen running")
    expect(run.sentence).to_contain_text("Its worker is gone")
    expect(run.sentence).to_contain_text("when a process with agent elsewhere takes it")
    expect(run.polite).to_contain_text("Its worker is gone")
    expect(run.handle.locator(".dials dd").first).to_have_text("01:09")
    window.is_calm()


def test_at_every_width_the_top_bar_is_whole_and_the_goal_can_be_read(opening: Opening, api: Api) -> None:
    session = api.start("cleaner", goal("Delete what nobody has written to"))
    window = opening()
    until(window.page, lambda: api.status(session) == "waiting")
    page = window.open()
    for width in (1376, 900, 768, 390, 360):
        page.set_viewport_size({"width": width, "height": 900})
        window.has_its_top()
        window.is_narrow()
        goal_box = row(page, session).locator("td.what").bounding_box()
        assert goal_box is not None
        assert goal_box["width"] >= 180
    expect(row(page, session)).to_contain_text("Allow delete_records?")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    expect(page.get_by_role("link", name="Settings")).to_be_visible()
    page.get_by_role("link", name="New run").click()
    expect(page.get_by_role("heading", name="New run")).to_be_visible()


def test_who_may_only_watch_is_told_before_they_press_start(opening: Opening, server: Running, api: Api) -> None:
    token = api.post("/tokens", name="watcher", role="watch")["token"]
    window = opening(server.url, token=token)
    page = window.open("?new")
    start = page.get_by_role("button", name=re.compile("^Start"))
    expect(start).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_role("status")).to_contain_text("Your token can only watch")
    window.is_calm()


def test_an_answer_that_could_not_be_sent_is_not_called_sent(opening: Opening, server: Running, api: Api) -> None:
    wish = goal("Choose without a connection")
    session = api.start("chooser", wish)
    window = opening(server.url)
    until(window.page, lambda: api.status(session) == "waiting")
    page = window.open("?inbox")
    page.get_by_role("button", name=wish).click()
    detail = page.get_by_role("article", name="Ask")
    expect(detail.locator("code").first).to_have_text(session)
    page.wait_for_timeout(GUARD)  # what has just come to be open takes no press
    page.route(f"**/sessions/{session}/answer", lambda route: route.abort())
    detail.get_by_role("button", name="login bug").click()
    expect(detail).to_contain_text("whether it arrived is not known. It is retried, and counts once.")
    assert api.events(session, "ask.answered") == []
    page.unroute(f"**/sessions/{session}/answer")
    until(page, lambda: api.events(session, "ask.answered") != [])
    expect(page.get_by_role("main")).to_contain_text("You answered “login bug”")


def test_a_long_text_that_a_pause_cut_shows_where_it_was_cut_and_all_of_it_on_demand(window: Window, api: Api) -> None:
    session = api.start("writer", goal("Write four hundred lines"))
    run = window.watch(session)
    expect(run.log).to_contain_text("line 400 of the page")
    run.press("Pause")
    run.is_at("paused")
    text = run.log.locator(".text")
    expect(run.log).to_contain_text("cut by your pause")
    expect(text).to_contain_text("line 400 of the page")
    expect(text).not_to_contain_text("line 1 of the page")
    run.log.get_by_role("button", name="show all 400 lines").click()
    whole = run.log.get_by_role("group", name="The whole text")
    expect(whole).to_contain_text("line 1 of the page")
    expect(whole).to_contain_text("line 400 of the page")
    # What was shown is what is in the journal.
    written = "".join(event["data"]["text"] for event in api.events(session, "segment.written"))
    assert written.startswith("line 1 of the page")
    assert written.endswith("line 400 of the page\n")


def test_a_paused_parent_says_of_each_child_what_became_of_it_and_nothing_of_an_abort(window: Window, api: Api) -> None:
    session = api.start("family", goal("Pause with children"))
    page = window.page

    def heads() -> dict[str, Any]:
        return {head["goal"]: head for head in api.get("/sessions", search=f"{session}.")["sessions"]}

    until(page, lambda: len(heads()) == 3 and heads()["soon"]["status"] == "completed")
    until(page, lambda: heads()["send"]["busy"] == "send_report" and heads()["speak"]["busy"] == "score")
    run = window.watch(session)
    lines = {
        words: run.log.locator(".call").filter(has=page.locator(f"a[href*='{head['id']}']"))
        for words, head in heads().items()
    }
    run.press("Pause")
    run.is_at("pausing")
    expect(lines["send"]).to_contain_text("pausing: send_report finishes first")
    expect(lines["speak"]).to_contain_text("paused")
    expect(lines["speak"]).not_to_contain_text("still running")
    GATES.open(heads()["send"]["id"], "send")
    run.is_at("paused")
    for words in ("send", "speak"):
        expect(lines[words]).to_contain_text("paused with its parent")
        assert heads()[words]["status"] == "paused"
    expect(lines["soon"]).to_contain_text("done: soon")
    expect(run.log).not_to_contain_text("aborted")
    # One that goes on by itself is not called paused.
    api.post(f"/sessions/{heads()['speak']['id']}/resume")
    expect(lines["speak"]).to_contain_text(re.compile(r"runs$"))


def test_what_a_running_answer_costs_is_counted_as_it_comes_and_called_an_estimate(
    window: Window, api: Api, server: Running
) -> None:
    """Where its price is not known, that is said; where it is known to be nothing, that is no estimate."""
    paid, free = api.start("metered", goal("Write"), budget=10), api.start("metered", goal("Write, free"))
    unknown = api.start("memo", goal("Write"))
    page = window.page
    for session, tokens in ((paid, 300), (free, 300), (unknown, 1)):
        until(page, lambda session=session, tokens=tokens: _written(api, session) >= tokens)
    assert api.events(paid, "segment.written")[-1]["data"]["cost"] == 0.03
    window.open()
    shown = {paid: "≈ $0.03", free: "$0.00", unknown: "price unknown"}
    for session, words in shown.items():
        expect(row(page, session).locator("td.co")).to_have_text(words)
    expect(row(page, paid).locator("td.co")).to_have_attribute(
        "title", "of $10; an estimate: an answer is still being written"
    )
    for session, words in shown.items():
        run = window.watch(session)
        expect(run.handle.locator(".dials")).to_contain_text(words)
        expect(page.locator(".gauge", has_text="Tokens")).to_contain_text("≈")
    assert "≈ $0.03 of $10.00, ≈ 300 tokens" in _told(server, "show", paid)
    assert "unknown, ≈ " in _told(server, "show", unknown)
    assert "≈ $0.03" in _told(server, "ps")

    run = window.watch(paid)
    expect(page.locator(".gauge", has_text="Tokens")).to_have_text("Tokens≈ 300")
    GATES.open(paid, "words")
    run.is_at("completed")
    (end,) = api.events(paid, "step.finished")
    assert (end["data"]["cost"], end["data"]["tokens"]) == (0.05, 430)
    expect(run.handle.locator(".dials")).to_contain_text("$0.05 / $10")
    expect(run.handle.locator(".dials")).not_to_contain_text("≈")
    expect(page.locator(".gauge", has_text="Tokens")).to_have_text("Tokens430")


def _written(api: Api, session: str) -> int:
    """Tokens that its segments tell of."""
    segments = api.events(session, "segment.written")
    return int(segments[-1]["data"]["tokens"]) if segments else 0


def _told(server: Running, *words: str) -> str:
    """What the terminal says."""
    return subprocess.run(
        [sys.executable, "-m", "midcourse", *words, "--url", server.url, "--token", TOKEN],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "200", "PATH": "", "PYTHONUTF8": "1"},
    ).stdout
