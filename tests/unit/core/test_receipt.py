"""What a receipt says of each call, and that it never says more than the journal."""

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.ids import Epoch
from midcourse.core.receipt import Receipt, receipt_lines, receipt_of
from tests.unit.core.stories import FETCH, ID, WRITE, Story, begun, finished

TAKEN = ev.SessionTaken(epoch=Epoch(2), worker="w2", lost=(FETCH,))


def started() -> Story:
    return Story().happen(ev.SessionStarted())


def outcomes(receipt: Receipt) -> dict[str, str]:
    return {line.name: line.outcome for line in receipt.lines}


def test_a_session_that_began_no_call_has_an_empty_receipt() -> None:
    receipt = receipt_of(Story().want(cmd.Cancel(id=ID)).events)

    assert receipt.lines == ()
    assert receipt.final
    assert str(receipt) == "no call had begun"


def test_every_call_that_ended_in_any_way_is_ended_and_in_the_order_they_began() -> None:
    story = started().happen(
        begun(WRITE),
        begun(FETCH),
        finished(FETCH),
        ev.StepFailed(step=WRITE, attempt=1, kind="OSError", detail="disk"),
    )

    assert outcomes(receipt_of(story.events)) == {"write": "ended", "fetch": "ended"}
    assert [line.step for line in receipt_of(story.events).lines] == [WRITE, FETCH]


def test_a_call_that_is_open_is_unknown_and_the_receipt_provisional() -> None:
    receipt = receipt_of(started().happen(begun(), begun(WRITE), finished(WRITE)).events)

    assert outcomes(receipt) == {"fetch": "unknown", "write": "ended"}
    assert [line.step for line in receipt.unknown] == [FETCH]
    assert not receipt.final
    assert str(receipt).startswith("provisional")


def test_a_call_that_found_the_gate_shut_has_no_line() -> None:
    receipt = receipt_of(started().happen(begun(), ev.StepNotBegun(step=FETCH, attempt=1)).events)

    assert receipt.lines == ()


def test_an_attempt_that_did_not_begin_leaves_what_the_lost_one_before_it_did_unknown() -> None:
    story = started().happen(begun(), TAKEN, begun(attempt=2), ev.StepNotBegun(step=FETCH, attempt=2))

    assert outcomes(receipt_of(story.events)) == {"fetch": "unknown"}


def test_an_attempt_that_did_not_begin_leaves_what_the_aborted_one_before_it_did_ended() -> None:
    story = started().happen(
        begun(),
        ev.StepAborted(step=FETCH, attempt=1),
        begun(attempt=2),
        ev.StepNotBegun(step=FETCH, attempt=2),
    )

    assert outcomes(receipt_of(story.events)) == {"fetch": "ended"}


def test_a_lost_call_that_was_done_again_is_ended() -> None:
    story = started().happen(begun(), TAKEN, begun(attempt=2), finished(attempt=2))

    assert outcomes(receipt_of(story.events)) == {"fetch": "ended"}


def test_a_new_turn_and_a_retry_make_a_final_receipt_provisional_again() -> None:
    failed = started().happen(ev.SessionFailed(code="agent_failed", message="no"))

    assert receipt_of(failed.events).final
    assert not receipt_of(failed.want(cmd.Resume(id=ID)).events).final


def test_the_lines_of_a_cancel_call_lost_calls_unknown() -> None:
    session = started().happen(begun(), TAKEN).session

    assert receipt_lines(session.calls.values()) == (ev.ReceiptLine(FETCH, "fetch", "unknown"),)
