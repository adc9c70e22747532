"""Faults of the past, put back on purpose: a simulation that does not find them is worth nothing."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final
from unittest.mock import patch

from midcourse.core import agent_rights, decisions, pauses
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.interrupted_calls import RecoveryAction, next_act
from midcourse.core.replies import Reply
from midcourse.core.session import OpenCall, Session, StandingPause
from midcourse.errors import MidcourseError
from midcourse.ports.clock import Clock
from midcourse.runtime import call_recovery, control, thread_pool
from midcourse.runtime.control import Control
from midcourse.runtime.driver import Driver
from midcourse.runtime.journal import Journal
from midcourse.runtime.worker import Worker


@contextmanager
def answer_that_spins() -> Generator[None]:
    """Fault 1: "it did not happen" after a redirect is asked about, and answered, without end."""

    def asks_again(session: Session, call: OpenCall, now: float) -> RecoveryAction:
        act = next_act(session, call, now)
        if act.do == "close" and call.effect == "irreversible" and call.told == "no":
            return RecoveryAction(
                "ask", until=float("nan")
            )  # equal to no other: the guard against repeating does not see it
        return act

    with patch.object(call_recovery, "next_act", asks_again):
        yield


@contextmanager
def queued_child() -> Generator[None]:
    """Fault 2: a child that is queued when its parent's agent ends is taken and released for ever."""

    def while_open(driver: Driver, act: Callable[[], None]) -> bool:
        with driver.journal.lock:
            if not driver.gate.is_open:
                return False
            act()
            return True

    with patch.object(Driver, "unless_stopped", while_open):
        yield


@contextmanager
def false_stopped() -> Generator[None]:
    """Fault 4: the second pause of a parent does not reach a child that was resumed since."""

    def not_renewed(session: Session, command: cmd.Pause) -> tuple[ev.AnyEvent, ...]:
        return tuple(event for event in pauses.pause_again(session, command) if not isinstance(event, ev.PauseRenewed))

    row: dict[Any, Any] = decisions.TABLE[cmd.Pause]  # pyright: ignore[reportAssignmentType]
    with patch.dict(row, {status: not_renewed for status, rule in row.items() if rule is pauses.pause_again}):
        yield


@contextmanager
def lifted_pause() -> Generator[None]:
    """Fault 5: a person's pause of a child that its parent had paused is lifted with the parent's."""

    def never(standing: StandingPause, by: str) -> bool:
        del standing, by
        return False

    with patch.object(pauses, "joins_pause", never), patch.object(agent_rights, "joins_pause", never):
        yield


@contextmanager
def uncarried() -> Generator[None]:
    """Fault 3: a ``StopIteration``, or a ``GeneratorExit``, out of a plain function hangs for ever."""

    def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    with patch.object(thread_pool, "carriable", as_it_is):
        yield


@contextmanager
def drain_lets_go() -> Generator[None]:
    """Fault 6: a process that drains releases sessions whose calls still live."""

    def none(worker: Worker) -> list[str]:
        del worker
        return []

    with patch.object(Worker, "living", none):
        yield


@contextmanager
def stop_needs_the_store() -> Generator[None]:
    """Fault 7: a stop that cannot be written fails, and its session works on."""

    async def fails(
        control: Control, name: str, command: object, driver: object, error: MidcourseError, _: str
    ) -> Reply:
        raise error

    with patch.object(Control, "_stopped_all_the_same", fails):
        yield


@contextmanager
def late_answers() -> Generator[None]:
    """Fault 9: an answer comes when the store has answered, however long its caller wants to wait."""

    async def wait(clock: Clock, awaited: Iterable[asyncio.Future[Any]], seconds: float) -> bool:
        del clock, seconds
        await asyncio.wait(awaited)
        return True

    with patch.object(control, "wait_for", wait):
        yield


@contextmanager
def journaled_refusals() -> Generator[None]:
    """Fault 10: who took a session is journaled, although nothing else comes of it."""
    with patch.object(Journal, "take", Journal.append):
        yield


PLANTS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "answer-spins": answer_that_spins,
    "queued-child": queued_child,
    "false-stopped": false_stopped,
    "lifted-pause": lifted_pause,
    "uncarried": uncarried,
    "drain-lets-go": drain_lets_go,
    "stop-needs-store": stop_needs_the_store,
    "late-answers": late_answers,
    "journaled-refusals": journaled_refusals,
}
"""What ``--plant`` takes: faults of the kernel."""


@contextmanager
def planted(name: str) -> Generator[None]:
    """Put a fault back, for a while."""
    with PLANTS[name]() if name else nullcontext():
        yield
