"""What is done about a call that has begun, has no outcome and is not alive: one act at a time."""

import pytest

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.effects import Effect, UndoChoice, effect_of
from midcourse.core.ids import Epoch
from midcourse.core.interrupted_calls import RecoveryAction, may_abort, next_act
from midcourse.core.session import OpenCall
from midcourse.errors import ImpossibleEvent
from tests.unit.core.stories import FETCH, ID, Story

SETTLE = 100.0


def call_of(
    effect: Effect, *, undo: bool | None = None, probe: bool = False, careful: bool = False, attempt: int = 1
) -> ev.StepBegun:
    """The start of a call."""
    return ev.StepBegun(
        step=FETCH,
        name="fetch",
        kind="tool",
        attempt=attempt,
        digest="d",
        effect=effect,
        key=f"key-{attempt}",
        tool="tools:fetch",
        settle=SETTLE,
        can_undo=effect == "reversible" if undo is None else undo,
        can_probe=probe,
        asks_if_silent=careful,
    )


def story_of(begun: ev.StepBegun, *then: ev.AnyEvent) -> Story:
    """A running session with one call."""
    return Story().happen(ev.SessionStarted(), begun, *then)


LOST = ev.SessionTaken(epoch=Epoch(2), worker="w2", lost=(FETCH,))
SILENT = ev.SessionTaken(epoch=Epoch(2), worker="w2", lost=(FETCH,), silent=True)
ABORTED = ev.StepAborted(step=FETCH, attempt=1)
REDIRECTED = ev.SessionRedirected(text="no", level="step", by="ada", grace=0.0)


def act(story: Story, *, late: bool) -> RecoveryAction:
    """The next act, within settle or after it."""
    call = story.session.calls[FETCH]
    return next_act(story.session, call, call.settled_at if late else call.ended_at)


def call(story: Story) -> OpenCall:
    return story.session.calls[FETCH]


def undo(number: int = 1, *, key: str = "key-1") -> ev.UndoBegun:
    return ev.UndoBegun(step=FETCH, name="fetch", attempt=1, key=key, effect="reversible", number=number)


def undo_ended(number: int = 1, error: str = "", *, lost: bool = False) -> ev.UndoEnded:
    return ev.UndoEnded(step=FETCH, attempt=1, key="key-1", number=number, error=error, lost=lost)


def test_a_write_with_an_undo_is_reversible_and_without_one_it_is_not() -> None:
    assert effect_of("write", has_undo=True) == "reversible"
    assert effect_of("write", has_undo=False) == "irreversible"
    assert effect_of("idempotent", has_undo=True) == "idempotent"
    assert effect_of("read", has_undo=False) == "read"


def test_only_what_cannot_be_undone_is_never_aborted() -> None:
    assert {one: may_abort(one) for one in ("read", "idempotent", "reversible", "irreversible")} == {
        "read": True,
        "idempotent": True,
        "reversible": True,
        "irreversible": False,
    }


@pytest.mark.parametrize(
    ("effect", "within", "after"),
    [("read", "again", "again"), ("idempotent", "again", "again"), ("reversible", "wait", "undo")],
)
def test_after_its_process_died_a_call_is_done_again_or_undone_first(effect: Effect, within: str, after: str) -> None:
    story = story_of(call_of(effect), LOST)

    assert act(story, late=False).do == within
    assert act(story, late=True).do == after


def test_a_lost_call_that_cannot_be_undone_is_asked_about() -> None:
    assert act(story_of(call_of("irreversible"), LOST), late=False).do == "ask"


def test_a_probe_is_asked_only_when_its_no_can_be_final() -> None:
    story = story_of(call_of("irreversible", probe=True), LOST)

    assert act(story, late=False) == RecoveryAction("wait", until=call(story).settled_at)
    assert act(story, late=True).do == "probe"


def test_a_no_is_not_used_within_settle() -> None:
    told = ev.StepSettled(step=FETCH, attempt=1, by="ada", happened=False)
    story = story_of(call_of("irreversible"), LOST, told)

    assert act(story, late=False).do == "wait"
    assert act(story, late=True).do == "again"


def test_a_probe_that_cannot_say_leads_to_a_person() -> None:
    story = story_of(call_of("irreversible", probe=True), LOST, ev.StepSettled(step=FETCH, attempt=1, by="probe"))

    assert act(story, late=True).do == "ask"


def test_a_lost_call_is_left_alone_while_its_session_is_paused_or_halted() -> None:
    for effect in ("idempotent", "reversible", "irreversible"):
        assert act(story_of(call_of(effect), LOST).want(cmd.Pause(id=ID)), late=True).do == "leave"
        assert act(story_of(call_of(effect), LOST).want(cmd.Halt(id=ID, role="operate")), late=True).do == "leave"


