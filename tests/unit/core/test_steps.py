"""What the journal knows of each step: once done it is never done again, and another call is never taken for it."""

import msgspec
import pytest

from midcourse.core import events as ev
from midcourse.core.codec import NOTHING
from midcourse.core.ids import Position, StepId
from midcourse.core.steps import StepLog, check_name, check_same, step_id
from midcourse.errors import Diverged, ImpossibleEvent, MisusedRun
from tests.unit.core.stories import ASK_1, ASK_2, FETCH, QUESTION, asked, begun, finished, value

AT = Position(7)


def log_of(*events: ev.AnyEvent) -> StepLog:
    log = StepLog()
    for event in events:
        log.apply(event, AT)
    return log


def failed(step: StepId = FETCH, kind: str = "OSError") -> ev.StepFailed:
    return ev.StepFailed(step=step, attempt=1, kind=kind, detail="down")


def segment(offset: int, text: str, attempt: int = 1) -> ev.SegmentWritten:
    return ev.SegmentWritten(step=FETCH, attempt=attempt, offset=offset, text=text)


# ---- identity


def test_an_identity_is_scope_parent_name_and_key() -> None:
    parent = step_id("1.2", "outer", 0)

    assert parent == "1.2/outer#0"
    assert step_id("1.2", "inner", "k", parent) == "1.2/outer#0>inner#k"


def test_different_places_have_different_identities() -> None:
    outer = step_id("1", "a", 0)
    names = {step_id("1", "a", 0), step_id("2", "a", 0), step_id("1", "b", 0), step_id("1", "a", 1)}

    assert len(names | {step_id("1", "a", 0, outer), step_id("1", "b", 0, outer)}) == 6


@pytest.mark.parametrize("name", ["", "a/b", "a#b", "a>b", "x" * 201])
def test_a_name_that_could_be_taken_for_another_identity_is_refused(name: str) -> None:
    with pytest.raises(MisusedRun) as caught:
        check_name(name)

    assert caught.value.code == "bad_step_name"


@pytest.mark.parametrize("name", ["fetch", "fetch the page", "é", "x" * 200])
def test_any_other_name_is_taken(name: str) -> None:
    check_name(name)


# ---- outcomes


def test_a_finished_step_keeps_its_result() -> None:
    record = log_of(begun(), finished(json="[1]")).steps[FETCH]

    assert (record.outcome, record.value, record.attempt) == ("finished", value("[1]"), 1)


def test_a_failed_step_keeps_what_was_raised() -> None:
    record = log_of(begun(), failed()).steps[FETCH]

    assert (record.outcome, record.kind, record.detail) == ("failed", "OSError", "down")


def test_a_closed_step_keeps_the_truth_and_the_message_that_closed_it() -> None:
    closed = ev.StepClosed(step=FETCH, attempt=1, message=3, truth="may have happened")
    record = log_of(begun(), closed).steps[FETCH]

    assert (record.outcome, record.message, record.detail) == ("closed", 3, "may have happened")


@pytest.mark.parametrize(
    "end",
    [
        ev.StepAborted(step=FETCH, attempt=1),
        ev.StepNotBegun(step=FETCH, attempt=1),
        ev.StepCut(step=FETCH, attempt=1, length=0),
    ],
    ids=ev.event_type,
)
def test_an_attempt_that_did_not_get_to_its_end_is_made_again(end: ev.AnyEvent) -> None:
    log = log_of(begun(), end, begun(attempt=2))

    assert log.steps[FETCH].outcome == ""
    assert log.steps[FETCH].attempt == 2


@pytest.mark.parametrize(
    "end",
    [finished(), failed(), ev.StepClosed(step=FETCH, attempt=1, message=0, truth="may have happened")],
    ids=ev.event_type,
)
def test_a_step_with_an_outcome_never_begins_or_ends_again(end: ev.AnyEvent) -> None:
    log = log_of(begun(), end)
    before = msgspec.json.encode(log)

    for event in (begun(attempt=2), finished(), failed(), segment(0, "x")):
        with pytest.raises(ImpossibleEvent):
            log.apply(event, AT)
    assert msgspec.json.encode(log) == before


