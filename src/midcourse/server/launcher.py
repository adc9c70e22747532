"""``midcourse serve``: finds a port, says where it is, serves until it is told to stop, and lets the sessions go."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn

from midcourse.errors import InvalidInput
from midcourse.handle.http.server_record import Whereabouts, forget, write_down
from midcourse.server.app import Server
from midcourse.server.conventions import Prefixed
from midcourse.server.host_threads import is_left_behind
from midcourse.server.http_protocol import patient
from midcourse.server.tokens import check_given_token, local_token

PORT: Final = 8420
_TRIED: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where to listen and what to keep. ``port`` None: 8420, or the next free one."""

    folder: Path
    host: str = "127.0.0.1"
    port: int | None = None
    is_token_given: bool = False
    store: str = ""


def token_of(folder: Path, given: str | None) -> str:
    """Return the operator's token: the given one, or the one in the folder.

    Raises:
        InvalidInput: it cannot be used.
    """
    return local_token(folder) if given is None else check_given_token(given)


def link_to(url: str, code: str) -> str:
    """Return the link that lets a browser in, once. What is behind the # is sent to no server and logged nowhere."""
    return f"{url}/login#{code}"


def listen(place: ListenOptions, say: Callable[[str], None]) -> socket.socket:
    """Return a socket at the given port; without one at 8420, or the next free one.

    Raises:
        InvalidInput: the given port is in use, or the host is not this machine's.
    """
    wished = PORT if place.port is None else place.port
    for port in [wished] if place.port is not None else range(wished, wished + _TRIED):
        try:
            listening = _bound(place.host, port)
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno not in (98, 48, 13):
                raise InvalidInput(
                    f"Cannot listen on {place.host} ({error.strerror or error}). Give an address of this machine.",
                    field="host",
                ) from error
            if place.port is not None:
                raise InvalidInput(
                    f"Port {port} on {place.host} cannot be used: {_why(error)}. "
                    "Give another one with --port, or leave it out to take the next free one.",
                    field="port",
                ) from error
            continue
        if port != wished:
            say(f"Port {wished} is in use; this is on port {port}.")
        return listening
    raise InvalidInput(f"No port from {wished} to {wished + _TRIED - 1} is free. Give one with --port.", field="port")


def _why(error: OSError) -> str:
    return "another program listens there" if error.errno in (98, 48) else error.strerror or str(error)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What is accepted here inherits it; asyncio sets it only on sockets it has made itself. Without it an answer's
        # body waits for the client's word that the head has arrived: 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind((host, port))
        listening.listen(2048)
    except OSError:
        listening.close()
        raise
    return listening


def url_of(place: ListenOptions, listening: socket.socket) -> str:
    """Return the address for people. A server that listens everywhere is reached at loopback, too."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(place.host, place.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def run(
    server: Server, place: ListenOptions, listening: socket.socket, *, ready: Callable[[str], Awaitable[None]]
) -> int:
    """Serve until SIGINT or SIGTERM; report how many sessions were released while they worked.

    ``ready`` is awaited with the address once requests are answered.
    """
    url = url_of(place, listening)
    config = uvicorn.Config(
        Prefixed(server.app),
        http=patient(server.limits.head_seconds, server.limits.waiting),
        lifespan="off",  # entered here: its error is a sentence, which uvicorn would bury in a traceback
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        root_path=server.root_path,
        # Streams end at once when the server is asked to stop; a request that is being answered may take so long.
        timeout_graceful_shutdown=5,
        timeout_keep_alive=75,
    )
    here = Whereabouts(url, os.getpid(), place.is_token_given, place.store)

    async def begun() -> None:
        write_down(place.folder, here)
        await ready(url)

    serving = _Uvicorn(config, server, begun)
    _use_uvloop_if_there()
    try:
        # Uvicorn raises the signal again when it is done; by then all is said.
        with contextlib.suppress(KeyboardInterrupt), _sigterm_is_an_end():
            serving.run([listening])
    finally:
        listening.close()
        forget(place.folder)
    if not serving.started:
        raise SystemExit(1)
    return server.parked


def exit_now() -> None:
    """End the process here if an agent's code would keep it: who has stopped a server does not wait for that."""
    if is_left_behind():
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, served: Server, ready: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._served = served
        self._life = served.lifespan()
        self._ready = ready
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain first, still answering; who asks once more, or before it has begun, is not kept waiting.

        Only SIGTERM may come from something that also sends requests here, and must notice: a person at the keyboard
        has nothing to wait for.
        """
        if self._draining is None and self.started and not self.should_exit:
            self._loop.call_soon_threadsafe(self._drain, sig, frame)
        else:
            super().handle_exit(sig, frame)

    def _drain(self, sig: int, frame: FrameType | None) -> None:
        if self._draining is None:
            self._draining = self._loop.create_task(self._served.drain(at_once=sig != signal.SIGTERM))
            # Streams hear of the end when uvicorn does.
            self._draining.add_done_callback(lambda _: super(_Uvicorn, self).handle_exit(sig, frame))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await self._life.__aenter__()
        await super().startup(sockets)
        if self.started:
            await self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        ending = asyncio.create_task(self._life.__aexit__(None, None, None))
        while not ending.done() and not self.force_exit:  # Ctrl-C once more: who is in a hurry leaves now
            await asyncio.wait({ending}, timeout=0.1)


@contextlib.contextmanager
def _sigterm_is_an_end() -> Generator[None]:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _use_uvloop_if_there() -> None:
    """Switch threads ten times as often as usual, so that a stop does not wait for an agent that computes.

    Loaded objects are frozen: repeated garbage collection of them would delay every loop.
    """
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
