"""Whether the world has moved: what tools had observed is looked at again before a session goes on cold."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from midcourse.core import events as ev
from midcourse.core.asks import is_yes
from midcourse.core.codec import encode, secret_free, value_of, without_secrets
from midcourse.core.ids import StepId, ask_id
from midcourse.core.session import Status
from midcourse.core.steps import WORLD, WORLD_CHANGED, step_id
from midcourse.errors import words_of
from midcourse.runtime.agent_task import Failed
from midcourse.runtime.journal import Journal
from midcourse.runtime.loading import content_of
from midcourse.runtime.surroundings import Surroundings
from midcourse.runtime.tools import Moved, OnChange, Tool, find_tool
from midcourse.runtime.withheld import restored

log = logging.getLogger("midcourse")

AT_ONCE: Final = 32
"""Looks at the same time."""
ABSENT: Final = "absent"
SHOWN: Final = 10
"""Changes that a question or a failure names."""
SEVERITY: Final[tuple[OnChange, ...]] = ("go_on", "tell", "ask", "refuse")


async def observe(tool: Tool[..., Any], arguments: Mapping[str, object]) -> dict[str, ev.Observation]:
    """What a call has looked at, with the versions of now. What cannot be looked at is not remembered."""
    given, blob = value_of(secret_free(encode(arguments, what=f"The arguments of tool '{tool.name}'")))
    observed: dict[str, ev.Observation] = {}
    for observer in tool.observes:
        try:
            resource, version = observer.resource(arguments), await observer.version(arguments)
        except Exception as error:  # noqa: BLE001 - an observer is code that is not ours, and must not fail the step
            # Not what it says: that may quote the arguments, and a log is not erased.
            log.warning("tool '%s': what it observes cannot be looked at (%s)", tool.name, type(error).__qualname__)
            continue
        if blob is None:
            observed[resource] = ev.Observation(version, tool.origin, given)
    return observed


class World:
    """What one session has observed, on the agent's loop."""

    def __init__(self, journal: Journal, around: Surroundings, moved: Moved, *, is_cold: bool) -> None:
        self._moved = moved
        self._journal = journal
        self._around = around
        self._to_check = is_cold

    @property
    def is_to_be_checked(self) -> bool:
        """Whether the session is about to go on cold and has observed anything."""
        return self._to_check and bool(self._journal.log.observed)

    async def check(self) -> Failed | None:
        """Look again, once; journal what is different; ask or refuse, if a tool wants that."""
        observed = dict(self._journal.log.observed)
        at_once = asyncio.Semaphore(AT_ONCE)
        looks = [self._look(resource, before, at_once) for resource, before in observed.items()]
        changes = [change for change in await asyncio.gather(*looks) if change is not None]
        self._to_check = False
        standing = self._journal.session.changes
        if changes and tuple(changes) == standing:
            return None  # told before, and still so: what could not be looked at then cannot be now
        if not changes and (not standing or any(_policy(one.policy) in ("ask", "refuse") for one in standing)):
            return None  # a person was told and let it go on: what they were told is the agent's to know, too
        with self._journal.lock:
            if self._journal.session.status not in (Status.RUNNING, Status.WAITING, Status.QUEUED):
                self._to_check = True  # stopped meanwhile: looked at again when it goes on
                return None
            self._journal.note(ev.WorldChanged(changes=tuple(changes)))
            policies = [_policy(change.policy) for change in changes]
            strictest = max(policies, key=SEVERITY.index, default="go_on")
            if strictest == "ask":
                self._journal.note(self._question(changes))
        if strictest == "refuse":
            return Failed(WORLD_CHANGED, _told(changes))
        return None

    def refused(self) -> Failed | None:
        """Whether a person said that the session must not go on as the world is now."""
        prefix = f"{self._journal.session.scope}/{WORLD}#"
        asked = [record for step, record in self._journal.log.asks.items() if step.startswith(prefix)]
        if not asked or asked[-1].end != "answered" or asked[-1].spent or is_yes(asked[-1].value):
            return None
        return Failed(WORLD_CHANGED, "A person said no to going on with a changed world.")

    async def _look(self, resource: str, before: ev.Observation, at_once: asyncio.Semaphore) -> ev.Change | None:
        policy: OnChange = "tell"
        try:
            tool = find_tool(before.tool, self._moved)
            policy = tool.on_change
            arguments, _ = restored(tool, await content_of(self._around.store, before.given))
            observer = next(one for one in tool.observes if one.resource(arguments) == resource)
            async with at_once, self._around.clock.timeout(self._around.settings.world_timeout):
                now = await observer.version(arguments)
        except Exception as error:  # noqa: BLE001 - that it could not be checked is an outcome, too
            words = without_secrets(words_of(error)) or type(error).__name__
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
            prompt=f"{_told(changes)} Go on?",
            options=("approve", "refuse"),
        )


def _policy(name: str) -> OnChange:
    return name if name in SEVERITY else "tell"


def _told(changes: list[ev.Change]) -> str:
    words = [
        f"{one.resource} {one.why}"
        if one.why
        else f"{one.resource} was {one.before or 'absent'}, is {one.now or 'absent'}"
        for one in changes[:SHOWN]
    ]
    more = f", and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
    told = f"{'; '.join(words)}{more}".rstrip(".")
    return f"Changed since the session last looked: {told}."
