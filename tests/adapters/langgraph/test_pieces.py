"""Values in pieces: what is loaded is what was put, and a list that grows costs what it grew by."""

import asyncio
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from midcourse.adapters.langgraph.saver import MidcourseSaver
from midcourse.ports.store import Store
from midcourse.stores.sqlite.memory import MemoryStore
from tests.adapters.langgraph.checkpoints import checkpoint_id, config, load, put


async def _grown(saver: BaseCheckpointSaver[Any], steps: int) -> None:
    messages: list[str] = []
    under = config()
    for number in range(steps):
        messages.append(f"{number:06} " + "m" * 200)
        under = await saver.aput(
            under,
            {
                "v": 4,
                "id": checkpoint_id(number),
                "ts": "2026-01-01T00:00:00+00:00",
                "channel_values": {"messages": list(messages), "fixed": "f" * 200},
                "channel_versions": {"messages": number + 1, "fixed": 1},
                "versions_seen": {},
                "updated_channels": None,
            },
            {"source": "loop", "step": number},
            {"messages": number + 1} if number else {"messages": 1, "fixed": 1},
        )


async def _bytes_per_step(steps: int) -> float:
    store = MemoryStore()
    saver = MidcourseSaver(store)
    await _grown(saver, steps)
    newest = await load(saver)
    assert newest is not None
    assert len(newest.checkpoint["channel_values"]["messages"]) == steps
    return await _stored(store) / steps


async def _stored(store: Store) -> int:
    return sum([len(value) for shelf in await store.shelves() for _, value in await store.shelved(shelf)])


async def test_storage_grows_with_what_is_added() -> None:
    few, many = await _bytes_per_step(200), await _bytes_per_step(2_000)
    print(f"bytes per step: {few:.0f} at 200 steps, {many:.0f} at 2,000")
    assert many / few <= 1.2


async def test_langgraphs_own_saver_writes_every_list_again() -> None:
    async def bytes_per_step(steps: int) -> float:
        saver = InMemorySaver()
        await _grown(saver, steps)
        return sum(len(content) for _, content in saver.blobs.values()) / steps

    few, many = await bytes_per_step(50), await bytes_per_step(500)
    assert many / few > 8


async def test_a_value_that_stays_the_same_is_stored_once() -> None:
    store = MemoryStore()
    saver = MidcourseSaver(store)
    same = {"numbers": {"a": list(range(100))}, "text": "t" * 1_000, "raw": b"r" * 1_000}
    await put(saver, 0, same)
    pieces = len(await store.shelf_keys("langgraph:t", first="v/", last="v/~"))
    for number in range(1, 10):
        # Another version, and the same value.
        under = config(checkpoint=checkpoint_id(number - 1))
        versions: Any = dict.fromkeys(same, number + 1)
        checkpoint: Any = {
            "v": 4,
            "id": checkpoint_id(number),
            "ts": "",
            "channel_values": same,
            "channel_versions": versions,
            "versions_seen": {},
        }
        await saver.aput(under, checkpoint, {}, versions)
    assert len(await store.shelf_keys("langgraph:t", first="v/", last="v/~")) == pieces == 3


small = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=5), st.binary(max_size=5))
element = st.one_of(small, st.text(min_size=60, max_size=90), st.lists(small, max_size=20))
anything = st.one_of(element, st.lists(element, max_size=20), st.dictionaries(st.text(max_size=3), element, max_size=3))
change = st.one_of(
    st.tuples(st.just("append"), st.lists(element, max_size=3)),
    st.tuples(st.just("cut"), st.integers(0, 3)),
    st.tuples(st.just("edit"), st.tuples(st.integers(0, 5), element)),
    st.tuples(st.just("replace"), anything),
    st.tuples(st.just("drop"), st.none()),
)
step = st.one_of(
    st.tuples(st.just("put"), st.tuples(st.integers(0, 3), st.sampled_from("ab"), change)),
    st.tuples(st.just("put"), st.tuples(st.just(0), st.just("a"), st.tuples(st.just("append"), st.lists(element)))),
    st.tuples(st.just("prune"), st.none()),
    st.tuples(st.just("delete runs"), st.integers(0, 2)),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("copy"), st.none()),
)


def _changed(value: Any, how: tuple[str, Any]) -> Any:
    word, what = how
    old = cast("list[Any]", value) if isinstance(value, list) else []
    match word:
        case "append":
            return [*old, *what]
        case "cut":
            return old[: max(0, len(old) - what)]
        case "edit":
            place = what[0] % (len(old) + 1)
            return [*old[:place], what[1], *old[place + 1 :]]
        case _:
            return what


@given(st.lists(step, max_size=25))
def test_whatever_happens_to_a_thread_each_checkpoint_loads_what_was_put(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(_live(steps))


async def _live(steps: list[tuple[str, Any]]) -> None:
    store = MemoryStore()
    saver, thread = MidcourseSaver(store), "t"
    known: dict[int, dict[str, Any]] = {}
    for number, (word, what) in enumerate(steps):
        match word:
            case "put":
                back, channel, how = what
                parent = sorted(known)[-1 - int(back) % len(known)] if known else None
                values = dict(known[parent]) if parent is not None else {"a": ["first" * 20], "b": "second" * 20}
                values[channel] = _changed(values.get(channel), how)
                if how[0] == "drop":
                    del values[channel]
                run = {"run_id": f"run {number % 3}"}
                await put(saver, number, values, parent=parent, thread=thread, metadata=run)
                known[number] = values
            case "prune":
                await saver.aprune([thread])
                known = {one: known[one] for one in sorted(known)[-1:]}
            case "delete runs":
                await saver.adelete_for_runs([f"run {what}"])
                known = {one: values for one, values in known.items() if one % 3 != what}
            case "copy":
                await saver.acopy_thread(thread, f"copy {number}")
                await saver.adelete_thread(thread)
                thread = f"copy {number}"
            case _:
                saver = MidcourseSaver(store)
        found = [one async for one in saver.alist(config(thread))]
        loaded = {one.metadata.get("step"): one.checkpoint["channel_values"] for one in found}
        assert loaded == known
