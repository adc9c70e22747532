"""The inbox: what is asked over all sessions, answered in place, by keyboard alone if need be."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

import midcourse
from tests.console.agents import cleaner, goal
from tests.console.conftest import LIMITS, SETTINGS, Opening
from tests.console.pages import GUARD, PHONE, Api, Data, RunPage, Window, until
from tests.console.test_accessible import AXE, THEMES, grave
from tests.console.test_phone import hit_by_a_finger
from tests.server.live_server import serving

pytestmark = pytest.mark.timeout(180)
FULL = pytest.mark.browser_full
APPROVE = re.compile("^Delete records")


@pytest.fixture(autouse=True)
def _nothing_asked(api: Api) -> Iterator[None]:
    """Each test begins with an empty inbox."""
    yield
    for one in api.get("/inbox")["asks"]:
        api.post(f"/sessions/{one['session']}/cancel", grace=0, wait=5)


def asked(api: Api, window: Window, number: int, agent: str = "cleaner") -> list[str]:
    """So many sessions that ask, in the order of the inbox."""
    begun = {api.start(agent, goal("Clean the contacts")) for _ in range(number)}
    until(window.page, lambda: begun <= {one["session"] for one in api.get("/inbox")["asks"]})
    return [one["session"] for one in api.get("/inbox")["asks"] if one["session"] in begun]


def another(api: Api, name: str, role: str) -> Api:
    """Somebody else, with a token of their own."""
    return Api(api.url, str(api.post("/tokens", name=name, role=role)["token"]))


def answers(api: Api, session: str) -> list[Data]:
    """What was answered there."""
    return [one["data"] for one in api.events(session, "ask.answered")]


class InboxPage:
    """The page, by what it says and offers."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.page = window.open("?inbox")
        self.queue = self.page.get_by_role("navigation", name="Asks by deadline")
        self.detail = self.page.get_by_role("article", name="Ask")
        self.status = self.page.locator("p.answered")

    @property
    def open(self) -> Locator:
        """What of the queue is open beside it."""
        return self.queue.locator("[aria-current=true]")

    def shows(self, session: str) -> None:
        """This one is open, with all that an answer needs; and a press is meant for it."""
        expect(self.detail.locator("code").first).to_have_text(session)
        expect(self.detail).to_have_attribute("data-ready", "true")
        self.page.wait_for_timeout(GUARD)


def test_ten_asks_are_answered_by_keyboard_alone_and_after_twenty_the_page_says_so(window: Window, api: Api) -> None:
    sessions = asked(api, window, 21)
    page = window.open()
    expect(page.get_by_role("heading", name="Fleet", exact=True)).to_be_visible()  # before that nobody hears keys
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(page.get_by_role("heading", name="Inbox", exact=True)).to_be_visible()
    inbox = InboxPage(window)
    expect(inbox.queue.locator(".item")).to_have_count(21)
    expect(window.top.get_by_role("link", name="Inbox").locator(".count")).to_have_text("21")
    for session in sessions[:10]:
        inbox.shows(session)
        page.keyboard.press("a")
    inbox.shows(sessions[10])
    expect(inbox.open).to_be_focused()  # what had the focus went with the answer
    assert [answers(api, one)[0]["value"]["raw"] for one in sessions[:10]] == ["approve"] * 10
    expect(inbox.queue.locator(".item")).to_have_count(11)
    expect(inbox.status).to_have_text("You answered “approve” to cleaner.")
    expect(inbox.detail.locator(".note")).to_have_count(0)

    for session in sessions[11:]:
        api.post(f"/sessions/{session}/answer", value="approve", ask="ask_1")
    note = inbox.detail.locator(".note")
    expect(note).to_contain_text("20 approvals in a row. The last six took under 3 s each. The next one is in prod.")
    expect(note.get_by_role("link", name="Ask me less")).to_be_visible()
    expect(note.get_by_role("button", name="Hand over for an hour")).to_be_visible()
    # It informs, it never blocks.
    page.keyboard.press("a")
    expect(page.get_by_role("main")).to_contain_text("Nothing needs you.")
    assert answers(api, sessions[10])[0]["value"]["raw"] == "approve"
    expect(window.top.get_by_role("link", name="Inbox").locator(".count")).to_have_count(0)


