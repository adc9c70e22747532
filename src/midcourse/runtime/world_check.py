"""Check if the world has changed: what tools had observed is checked again before a session continues.

Before a cold start always; before a warm session continues if it rested for ``Settings.world_after`` seconds.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from midcourse.core import events as ev
from midcourse.core.asks import is_yes
from midcourse.core.codec import encode, secret_free, value_of, without_secrets
from midcourse.core.ids import StepId, ask_id
from midcourse.core.session import Session, Status
from midcourse.core.steps import WORLD, WORLD_CHANGED, AskRecord, step_id
from midcourse.errors import describe
from midcourse.runtime.agent_task import AgentFailed
from midcourse.runtime.calls import is_stop
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.journal import Journal
from midcourse.runtime.redacted_arguments import restored
from midcourse.runtime.session_loader import content_of
from midcourse.runtime.tools import AgentPlace, OnChange, Tool, find_tool

log = logging.getLogger("midcourse")

AT_ONCE: Final = 32
"""The number of checks at the same time."""
ABSENT: Final = "absent"
REFUSED: Final = "A person refused to continue in a changed world."
SHOWN: Final = 10
"""Changes that a question or a failure names."""
SEVERITY: Final[tuple[OnChange, ...]] = ("go_on", "tell", "ask", "refuse")


async def observe(tool: Tool[..., Any], arguments: Mapping[str, object]) -> dict[str, ev.Observation]:
    """Return what a call has read, with the present versions. What cannot be checked is not remembered."""
    given, blob = value_of(secret_free(encode(arguments, what=f"The arguments of tool '{tool.name}'")))
    observed: dict[str, ev.Observation] = {}
    task = asyncio.current_task()
    for observer in tool.observes:
        try:
            resource, version = observer.resource(arguments), await observer.version(arguments)
        except BaseException as error:  # an observer is code that is not ours, and must not fail the step
            if is_stop(error, task):
                raise
            # Not what it says: that may quote the arguments, and a log is not erased.
            log.warning("tool '%s': what it observes cannot be checked (%s)", tool.name, type(error).__qualname__)
            continue
        if blob is None:
            observed[resource] = ev.Observation(version, tool.origin, given)
    return observed


class WorldCheck:
    """The observations of one session, on the agent's loop."""

    def __init__(self, journal: Journal, ctx: RuntimeContext, moved: AgentPlace, *, is_cold: bool) -> None:
        self._moved = moved
        self._journal = journal
        self._ctx = ctx
        self._to_check = is_cold
        self._rests_since: float | None = None
        self._checked: tuple[object, ...] | None = None
        self._asked: StepId | None = None

    @property
    def is_to_be_checked(self) -> bool:
        """True if the session has observed anything, and starts cold or has rested for long."""
        return bool(self._journal.log.observed) and (self._to_check or self._has_rested)

    @property
    def holds(self) -> bool:
        """True if a warm session must not continue: a check comes first, or a person's answer to it."""
        if not self._journal.log.observed:
            self._to_check, self._rests_since = False, None
            return False
        return self.is_to_be_checked or self._answer is not None

    @property
    def _has_rested(self) -> bool:
        if self._rests_since is None:
            return False
        session = self._journal.session
        if session.working_since is None and self._checked == _rest_of(session):
            return False  # checked for what ended the wait: the session works again once it has passed the gate
        until = self._journal.now if session.working_since is None else session.working_since
        return until - self._rests_since >= self._ctx.settings.world_after

    @property
    def _answer(self) -> AskRecord | None:
        """The open question of this process about a change, unless a person agreed or gave another instruction."""
        asked = None if self._asked is None else self._journal.log.asks.get(self._asked)
        if asked is None or asked.end not in ("", "answered") or (asked.end and is_yes(asked.value)):
            return None
        return asked

    def note_rest(self) -> None:
        """Remember since when the session rests. A rest that was too short to matter is forgotten."""
        if self._journal.session.working_since is None:
            if self._rests_since is None:
                self._rests_since = self._journal.now
        elif self._rests_since is not None and not self._has_rested:
            self._rests_since = None

    async def check(self, *, is_warm: bool = False) -> AgentFailed | None:
        """Check again, once; journal what is different; ask or refuse, if a tool wants that.

        A ``warm`` agent may not have read the changes of the last check: they stay until there are new ones.
        """
        observed = dict(self._journal.log.observed)
        at_once = asyncio.Semaphore(AT_ONCE)
        looks = [self._look(resource, before, at_once) for resource, before in observed.items()]
        changes = [change for change in await asyncio.gather(*looks) if change is not None]
        with self._journal.lock:
            if self._journal.session.status not in (Status.RUNNING, Status.WAITING, Status.QUEUED):
                self._to_check = True  # stopped meanwhile: checked again when it continues
                return None
            self._to_check, self._rests_since = False, None
            self._checked = _rest_of(self._journal.session)
            standing = self._journal.session.changes
            if changes and tuple(changes) == standing:
                return None  # reported before, and still so: what could not be checked then cannot be now
            if not changes and (is_warm or not standing or any(_is_a_persons(one) for one in standing)):
                return None  # a person was notified and let it continue: the agent gets the same facts, too
            self._journal.note(ev.WorldChanged(changes=tuple(changes)))
            policies = [_policy(change.policy) for change in changes]
            strictest = max(policies, key=SEVERITY.index, default="go_on")
            if strictest == "ask":
                question = self._question(changes)
                self._asked = question.step
                self._journal.note(question)
                self._checked = None  # a person may take long, too
        if strictest == "refuse":
            return AgentFailed(WORLD_CHANGED, _changes_text(changes))
        return None

    def refused_now(self) -> AgentFailed | None:
        """Return the failure if a person refused to continue, asked by this process."""
        return AgentFailed(WORLD_CHANGED, REFUSED) if (asked := self._answer) is not None and asked.end else None

    def refused(self) -> AgentFailed | None:
        """Return the failure if a person refused to continue in the changed world."""
        prefix = f"{self._journal.session.scope}/{WORLD}#"
        asked = [record for step, record in self._journal.log.asks.items() if step.startswith(prefix)]
        if not asked or asked[-1].end != "answered" or asked[-1].spent or is_yes(asked[-1].value):
            return None
        return AgentFailed(WORLD_CHANGED, REFUSED)

    async def _look(self, resource: str, before: ev.Observation, at_once: asyncio.Semaphore) -> ev.Change | None:
        policy: OnChange = "tell"
        task = asyncio.current_task()
        try:
            tool = find_tool(before.tool, self._moved)
            policy = tool.on_change
            arguments, _ = restored(tool, await content_of(self._ctx.store, before.given))
            observer = next(one for one in tool.observes if one.resource(arguments) == resource)
            async with at_once, self._ctx.clock.timeout(self._ctx.settings.world_timeout):
                now = await observer.version(arguments)
        except BaseException as error:  # that it could not be checked is an outcome, too
            if is_stop(error, task):
                raise
            words = without_secrets(describe(error)) or type(error).__name__
            why = "no answer in time" if isinstance(error, TimeoutError) else words
            return ev.Change(resource, before.version, None, policy, f"could not be checked: {why}")
        return None if now == before.version else ev.Change(resource, before.version, now, policy)

    def _question(self, changes: list[ev.Change]) -> ev.AskOpened:
        session = self._journal.session
        prefix = f"{session.scope}/{WORLD}#"
        ordinal = 1 + sum(step.startswith(prefix) for step in self._journal.log.asks)
        return ev.AskOpened(
            ask=ask_id(session.asks_opened + 1),
            step=StepId(step_id(session.scope, WORLD, ordinal)),
            reason=WORLD_CHANGED,
            prompt=f"{_changes_text(changes)} Go on?",
            options=("approve", "refuse"),
        )


def _rest_of(session: Session) -> tuple[object, ...]:
    """Return what changes when a wait ends."""
    return session.asks, session.pauses, session.halts


def _is_a_persons(change: ev.Change) -> bool:
    return _policy(change.policy) in ("ask", "refuse")


def _policy(name: str) -> OnChange:
    return name if name in SEVERITY else "tell"


def _changes_text(changes: list[ev.Change]) -> str:
    words = [
        f"{one.resource} {one.why}"
        if one.why
        else f"{one.resource} was {one.before or 'absent'}, is {one.now or 'absent'}"
        for one in changes[:SHOWN]
    ]
    more = f", and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
    told = f"{'; '.join(words)}{more}".rstrip(".")
    return f"Changed since the session last looked: {told}."
