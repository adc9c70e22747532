"""Faults of the past, put back on purpose: a tester that does not find them is worth nothing."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from midcourse.core import agent_rights, decisions, pauses
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.ids import StepId
from midcourse.core.interrupted_calls import RecoveryAction, next_act
from midcourse.core.session import Status
from midcourse.runtime import control
from midcourse.runtime.call_recovery import CallRecovery
from midcourse.runtime.driver import Driver


@dataclass(frozen=True, slots=True)
class Plant:
    """A fault that was mended: how it is put back, and the promises of which the checker says that they are broken."""

    put_back: Callable[[], None]
    breaks: frozenset[str]


def plant(name: str) -> None:
    """Put a fault back into this process."""
    if name:
        PLANTS[name].put_back()


def _answer_stops_worker() -> None:
    """A lost call, a redirect, and "it did not happen": settling turned for ever, without an await."""

    async def settle(self: Any, step: StepId, *, asks: bool = True) -> str:
        self.active[step] = "to be settled"
        try:
            while True:
                with self._journal.lock:
                    call = self._journal.session.calls.get(step)
                    if call is None or not call.end:
                        return "settled"
                    act = next_act(self._journal.session, call, self._ctx.clock.now())
                if act.do == "close" and asks and call.effect == "irreversible":
                    act = RecoveryAction("ask")
                elif act.do == "close" and asks and call.effect == "reversible" and call.undo != "done":
                    act = RecoveryAction("give_up")
                match act.do:
                    case "wait" | "probe" if self._gate.draining:
                        return "settled"
                    case "wait":
                        await self._wait(act.until)
                    case "undo":
                        self.active[step] = "to be undone"
                        await self._undo(call)
                    case "probe":
                        await self._probe(call)
                    case "ask":
                        if not self._ask(call):
                            return "asking"
                    case "give_up":
                        self._give_up(call)
                    case "leave" | "again" | "close" | "unknown":
                        return "settled"
        finally:
            self.active.pop(step, None)
            self._moved()

    CallRecovery.settle = settle  # pyright: ignore[reportAttributeAccessIssue]


def _queued_child_waits() -> None:
    """A parent whose agent had ended kept its queued child from starting, and waited for it."""

    def unless_stopped(self: Driver, act: Callable[[], None]) -> bool:
        with self.journal.lock:
            if not self.gate.is_open:
                return False
            act()
            return True

    Driver.unless_stopped = unless_stopped


def _stopped_is_false() -> None:
    """The second pause of a parent was not passed on to a child that somebody had resumed since."""
    rules: Any = decisions.TABLE[cmd.Pause]
    for status in (Status.PAUSING, Status.PAUSED):
        again = rules[status]

        def pause_again(session: Any, command: Any, again: Any = again) -> tuple[Any, ...]:
            return tuple(event for event in again(session, command) if not isinstance(event, ev.PauseRenewed))

        rules[status] = pause_again


def _parent_lifts_pause() -> None:
    """A person's pause of a child became one with the parent's, whose resume lifted both."""

    def joins_pause(standing: object, by: str) -> bool:
        del standing, by
        return False

    pauses.joins_pause = agent_rights.joins_pause = joins_pause


def _late_answers() -> None:
    """An answer came when the store had answered, however long its caller wanted to wait."""

    async def wait(clock: object, awaited: Iterable[asyncio.Future[Any]], seconds: float) -> bool:
        del clock, seconds
        await asyncio.wait(awaited)
        return True

    control.wait_for = wait


_HANGS: Final = frozenset({"stands still", "spins", "does not end", "an answer is late"})

PLANTS: Final[Mapping[str, Plant]] = {
    "answer-stops-worker": Plant(_answer_stops_worker, _HANGS),
    "queued-child-waits": Plant(_queued_child_waits, _HANGS),
    "stopped-is-false": Plant(_stopped_is_false, frozenset({"works after a stop"})),
    "late-answers": Plant(_late_answers, frozenset({"an answer is late"})),
    "parent-lifts-pause": Plant(
        _parent_lifts_pause, frozenset({"works after a stop", "pause lifted by somebody else"})
    ),
}
"""What ``--plant`` takes."""
