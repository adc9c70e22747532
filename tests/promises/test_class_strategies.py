"""A session is written down as its policy says for its class: segments and snapshots, also as a child or resumed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

import midcourse
from midcourse.core import events as ev
from midcourse.core.codec import Blob
from midcourse.core.events import Recorded
from midcourse.core.ids import Epoch, Position, SessionId
from midcourse.handle import SessionHandle
from midcourse.policy import versions
from midcourse.policy.document import Policy
from midcourse.policy.profiles import STANDARD
from midcourse.runtime.settings import Settings
from midcourse.runtime.supervisor import Supervisor
from tests.policy.runs import GOAL
from tests.policy.watched_programs import no_drift, opened, under
from tests.promises.faults import Faulty
from tests.promises.harness import NEVER, Place, Tool, history, resumable, until_true

UNHURRIED = Settings(segment_seconds=NEVER, poll=0.05, unreachable_after=30.0)
"""No segment is written because of the time."""
ENDS = (ev.StepFinished, ev.StepFailed, ev.StepCut, ev.StepAborted)
OFTEN: Policy = changed(
    STANDARD,
    name="often",
    extends="standard",
    classes=changed(
        STANDARD.classes,
        short=changed(STANDARD.classes.short, segment_tokens=10),
        long=changed(STANDARD.classes.long, checkpoint_calls=20, checkpoint_tokens=200, segment_tokens=40),
    ),
)
COARSE: Policy = changed(
    STANDARD,
    name="coarse",
    extends="standard",
    classes=changed(STANDARD.classes, long=changed(STANDARD.classes.long, segment_tokens=400)),
)


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this is about drift, and an encoder takes half a second to load."""
    monkeypatch.setattr(Supervisor, "drift", no_drift)


class Noting(Faulty):
    """A store that remembers where snapshots were saved."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.saved: dict[str, list[int]] = {}

    def save_snapshot(
        self, session_id: SessionId, position: Position, content: bytes, *, epoch: Epoch, blobs: Sequence[Blob] = ()
    ) -> Awaitable[None]:
        """See the port."""
        self.saved.setdefault(session_id, []).append(position)
        return super().save_snapshot(session_id, position, content, epoch=epoch, blobs=blobs)


async def noting(place: Place, *policies: Policy) -> Noting:
    """Such a store, that knows these policies."""
    store = Noting(await place.store())
    for policy in policies:
        await versions.save(store, policy, by="ada", why="a test", now=1.0)
    return store


def farthest(store: Noting, events: Sequence[Recorded], session: str, measure: Any) -> int:
    """The most that lies between two snapshots of a session, and before the first, and after the last."""
    most, here = 0, 0
    saved = set(store.saved.get(session, ()))
    for one in events:
        here += measure(one.event)
        most = max(most, here)
        if one.position in saved:
            here = 0
    return most


def ended(event: ev.AnyEvent) -> int:
    """Calls that it ends."""
    return isinstance(event, ENDS)


def words(event: ev.AnyEvent) -> int:
    """Tokens that it holds, of a model that says a word at a time."""
    return len(event.text.split()) if isinstance(event, ev.SegmentWritten) else 0


async def speak(count: int) -> AsyncIterator[str]:
    """A model that does not stop to breathe: no other task has a turn before it has ended."""
    for number in range(count):
        yield f"word{number} "


async def segments(session: SessionHandle[Any]) -> list[int]:
    """The sizes of a session's segments, in tokens."""
    return [size for one in await history(session) if (size := words(one.event))]


async def nothing() -> None:
    """A call."""


async def broken() -> None:
    """A call that fails."""
    raise ValueError("it does not work")


def calling(count: int) -> Callable[[midcourse.Run], Awaitable[None]]:
    """An agent that makes so many calls."""
    return lambda run: calls(run, count)


def writing(model: Any, *arguments: int) -> Callable[[midcourse.Run], Awaitable[object]]:
    """An agent that lets a model write, and nothing else."""
    return lambda run: run.stream("write", model, *arguments)


async def calls(run: midcourse.Run, count: int) -> None:
    """So many calls, of which each third fails."""
    for number in range(count):
        try:
            await run.step("call", broken if number % 3 == 0 else nothing)
        except midcourse.StepError:
            continue


