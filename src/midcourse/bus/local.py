"""A bus between the processes of one machine: unix datagram sockets, heard by a thread that sleeps until one comes."""

import contextlib
import errno
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from midcourse.bus import sockets
from midcourse.ports.bus import Delta, Note

_BUFFER: Final = 256 * 1024
"""The size of a socket's buffer. It is also the largest note that can be received."""
_AT_ONCE: Final = 1_000

_log = logging.getLogger(__name__)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Note] = msgspec.msgpack.Decoder(Note)


class LocalBus:
    """Carries notes between processes of this user on this machine. Its addresses are socket paths."""

    def __init__(self) -> None:
        self._inbound, self._address = sockets.bind(socket.SOCK_DGRAM)
        self._outbound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._inbound.setblocking(False)
        self._outbound.setblocking(False)
        with contextlib.suppress(OSError):  # a system may grant less: then fewer notes wait, and large ones are cut
            self._inbound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self._outbound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        # Only a second socket wakes the listener on every system: closing the one it waits for does not.
        self._bell, self._rope = socket.socketpair()
        self._process = os.getpid()
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        return self._address

    def listen(self, hear: Callable[[Note], None]) -> None:
        """Call ``hear`` for each note from now on, on a thread of the bus. ``hear`` must not block."""
        self._thread = threading.Thread(
            target=self._listen, args=(hear,), name=f"midcourse bus {self._address}", daemon=True
        )
        self._thread.start()

    def send(self, address: str, note: Note) -> None:
        """Send a note, if it goes at once. A preview too large for a datagram is cut."""
        content = _encoder.encode(note)
        while not self._send(address, content):
            if not isinstance(note, Delta) or not note.text:
                return
            # The beginning is worth more than nothing: the durable segment brings the rest.
            note = msgspec.structs.replace(note, text=note.text[: len(note.text) // 2])
            content = _encoder.encode(note)

    def close(self) -> None:
        """Stop listening and give up the address."""
        if self._closing:
            return
        self._closing = True
        if self._process == os.getpid():  # a forked child has the parent's sockets, and must not take its address
            with contextlib.suppress(OSError):
                os.unlink(self._address)
            self._rope.send(b".")
            # `hear` may close the bus it hears from.
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join()
        for one in (self._inbound, self._outbound, self._bell, self._rope):
            one.close()

    def _send(self, address: str, content: bytes) -> bool:
        """False if the note is too large; a receiver that is gone or full is no reason to try again."""
        try:
            self._outbound.sendto(content, address)
        except OSError as error:
            return error.errno != errno.EMSGSIZE
        return True

    def _listen(self, hear: Callable[[Note], None]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._inbound, selectors.EVENT_READ)
            selector.register(self._bell, selectors.EVENT_READ)
            while not self._closing:
                selector.select()
                for note in self._received():
                    if self._closing:
                        return
                    try:
                        hear(note)
                    except Exception:  # noqa: BLE001 - it is the listener's, and must not end the listening
                        _log.exception("A note could not be handled: %s", type(note).__name__)

    def _received(self) -> list[Note]:
        """Return all waiting notes, before any is handled: the system lets few notes wait, and drops the rest."""
        notes: list[Note] = []
        with contextlib.suppress(BlockingIOError):
            for _ in range(_AT_ONCE):
                content = self._inbound.recv(_BUFFER)
                with contextlib.suppress(msgspec.MsgspecError):  # another version's note, or no note at all
                    notes.append(_decoder.decode(content))
        return notes
