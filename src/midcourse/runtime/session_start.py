"""Decide if a session's agent may be started here: its turn, its parent, its version, an ask that comes first."""

from collections.abc import Callable

from midcourse.core import events as ev
from midcourse.core.asks import is_yes, with_deadline
from midcourse.core.ids import StepId, ask_id
from midcourse.core.interrupted_calls import DID_IT_HAPPEN
from midcourse.core.session import Status
from midcourse.core.steps import NEW_VERSION, WORLD, step_id
from midcourse.errors import Interrupt
from midcourse.runtime.admission import Admission, Applicant
from midcourse.runtime.agent_task import AgentFailed
from midcourse.runtime.agents import Agent
from midcourse.runtime.journal import Journal
from midcourse.runtime.run import INTERRUPT

UnlessStopped = Callable[[Callable[[], None]], bool]
"""Does something unless a stop stands against the parent's calls, and returns whether it was done."""


def at_once(act: Callable[[], None]) -> bool:
    """Do it: there is no parent any more that could be stopped."""
    act()
    return True


class SessionStart:
    """The steps before an agent's first line. On the agent's loop."""

    def __init__(self, journal: Journal, admission: Admission, sponsor: UnlessStopped | None) -> None:
        self._journal = journal
        self._admission = admission
        self._sponsor = sponsor

    def is_let_in(self, applicant: Applicant, agent: Agent[object]) -> bool:
        """Return True if it is the session's turn. Only new sessions wait, and a child starts with its parent."""
        session = self._journal.session
        if session.parent is not None:
            return session.status is not Status.QUEUED or self._sponsor is not None
        if session.status is Status.QUEUED:
            return self._admission.let_in(applicant, agent.name)
        self._admission.entered(session.id)
        return True

    @property
    def waits_for_its_parent(self) -> bool:
        """True if this is a child that has not begun, owned by a process that may not begin it."""
        session = self._journal.session
        return session.parent is not None and session.status is Status.QUEUED and self._sponsor is None

    def may_start(self, agent: Agent[object]) -> bool | AgentFailed:
        """Return True if the agent may run as it is here. False: an ask comes first. ``AgentFailed``: it may not."""
        session = self._journal.session
        if self._is_asking_first():
            return False
        if session.agent_version == agent.version:
            return True
        before = f"version {session.agent_version}, and it is now {agent.version}"
        asked = self._journal.log.asks.get(step_id(session.scope, NEW_VERSION, agent.version))
        if agent.on_new_version == "ask" and asked is None:
            self._ask_first(
                step_id(session.scope, NEW_VERSION, agent.version),
                Interrupt("agent_changed", f"Agent '{agent.name}' began as {before}. Go on?"),
            )
            return False
        approved = asked is not None and asked.end == "answered" and is_yes(asked.value)
        if agent.on_new_version == "refuse" or (agent.on_new_version == "ask" and not approved):
            return AgentFailed(
                "agent_changed",
                f"Session '{session.id}' began under agent '{agent.name}' {before}; to continue was refused. "
                "Run it with the old code, or start a new session.",
            )
        with self._journal.lock:
            self._journal.note(ev.AgentChanged(before=session.agent_version, now=agent.version))
        return True

    def begin(self) -> bool:
        """Journal the start, if this is one. A child starts unless its parent is stopped."""
        if self._journal.session.status is not Status.QUEUED:
            return True
        if self._sponsor is None:
            self._note_start()
            return True
        return self._sponsor(self._note_start)

    def _note_start(self) -> None:
        with self._journal.lock:
            if self._journal.session.status is Status.QUEUED:
                self._journal.note(ev.SessionStarted())

    def ask_for_agent(self, interrupt: Interrupt) -> None:
        """Ask for the agent's ``Interrupt``, and start it again once there is an answer."""
        scope, asks = self._journal.session.scope, self._journal.log.asks
        ordinal = 1 + sum(step.startswith(f"{scope}/{INTERRUPT}#") for step in asks)
        self._ask_first(step_id(scope, INTERRUPT, ordinal), interrupt, asked_by_agent=True)

    def _ask_first(self, step: StepId, interrupt: Interrupt, *, asked_by_agent: bool = False) -> None:
        with self._journal.lock:
            session = self._journal.session
            opened = ev.AskOpened(
                ask=ask_id(session.asks_opened + 1),
                step=step,
                reason=interrupt.reason,
                prompt=interrupt.prompt,
            )
            now = self._journal.now
            self._journal.note(with_deadline(opened, session.terms, now) if asked_by_agent else opened)
            if session.status is Status.QUEUED:
                self._journal.note(ev.SessionStarted())
            if self._journal.session.status is Status.RUNNING:
                self._journal.note(ev.SessionWaiting())

    def wait_for_answers(self) -> None:
        """Asks were opened before the agent could start: every path waits for them."""
        with self._journal.lock:
            if self._journal.session.status is Status.RUNNING and self._is_asking_first():
                self._journal.note(ev.SessionWaiting())

    def _is_asking_first(self) -> bool:
        """Return True if an ask is open that the agent cannot be started without."""
        scope = self._journal.session.scope
        first = (f"{scope}/{INTERRUPT}#", f"{scope}/{NEW_VERSION}#", f"{scope}/{WORLD}#")
        asks = self._journal.session.asks
        return any(ask.step.startswith(first) or ask.reason == DID_IT_HAPPEN for ask in asks)
