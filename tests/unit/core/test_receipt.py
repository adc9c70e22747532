"""What a receipt says of each effect, and that it never says more than the journal."""

import pytest

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.effects import Effect, UndoChoice
from midcourse.core.ids import Epoch, StepId
from midcourse.core.receipt import Receipt, ledger_of
from tests.unit.core.stories import FETCH, ID, WRITE, Story, begun, finished

TAKEN = ev.SessionTaken(epoch=Epoch(2), worker="w2", lost=(FETCH,))
ABORTED = ev.StepAborted(step=FETCH, attempt=1)
NOT_BEGUN = ev.StepNotBegun(step=FETCH, attempt=2)
FAILED = ev.StepFailed(step=FETCH, attempt=1, kind="OSError", detail="down")


def started() -> Story:
    return Story().happen(ev.SessionStarted())


def receipt_of(story: Story) -> Receipt:
    return ledger_of(story.records).receipt


def outcomes(receipt: Receipt) -> dict[str, str]:
    return {line.name: line.outcome for line in receipt.lines}


def undo_of(step: StepId, number: int = 1) -> ev.UndoBegun:
    name = step.partition("/")[2].partition("#")[0]
    return ev.UndoBegun(step=step, name=name, attempt=1, key=f"key of {name}", effect="reversible", number=number)


def undone(step: StepId, number: int = 1, *, error: str = "", lost: bool = False) -> ev.UndoEnded:
    key = undo_of(step).key
    return ev.UndoEnded(step=step, attempt=1, key=key, number=number, error=error, lost=lost)


def test_a_session_that_began_no_call_has_an_empty_receipt() -> None:
    receipt = receipt_of(Story().want(cmd.Cancel(id=ID)))

    assert receipt.lines == ()
    assert receipt.final
    assert str(receipt) == "nothing was changed: no call that could have an effect had begun"


@pytest.mark.parametrize("ends", [(), (finished(),), (FAILED,), (ABORTED,), (TAKEN,)])
def test_what_changes_nothing_has_no_line_however_it_ended(ends: tuple[ev.AnyEvent, ...]) -> None:
    model = StepId("1/write#1")

    assert receipt_of(started().happen(begun(model, kind="model"), begun(), *ends)).lines == ()


@pytest.mark.parametrize(
    ("effect", "outcome"),
    [("idempotent", "cannot be undone"), ("reversible", "kept"), ("irreversible", "cannot be undone")],
)
def test_a_call_that_returned_is_kept_if_it_could_be_undone(effect: Effect, outcome: str) -> None:
    receipt = receipt_of(started().happen(begun(effect=effect), finished()))

    assert outcomes(receipt) == {"fetch": outcome}
    assert receipt.lines[0].effect == effect


def test_lines_stand_in_the_order_the_calls_began() -> None:
    story = started().happen(begun(WRITE, effect="reversible"), begun(effect="reversible"), finished(), finished(WRITE))

    assert [line.step for line in receipt_of(story).lines] == [WRITE, FETCH]


@pytest.mark.parametrize("effect", ["idempotent", "reversible", "irreversible"])
def test_whether_a_call_that_raised_happened_is_unknown(effect: Effect) -> None:
    (line,) = receipt_of(started().happen(begun(effect=effect), FAILED)).lines

    assert (line.outcome, line.detail) == ("unknown", "it raised OSError")


def test_a_call_that_lives_is_still_running_and_the_receipt_provisional() -> None:
    story = started().happen(begun(effect="irreversible"), begun(WRITE, effect="reversible"), finished(WRITE))
    receipt = receipt_of(story)

    assert outcomes(receipt) == {"fetch": "still running", "write": "kept"}
    assert not receipt.final
    assert str(receipt).startswith("provisional")


@pytest.mark.parametrize("end", [ABORTED, TAKEN])
def test_whether_a_call_that_was_aborted_or_lost_happened_is_unknown(end: ev.AnyEvent) -> None:
    receipt = receipt_of(started().happen(begun(effect="idempotent"), end))

    assert outcomes(receipt) == {"fetch": "unknown"}
    assert [line.step for line in receipt.unknown] == [FETCH]
    assert receipt.lines[0].detail.endswith("it may have happened")


def test_a_call_that_found_the_gate_shut_has_no_line() -> None:
    story = started().happen(begun(effect="irreversible"), ev.StepNotBegun(step=FETCH, attempt=1))

    assert receipt_of(story).lines == ()


@pytest.mark.parametrize("end", [ABORTED, TAKEN])
def test_an_attempt_that_did_not_begin_leaves_what_the_one_before_it_did_unknown(end: ev.AnyEvent) -> None:
    story = started().happen(begun(effect="idempotent"), end, begun(attempt=2, effect="idempotent"), NOT_BEGUN)

    assert outcomes(receipt_of(story)) == {"fetch": "unknown"}


def test_an_effect_that_was_tried_again_under_its_key_has_one_line() -> None:
    story = started().happen(
        begun(effect="idempotent"), TAKEN, begun(attempt=2, effect="idempotent"), finished(attempt=2)
    )

    (line,) = receipt_of(story).lines
    assert (line.outcome, line.attempt) == ("cannot be undone", 2)


