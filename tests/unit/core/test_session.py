"""The state machine: what each event does to a session, and what cannot happen to it."""

from typing import Final, get_args

import pytest

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.codec import NOTHING
from midcourse.core.effects import Effect
from midcourse.core.evolution import ARMS, created, evolve, status_after
from midcourse.core.ids import Epoch, Position, StepId, pause_id
from midcourse.core.session import (
    ALLOWED_IN,
    BACK,
    ENDED,
    LIVE,
    NEEDS_DRIVING,
    TRANSITIONS,
    OpenCall,
    Status,
)
from midcourse.errors import Damaged, ImpossibleEvent
from tests.unit.core.stories import (
    ASK_1,
    ASK_2,
    FETCH,
    ID,
    IN,
    OTHER_QUESTION,
    PAUSE_1,
    PAUSE_2,
    QUESTION,
    SESSION,
    WRITE,
    Story,
    asked,
    begun,
    finished,
    in_status,
    value,
)

S = Status
LOST: Final = ev.SessionTaken(epoch=Epoch(2), worker="w2", lost=(FETCH,))
ANSWERED: Final = ev.AskAnswered(ask=ASK_1, step=QUESTION, value=value('"yes"'), by="ada")
EXPIRED: Final = ev.AskClosed(ask=ASK_1, step=QUESTION, end="expired")
PAUSE: Final = cmd.Pause(id=ID)
RESUME: Final = cmd.Resume(id=ID)
HALT: Final = cmd.Halt(id=ID, role="operate")
LIFT: Final = cmd.Lift(id=ID, role="operate")


def started() -> Story:
    return Story().happen(ev.SessionStarted())


def assert_impossible(story: Story, event: ev.AnyEvent, why: str = "cannot happen there") -> None:
    before = story.session
    with pytest.raises(ImpossibleEvent, match=why) as caught:
        story.happen(event)
    assert caught.value.code == "impossible_event"
    assert caught.value.fields == {"session_id": SESSION, "status": str(before.status)}
    assert story.session is before


# ---- the tables


def test_every_status_can_be_told_and_is_live_or_ended() -> None:
    assert set(IN) == set(Status) == LIVE | ENDED
    assert {status for status in IN if in_status(status).session.status is status} == set(Status)


def test_every_event_but_the_first_has_a_place_in_the_tables() -> None:
    placed = {kind for _, kind in TRANSITIONS} | set(ALLOWED_IN)

    assert placed == set(get_args(ev.AnyEvent)) - {ev.SessionCreated}


def test_nothing_begins_in_any_status_but_running() -> None:
    assert ALLOWED_IN[ev.StepBegun] == {S.RUNNING}
    assert not [kind for _, kind in TRANSITIONS if kind is ev.StepBegun]


def test_a_session_left_alone_is_driven_unless_it_waits_for_a_person_or_has_ended() -> None:
    assert {S.QUEUED, S.RUNNING, S.PAUSING, S.CANCELLING} == NEEDS_DRIVING


def test_only_a_new_turn_or_a_retry_leads_out_of_an_ended_status() -> None:
    out = {(status, kind) for status, kind in TRANSITIONS if status in ENDED}

    assert out == {(status, ev.TurnOpened) for status in ENDED} | {(S.FAILED, ev.SessionResumed)}


def test_cancelling_leads_only_to_cancelled_or_through_a_halt_back_to_itself() -> None:
    out = {TRANSITIONS[status, kind] for status, kind in TRANSITIONS if status is S.CANCELLING}

    assert out == {S.CANCELLING, S.CANCELLED, S.HALTED}


def test_halted_leads_only_back_or_to_cancelling() -> None:
    out = {TRANSITIONS[status, kind] for status, kind in TRANSITIONS if status is S.HALTED}

    assert out == {BACK, S.CANCELLING}


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(
    "event",
    [
        ev.SessionStarted(),
        ev.SessionParked(),
        ev.SessionPaused(),
        ev.SessionWaiting(),
        ev.SessionWoken(),
        ev.SessionCompleted(),
        ev.SessionFailed(code="x", message="y"),
        ev.SessionCancelled(),
        ev.SessionHalted(by="ops"),
        ev.HaltLifted(by="ops"),
        ev.TurnOpened(text="x", level="step", by="ada"),
        ev.SessionRedirected(text="x", level="step", by="ada"),
        ev.AgentSilent(seconds=30.0),
        ev.PlanChanged(items=()),
    ],
    ids=ev.event_type,
)
def test_an_event_happens_exactly_where_the_tables_say(status: Status, event: ev.AnyEvent) -> None:
    session = in_status(status).session
    is_possible = (status, type(event)) in TRANSITIONS or status in ALLOWED_IN.get(type(event), ())

    if is_possible:
        assert status_after(session, event) in Status
    else:
        with pytest.raises(ImpossibleEvent, match=f"'sess_42' is {status}; '{ev.event_type(event)}' cannot happen"):
            status_after(session, event)