def test_the_page_warns_after_as_many_approvals_in_a_row_as_the_policy_of_the_open_ask_says(
    opening: Opening, tmp_path: Path
) -> None:
    limits = {"patient": 3, "strict": 2}
    agents = [replace(cleaner, name=name, terms=midcourse.Terms(policy=name)) for name in limits]
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    with (
        serving(url, *agents, settings=SETTINGS, limits=LIMITS, durability="process") as running,
        Api(running.url) as api,
    ):
        window = opening(running.url)
        for name, most in limits.items():
            text = f"policy: {name}\nextends: standard\nrestraint:\n  approvals_in_a_row: {most}\n"
            api.put(f"/policies/{name}", document=text, why="a test")
        patient, *others = asked(api, window, 4, "patient")
        (strict,) = asked(api, window, 1, "strict")
        for one in others[:2]:
            api.post(f"/sessions/{one}/answer", value="approve", ask="ask_1")
        inbox = InboxPage(window)
        items = inbox.queue.locator(".item")
        expect(items).to_have_count(3)
        inbox.shows(patient)
        note = inbox.detail.locator(".note")
        expect(note).to_have_count(0)
        window.page.keyboard.press("j")
        window.page.keyboard.press("j")
        inbox.shows(strict)
        expect(note).to_contain_text("2 approvals in a row.")
        api.post(f"/sessions/{others[2]}/answer", value="approve", ask="ask_1")
        expect(items).to_have_count(2)
        window.page.keyboard.press("k")
        inbox.shows(patient)
        expect(note).to_contain_text("3 approvals in a row.")


def test_an_ask_is_open_in_place_with_what_why_and_what_happens_otherwise(window: Window, api: Api) -> None:
    (session,) = asked(api, window, 1)
    inbox = InboxPage(window)
    inbox.shows(session)
    rows = inbox.detail.locator("dl")
    expect(rows).to_contain_text(re.compile(r"Wants to\s*delete_records\s*prod"))
    expect(rows).to_contain_text(re.compile(r'With\s*"crm.contacts", \[38 items\]'))
    expect(rows).to_contain_text("For the goalClean the contacts")
    expect(rows).to_contain_text("Because“Nobody has written to these 38 contacts since 2020.”")
    expect(rows).to_contain_text("Without an answerit waits")
    # The button names the effect.
    expect(inbox.detail.get_by_role("button", name=APPROVE)).to_contain_text('Delete records: "crm.contacts"')
    page = inbox.page
    page.keyboard.press("e")
    words = inbox.detail.get_by_role("textbox", name="Your answer")
    expect(words).to_be_focused()
    page.keyboard.type("ax which of them?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_contain_text("Nothing needs you.")
    assert answers(api, session)[0]["value"]["raw"] == "ax which of them?"


def test_a_press_that_was_meant_for_the_last_one_answers_nothing(window: Window, api: Api) -> None:
    first, second = asked(api, window, 2)
    inbox = InboxPage(window)
    inbox.shows(first)
    button = inbox.detail.get_by_role("button", name=re.compile("^Refuse"))
    # In one go, as a finger does it: the next one is there before the second press has come.
    inbox.page.evaluate(
        """() => new Promise((done) => {
            const detail = document.querySelector(".detail");
            const shown = () => detail.querySelector("code").textContent;
            const before = shown();
            document.dispatchEvent(new KeyboardEvent("keydown", {key: "x", bubbles: true}));
            const look = () => {
                const next = document.querySelector('.detail[data-ready] [data-key="x"]');
                if (!next || document.querySelector(".detail code").textContent === before) {
                    requestAnimationFrame(look); return;
                }
                document.dispatchEvent(new KeyboardEvent("keydown", {key: "x", bubbles: true}));
                next.click();
                done();
            };
            look();
        })"""
    )
    inbox.shows(second)
    expect(button).to_be_visible()
    assert [len(answers(api, one)) for one in (first, second)] == [1, 0]
    button.click()
    expect(inbox.page.get_by_role("main")).to_contain_text("Nothing needs you.")
    assert answers(api, second)[0]["value"]["raw"] == "refuse"


@FULL
def test_j_and_k_go_through_the_queue_and_enter_opens_the_run(window: Window, api: Api) -> None:
    first, second, third = asked(api, window, 3)
    inbox = InboxPage(window)
    page = inbox.page
    inbox.shows(first)
    for key, session in (("j", second), ("j", third), ("j", third), ("k", second)):
        page.keyboard.press(key)
        inbox.shows(session)
        expect(inbox.open).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"run={second}"))


