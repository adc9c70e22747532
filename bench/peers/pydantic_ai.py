"""Pydantic AI: an agent with a function as its model and one tool.

Its stop is ``CancellationToken.cancel()``. Durable steps are its integration with DBOS. Its pause is a tool that needs
an approval: the run ends, and its messages are kept by hand in a row of SQLite.

Page: https://ai.pydantic.dev/durable_execution/dbos, "Durable Execution with DBOS"
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent, CancellationToken, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from bench.peers import workload
from bench.peers.basis import Embedded
from bench.peers.dbos import POLL, launch
from bench.peers.workload import Work

UNLIMITED = UsageLimits(request_limit=None)
works: dict[str, Work] = {}
"""What each session of this process does; its name is the first prompt."""


def _session(messages: list[ModelMessage]) -> str:
    prompt = messages[0].parts[0]
    assert isinstance(prompt, UserPromptPart)
    return str(prompt.content)


def _step(messages: list[ModelMessage]) -> int:
    return sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)


def _call(step: int) -> ToolCallPart:
    return ToolCallPart("work", {"step": step}, tool_call_id=f"call{step}")


async def _say(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    session, step = _session(messages), _step(messages)
    text = TextPart(await workload.model(session, step))
    return ModelResponse(parts=[text, _call(step)] if step < works[session].steps else [text])


def _agent(tool: Callable[..., Any], *, approval: bool = False, capabilities: tuple[Any, ...] = ()) -> Agent[str, Any]:
    agent: Agent[str, Any] = Agent(
        FunctionModel(_say),
        name="peers" if capabilities else None,
        deps_type=str,
        output_type=[str, DeferredToolRequests] if approval else str,
        capabilities=list(capabilities),
    )

    async def work(ctx: RunContext[str], step: int) -> str:
        """Call the tool."""
        todo = works[ctx.deps]
        return await tool(ctx.deps, step, todo.seconds(step), todo.acts)

    agent.tool(requires_approval=approval)(work)
    return agent


def _history(session: str, steps: int) -> list[ModelMessage]:
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(session)])]
    for step in range(steps):
        messages.append(ModelResponse(parts=[TextPart(workload.model_text(step)), _call(step)]))
        result = ToolReturnPart("work", workload.tool_text(step), tool_call_id=f"call{step}")
        messages.append(ModelRequest(parts=[result]))
    return messages


@DBOS.step(name="peers_tool")
async def _durable_tool(session: str, step: int, seconds: float, acts: bool) -> str:
    return await workload.tool(session, step, seconds, acts)


_durable = _agent(_durable_tool, capabilities=(DBOSDurability(),))


@DBOS.workflow(name="peers_pydantic")
async def _workflow(session: str, plain: dict[str, Any]) -> int:
    works[session] = Work.of(plain)
    run = await _durable.run(session, deps=session, usage_limits=UNLIMITED)
    return len(run.all_messages())


class Peer(Embedded):
    """Runs in this process: those that are stopped are plain ones, since DBOS cannot be stopped through the token."""

    async def open(self) -> None:
        """Launch DBOS."""
        launch(f"sqlite:///{self.database}")
        self._tasks: dict[str, tuple[asyncio.Task[Any], CancellationToken]] = {}
        self._rows = sqlite3.connect(self.folder / "rows.db", isolation_level=None)
        self._rows.execute("PRAGMA journal_mode=WAL")
        self._rows.execute("CREATE TABLE IF NOT EXISTS rows (session TEXT PRIMARY KEY, messages BLOB)")

    async def close(self) -> None:
        """Shut it down."""
        DBOS.destroy()
        self._rows.close()

    async def start(self, session: str, work: Work) -> None:
        """Start a durable run."""
        with SetWorkflowID(session):
            await DBOS.start_workflow_async(_workflow, session, work.plain())

    async def start_stoppable(self, session: str, work: Work) -> None:
        """Start a plain run with a token."""
        works[session] = work
        token = CancellationToken()
        run = _agent(workload.tool).run(session, deps=session, usage_limits=UNLIMITED, cancellation_token=token)
        self._tasks[session] = asyncio.create_task(run), token

    async def result(self, session: str) -> None:
        """Wait for the result of a durable run."""
        handle: Any = await DBOS.retrieve_workflow_async(session)
        await handle.get_result(polling_interval_sec=POLL)

    async def stop(self, session: str) -> None:
        """Cancel the token."""
        task, token = self._tasks[session]
        token.cancel()
        with contextlib.suppress(RunCancelled):
            await task

    def _keep(self, session: str, messages: bytes) -> None:
        self._rows.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", (session, messages))

    async def stand(self, session: str, history: int) -> None:
        """Run with the history until the approval that the next call needs."""
        works[session] = Work(steps=history + 1000)
        agent = _agent(workload.tool, approval=True)
        run = await agent.run(message_history=_history(session, history), deps=session, usage_limits=UNLIMITED)
        assert isinstance(run.output, DeferredToolRequests)
        self._keep(session, run.all_messages_json())

    async def resume(self, session: str) -> None:
        """Read the messages, and run with the approval until the next one."""
        (row,) = self._rows.execute("SELECT messages FROM rows WHERE session = ?", (session,)).fetchone()
        messages = ModelMessagesTypeAdapter.validate_json(row)
        calls = [part.tool_call_id for part in messages[-1].parts if isinstance(part, ToolCallPart)]
        run = await _agent(workload.tool, approval=True).run(
            message_history=messages,
            deferred_tool_results=DeferredToolResults(approvals=dict.fromkeys(calls, True)),
            deps=session,
            usage_limits=UNLIMITED,
        )
        self._keep(session, run.all_messages_json())

    async def stand_again(self, session: str) -> None:
        """It does already."""
