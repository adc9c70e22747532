"""LangGraph's checkpoints in our stores: all that LangGraph asks of a checkpointer, and what an owner may rely on."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel  # pyright: ignore[reportMissingTypeStubs] - it has no type marker
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate  # pyright: ignore[reportMissingTypeStubs] - it has no type marker
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has no type marker
from langgraph.graph.message import add_messages  # pyright: ignore[reportMissingTypeStubs] - it has no type marker

from midcourse.adapters.langgraph.saver import MidcourseSaver
from midcourse.core.ids import Epoch, SessionId
from midcourse.errors import Damaged, InvalidInput, MidcourseError, StaleEpoch
from midcourse.ports.store import Store
from midcourse.stores.sqlite import SqliteStore
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.testing.store_promises.fixtures import BOB, SESSION, owned
from tests.adapters.langgraph.checkpoints import config, load, put, values

LONG = "long enough to be no small value, which would lie in the record itself " * 2


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "midcourse.db")
    yield store
    await store.close()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, sqlite: SqliteStore) -> Store:
    return MemoryStore() if request.param == "memory" else sqlite


@pytest.fixture
async def saver(store: Store) -> MidcourseSaver:
    return MidcourseSaver(store)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_all_of_langgraphs_conformance_suite_passes(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    opened: list[Store] = []

    @checkpointer_test(name=f"MidcourseSaver on {kind}")
    async def made() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        path = tmp_path / f"midcourse{len(opened)}.db"
        opened.append(MemoryStore() if kind == "memory" else await SqliteStore.open(path))
        yield MidcourseSaver(opened[-1])
        await opened[-1].close()

    results = (await validate(made)).results.values()
    passed, skipped = sum(one.tests_passed for one in results), sum(one.tests_skipped for one in results)
    record_property("told", f"LangGraph's conformance suite on {kind}: {passed} passed, {skipped} skipped")
    assert [failure for one in results for failure in one.failures] == []
    assert passed > 0
    assert skipped == 0


# ---- graphs


class State(TypedDict):
    """What the graph of these tests remembers."""

    messages: Annotated[list[AnyMessage], add_messages]
    notes: dict[str, list[int]]


def graph_on(saver: BaseCheckpointSaver[Any]) -> Any:
    """A graph that answers three times."""

    def answer(state: State) -> dict[str, Any]:
        count = len(state["messages"])
        return {"messages": [AIMessage(f"answer {count} {LONG}", id=f"ai-{count}")], "notes": {"counted": [count]}}

    def again(state: State) -> str:
        return END if len(state["messages"]) % 4 == 0 else "answer"

    builder: Any = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_conditional_edges("answer", again, ["answer", END])
    return builder.compile(checkpointer=saver)


async def a_life(saver: BaseCheckpointSaver[Any]) -> list[Any]:
    """Two runs, an edit, a branch from the past, and a copy: every state that can be read afterwards."""
    graph, thread = graph_on(saver), config()
    await graph.ainvoke({"messages": [HumanMessage("one", id="h-1")]}, thread)
    await graph.aupdate_state(thread, {"messages": [AIMessage("edited", id="ai-2")]})
    await graph.ainvoke({"messages": [HumanMessage("two", id="h-2")]}, thread)
    past = [state async for state in graph.aget_state_history(thread)]
    await graph.aupdate_state(past[4].config, {"messages": [AIMessage(f"another past {LONG}", id="ai-9")]})
    await graph.ainvoke({"messages": [HumanMessage("three", id="h-3")]}, thread)
    await graph.aupdate_state(past[2].config, None, as_node="__copy__")
    await graph.ainvoke({"messages": [HumanMessage("four", id="h-4")]}, thread)
    return [
        (state.values, state.next, state.metadata, [task.name for task in state.tasks])
        async for state in graph.aget_state_history(thread)
    ]


async def test_a_graph_lives_as_on_langgraphs_own_saver(saver: MidcourseSaver) -> None:
    assert await a_life(saver) == await a_life(InMemorySaver())


async def test_delta_channels_are_made_from_their_history(saver: MidcourseSaver) -> None:
    class Deltas(TypedDict):
        items: Annotated[list[str], DeltaChannel(_extended, snapshot_frequency=4)]
        count: Annotated[int, add]

    def more(state: Deltas) -> dict[str, Any]:
        return {"items": [f"{state['count']} {LONG}"], "count": 1}

    def again(state: Deltas) -> str:
        return "more" if state["count"] % 6 else END

    async def grown(saver: BaseCheckpointSaver[Any]) -> tuple[Any, list[Any]]:
        builder: Any = StateGraph(Deltas)
        builder.add_node("more", more)
        builder.add_edge(START, "more")
        builder.add_conditional_edges("more", again, ["more", END])
        graph = builder.compile(checkpointer=saver)
        await graph.ainvoke({"items": ["first"], "count": 0}, config())
        return graph, [state.values async for state in graph.aget_state_history(config())]

    graph, mine = await grown(saver)
    assert mine == (await grown(InMemorySaver()))[1]
    await saver.aprune(["t"])
    kept = [state.values async for state in graph.aget_state_history(config())]
    assert kept[0] == mine[0]
    assert 1 < len(kept) < len(mine)


def _extended(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*state, *(item for write in writes for item in write)]


# ---- what stays, and what goes


async def test_a_reopened_store_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "midcourse.db"
    store = await SqliteStore.open(path)
    written = await a_life(MidcourseSaver(store))
    await store.close()
    store = await SqliteStore.open(path)
    graph = graph_on(MidcourseSaver(store))
    read = [
        (state.values, state.next, state.metadata, [task.name for task in state.tasks])
        async for state in graph.aget_state_history(config())
    ]
    assert read == written
    await graph.ainvoke({"messages": [HumanMessage("five", id="h-5")]}, config())
    before = written[0][0]["messages"]
    assert (await graph.aget_state(config())).values["messages"][: len(before)] == before
    await store.close()


async def test_a_thread_that_is_taken_up_anew_at_each_turn_grows_by_what_is_added(store: Store) -> None:
    grown = [0]
    for turn in range(12):
        # As a server would that has many processes: no turn knows in memory what the last one put.
        human = HumanMessage(f"{turn:03} {LONG}", id=f"h-{turn:03}")
        await graph_on(MidcourseSaver(store)).ainvoke({"messages": [human]}, config())
        grown.append(sum(len(value) for _, value in await store.shelved("langgraph:t", first="v/", last="v/~")))
    turns = [after - before for before, after in pairwise(grown)]
    assert turns[-4:] == turns[4:8]


async def test_branches_do_not_disturb_each_other(saver: MidcourseSaver) -> None:
    await put(saver, 1, {"a": [LONG]})
    await put(saver, 2, {"a": [LONG, "main"]}, parent=1)
    await put(saver, 3, {"a": [LONG, "branch"]}, parent=1)
    await put(saver, 4, {"a": [LONG, "branch", "on"]}, parent=3)
    await put(saver, 5, {"a": [LONG, "main", "on"]}, parent=2)
    await put(saver, 6, {"a": [LONG, "branch"]}, parent=1)
    expected = {1: [], 2: ["main"], 3: ["branch"], 4: ["branch", "on"], 5: ["main", "on"], 6: ["branch"]}
    for number, rest in expected.items():
        assert await values(saver, number) == {"a": [LONG, *rest]}


async def test_two_savers_that_go_on_from_the_same_checkpoint_do_not_mix(store: Store) -> None:
    one, two = MidcourseSaver(store), MidcourseSaver(store)
    await put(one, 1, {"a": [LONG]})
    await put(one, 2, {"a": [LONG, "1"]}, parent=1)
    await put(two, 3, {"a": [LONG, "1", "by two"]}, parent=2)
    await put(one, 4, {"a": [LONG, "1", "by one"]}, parent=2)  # it still believes that 2 is the last
    await put(one, 5, {"a": [LONG, "1", "by one", "on"]}, parent=4)
    assert await values(two, 3) == {"a": [LONG, "1", "by two"]}
    assert await values(two, 5) == {"a": [LONG, "1", "by one", "on"]}
    await one.aprune(["t"])
    assert await values(two, 5) == {"a": [LONG, "1", "by one", "on"]}


async def test_pruning_keeps_what_the_newest_is_made_of(saver: MidcourseSaver, store: Store) -> None:
    await put(saver, 1, {"a": [LONG], "b": LONG})
    for number in range(2, 20):
        await put(saver, number, {"a": [LONG, *range(number)], "b": LONG}, parent=number - 1)
    await put(saver, 20, {"a": ["another", LONG], "b": LONG}, parent=5)
    await put(saver, 21, {"a": [LONG, *range(19), "last"], "b": LONG}, parent=19)
    await saver.aput_writes(config(checkpoint="checkpoint-00000005"), [("a", [1])], "task")
    await saver.aput_writes(config(checkpoint="checkpoint-00000021"), [("a", [2])], "task")
    await saver.aprune(["t"])
    newest = await load(saver)
    assert newest is not None
    assert newest.checkpoint["channel_values"] == {"a": [LONG, *range(19), "last"], "b": LONG}
    assert newest.pending_writes == [("task", "a", [2])]
    assert [one.checkpoint["id"] async for one in saver.alist(config())] == [newest.checkpoint["id"]]
    assert len(await store.shelf_keys("langgraph:t", first="c/", last="c/~")) == 1
    assert len(await store.shelf_keys("langgraph:t", first="v/", last="v/~")) == 20 + 1
    assert len(await store.shelf_keys("langgraph:t", first="w/", last="w/~")) == 1
    await put(saver, 22, {"a": ["all anew", LONG], "b": ""}, parent=21)
    await saver.aprune(["t"])
    assert len(await store.shelf_keys("langgraph:t")) == 2


async def test_a_pruned_thread_goes_on(saver: MidcourseSaver) -> None:
    for number in range(5):
        await put(saver, number, {"a": [LONG, *range(number)]}, parent=number - 1 if number else None)
    await saver.aprune(["t"])
    await put(saver, 5, {"a": [LONG, *range(5)]}, parent=4)
    await saver.aprune(["t"])
    assert await values(saver, 5) == {"a": [LONG, *range(5)]}


async def test_deleting_a_run_keeps_what_the_next_run_is_made_of(saver: MidcourseSaver) -> None:
    await put(saver, 1, {"a": [LONG]}, metadata={"run_id": "first"})
    await put(saver, 2, {"a": [LONG, 1]}, parent=1, metadata={"run_id": "first"})
    await put(saver, 3, {"a": [LONG, 1, 2]}, parent=2, metadata={"run_id": "second"})
    await put(saver, 1, {"a": [LONG]}, thread="other", metadata={"run_id": "first"})
    await saver.adelete_for_runs(["first"])
    assert await load(saver, 1) is None
    assert await values(saver, 3) == {"a": [LONG, 1, 2]}
    assert await load(saver, thread="other") is None


async def test_a_deleted_thread_leaves_nothing(saver: MidcourseSaver, store: Store) -> None:
    await put(saver, 1, {"a": [LONG]})
    await put(saver, 1, {"a": [LONG]}, namespace="child:1")
    await put(saver, 1, {"a": [LONG]}, thread="t2")
    await saver.aput_writes(config(checkpoint="checkpoint-00000001"), [("a", 1)], "task")
    await saver.adelete_thread("t")
    assert list(await store.shelves()) == ["langgraph:t2"]


async def test_a_copied_thread_lives_by_itself(saver: MidcourseSaver) -> None:
    await put(saver, 1, {"a": [LONG]})
    await put(saver, 2, {"a": [LONG, 1]}, parent=1)
    await saver.acopy_thread("t", "copy")
    await put(saver, 3, {"a": [LONG, 1, "copy"]}, parent=2, thread="copy")
    await put(saver, 3, {"a": [LONG, 1, "original"]}, parent=2)
    await saver.adelete_thread("t")
    assert await values(saver, 3, thread="copy") == {"a": [LONG, 1, "copy"]}
    assert await values(saver, 1, thread="copy") == {"a": [LONG]}


async def test_names_may_hold_anything(saver: MidcourseSaver) -> None:
    for name in ("", "a/b", "a%2Fb", "c/", "ü|x:1", "\x00", "a"):
        await put(saver, 1, {f"{name}/ch": [LONG, name]}, thread=f"t/{name}", namespace=name)
        task = config(f"t/{name}", "checkpoint-00000001", namespace=name)
        await saver.aput_writes(task, [(name, name)], f"{name}/0")
        found = await load(saver, thread=f"t/{name}", namespace=name)
        assert found is not None
        assert found.checkpoint["channel_values"] == {f"{name}/ch": [LONG, name]}
        assert found.pending_writes == [(f"{name}/0", name, name)]
        assert found.config == task
    assert len([one async for one in saver.alist(None)]) == 7


async def test_a_list_of_all_threads_is_newest_first(saver: MidcourseSaver) -> None:
    for number, thread in enumerate(("b", "a", "b", "c")):
        await put(saver, number, {}, thread=thread, metadata={"odd": number % 2})
    assert [one.metadata.get("step") async for one in saver.alist(None)] == [3, 2, 1, 0]
    assert [one.metadata.get("step") async for one in saver.alist(None, filter={"odd": 1}, limit=1)] == [3]
    before = config("a", "checkpoint-00000002")
    assert [one.metadata.get("step") async for one in saver.alist(None, before=before)] == [1, 0]
    assert [one.metadata.get("step") async for one in saver.alist(config("b"))] == [2, 0]
    assert [one async for one in saver.alist(config("b"), limit=0)] == []


async def test_a_write_stays_as_it_was_first_and_an_error_as_it_was_last(saver: MidcourseSaver) -> None:
    under = await put(saver, 1, {})
    await saver.aput_writes(under, [("a", 1), ("b", 1)], "task")
    await saver.aput_writes(under, [("a", 2), ("b", 2), ("c", 2)], "task")
    await saver.aput_writes(under, [(ERROR, "first")], "task")
    await saver.aput_writes(under, [(ERROR, "second")], "task")
    await saver.aput_writes(under, [], "task")
    found = await load(saver, 1)
    assert found is not None
    assert found.pending_writes == [("task", ERROR, "second"), ("task", "a", 1), ("task", "b", 1), ("task", "c", 2)]


# ---- owners, damage, misuse


async def test_a_stale_owner_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    mine, other = MemoryStore(), MemoryStore()
    other = mine.peer()
    epoch = await owned(mine)
    saver = MidcourseSaver(mine, owner=lambda: (SESSION, epoch))
    under = await put(saver, 1, {"a": [LONG]})
    mine.abandon()
    await other.enlist(BOB, "")
    taken = await other.take(SESSION, BOB)
    kept = list(await other.shelved("langgraph:t"))
    calls: list[Callable[[], Any]] = [
        lambda: put(saver, 2, {"a": [LONG, 1]}, parent=1),
        lambda: saver.aput_writes(under, [("a", 1)], "task"),
        lambda: saver.acopy_thread("t", "copy"),
        lambda: saver.adelete_thread("t"),
    ]
    for call in calls:
        with pytest.raises(StaleEpoch):
            await call()
    assert list(await other.shelved("langgraph:t")) == kept
    assert list(await other.shelves()) == ["langgraph:t"]
    successor = MidcourseSaver(other, owner=lambda: (SESSION, taken.epoch))
    await put(successor, 2, {"a": [LONG, 1]}, parent=1)
    assert await values(successor, 2) == {"a": [LONG, 1]}


async def test_an_owner_of_nothing_is_not_asked_for(saver: MidcourseSaver, store: Store) -> None:
    held: list[tuple[SessionId, Epoch] | None] = [None]
    await put(MidcourseSaver(store, owner=lambda: held[0]), 1, {"a": [LONG]})
    assert await values(saver, 1) == {"a": [LONG]}


@pytest.mark.parametrize("prefix", ["c/", "v/", "w/"])
async def test_damage_is_told_and_never_loaded(prefix: str) -> None:
    store = MemoryStore()
    saver = MidcourseSaver(store)
    await put(saver, 1, {"a": [LONG]})
    under = await put(saver, 2, {"a": [LONG, 1]}, parent=1)
    await saver.aput_writes(under, [("a", 1)], "task")
    store.memory.connection.execute(
        "UPDATE shelves SET value = x'3f' WHERE key = (SELECT max(key) FROM shelves WHERE key GLOB ?)", (prefix + "*",)
    )
    with pytest.raises(Damaged, match="langgraph:t"):
        await load(saver)


async def test_a_missing_piece_is_told_and_never_skipped(saver: MidcourseSaver, store: Store) -> None:
    await put(saver, 1, {"a": [LONG]})
    await put(saver, 2, {"a": [LONG, 1]}, parent=1)
    await put(saver, 3, {"a": [LONG, 1, 2]}, parent=2)
    for key in (await store.shelf_keys("langgraph:t", first="v/", last="v/~"))[:2]:
        (kept,) = await store.shelved("langgraph:t", first=key, last=key)
        await store.shelve("langgraph:t", {key: None})
        with pytest.raises(Damaged, match="missing"):
            await load(saver, 3)
        await store.shelve("langgraph:t", dict([kept]))
    assert await values(saver, 3) == {"a": [LONG, 1, 2]}


async def test_something_else_under_a_key_is_told(saver: MidcourseSaver, store: Store) -> None:
    await put(saver, 1, {"a": [LONG]})
    await store.shelve("langgraph:t", {"c//checkpoint-00000001": b"\xc1"})
    with pytest.raises(Damaged, match="no record of a LangGraph thread"):
        await load(saver, 1)


async def test_a_checkpoint_that_goes_while_it_is_read_is_not_there() -> None:
    class Hasty(MemoryStore):
        async def shelved(
            self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
        ) -> Any:
            if first.startswith("v/"):
                await saver.adelete_thread("t")
            return await super().shelved(shelf, first=first, last=last, newest=newest, limit=limit)

    saver = MidcourseSaver(Hasty())
    await put(saver, 1, {"a": [LONG]})
    assert await load(saver) is None


async def test_blocking_calls_on_the_event_loop_say_what_to_use(saver: MidcourseSaver) -> None:
    with pytest.raises(MidcourseError, match=r"Await aget_tuple instead.*ainvoke") as caught:
        graph_on(saver).invoke({"messages": []}, config())
    assert caught.value.code == "async_only"
    for name in ("delete_thread", "delete_for_runs", "prune"):
        with pytest.raises(MidcourseError, match=f"Await a{name} instead"):
            getattr(saver, name)("t")


async def test_blocking_calls_of_other_threads_wait_for_the_loop(saver: MidcourseSaver) -> None:
    graph = graph_on(saver)

    def run() -> list[Any]:
        graph.invoke({"messages": [HumanMessage("a")]}, config())
        graph.invoke({"messages": [HumanMessage("b")]}, config())
        saver.copy_thread("t", "u")
        saver.prune(["t"])
        kept = list(saver.list(config()))
        saver.delete_thread("t")
        return [len(kept), len(graph.get_state(config("u")).values["messages"]), saver.get_tuple(config())]

    whole = await asyncio.to_thread(run)
    assert whole[0] == 1
    assert whole[1] > 2
    assert whole[2] is None


def test_without_an_event_loop_blocking_calls_say_so() -> None:
    with pytest.raises(MidcourseError, match="no event loop") as caught:
        MidcourseSaver(MemoryStore()).get_tuple(config())
    assert caught.value.code == "async_only"


async def test_a_thread_that_another_saver_began_is_continued(saver: MidcourseSaver) -> None:
    """Theirs count their versions in strings, and those of a thread must stay comparable."""
    theirs = InMemorySaver()
    await graph_on(theirs).ainvoke({"messages": [HumanMessage("a")]}, config())
    async for one in theirs.alist(config()):
        under = one.parent_config or config()
        await saver.aput(under, one.checkpoint, one.metadata, one.checkpoint["channel_versions"])
    graph = graph_on(saver)
    before = (await graph.aget_state(config())).values["messages"]
    await graph.ainvoke({"messages": [HumanMessage("b")]}, config())
    after = (await graph.aget_state(config())).values["messages"]
    assert after[: len(before)] == before
    assert [one.text for one in after[len(before) :]][:1] == ["b"]
    stored = await load(saver)
    assert stored is not None
    assert {type(version) for version in stored.checkpoint["channel_versions"].values()} == {str}


def test_versions_go_on_in_the_kind_they_have() -> None:
    saver = MidcourseSaver(MemoryStore())
    assert [saver.get_next_version(one, None) for one in (None, 1, 1.5, "1")] == [1, 2, 2.5, "2"]
    assert saver.get_next_version(f"{9:032}.0.25", None) == f"{10:032}.0.25"
    for strange in ("v1", "9", ""):
        with pytest.raises(InvalidInput, match=f"'{strange}' of another checkpointer"):
            saver.get_next_version(strange, None)


async def test_a_strategy_nobody_knows_is_refused(saver: MidcourseSaver) -> None:
    with pytest.raises(InvalidInput, match="keep_latest"):
        await saver.aprune(["t"], strategy="keep_some")