@FULL
def test_what_somebody_else_has_answered_is_said_calmly_and_not_taken_away(window: Window, api: Api) -> None:
    first, second = asked(api, window, 2)
    inbox = InboxPage(window)
    inbox.shows(first)
    with another(api, "ada", "approve") as ada:
        ada.post(f"/sessions/{first}/answer", value="refuse", ask="ask_1")
    expect(inbox.detail).to_contain_text(re.compile(r"Already answered by ada at .*\d\d:\d\d:\d\d: “refuse”."))
    expect(inbox.queue.locator(".item")).to_have_count(1)
    expect(inbox.detail.get_by_role("button", name=APPROVE)).to_have_count(0)
    inbox.page.keyboard.press("j")
    inbox.shows(second)


@FULL
def test_an_ask_is_taken_given_and_handed_over(window: Window, api: Api) -> None:
    with another(api, "bea", "operate") as bea:
        session = bea.start("cleaner", goal("Clean what bea began"))
        until(window.page, lambda: any(one["session"] == session for one in api.get("/inbox")["asks"]))
        inbox = InboxPage(window)
        inbox.shows(session)
        expect(inbox.open).to_contain_text("assigned to bea")
        expect(inbox.detail).to_contain_text("Assigned to bea")
        inbox.page.keyboard.press("t")
        expect(inbox.detail).to_contain_text(re.compile(r"Assigned to you since .*\d\d:\d\d:\d\d"))
        expect(inbox.open).to_contain_text("yours")

        inbox.detail.get_by_role("button", name="assign to…").click()
        name = inbox.detail.get_by_role("textbox", name="Assign it to")
        expect(name).to_be_focused()
        inbox.page.keyboard.press("Escape")
        expect(inbox.detail.get_by_role("button", name="assign to…")).to_be_focused()
        inbox.page.keyboard.press("Enter")
        expect(name).to_be_focused()
        inbox.page.keyboard.type("cleo")
        inbox.page.keyboard.press("Enter")
        expect(inbox.detail).to_contain_text("Assigned to cleo")
        inbox.detail.get_by_role("button", name=re.compile("^Take it")).click()
        expect(inbox.detail).to_contain_text("Assigned to you since")

        mine = api.start("cleaner", goal("Clean what I began"))
        until(window.page, lambda: any(one["session"] == mine for one in api.get("/inbox")["asks"]))
        head = inbox.page.locator(".pagehead")
        head.get_by_role("button", name="Hand over for an hour").click()
        head.get_by_role("textbox", name="Hand over for an hour to").fill("bea")
        inbox.page.keyboard.press("Enter")
        expect(head).to_contain_text("Handed over to bea for 1 hour.")
        expect(inbox.queue.get_by_text("Clean what I began").locator("..")).to_contain_text("assigned to bea")
        api.post("/inbox/hand-over", to="bea", seconds=0)


@FULL
def test_new_asks_come_by_themselves_and_stand_by_their_deadline(window: Window, api: Api) -> None:
    inbox = InboxPage(window)
    expect(inbox.page.get_by_role("main")).to_contain_text(
        re.compile(r"Nothing needs you\.\d+ sessions? runs? inside (its|their) limits\.")
    )
    (waits,) = asked(api, window, 1)
    inbox.shows(waits)
    (chooses,) = asked(api, window, 1, "chooser")
    expect(inbox.queue.locator(".item")).to_have_count(2)
    # Nothing is taken from who reads.
    expect(inbox.detail.locator("code").first).to_have_text(waits)
    inbox.page.keyboard.press("j")
    inbox.shows(chooses)
    expect(inbox.detail).to_contain_text("Without an answerthe agent is notified that no answer came, at")
    inbox.detail.get_by_role("button", name="replace the ORM").click()
    expect(inbox.status).to_have_text("You answered “replace the ORM” to chooser.")
    until(inbox.page, lambda: len(answers(api, chooses)) == 1)


@FULL
def test_a_lost_and_a_refused_inbox_say_so(opening: Opening) -> None:
    window = opening()
    window.page.route("**/api/v1/inbox", lambda route: route.abort())
    page = window.open("?inbox")
    expect(page.get_by_role("main")).to_contain_text("The server has not answered since")
    expect(window.top).to_contain_text("Server does not answer")
    window.page.unroute("**/api/v1/inbox")
    expect(page.get_by_role("main")).to_contain_text("Nothing needs you.")

    problem = {"status": 403, "code": "forbidden", "title": "No", "detail": "This token may not read the inbox."}
    window.page.route("**/api/v1/inbox", lambda route: route.fulfill(status=403, json=problem))
    expect(window.open("?inbox").get_by_role("main")).to_contain_text("This token may not read the inbox.")


