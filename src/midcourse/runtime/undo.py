"""Run undos, probes and releases: user code of its own, journaled before it begins and after it ends.

An undo is tried up to three times, each time journaled; after a crash it continues by the journal. It may run twice,
and the journal never claims more of it than was seen.
"""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from midcourse.clock import wait
from midcourse.core import events as ev
from midcourse.core.audit import AuditEntry
from midcourse.core.codec import NOTHING, Value, decode, without_secrets
from midcourse.core.ids import StepId
from midcourse.core.interrupted_calls import UNDO_TRIES
from midcourse.core.receipt import EffectEntry
from midcourse.core.replies import RunningCall
from midcourse.core.session import Hold, OpenCall, Status
from midcourse.errors import MidcourseError, ToolUnavailable, describe
from midcourse.ports.sender import enter_agent
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.prod_access import prod_access_entry
from midcourse.runtime.redacted_arguments import restored
from midcourse.runtime.session_loader import content_of
from midcourse.runtime.tools import NOT_MOVED, AgentPlace, Happened, Tool, called, find_tool, is_of_the_standard_library

log = logging.getLogger("midcourse")

FIRST_PAUSE: Final = 0.05
"""Seconds before an undo that raised is tried again; longer each time."""


@dataclass(frozen=True, slots=True)
class UserCodeOutcome:
    """The end of a piece of user code: with a value, an error, or (``lost``) unknown."""

    value: object = None
    error: str = ""
    lost: bool = False


