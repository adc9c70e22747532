"""An HTTP server in a thread of its own, on a free port of this machine."""

import asyncio
import socket
import threading
from collections.abc import Sequence
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

_PATIENCE: Final = 10.0


class ServerThread:
    """Serves ``routes`` from ``start`` to ``stop``."""

    def __init__(self, routes: Sequence[Route]) -> None:
        # Loggers belong to the process, and another server may live in it: nothing is set up for them here.
        self._server = uvicorn.Server(
            uvicorn.Config(
                Starlette(routes=list(routes)),
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
            )
        )
        self._socket = socket.socket()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="midcourse-provider", daemon=True
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = threading.Event()
        self._stopping = asyncio.Event()

    async def start(self) -> int:
        """Return the port. Who connects from now on is answered."""
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(128)
        port: int = self._socket.getsockname()[1]
        self._thread.start()
        await asyncio.to_thread(self._running.wait, _PATIENCE)
        return port

    async def stop(self) -> None:
        """End every connection, at once, and then the thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.to_thread(self._thread.join, _PATIENCE)

    def cut(self, client: object = None) -> None:
        """Drop the connection with ``client``, its address and port, or all. To be called in the server's loop."""
        for connection in list(self._server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if isinstance(transport, asyncio.Transport) and client in (None, transport.get_extra_info("peername")):
                transport.abort()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        self._running.set()  # the socket listens: who comes before the server is ready is kept waiting
        await self._stopping.wait()
        # Uvicorn's own way out looks for its time every tenth of a second, twice: long beside a test.
        serving.cancel()
        await asyncio.wait((serving,))
        for server in getattr(self._server, "servers", ()):  # it has none if it was stopped while it started
            server.close()
        self._socket.close()
        self.cut()
        if answering := self._server.server_state.tasks:
            await asyncio.wait(answering, timeout=_PATIENCE)
