"""Processes in which plain functions run, so that they can be killed at once. Some are kept warm, so no call waits."""

import asyncio
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from midcourse.errors import describe
from midcourse.runtime.process_calls import (
    HEAD,
    ProcessFailed,
    command,
    greeting,
    is_clean,
    needs_main,
    outcome,
    packed_call,
)
from midcourse.runtime.process_groups import ProcessGroup, ProcessGroupReaper, liveness_pipe, wait_through_cancellation

_IDLE_SECONDS = 10.0


class ProcessDied(ProcessFailed):
    """The process ended before the function did. ``exit_code`` is below zero for the signal that ended it."""

    def __init__(self, message: str, *, exit_code: int | None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def do_nothing(about: object) -> None:
    """Do nothing: the default preparation of a process before a call."""


class ProcessPool:
    """A pool, for one event loop. It starts nothing before its first call.

    A process does one call after another, with whatever the functions change in it, and in the directory and
    environment of the moment it was started. One whose call was cancelled, or has left a thread or a child behind, does
    no other: it is killed, with its process group, before that call is over.
    """

    def __init__(
        self,
        reaper: ProcessGroupReaper,
        *,
        warm: int = 2,
        most: int = 16,
        prepare: Callable[[object], None] = do_nothing,
    ) -> None:
        """``warm`` processes stay ready, ``most`` live at once; ``prepare`` is called in one before each function."""
        self._reaper = reaper
        self._warm = warm
        self._most = most
        self._prepare = prepare
        self._all: set[_Process] = set()
        self._idle: deque[_Process] = deque()
        self._waiting: deque[asyncio.Future[_Process]] = deque()
        self._trimming: asyncio.TimerHandle | None = None
        self._load_main = False
        self._closed = False

    @property
    def pids(self) -> frozenset[int]:
        """The processes that can do a call or do one now."""
        return frozenset(process.pid for process in self._all if not process.starting)

    async def run(
        self,
        about: object,
        function: Callable[..., object],
        arguments: tuple[object, ...] = (),
        keywords: Mapping[str, object] | None = None,
    ) -> object:
        """Call ``function`` in a process, after ``prepare(about)``; return or raise what it does.

        When the waiting task is cancelled, the process is killed with its group, and the cancellation continues once
        they are dead. Calls beyond ``most`` wait for their turn, first come, first served.

        Raises:
            ProcessDied: the process ended by itself, or was killed from outside.
            ProcessFailed: something could not be pickled, or not be found in the other process.
        """
        request = packed_call(self._prepare, about, function, arguments, keywords or {})
        self._load_main = self._load_main or needs_main(request)
        process = await self._take()
        try:
            reply = await process.ask(request)
        except (EOFError, ConnectionError):
            reply = b""
        except BaseException:
            await process.dispose()
            raise
        if is_clean(reply):
            self._put_back(process)
        elif await process.dispose():
            raise asyncio.CancelledError
        if not reply:
            raise _died(process.gone.result(), closed=self._closed)
        return outcome(reply)

    async def close(self) -> None:
        """Kill every process, and return when all are dead. Calls in flight end with ``ProcessDied``."""
        self._closed = True
        if self._trimming is not None:
            self._trimming.cancel()
        while self._waiting:
            _refuse(self._waiting.popleft(), _died(None, closed=True))
        processes = tuple(self._all)
        for process in processes:
            process.kill()
        if any([await wait_through_cancellation(process.gone) for process in processes]):
            raise asyncio.CancelledError

    async def _take(self) -> "_Process":
        if self._closed:
            raise _died(None, closed=True)
        turn: asyncio.Future[_Process] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            self._balance()
            return await turn
        except BaseException:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled() and turn.exception() is None:
                self._put_back(turn.result())  # it came in the same moment as the cancellation
            raise

    def _put_back(self, process: "_Process") -> None:
        process.busy = False
        if process.gone.done():
            process.close()
        elif not self._closed:
            process.idle_since = asyncio.get_running_loop().time()
            self._idle.append(process)
            self._balance()
            self._trim()

    def _balance(self) -> None:
        """Hand out what is idle, and start what is missing."""
        while self._waiting and self._idle:
            turn = self._waiting.popleft()
            if not turn.done():
                process = self._idle.pop()  # the one used last: idle ones stay at the other end
                process.busy = True
                turn.set_result(process)
        if self._closed:
            return
        starting = self._count_starting()
        missing = len(self._waiting) + self._warm - len(self._idle) - starting
        # A start keeps one core busy; more of them at once would only make the first one late.
        for _ in range(min(missing, self._most - len(self._all), (os.cpu_count() or 1) - starting)):
            self._all.add(_Process(self._reaper, self._load_main, started=self._started, ended=self._ended))

    def _count_starting(self) -> int:
        return sum(process.starting for process in self._all)

    def _started(self, process: "_Process") -> None:
        if not self._closed:
            process.idle_since = asyncio.get_running_loop().time()
            self._idle.appendleft(process)
            self._balance()
            self._trim()

    def _ended(self, process: "_Process") -> None:
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)
        if not process.busy:
            process.close()
        if process.starting:
            # Calls that wait for no other start are told, one for each start that fails: a fault that stays must not
            # start processes for ever. For the same reason one that ends while idle is replaced at the next call.
            if len(self._waiting) > self._count_starting():
                _refuse(self._waiting.popleft(), _not_started(process))
                if self._waiting:
                    self._balance()
        elif process.busy or self._waiting:
            self._balance()

    def _trim(self) -> None:
        """Stop the processes above ``warm`` that have been idle for a while."""
        if not self._closed and self._trimming is None and len(self._idle) > self._warm:
            self._trimming = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._let_go)

    def _let_go(self) -> None:
        self._trimming = None
        now = asyncio.get_running_loop().time()
        for process in tuple(self._idle)[: -self._warm or None]:
            if now - process.idle_since >= _IDLE_SECONDS:
                self._idle.remove(process)
                process.kill()
        self._trim()


