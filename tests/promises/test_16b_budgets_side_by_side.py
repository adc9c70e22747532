"""Promise 16: calls side by side, here or in children, never count on the same dollars."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Literal

import pytest

import midcourse
from midcourse.core.ids import SessionId
from midcourse.errors import Refused
from midcourse.handle import Midcourse, SessionHandle
from midcourse.runtime.tools import declared_tool, register
from tests.promises.harness import Place, resumable, until, until_status, until_true

PAID = midcourse.Settings(approve_paid=False, poll=0.05, unreachable_after=30.0)
HAIR = 1e-9
Kind = Literal["tool", "read", "thread", "model", "told"]
KINDS: tuple[Kind, ...] = ("tool", "read", "thread", "model", "told")
Body = Callable[[midcourse.Run], Awaitable[Any]]
_numbers = count(1)


class Ledger:
    """What an outsider sees of the calls: what each was priced at as it began, and what those that ended have cost."""

    def __init__(self, cap: float) -> None:
        self.cap = cap
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.paid = 0.0
        self.priced: dict[str, float] = {}
        self.passed: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    @contextmanager
    def call(self, name: str, price: float, costs: float | None = None) -> Any:
        """One call, from its start to its end."""
        self.begun.append(name)
        self.priced[name] = price
        if self.paid + sum(self.priced.values()) > self.cap + HAIR:
            self.passed.append(f"{name}: {self.paid} paid, {self.priced} priced, of {self.cap}")
        try:
            yield
            self.ended.append(name)
        finally:
            del self.priced[name]
            self.paid += price if costs is None else costs

    def work(self, kind: Kind, name: str, price: float, *, turns: int = 3, costs: float | None = None) -> Body:
        """One call of that kind, as the work of an agent. ``costs``: what a model's answer costs in the end."""

        async def body() -> str:
            with self.call(name, price):
                for _ in range(turns):
                    await asyncio.sleep(0)
                await self.may_end.wait()
            return name

        def in_thread() -> str:
            with self.call(name, price):
                return name

        async def model() -> AsyncIterator[str | midcourse.StreamEnd]:
            call, cost = midcourse.current_call(), price if costs is None else costs
            call.foresee(price)
            with self.call(name, price, cost):
                for number in range(turns):
                    if kind == "told":
                        call.spend(cost * number / turns, number)
                    yield "word "
                    await asyncio.sleep(0)
                await self.may_end.wait()
            yield midcourse.StreamEnd(cost=cost, tokens=turns)

        if kind in ("model", "told"):
            return lambda run: run.stream(name, model, key=name)
        effect = "read" if kind == "read" else "idempotent"
        declared: dict[str, Any] = {"effect": effect, "cost": price, "settle": 0.0}
        function: Any = in_thread if kind == "thread" else body
        tool = declared_tool(function, name=name, origin=f"{__name__}:tool{next(_numbers)}", **declared)
        register(tool)
        return lambda run: run.step(name, tool, key=name)


def at_once(*bodies: Body) -> Body:
    """All of them side by side."""

    async def work(run: midcourse.Run) -> None:
        await asyncio.gather(*(body(run) for body in bodies))

    return work


class Family:
    """Agents for the children that the work of a test spawns."""

    def __init__(self) -> None:
        self.agents: list[midcourse.Agent[Any]] = []

    def spawned(self, body: Body) -> Body:
        """As the work of a child of its own."""
        child = resumable(body, name=f"child{len(self.agents)}")
        self.agents.append(child)
        return lambda run: run.spawn(child, "a part", key=child.name)

    def capped(self, body: Body, cap: float) -> midcourse.Agent[Any]:
        """The parent of all of them, which may spend that much."""
        parent = replace(resumable(body, name="parent"), terms=midcourse.Terms(budget=cap))
        self.agents.append(parent)
        return parent


async def raised_until_done(session: SessionHandle[Any], ledger: Ledger, most: int) -> int:
    """Raise the budget, each time by what it says it needs, until all is done; return how often it was asked."""
    for times in range(most + 1):
        if await until_status(session, "paused", "completed", "failed") != "paused":
            assert await session.status() == "completed"
            return times
        state = await session.state()
        assert state.pause is not None
        assert state.pause.by == "budget"
        assert [ask.reason for ask in state.asks] == ["review"]
        assert not ledger.priced, "what was begun has ended"
        with pytest.raises(Refused) as refused:
            await session.resume()
        assert refused.value.code == "budget_spent"
        ledger.cap = float(str(refused.value.fields["raise_to"]))
        await session.raise_budget(ledger.cap)
    raise AssertionError(f"it was raised {most} times and is not done")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["session", "child", "children", "grandchildren"])
