"""What is counted, and what is due, is the same wherever it is said, and as the journal has it."""

import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from playwright.sync_api import Page, expect

from midcourse.core.events import ReceiptLine, Recorded, decode_record
from midcourse.core.receipt import EffectLedger, tally
from tests.console.agents import GATES, goal
from tests.console.pages import GUARD, Api, Window, started, until
from tests.server.live_server import TOKEN

pytestmark = pytest.mark.timeout(180)

CHOICES: Final = {
    "in-flight": "Undo what is in flight",
    "all": "Undo everything possible",
    "none": "Only stop",
}


def counted(lines: Sequence[dict[str, Any]]) -> str:
    """What lines of the API come to."""
    return tally([msgspec.convert(line, ReceiptLine) for line in lines])


def journaled(api: Api, session: str) -> str:
    """What the whole journal comes to."""
    ledger = EffectLedger()
    for sent in api.events(session):
        event = {"type": f"{sent['type']}@{sent['version']}", **sent["data"]}
        record = decode_record(msgspec.json.encode({"at": sent["at"], "event": event}))
        ledger.apply(Recorded(sent["position"], record.at, record.event))
    return tally(ledger.receipt.lines)


@pytest.mark.parametrize("choice", CHOICES)
def test_what_the_preview_promises_is_what_the_receipt_counts(window: Window, api: Api, choice: str) -> None:
    session, run = started(window, api, "Write the memo")
    expect(run.log).to_contain_text("word 1")
    run.press("Cancel")
    run.preview.get_by_role("radio", name=CHOICES[choice]).check()
    expect(run.preview).to_contain_text("1 effect, 1 hold")
    promised = counted(api.get(f"/sessions/{session}/cancel/preview")[choice]["lines"])
    undone = int((re.findall(r"(\d+) undone", promised) or ["0"])[0])
    words = "undo nothing" if not undone else f"undo {undone}"
    expect(run.slot("Cancel run")).to_have_accessible_name(re.compile(words))
    run.press("Cancel run")
    run.is_at("cancelled")
    assert journaled(api, session) == promised
    assert counted(api.get(f"/sessions/{session}/receipt")["lines"]) == promised
    expect(run.receipt).to_contain_text(f"Cancelled. {promised}.")
    expect(run.log).to_contain_text(f"Cancelled. {promised}.")
    kept = int((re.findall(r"(\d+) kept", promised) or ["0"])[0])
    slot = f"{kept} kept effects? can still be undone" if kept else "nothing left to undo"
    expect(run.slot("Undo")).to_have_accessible_name(re.compile(slot))


def test_a_preview_is_read_again_when_what_it_is_about_has_ended(window: Window, api: Api) -> None:
    """A pause lets calls finish: what was in flight when the preview was opened may be done when it is confirmed."""
    session, run = started(window, api, "Write the memo as a draft")
    expect(run.call("write_draft")).to_contain_text("running")
    run.press("Cancel")
    draft = run.preview.get_by_role("row", name="write_draft")
    expect(draft.get_by_role("cell").first).to_have_text("undone")
    expect(run.slot("Cancel run")).to_have_accessible_name(re.compile("undo 1, keep the rest"))
    GATES.open(session, "draft")
    expect(draft.get_by_role("cell").first).to_have_text("kept")
    expect(run.slot("Cancel run")).to_have_accessible_name(re.compile("undo nothing, keep the rest"))
    run.press("Cancel run")
    run.is_at("cancelled")
    assert journaled(api, session) == "2 kept, 1 hold released"
    expect(run.receipt).to_contain_text("Cancelled. 2 kept, 1 hold released.")


