"""What a person does with a run, in a real Chromium against a real server."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Request, Route, expect

from tests.console.agents import GATES, goal
from tests.console.pages import Api, RunPage, Window, link_for, started, until
from tests.server.live_server import Running

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def stranger(browser: Browser, server: Running) -> Iterator[Window]:
    """A window of a browser that was never here."""
    context = browser.new_context()
    one = Window(context, server.url)
    yield one
    one.is_calm()
    context.close()


def test_the_link_lets_a_browser_in_and_a_run_is_started_and_seen(stranger: Window, api: Api) -> None:
    window = stranger
    page = window.page
    page.goto(link_for(window.url))
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    assert page.url == f"{window.url}/", "the code is not left in the address"

    window.top.get_by_role("link", name="New run").click()
    page.get_by_role("radio", name="memo").check()
    wanted = goal("Write the churn memo for the third quarter, which is costly")
    page.get_by_label("Goal").fill(wanted)
    page.get_by_role("combobox", name="Class").select_option("long")
    page.get_by_label("Cap in dollars").fill("10")
    page.get_by_role("button", name="Start memo").click()

    run = RunPage(page)
    expect(page.get_by_role("heading", name=wanted)).to_be_visible()
    run.is_at("running")
    expect(run.handle.get_by_role("meter", name="Spent of cap")).to_have_attribute(
        "aria-valuetext", re.compile(r"\$2\.50 of \$10$")
    )
    expect(page.get_by_text("Score churn risk, running")).to_be_attached()
    expect(page.get_by_text("Write the memo, queued")).to_be_attached()
    expect(run.call("create_table")).to_contain_text("scratch.scores: 97 rows")
    expect(run.call("create_table")).to_contain_text("reversible")
    expect(run.log).to_contain_text("Scoring all 412 accounts.")
    session = page.url.partition("run=")[2]
    head = api.get(f"/sessions/{session}")
    assert (head["goal"], head["terms"]["task_class"], head["terms"]["budget"]) == (wanted, "long", 10)


def test_the_new_run_page_shows_what_each_agent_does_and_what_to_ask_of_it(window: Window, api: Api) -> None:
    known = {agent["name"]: agent for agent in api.get("/agents")["agents"]}
    assert known["writer"]["description"] == "Writes a long page."
    assert known["writer"]["goals"] == ["Write about tides", "Write about <b>moons</b>"]
    page = window.open("?new&agent=writer")
    for agent in known.values():
        if agent["description"]:
            expect(page.get_by_role("radiogroup", name="Agent")).to_contain_text(agent["description"])
    wish = page.get_by_label("Goal")
    expect(wish).to_have_attribute("placeholder", "Write about tides")
    page.get_by_role("button", name="Write about <b>moons</b>").click()
    expect(wish).to_have_value("Write about <b>moons</b>")
    page.get_by_role("radio", name="memo").check()
    expect(page.get_by_role("button", name="Write about tides")).to_have_count(0)


def test_a_new_run_that_is_refused_says_why_and_can_be_sent_again(window: Window) -> None:
    page = window.open("?new&agent=memo")
    page.get_by_label("Cap in dollars").fill("nothing")
    page.get_by_role("button", name="Start memo").click()
    expect(page.get_by_role("status")).to_have_text("The cap is a number of dollars above 0.")
    page.get_by_label("Cap in dollars").fill("")
    page.get_by_label("Goal").fill(goal("After all"))
    page.get_by_role("button", name="Start memo").click()
    RunPage(page).is_at("running")


def test_pause_acts_on_the_first_press_and_asks_why_afterwards(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    run.is_at("running")
    expect(run.slot("Pause")).to_have_accessible_name(re.compile("resume keeps context"))

    run.slot("Pause").click()

    run.is_at("paused")
    assert api.status(session) == "paused"
    expect(run.sentence).to_contain_text(re.compile(r"In step \d+\. Nothing runs\. Paused \d\d:\d\d by you"))
    expect(run.log).to_contain_text(re.compile(r"cut by your pause at \d\d:\d\d:\d\d"))
    run.tray.get_by_role("button", name="looks wrong").click()
    expect(run.sentence).to_contain_text("“looks wrong”")
    expect(run.tray).to_have_count(0)
    until(window.page, lambda: api.get(f"/sessions/{session}")["pause"]["reason"] == "looks wrong")
    expect(run.log).to_contain_text("“looks wrong”")


def test_a_pause_and_a_resume_are_one_request_each(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    run.is_at("running")
    sent: list[str] = []

    def count(request: Request) -> None:
        _, is_about_it, what = request.url.partition(f"/sessions/{session}")
        # These two have a rhythm of their own, whatever is pressed.
        if is_about_it and what not in ("/signals", "/contact"):
            sent.append(f"{request.method} {what}")

    window.page.on("request", count)
    run.press("Pause")
    run.is_at("paused")
    run.press("Resume")
    run.is_at("running")
    run.press("Pause")
    run.is_at("paused")
    assert sent == ["POST /pause", "POST /resume", "POST /pause"]


def test_a_reason_in_own_words_is_kept_and_one_that_is_skipped_is_not_asked_again(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    run.slot("Pause").click()
    run.is_at("paused")
    run.tray.get_by_role("button", name="skip").click()
    expect(run.tray).to_have_count(0)
    run.press("Resume")
    run.is_at("running")

    run.press("Pause")
    run.tray.get_by_role("button", name="other…").click()
    expect(run.tray.get_by_label("Reason")).to_be_focused()
    window.page.keyboard.type("the boss calls")
    window.page.keyboard.press("Enter")
    expect(run.sentence).to_contain_text("“the boss calls”")
    assert [event["data"]["reason"] for event in api.events(session, "session.pause_requested")] == [
        "",
        "",
        "the boss calls",
    ]


def test_while_it_pauses_the_call_is_named_and_paused_is_said_only_when_it_has_stopped(
    window: Window, api: Api
) -> None:
    session, run = started(window, api, "Write the memo and send it")
    expect(run.call("send_report")).to_contain_text("running")
    run.slot("Pause").click()

    run.is_at("pausing")
    expect(run.sentence).to_contain_text(re.compile(r"Still running: send_report \d\d:\d\d"))
    expect(run.sentence).to_contain_text("irreversible, so it finishes first. Nothing else starts.")
    expect(run.slot("Pausing")).to_have_attribute("aria-disabled", "true")
    expect(run.slot("Pausing")).to_have_accessible_name(re.compile("waits for send_report"))
    expect(run.call("send_report")).to_contain_text("still running: it cannot be interrupted")
    assert api.status(session) == "pausing"

    GATES.open(session, "send")
    run.is_at("paused")
    expect(run.sentence).to_contain_text("Nothing runs.")
    expect(run.call("send_report")).to_contain_text("sent")


def test_a_call_that_can_be_torn_need_not_be_waited_for(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo with a draft")
    expect(run.call("write_draft")).to_contain_text("running")
    run.slot("Pause").click()
    run.is_at("pausing")
    expect(run.slot("Don't wait")).to_have_accessible_name(re.compile("aborts and undoes it now; done again on resume"))

    run.press("Don't wait")

    run.is_at("paused")
    expect(run.call("write_draft")).to_contain_text(re.compile("aborted.*undone"))
    GATES.open(session, "draft")
    run.press("Resume")
    expect(run.call("write_draft")).to_contain_text(re.compile(r"attempt \d.*written"))


def test_redirect_in_the_middle_of_a_text(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    expect(run.log).to_contain_text("word 3")
    run.press("Redirect")
    expect(run.say).to_be_focused()
    expect(run.tray).to_contain_text("Interrupts the text that is being written. What is written is kept.")
    expect(run.tray).to_contain_text("It keeps running while you type.")
    expect(run.composer.get_by_role("radio", checked=True)).to_have_count(0)

    run.say.fill("x" * 212)
    expect(run.composer.get_by_role("status")).to_have_text("212 / 200, shorten by 12")
    window.page.keyboard.press("Enter")
    expect(run.say).to_be_focused()
    expect(run.say).to_have_value("x" * 212)

    run.say.fill("Only accounts above $500 MRR")
    expect(run.composer.get_by_role("status")).to_have_text("28 / 200")
    window.page.keyboard.press("Enter")
    expect(run.composer.get_by_role("button", name="Choose step, goal or clarify")).to_be_visible()
    expect(run.composer.get_by_role("radio", name="Step")).to_be_focused()
    assert api.events(session, "session.redirected") == []

    window.page.keyboard.press("ArrowRight")
    expect(run.composer.get_by_role("radio", name="Goal")).to_be_checked()
    window.page.keyboard.press("ArrowLeft")
    run.composer.get_by_role("button", name="Redirect").click()

    expect(run.tray).to_have_count(0)
    expect(run.slot("Redirect")).to_be_focused()
    expect(run.log).to_contain_text("Told: Only accounts above $500 MRR.")
    expect(run.log).to_contain_text(re.compile(r"cut by you at \d\d:\d\d:\d\d · \d+ tokens? kept"))
    expect(run.log.locator(".superseded")).to_contain_text("Scoring all 412 accounts.")
    expect(run.log).to_contain_text(re.compile("You redirected the step.*seen by the agent after"))
    run.is_at("running")
    (said,) = api.events(session, "session.redirected")
    assert (said["data"]["text"], said["data"]["level"]) == ("Only accounts above $500 MRR", "step")


def test_the_difference_stands_before_the_resume_and_can_be_changed_and_taken_back(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    first = api.get(f"/sessions/{session}")["goal"]
    run.slot("Pause").click()
    run.is_at("paused")
    run.redirect("EU first", "Goal")
    expect(run.tray).to_contain_text("You changed the goal")
    expect(run.tray.get_by_role("deletion")).to_have_text(first)
    expect(run.tray.get_by_role("insertion")).to_have_text("EU first")
    expect(run.slot("Resume")).to_have_accessible_name(
        re.compile(r"(continues at step \d+|restarts this answer) with your change")
    )

    run.tray.get_by_role("button", name="change", exact=True).click()
    run.tray.get_by_label("New text").fill("EU first, then the US")
    window.page.keyboard.press("Enter")
    expect(run.tray.get_by_role("insertion")).to_have_text("EU first, then the US")

    run.redirect("and briefly", "Step")
    expect(run.tray.get_by_role("insertion")).to_have_text(["EU first, then the US", "and briefly"])
    run.tray.get_by_role("button", name="withdraw").last.click()
    expect(run.tray.get_by_role("insertion")).to_have_text(["EU first, then the US"])
    expect(run.log.get_by_role("deletion")).to_have_text("and briefly")

    run.press("Resume")
    expect(run.log).to_contain_text("Told: EU first, then the US.")
    expect(window.page.get_by_role("heading", level=1)).to_have_text("EU first, then the US")
    expect(run.log).not_to_contain_text("Told: and briefly")


def test_an_approval_names_its_effect_and_the_answer_is_used(window: Window, api: Api) -> None:
    session = api.start("cleaner", goal("Clean the contacts"))
    run = window.watch(session)
    run.is_at("waiting")
    expect(run.tray).to_contain_text(re.compile('Wants to *delete_records.*"crm.contacts", .38 items'))
    expect(run.tray).to_contain_text("Nobody has written to these 38 contacts since 2020.")
    names = run.tray.get_by_role("button").all_inner_texts()
    assert not any(re.match(r"(ok|yes|approve)\b", name, re.IGNORECASE) for name in names), names

    run.tray.get_by_role("button", name=re.compile("^Delete records: .*38 items")).click()

    run.is_at("completed")
    expect(run.log).to_contain_text("38 rows deleted from crm.contacts")
    expect(run.log).to_contain_text(re.compile("You answered"))
    expect(run.tray).to_have_count(0)
    assert len(api.events(session, "ask.answered")) == 1


def test_words_never_approve(window: Window, api: Api) -> None:
    session = api.start("cleaner", goal("Clean the contacts"))
    run = window.watch(session)
    run.tray.get_by_role("button", name="Ask back…").click()
    expect(run.tray.get_by_label("Your answer")).to_be_focused()
    expect(run.tray).to_contain_text("Text never approves")
    window.page.keyboard.type("yes, but only the first ten")
    window.page.keyboard.press("Enter")
    expect(run.tray).to_have_count(0)
    until(window.page, lambda: bool(api.events(session, "ask.answered")))
    expect(run.log).to_contain_text("yes, but only the first ten")
    assert not any("rows deleted" in str(event["data"]) for event in api.events(session, "step.finished"))


def test_choices_and_questions_are_answered_in_the_tray(window: Window, api: Api) -> None:
    session = api.start("chooser", goal("Fix something"))
    run = window.watch(session)
    expect(run.tray).to_contain_text(re.compile(r"Which first\?.*answer within 0?\d:\d\d"))
    expect(run.tray).to_contain_text("then: the agent is notified that no answer came")
    run.tray.get_by_role("button", name="login bug").click()
    expect(run.tray).to_contain_text("login bug: what is the branch called?")
    run.tray.get_by_label("Your answer").fill("fix/login")
    run.tray.get_by_role("button", name="Answer").click()
    run.is_at("completed")
    expect(run.sentence).to_contain_text("fix/login")
    assert api.status(session) == "completed"


def test_a_childs_question_is_answered_from_its_parent(window: Window, api: Api) -> None:
    session = api.start("parent", goal("Fix something"))
    run = window.watch(session)
    expect(run.tray).to_contain_text("asked by child")
    expect(run.tray).to_contain_text("Which first?")
    run.tray.get_by_label("Your answer").or_(run.tray.get_by_role("button", name="login bug")).first.click()
    field = run.tray.get_by_label("Your answer")
    if field.count():
        field.fill("login bug")
        window.page.keyboard.press("Enter")
    expect(run.tray).to_contain_text("login bug: what is the branch called?")
    run.tray.get_by_label("Your answer").fill("fix/it")
    window.page.keyboard.press("Enter")
    run.is_at("completed")
    expect(window.page.get_by_role("heading", name="Children")).to_be_visible()


def test_the_cap_is_raised_and_it_goes_on_in_one_press(window: Window, api: Api) -> None:
    """At its cap it pauses by itself: the next answer would cost as much as the last one."""
    session, run = started(window, api, "Write the costly memo", budget=2)
    expect(run.log).to_contain_text("This costs.")
    run.is_at("paused")
    expect(run.tray).to_contain_text("The cap of $2 is reached.")
    run.tray.get_by_label("New cap in dollars").fill("6")
    run.tray.get_by_role("button", name="Raise the cap to $6 and resume").click()
    run.is_at("running")
    expect(run.log).to_contain_text("word 1")
    expect(run.handle.get_by_role("meter", name="Spent of cap")).to_have_attribute(
        "aria-valuetext", re.compile("of \\$6")
    )
    expect(run.log).to_contain_text("Cap raised to $6")
    assert api.get(f"/sessions/{session}")["terms"]["budget"] == 6


def test_undo_after_the_end_and_a_new_turn(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    GATES.open(session, "words")
    run.is_at("completed")
    expect(run.slot("Pause")).to_have_accessible_name(re.compile("it has ended"))
    expect(run.slot("Undo")).to_have_accessible_name(re.compile("1 effect can be undone"))

    run.press("Undo")
    expect(run.tray.get_by_role("button", name="Undo 1 effect, newest first")).to_be_focused()
    expect(run.receipt).to_contain_text(re.compile("kept.*create_table"))
    window.page.keyboard.press("Enter")

    expect(run.log).to_contain_text("Undone as far as possible. 1 undone")
    expect(run.slot("Undo")).to_have_accessible_name(re.compile("nothing left to undo"))
    run.press("New turn")
    window.page.get_by_label("What should it do next?").fill("Now the rest")
    window.page.keyboard.press("Enter")
    expect(run.log).to_contain_text("Told: Now the rest.")
    run.is_at("completed")
    assert api.get(f"/sessions/{session}")["turn"] == 2


def test_a_run_that_failed_says_what_and_can_be_tried_again(window: Window, api: Api) -> None:
    session = api.start("breaks", goal("Join the accounts"))
    run = window.watch(session)
    run.is_at("failed")
    expect(run.sentence).to_contain_text("table mrr has no column acct_id")
    run.press("Try again")
    until(window.page, lambda: len(api.events(session, "session.failed")) == 2)
    run.is_at("failed")


def test_a_run_is_inspected_at_an_earlier_event_forked_and_exported(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")
    GATES.open(session, "words")
    run.is_at("completed")
    page = window.page
    window.open(f"?run={session}&at=5")
    shown = page.get_by_role("region", name="Inspect")
    expect(shown).to_contain_text("Event 5 of")
    expect(run.log).not_to_contain_text("Completed")
    run.is_at("completed")
    page.get_by_label("Journal position").press("ArrowRight")
    expect(shown).to_contain_text("Event 6 of")
    page.get_by_role("button", name="Fork, paused").click()
    run.is_at("paused")
    expect(run.log.get_by_text(f"forked from {session}@6")).to_be_visible()
    assert page.url.partition("run=")[2] != session
    page.go_back()
    expect(shown).to_contain_text("Event 6 of")
    page.get_by_role("slider", name="Course").press("End")
    expect(shown).to_have_count(0)
    run.is_at("completed")

    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    exported = saved.value.path().read_text(encoding="utf-8")
    assert session in exported
    assert "session.completed" in exported


def test_a_press_that_is_refused_says_so_in_the_tray(window: Window, api: Api) -> None:
    session, run = started(window, api, "Write the memo")

    def ended(route: Route) -> None:
        GATES.open(session, "words")
        until(window.page, lambda: api.status(session) == "completed")
        route.continue_()

    window.page.route("**/pause", ended)
    run.slot("Pause").click()
    expect(run.tray).to_contain_text(re.compile("Cannot pause.*completed"))
    expect(run.polite).to_contain_text(re.compile("Cannot pause.*completed"))
    run.is_at("completed")
    window.complaints.clear()  # the browser reports every answer of 400 and above
