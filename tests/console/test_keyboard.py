"""Everything with the keyboard alone; what a screen reader is told; where the focus goes, and where it does not."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.agents import GATES, goal
from tests.console.pages import GUARD, Api, RunPage, Window, started, until

pytestmark = pytest.mark.timeout(180)


def test_a_run_is_started_paused_redirected_resumed_and_cancelled_without_a_mouse(window: Window, api: Api) -> None:
    page, keys = window.open(), window.page.keyboard
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    keys.press("n")
    expect(page.get_by_role("heading", name="New run")).to_be_visible()
    tab_to(page, page.get_by_role("radio").first)
    while not page.get_by_role("radio", name="memo").is_checked():
        keys.press("ArrowDown")
    keys.press("Tab")
    expect(page.get_by_label("Goal")).to_be_focused()
    keys.type(goal("Write the memo, p r c n g f"))
    tab_to(page, page.get_by_role("button", name="Start memo"))
    keys.press("Enter")
    run = RunPage(page)
    run.is_at("running")
    session = page.url.partition("run=")[2]

    run.key("p")
    run.is_at("paused")
    expect(run.polite).to_have_text(re.compile(r"Paused in step \d+\. Nothing runs\. Press p to resume\."))
    run.key("r")
    expect(run.say).to_be_focused()
    keys.type("p, r and c are letters here")
    expect(run.say).to_have_value("p, r and c are letters here")
    assert api.status(session) == "paused"
    keys.press("Enter")
    expect(run.composer.get_by_role("radio", name="Step")).to_be_focused()
    keys.press("Space")
    keys.press("Enter")
    expect(run.tray.get_by_role("insertion")).to_have_text("p, r and c are letters here")
    run.key("p")
    run.is_at("running")
    expect(run.log).to_contain_text("Told: p, r and c are letters here.")

    run.key("c")
    expect(run.preview.get_by_role("radio", name="Undo what is in flight")).to_be_focused()
    keys.press("Escape")
    run.is_at("running")
    expect(run.slot("Cancel")).to_be_focused()
    run.key("c")
    expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()
    keys.press("ArrowDown")
    expect(run.preview.get_by_role("radio", name="Undo everything possible")).to_be_checked()
    run.key("Enter")
    run.is_at("cancelled")
    expect(run.polite).to_have_text(re.compile(r"Cancelled\. 1 undone, 1 hold released\."))


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until the focus is there."""
    for _ in range(40):
        if target.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press("Tab")
    expect(target).to_be_focused()