class _Process:
    """One process of a pool, and the thread that starts it, waits for its end and reaps it. On the pool's loop."""

    def __init__(
        self,
        reaper: ProcessGroupReaper,
        load_main: bool,
        *,
        started: Callable[["_Process"], None],
        ended: Callable[["_Process"], None],
    ) -> None:
        self.pid = 0
        self.busy = False
        self.starting = True
        self.idle_since = 0.0
        self.error: Exception | None = None
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[int | None] = self._loop.create_future()
        self._reaper = reaper
        self._greeting = greeting(load_main=load_main)
        self._started = started
        self._ended = ended
        self._line, self._theirs = liveness_pipe()
        self._lock = threading.Lock()
        self._group: ProcessGroup | None = None
        self._killed = False
        threading.Thread(target=self._live, name="midcourse-process", daemon=True).start()

    async def ask(self, request: bytes) -> bytes:
        """Send a call and return the reply.

        Raises:
            EOFError, ConnectionError: the process has ended.
        """
        await self._loop.sock_sendall(self._line, HEAD.pack(len(request)) + request)
        return await self._receive(HEAD.unpack(await self._receive(HEAD.size))[0])

    def kill(self) -> None:
        """Kill it and what it has started, at once."""
        with self._lock:
            self._killed = True
            if self._group is not None:
                self._group.kill()

    async def dispose(self) -> bool:
        """Kill it and wait until it is dead. True if the waiting task was cancelled meanwhile."""
        self.kill()
        cancelled = await wait_through_cancellation(self.gone)
        self.close()
        return cancelled

    def close(self) -> None:
        """Hang up. Not while a reply is waited for."""
        self._line.close()

    async def _receive(self, size: int) -> bytes:
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            count = await self._loop.sock_recv_into(self._line, rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return bytes(content)

    def _live(self) -> None:
        """Run the whole life of the process, in its thread."""
        error, code = None, None
        try:
            with self._theirs:
                group = ProcessGroup(command(self._theirs.fileno()), self._reaper, holding=self._theirs)
            with self._lock:
                self._group = group
                if self._killed:
                    group.kill()
            self.pid = group.leader.pid
            if self._greet():
                self._tell(self._is_ready)
            group.wait()
            group.reap()
            code = group.leader.returncode
        except Exception as failure:  # noqa: BLE001 - whatever it is, the waiting task must get it
            error = failure
        self._tell(lambda: self._is_gone(code, error))

    def _greet(self) -> bool:
        """Wait until it is ready. False if it has ended before."""
        with suppress(OSError):
            self._line.sendall(HEAD.pack(len(self._greeting)) + self._greeting)
            if self._line.recv(1):
                self._line.setblocking(False)
                return True
        return False

    def _tell(self, news: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: no task waits
            self._loop.call_soon_threadsafe(news)

    def _is_ready(self) -> None:
        self.starting = False
        self._started(self)

    def _is_gone(self, code: int | None, error: Exception | None) -> None:
        self.error = error
        # A process that has left the group may hold the other end; do not wait for that.
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self.gone.set_result(code)
        self._ended(self)


def _refuse(turn: "asyncio.Future[_Process]", error: ProcessDied) -> None:
    if not turn.done():
        turn.set_exception(error)


def _died(code: int | None, *, closed: bool) -> ProcessDied:
    if closed:
        return ProcessDied("The processes are closed; nothing of the call runs any more.", exit_code=code)
    if code is None or code >= 0:
        how = f"ended with exit code {code}"
    elif code == -signal.SIGKILL:
        how = "was killed with SIGKILL, by a person or because memory ran out,"
    else:
        names = {number.value: number.name for number in signal.Signals}
        how = f"was ended by {names.get(-code, f'signal {-code}')}"
    return ProcessDied(f"The process {how} before the function returned.", exit_code=code)


def _not_started(process: "_Process") -> ProcessDied:
    code = process.gone.result()
    if process.error is None:
        return ProcessDied(f"A new process ended at once (exit code {code}); standard error says why.", exit_code=code)
    died = ProcessDied(f"No process can be started: {describe(process.error)}", exit_code=code)
    died.__cause__ = process.error
    return died
