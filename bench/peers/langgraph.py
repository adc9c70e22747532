"""LangGraph: a graph of two nodes, model and tool, with the SQLite checkpointer and ``durability="sync"``.

The library has no stop but ``task.cancel()`` (``RunControl.request_drain`` lets the node run to its end). A thread
continues from its last checkpoint when it is invoked with no input.

Page: https://docs.langchain.com/oss/python/langgraph/durable-execution, "Durable execution"
"""

import asyncio
import contextlib
import operator
from contextlib import AsyncExitStack
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.peers import workload
from bench.peers.basis import Embedded
from bench.peers.workload import Work, trace, until


class State(TypedDict):
    """What the graph hands from node to node."""

    session: str
    work: dict[str, Any]
    step: int
    messages: Annotated[list[dict[str, str]], operator.add]


async def _model(state: State) -> dict[str, Any]:
    text = await workload.model(state["session"], state["step"])
    return {"messages": [{"kind": "assistant", "text": text}]}


async def _tool(state: State) -> dict[str, Any]:
    work, step = Work.of(state["work"]), state["step"]
    text = await workload.tool(state["session"], step, work.seconds(step), work.acts)
    return {"messages": [{"kind": "tool", "text": text}], "step": step + 1}


def _next(state: State) -> str:
    return END if state["step"] >= state["work"]["steps"] else "model"


class Peer(Embedded):
    """Graphs in tasks of this process."""

    async def open(self) -> None:
        """Open the file and compile the graph."""
        self._stack = AsyncExitStack()
        saver = await self._stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(self.database)))
        await saver.setup()
        graph = StateGraph(State)
        graph.add_node("model", _model)
        graph.add_node("tool", _tool)
        graph.add_edge(START, "model")
        graph.add_edge("model", "tool")
        graph.add_conditional_edges("tool", _next)
        self._graph = graph.compile(checkpointer=saver)
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def close(self) -> None:
        """Close the file."""
        await self._stack.aclose()

    def _invoke(self, session: str, given: State | None) -> None:
        config: Any = {"configurable": {"thread_id": session}, "recursion_limit": 1_000_000}
        self._tasks[session] = asyncio.create_task(self._graph.ainvoke(given, config, durability="sync"))

    async def start(self, session: str, work: Work) -> None:
        """Invoke the graph on a new thread."""
        self._invoke(session, State(session=session, work=work.plain(), step=0, messages=[]))

    async def result(self, session: str) -> None:
        """Await the task."""
        await self._tasks[session]

    async def stop(self, session: str) -> None:
        """Cancel the task."""
        task = self._tasks[session]
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def stand(self, session: str, history: int) -> None:
        """Begin with the history already in the state, and stop in the call after it: quicker than to run it."""
        messages = [
            {"kind": kind, "text": text(step)}
            for step in range(history)
            for kind, text in (("assistant", workload.model_text), ("tool", workload.tool_text))
        ]
        work = Work(steps=history + 1, tool=600)
        self._invoke(session, State(session=session, work=work.plain(), step=history, messages=messages))
        await until(lambda: trace(session).tools, "long call")
        await self.stop(session)

    async def resume(self, session: str) -> None:
        """Invoke it with no input."""
        self._invoke(session, None)

    async def recover(self, session: str) -> None:
        """Do the same."""
        await self.resume(session)
        await self.result(session)
