"""How many bytes does a step of a LangGraph loop (one node, a message of 1 KB more) take, and do they become more?

The peer is LangGraph's own checkpointer for SQLite, on the same graph.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from bench.harness import Result, ask, folder
from midcourse.adapters.langgraph import MidcourseSaver
from midcourse.wiring import open_store

QUESTION: Final = "LangGraph checkpoints, bytes per step"
SHORT: Final = 50
LONG: Final = 500
TEXT: Final = "w" * 1000

Opened = Callable[[Path], AbstractAsyncContextManager[BaseCheckpointSaver[Any]]]


class State(TypedDict):
    """A conversation."""

    messages: Annotated[list[AnyMessage], add_messages]


def _graph(steps: int) -> Any:
    def speak(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(TEXT)]}

    def goes_on(state: State) -> str:
        return "speak" if len(state["messages"]) < steps else END

    graph = StateGraph(State)
    graph.add_node("speak", speak)
    graph.add_edge(START, "speak")
    graph.add_conditional_edges("speak", goes_on)
    return graph


@asynccontextmanager
async def _ours(path: Path) -> Any:
    store = await open_store(f"sqlite:///{path}/runs.db", durability="process")
    try:
        yield MidcourseSaver(store)
    finally:
        await store.close()


@asynccontextmanager
async def _theirs(path: Path) -> Any:
    async with AsyncSqliteSaver.from_conn_string(str(path / "runs.db")) as saver:
        yield saver


async def _bytes_per_step(opened: Opened, steps: int) -> float:
    with folder() as path:
        async with opened(path) as saver:
            graph = _graph(steps).compile(checkpointer=saver)
            config = {"configurable": {"thread_id": "talk"}, "recursion_limit": 2 * steps}
            await graph.ainvoke({"messages": []}, config, durability="sync")
        with contextlib.closing(sqlite3.connect(path / "runs.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return sum(file.stat().st_size for file in path.glob("runs.db*")) / steps


async def grown() -> list[Result]:
    """Ours and theirs, short and long."""
    ours = {steps: await _bytes_per_step(_ours, steps) for steps in (SHORT, LONG)}
    theirs = {steps: await _bytes_per_step(_theirs, steps) for steps in (SHORT, LONG)}
    peer = "langgraph-checkpoint-sqlite"
    lines = [
        Result(
            QUESTION,
            f"{steps:,} steps of 1 KB",
            ours[steps],
            "B",
            1,
            floor=float(len(TEXT)),
            floor_is="the message itself",
            peers={peer: theirs[steps]},
        )
        for steps in (SHORT, LONG)
    ]
    ratio = {name: at[LONG] / at[SHORT] for name, at in (("ours", ours), (peer, theirs))}
    lines.append(
        Result(
            QUESTION, f"at {LONG:,} / at {SHORT}", ratio["ours"], "×", 1, must=1.2, aim=1.0, peers={peer: ratio[peer]}
        )
    )
    return lines


def answers() -> list[Result]:
    """The table's lines."""
    return ask(grown)
