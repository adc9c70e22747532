"""What works on a simulated machine: tools of each effect, and agents that stand in trees.

An agent reads from its goal what it does, so that a replay does the same.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final

import msgspec

from midcourse import Happened, Retry, Run, StepError, Tool, agent, current_call, tool
from tests.faults.checker import Deed, What

PLAIN: Final = "ValueError"
ODD: Final[Mapping[str, type[BaseException]]] = {
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "GeneratorExit": GeneratorExit,
    "SystemExit": SystemExit,
}
"""What user code may raise that is no failure to asyncio or to a generator."""
WIDE_ODD: Final[Mapping[str, type[BaseException]]] = {**ODD, "KeyboardInterrupt": KeyboardInterrupt}
AGAIN: Final = Retry(attempts=3, first_wait=0.2, max_wait=1.0)
PRICE: Final = 0.2
"""Dollars that each call costs in a wide run."""


class Remote:
    """The world outside of all processes: what it saw, and when."""

    def __init__(self, now: Callable[[], float], tell: Callable[[str], object]) -> None:
        self.deeds: list[Deed] = []
        self.there: set[str] = set()
        self._now = now
        self._tell = tell

    def see(self, what: What, session: str, effect: str, key: str | None = None) -> None:
        """Something is done."""
        call = current_call() if key is None else None
        step, attempt = (call.step, call.attempt) if call else ("", 0)
        named = call.key if call else key or ""
        deed = Deed(at=self._now(), what=what, session=session, step=step, effect=effect, key=named, attempt=attempt)
        self.deeds.append(deed)
        if what == "done":
            self.there.add(named)
        elif what == "undone":
            self.there.discard(named)
        self._tell(f"remote: {what} {effect} {session} {step} {attempt}")


remote = Remote(float, str)
"""The world of the run that is simulated now."""


class Course(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session is to do, as its goal says it."""

    seed: int
    depth: int = 0
    odd: bool = False
    wide: bool = False


class Slow(msgspec.Struct, frozen=True):
    """How a call goes: so many seconds before its effect and after it, and what it raises then, if anything."""

    before: float
    after: float
    raises: str = ""
    wide: bool = False

    def end(self) -> None:
        """What there is to raise is raised."""
        if self.raises:
            raise WIDE_ODD.get(self.raises, ValueError)(f"as planned: {self.raises}")


async def _task(session: str, how: Slow, effect: str) -> str:
    remote.see("begun", session, effect)
    if how.wide:
        current_call().spend(PRICE)
    await asyncio.sleep(how.before)
    if effect != "read":
        remote.see("done", session, effect)
    await asyncio.sleep(how.after)
    how.end()
    return effect


def _plain(session: str, how: Slow, effect: str) -> str:
    remote.see("begun", session, effect)
    if effect != "read":
        remote.see("done", session, effect)
    how.end()
    return effect


async def unbuild(arguments: Mapping[str, Any], result: object, key: str) -> None:
    """Take back what a key stands for."""
    del result
    await asyncio.sleep(0.01)
    remote.see("undone", arguments["session"], "reversible", key)


def was_paid(arguments: Mapping[str, Any], key: str) -> object:
    """Whether the remote has seen it."""
    del arguments
    return Happened("irreversible") if key in remote.there else False


@tool(name="sim-look", effect="read")
async def look(session: str, how: Slow) -> str:
    """Changes nothing."""
    return await _task(session, how, "read")


@tool(name="sim-put", effect="idempotent", local=True)
async def put(session: str, how: Slow) -> str:
    """The same under one key."""
    return await _task(session, how, "idempotent")


@tool(name="sim-build", undo=unbuild, local=True)
async def build(session: str, how: Slow) -> str:
    """Can be taken back."""
    return await _task(session, how, "reversible")


@tool(name="sim-pay", local=True)
async def pay(session: str, how: Slow) -> str:
    """Cannot be taken back."""
    return await _task(session, how, "irreversible")


@tool(name="sim-send", probe=was_paid, settle=0.5)
async def send(session: str, how: Slow) -> str:
    """Cannot be taken back; a probe tells whether it happened."""
    return await _task(session, how, "irreversible")


@tool(name="sim-look-thread", effect="read")
def look_thread(session: str, how: Slow) -> str:
    """Changes nothing, in a thread."""
    return _plain(session, how, "read")


@tool(name="sim-build-thread", undo=unbuild, local=True)
def build_thread(session: str, how: Slow) -> str:
    """Can be taken back; runs in a thread."""
    return _plain(session, how, "reversible")


@tool(name="sim-pay-thread", local=True)
def pay_thread(session: str, how: Slow) -> str:
    """Cannot be taken back; runs in a thread."""
    return _plain(session, how, "irreversible")


async def _flaky(session: str, how: Slow, effect: str) -> str:
    """Fail now and then, which passes; what fails later than that has had its effect."""
    if how.before > how.after and current_call().attempt % 2:
        remote.see("begun", session, effect)
        raise ConnectionError("for a moment")
    told = await _task(session, how, effect)
    if how.before > 0.2 and current_call().attempt % 2 == 0:
        raise ConnectionError("the answer was lost")
    return told


