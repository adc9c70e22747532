"""A real uvicorn on a free loopback port, in a thread, and a socket to talk to it in any way."""

import asyncio
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from midcourse.server.http_protocol import PatientProtocol


@contextmanager
def served(app: ASGIApp, protocol: type[asyncio.Protocol] = PatientProtocol) -> Generator[tuple[str, int]]:
    """Where ``app`` is served while the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            app, http=protocol, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=5
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()
        finally:
            server.should_exit = True
            thread.join(30)


@contextmanager
def connected(address: tuple[str, int]) -> Generator[socket.socket]:
    """A connection with nothing said yet. Reads give up after 30 s."""
    with socket.create_connection(address, timeout=30) as talking:
        yield talking


@contextmanager
def trickling(talking: socket.socket, piece: bytes) -> Generator[None]:
    """Say ``piece`` again and again while the block runs, a little at a time."""
    over = threading.Event()

    def trickle() -> None:
        try:
            while not over.wait(0.05):
                talking.sendall(piece)
        except OSError:
            pass

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def told(talking: socket.socket) -> bytes:
    """Everything the server says until it closes; what came, if it breaks the connection."""
    heard = b""
    try:
        while piece := talking.recv(65536):
            heard += piece
    except ConnectionError:
        pass
    return heard


def poured(talking: socket.socket, piece: bytes, times: int) -> None:
    """Say it again and again, until the server does not listen any more."""
    try:
        for _ in range(times):
            talking.sendall(piece)
    except ConnectionError:
        pass
