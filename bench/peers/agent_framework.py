"""Microsoft agent-framework: a workflow of two executors in a loop, with checkpoints in files.

There is no stop but ``task.cancel()``. A workflow continues from a checkpoint that the program finds for it.

Page: https://learn.microsoft.com/agent-framework/workflows/checkpoints, "Agent Framework Workflows - Checkpoints"
"""

import asyncio
import contextlib
from typing import Any

from agent_framework import Executor, FileCheckpointStorage, WorkflowBuilder, WorkflowContext, handler

from bench.peers import workload
from bench.peers.basis import Embedded
from bench.peers.workload import Work, trace, until


class _Begin(Executor):
    """Put so many steps of history into the state, and begin after them."""

    @handler
    async def step(self, message: dict[str, Any], ctx: WorkflowContext[dict[str, Any]]) -> None:
        texts = [text(step) for step in range(message["step"]) for text in (workload.model_text, workload.tool_text)]
        ctx.set_state("history", [{"text": text} for text in texts])
        await ctx.send_message(message)


class _Model(Executor):
    @handler
    async def step(self, message: dict[str, Any], ctx: WorkflowContext[dict[str, Any]]) -> None:
        text = await workload.model(message["session"], message["step"])
        ctx.set_state("history", [*(ctx.get_state("history") or []), {"text": text}])
        await ctx.send_message(message)


class _Tool(Executor):
    @handler
    async def step(self, message: dict[str, Any], ctx: WorkflowContext[dict[str, Any], int]) -> None:
        work, step = Work.of(message["work"]), message["step"]
        text = await workload.tool(message["session"], step, work.seconds(step), work.acts)
        history = [*(ctx.get_state("history") or []), {"text": text}]
        ctx.set_state("history", history)
        if step + 1 < work.steps:
            await ctx.send_message({**message, "step": step + 1})
        else:
            await ctx.yield_output(len(history))


class Peer(Embedded):
    """Workflows in tasks of this process."""

    async def open(self) -> None:
        """Name the folder of the checkpoints."""
        self._storage = FileCheckpointStorage(self.folder / "checkpoints")
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def _workflow(self, session: str) -> Any:
        begin, model, tool = _Begin("begin"), _Model("model"), _Tool("tool")
        builder = WorkflowBuilder(
            max_iterations=10_000_000,
            name=session,
            start_executor=begin,
            checkpoint_storage=self._storage,
            output_from=[tool],
        )
        return builder.add_edge(begin, model).add_edge(model, tool).add_edge(tool, model).build()

    def _run(self, session: str, work: Work, first: int = 0) -> None:
        message = {"session": session, "work": work.plain(), "step": first}
        self._tasks[session] = asyncio.create_task(self._workflow(session).run(message))

    async def start(self, session: str, work: Work) -> None:
        """Run a new workflow."""
        self._run(session, work)

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
        self._run(session, Work(steps=history + 1, tool=600), history)
        await until(lambda: trace(session).tools, "long call")
        await self.stop(session)

    async def resume(self, session: str) -> None:
        """Find the last checkpoint, and run from it."""
        checkpoint = await self._storage.get_latest(workflow_name=session)
        run = self._workflow(session).run(checkpoint_id=checkpoint.checkpoint_id)
        self._tasks[session] = asyncio.create_task(run)

    async def recover(self, session: str) -> None:
        """Do the same."""
        await self.resume(session)
        await self.result(session)