def test_an_aborted_call_is_undone_before_its_session_is_paused() -> None:
    story = story_of(call_of("reversible")).want(cmd.Pause(id=ID, grace=0)).happen(ABORTED)

    assert act(story, late=False).do == "wait"
    assert act(story, late=True).do == "undo"
    assert act(story.happen(undo(), undo_ended()), late=True).do == "again"


@pytest.mark.parametrize(
    ("effect", "undone", "truth"),
    [
        ("read", False, "interrupted by a redirect; no effect"),
        ("idempotent", False, "interrupted by a redirect; it may have happened"),
        ("reversible", True, "interrupted by a redirect; undone"),
    ],
)
def test_a_redirect_closes_a_call_with_the_truth(effect: Effect, undone: bool, truth: str) -> None:
    story = story_of(call_of(effect)).happen(REDIRECTED)
    if effect != "read":
        story.happen(ABORTED)
    if undone:
        story.happen(undo(), undo_ended())

    assert act(story, late=True) == RecoveryAction("close", truth=truth)


@pytest.mark.parametrize(("choice", "do"), [("in-flight", "undo"), ("all", "undo"), ("none", "unknown")])
def test_a_cancel_undoes_what_is_in_flight_unless_it_is_only_to_stop(choice: UndoChoice, do: str) -> None:
    cancel = cmd.Cancel(id=ID, grace=0, undo=choice)

    assert act(story_of(call_of("reversible")).want(cancel).happen(ABORTED), late=True).do == do


def test_a_cancel_undoes_an_idempotent_call_only_if_it_has_an_undo() -> None:
    cancel = cmd.Cancel(id=ID, grace=0)

    assert act(story_of(call_of("idempotent")).want(cancel).happen(ABORTED), late=True).do == "unknown"
    assert act(story_of(call_of("idempotent", undo=True)).want(cancel).happen(ABORTED), late=True).do == "undo"


def test_an_undo_is_tried_three_times_and_then_given_up() -> None:
    story = story_of(call_of("reversible"), LOST)
    for number in (1, 2, 3):
        assert act(story, late=True).do == "undo"
        story.happen(undo(number), undo_ended(number, "no"))

    assert act(story, late=True).do == "give_up"


def test_an_undo_that_was_lost_must_settle_before_it_is_tried_again() -> None:
    story = story_of(call_of("reversible"), LOST, undo(), LOST)

    assert call(story).undo == "lost"
    assert act(story, late=False).do == "wait"
    assert act(story, late=True).do == "undo"


@pytest.mark.parametrize("effect", ["idempotent", "irreversible"])
def test_a_call_lost_to_a_silent_worker_is_redone_only_after_a_person_said_so(effect: Effect) -> None:
    story = story_of(call_of(effect, probe=True, careful=True), SILENT)

    assert act(story, late=True).do == "ask"
    assert act(story_of(call_of("idempotent"), SILENT), late=True).do == "again"  # a tool that does not mind

    story.happen(ev.StepSettled(step=FETCH, attempt=1, by="ada", happened=False))
    assert act(story, late=True).do == "again"


def test_a_call_lost_to_a_silent_worker_is_never_called_undone() -> None:
    story = story_of(call_of("reversible", careful=True), SILENT, undo(), undo_ended())

    assert act(story, late=True).do == "give_up"


@pytest.mark.parametrize(
    ("effect", "why"),
    [("reversible", "was not undone"), ("irreversible", "no report says that the earlier attempt")],
)
def test_the_fold_refuses_to_do_again_what_may_exist(effect: Effect, why: str) -> None:
    with pytest.raises(ImpossibleEvent, match=why):
        story_of(call_of(effect), LOST, call_of(effect, attempt=2))


def test_nothing_is_undone_while_it_lives() -> None:
    with pytest.raises(ImpossibleEvent, match="has not ended"):
        story_of(call_of("reversible"), undo())


def test_a_lost_call_finishes_only_by_somebodys_word() -> None:
    finished = ev.StepFinished(step=FETCH, attempt=1)
    with pytest.raises(ImpossibleEvent, match="no outcome was reported"):
        story_of(call_of("irreversible"), LOST, finished)

    story = story_of(call_of("irreversible"), LOST, ev.StepFinished(step=FETCH, attempt=1, told_by="probe"))
    assert FETCH not in story.session.calls


def test_a_start_that_did_not_begin_leaves_the_attempt_before_as_it_was() -> None:
    story = story_of(call_of("idempotent"), LOST)
    before = call(story)

    story.happen(call_of("idempotent", attempt=2), ev.StepNotBegun(step=FETCH, attempt=2))

    assert call(story) == before


def test_a_call_that_a_redirect_closed_leaves_its_key_for_the_same_call_later() -> None:
    story = story_of(call_of("idempotent")).happen(REDIRECTED, ABORTED)
    story.happen(ev.StepClosed(step=FETCH, attempt=1, message=1, truth="it may have happened"))

    assert list(story.session.loose_keys.values()) == ["key-1"]