# ---- creation


def test_a_session_is_what_its_first_record_says() -> None:
    session = Story(goal="write the report").session

    assert session.status is S.QUEUED
    assert (session.id, session.agent, session.mode, session.origin) == (SESSION, "writer", "replay", "writers:writer")
    assert (session.goal, session.turn, session.scope, session.position) == ("write the report", 1, "1", 1)


def test_a_journal_that_does_not_begin_with_a_creation_is_damaged() -> None:
    with pytest.raises(Damaged, match="does not begin with its creation"):
        created(SESSION, ev.Recorded(Position(1), 1.0, ev.SessionStarted()))


def test_a_session_is_created_once() -> None:
    story = started()

    assert_impossible(story, story.events[0])


def test_evolving_leaves_the_session_before_it_alone() -> None:
    before = started().session
    after = evolve(before, ev.Recorded(Position(3), 3.0, begun()))

    assert before.calls == {}
    assert after.calls == {FETCH: OpenCall(FETCH, "fetch", "tool", 1, 3.0)}
    assert (after.position, after.at) == (3, 3.0)


# ---- calls


def test_a_call_is_open_from_its_start_to_its_end() -> None:
    story = started().happen(begun(), begun(WRITE))
    assert story.session.running == (FETCH, WRITE)

    story.happen(finished(cost=0.5), ev.StepFailed(step=WRITE, attempt=1, kind="OSError", detail="x"))
    assert story.session.calls == {}
    assert (story.session.finished_steps, story.session.cost) == (1, 0.5)


def test_a_cut_stream_costs_what_it_cost() -> None:
    story = started().happen(begun(kind="model"), ev.StepCut(step=FETCH, attempt=1, length=3, cost=0.25, tokens=7))

    assert (story.session.cost, story.session.tokens, story.session.finished_steps) == (0.25, 7, 0)


@pytest.mark.parametrize("status", sorted(set(Status) - {S.RUNNING}))
def test_no_step_begins_outside_running(status: Status) -> None:
    assert_impossible(in_status(status), begun(WRITE))


def test_a_step_does_not_begin_while_it_runs() -> None:
    assert_impossible(started().happen(begun()), begun(attempt=2), "has begun and has not ended")


@pytest.mark.parametrize(
    "end",
    [
        finished(),
        ev.StepFailed(step=FETCH, attempt=1, kind="OSError", detail="x"),
        ev.StepAborted(step=FETCH, attempt=1),
        ev.StepCut(step=FETCH, attempt=1, length=0),
        ev.StepNotBegun(step=FETCH, attempt=1),
        ev.SegmentWritten(step=FETCH, attempt=1, offset=0, text="x"),
    ],
    ids=ev.event_type,
)
def test_only_the_attempt_that_is_open_ends_or_writes(end: ev.AnyEvent) -> None:
    assert_impossible(started(), end, "is not open")
    assert_impossible(
        started().happen(begun(), ev.StepAborted(step=FETCH, attempt=1), begun(attempt=2)), end, "is not open"
    )
    started().happen(begun(), end)


def test_a_lost_call_neither_finishes_nor_writes_and_is_listed_as_lost() -> None:
    story = started().happen(begun(effect="idempotent"), LOST)

    assert story.session.lost == (FETCH,)
    assert story.session.running == ()
    assert_impossible(story, finished(), "no outcome was reported")
    assert_impossible(story, ev.SegmentWritten(step=FETCH, attempt=1, offset=0, text="x"), "no outcome was reported")


def test_a_lost_call_that_changes_nothing_is_not_listed_as_lost() -> None:
    story = started().happen(begun(), LOST)

    assert (story.session.lost, story.session.running) == ((), ())
    assert_impossible(story, finished(), "no outcome was reported")