async def test_of_calls_side_by_side_only_those_begin_that_fit_together(shape: str, kind: Kind, place: Place) -> None:
    """Five of $0.20 with $0.50: two begin, and end as if nothing were; the others begin when the budget is raised."""
    ledger, family = Ledger(0.5), Family()
    calls = [ledger.work(kind, f"call{number}", 0.2) for number in range(5)]
    match shape:
        case "child":
            work = family.spawned(at_once(*calls))
        case "children":
            work = at_once(*map(family.spawned, calls))
        case "grandchildren":
            work = at_once(*(family.spawned(family.spawned(call)) for call in calls))
        case _:
            work = at_once(*calls)
    parent = family.capped(work, ledger.cap)
    async with place.open(*family.agents, settings=PAID) as mc:
        if kind != "thread":
            ledger.may_end.clear()
        session = await mc.start(parent, "a goal")
        if kind != "thread":
            await until_true(lambda: len(ledger.begun) == 2)
            await until(session, "session.pause_requested")
            ledger.may_end.set()
        await until_status(session, "paused")
        assert len(ledger.begun) == len(ledger.ended) == 2
        reason = pause.reason if (pause := (await session.state()).pause) else ""
        assert "its next call would cost about $0.20" in reason
        assert await raised_until_done(session, ledger, most=5) == 3
        assert round((await session.state()).cost, 6) == 1.0
    assert len(ledger.begun) == len(ledger.ended) == 5, "none was cut, and none was begun twice"
    assert ledger.passed == []


def tree(random_: random.Random, ledger: Ledger, family: Family, depth: int = 0) -> Body:
    """A random agent: calls and children, side by side or one after another, of random prices and lengths."""

    def part() -> Body:
        if depth < 2 and random_.random() < 0.4:
            return family.spawned(tree(random_, ledger, family, depth + 1))
        price = random_.choice([0.0, 0.05, 0.1, 0.2, 0.35])
        kind = random_.choice(KINDS)
        costs = price * random_.choice([0.25, 1.0]) if kind in ("model", "told") else None
        name = f"call{next(_numbers)}"
        return ledger.work(kind, name, price, turns=random_.randint(1, 9), costs=costs)

    parts = [part() for _ in range(random_.randint(1, 4))]
    if random_.random() < 0.7:
        return at_once(*parts)

    async def in_turn(run: midcourse.Run) -> None:
        for one in parts:
            await one(run)

    return in_turn


@pytest.mark.parametrize("seed", range(24))
async def test_no_call_begins_beside_others_that_it_does_not_fit_with(seed: int, place: Place) -> None:
    """Whatever the prices, the cap and the tree: what runs and what was paid never passes the cap as a call begins."""
    random_ = random.Random(seed)
    ledger, family = Ledger(random_.choice([0.05, 0.2, 0.4, 0.8])), Family()
    parts = [tree(random_, ledger, family) for _ in range(random_.randint(1, 3))]
    parent = family.capped(at_once(*parts), ledger.cap)
    async with place.open(*family.agents, settings=PAID) as mc:
        session = await mc.start(parent, "a goal")
        await raised_until_done(session, ledger, most=60)
        assert (await session.state()).cost == pytest.approx(ledger.paid)
    assert ledger.passed == []
    assert sorted(ledger.begun) == sorted(ledger.ended), "each has ended as it would have"


@pytest.mark.parametrize("kind", ["tool", "model"])
@pytest.mark.parametrize("depth", [1, 2])
async def test_a_child_that_another_process_drives_is_priced_against_what_its_parents_have_left(
    depth: int, kind: Kind, place: Place
) -> None:
    """It had waited for a person, who answered there. What the parent cannot pay, it is asked about where it is."""
    ledger, family = Ledger(0.5), Family()

    async def work(run: midcourse.Run) -> None:
        await ledger.work(kind, "first", 0.2)(run)
        await run.ask("Go on?")
        await at_once(*(ledger.work(kind, f"call{number}", 0.2) for number in range(3)))(run)

    body = family.spawned(work)
    parent = family.capped(body if depth == 1 else family.spawned(body), ledger.cap)
    parks = replace(PAID, park_after=0.0)
    async with place.open(*family.agents, settings=parks) as here, place.open(*family.agents, settings=PAID) as there:
        session = await here.start(parent, "a goal")
        await until(session, "child.asked")
        [asking] = [one.id for one in await here.list() if one.status == "waiting"]
        await until_true(lambda: driven(here, asking) is None)
        await (await there.get(asking)).answer("yes")
        await until_status(session, "paused")
        assert driven(there, asking) is not None or driven(here, asking) is None
        assert ledger.ended == ["first", "call0"]
        assert await raised_until_done(session, ledger, most=4) == 2
    assert ledger.passed == []
    assert sorted(ledger.begun) == ["call0", "call1", "call2", "first"]