# ---- snapshots


async def test_a_long_session_is_saved_at_least_every_so_many_tool_calls(place: Place) -> None:
    store = await noting(place, OFTEN)
    agent = under(calling(70), "often", task_class="long")
    async with opened(place, agent, store=store) as mc:
        session = await mc.start(agent, GOAL, session_id="s")
        await session.result()
        events = await history(session)
    assert sum(ended(one.event) for one in events) == 70
    assert 15 <= farthest(store, events, "s", ended) <= 20


async def test_without_a_policy_or_in_a_class_without_a_number_growth_alone_counts(place: Place) -> None:
    """Forty calls are a few kilobytes, which are not worth a snapshot."""
    store = await noting(place, OFTEN)
    unwatched = resumable(calling(40), name="unwatched")
    medium = under(calling(40), "often", name="medium", task_class="medium")
    async with opened(place, unwatched, medium, store=store) as mc:
        for agent in (unwatched, medium):
            await (await mc.start(agent, GOAL)).result()
    assert store.saved == {}


async def test_code_generation_is_saved_at_least_every_thousand_tokens_however_fast_they_come(place: Place) -> None:
    """Also in the middle of a stream, and by the tokens that a model tells of when it ends."""

    async def quiet() -> AsyncIterator[str | midcourse.StreamEnd]:
        yield "done"
        yield midcourse.StreamEnd(tokens=1000)

    async def work(run: midcourse.Run) -> None:
        await run.stream("write", speak, 2600)
        await run.stream("write", speak, 700)
        await run.stream("say", quiet)
        await run.step("look", nothing)

    store = await noting(place)
    agent = under(work, "code-generation")
    async with opened(place, agent, store=store, settings=UNHURRIED) as mc:
        session = await mc.start(agent, GOAL, session_id="s")
        await session.result()
        events = await history(session)
    assert sum(words(one.event) for one in events) == 3301
    assert farthest(store, events, "s", words) == 1000
    # 1000, 2000, 3000 (400 into the second stream); and the 300 behind that with the 1,000 of the third.
    assert len(store.saved["s"]) == 4
    [told] = [one.position for one in events if isinstance(one.event, ev.StepFinished) and one.event.tokens == 1000]
    assert store.saved["s"][-1] >= told


async def test_a_child_is_saved_as_its_own_policy_says(place: Place) -> None:
    child = under(calling(50), "often", name="child", task_class="long")

    async def work(run: midcourse.Run) -> None:
        await run.spawn(child, GOAL)

    parent = under(work, "standard", name="parent")
    store = await noting(place, OFTEN)
    async with opened(place, parent, child, store=store) as mc:
        await (await mc.start(parent, GOAL, session_id="p")).result()
        [name] = [one.id for one in await mc.list() if one.parent is not None]
        events = await history(await mc.get(name))
    assert sum(ended(one.event) for one in events) == 50
    assert farthest(store, events, name, ended) <= 20
    assert "p" not in store.saved


async def test_a_resumed_session_counts_on_from_its_last_snapshot(place: Place) -> None:
    """Three processes, each of which makes fifteen calls: none of them would save it by itself."""
    gates = [Tool(holds=True), Tool(holds=True)]

    async def work(run: midcourse.Run) -> None:
        for gate in gates:
            await calls(run, 15)
            await run.step("wait", gate.run)
        await calls(run, 15)

    agent = under(work, "often", task_class="long")
    store = await noting(place, OFTEN)
    saved = store.saved
    for gate in gates:
        async with opened(place, agent, store=store, grace=0) as mc:
            if gate is gates[0]:
                await mc.start(agent, GOAL, session_id="s")
            await gate.entered.wait()
        gate.may_end.set()
        store = await noting(place)
        store.saved = saved
    async with opened(place, agent, store=store) as mc:
        session = await mc.get("s")
        await session.result()
        events = await history(session)
    assert sum(ended(one.event) for one in events) >= 47
    assert farthest(store, events, "s", ended) <= 20