def test_keys_are_off_with_a_modifier_in_text_fields_and_when_they_are_switched_off(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    run.is_at("running")
    for press in ("Control+p", "Alt+p", "Shift+p", "Meta+c"):
        window.page.keyboard.press(press)
    assert api.status(session) == "running"
    run.key("r")
    for letter in "prcfnu?":
        window.page.keyboard.press(letter)
    expect(run.say).to_have_value("prcfnu?")
    expect(run.log.page.get_by_text("following is off")).to_have_count(0)
    window.page.keyboard.press("Escape")
    expect(run.composer).to_have_count(0)
    expect(run.slot("Redirect")).to_be_focused()

    window.open("?settings")
    window.page.get_by_label("Single keys").uncheck()
    run = window.watch(session)
    window.page.wait_for_timeout(GUARD)
    for letter in "prcfn?":
        window.page.keyboard.press(letter)
    run.is_at("running")
    expect(run.tray).to_have_count(0)
    expect(window.page.get_by_text("following is off")).to_have_count(0)
    assert api.events(session, "session.pause_requested") == []


def test_focus_goes_through_the_tray_and_then_the_slots_from_left_to_right(window: Window, api: Api) -> None:
    _, run = started(window, api, "Write the memo")
    run.key("r")
    page, order = window.page, list[str]()
    for _ in range(6):
        order.append(
            page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText")
        )
        page.keyboard.press("Tab")
    assert order[0] == "What should it do instead?"
    assert [one.split()[0] for one in order[1:]] == ["Redirect", "close", "Pause", "Redirect", "Cancel"]


def test_the_focus_is_never_taken_because_something_changed(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo and send it")
    export = window.page.get_by_role("button", name="Export")
    export.focus()
    api.post(f"/sessions/{session}/pause")
    run.is_at("pausing")
    expect(export).to_be_focused()
    GATES.open(session, "send")
    run.is_at("paused")
    api.post(f"/sessions/{session}/redirect", text="Shorter", level="step")
    expect(run.tray).to_contain_text("changed the step")
    expect(export).to_be_focused()

    asks = api.start("chooser", goal("Fix something"))
    other = window.watch(asks)
    fleet = window.top.get_by_role("link", name="Fleet")
    fleet.focus()
    api.post(f"/sessions/{asks}/answer", value="login bug", ask="ask_1")
    expect(other.tray).to_contain_text("what is the branch called?")
    expect(fleet).to_be_focused()


def test_typing_in_the_tray_outlives_what_happens_meanwhile(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    run.key("r")
    window.page.keyboard.type("EU fi")
    api.post(f"/sessions/{session}/pause")
    run.is_at("paused")
    window.page.keyboard.type("rst")
    expect(run.say).to_be_focused()
    expect(run.say).to_have_value("EU first")


def test_an_ask_is_answered_with_one_key_unless_there_are_two(window: Window, api: Api) -> None:
    session = api.start("cleaner", goal("Clean the contacts"))
    run = window.watch(session)
    run.is_at("waiting")
    expect(run.assertive).to_have_text(re.compile("Waiting for an answer: Allow"))
    window.page.keyboard.press("e")
    expect(run.tray.get_by_label("Your answer")).to_be_focused()
    window.page.keyboard.type("ax")
    window.page.keyboard.press("Escape")
    assert api.events(session, "ask.answered") == []
    run.slot("Pause").focus()
    window.page.keyboard.press("a")
    run.is_at("completed")


def test_what_is_said_changes_with_each_transition_and_not_with_each_word(window: Window, api: Api) -> None:
    session = api.start("memo", goal("Write the memo and send it"))
    window.page.add_init_script(
        """addEventListener("DOMContentLoaded", () => {
            window.heard = [];
            new MutationObserver(() => {
                for (const one of document.querySelectorAll(".handle [aria-live=polite]")) {
                    if (one.textContent && one.textContent !== window.heard.at(-1)) window.heard.push(one.textContent);
                }
            }).observe(document.body, { childList: true, subtree: true, characterData: true });
        });"""
    )
    run = window.watch(session)
    expect(run.call("send_report")).to_contain_text("running")
    run.key("p")
    run.is_at("pausing")
    GATES.open(session, "send")
    run.is_at("paused")
    run.key("p")
    run.is_at("running")
    expect(run.log).to_contain_text("word 5")
    GATES.open(session, "words")
    run.is_at("completed")
    expect(run.polite).to_have_text("Completed.")
    heard = window.page.evaluate("window.heard")
    expected = [
        "Running.",
        "Asking to pause.",
        "Pausing. Still running: send_report. Nothing else starts.",
        re.compile(r"Paused before step \d+\. Nothing runs\. Press p to resume\."),
        "Running.",
        "Completed.",
    ]
    told = iter(one for one in heard if one != "Pausing. Nothing else starts.")
    for wanted in expected:
        assert any(wanted.fullmatch(one) if isinstance(wanted, re.Pattern) else wanted == one for one in told), heard
    assert len(heard) <= len(expected) + 2, heard
    expect(window.page.get_by_role("log")).to_have_attribute("aria-live", "off")
    assert run.handle.locator("time[aria-live]:not([aria-live=off])").count() == 0


def test_the_list_is_walked_and_paused_with_keys(window: Window, api: Api) -> None:
    wanted = goal("Walked over")
    session = api.start("memo", wanted)
    page = window.open(f"?q={wanted.replace(' ', '+')}")
    row = page.get_by_role("link", name=wanted)
    expect(row).to_be_visible()
    page.keyboard.press("j")
    expect(row).to_be_focused()
    page.keyboard.press("p")
    until(page, lambda: api.status(session) == "paused")
    expect(page.get_by_role("row", name=wanted)).to_contain_text("paused")
    page.keyboard.press("/")
    expect(page.get_by_label("Filter sessions")).to_be_focused()
    page.keyboard.type("p")  # a letter here, and no pause; the list would follow it
    page.keyboard.press("Backspace")
    page.keyboard.press("Shift+Tab")
    row.focus()
    page.keyboard.press("Enter")
    RunPage(page).is_at("paused")
    expect(page.get_by_role("heading", level=1)).to_be_focused()  # the row went with the list
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("f")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()


def test_enter_leads_from_the_filter_to_the_rows_and_escape_out_of_the_words(window: Window, api: Api) -> None:
    wish = goal("Found by its filter")
    session = api.start("chooser", wish)
    page = window.open()
    expect(page.locator(f"tr[data-id='{session}']")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type(wish)
    page.keyboard.press("Enter")  # before the filter has been asked for
    expect(page.get_by_role("link", name=wish)).to_be_focused()
    expect(page.locator("tr[data-id]")).to_have_count(1)
    page.keyboard.press("Enter")
    run = RunPage(page)
    expect(run.tray.get_by_role("button", name="In words…")).to_be_visible()
    run.key("e")
    expect(page.get_by_label("Your answer")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Your answer")).to_have_count(0)
    expect(run.tray.get_by_text("Which first?")).to_be_focused()
    run.is_at("waiting")