@pytest.mark.parametrize(
    ("effect", "left"), [("read", ()), ("idempotent", (FETCH,)), ("reversible", (FETCH,)), ("irreversible", (FETCH,))]
)
def test_a_call_that_was_aborted_is_open_until_its_fate_is_known_unless_it_changes_nothing(
    effect: Effect, left: tuple[StepId, ...]
) -> None:
    story = started().happen(begun(effect=effect), ev.StepAborted(step=FETCH, attempt=1))

    assert tuple(story.session.calls) == left
    assert story.session.running == ()


def test_a_call_that_asks_before_it_has_done_anything_is_not_open_any_more() -> None:
    asks = ev.StepAborted(step=FETCH, attempt=1, asked=True)

    assert started().happen(begun(effect="irreversible"), asks).session.calls == {}


def test_a_lost_call_is_done_again_as_the_next_attempt() -> None:
    story = started().happen(begun(effect="idempotent"), LOST, begun(attempt=2, effect="idempotent"))

    assert story.session.running == (FETCH,)
    assert story.session.lost == ()
    assert story.happen(finished(attempt=2)).session.calls == {}


def test_an_attempt_that_did_not_begin_leaves_the_lost_one_before_it_lost() -> None:
    again = begun(attempt=2, effect="idempotent")
    story = started().happen(begun(effect="idempotent"), LOST, again, ev.StepNotBegun(step=FETCH, attempt=2))

    assert story.session.lost == (FETCH,)


def test_a_call_that_was_open_when_a_redirect_came_knows_which() -> None:
    story = started().happen(begun()).want(cmd.Redirect(id=ID, text="in French", grace=1.0)).happen(begun(WRITE))
    call, later = story.session.calls[FETCH], story.session.calls[WRITE]

    assert call.redirected == 1
    assert story.session.messages[call.redirected].text == "in French"
    assert later.redirected is None


def test_a_redirect_closes_a_call_whether_it_was_aborted_before_or_not() -> None:
    closed = ev.StepClosed(step=FETCH, attempt=1, message=1, truth="may have happened")

    assert started().happen(begun(), closed).session.calls == {}
    assert started().happen(begun(), ev.StepAborted(step=FETCH, attempt=1), closed).session.calls == {}


# ---- pauses


def test_a_pause_is_over_when_the_calls_that_are_left_are_lost() -> None:
    story = started().happen(begun(effect="idempotent")).want(PAUSE).happen(LOST, ev.SessionPaused(unknown=(FETCH,)))

    assert story.session.status is S.PAUSED
    assert story.session.lost == (FETCH,)


@pytest.mark.parametrize(
    ("before", "after"),
    [(S.QUEUED, S.QUEUED), (S.RUNNING, S.RUNNING), (S.WAITING, S.WAITING)],
)
def test_a_resume_leads_back_to_where_the_pause_came_from(before: Status, after: Status) -> None:
    story = in_status(before).want(PAUSE)
    if story.session.status is S.PAUSING:
        story.happen(finished(), ev.SessionPaused())
    assert story.session.status is S.PAUSED

    assert story.want(RESUME).session.status is after
    assert story.session.pause is None


@pytest.mark.parametrize("end", [ANSWERED, EXPIRED], ids=ev.event_type)
@pytest.mark.parametrize("stop", [PAUSE, HALT], ids=cmd.verb)
def test_what_became_of_an_ask_during_a_stop_sets_its_path_going_when_the_stop_is_lifted(
    end: ev.AnyEvent, stop: cmd.AnyCommand
) -> None:
    waiting = started().happen(asked(), asked(2, OTHER_QUESTION), ev.SessionWaiting())
    story = waiting.want(stop).happen(end)
    assert story.session.status in (S.PAUSED, S.HALTED)

    story.want(RESUME if stop is PAUSE else LIFT)
    assert story.session.status is S.RUNNING
    assert [ask.id for ask in story.session.asks] == [ASK_2]


def test_a_resume_lifts_the_pause_that_stands_and_no_other() -> None:
    story = in_status(S.PAUSED).want(RESUME).want(PAUSE).happen(ev.SessionPaused())
    assert story.session.pause is not None
    assert story.session.pause.id == PAUSE_2

    assert_impossible(story, ev.SessionResumed(by="ada", pause=PAUSE_1), "'pause_2' stands")
    assert_impossible(story, ev.SessionResumed(by="ada"), "'pause_2' stands")
    assert story.happen(ev.SessionResumed(by="ada", pause=PAUSE_2)).session.status is S.RUNNING


