"""Any stream of commands and driver events is applied, or refused with an error that says what is allowed."""

import contextlib
from collections.abc import Callable
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.budget import needed
from midcourse.core.decisions import allowed, decide
from midcourse.core.fold import fold
from midcourse.core.ids import AskId, CommandId, PauseId
from midcourse.core.session import ALLOWED_IN, ENDED, LIVE, TRANSITIONS, Session, Status
from midcourse.core.snapshot import encode_snapshot
from midcourse.errors import ImpossibleEvent, Refused
from tests.properties.histories import (
    Move,
    amendments,
    answers,
    any_command,
    any_event,
    any_move,
    budgets,
    cancels,
    events_of,
    halts,
    interventions,
    labels,
    lifts,
    messages,
    outside_events,
    pauses,
    ratings,
    redirects,
    resumes,
    values,
)
from tests.unit.core.stories import SESSION, Story

S = Status
ANY_END: Final = {
    ev.SessionTaken,
    ev.SessionForked,
    ev.AskClosed,
    ev.TurnOpened,
    ev.MessageQueued,
    ev.MessageEdited,
    ev.MessageWithdrawn,
    ev.UndoRequested,
    ev.BudgetRaised,
    ev.UndoBegun,
    ev.UndoEnded,
    ev.UndoFinished,
    ev.ToolsNeeded,
    ev.HoldReleased,
    ev.InterventionLabelled,
    ev.SessionRated,
}
JUDGES: Final = cmd.Intervene | cmd.Label | cmd.Rate
"""What may be said of a session wherever it stands."""
AFTER_THE_END: Final = {
    S.COMPLETED: ANY_END,
    S.CANCELLED: ANY_END,
    S.FAILED: {*ANY_END, ev.SessionResumed},
}


def taken(session: Session, verb: str, role: cmd.Role) -> cmd.AnyCommand:
    """The command that a hint of ``verb`` invites to."""
    name = CommandId("c")
    match verb:
        case "pause":
            return cmd.Pause(id=name, role=role)
        case "resume":
            return cmd.Resume(id=name, role=role)
        case "redirect":
            return cmd.Redirect(id=name, role=role, text="x")
        case "cancel":
            return cmd.Cancel(id=name, role=role)
        case "answer":
            asks = [ask for ask in session.asks if ask.reason != "need_approval" or role in ("approve", "operate")]
            return cmd.Answer(id=name, role=role, ask=asks[0].id)
        case "message":
            return cmd.Message(id=name, role=role, text="x")
        case "edit":
            return cmd.Edit(id=name, role=role, message=session.amendable[0], text="x")
        case "withdraw":
            return cmd.Withdraw(id=name, role=role, message=session.amendable[-1])
        case "halt":
            return cmd.Halt(id=name, role=role)
        case "undo":
            return cmd.Undo(id=name, role=role)
        case "budget":
            return cmd.Budget(id=name, role=role, budget=needed(session) or 0.0)
        case "lift":
            return cmd.Lift(id=name, role=role)
        case _:
            raise AssertionError(verb)


def moves(*do: str) -> st.SearchStrategy[Move]:
    """Moves of these kinds."""
    return st.builds(Move, do=st.sampled_from(do), pick=st.integers(0, 11), value=values)


def is_in(*statuses: Status) -> "Callable[[Control], bool]":
    """Whether the session stands in one of them."""
    return lambda machine: machine.story.session.status in statuses


