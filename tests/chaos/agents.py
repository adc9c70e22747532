"""What works while everything goes wrong: tools of each effect and kind, and agents that stand in trees.

An agent reads from its goal what it does (:class:`Course`), so that a replay does the same: run.messages[0] is the
goal whatever redirects say.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from random import Random
from typing import Any, Final

import msgspec

from midcourse import Happened, Run, StepError, Tool, agent, current_call, tool
from tests.chaos.remote import deed, tell, tell_soon, was_done

SLICE: Final = 0.02
"""Seconds after which a polite thread looks whether it should end."""
SETTLE: Final = 0.5
"""Seconds a request of a call in a process may still land: such a process may outlive its worker for a moment."""
ODD: Final[Mapping[str, type[BaseException]]] = {
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "GeneratorExit": GeneratorExit,
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
}
"""What user code may raise that is no failure to asyncio or to a generator."""
PLAIN: Final = "ValueError"


class Course(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session is to do, as its goal says it."""

    seed: int
    depth: int = 0
    """How many generations of children it may have."""
    odd: bool = False
    """Whether its tools may raise what is no ``Exception``, or ends a generator."""
    leaves: bool = False
    """Whether an agent may end while its child has hardly begun."""


class Slow(msgspec.Struct, frozen=True):
    """How a call goes: so many seconds before its effect and after it, and what it raises then, if anything."""

    before: float
    after: float
    raises: str = ""
    polite: bool = True

    def end(self) -> None:
        """What there is to raise is raised."""
        if self.raises:
            raise ODD.get(self.raises, ValueError)(f"as planned: {self.raises}")


# ---- bodies


async def _task(session: str, how: Slow, effect: str) -> str:
    await tell_soon(deed("begun", session, effect))
    await asyncio.sleep(how.before)
    if effect != "read":
        await tell_soon(deed("done", session, effect))
    await asyncio.sleep(how.after)
    how.end()
    return effect


def _plain(session: str, how: Slow, effect: str) -> str:
    tell(deed("begun", session, effect))
    _pass(how.before, how)
    if effect != "read":
        tell(deed("done", session, effect))
    _pass(how.after, how)
    how.end()
    return effect


def _pass(seconds: float, how: Slow) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if how.polite:
            current_call().raise_if_cancelled()
        time.sleep(min(left, SLICE))


# ---- undos and probes. Some need more than one try.


async def unbuild_task(arguments: Mapping[str, Any], result: object, key: str) -> None:
    """Takes back what a key stands for."""
    del result
    await tell_soon(deed("undone", arguments["session"], "reversible", key))


def unbuild_thread(arguments: Mapping[str, Any], result: object, key: str) -> None:
    """The same, in a thread, and not at the first try every time."""
    del result
    if int(time.monotonic() * 1000) % 4 == 0:
        raise ValueError("not now")
    tell(deed("undone", arguments["session"], "reversible", key))


def was_paid(arguments: Mapping[str, Any], key: str) -> object:
    """Whether the remote has seen it."""
    del arguments
    return Happened("irreversible") if was_done(key) else False


# ---- tools: a task, a thread and a process of each effect


@tool(effect="read")
async def look_task(session: str, how: Slow) -> str:
    """Changes nothing."""
    return await _task(session, how, "read")


@tool(effect="idempotent", local=True)
async def put_task(session: str, how: Slow) -> str:
    """The same under one key."""
    return await _task(session, how, "idempotent")


@tool(undo=unbuild_task, local=True)
async def build_task(session: str, how: Slow) -> str:
    """Can be taken back."""
    return await _task(session, how, "reversible")


@tool(local=True)
async def pay_task(session: str, how: Slow) -> str:
    """Cannot be taken back."""
    return await _task(session, how, "irreversible")


@tool(probe=was_paid, settle=SETTLE)
async def send_task(session: str, how: Slow) -> str:
    """Cannot be taken back; a probe tells whether it happened."""
    return await _task(session, how, "irreversible")


@tool(effect="read")
def look_thread(session: str, how: Slow) -> str:
    """Changes nothing."""
    return _plain(session, how, "read")


@tool(effect="idempotent", local=True)
def put_thread(session: str, how: Slow) -> str:
    """The same under one key."""
    return _plain(session, how, "idempotent")


@tool(undo=unbuild_thread, local=True)
def build_thread(session: str, how: Slow) -> str:
    """Can be taken back."""
    return _plain(session, how, "reversible")


@tool(local=True)
def pay_thread(session: str, how: Slow) -> str:
    """Cannot be taken back."""
    return _plain(session, how, "irreversible")


@tool(effect="read", run_in="process")
def look_process(session: str, how: Slow) -> str:
    """Changes nothing."""
    return _plain(session, how, "read")


@tool(undo=unbuild_thread, settle=SETTLE, run_in="process")
def build_process(session: str, how: Slow) -> str:
    """Can be taken back."""
    return _plain(session, how, "reversible")


@tool(settle=SETTLE, run_in="process")
def pay_process(session: str, how: Slow) -> str:
    """Cannot be taken back."""
    return _plain(session, how, "irreversible")