def test_a_failed_session_is_tried_again_without_naming_a_pause() -> None:
    assert_impossible(in_status(S.FAILED), ev.SessionResumed(by="ada", pause=PAUSE_1))
    assert in_status(S.FAILED).happen(ev.SessionResumed(by="ada")).session.failure is None


def test_pauses_are_counted_and_a_second_one_only_shortens_the_grace() -> None:
    story = in_status(S.PAUSING)
    assert_impossible(story, ev.PauseRequested(pause=PAUSE_2, by="bob"), "the pause is 'pause_1'")
    story.happen(ev.PauseRequested(pause=PAUSE_1, by="bob", reason="quick", grace=1.0))

    assert story.session.pauses == 1
    assert story.session.pause is not None
    assert (story.session.pause.by, story.session.pause.grace) == ("local", 1.0)
    assert_impossible(started(), ev.PauseRequested(pause=pause_id(7), by="bob"), "the pause is 'pause_1'")


# ---- halts


@pytest.mark.parametrize("origin", sorted(LIVE - {S.HALTED}))
def test_a_halt_remembers_where_it_came_from(origin: Status) -> None:
    story = in_status(origin).want(HALT)
    assert (story.session.status, story.session.halted_from) == (S.HALTED, origin)

    assert story.want(LIFT).session.status is origin
    assert story.session.halted_from is None


def test_a_session_halted_while_cancelling_can_only_go_on_cancelling() -> None:
    halted = in_status(S.CANCELLING).want(HALT)

    assert_impossible(halted, ev.SessionFailed(code="x", message="y"))
    assert_impossible(halted, ev.SessionCancelled())
    assert halted.want(cmd.Cancel(id=ID, role="operate")).session.status is S.CANCELLING
    assert in_status(S.CANCELLING).want(HALT).want(LIFT).session.status is S.CANCELLING


def test_a_halted_session_does_not_fail_because_a_retry_would_lift_the_kill_switch() -> None:
    assert_impossible(in_status(S.HALTED), ev.SessionFailed(code="x", message="y"))


def test_a_paused_session_that_is_halted_and_lifted_still_knows_its_pause() -> None:
    story = in_status(S.PAUSED).want(HALT).want(LIFT)

    assert story.session.status is S.PAUSED
    assert story.want(cmd.Resume(id=ID, pause=PAUSE_1)).session.status is S.RUNNING


# ---- cancels


def test_a_cancel_forgets_the_pause_and_the_halt_it_came_from() -> None:
    for story in (in_status(S.PAUSED), in_status(S.PAUSED).want(HALT)):
        session = story.want(cmd.Cancel(id=ID, role="operate")).session
        assert (session.status, session.pause, session.halted_from) == (S.CANCELLING, None, None)


def test_a_cancel_only_becomes_firmer() -> None:
    story = in_status(S.CANCELLING)

    assert_impossible(story, ev.CancelRequested(by="bob", grace=3.0), "firmer")
    story.happen(ev.CancelRequested(by="bob", grace=0.5))
    assert story.session.cancel is not None
    assert story.session.cancel.grace == 0.5


def test_a_cancelled_session_keeps_its_receipt() -> None:
    lines = (ev.ReceiptLine(FETCH, "fetch", "unknown"),)
    session = in_status(S.CANCELLING).happen(LOST, ev.SessionCancelled(receipt=lines)).session

    assert (session.status, session.receipt, session.calls) == (S.CANCELLED, lines, {})


# ---- asks


def test_open_asks_stand_beside_the_status() -> None:
    story = started().happen(begun(), asked(), asked(2, OTHER_QUESTION))

    assert story.session.status is S.RUNNING
    assert [ask.id for ask in story.session.asks] == [ASK_1, ASK_2]
    assert story.session.ask(ASK_2) == story.session.asks[1]


@pytest.mark.parametrize("end", [ANSWERED, EXPIRED], ids=ev.event_type)
def test_a_waiting_session_runs_again_when_any_of_its_asks_ends(end: ev.AnyEvent) -> None:
    story = started().happen(asked(), asked(2, OTHER_QUESTION), ev.SessionWaiting(), end)

    assert story.session.status is S.RUNNING