@pytest.mark.parametrize(
    "event",
    [
        begun(attempt=2, digest="other"),
        begun(attempt=1),
        begun(attempt=3),
        begun(StepId("1/new#0"), attempt=2),
        finished(StepId("1/new#0")),
        segment(1, "x"),
        ev.AskAnswered(ask=ASK_1, step=QUESTION, value=NOTHING, by="ada"),
    ],
)
def test_what_contradicts_a_step_is_impossible_and_changes_nothing(event: ev.AnyEvent) -> None:
    log = log_of(begun(), ev.StepAborted(step=FETCH, attempt=1))
    before = msgspec.json.encode(log)

    with pytest.raises(ImpossibleEvent):
        log.apply(event, AT)
    assert msgspec.json.encode(log) == before


# ---- streams


def test_segments_add_up_to_the_text() -> None:
    log = log_of(begun(kind="model"), segment(0, "Once "), segment(5, "upon "), segment(10, "a time"))

    assert log.steps[FETCH].text == "Once upon a time"


def test_a_later_attempt_supersedes_from_where_it_writes() -> None:
    log = log_of(begun(kind="model"), segment(0, "Once "), segment(5, "upon"), begun(kind="model", attempt=2))
    log.apply(segment(5, "in a while", attempt=2), AT)
    assert log.steps[FETCH].text == "Once in a while"

    log.apply(segment(0, "Twice", attempt=2), AT)
    assert log.steps[FETCH].text == "Twice"
    assert log.steps[FETCH].length == 5


def test_an_empty_segment_at_the_start_takes_everything_back() -> None:
    log = log_of(begun(kind="model"), segment(0, "Once "), segment(0, ""))

    assert log.steps[FETCH].text == ""


# ---- asks


def test_an_ask_keeps_its_answer() -> None:
    log = log_of(asked(), ev.AskAnswered(ask=ASK_1, step=QUESTION, value=value('"yes"'), by="ada"))

    assert (log.asks[QUESTION].end, log.asks[QUESTION].value) == ("answered", value('"yes"'))


def test_an_ask_that_ended_does_not_end_again() -> None:
    log = log_of(asked(), ev.AskClosed(ask=ASK_1, step=QUESTION, end="superseded"))

    with pytest.raises(ImpossibleEvent):
        log.apply(ev.AskAnswered(ask=ASK_1, step=QUESTION, value=NOTHING, by="ada"), AT)
    assert log.asks[QUESTION].end == "superseded"


def test_an_answer_to_an_earlier_ask_of_a_step_is_not_taken_for_the_later_one() -> None:
    log = log_of(asked(1), ev.AskClosed(ask=ASK_1, step=QUESTION, end="superseded"), asked(2))

    with pytest.raises(ImpossibleEvent):
        log.apply(ev.AskAnswered(ask=ASK_1, step=QUESTION, value=NOTHING, by="ada"), AT)
    log.apply(ev.AskAnswered(ask=ASK_2, step=QUESTION, value=value("2"), by="ada"), AT)
    assert log.asks[QUESTION].value == value("2")


# ---- scopes


def test_a_checkpoint_opens_a_scope_with_its_state_and_nothing_else() -> None:
    log = log_of(
        begun(),
        finished(),
        asked(),
        ev.AskClosed(ask=ASK_1, step=QUESTION, end="expired"),
        ev.ValueDrawn(name="now", value=value("1")),
        ev.PlanChanged(items=()),
        ev.ReportMade(message="x"),
        ev.SessionRedirected(text="x", level="step", by="ada"),
        ev.CheckpointTaken(scope="1.1", state=value('{"page":2}')),
    )

    assert log == StepLog(state=value('{"page":2}'))