@FULL
def test_an_answer_that_could_not_be_given_is_not_shown_as_given(opening: Opening, api: Api) -> None:
    window = opening()
    (session,) = asked(api, window, 1)
    inbox = InboxPage(window)
    inbox.shows(session)
    problem = {"status": 409, "code": "not_allowed", "title": "No", "detail": "It is halted. Lift that first."}
    window.page.route("**/answer", lambda route: route.fulfill(status=409, json=problem))
    inbox.page.keyboard.press("x")
    expect(inbox.detail).to_contain_text("It is halted. Lift that first.")
    expect(inbox.detail.get_by_role("button", name=APPROVE)).to_be_visible()
    assert answers(api, session) == []


@FULL
def test_who_may_only_watch_reads_and_is_told_what_it_takes(opening: Opening, api: Api) -> None:
    window = opening(token=api.post("/tokens", name="guest", role="watch")["token"])
    (session,) = asked(api, window, 1)
    inbox = InboxPage(window)
    inbox.shows(session)
    expect(inbox.detail).to_contain_text("Your token cannot answer this. It needs the role approve.")
    expect(inbox.detail.get_by_role("button")).to_have_count(0)
    inbox.page.keyboard.press("a")
    assert answers(api, session) == []


@FULL
def test_redirect_opens_the_run_with_its_composer(window: Window, api: Api) -> None:
    (session,) = asked(api, window, 1)
    inbox = InboxPage(window)
    inbox.shows(session)
    inbox.page.keyboard.press("r")
    run = RunPage(inbox.page)
    expect(run.say).to_be_focused()
    expect(inbox.page).to_have_url(re.compile(rf"\?run={session}$"))


def test_the_inbox_fits_a_phone_and_axe_finds_nothing_grave(opening: Opening, api: Api) -> None:
    window = opening(bypass_csp=True, has_touch=True)
    (session, *_) = asked(api, window, 2)
    inbox = InboxPage(window)
    inbox.shows(session)
    inbox.detail.get_by_role("button", name=re.compile("^Ask back")).click()
    inbox.page.locator(".pagehead").get_by_role("button", name="Hand over").click()
    inbox.page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = []
    for theme, (width, height) in THEMES:
        inbox.page.emulate_media(color_scheme=theme)
        inbox.page.set_viewport_size({"width": width, "height": height})
        expect(inbox.page.locator("html")).to_have_attribute("data-theme", theme)
        window.is_narrow()
        found += [f"{theme} {width}: {one}" for one in grave(window)]
        if (width, height) == PHONE:
            hit_by_a_finger(window, "main")
    assert found == []


def test_what_an_agent_made_stands_in_the_inbox_until_somebody_has_looked_and_said_what_it_is(
    opening: Opening, api: Api
) -> None:
    window = opening(bypass_csp=True)
    session = api.start("maker", goal("Take notes"))
    until(window.page, lambda: bool(api.get("/artifacts?due=true")["artifacts"]))
    inbox = InboxPage(window)
    expect(inbox.open).to_contain_text("1 item to review")
    expect(inbox.open).to_contain_text("<b>notes</b>.md")
    made = inbox.page.get_by_role("article", name="Made by agents")
    expect(made).to_contain_text("No documentation.")
    inbox.page.evaluate(AXE.read_text(encoding="utf-8"))
    assert grave(window) == []
    made.get_by_role("textbox", name="What it is").fill("what was tried")
    inbox.page.keyboard.press("Enter")
    expect(inbox.page.get_by_role("main")).to_contain_text("Nothing needs you.")
    [kept] = api.get(f"/artifacts?session={session}")["artifacts"]
    assert (kept["documentation"], kept["reviewed_by"], kept["due_at"] > kept["reviewed_at"]) == (
        "what was tried",
        "local",
        True,
    )


def test_the_inbox_offers_the_new_cap_of_a_run_that_has_reached_its_own(window: Window, api: Api) -> None:
    session = api.start("memo", goal("costly"), budget=2)
    until(window.page, lambda: api.status(session) == "paused")
    [review] = api.get(f"/sessions/{session}")["asks"]
    inbox = InboxPage(window)
    inbox.queue.get_by_text(review["prompt"][:30]).first.click()
    field = inbox.detail.get_by_label("New cap in dollars")
    assert f"Raise the budget to ${field.input_value()} or more" in review["prompt"]
    field.fill("20")
    inbox.detail.get_by_role("button", name="Raise the cap to $20 and resume").click()
    until(window.page, lambda: api.status(session) == "running")
    assert api.get(f"/sessions/{session}")["terms"]["budget"] == 20