def test_an_effect_that_was_undone_and_done_again_under_a_new_key_has_two_lines() -> None:
    story = started().happen(
        begun(effect="reversible"),
        ABORTED,
        undo_of(FETCH),
        undone(FETCH),
        begun(attempt=2, effect="reversible", key="another"),
        finished(attempt=2),
    )

    assert [line.outcome for line in receipt_of(story).lines] == ["undone", "kept"]


def test_what_somebody_said_did_not_happen_has_no_line_and_what_did_has_one() -> None:
    said_no = ev.StepSettled(step=FETCH, attempt=1, by="a person", happened=False)
    said_yes = ev.StepFinished(step=FETCH, attempt=1, value=finished().value, told_by="a person")

    assert receipt_of(started().happen(begun(effect="irreversible"), TAKEN, said_no)).lines == ()
    assert outcomes(receipt_of(started().happen(begun(effect="irreversible"), TAKEN, said_yes))) == {
        "fetch": "cannot be undone"
    }


@pytest.mark.parametrize(
    ("ends", "outcome", "detail"),
    [
        ((), "still running", "its undo"),
        ((undone(FETCH),), "undone", ""),
        ((undone(FETCH, error="locked"),), "undo failed", "locked"),
        ((undone(FETCH, error="no end after 1 s", lost=True),), "undo ran with unknown result", "no end after 1 s"),
    ],
)
def test_an_undo_is_told_as_it_ended(ends: tuple[ev.AnyEvent, ...], outcome: str, detail: str) -> None:
    story = started().happen(begun(effect="reversible"), ABORTED, undo_of(FETCH), *ends)

    (line,) = receipt_of(story).lines
    assert (line.outcome, line.detail) == (outcome, detail)


def test_a_new_turn_and_a_retry_make_a_final_receipt_provisional_again() -> None:
    failed = started().happen(ev.SessionFailed(code="agent_failed", message="no"))

    assert receipt_of(failed).final
    assert not receipt_of(failed.want(cmd.Resume(id=ID))).final


# ---- the lines of a cancel, and what it would come to


def test_a_cancel_keeps_the_lines_of_what_was_in_flight_up_to_date() -> None:
    story = started().happen(begun(effect="reversible"), begun(WRITE, effect="irreversible"), begun(StepId("1/read#0")))

    def lines() -> dict[str, str]:
        assert story.session.cancel is not None
        return {line.name: line.outcome for line in story.session.cancel.receipt.values()}

    story.want(cmd.Cancel(id=ID))
    assert lines() == {"fetch": "still running", "write": "still running"}
    story.happen(ABORTED)
    assert lines() == {"fetch": "unknown", "write": "still running"}
    story.happen(undo_of(FETCH), undone(FETCH), finished(WRITE))
    assert lines() == {"fetch": "undone", "write": "cannot be undone"}


def test_a_cancel_calls_lost_calls_unknown() -> None:
    story = started().happen(begun(effect="idempotent"), TAKEN).want(cmd.Cancel(id=ID))

    assert story.session.cancel is not None
    assert [line.outcome for line in story.session.cancel.receipt.values()] == ["unknown"]


@pytest.mark.parametrize(
    ("choice", "finished_one", "in_flight"),
    [("none", "kept", "unknown"), ("in-flight", "kept", "undone"), ("all", "undone", "undone")],
)
def test_a_preview_says_what_each_choice_would_come_to(choice: UndoChoice, finished_one: str, in_flight: str) -> None:
    paid = StepId("1/pay#0")
    story = started().happen(
        begun(WRITE, effect="reversible"),
        finished(WRITE),
        begun(effect="reversible"),
        begun(paid, effect="irreversible"),
    )
    preview = ledger_of(story.records).preview(choice)

    assert outcomes(preview) == {"write": finished_one, "fetch": in_flight, "pay": "cannot be undone"}
    assert not preview.final
    assert str(preview).startswith("what it would come to")


def test_what_stays_or_may_have_happened_may_happen_a_second_time_where_it_begins_anew() -> None:
    """In flight, it is aborted, as by any cancel; what is rolled back happens once, and what is held is no call."""
    story = started().happen(
        ev.HoldTaken(name="lock", release="unlock"), begun(WRITE, effect="reversible"), begun(effect="idempotent")
    )
    ledger = ledger_of(story.records)
    forced = ledger.preview("in-flight", begins_anew=True)

    assert outcomes(forced) == {"write": "undone", "fetch": "unknown", "lock": "undone"}
    assert [line.name for line in forced.twice] == ["fetch"]
    assert str(forced).endswith("\nfetch may happen a second time in the session that begins anew.")
    only_stopped = ledger.preview("none", begins_anew=True)
    assert only_stopped.twice_words.startswith("write, fetch may happen")
    plain = ledger.preview("none")
    assert (plain.twice, plain.twice_words) == ((), "")


def test_of_many_that_may_happen_a_second_time_a_few_are_named() -> None:
    names = ("pay", "book", "send", "log", "pay")
    steps = [StepId(f"1/{name}#{number}") for number, name in enumerate(names)]
    story = started().happen(*(begun(step, effect="irreversible") for step in steps))
    forced = ledger_of(story.records).preview("all", begins_anew=True)
    assert forced.twice_words == "pay, book, send and 1 more may happen a second time in the session that begins anew."