@tool(name="sim-look-again", effect="read", retry=AGAIN)
async def look_again(session: str, how: Slow) -> str:
    """Changes nothing; is tried again."""
    return await _flaky(session, how, "read")


@tool(name="sim-put-again", effect="idempotent", local=True, retry=AGAIN)
async def put_again(session: str, how: Slow) -> str:
    """The same under one key; is tried again."""
    return await _flaky(session, how, "idempotent")


@tool(name="sim-build-again", undo=unbuild, local=True, retry=AGAIN)
async def build_again(session: str, how: Slow) -> str:
    """Can be taken back; is tried again."""
    return await _flaky(session, how, "reversible")


@tool(name="sim-build-stubborn", undo=unbuild, local=True)
async def build_stubborn(session: str, how: Slow) -> str:
    """Can be taken back; takes longer than a drain waits, and does not end when it is cancelled."""
    remote.see("begun", session, "reversible")
    loop = asyncio.get_running_loop()
    until = loop.time() + 2.0 + 12 * how.before
    while (left := until - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left)
    remote.see("done", session, "reversible")
    how.end()
    return "reversible"


TOOLS: Final = (look, put, build, pay, send, look_thread, build_thread, pay_thread)
WIDE_TOOLS: Final = (*TOOLS, look_again, put_again, build_again, build_stubborn)


async def words(count: int) -> AsyncIterator[str]:
    """A model that speaks."""
    for number in range(count):
        await asyncio.sleep(0.01)
        yield f"word{number} "


async def let_go(session: str) -> None:
    """Give back what was held."""
    del session
    await asyncio.sleep(0)


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

    def how(self, most: float = 0.3) -> Slow:
        """How the next call goes."""
        chance = self.chance
        raises = ""
        if chance.random() < 0.12:
            odd = tuple(WIDE_ODD if self.course.wide else ODD)
            raises = chance.choice(odd) if self.course.odd and chance.random() < 0.6 else PLAIN
        before, after = round(chance.uniform(0, most), 3), round(chance.uniform(0, most), 3)
        return Slow(before, after, raises, wide=self.course.wide)

    async def call(self, body: "Tool[[str, Slow], Any] | None" = None, how: Slow | None = None) -> None:
        """One call; most of those that fail are not the end."""
        body, how = body or self.chance.choice(WIDE_TOOLS if self.course.wide else TOOLS), how or self.how()
        forgives = self.chance.random() < 0.7
        try:
            await self.run.step(body.name, body, self.run.session_id, how, key=self.key())
        except StepError:
            if not forgives:
                raise

    async def child(self) -> None:
        """One child, whose failure is not the end most of the time."""
        chance, course = self.chance, self.course
        goal = msgspec.structs.replace(course, seed=chance.randrange(10**9), depth=max(0, course.depth - 1))
        which = parent if course.depth > 1 and chance.random() < 0.5 else chance.choice((solo, payer))
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
                await asyncio.gather(self.call(), self.call())
            case "ask":
                expires = self.chance.choice((None, None, 3.0))
                await self.run.ask("Is it good?", options=("yes", "no"), expires=expires, default="no", key=self.key())
            case "stream":
                await self.run.stream("say", words, 20, key=self.key())
            case _:
                await self.run.hold(f"lock {self.run.scope} {self.key()}", let_go, self.run.session_id)


@agent(name="sim-solo")
async def solo(run: Run) -> int:
    """A few things, one after the other."""
    doer = Doer(run)
    count = doer.chance.randint(2, 5)
    for _ in range(count):
        await doer.something()
    return count


@agent(name="sim-payer")
async def payer(run: Run) -> int:
    """Calls that cannot be taken back: what dies with a process must be asked about."""
    doer = Doer(run)
    count = doer.chance.randint(2, 8)
    for _ in range(count):
        await doer.call(pay, doer.how(0.8))
    return count


@agent(name="sim-looper", mode="state")
async def looper(run: Run) -> int:
    """Goes on from a checkpoint."""
    while run.state.get("next", 0) < 3:
        await Doer(run).something()
        run.state["next"] = run.state.get("next", 0) + 1
        await run.checkpoint()
    return int(run.state["next"])


@agent(name="sim-parent")
async def parent(run: Run) -> int:
    """Children at once, and something of its own beside them."""
    doer = Doer(run)
    count = doer.chance.randint(1, 2)
    await asyncio.gather(*(doer.child() for _ in range(count)), doer.call())
    await doer.something()
    return count


@agent(name="sim-leaver")
async def leaver(run: Run) -> str:
    """Ends, in one way or the other, when its child has hardly begun."""
    doer = Doer(run)
    soon = Slow(0.0, round(doer.chance.uniform(0, 0.06), 4), doer.chance.choice(("", PLAIN)))
    step = asyncio.ensure_future(run.step("look", look, run.session_id, soon, key=doer.key()))
    children = [asyncio.ensure_future(doer.child()) for _ in range(doer.chance.randint(1, 2))]
    await asyncio.wait([step, *children], return_when=asyncio.FIRST_COMPLETED)
    return await step if step.done() else "a child was faster"


AGENTS: Final = {one.name: one for one in (solo, payer, looper, parent, leaver)}
