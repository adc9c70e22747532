"""The agent's own code as a task: started, taken down when it must, and how it ended."""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from midcourse.clock import wait
from midcourse.core.codec import encode, without_secrets
from midcourse.core.ids import StepId
from midcourse.errors import (
    AskExpired,
    Interrupt,
    InterruptRequested,
    MidcourseError,
    StepError,
    describe,
    without_path,
)
from midcourse.ports.clock import Clock
from midcourse.runtime.calls import enter
from midcourse.runtime.gate import Gate


@dataclass(frozen=True, slots=True)
class AgentReturned:
    """The agent returned; its result, its last state and what its history has grown by are encoded."""

    result: bytes
    state: bytes
    grown: bytes | None = None


@dataclass(frozen=True, slots=True)
class AgentFailed:
    """The agent cannot continue; ``step`` is the one that a resume retries."""

    code: str
    message: str
    step: StepId | None = None


log = logging.getLogger("midcourse")

Ending = AgentReturned | AgentFailed | Interrupt


class AgentTask:
    """One agent at a time. ``ending`` is the end of the last one, until it is handled."""

    def __init__(self, gate: Gate, clock: Clock, *, cleanup: float, moved: Callable[[], None]) -> None:
        self.ending: Ending | None = None
        self.error: BaseException | None = None
        self.overdue = False
        self._gate = gate
        self._clock = clock
        self._cleanup = cleanup
        self._moved = moved
        self._task: asyncio.Task[None] | None = None
        self._takedown: asyncio.Task[None] | None = None
        gate.interrupted = True  # until an agent runs, nothing can begin a call

    @property
    def is_alive(self) -> bool:
        """True if the agent's code has not ended, cleanup included."""
        return self._task is not None

    @property
    def is_in_its_own_code(self) -> bool:
        """True if the agent runs code that Midcourse cannot see: it is at no step, at no ask, and not at the gate."""
        gate = self._gate
        return self.is_alive and not gate.waiting and not gate.begun and not gate.settling

    def start(
        self,
        name: str,
        agent: Callable[[], Awaitable[object]],
        state: Callable[[], object],
        grown: Callable[[], bytes | None],
        *,
        task_name: str,
    ) -> None:
        """Run the agent's function. On the agent's loop."""
        self._gate.interrupted = False
        self.overdue = False
        self._task = asyncio.get_running_loop().create_task(self._run(name, agent, state, grown), name=task_name)

    async def _run(
        self,
        name: str,
        agent: Callable[[], Awaitable[object]],
        state: Callable[[], object],
        grown: Callable[[], bytes | None],
    ) -> None:
        enter(None)
        try:
            result = encode(await agent(), what=f"The result of agent '{name}'")
            self.end_with(AgentReturned(result, encode(state(), what=f"run.state of agent '{name}'"), grown()))
        except Interrupt as interrupt:
            self.end_with(interrupt)
        except BaseException as error:  # noqa: BLE001 - stops and failures are distinguished here, once
            if not (self._gate.interrupted and _is_stop(error)):
                self.error = error
                log.info("agent '%s' failed\n%s", name, _place(error))
                self.end_with(_failure(name, error))
        finally:
            self._task = None
            self._gate.interrupt()  # what the agent left waiting at the gate must not begin without it
            self._moved()

    def end_with(self, ending: Ending) -> None:
        """Settle how the agent ended; the first to say so is right."""
        if self.ending is None:
            self.ending = ending

    def fail_at_gate(self, failure: AgentFailed) -> None:
        """Fail without giving the agent a chance to catch it and continue along another path."""
        self.end_with(failure)
        self.take_down()

    def take_down(self) -> None:
        """Give the agent the stop, let it clean up within its deadline, then cancel it. On the agent's loop."""
        if self._task is None or self._takedown is not None:
            return
        self._takedown = asyncio.get_running_loop().create_task(self._take_down(self._task))

    async def _take_down(self, task: "asyncio.Task[None]") -> None:
        try:
            if self.is_in_its_own_code:
                task.cancel()
            self._gate.interrupt()
            await wait(self._clock, {task}, self._cleanup)
            while not task.done():
                self.overdue = True
                self._moved()
                task.cancel()
                await wait(self._clock, {task}, max(1.0, self._cleanup))
        finally:
            self._takedown = None
            self._moved()


def _place(error: BaseException | None) -> str:
    """Return where it failed, for the log. The texts of exceptions are only in the journal, and can be erased."""
    parts: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        parts.insert(0, f"{''.join(traceback.format_tb(error.__traceback__))}{type(error).__qualname__}")
        if isinstance(error, BaseExceptionGroup):
            parts[0] += "".join(
                f"\n{_place(one)}" for one in cast("BaseExceptionGroup[BaseException]", error).exceptions
            )
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\nwhich led to\n".join(parts).encode("utf-8", "backslashreplace").decode()


def _is_stop(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_stop(inner) for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions)
    return isinstance(error, InterruptRequested | asyncio.CancelledError)


def _failure(name: str, error: BaseException) -> AgentFailed:
    while isinstance(error, BaseExceptionGroup):  # a group is told by the first thing in it that is no stop
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        error = next((one for one in inner if not _is_stop(one)), inner[0])
    match error:
        case StepError():
            # A result that could not be encoded is never tried again, so a resume does not mend it.
            code = "unencodable" if error.kind == "Unencodable" else error.code
            return AgentFailed(code, error.message, StepId(error.step))
        case AskExpired(fields={"step": str(step)}):
            return AgentFailed(error.code, error.message, StepId(step))
        case MidcourseError():
            return AgentFailed(error.code, without_path(error))
        case asyncio.CancelledError() | InterruptRequested():
            return AgentFailed(
                "agent_cancelled", f"Agent '{name}' cancelled itself. Resume to try again from its last step."
            )
        case _:
            words = without_secrets(describe(error))
            return AgentFailed("agent_error", f"Agent '{name}' raised {type(error).__name__}: {words}")
