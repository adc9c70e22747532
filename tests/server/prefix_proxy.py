"""A proxy in front of a server: it takes a prefix away from the path, and hands everything else on as it is."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress


@contextmanager
def stripping(prefix: str, port: int) -> Generator[int]:
    """The port of a proxy before ``port``, one request for each connection, while the block lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, prefix.encode(), port), daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, prefix: bytes, port: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_hand_on, args=(client, prefix, port), daemon=True).start()


def _hand_on(client: socket.socket, prefix: bytes, port: int) -> None:
    with client, suppress(OSError):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(65536)
            if not piece:
                return
            head += piece
        first, _, rest = head.partition(b"\r\n")
        method, target, version = first.split(b" ")
        if not target.startswith(prefix + b"/"):
            client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", port)) as server:
            line = b" ".join((method, target.removeprefix(prefix), version))
            server.sendall(line + b"\r\nConnection: close\r\n" + _without_connection(rest))
            threading.Thread(target=_pipe, args=(client, server), daemon=True).start()
            _pipe(server, client)


def _without_connection(rest: bytes) -> bytes:
    head, end, body = rest.partition(b"\r\n\r\n")
    kept = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join(kept) + end + body


def _pipe(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
