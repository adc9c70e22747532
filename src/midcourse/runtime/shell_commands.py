"""Runs a command so that it can be killed at once, with everything it has started, and leaves nothing behind."""

import asyncio
import os
import select
import selectors
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Final

from midcourse.errors import InvalidInput
from midcourse.runtime.process_groups import (
    ProcessGroup,
    ProcessGroupReaper,
    keep_private,
    liveness_pipe,
    wait_through_cancellation,
)

_ESCAPE_SECONDS = 1.0
_CHUNK = 65_536

# The command begins when it is told to, by a line on its own standard input, which is after it is minded. If this
# process dies before, the input ends and nothing runs. `read` takes not a byte more than its line.
_GATE: Final = 'read -r _ || exit 125; exec "$@"'
_GATE_WITHOUT_INPUT: Final = 'read -r _ || exit 125; exec "$@" </dev/null'


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The output of a command until it ended or was killed."""

    returncode: int
    """Its exit code; below zero, the signal that ended it. 127: there is no such program."""
    stdout: bytes
    stderr: bytes
    dropped: int = 0
    """Bytes of output beyond the limit."""
    leftover: bool = False
    """Processes it had started outlived it; those in its group were killed."""
    escaped: bool = False
    """A process it has started is still running: it has left the command's group, as a daemon does."""


async def run_command(
    command: str | Sequence[str],
    *,
    reaper: ProcessGroupReaper,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    limit: int = 1_000_000,
    killed: Callable[[Completed], None] | None = None,
) -> Completed:
    """Run a shell line, or a program with its arguments, to its end; keep the first ``limit`` bytes of each output.

    When the waiting task is cancelled, the command is killed with its process group, and the cancellation continues
    once all of it is dead. Just before, ``killed`` gets the output so far. Look at its ``escaped`` there: such a
    process is waited for a second, not for ever.

    Raises:
        InvalidInput: the command is empty.
        OSError: it cannot be started: there is no such directory, or it is too long.
    """
    arguments = ("/bin/sh", "-c", command) if isinstance(command, str) else tuple(command)
    if not command or not arguments[0]:
        raise InvalidInput("The command is empty: give a shell line, or a program and its arguments.", field="command")
    running = _Running(arguments, reaper=reaper, cwd=cwd, env=env, stdin=stdin, limit=limit)
    ended = running.start(asyncio.get_running_loop())
    try:
        await asyncio.wait((ended,))
    except asyncio.CancelledError:
        running.kill()
        await wait_through_cancellation(ended)
        if killed is not None and ended.exception() is None:
            killed(ended.result())
        raise
    return ended.result()


class _Running:
    """One command and its two threads: one waits for its end, the other moves its input and output."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        reaper: ProcessGroupReaper,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        stdin: bytes | None,
        limit: int,
    ) -> None:
        self._gated = ("/bin/sh", "-c", _GATE_WITHOUT_INPUT if stdin is None else _GATE, "sh", *arguments)
        self._reaper = reaper
        self._cwd = cwd
        self._env = env
        self._stdin = stdin or b""
        self._limit = limit
        self._lock = threading.Lock()
        self._group: ProcessGroup | None = None
        self._killed = False

    def start(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[Completed]":
        """Run it, and tell the loop how it ended."""
        ended: asyncio.Future[Completed] = loop.create_future()

        def live() -> None:
            try:
                settle = partial(ended.set_result, self._live())
            except Exception as error:  # noqa: BLE001 - whatever it is, the waiting task must get it
                settle = partial(ended.set_exception, error)
            with suppress(RuntimeError):  # the loop is closed: no task waits
                loop.call_soon_threadsafe(settle)

        threading.Thread(target=live, name="midcourse-command", daemon=True).start()
        return ended

    def kill(self) -> None:
        """Kill all of it. What has not begun never begins."""
        with self._lock:
            self._killed = True
            if self._group is not None:
                self._group.kill()

    def _live(self) -> Completed:
        ours, theirs = liveness_pipe()
        with ours:
            with theirs:
                group = ProcessGroup(
                    self._gated,
                    self._reaper,
                    holding=theirs,
                    cwd=self._cwd,
                    env=self._env,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            try:
                return self._attend(group, ours)
            except BaseException:
                group.kill()
                group.wait()
                group.reap()
                raise
            finally:
                group.close_pipes()

    def _attend(self, group: ProcessGroup, lifeline: socket.socket) -> Completed:
        """Let it begin, and stay until nothing of it lives."""
        into, out, err = group.leader.stdin, group.leader.stdout, group.leader.stderr
        assert into is not None
        assert out is not None
        assert err is not None
        self._begin(group, into)
        kept = _Kept(out, self._limit), _Kept(err, self._limit)
        stop, stopper = liveness_pipe()
        with stop, stopper:
            pump = threading.Thread(
                target=_pump, args=(into, self._stdin, kept, stop), name="midcourse-output", daemon=True
            )
            pump.start()
            group.wait()
            outlived = any(_is_held(end) for end in (lifeline, out, err))
            gone = group.reap()
            pump.join(_ESCAPE_SECONDS)
            escaped = pump.is_alive() or not gone or _is_held(lifeline, _ESCAPE_SECONDS)
            stopper.close()
            pump.join()
        return Completed(
            returncode=group.leader.returncode,
            stdout=bytes(kept[0].content),
            stderr=bytes(kept[1].content),
            dropped=kept[0].dropped + kept[1].dropped,
            leftover=outlived and not self._killed,
            escaped=escaped,
        )

    def _begin(self, group: ProcessGroup, into: IO[bytes]) -> None:
        keep_private(into)
        os.set_blocking(into.fileno(), False)
        with self._lock:
            self._group = group
            if self._killed:
                group.kill()
            else:
                with suppress(BrokenPipeError):  # it was killed from outside
                    into.write(b"\n")


class _Kept:
    """The beginning of one output stream."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self.pipe = pipe
        self.content = bytearray()
        self.dropped = 0
        self._limit = limit

    def take(self) -> bool:
        """Read what there is. False at its end."""
        piece = os.read(self.pipe.fileno(), _CHUNK)
        kept = piece[: self._limit - len(self.content)]
        self.content += kept
        self.dropped += len(piece) - len(kept)
        return bool(piece)


def _pump(into: IO[bytes], stdin: bytes, outputs: Sequence[_Kept], stop: socket.socket) -> None:
    """Move input and output, whatever the command does with them, until they end or ``stop`` is readable."""
    rest = memoryview(stdin)
    with selectors.PollSelector() as selector:
        selector.register(stop, selectors.EVENT_READ)
        selector.register(into, selectors.EVENT_WRITE)
        for output in outputs:
            selector.register(output.pipe, selectors.EVENT_READ, output)
        while len(selector.get_map()) > 1:
            for key, _ in selector.select():
                if key.fileobj is stop:
                    return
                if isinstance(key.data, _Kept):
                    if not key.data.take():
                        selector.unregister(key.fileobj)
                    continue
                try:
                    rest = rest[os.write(key.fd, rest[:_CHUNK]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:  # it does not want the rest
                    rest = rest[:0]
                if not rest:
                    selector.unregister(into)
                    into.close()


def _is_held(end: socket.socket | IO[bytes], seconds: float = 0.0) -> bool:
    """Return True if another process still holds the other end, after waiting for that to change."""
    poll = select.poll()
    poll.register(end, select.POLLHUP)
    return not poll.poll(seconds * 1000)
