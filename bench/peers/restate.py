"""Restate: a real server, and a service in this process; the model call and the tool call are one ``ctx.run`` each.

The stop is the cancel of the admin API, confirmed by the end of the invocation; a cancelled invocation cannot be
resumed. (Its pause lets the call run to its end.) For the resume, the handler waits for an awakeable, is suspended, and
its journal is replayed when the awakeable is resolved.

Page: https://docs.restate.dev/services/invocation/managing-invocations, "Managing Invocations"
"""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import restate
from hypercorn.asyncio import serve as serve_asgi
from hypercorn.config import Config

from bench.peers import workload
from bench.peers.basis import Embedded
from bench.peers.catalogue import entry
from bench.peers.server import Server, free_ports
from bench.peers.workload import Work, trace, until

service = restate.Service("Agent")
awakeables: dict[str, tuple[int, str]] = {}
"""By session: the step that waits, and the name of what it waits for."""


async def _loop(ctx: restate.Context, request: dict[str, Any]) -> int:
    session, work = request["session"], Work.of(request["work"])
    history: list[str] = []
    for step in range(work.steps):
        if step >= request["waits"]:
            name, resolved = ctx.awakeable()
            awakeables[session] = step, name
            await resolved
        seconds = work.seconds(step)
        history.append(await ctx.run_typed("model", workload.model, session=session, step=step))
        history.append(
            await ctx.run_typed("tool", workload.tool, session=session, step=step, seconds=seconds, acts=work.acts)
        )
    return len(history)


@service.handler()
async def run(ctx: restate.Context, request: dict[str, Any]) -> int:
    """Do the steps."""
    return await _loop(ctx, request)


@service.handler(inactivity_timeout=timedelta(milliseconds=100), abort_timeout=timedelta(seconds=60))
async def suspended(ctx: restate.Context, request: dict[str, Any]) -> int:
    """Do the steps, suspended soon while it waits."""
    return await _loop(ctx, request)


def _note(folder: Path, session: str) -> Path:
    """Return the file that names the invocation of a session, for every process."""
    return folder / f"{session}.invocation"


class Stopper:
    """A client of the server."""

    def __init__(self, folder: Path) -> None:
        notes = Server(folder).notes
        self._folder = folder
        self._ingress, self._admin = notes["ingress"], notes["admin"]
        self._http = httpx.AsyncClient(timeout=120)

    async def stop(self, session: str) -> None:
        """Cancel the invocation of a session, and wait until it has ended."""
        invocation = _note(self._folder, session).read_text()
        ended = asyncio.create_task(self._http.get(f"{self._ingress}/restate/invocation/{invocation}/attach"))
        answer = await self._http.patch(f"{self._admin}/invocations/{invocation}/cancel")
        assert answer.is_success, answer.text
        await ended

    async def close(self) -> None:
        """Disconnect."""
        await self._http.aclose()


class Peer(Embedded):
    """A service in this process."""

    def __init__(self, folder: Path, variant: str) -> None:
        super().__init__(folder, variant)
        self._server = Server(folder)

    async def serve(self) -> None:
        """Start the server."""
        program = entry("restate").program()
        assert program, "restate-server is not installed"
        ingress, admin, node, service_port = free_ports(4)
        variables = {
            "RESTATE_BASE_DIR": str(self.folder / "server"),
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}",
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LOG_FILTER": "warn",
        }
        urls = {"ingress": f"http://127.0.0.1:{ingress}", "admin": f"http://127.0.0.1:{admin}"}
        ready = [f"{urls['admin']}/health", f"{urls['ingress']}/restate/health"]
        notes = {**urls, "service": service_port}
        await self._server.start([str(program), "--no-logo"], notes, ready=ready, variables=variables)

    async def stop_serving(self) -> None:
        """Stop it."""
        await self._server.stop()

    async def open(self) -> None:
        """Serve the service, and register it the first time."""
        notes = self._server.notes
        self._ingress, self._admin = notes["ingress"], notes["admin"]
        config = Config()
        config.bind = [f"127.0.0.1:{notes['service']}"]
        config.loglevel = "CRITICAL"
        config.h2_max_concurrent_streams = 4096
        self._closing = asyncio.Event()
        self._serving = asyncio.create_task(
            serve_asgi(restate.app([service]), config, shutdown_trigger=self._closing.wait)
        )
        self._http = httpx.AsyncClient(timeout=200, limits=httpx.Limits(max_connections=1200))
        await asyncio.sleep(0.2)
        if "registered" not in notes:
            address = {"uri": f"http://127.0.0.1:{notes['service']}", "force": True}
            answer = await self._http.post(f"{self._admin}/deployments", json=address)
            assert answer.is_success, answer.text
            self._server.note("registered", 1)
            await asyncio.sleep(0.3)
        self._stopper = Stopper(self.folder)

    async def close(self) -> None:
        """Stop serving."""
        self._closing.set()
        await asyncio.wait({self._serving}, timeout=5)
        self._serving.cancel()
        await self._stopper.close()
        await self._http.aclose()

    async def _send(self, session: str, work: Work, handler: str, waits: int) -> None:
        request = {"session": session, "work": work.plain(), "waits": waits}
        answer = await self._http.post(f"{self._ingress}/Agent/{handler}/send", json=request)
        assert answer.is_success, answer.text
        _note(self.folder, session).write_text(answer.json()["invocationId"])

    async def start(self, session: str, work: Work) -> None:
        """Send the request, durably, without waiting for its answer."""
        await self._send(session, work, "run", work.steps)

    async def result(self, session: str) -> None:
        """Wait for the answer."""
        invocation = _note(self.folder, session).read_text()
        await self._http.get(f"{self._ingress}/restate/invocation/{invocation}/attach")

    async def stop(self, session: str) -> None:
        """Cancel the invocation, and wait until it has ended."""
        await self._stopper.stop(session)

    async def elsewhere(self) -> Stopper:
        """Connect."""
        return Stopper(self.folder)

    async def stand(self, session: str, history: int) -> None:
        """Wait for an awakeable after so many steps."""
        await self._send(session, Work(steps=history + 1000), "suspended", history)
        await until(lambda: trace(session).tools >= history, "end of the history")
        await self._suspended(session, history)

    async def _suspended(self, session: str, step: int) -> None:
        """Wait until it is suspended before a step, or, if it has been there already, before a later one."""
        await until(lambda: awakeables.get(session, (-1, ""))[0] >= step, "awakeable")
        query = {"query": f"SELECT status FROM sys_invocation WHERE id = '{_note(self.folder, session).read_text()}'"}
        for _ in range(200):
            answer = await self._http.post(f"{self._admin}/query", json=query, headers={"accept": "application/json"})
            if answer.json()["rows"][0]["status"] == "suspended":
                return
            await asyncio.sleep(0.05)
        raise RuntimeError("the invocation was not suspended")

    async def resume(self, session: str) -> None:
        """Resolve the awakeable."""
        self._after, name = awakeables[session]
        answer = await self._http.post(f"{self._ingress}/restate/awakeables/{name}/resolve", json=1)
        assert answer.is_success, answer.text

    async def stand_again(self, session: str) -> None:
        """Wait until it is suspended after the next step."""
        await self._suspended(session, self._after + 1)