def driven(mc: Midcourse, session_id: str) -> object:
    """What drives a session in that program."""
    return mc._control.worker.driver(SessionId(session_id))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


# ---- under the pause for the price of a call


class Speaker:
    """A model that was priced at $0.20 and says one word for each that it may: the first one at once."""

    def __init__(self) -> None:
        self.said: list[int] = []
        self.may_say: asyncio.Queue[float] = asyncio.Queue()

    async def speak(self) -> AsyncIterator[str]:
        """Tell what it has cost with each word."""
        call = midcourse.current_call()
        call.foresee(0.2)
        while True:
            dollars = await self.may_say.get()
            call.spend(dollars, 1)
            self.said.append(len(self.said))
            yield "word "
            await asyncio.sleep(0)


def beside(speaker: Speaker, family: Family, depth: int) -> midcourse.Agent[Any]:
    """A parent of $0.50, in which a second call of $0.40 does not fit beside the speaker."""
    ledger = Ledger(10.0)

    async def dear(run: midcourse.Run) -> None:
        await until_true(lambda: bool(speaker.said))
        await ledger.work("read", "dear", 0.4)(run)

    parts: list[Body] = [lambda run: run.stream("tell", speaker.speak), dear]
    for _ in range(depth):
        parts = [family.spawned(part) for part in parts]
    return family.capped(at_once(*parts), 0.5)


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("stop", ["pause", "cost"])
async def test_a_persons_pause_and_the_cap_itself_still_cut_what_the_price_of_a_call_lets_end(
    stop: str, depth: int, place: Place
) -> None:
    speaker, family = Speaker(), Family()
    parent = beside(speaker, family, depth)
    settings = replace(PAID, segment_tokens=1)
    async with place.open(*family.agents, settings=settings) as mc:
        session = await mc.start(parent, "a goal")
        speaker.may_say.put_nowait(0.1)
        await until(session, "session.pause_requested")
        for one in await mc.list():
            if one.parent is not None:
                await until(await mc.get(one.id), "session.pause_requested")
        speaker.may_say.put_nowait(0.15)
        await until_true(lambda: len(speaker.said) == 2)
        assert await session.status() == "pausing", "it goes on to its end"
        if stop == "pause":
            await session.pause(until="stopped")
        else:
            speaker.may_say.put_nowait(0.6)
        await until_status(session, "paused")
        speaker.may_say.put_nowait(0.7)
        assert len(speaker.said) == (2 if stop == "pause" else 3)


async def test_a_second_request_that_is_too_dear_leaves_the_first_one_paid(place: Place) -> None:
    async def model() -> AsyncIterator[str | midcourse.StreamEnd]:
        call = midcourse.current_call()
        call.foresee(0.2)
        call.spend(0.2, 1)
        yield "word "
        call.foresee(0.2)
        yield "word "
        yield midcourse.StreamEnd(cost=0.4, tokens=2)

    parent = Family().capped(lambda run: run.stream("tell", model), 0.3)
    async with place.open(parent) as mc:
        session = await mc.start(parent, "a goal")
        await until_status(session, "paused")
        assert (await session.state()).cost == pytest.approx(0.2)


@pytest.mark.parametrize("depth", [1, 2])
async def test_what_a_paused_child_has_spent_counts_before_it_goes_on(depth: int, place: Place) -> None:
    """Another process resumes the parent, and a call of its own is priced before the child is begun again."""
    ledger, family, held = Ledger(0.5), Family(), asyncio.Event()

    async def child(run: midcourse.Run) -> None:
        await ledger.work("tool", "first", 0.4)(run)
        held.set()
        await run.ask("Go on?")

    body: Body = child
    for _ in range(depth):
        body = family.spawned(body)

    async def work(run: midcourse.Run) -> None:
        await held.wait()
        await at_once(ledger.work("read", "second", 0.2), ledger.work("read", "third", 0.2))(run)

    parent = family.capped(at_once(work, body), ledger.cap)
    async with place.open(*family.agents, settings=PAID) as mc:
        session = await mc.start(parent, "a goal", session_id="s")
        await until_status(session, "paused")
        assert ledger.begun == ["first"]
    async with place.open(*family.agents, settings=PAID) as mc:
        session = await mc.get("s")
        ledger.cap = 0.61
        await session.raise_budget(ledger.cap)
        await until_status(session, "paused")
        assert sorted(ledger.begun) == ["first", "second"]
    assert ledger.passed == []
