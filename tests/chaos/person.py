"""Somebody who steers at random, in a process of their own: ``python -m tests.chaos.person FOLDER SEED SECONDS``."""

import asyncio
import contextlib
import faulthandler
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

import midcourse
from midcourse import Midcourse, MidcourseError, Reply, Scope, SessionHandle
from midcourse.core.interrupted_calls import DID_IT_HAPPEN
from midcourse.core.session import OpenAsk, Session
from midcourse.ports.store import Head
from midcourse.runtime.call_recovery import DID_NOT, HAPPENED
from tests.chaos import agents
from tests.chaos.agents import Course
from tests.chaos.commands import Commands
from tests.chaos.plants import plant
from tests.chaos.ways import Ways
from tests.faults.checker import Answer

AT_ONCE: Final = 6
"""Commands of one person that are under way at the same time."""
HANGS: Final = 20.0
"""Seconds after its time is over in which a person has ended; one that has not shows where it hangs."""
PEOPLE: Final = ("ann", "bob", "cem")
LIVE: Final = ("queued", "running", "waiting", "pausing", "paused", "cancelling", "halted")


class Person:
    """Starts sessions, and does anything to them that a person may do."""

    def __init__(self, inside: Midcourse, folder: Path, ways: Ways, chance: Random) -> None:
        self._midcourse = inside
        self._commands = Commands(folder)
        self._ways = ways
        self._chance = chance
        self._switch: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def steer(self, until: float) -> None:
        """Until that time."""
        while time.monotonic() < until:
            while len(self._tasks) >= AT_ONCE:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._act())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(self._chance.expovariate(1 / self._ways.every))
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._switch is not None:
            await self._commands.lift(self._midcourse, self._switch, "operator")

    async def _act(self) -> None:
        with contextlib.suppress(MidcourseError):  # a store that is full
            heads = await self._midcourse.list(limit=200)
            live = [head for head in heads if head.status in LIVE]
            roll = self._chance.random()
            if len(live) < self._ways.live and (roll < 0.25 or not live):
                await self._start()
            elif 0.25 <= roll < 0.26 and self._ways.halts:
                await self._operate()
            elif heads:
                await self._command(self._pick(heads, live))

    async def _start(self) -> None:
        chance, ways = self._chance, self._ways
        names = {"solo": 4, "payer": 3, "looper": 2, "parent": 5, "leaver": 3 if ways.leaves else 0}
        name = chance.choices(tuple(names), tuple(names.values()))[0]
        goal = Course(seed=chance.randrange(10**9), depth=chance.randint(1, 2), odd=ways.odd, leaves=ways.leaves)
        session = f"sess_{name}_{chance.randrange(16**8):08x}"
        await self._midcourse.start(name, msgspec.json.encode(goal).decode(), session_id=session, by="ann")

    async def _operate(self) -> None:
        """Throw the kill switch, and lift it a while later."""
        if self._switch is not None:
            return
        scope = self._chance.choice((Scope("agent", "solo"), Scope("agent", "parent"), Scope("all")))
        self._switch = "being thrown"
        try:
            self._switch = await self._commands.throw(self._midcourse, scope, "operator")
            if self._switch is not None:
                await asyncio.sleep(self._chance.uniform(0.1, 1.5))
                await self._commands.lift(self._midcourse, self._switch, "operator")
        finally:
            self._switch = None

    def _pick(self, heads: Sequence[Head], live: Sequence[Head]) -> Head:
        """Mostly one that lives; a tree is worth more than one command."""
        chance = self._chance
        some = live if live and chance.random() < 0.9 else heads
        one = chance.choice(some)
        stopped = [head for head in some if head.status == "paused"]
        if stopped and chance.random() < 0.3:
            one = chance.choice(stopped)
        if not self._ways.children and "." in one.id:
            roots = [head for head in some if "." not in head.id]
            return chance.choice(roots) if roots else one
        return one

    async def _command(self, head: Head) -> None:
        handle = await self._midcourse.get(head.id)
        session = await handle.state()
        if not self._ways.children and session.parent is not None:
            return
        chance = self._chance
        if session.asks and chance.random() < (0.5 if self._ways.answers else 0.0):
            await self._answer(handle, session, chance.choice(session.asks))
            return
        if session.children and self._ways.children and chance.random() < 0.4:
            await self._with_child(handle, session)
            return
        verbs = {"pause": 5, "resume": 3, "redirect": 3, "cancel": 1, "message": 1, "undo": 1}
        if session.status == "paused":
            verbs |= {"resume": 12}
        elif session.status in ("completed", "failed", "cancelled"):
            verbs = {"undo": 3, "resume": 2, "message": 1, "cancel": 2, "pause": 1}
        verb = chance.choices(tuple(verbs), tuple(verbs.values()))[0]
        await getattr(self, f"_{verb}")(handle, session)
        if verb == "pause" and chance.random() < 0.3:  # what people do soon after that
            await asyncio.sleep(chance.uniform(0, 0.3))
            await self._resume(handle, await handle.state())

    async def _with_child(self, handle: SessionHandle[Any], session: Session) -> None:
        """What two people do who look at a parent and at a child of it."""
        chance = self._chance
        child = await self._midcourse.get(chance.choice(sorted(session.children.values())))
        for verb, one in chance.choice(
            (
                (("pause", handle), ("resume", child), ("pause", handle)),
                (("pause", handle), ("pause", child), ("resume", handle)),
                (("pause", child), ("pause", handle), ("resume", handle)),
                (("pause", handle), ("cancel", child), ("resume", handle)),
                (("cancel", child), ("resume", handle)),
            )
        ):
            await getattr(self, f"_{verb}")(one, await one.state())
            await asyncio.sleep(chance.uniform(0, 0.2))

    async def _send(self, verb: str, handle: SessionHandle[Any], act: Callable[..., Any], **more: Any) -> Reply | None:
        """Send it as somebody; now and then twice, which is the same command."""
        by = self._chance.choice(PEOPLE)
        named = f"c_{self._chance.randrange(16**12):012x}"
        send = partial(act, by=by, command_id=named)
        asked = Answer(session=handle.id, verb=verb, sent_at=0.0, by=by, **more)
        if self._chance.random() < 0.1:
            first, _ = await asyncio.gather(self._commands.send(asked, send), self._commands.send(asked, send))
            return first
        return await self._commands.send(asked, send)

    async def _pause(self, handle: SessionHandle[Any], session: Session) -> None:
        del session
        grace = self._chance.choice((None, None, 0.0, 0.1))
        until = self._chance.choice(("stopping", "stopped"))
        wait = self._chance.uniform(0.5, 4)
        await self._send("pause", handle, partial(handle.pause, "wait", grace=grace, until=until, wait=wait))

    async def _resume(self, handle: SessionHandle[Any], session: Session) -> None:
        if session.status == "halted":
            return  # an operator's, who lifts the switch
        pause = session.pause.id if session.pause is not None and self._chance.random() < 0.5 else None
        named = pause or ""
        await self._send("resume", handle, partial(handle.resume, pause, wait=3.0), pause=named)

    async def _redirect(self, handle: SessionHandle[Any], session: Session) -> None:
        del session
        level = self._chance.choice(("step", "goal", "clarify"))
        grace = self._chance.choice((None, 0.0))
        resume = self._chance.random() < 0.3
        await self._send(
            "redirect",
            handle,
            partial(handle.redirect, "do it differently", level=level, grace=grace, resume=resume, wait=3.0),
            opens=resume,
        )

    async def _cancel(self, handle: SessionHandle[Any], session: Session) -> None:
        del session
        undo = self._chance.choice((None, "in-flight", "all", "none"))
        grace = self._chance.choice((0.0, 0.3, 2.0))
        until = self._chance.choice(("stopping", "stopped"))
        await self._send(
            "cancel",
            handle,
            partial(handle.cancel, "enough", undo=undo, grace=grace, until=until, wait=4.0),
        )

    async def _message(self, handle: SessionHandle[Any], session: Session) -> None:
        del session
        behaviour = self._chance.choice(("enqueue", "redirect", "reject"))
        await self._send("message", handle, partial(handle.message, "and then?", behaviour=behaviour, wait=3.0))

    async def _undo(self, handle: SessionHandle[Any], session: Session) -> None:
        if session.status in ("completed", "failed", "cancelled"):
            await handle.undo("the wrong house", wait=4.0)

    async def _answer(self, handle: SessionHandle[Any], session: Session, ask: OpenAsk) -> None:
        """Truly or falsely: whoever is asked may not know either. Some change the course before they answer."""
        value = "yes"
        if ask.reason == DID_IT_HAPPEN:
            value = self._chance.choice((HAPPENED, DID_NOT))
            if self._chance.random() < 0.3:
                await self._redirect(handle, session)
                await asyncio.sleep(self._chance.uniform(0, 0.5))
                asks = [one for one in (await handle.state()).asks if one.reason == DID_IT_HAPPEN]
                ask = asks[-1] if asks else ask
        await self._send("answer", handle, partial(handle.answer, value, ask=ask.id, wait=3.0), opens=ask.is_review)


async def main(folder: Path, seed: str, seconds: float) -> None:
    """Steer for so long."""
    ways = Ways.read(folder)
    plant(ways.plant)
    assert agents.AGENTS
    async with midcourse.open(f"sqlite:///{folder / 'store.db'}", drive=False, settings=ways.settings()) as inside:
        await Person(inside, folder, ways, Random(seed)).steer(time.monotonic() + seconds)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(float(sys.argv[3]) + HANGS)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