def test_an_ask_ends_once() -> None:
    story = started().happen(asked(), ANSWERED)

    assert_impossible(story, ANSWERED, "no open ask 'ask_1'")
    assert_impossible(story, EXPIRED, "no open ask 'ask_1'")


def test_an_ask_is_opened_under_the_next_ordinal_and_once_per_step() -> None:
    story = started().happen(asked())

    assert_impossible(story, asked(1, OTHER_QUESTION), "the next ask is 'ask_2'")
    assert_impossible(story, asked(3, OTHER_QUESTION), "the next ask is 'ask_2'")
    assert_impossible(story, asked(2, QUESTION), "has an open ask")
    assert_impossible(story, ev.AskAnswered(ask=ASK_1, step=OTHER_QUESTION, value=NOTHING, by="ada"))


def test_a_person_may_be_asked_before_the_agent_starts() -> None:
    story = Story().happen(asked(), ev.SessionStarted(), ev.SessionWaiting(), ANSWERED)

    assert story.session.status is S.RUNNING


def test_a_session_does_not_wait_without_an_ask() -> None:
    assert_impossible(started(), ev.SessionWaiting(), "no ask is open")


# ---- scopes and turns


def test_a_checkpoint_opens_a_scope_between_steps() -> None:
    story = started()
    assert story.happen(ev.CheckpointTaken(scope="1.1")).session.scope == "1.1"
    assert story.session.checkpoints == 1

    assert_impossible(story, ev.CheckpointTaken(scope="1.1"), r"the next scope is '1\.2'")
    assert_impossible(started().happen(begun()), ev.CheckpointTaken(scope="1.1"), "not ended")
    assert_impossible(started().happen(asked()), ev.CheckpointTaken(scope="1.1"), "an ask is open")


@pytest.mark.parametrize("status", sorted(ENDED))
def test_a_new_turn_starts_with_a_clean_slate_and_keeps_the_messages(status: Status) -> None:
    story = in_status(status).want(cmd.Redirect(id=ID, text="now in French", level="clarify"))
    session = story.session

    assert (session.status, session.turn, session.scope, session.checkpoints) == (S.RUNNING, 2, "2", 0)
    assert [(message.text, message.turn) for message in session.messages] == [
        ("write the report", 1),
        ("now in French", 2),
    ]
    assert (session.calls, session.pause, session.cancel, session.result, session.failure) == (
        {},
        None,
        None,
        None,
        None,
    )
    assert session.receipt == ()
    assert session.goal == "write the report"


def test_a_turn_is_not_opened_over_an_open_ask() -> None:
    story = started().happen(asked(), ev.SessionFailed(code="x", message="y"))

    assert_impossible(story, ev.TurnOpened(text="x", level="step", by="ada"), "an ask is open")


def test_the_goal_is_the_last_message_that_set_one() -> None:
    story = (
        started()
        .want(cmd.Redirect(id=ID, text="a poem", level="goal"))
        .want(cmd.Redirect(id=ID, text="short", level="step"))
    )

    assert story.session.goal == "a poem"


# ---- what people see


def test_reports_and_plans_are_folded() -> None:
    items = (ev.PlanItem("write", "running"),)
    session = (
        started()
        .happen(
            ev.PlanChanged(items=items),
            ev.ReportMade(progress=0.5, hypothesis="the API is slow"),
            ev.ReportMade(message="still here"),
            ev.AgentChanged(before="1", now="2"),
        )
        .session
    )

    assert (session.plan, session.progress, session.hypothesis) == (items, 0.5, "the API is slow")
    assert session.agent_version == "2"


def test_a_completed_session_has_its_result() -> None:
    assert in_status(S.COMPLETED).session.result == value('"done"')


def test_a_failed_session_says_why_and_at_which_step() -> None:
    failure = in_status(S.FAILED).session.failure

    assert failure is not None
    assert (failure.code, failure.message, failure.step) == ("agent_failed", "OSError: down", FETCH)


def test_an_event_changes_or_requires_more_than_a_status_unless_it_is_named_here() -> None:
    alone = {
        ev.SessionCreated,  # it makes the session
        *(ev.SessionStarted, ev.SessionParked, ev.SessionWoken),
        *(ev.ValueDrawn, ev.AgentSilent, ev.LoopBlocked),
    }

    assert set(get_args(ev.AnyEvent)) - set(ARMS) == alone