class UndoRunner:
    """The undos, probes and releases of one session, on the agent's loop."""

    def __init__(self, journal: Journal, gate: Gate, ctx: RuntimeContext, moved: AgentPlace = NOT_MOVED) -> None:
        self.missing: set[str] = set()
        self._moved = moved
        self._journal = journal
        self._gate = gate
        self._ctx = ctx
        self._running: dict[str, RunningCall] = {}
        self._remembered: dict[StepId, bytes] = {}

    def running(self) -> Iterable[RunningCall]:
        """Yield the undos that run now, for a command's reply."""
        return tuple(self._running.values())

    def must_wait(self, origin: str) -> bool:
        """Return True if a cancel or an undo needs a tool that this process does not have; ``missing`` then names it.

        Another process may have it, now or later. Only an operator gives up what it would undo.
        """
        if not self._journal.session.waits_for_tools:
            return False
        try:
            find_tool(origin, self._moved)
        except ToolUnavailable:
            self.missing.add(origin)
            return True
        return False

    async def undo_once(self, call: OpenCall, result: Value = NOTHING) -> UserCodeOutcome:
        """Try the undo of ``call`` once more: journaled, run, journaled."""
        await self._gate.until_fresh()
        with self._journal.lock:
            if self._journal.session.status is Status.HALTED:  # nothing is undone until the halt is lifted
                return UserCodeOutcome(error="halted")
            begun = ev.UndoBegun(
                step=call.step,
                name=call.name,
                attempt=call.attempt,
                key=call.key,
                effect=call.effect,
                number=call.undos + 1,
            )
            written = self._journal.append(begun, audit=self._touched(call))
        await written
        undo = RunningCall(call.step, call.name, "tool", call.attempt, 0.0, call.effect, "its undo")
        self._running[call.key] = undo
        try:
            tried = await self._run_undo(call, result)
        finally:
            del self._running[call.key]
        with self._journal.lock:
            ended = ev.UndoEnded(
                step=call.step,
                attempt=call.attempt,
                key=call.key,
                number=begun.number,
                error=tried.error,
                lost=tried.lost,
            )
            written = self._journal.append(ended)
        await written
        if tried.error:
            log.warning("session %s: an undo of '%s' failed; its journal says how", self._journal.session.id, call.name)
        return tried

    def _touched(self, call: OpenCall) -> tuple[AuditEntry, ...]:
        """Return the audit entry of the undo of a call that touched prod or a paid API."""
        try:
            tool = find_tool(call.tool, self._moved)
        except ToolUnavailable:  # the undo fails, too
            return ()
        entry = prod_access_entry(
            self._journal.session, tool, self._ctx, action="call.undo", detail=lambda: f"the undo of {call.name}"
        )
        return () if entry is None else (entry,)

    async def undo_entry(self, entry: EffectEntry) -> None:
        """Roll back an effect of a call that had ended: up to three times, whatever comes of it."""
        call, tries = entry.call, entry.call.undos
        if tries < UNDO_TRIES and self.must_wait(call.tool):
            return
        by_itself = entry.ended and not call.end and call.undo != "lost"
        wait = 0.0 if by_itself else call.settled_at - self._journal.now
        while tries < UNDO_TRIES and self._journal.session.status is not Status.HALTED:
            await self._ctx.clock.sleep(max(0.0, wait))
            tried = await self.undo_once(_with_tries(call, tries), entry.result)
            tries += 1
            if not (tried.error or tried.lost):
                return
            wait = call.settle if tried.lost else pause_before(tries)

    async def _run_undo(self, call: OpenCall, result: Value) -> UserCodeOutcome:
        try:
            tool, arguments, withheld = await self._tool_of(call)
            if tool.undo is None:
                return UserCodeOutcome(error=f"tool '{tool.origin}' has no undo here")
            value = None if result == NOTHING else tool.result(await content_of(self._ctx.store, result))
        except MidcourseError as error:
            return UserCodeOutcome(error=error.message)
        return _with_reason(withheld, await self._run(tool.undo, arguments, value, call.key, limit=tool.timeout))

    async def probe(self, call: OpenCall) -> UserCodeOutcome:
        """Ask the tool's probe whether ``call`` happened: True, False, ``Happened``, or None if it cannot say."""
        try:
            tool, arguments, withheld = await self._tool_of(call)
            if tool.probe is None:
                return UserCodeOutcome(error=f"tool '{tool.origin}' has no probe here")
        except MidcourseError as error:
            return UserCodeOutcome(error=error.message)
        tried = _with_reason(withheld, await self._run(tool.probe, arguments, call.key, limit=tool.timeout))
        if not tried.error and not isinstance(tried.value, bool | Happened | None):
            return UserCodeOutcome(
                error=f"the probe returned {tried.value!r}; it returns True, False, None or Happened(result)"
            )
        return tried

    async def release(self, hold: Hold) -> None:
        """Release what is held: up to three times, each journaled."""
        with self._journal.lock:
            written = self._journal.append()  # what was done under it is durable first, and not done again without it
        await written
        step = StepId(f"hold {hold.name}")
        if step in self._gate.settling:
            return  # it is being released: by the agent, before it was stopped
        self._gate.settling[step] = "its release"
        try:
            await self._release(hold, step)
        finally:
            del self._gate.settling[step]

    async def _release(self, hold: Hold, step: StepId) -> None:
        if hold.tries < UNDO_TRIES and self.must_wait(hold.release):
            return
        for number in range(hold.tries + 1, UNDO_TRIES + 1):
            await self._gate.until_fresh()
            if self._journal.session.status is Status.HALTED:  # it is released when the halt is lifted
                return
            try:
                arguments = decode(await content_of(self._ctx.store, hold.given))
                self._running[step] = RunningCall(step, hold.name, "tool", number, 0.0, "irreversible", "its release")
                tried = await self._run(self._release_of(hold), *arguments)
            except MidcourseError as error:
                tried = UserCodeOutcome(error=error.message)
            finally:
                self._running.pop(step, None)
            with self._journal.lock:
                written = self._journal.append(ev.HoldReleased(name=hold.name, number=number, error=tried.error))
            await written
            if not tried.error:
                return
            await self._ctx.clock.sleep(pause_before(number))

    def remember(self, step: StepId, given: bytes) -> None:
        """Keep the arguments of a call that the journal does not hold in full, while this process has the session."""
        self._remembered[step] = given

    async def _tool_of(self, call: OpenCall) -> tuple[Tool[..., object], dict[str, object], str]:
        tool = find_tool(call.tool, self._moved)
        remembered = self._remembered.get(call.step)
        if remembered is not None:
            return tool, tool.restored(decode(remembered)), ""
        arguments, withheld = restored(tool, await content_of(self._ctx.store, call.given))
        return tool, arguments, withheld

    def _release_of(self, hold: Hold) -> Callable[..., object]:
        if is_of_the_standard_library(hold.release):
            raise ToolUnavailable(f"'{hold.release}' is a function of Python itself, which no journal may call.")
        return find_tool(hold.release, self._moved).function

    async def _run(
        self, function: Callable[..., object], *arguments: object, limit: float | None = None
    ) -> UserCodeOutcome:
        """Run it to its end. One that does not end in time is cancelled; a thread can only be waited for."""
        seconds = self._ctx.settings.undo_timeout if limit is None else limit
        task = asyncio.ensure_future(self._guarded(function, arguments))
        if await wait(self._ctx.clock, {task}, seconds):
            return task.result()
        if not inspect.iscoroutinefunction(inspect.unwrap(function)):
            name = getattr(function, "__qualname__", type(function).__qualname__)
            log.warning("%s has not ended after %g s, and its thread cannot be ended", name, seconds)
            return await task
        task.cancel()
        await asyncio.wait({task})
        return UserCodeOutcome(error=f"no end after {seconds:g} s", lost=True) if task.cancelled() else task.result()

    async def _guarded(self, function: Callable[..., object], arguments: tuple[object, ...]) -> UserCodeOutcome:
        enter_agent(self._journal.session.id)
        try:
            return UserCodeOutcome(await called(function, *arguments, plainly=self._in_thread))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return UserCodeOutcome(error="CancelledError: something of its own was cancelled")
        except BaseException as error:  # noqa: BLE001 - code that ends itself does not end its program
            return UserCodeOutcome(error=without_secrets(f"{type(error).__name__}: {describe(error)}"))

    async def _in_thread(self, function: Callable[..., object], *arguments: object) -> object:
        loop = asyncio.get_running_loop()
        run = partial(contextvars.copy_context().run, function, *arguments)
        return await loop.run_in_executor(self._ctx.threads, run)


def _with_reason(withheld: str, tried: UserCodeOutcome) -> UserCodeOutcome:
    """Return an error with the reason it may have."""
    if not withheld or not tried.error or withheld in tried.error:
        return tried
    return UserCodeOutcome(tried.value, f"{tried.error} ({withheld})", tried.lost)


def pause_before(tries: int) -> float:
    """Seconds to wait before the next try; none before giving up."""
    return FIRST_PAUSE * 4**tries if tries < UNDO_TRIES else 0.0


def _with_tries(call: OpenCall, tries: int) -> OpenCall:
    return replace(call, undos=tries)