class Control(RuleBasedStateMachine):
    """People and a driver against ``decide`` and ``evolve``, with a memory of its own of what must never happen.

    One rule per kind of deed: hypothesis leaves some out in each run, so that some sessions are never cancelled.
    """

    def __init__(self) -> None:
        super().__init__()
        self.story = Story()
        self.lifted: set[PauseId] = set()
        self.ended_asks: set[AskId] = set()
        self.done: set[str] = set()
        self.is_cancelled = False
        self.a_path_can_go_on = False

    # ---- people

    @rule(command=any_command)
    def somebody_wants_anything(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(is_in(S.QUEUED, S.RUNNING, S.WAITING, S.PAUSING))
    @rule(command=pauses)
    def somebody_pauses(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(is_in(S.PAUSING, S.PAUSED, S.FAILED))
    @rule(command=resumes)
    def somebody_resumes(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(is_in(S.RUNNING, S.WAITING, S.PAUSING, S.PAUSED, *ENDED))
    @rule(command=redirects)
    def somebody_redirects(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(is_in(*LIVE))
    @rule(command=cancels)
    def somebody_cancels(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(lambda self: bool(self.story.session.asks))
    @rule(command=answers)
    def somebody_answers(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @rule(command=messages)
    def somebody_says_something(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(lambda self: bool(self.story.session.amendable))
    @rule(command=amendments)
    def somebody_says_it_otherwise_or_not_at_all(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(is_in(*LIVE))
    @rule(command=outside_events | budgets)
    def something_happens_outside(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(is_in(*LIVE))
    @rule(command=interventions)
    def a_policy_steps_in(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(lambda self: bool(self.story.session.interventions) or self.story.session.status in ENDED)
    @rule(command=labels | ratings)
    def somebody_judges_it(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(is_in(*LIVE))
    @rule(command=halts)
    def somebody_halts(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    @precondition(is_in(S.HALTED))
    @rule(command=lifts)
    def somebody_lifts(self, command: cmd.AnyCommand) -> None:
        self.somebody_wants(command)

    # ---- the driver

    @initialize(starts=st.sampled_from([True, True, False]))
    def it_may_have_started(self, starts: bool) -> None:
        if starts:
            self.happens(ev.SessionStarted())

    @rule(move=moves("begin"))
    def a_step_begins(self, move: Move) -> None:
        self.the_driver_does(move)

    @precondition(lambda self: bool(self.story.session.calls))
    @rule(move=moves("finish", "finish streamed", "raise", "abort", "find the gate shut", "cut", "close"))
    def a_call_ends(self, move: Move) -> None:
        self.the_driver_does(move)

    @precondition(lambda self: bool(self.story.session.calls))
    @rule(move=moves("write", "write over", "take"))
    def a_call_writes_or_is_lost(self, move: Move) -> None:
        self.the_driver_does(move)

    @precondition(lambda self: any(call.end for call in self.story.session.calls.values()))
    @rule(
        move=moves(
            "undo",
            "undone",
            "fail to undo",
            "lose the undo",
            "told that it happened",
            "told that it did not",
            "told nothing",
            "give up",
        )
    )
    def a_call_is_settled(self, move: Move) -> None:
        self.the_driver_does(move)

    @rule(move=moves("hold", "release", "see a change", "undo all"))
    def something_is_held_or_has_changed(self, move: Move) -> None:
        self.the_driver_does(move)

    @precondition(is_in(S.RUNNING, S.WAITING, S.PAUSING, S.HALTED))
    @rule(move=moves("ask"))
    def the_agent_asks(self, move: Move) -> None:
        self.the_driver_does(move)

    @precondition(lambda self: bool(self.story.session.asks))
    @rule(move=moves("wait", "wait", "wake", "expire"))
    def the_agent_waits(self, move: Move) -> None:
        self.the_driver_does(move)

    @precondition(is_in(S.QUEUED, S.PAUSING, S.CANCELLING))
    @rule(move=moves("start", "pause", "cancel"))
    def a_start_or_a_stop_is_completed(self, move: Move) -> None:
        self.the_driver_does(move)

    @precondition(is_in(S.RUNNING, S.PAUSED))
    @rule(move=moves("complete", "go on with what was said", "fail", "checkpoint", "see"))
    def the_scope_ends(self, move: Move) -> None:
        self.the_driver_does(move)

    @rule(move=any_move)
    def the_driver_does_anything(self, move: Move) -> None:
        self.the_driver_does(move)

    # These two withdraw asks, which only deciding them does; and erasing has tests of its own.
    @rule(
        event=any_event.filter(
            lambda event: not isinstance(event, ev.CancelRequested | ev.HaltLifted | ev.SessionErased)
        )
    )
    def anything_is_tried(self, event: ev.AnyEvent) -> None:
        self.happens_if_possible(event)

    # ---- what must hold of each

    def somebody_wants(self, command: cmd.AnyCommand) -> None:
        try:
            events = decide(self.story.session, command)
        except Refused as error:
            self.check_refusal(command, error)
            return
        self.check_granted(command, events)
        mark = self.story.session.mark
        for event in events:
            self.happens(event)  # what is decided is always possible: nothing is caught here
        if isinstance(command, cmd.Cancel | cmd.Lift) and self.story.session.status is S.CANCELLING and events:
            assert not self.story.session.asks
            assert not self.story.session.queue
        # Those may just be made firmer; what is said of a session, or told to people, changes nothing to decide by.
        only_tells = isinstance(command, JUDGES) and (
            not isinstance(command, cmd.Intervene) or command.decision.level == "notify"
        )
        assert not only_tells or self.story.session.mark == mark, command
        if events and not only_tells and not isinstance(command, cmd.Pause | cmd.Cancel | cmd.Undo):
            assert self.story.session.mark != mark, command

    def the_driver_does(self, move: Move) -> None:
        for event in events_of(self.story.session, self.story.log, move):
            self.happens_if_possible(event)

    def happens_if_possible(self, event: ev.AnyEvent) -> None:
        before = encode_snapshot(self.story.fold.snapshot())
        with contextlib.suppress(ImpossibleEvent):
            self.happens(event)
            return
        assert encode_snapshot(self.story.fold.snapshot()) == before

    def check_refusal(self, command: cmd.AnyCommand, error: Refused) -> None:
        session = self.story.session
        assert command.sent is None or error.code in cmd.refusals(type(command))
        assert str(error).startswith(f"Cannot {cmd.phrase(command)} session '{SESSION}': ")
        assert error.allowed == allowed(session, command.role)
        for verb in error.allowed:
            decide(session, taken(session, verb, command.role))

    def check_granted(self, command: cmd.AnyCommand, events: tuple[ev.AnyEvent, ...]) -> None:
        session = self.story.session
        kinds = {type(event) for event in events}
        if session.status in ENDED:
            assert isinstance(
                command,
                cmd.Redirect
                | cmd.Resume
                | cmd.Cancel
                | cmd.Undo
                | cmd.Message
                | cmd.Edit
                | cmd.Withdraw
                | cmd.Budget
                | JUDGES,
            )
        if isinstance(command, cmd.Resume) and command.pause is not None:
            assert session.pause is not None
            assert command.pause == session.pause.id
        if {ev.HaltLifted, ev.SessionHalted} & kinds or session.status is S.HALTED:
            assert command.role == "operate" or isinstance(command, cmd.Answer | cmd.Edit | cmd.Withdraw | JUDGES)
        if session.status is S.CANCELLING:
            told = {ev.InterventionMade, ev.InterventionLabelled}
            assert kinds <= {ev.CancelRequested, ev.SessionHalted, ev.MessageEdited, ev.MessageWithdrawn, *told}
        if isinstance(command, cmd.Answer):
            ask = next(event.ask for event in events if isinstance(event, ev.AskAnswered))
            reason = next(one.reason for one in session.asks if one.id == ask)
            assert reason != "need_approval" or command.role in ("approve", "operate")

    def happens(self, event: ev.AnyEvent) -> None:
        before = self.story.session
        self.story.happen(event)
        after = self.story.session
        assert after.status == before.status or (before.status, type(event)) in TRANSITIONS
        if before.status in ENDED:
            assert type(event) in AFTER_THE_END[before.status]
        match event:
            case ev.StepBegun(step=step):
                assert before.status is S.RUNNING
                assert step not in before.running
                assert step not in self.done
            case ev.StepFinished(step=step):
                self.done.add(step)
            case ev.SessionResumed(pause=pause):
                assert pause not in self.lifted
                assert pause == (before.pause.id if before.pause else None)
                if pause is not None:
                    self.lifted.add(pause)
            case ev.AskAnswered(ask=ask) | ev.AskClosed(ask=ask):
                assert ask not in self.ended_asks
                self.ended_asks.add(ask)
                self.a_path_can_go_on = before.status in (S.PAUSING, S.PAUSED, S.HALTED)
            case ev.CancelRequested():
                self.is_cancelled = True
            case ev.TurnOpened(queued=queued):
                self.is_cancelled = False
                if queued is not None:
                    assert queued == before.queue[0].id
                    assert after.messages[-1].text == before.queue[0].text
            case ev.MessageEdited(message=message) | ev.MessageWithdrawn(message=message):
                assert message in before.amendable
                # What the agent has seen stays word for word as it was.
                assert after.messages[: before.seen] == before.messages[: before.seen]
                assert (message in after.amendable) == isinstance(event, ev.MessageEdited)
            case ev.HaltLifted():
                assert after.status is before.halted_from or before.halted_from is S.WAITING
            case _:
                pass
        if after.status is S.WAITING:
            assert not self.a_path_can_go_on
        elif after.status is S.RUNNING:
            self.a_path_can_go_on = False

    @invariant()
    def a_cancelled_session_never_runs_or_pauses_again(self) -> None:
        if self.is_cancelled:
            assert self.story.session.status in (S.CANCELLING, S.CANCELLED, S.HALTED)
            if self.story.session.status is S.HALTED:
                assert self.story.session.halted_from is S.CANCELLING

    @invariant()
    def what_stands_fits_the_status(self) -> None:
        session = self.story.session
        acts_as = session.halted_from or session.status
        assert (session.halted_from is not None) == (session.status is S.HALTED)
        assert (session.pause is not None) == (acts_as in (S.PAUSING, S.PAUSED))
        assert (session.cancel is not None) == (acts_as in (S.CANCELLING, S.CANCELLED))
        assert (session.failure is not None) == (session.status is S.FAILED)
        if acts_as is S.WAITING:
            assert session.asks

    @invariant()
    def messages_are_in_order(self) -> None:
        session = self.story.session
        assert 1 <= session.seen <= len(session.messages)
        assert session.withdrawn == sum(one.withdrawn for one in session.messages)
        assert session.said == tuple(one for one in session.messages if not one.withdrawn)
        queued = [one.id for one in session.queue]
        assert queued == sorted(queued, key=lambda one: int(one.rpartition("_")[2]))
        assert len(queued) <= session.queued
        for call in session.calls.values():
            assert call.redirected is None or not session.messages[call.redirected].withdrawn

    @invariant()
    def every_hint_can_be_followed(self) -> None:
        session = self.story.session
        for role in ("steer", "operate"):
            for verb in allowed(session, role):
                decide(session, taken(session, verb, role))

    def teardown(self) -> None:
        """Replay equals live."""
        state = fold(SESSION, None, self.story.rows)
        assert (state.session, state.log, state.digest) == (
            self.story.session,
            self.story.log,
            self.story.fold.digest,
        )


def test_no_event_is_both_a_transition_to_and_a_resident_of_the_same_status() -> None:
    stays = {(status, kind) for kind, statuses in ALLOWED_IN.items() for status in statuses}

    both = stays & set(TRANSITIONS)
    assert both == {(S.WAITING, ev.AskAnswered), (S.WAITING, ev.AskClosed)}


TestControl = Control.TestCase
TestControl.settings = settings(stateful_step_count=60)
