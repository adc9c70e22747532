"""Cancel: the gate shut, the preview of each choice, the receipt; and every way of leaving the preview."""

import contextlib
import json
import re

import pytest
from playwright.sync_api import Error, Route, expect

from tests.console.agents import GATES
from tests.console.conftest import Opening
from tests.console.pages import GUARD, PHONE, Api, RunPage, Window, standstill, started, until

pytestmark = pytest.mark.timeout(180)


def previewed(run: RunPage) -> None:
    """Press Cancel, and wait until what each choice comes to is there."""
    run.press("Cancel")
    expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()


def test_the_first_press_shuts_the_gate_and_the_receipt_says_what_became_of_each(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo and send it")
    expect(run.call("send_report")).to_contain_text("running")
    previewed(run)

    expect(run.tray).to_contain_text("The gate is shut. Nothing new starts. Choose what to undo.")
    run.is_at("pausing")
    expect(run.sentence).to_contain_text(re.compile(r"Still running: send_report .* held for your choice \d\d:\d\d"))
    expect(run.slot("Keep going")).to_have_accessible_name(re.compile("resumes where it stopped"))
    expect(run.slot("Redirect")).to_have_accessible_name(re.compile("instead of cancelling"))
    default = run.preview.get_by_role("radio", name="Undo what is in flight")
    expect(default).to_be_checked()
    expect(default).to_be_focused()
    sent = run.preview.get_by_role("row", name="send_report")
    expect(sent.get_by_role("cell")).to_have_text(["finishes; cannot be undone"] * 3)
    table = run.preview.get_by_role("row", name="create_table")
    expect(table.get_by_role("cell")).to_have_text(["kept", "undone", "kept"])
    expect(run.preview.get_by_role("row", name="fetch_customers").get_by_role("cell")).to_have_text(
        ["nothing to undo"] * 3
    )
    rows = run.preview.get_by_role("rowheader").all_inner_texts()
    assert "send_report" in rows[0], "what is in flight comes first"
    assert "fetch_customers" in rows[-1], "reads come last"

    run.preview.get_by_role("radio", name="Undo everything possible").check()
    expect(run.slot("Cancel run")).to_have_accessible_name(re.compile("undo 1, newest first"))
    run.press("Cancel run")

    run.is_at("cancelling")
    expect(run.receipt).to_contain_text("Cancelled except send_report, still running")
    expect(run.receipt).to_contain_text("provisional")
    expect(run.slot("Pause")).to_have_accessible_name(re.compile("refused: it is being cancelled"))
    expect(run.slot("Force")).to_be_visible()
    GATES.open(session, "send")

    run.is_at("cancelled")
    expect(run.receipt).to_contain_text(
        re.compile(r"Cancelled\. 1 undone, 1 cannot be undone, 1 hold released\.by you at \d\d:\d\d:\d\d")
    )
    expect(run.receipt).to_contain_text("undo everything possible · final")
    outcomes = run.receipt.get_by_role("listitem")
    expect(outcomes).to_contain_text([re.compile("^cannot be undone ?send_report"), "undone", "undone"])
    expect(run.receipt).to_contain_text("Written: survives the end of the process")
    (cancel,) = api.events(session, "session.cancel_requested")
    assert cancel["data"]["undo"] == "all"
    assert api.events(session, "session.pause_requested")[0]["data"]["lapses"] == 30

    with window.page.expect_download() as saved:
        run.receipt.get_by_role("button", name="Download JSON").click()
    receipt = json.loads(saved.value.path().read_text(encoding="utf-8"))
    assert {line["outcome"] for line in receipt["lines"]} == {"cannot be undone", "undone"}


def test_only_stop_keeps_everything_and_what_is_kept_can_still_be_undone(window: Window, api: Api) -> None:
    _, run = started(window, api, "Write the memo")
    expect(run.log).to_contain_text("word 1")
    previewed(run)
    run.preview.get_by_role("radio", name="Only stop").check()
    window.page.wait_for_timeout(GUARD)
    window.page.keyboard.press("Enter")
    run.is_at("cancelled")
    expect(run.log).to_contain_text(re.compile(r"cut by your cancel preview at \d\d:\d\d:\d\d · \d+ tokens kept"))
    expect(run.slot("Undo")).to_have_accessible_name(re.compile("1 kept effect can still be undone"))
    expect(run.slot("New turn")).to_be_visible()
    run.press("Undo")
    run.tray.get_by_role("button", name="Undo 1 effect, newest first").click()
    expect(run.slot("Undo")).to_have_accessible_name(re.compile("nothing left to undo"))
    expect(run.receipt.get_by_role("listitem").filter(has_text="create_table")).to_contain_text("undone")


def test_leaving_the_preview_lets_the_run_go_on(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    expect(run.log).to_contain_text("word 1")
    previewed(run)
    run.press("Keep going")
    run.is_at("running")
    expect(run.tray).to_have_count(0)
    expect(run.slot("Pause")).to_be_focused()

    previewed(run)
    window.page.keyboard.press("Escape")
    run.is_at("running")
    expect(run.slot("Cancel")).to_be_focused()
    expect(run.log).to_contain_text("Held for the cancel preview by you")
    assert api.events(session, "session.cancel_requested") == []


def test_a_run_that_was_paused_before_stays_paused_when_the_preview_is_left(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    run.slot("Pause").click()
    run.is_at("paused")
    previewed(run)
    expect(run.slot("Keep it")).to_have_accessible_name(re.compile("stays paused, as it was"))
    window.page.keyboard.press("Escape")
    expect(run.slot("Resume")).to_be_visible()
    assert api.status(session) == "paused"
    assert len(api.events(session, "session.pause_requested")) == 1


def test_a_redirect_instead_of_the_cancel_goes_on_with_it(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    expect(run.log).to_contain_text("word 1")
    previewed(run)
    run.press("Redirect")
    expect(run.tray).to_contain_text("Instead of cancelling: the hold is lifted, and it continues with this.")
    window.page.keyboard.press("Escape")
    expect(run.preview).to_be_visible()
    run.press("Redirect")
    run.say.fill("Shorter")
    run.composer.get_by_role("radio", name="Goal").check()
    window.page.keyboard.press("Enter")
    run.is_at("running")
    expect(run.log).to_contain_text("Told: Shorter.")
    assert api.events(session, "session.cancel_requested") == []


def test_a_page_that_is_closed_or_left_lifts_its_hold(opening: Opening, api: Api) -> None:
    window = opening()
    session, run = started(window, api, "Write the memo")
    previewed(run)
    window.page.close(run_before_unload=False)
    watching = opening()
    run = watching.watch(session)
    run.is_at("running")

    previewed(run)
    watching.top.get_by_role("link", name="Fleet").click()
    until(watching.page, lambda: api.status(session) == "running")
    assert api.events(session, "session.cancel_requested") == []


def test_the_hold_of_a_page_that_is_gone_lapses_and_the_time_line_says_so(opening: Opening, api: Api) -> None:
    window = opening()
    session, run = started(window, api, "Write the memo")
    expect(run.log).to_contain_text("word 1")
    asked: list[object] = []

    def sooner(route: Route) -> None:
        wish: dict[str, object] = json.loads(route.request.post_data or "")
        asked.append(wish["lapses"])
        route.continue_(post_data=json.dumps({**wish, "lapses": 1}))

    window.page.route("**/pause", sooner)
    previewed(run)
    assert asked == [30], "a page that is gone holds a run for 30 seconds at most"
    with contextlib.suppress(Error):  # it ends as a browser does that is killed: nothing is sent any more
        window.page.goto("chrome://crash")

    watching = opening().watch(session)
    watching.is_at("running")
    expect(watching.log).to_contain_text(
        re.compile(r"the hold expired at \d\d:\d\d:\d\d, nothing was chosen; it continued")
    )
    (resumed,) = api.events(session, "session.resumed")
    assert resumed["data"]["by"] == "lapse"


def test_a_hold_that_somebody_else_lifts_closes_the_preview_and_cancels_nothing(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    previewed(run)
    api.post(f"/sessions/{session}/resume")
    run.is_at("running")
    expect(run.preview).to_have_count(0)
    expect(run.tray).to_contain_text("The hold was lifted: it is running now. Nothing was cancelled.")
    expect(run.slot("Cancel")).to_be_visible()


def test_a_double_press_on_cancel_confirms_nothing(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    with standstill(window.page):
        run.slot("Cancel").dblclick()
        expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()
    assert api.events(session, "session.cancel_requested") == []
    run.press("Keep going")
    run.is_at("running")
    with standstill(window.page):
        run.slot("Pause").dblclick()
        run.is_at("paused")
    assert len(api.events(session, "session.resumed")) == 1


def test_force_shows_first_what_it_comes_to_and_only_the_second_press_ends_it_half_way(
    window: Window, api: Api
) -> None:
    session, run = started(window, api, "Settle the order with a draft", task_class="protected")
    expect(run.call("write_draft")).to_contain_text("running")
    previewed(run)
    run.preview.get_by_role("radio", name="Undo everything possible").check()
    run.press("Cancel run")
    run.is_at("cancelling, finishes first")
    expect(run.slot("Force")).to_have_accessible_name(re.compile("shows a preview first"))

    # By key: what it comes to is read, and left.
    run.key("c")
    heading = run.tray.get_by_text("Force stops this turn before it is finished. This cannot be undone.")
    expect(heading).to_be_focused()
    expect(heading).to_have_accessible_description(
        re.compile("Still running: write_draft.*discarded.*It is not restarted automatically")
    )
    expect(run.tray).to_contain_text("Its effects: undo everything possible, as chosen with the cancel.")
    expect(run.tray).not_to_contain_text("a second time")  # all of it is undone
    expect(run.slot("Force it")).to_have_accessible_name(re.compile("discarded; cannot be undone"))
    window.page.keyboard.press("Escape")
    expect(run.slot("Force")).to_be_focused()
    expect(run.tray).to_have_count(0)
    # By hand: a second press in the same place confirms nothing before the guard is over.
    with standstill(window.page):
        run.slot("Force").dblclick()
        expect(heading).to_be_visible()
        run.slot("Force it").click()
    run.press("Let it finish")
    expect(run.tray).to_have_count(0)
    assert api.events(session, "session.cancel_requested") == []

    run.press("Force")
    expect(heading).to_be_focused()
    run.key("Enter")
    run.is_at("cancelled")
    (forced,) = api.events(session, "session.cancel_requested")
    assert (forced["data"]["force"], forced["data"]["undo"]) == (True, "all"), "as was chosen with the cancel"
    expect(run.receipt).not_to_contain_text("restarted as")
    expect(run.slot("Undo")).to_be_focused()


def test_what_may_happen_a_second_time_in_a_session_that_begins_anew_is_said(window: Window, api: Api) -> None:
    session, run = started(window, api, "Settle the order with a draft", task_class="protected")
    expect(run.call("write_draft")).to_contain_text("running")
    api.post(f"/sessions/{session}/cancel", undo="none")
    run.is_at("cancelling, finishes first")
    run.press("Force")
    expect(run.tray).to_contain_text("gets no more time; its result may stay unknown.")
    api.post(f"/sessions/{session}/cancel", undo="none", grace=0, force=True, restart=True)
    run.is_at("cancelled")
    expect(run.receipt).to_contain_text(f"write_draft may happen a second time in {session}-again.")
    window.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    said = run.sentence
    expect(said).to_have_text(
        f"Restarted as {session}-again. Stopped by force before it was finished. Its progress is discarded."
    )
    assert said.evaluate("one => one.scrollHeight <= one.clientHeight"), "nothing of it is cut"
    GATES.open(f"{session}-again", "draft")
    GATES.open(f"{session}-again", "words")


def test_what_ends_while_somebody_reads_what_a_force_comes_to_is_not_forced(window: Window, api: Api) -> None:
    session, run = started(window, api, "Settle the order with a draft", task_class="protected")
    expect(run.call("write_draft")).to_contain_text("running")
    previewed(run)
    run.press("Cancel run")
    run.press("Force")
    expect(run.tray).to_contain_text("Force stops this turn before it is finished.")
    GATES.open(session, "words")
    GATES.open(session, "draft")
    run.is_at("completed")
    expect(run.tray).to_contain_text("Nothing was forced: it is completed now.")
    expect(run.slot("Pause")).to_be_focused()  # what had the focus went with the tray
    assert api.events(session, "session.cancel_requested") == []