def test_a_cancel_of_many_foresees_for_each_what_its_receipt_then_says(window: Window, api: Api) -> None:
    words = goal("Cancelled together, as a draft")
    names = [api.start("memo", f"{words} {number}") for number in range(2)]
    held = api.start("memo", f"{words} protected", task_class="protected")
    until(window.page, lambda: all(_busy(api, one) == "write_draft" for one in (*names, held)))
    page = window.open(f"?q={words.replace(' ', '+').replace(',', '%2C')}")
    page.get_by_role("checkbox", name="Select all 3").check()
    page.wait_for_timeout(GUARD)
    page.keyboard.press("c")
    tray = page.locator(".tray")
    expect(tray).to_contain_text("Cancel 3 sessions?")
    expect(tray).to_contain_text("1 is protected and finishes its turn first.")
    mine = tray.get_by_role("listitem").filter(has=page.locator(f"a[href*='{names[0]}']"))
    expect(mine).to_contain_text("1 undone, 1 kept, 1 hold released")
    GATES.open(names[0], "draft")  # they go on meanwhile
    expect(mine).to_contain_text("2 kept, 1 hold released")
    page.wait_for_timeout(GUARD)
    page.keyboard.press("Enter")
    expect(tray).to_contain_text("2 cancelled, 1 cancelling, finishes first.")
    assert [journaled(api, one) for one in names] == ["2 kept, 1 hold released", "1 undone, 1 kept, 1 hold released"]
    GATES.open(held, "draft")
    GATES.open(held, "words")
    expect(tray).to_contain_text("2 cancelled, 1 completed.")  # a turn that is done is done


def _busy(api: Api, session: str) -> str:
    return str(next(head for head in api.get("/sessions", search=session)["sessions"])["busy"])


@pytest.mark.parametrize(("agent", "is_deadline"), [("chooser", False), ("hurried", True)])
def test_an_ask_is_due_at_the_same_time_for_the_same_reason_wherever_it_is_shown(
    window: Window, api: Api, agent: str, is_deadline: bool
) -> None:
    wish = goal(f"Due, {agent}")
    session = api.start(agent, wish)
    until(window.page, lambda: api.status(session) == "waiting")
    (opened,) = api.events(session, "ask.opened")
    (ask,) = [one for one in api.get("/inbox")["asks"] if one["session"] == session]
    assert ask["deadline"] == opened["data"]["expires_at"]
    assert (ask["deadline"] < ask["respond_by"]) is is_deadline
    until_deadline, until_escalation = "answer within", "escalated in"
    due = until_deadline if is_deadline else until_escalation
    page = window.open("?inbox")
    item = page.get_by_role("button", name=wish)
    expect(item).to_contain_text(re.compile(rf"{due} \d\d:\d\d"))
    item.click()
    detail = page.get_by_role("article", name="Ask")
    expect(detail.locator("code").first).to_have_text(session)
    # The deadline in any case; that it is escalated before, only if it is.
    expect(detail).to_contain_text(re.compile(rf"{until_deadline} \d\d:\d\d"))
    expect(detail.get_by_text(until_escalation)).to_have_count(0 if is_deadline else 1)
    both = [item.element_handle(), detail.element_handle()]  # in one turn of the page, whose clock goes on
    listed, opened_one = page.evaluate("both => both.map((one) => one.innerText)", both)
    assert _minutes(listed, due) == _minutes(opened_one, due)
    row = window.open().locator(f"tr[data-id='{session}']")
    expect(row).to_contain_text(re.compile(r"\d\d:\d\d left"))
    run = window.watch(session)
    expect(run.tray).to_contain_text(re.compile(rf"{until_deadline} \d\d:\d\d"))
    expect(run.sentence).to_contain_text(re.compile(r"\d\d:\d\d left"))
    told = subprocess.run(
        [sys.executable, "-m", "midcourse", "inbox", "list", "--url", window.url, "--token", TOKEN],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "300", "PATH": ""},
    ).stdout
    (line,) = [line for line in told.splitlines() if session in line and "Answer with" not in line]
    assert line.strip().startswith(due)
    assert (until_escalation in line) is not is_deadline


def _minutes(text: str, words: str) -> int:
    found = re.search(rf"{words} (\d\d):\d\d", text)
    assert found is not None
    return int(found[1])


def test_the_fleet_counts_sessions_and_the_inbox_counts_asks(window: Window, api: Api) -> None:
    wish = goal("Ask two things")
    session = api.start("both", wish)
    until(window.page, lambda: len(api.get(f"/sessions/{session}")["asks"]) == 2)
    page: Page = window.open(f"?q={session}")
    expect(page.get_by_role("main")).to_contain_text("0 running, 1 session needs you")
    expect(page.get_by_role("button", name="1 waiting")).to_be_visible()
    expect(page.locator(f"tr[data-id='{session}']")).to_contain_text("and 1 more")
    asks = len(api.get("/inbox")["asks"])
    page = window.open("?inbox")
    expect(page.get_by_role("main")).to_contain_text(f"{asks} need an answer")
    expect(page.get_by_role("button", name=wish)).to_have_count(2)
    expect(window.top.get_by_role("link", name="Inbox")).to_contain_text(str(asks))
