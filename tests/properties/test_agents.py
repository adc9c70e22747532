"""Whatever an agent sends, and whenever: what people and policies have said and stopped stays as they said it."""

import contextlib
from collections.abc import Mapping
from typing import Final, get_args

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.agent_rights import RIGHTS
from midcourse.core.decisions import decide
from midcourse.core.ids import SessionId
from midcourse.core.session import ENDED, Session, Status
from midcourse.errors import ImpossibleEvent, Refused
from tests.properties.histories import (
    DRIVER,
    Move,
    amendments,
    any_command,
    budgets,
    cancels,
    events_of,
    halts,
    interventions,
    lifts,
    messages,
    outside_events,
    pauses,
    redirects,
    resumes,
    values,
)
from tests.unit.core.stories import SESSION, Story

CHILD: Final = SessionId(f"{SESSION}.0123456789")
ITSELF: Final = f"session:{CHILD}"
PARENT: Final = f"session:{SESSION}"
STRANGER: Final = "session:sess_7"
agents: Final = st.sampled_from([ITSELF, PARENT, ITSELF, PARENT, STRANGER])
people: Final = st.one_of(pauses, resumes, redirects, messages, halts, lifts, cancels, interventions, budgets)
wishes: Final = st.one_of(pauses, resumes, redirects, messages, amendments, outside_events, cancels, any_command)


_MOVES: Final = ("ask", "ask", "wait", "wake", "pause", "pause", "begin", "finish", "abort", "complete", "fail", "see")
assert DRIVER.keys() >= set(_MOVES)


def is_others(standing: str, by: str) -> bool:
    """Whether ``standing`` is neither the agent ``by`` nor, for the parent's agent, the child's."""
    return standing != by and (by, standing) != (PARENT, ITSELF)


def controls(session: Session, by: str, *, cancels: bool) -> Mapping[str, object]:
    """Everything that the agent ``by`` must leave as it is. With a cancel it may end what waits, and nothing more."""
    stops = [session.pause, session.pause.beneath if session.pause else None]
    deferred, cancel = session.deferred, session.cancel
    said = dict(enumerate(session.messages))
    waits = {
        "pauses": [
            (one.id, one.by, one.reason, one.lapses_at, one.budget) for one in stops if one and is_others(one.by, by)
        ],
        "asks": session.asks,
        "queue": [one for one in session.queue if one.by != by],
    }
    return {
        **({} if cancels else waits),
        "deferred": deferred if deferred and is_others(deferred.by, by) else None,
        "cancel": cancel if cancel and is_others(cancel.by, by) else None,
        "halt": (session.status is Status.HALTED, session.halted_by, session.halt_reason, session.switch),
        "ended": session.status if session.status in ENDED else "",
        "terms": session.terms,
        "said": {place: one for place, one in said.items() if one.by != by},
        "goal": session.goal,  # the first of them is a person's
        "undo": session.undo,
        "judged": (session.interventions, session.labels, session.score),
    }


def kept(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Whether everything is there as it was; something of others may have come."""
    said_before, said_after = before["said"], after["said"]
    assert isinstance(said_before, dict)
    assert isinstance(said_after, dict)
    freely = {"said": None} if before["ended"] else {"said": None, "ended": None}  # a stop may end it
    return {**after, **freely} == {**before, **freely} and said_before.items() <= said_after.items()


class Agents(RuleBasedStateMachine):
    """People, policies, a driver, and agents that send whatever they like, with whatever role."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story()

    @initialize(starts=st.sampled_from([True, True, False]), task_class=st.sampled_from(["", "protected"]))
    def it_may_have_started(self, starts: bool, task_class: str) -> None:
        if task_class:
            terms = replace(self.story.session.terms, task_class="protected")
            self.story.fold.session = replace(self.story.session, terms=terms)
        if starts:
            self.story.happen(ev.SessionStarted())

    @property
    def session(self) -> Session:
        """The session, as a child of another."""
        return replace(self.story.session, id=CHILD)

    @rule(command=people)
    def somebody_wants_anything(self, command: cmd.AnyCommand) -> None:
        with contextlib.suppress(Refused):
            self.story.happen(*decide(self.session, command))
            if isinstance(command, cmd.Pause) and not command.by.startswith("parent "):
                self.a_persons_stop_is_a_persons()

    def a_persons_stop_is_a_persons(self) -> None:
        """Also if an agent had stopped it before: else that agent would lift it."""
        for stop in (self.session.pause, self.session.deferred):
            assert stop is None or not stop.by.startswith("session:")

    @rule(command=pauses, parent=st.just(f"parent {SESSION}"))
    def the_parent_passes_a_pause_on(self, command: cmd.AnyCommand, parent: str) -> None:
        self.somebody_wants_anything(replace(command, by=parent))

    @rule(move=st.builds(Move, do=st.sampled_from(_MOVES), pick=st.integers(0, 11), value=values))
    def the_driver_does_something(self, move: Move) -> None:
        with contextlib.suppress(ImpossibleEvent):
            self.story.happen(*events_of(self.story.session, self.story.log, move))

    @rule(by=agents, command=pauses | cancels)
    def an_agent_stops_it(self, by: str, command: cmd.AnyCommand) -> None:
        self.an_agent_wants_anything(command, by, forces=False, lapses=None)

    @rule(command=wishes, by=agents, forces=st.booleans(), lapses=st.none() | st.just(0.001))
    def an_agent_wants_anything(self, command: cmd.AnyCommand, by: str, forces: bool, lapses: float | None) -> None:
        session = self.session
        command = replace(command, by=by)
        if isinstance(command, cmd.Pause):
            command = replace(command, lapses=lapses)
        if isinstance(command, cmd.Cancel):
            command = replace(command, force=forces, restart=forces)
        cancels = isinstance(command, cmd.Cancel)
        before = controls(session, by, cancels=cancels)
        try:
            events = decide(session, command)
        except Refused:
            return
        right = RIGHTS[type(command)]
        assert (by, right.itself) == (ITSELF, True) or (by, right.child) == (PARENT, True)
        for one in events:
            assert not isinstance(one, ev.AskAnswered | ev.BudgetRaised)
            assert not (isinstance(one, ev.CancelRequested) and (one.force or one.restart))
        self.story.happen(*events)
        after = controls(self.session, by, cancels=cancels)
        assert kept(before, after), (command, before, after)
        if cancels and events and session.status not in (Status.RUNNING, Status.WAITING):
            assert self.session.status in (Status.CANCELLING, Status.CANCELLED)


TestAgents = Agents.TestCase
TestAgents.settings = settings(stateful_step_count=15)


def test_every_command_is_on_the_agents_list() -> None:
    """Allowed or not: a new one does not become an agent's by being forgotten."""
    assert RIGHTS.keys() == set(get_args(cmd.AnyCommand))
