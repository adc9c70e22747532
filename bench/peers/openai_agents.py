"""OpenAI Agents SDK: a runner with a model of our own, one function tool and a SQLite session.

Its stop is ``RunResultStreaming.cancel()``. Its pause is a tool that needs an approval: the run ends, and its state is
kept by hand in a row of SQLite.

Page: https://openai.github.io/openai-agents-python/human_in_the_loop/, "Human-in-the-loop"
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    RunState,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from bench.peers import workload
from bench.peers.basis import Embedded
from bench.peers.workload import Work

set_tracing_disabled(True)
TURNS = 1_000_000


def _call(step: int) -> ResponseFunctionToolCall:
    arguments = json.dumps({"step": step})
    return ResponseFunctionToolCall(
        id=f"f{step}", call_id=f"call{step}", type="function_call", name="work", arguments=arguments, status="completed"
    )


def _message(step: int, text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id=f"m{step}", type="message", role="assistant", status="completed", content=[content])


class _Model(Model):
    def __init__(self, session: str, work: Work) -> None:
        self._session = session
        self._work = work

    async def _output(self, given: Any) -> list[Any]:
        items = [] if isinstance(given, str) else given
        step = sum(item.get("type") == "function_call_output" for item in items)
        message = _message(step, await workload.model(self._session, step))
        return [message, _call(step)] if step < self._work.steps else [message]

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        return ModelResponse(output=await self._output(input), usage=Usage(), response_id=None)

    async def stream_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        output = await self._output(input)
        response = Response(
            id="r",
            created_at=0,
            model="fake",
            object="response",
            output=output,
            tool_choice="none",
            tools=[],
            parallel_tool_calls=False,
        )
        yield ResponseCompletedEvent(type="response.completed", sequence_number=1, response=response)


def _agent(session: str, work: Work, *, approval: bool = False) -> Agent[None]:
    async def call(step: int) -> str:
        """Call the tool."""
        return await workload.tool(session, step, work.seconds(step), work.acts)

    tool = function_tool(call, name_override="work", needs_approval=approval)
    return Agent(name="peers", model=_Model(session, work), tools=[tool])


def _history(steps: int) -> list[Any]:
    items: list[Any] = [{"role": "user", "content": "go"}]
    for step in range(steps):
        items += [
            _message(step, workload.model_text(step)).model_dump(),
            _call(step).model_dump(exclude_none=True),
            {"type": "function_call_output", "call_id": f"call{step}", "output": workload.tool_text(step)},
        ]
    return items


class Peer(Embedded):
    """Runs in tasks of this process."""

    async def open(self) -> None:
        """Open the row in which states are kept by hand."""
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._runs: dict[str, Any] = {}
        self._rows = sqlite3.connect(self.folder / "rows.db", isolation_level=None)
        self._rows.execute("PRAGMA journal_mode=WAL")
        self._rows.execute("CREATE TABLE IF NOT EXISTS rows (session TEXT PRIMARY KEY, state TEXT)")

    async def close(self) -> None:
        """Close it."""
        self._rows.close()

    def _run(self, session: str, work: Work, prompt: str) -> None:
        memory = SQLiteSession(session, self.database)
        run = Runner.run(_agent(session, work), prompt, max_turns=TURNS, session=memory)
        self._tasks[session] = asyncio.create_task(run)

    async def start(self, session: str, work: Work) -> None:
        """Run with a session."""
        self._run(session, work, "go")

    async def start_stoppable(self, session: str, work: Work) -> None:
        """Run it streamed, which is the kind that can be cancelled."""
        memory = SQLiteSession(session, self.database)
        run = Runner.run_streamed(_agent(session, work), "go", max_turns=TURNS, session=memory)
        self._runs[session] = run
        self._tasks[session] = asyncio.create_task(self._consume(run))

    @staticmethod
    async def _consume(run: Any) -> None:
        async for _ in run.stream_events():
            pass

    async def result(self, session: str) -> None:
        """Await the task."""
        await self._tasks[session]

    async def stop(self, session: str) -> None:
        """Cancel the run."""
        self._runs[session].cancel(mode="immediate")
        await self._tasks[session]

    def _keep(self, session: str, run: Any) -> None:
        assert run.interruptions
        self._rows.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", (session, run.to_state().to_string()))

    async def stand(self, session: str, history: int) -> None:
        """Run with the history until the approval that the next call needs."""
        self._waiting = _agent(session, Work(steps=history + 1000), approval=True)
        self._keep(session, await Runner.run(self._waiting, _history(history), max_turns=TURNS))

    async def resume(self, session: str) -> None:
        """Read the state, approve, and run until the next approval."""
        (row,) = self._rows.execute("SELECT state FROM rows WHERE session = ?", (session,)).fetchone()
        state: RunState[None] = await RunState.from_string(self._waiting, row)
        for interruption in state.get_interruptions():
            state.approve(interruption)
        self._keep(session, await Runner.run(self._waiting, state, max_turns=TURNS))

    async def stand_again(self, session: str) -> None:
        """It does already."""

    async def recover(self, session: str) -> None:
        """Run anew over what the session holds."""
        self._run(session, workload.KILLED, "continue")
        await self.result(session)