async def test_a_cut_stream_that_is_resumed_counts_on_from_its_last_snapshot(place: Place) -> None:
    """150 tokens in one process and 150 in the next: the snapshot comes before the 200th."""
    held = Tool(holds=True)

    async def model() -> AsyncIterator[str]:
        async for piece in speak(150):
            yield piece
        await held.run()

    agent = under(writing(model), "often", task_class="long")
    store = await noting(place, OFTEN)
    saved = store.saved
    async with opened(place, agent, store=store, settings=UNHURRIED, grace=0) as mc:
        await mc.start(agent, GOAL, session_id="s")
        await held.entered.wait()
    assert saved == {}
    held.may_end.set()
    store = await noting(place)
    store.saved = saved
    async with opened(place, agent, store=store, settings=UNHURRIED) as mc:
        session = await mc.get("s")
        await session.result()
        events = await history(session)
    assert sum(words(one.event) for one in events) == 300
    assert farthest(store, events, "s", words) <= 200


async def test_a_step_of_a_long_session_under_code_generation_costs_what_one_of_a_short_session_does(
    tmp_path: Path,
) -> None:
    """Promise 10, for an agent that says 250 tokens in a step and takes a checkpoint after each."""
    place = Place("memory", tmp_path)

    async def cost_of(steps: int) -> float:
        async def work(run: midcourse.Run) -> None:
            run.state.setdefault("done", 0)
            while run.state["done"] < steps:
                await run.stream("write", speak, 250)
                run.state["done"] += 1
                await run.checkpoint()

        agent = replace(under(work, "code-generation", name=f"writer-{steps}"), mode="state")
        store = await noting(place)
        async with opened(place, agent, store=store, settings=UNHURRIED) as mc:
            await (await mc.start(agent, GOAL, session_id=f"s{steps}")).result()
        assert store.snapshots_saved >= steps // 4
        return store.bytes_written / steps

    few, many = await cost_of(20), await cost_of(160)
    assert many <= 1.2 * few


# ---- segments


@pytest.mark.parametrize(
    ("policy", "task_class", "given", "most"),
    [
        ("standard", "very_long", None, 100),
        ("standard", "very_long", 10**6, 100),  # the finer of the two, whoever says it
        ("standard", "very_long", 7, 7),
        ("often", "long", None, 40),
        ("often", "long", 150, 40),
        ("often", "medium", None, 100),  # the policy says nothing
        ("often", "medium", 150, 150),
        ("coarse", "long", None, 400),  # said by nobody else
        ("coarse", "long", 250, 250),
        ("none", None, None, 100),
        ("none", None, 250, 250),
    ],
)
async def test_a_segment_has_as_many_tokens_as_policy_and_program_allow(
    tmp_path: Path, policy: str, task_class: Any, given: int | None, most: int
) -> None:
    place = Place("memory", tmp_path)
    store = await noting(place, OFTEN, COARSE)
    agent = under(writing(speak, 1000), policy, task_class=task_class)
    settings = replace(UNHURRIED, segment_tokens=given)
    async with opened(place, agent, store=store, settings=settings) as mc:
        session = await mc.start(agent, GOAL)
        await session.result()
        sizes = await segments(session)
    assert sum(sizes) == 1000
    assert max(sizes) == most


async def test_the_class_that_an_agents_own_runs_predict_counts_where_none_is_declared(place: Place) -> None:
    """Five runs of a moment each: the sixth is taken for short, where the policy wants segments of ten."""
    held = Tool()

    async def work(run: midcourse.Run) -> None:
        await run.step("wait", held.run)
        await run.stream("write", speak, 95)

    agent = under(work, "often")
    async with opened(place, agent, store=await noting(place, OFTEN), settings=UNHURRIED) as mc:
        for number in range(5):
            session = await mc.start(agent, GOAL)
            await session.result()
            assert number > 0 or max(await segments(session)) == 40  # nobody knew: as if it were long
    held.may_end.clear()
    async with opened(place, agent, settings=UNHURRIED) as mc:
        session = await mc.start(agent, GOAL, session_id="s")
        worker = mc._worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        await until_true(lambda: (d := worker.driver(SessionId("s"))) is not None and d.journal.pace.segment == 10)
        held.may_end.set()
        await session.result()
        assert max(await segments(session)) == 10
