"""How long a session has worked, and what of its cost nobody knows: what lists and pages show beside each other."""

import pytest

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.ids import Epoch, Position, StepId, WorkerId
from midcourse.core.session import WORKS, Session, Status
from tests.unit.core.stories import ASK_1, FETCH, ID, QUESTION, Story, asked, begun, finished, in_status, value

THINK = StepId("1/think#0")


def worked_by(session: Session, now: float) -> float:
    """Seconds, as a reader counts them."""
    return session.worked + (0.0 if session.working_since is None else now - session.working_since)


@pytest.mark.parametrize("status", list(Status))
def test_the_clock_goes_where_something_may_run_and_stands_everywhere_else(status: Status) -> None:
    session = in_status(status).session
    assert (session.working_since is not None) is (status in WORKS)


def test_waiting_and_paused_time_is_not_counted() -> None:
    # Each event comes a second after the one before: it starts at 2, and waits at 4.
    story = Story().happen(ev.SessionStarted(), asked(), ev.SessionWaiting())
    assert (story.session.worked, story.session.working_since) == (2.0, None)
    story.happen(ev.AskAnswered(ask=ASK_1, step=QUESTION, value=value('"yes"'), by="ada"))
    assert (story.session.worked, story.session.working_since) == (2.0, 5.0)
    story.want(cmd.Pause(id=ID)).happen(ev.SessionPaused())
    assert (story.session.worked, story.session.working_since) == (4.0, None)
    assert worked_by(story.session, 1_000.0) == 4.0


def test_between_the_last_word_of_an_owner_and_the_first_of_the_next_nothing_worked() -> None:
    story = in_status(Status.RUNNING)  # started at 2, its last word at 3
    late = ev.Recorded(Position(4), 500.0, ev.SessionTaken(epoch=Epoch(2), worker=WorkerId("worker_b"), lost=(FETCH,)))
    story.fold.advance(late.at, late.event, ev.encode_record(ev.Record(late.at, late.event)))
    assert worked_by(story.session, 500.0) == 1.0
    assert worked_by(story.session, 501.0) == 2.0


def test_a_later_turn_goes_on_counting() -> None:
    story = in_status(Status.COMPLETED)
    before = story.session.worked
    assert before == 3.0
    story.want(cmd.Message(id=ID, text="Once more"))
    assert story.session.status is Status.RUNNING
    assert (story.session.worked, story.session.working_since) == (before, story.session.at)


def spoke(cost: float, tokens: int) -> Story:
    """A model was asked, and this is what is known of it."""
    story = Story().happen(ev.SessionStarted(), begun(THINK, kind="model"))
    return story.happen(ev.StepFinished(step=THINK, attempt=1, value=value('"said"'), cost=cost, tokens=tokens))


def test_a_model_that_costs_nothing_is_one_whose_price_nobody_knows() -> None:
    assert spoke(0.0, 40).session.unpriced == 1
    assert spoke(0.0, 0).session.unpriced == 1
    assert spoke(0.25, 40).session.unpriced == 0
    again = spoke(0.25, 40).happen(begun(StepId("1/think#1"), kind="model"))
    again.happen(ev.StepCut(step=StepId("1/think#1"), attempt=1, length=5))
    assert (again.session.cost, again.session.unpriced) == (0.25, 1)


def test_a_tool_that_costs_nothing_is_free_and_so_is_a_request_that_failed() -> None:
    story = Story().happen(ev.SessionStarted(), begun(), finished(), begun(THINK, kind="model"))
    story.happen(ev.StepFailed(step=THINK, attempt=1, kind="ConnectError", detail="refused"))
    assert story.session.unpriced == 0


def test_a_child_that_used_tokens_for_nothing_has_no_known_price_either() -> None:
    story = Story().happen(ev.SessionStarted(), begun(kind="child"))
    story.happen(ev.StepFinished(step=FETCH, attempt=1, value=value("1"), cost=0.0, tokens=12))
    assert story.session.unpriced == 1