TASKS: Final = (look_task, put_task, build_task, pay_task, send_task)
THREADS: Final = (look_thread, put_thread, build_thread, pay_thread)
PROCESSES: Final = (look_process, build_process, pay_process)


async def words(count: int) -> AsyncIterator[str]:
    """A model that speaks."""
    for number in range(count):
        await asyncio.sleep(0.01)
        yield f"word{number} "


async def let_go(session: str) -> None:
    """Gives back what was held."""
    await asyncio.sleep(0)


# ---- agents


class Doer:
    """One run of an agent: chance is the goal's, so that a replay does the same."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.course = msgspec.json.decode(run.messages[0].text, type=Course)
        self.chance = Random(f"{self.course.seed}/{run.turn}/{run.scope}")
        self._keys = 0

    def key(self) -> str:
        """One of its own for each call."""
        self._keys += 1
        return str(self._keys)

    def tool(self) -> "Tool[[str, Slow], Any]":
        """Any of them; a process takes long to begin, and is used less often."""
        which = self.chance.choices((TASKS, THREADS, PROCESSES), (6, 4, 1))[0]
        return self.chance.choice(which)

    def how(self, most: float = 0.3) -> Slow:
        """How the next call goes."""
        chance = self.chance
        before, after = chance.uniform(0, most), chance.uniform(0, most)
        if chance.random() < 0.05:
            after += 1.0
        raises = ""
        if chance.random() < 0.12:
            raises = chance.choice(tuple(ODD)) if self.course.odd and chance.random() < 0.6 else PLAIN
        return Slow(round(before, 3), round(after, 3), raises, polite=chance.random() < 0.7)

    async def call(self, body: "Tool[[str, Slow], Any] | None" = None, how: Slow | None = None) -> None:
        """One call; most of those that fail are not the end."""
        body, how, forgives = body or self.tool(), how or self.how(), self.chance.random() < 0.7
        try:
            await self.run.step(body.name, body, self.run.session_id, how, key=self.key())
        except StepError:
            if not forgives:
                raise

    async def child(self) -> None:
        """One child, whose failure is not the end most of the time."""
        chance, course = self.chance, self.course
        goal = msgspec.structs.replace(course, seed=chance.randrange(10**9), depth=max(0, course.depth - 1))
        which = parent if course.depth > 1 and chance.random() < 0.5 else solo
        forgives = chance.random() < 0.8
        try:
            await self.run.spawn(which, msgspec.json.encode(goal).decode(), key=self.key())
        except StepError:
            if not forgives:
                raise

    async def something(self) -> None:
        """A call, two at once, a question, a model's text, or something that is held."""
        match self.chance.choices(("call", "two", "ask", "stream", "hold"), (10, 3, 1, 1, 1))[0]:
            case "call":
                await self.call()
            case "two":
                await both(self.call(), self.call())
            case "ask":
                await self.run.ask("Is it good?", options=("yes", "no"), key=self.key())
            case "stream":
                await self.run.stream("say", words, 20, key=self.key())
            case _:
                await self.run.hold(f"lock {self.run.scope} {self.key()}", let_go, self.run.session_id)


async def both(*some: Awaitable[None]) -> None:
    """All of them at once; what the first one raises comes out at once, and the others are left alone."""
    await asyncio.gather(*some)


@agent
async def solo(run: Run) -> int:
    """A few things, one after the other."""
    doer = Doer(run)
    count = doer.chance.randint(2, 6)
    for _ in range(count):
        await doer.something()
    return count


@agent
async def payer(run: Run) -> int:
    """Calls that cannot be taken back, and take their time: what dies with a process must be asked about."""
    doer = Doer(run)
    count = doer.chance.randint(2, 4)
    for _ in range(count):
        await doer.call(doer.chance.choice((pay_task, pay_thread, pay_task, pay_process)), doer.how(0.8))
    return count


@agent(mode="state")
async def looper(run: Run) -> int:
    """Goes on from a checkpoint."""
    while run.state.get("next", 0) < 4:
        await Doer(run).something()
        run.state["next"] = run.state.get("next", 0) + 1
        await run.checkpoint()
    return int(run.state["next"])


@agent
async def parent(run: Run) -> int:
    """Children at once, and something of its own beside them."""
    doer = Doer(run)
    count = doer.chance.randint(1, 3)
    await doer.something()
    await both(*(doer.child() for _ in range(count)), doer.call())
    await doer.something()
    return count


@agent
async def leaver(run: Run) -> str:
    """Ends, in one way or the other, when its child has hardly begun."""
    doer = Doer(run)
    soon = Slow(0.0, round(doer.chance.uniform(0, 0.06), 4), doer.chance.choice(("", PLAIN)), polite=True)
    step = asyncio.ensure_future(run.step("look", look_task, run.session_id, soon, key=doer.key()))
    children = [asyncio.ensure_future(doer.child()) for _ in range(doer.chance.randint(1, 2))]
    await asyncio.wait([step, *children], return_when=asyncio.FIRST_COMPLETED)
    return await step if step.done() else "a child was faster"


AGENTS: Final[Mapping[str, Callable[..., object]]] = {
    "solo": solo,
    "payer": payer,
    "looper": looper,
    "parent": parent,
    "leaver": leaver,
}
