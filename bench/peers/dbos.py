"""DBOS: one workflow a session; the model call and the tool call are one step each, in SQLite.

The steps are preemptible, so that ``cancel_workflow`` cuts them; ``resume_workflow`` continues. Workflows that were
running are recovered when it is launched.

Page: https://docs.dbos.dev/python/reference/contexts, "DBOS Methods & Variables"
"""

import contextlib
import logging
from typing import Any

from dbos import DBOS, DBOSClient, SetWorkflowID, error

from bench.peers import workload
from bench.peers.basis import Embedded
from bench.peers.workload import Work, trace, until

POLL = 0.01
"""Seconds between two looks for a result; 1 by default."""


@DBOS.step(preemptible=True)
async def _model(session: str, step: int) -> str:
    return await workload.model(session, step)


@DBOS.step(preemptible=True)
async def _tool(session: str, step: int, seconds: float, acts: bool) -> str:
    return await workload.tool(session, step, seconds, acts)


@DBOS.workflow()
async def _agent(session: str, plain: dict[str, Any]) -> int:
    work = Work.of(plain)
    history: list[str] = []
    for step in range(work.steps):
        history.append(await _model(session, step))
        history.append(await _tool(session, step, work.seconds(step), work.acts))
    return len(history)


def launch(url: str) -> None:
    """Launch it in this process, and recover what was running."""
    logging.getLogger("dbos").setLevel(logging.CRITICAL)
    DBOS(
        config={
            "name": "peers",
            "system_database_url": url,
            "log_level": "CRITICAL",
            "application_version": "v1",
            "executor_id": "local",
            "notification_listener_polling_interval_sec": POLL,
        }
    )
    DBOS.launch()


class Stopper:
    """A client of the database."""

    def __init__(self, url: str) -> None:
        self._client = DBOSClient(system_database_url=url)

    async def stop(self, session: str) -> None:
        """Cancel the workflow."""
        await self._client.cancel_workflow_async(session)

    async def close(self) -> None:
        """Disconnect."""
        self._client.destroy()


class Peer(Embedded):
    """Workflows in this process."""

    @property
    def _url(self) -> str:
        return f"sqlite:///{self.database}"

    async def open(self) -> None:
        """Launch it."""
        launch(self._url)

    async def close(self) -> None:
        """Shut it down."""
        DBOS.destroy()

    async def start(self, session: str, work: Work) -> None:
        """Start a workflow."""
        with SetWorkflowID(session):
            await DBOS.start_workflow_async(_agent, session, work.plain())

    async def result(self, session: str) -> None:
        """Wait for its result."""
        handle: Any = await DBOS.retrieve_workflow_async(session)
        await handle.get_result(polling_interval_sec=POLL)

    async def stop(self, session: str) -> None:
        """Cancel it, and wait until it is cancelled."""
        await DBOS.cancel_workflow_async(session)
        with contextlib.suppress(error.DBOSAwaitedWorkflowCancelledError):
            await self.result(session)

    async def elsewhere(self) -> Stopper:
        """Open a client."""
        return Stopper(self._url)

    async def stand(self, session: str, history: int) -> None:
        """Cancel it in a long call."""
        await self.start(session, Work(steps=history + 1, tool=600, history=history))
        await until(lambda: trace(session).tools > history, "long call")
        await self.stand_again(session)

    async def stand_again(self, session: str) -> None:
        """Cancel it, and wait until the call is cut."""
        before = trace(session).aborted
        await self.stop(session)
        await until(lambda: trace(session).aborted > before, "end of the call")

    async def resume(self, session: str) -> None:
        """Resume it."""
        await DBOS.resume_workflow_async(session)
