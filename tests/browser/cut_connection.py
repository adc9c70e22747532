"""A connection that breaks: a relay to a server that cuts its first connections in the middle of an answer."""

import contextlib
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager


class Relay:
    """Passes bytes on to a port. The first ``cuts`` answers that reach ``after`` bytes are cut there."""

    def __init__(self, port: int, *, cuts: int, after: int) -> None:
        self._port = port
        self._after = after
        self._left = cuts
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def cuts_left(self) -> int:
        """How many connections it will still cut."""
        return self._left

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                for source, target, is_answer in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, target, is_answer), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                if is_answer and passed + len(piece) > self._after and self._may_cut():
                    target.sendall(piece[: self._after - passed])
                    break
                target.sendall(piece)
                passed += len(piece)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _may_cut(self) -> bool:
        with self._lock:
            if self._left == 0:
                return False
            self._left -= 1
            return True


@contextmanager
def cutting(port: int, *, cuts: int, after: int) -> Generator[Relay]:
    """A relay while the block lasts."""
    relay = Relay(port, cuts=cuts, after=after)
    try:
        yield relay
    finally:
        relay.close()