def test_a_new_turn_starts_from_the_state_the_last_one_ended_with() -> None:
    log = log_of(
        begun(),
        finished(),
        ev.SessionCompleted(state=value('{"page":3}')),
        ev.TurnOpened(text="again", level="step", by="ada"),
    )

    assert log == StepLog(state=value('{"page":3}'))


def test_drawn_values_keep_their_order_by_name() -> None:
    log = log_of(*(ev.ValueDrawn(name=name, value=value(str(i))) for i, name in enumerate(["now", "uuid", "now"])))

    assert log.drawn == {"now": [value("0"), value("2")], "uuid": [value("1")]}


# ---- trying again


def test_a_retry_tries_the_step_it_failed_at_and_keeps_every_other_outcome() -> None:
    other = StepId("1/other#0")
    log = log_of(
        begun(),
        failed(),
        begun(other),
        failed(other),
        ev.SessionFailed(code="agent_failed", message="no", step=FETCH),
        ev.SessionResumed(by="ada"),
    )

    assert log.steps[FETCH].outcome == ""
    assert log.steps[other].outcome == "failed"
    log.apply(begun(attempt=2), AT)


def test_a_step_whose_result_could_not_be_encoded_is_not_done_again() -> None:
    log = log_of(
        begun(),
        failed(kind="Unencodable"),
        ev.SessionFailed(code="agent_failed", message="no", step=FETCH),
        ev.SessionResumed(by="ada"),
    )

    assert log.steps[FETCH].outcome == "failed"


def test_a_resume_of_a_pause_tries_nothing_again() -> None:
    log = log_of(begun(), failed(), ev.SessionResumed(by="ada"))

    assert log.steps[FETCH].outcome == "failed"


@pytest.mark.parametrize(("end", "is_asked_again"), [("withdrawn", True), ("superseded", False)])
def test_a_retry_asks_again_what_ended_with_the_session(end: ev.AskEnd, is_asked_again: bool) -> None:
    log = log_of(
        asked(),
        ev.AskClosed(ask=ASK_1, step=QUESTION, end=end),
        ev.SessionFailed(code="agent_failed", message="no"),
        ev.SessionResumed(by="ada"),
    )

    assert (QUESTION not in log.asks) is is_asked_again


@pytest.mark.parametrize(("step", "is_asked_again"), [(QUESTION, True), (None, False)])
def test_a_retry_asks_again_what_nobody_answered_in_time_if_that_is_why_it_failed(
    step: StepId | None, is_asked_again: bool
) -> None:
    log = log_of(
        asked(),
        ev.AskClosed(ask=ASK_1, step=QUESTION, end="expired"),
        ev.SessionFailed(code="ask_expired", message="no", step=step),
        ev.SessionResumed(by="ada"),
    )

    assert (QUESTION not in log.asks) is is_asked_again


# ---- divergence


def test_the_same_call_is_the_same() -> None:
    check_same(FETCH, log_of(begun(digest="d")).steps[FETCH], "d", "")


def test_another_call_under_the_same_identity_diverges_and_shows_both() -> None:
    record = log_of(begun(digest="d")).steps[FETCH]

    with pytest.raises(Diverged) as caught:
        check_same(FETCH, record, "e", '{"url":"y"}')

    assert caught.value.code == "diverged"
    assert '{"url":"x"}' in str(caught.value)
    assert '{"url":"y"}' in str(caught.value)
    assert caught.value.fields == {"step": FETCH, "journaled": '{"url":"x"}', "now": '{"url":"y"}'}


def test_calls_that_differ_only_in_what_a_preview_leaves_out_show_their_digests() -> None:
    record = log_of(begun(digest="d1")).steps[FETCH]

    with pytest.raises(Diverged, match=r"digest d1.*digest d2"):
        check_same(FETCH, record, "d2", record.arguments)
