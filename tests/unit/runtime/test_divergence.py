"""A resumed agent that takes another path is stopped, before anything happens along it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import midcourse
from tests.promises.harness import KINDS, Kind, Place, Tool, resumable, until, until_true


class _Path:
    """An agent whose first step takes an argument from outside, which no agent should."""

    def __init__(self) -> None:
        self.argument: object = "left"
        self.first, self.other, self.last = Tool(), Tool(), Tool(holds=True)
        self.caught: list[str] = []
        self.agent = resumable(self._run)

    async def _run(self, run: midcourse.Run) -> object:
        try:
            await run.step("go", self.first.run, self.argument)
        except Exception as error:  # noqa: BLE001 - agents are full of this
            self.caught.append(str(error))
            return await run.step("other", self.other.run)
        except BaseException:  # noqa: BLE001 - and some of this
            return await run.step("other", self.other.run)
        return await run.step("last", self.last.run, "end")

    async def begin(self, place: Place) -> None:
        """Run it into its last step, and let go of it there."""
        async with place.open(self.agent, grace=0) as mc:
            await mc.start(self.agent, session_id="s")
            await self.last.entered.wait()
        self.last.may_end.set()


async def test_a_step_with_other_arguments_stops_the_session_and_the_sentence_shows_both(place: Place) -> None:
    """The agent gets no chance to catch it and go on."""
    path = _Path()
    await path.begin(place)
    path.argument = "right"
    async with place.open(path.agent) as mc:
        session = await mc.get("s")
        with pytest.raises(midcourse.SessionEnded, match="make what it does between steps depend only on") as ended:
            await session.result()
        assert ended.value.code == "diverged"
        assert '["left"]' in str(ended.value)
        assert '["right"]' in str(ended.value)
        assert (path.caught, path.other.begun, len(path.last.begun)) == ([], [], 1)


async def test_a_session_that_diverged_goes_on_when_its_agent_keeps_to_the_path_again(place: Place) -> None:
    """Nothing was lost by stopping it."""
    path = _Path()
    await path.begin(place)
    path.argument = "right"
    async with place.open(path.agent) as mc:
        session = await mc.get("s")
        await until(session, "session.failed")
        path.argument = "left"
        await session.resume()
        assert await session.result() == "end"
        assert path.first.begun == [("left",)]


async def test_another_order_of_steps_with_the_same_arguments_is_the_same_path(place: Place) -> None:
    """A step is known by its name and key, not by its place in time."""
    order = ["a", "b"]
    tools = {name: Tool() for name in order}
    last = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        for name in order:
            await run.step(name, tools[name].run, name)
        return await run.step("last", last.run, "end")

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await last.entered.wait()
    last.may_end.set()
    order.reverse()
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == "end"
    assert [len(tool.begun) for tool in tools.values()] == [1, 1]


async def test_arguments_count_as_what_a_journal_gives_back(place: Place) -> None:
    """A tuple that has become a list, and keys in another order, are no other path."""
    path = _Path()
    path.argument = {"b": (1, 2), "a": None}
    await path.begin(place)
    path.argument = {"a": None, "b": [1, 2]}
    async with place.open(path.agent) as mc:
        assert await (await mc.get("s")).result() == "end"


# ---- any order

_NAMES = "abcdef"
_ORDER = st.permutations(_NAMES)


class _Workshop:
    """Steps that end when they are told to, each result the work of one call."""

    def __init__(self, order: Sequence[str], arguments: dict[str, int]) -> None:
        self.order, self.arguments = order, arguments
        self.begun: list[str] = []
        self.may_end = {name: asyncio.Event() for name in _NAMES}
        self.work = midcourse.tool(effect="read")(self._work)

    async def _work(self, name: str, argument: int) -> str:
        self.begun.append(name)
        await self.may_end[name].wait()
        return f"{name}{argument} by call {len(self.begun)}"

    def parallel(self) -> midcourse.Agent[Any]:
        """All at once, begun in the given order, each with a key."""

        async def agent(run: midcourse.Run) -> dict[str, str]:
            results = await asyncio.gather(
                *(run.step("work", self.work, name, self.arguments[name], key=name) for name in self.order)
            )
            return dict(zip(self.order, results, strict=True))

        return resumable(agent)

    def sequential(self) -> midcourse.Agent[Any]:
        """One after the other in the given order, without keys: the n-th is known as the n-th."""

        async def agent(run: midcourse.Run) -> dict[str, str]:
            return {name: await run.step("work", self.work, name, self.arguments[name]) for name in self.order}

        return resumable(agent)


async def _first_life(
    place: Place, shop: _Workshop, agent: midcourse.Agent[Any], done: Sequence[str], begun: int
) -> None:
    """Let the calls ``done`` end, in that order, then let go of the session with the others in flight."""
    async with place.open(agent, grace=0) as mc:
        session = await mc.start(agent, session_id="s")
        for number, name in enumerate(done, start=1):
            shop.may_end[name].set()
            await until(session, "step.finished", times=number)
        await until_true(lambda: len(shop.begun) == begun)


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    orders=st.tuples(_ORDER, _ORDER, _ORDER),
    done=st.integers(0, len(_NAMES) - 1),
    changed=st.none() | st.sampled_from(_NAMES),
)
def test_parallel_steps_get_their_own_results_in_whatever_order_they_complete_and_are_asked_for(
    kind: Kind, orders: tuple[list[str], list[str], list[str]], done: int, changed: str | None
) -> None:
    """Or, if one is called with another argument than it was begun with, the session stops as diverged."""

    async def story(folder: Path) -> None:
        place = Place(kind, folder)
        arguments = {name: number for number, name in enumerate(_NAMES)}
        first = _Workshop(orders[0], arguments)
        await _first_life(place, first, first.parallel(), orders[1][:done], len(_NAMES))
        arguments = {name: number + 100 * (name == changed) for name, number in arguments.items()}
        second = _Workshop(orders[2], arguments)
        for name in reversed(orders[1]):
            second.may_end[name].set()
        async with place.open(second.parallel()) as mc:
            session = await mc.get("s")
            try:
                results = await session.result()
            except midcourse.SessionEnded as ended:
                assert ended.code == "diverged"
                assert changed is not None
                return
        assert changed is None
        for name, result in results.items():
            assert result.startswith(f"{name}{arguments[name]} ")
        assert not set(second.begun) & set(orders[1][:done])

    with TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder)))


@settings(max_examples=20, deadline=None)
@given(orders=st.tuples(_ORDER, _ORDER), done=st.integers(0, len(_NAMES) - 1))
def test_steps_without_keys_asked_for_in_another_order_get_their_own_results_or_stop_as_diverged(
    orders: tuple[list[str], list[str]], done: int
) -> None:
    """Nobody is ever given the result of another call."""

    async def story(folder: Path) -> None:
        place = Place("memory", folder)
        arguments = {name: number for number, name in enumerate(_NAMES)}
        first = _Workshop(orders[0], arguments)
        await _first_life(place, first, first.sequential(), orders[0][:done], done + 1)
        second = _Workshop(orders[1], arguments)
        for name in _NAMES:
            second.may_end[name].set()
        async with place.open(second.sequential()) as mc:
            session = await mc.get("s")
            try:
                results = await session.result()
            except midcourse.SessionEnded as ended:
                assert ended.code == "diverged"
                assert orders[0][: len(first.begun)] != orders[1][: len(first.begun)]
                return
        for name, result in results.items():
            assert result.startswith(f"{name}{arguments[name]} ")
        assert orders[0][: len(first.begun)] == orders[1][: len(first.begun)]

    with TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder)))
