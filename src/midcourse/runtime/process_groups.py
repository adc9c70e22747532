"""Process groups that can be killed at once and that die with this process, however it is killed.

A helper process watches a group, and knows of it before anything in the group begins. The helper holds one end of a
pipe; when this process ends, by any signal, the pipe ends too, and the helper kills every group it watches.

Linux has PR_SET_PDEATHSIG for this. It kills the leader of a group before the leader can kill the rest of it, it fires
when the starting *thread* ends, and other systems lack it.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final
from weakref import WeakSet

_PATIENCE = 5.0
_SETTLE_STEP = 0.0002
_SETTLE_STEPS = 5_000
_UNTIL_LISTED = 3

# A shell starts in a millisecond and needs a megabyte. What it traps are the signals that end a terminal's processes.
_HELPER: Final = """
trap '' HUP INT QUIT TERM PIPE
groups=' '
while read -r word group; do
    case $word in
        mind) groups="$groups$group "; echo ;;
        forget) case $groups in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""

_ends: "WeakSet[socket.socket | IO[bytes]]" = WeakSet()


def liveness_pipe() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a pipe. Each end notices when the other is closed everywhere."""
    ours, theirs = socket.socketpair()
    keep_private(ours)
    keep_private(theirs)
    return ours, theirs


def keep_private(end: socket.socket | IO[bytes]) -> None:
    """Let no fork of this process hold ``end``: the line would not end with us. (What is executed here never does.)"""
    _ends.add(end)


def _close_liveness_pipes() -> None:
    for end in list(_ends):
        end.close()


os.register_at_fork(after_in_child=_close_liveness_pipes)


async def wait_through_cancellation(future: "asyncio.Future[Any]") -> bool:
    """Wait until it is done, through cancellations. True if there was one: then it is the caller's to pass on."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


class ProcessGroupReaper:
    """The helper that kills this process's groups when this process is gone. One for all loops and threads.

    It is started at its first use. One that was killed is replaced at the next use and gets every group that lives. Its
    methods wait for another process: not for an event loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._helper: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._owner = 0

    @property
    def pid(self) -> int | None:
        """The helper's process id; None before its first use."""
        return None if self._helper is None else self._helper.pid

    def watch(self, group: int) -> None:
        """Return when the helper knows ``group``.

        Raises:
            OSError: no helper can be started.
        """
        with self._lock:
            if self._owner != os.getpid():  # a fork of the process whose groups these were
                self._groups.clear()
                self._helper = self._line = None
            self._groups.add(group)
            if not self._tell(group):
                self._replace()

    def forget(self, group: int) -> None:
        """Stop watching ``group``. Call it before its number can be reused."""
        with self._lock:
            self._groups.discard(group)
            if self._line is not None:
                with suppress(OSError):
                    self._line.send(b"forget %d\n" % group)

    def close(self) -> None:
        """End the helper, and with it every group that is still minded."""
        with self._lock:
            helper, self._helper = self._helper, None
            end, self._line = self._line, None
            self._groups.clear()
        if end is not None:
            end.close()
        if helper is None:
            return
        try:
            helper.wait(_PATIENCE)
        except subprocess.TimeoutExpired:  # it was stopped
            helper.kill()
            helper.wait()

    def _tell(self, group: int) -> bool:
        if self._line is None:
            return False
        try:
            self._line.sendall(b"mind %d\n" % group)
            return self._line.recv(1) == b"\n"
        except OSError:
            return False

    def _replace(self) -> None:
        if self._helper is not None:
            self._helper.kill()  # before its line ends: it would kill the groups it minds
            self._helper.wait()
        if self._line is not None:
            self._line.close()
        ours, theirs = liveness_pipe()
        with theirs:
            self._helper = subprocess.Popen(
                ["/bin/sh", "-c", _HELPER, "midcourse-minder"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},  # it needs nothing, and ours holds secrets
                start_new_session=True,
            )
        ours.settimeout(_PATIENCE)
        self._line, self._owner = ours, os.getpid()
        if not all(self._tell(group) for group in self._groups):
            raise OSError("The helper that minds process groups (/bin/sh) does not answer; nothing was started.")


class ProcessGroup:
    """A process that leads a group of its own, in a session of its own, and what it starts there.

    All but ``kill`` wait for other processes: not for an event loop.
    """

    def __init__(
        self,
        command: Sequence[str],
        reaper: ProcessGroupReaper,
        *,
        holding: socket.socket,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start it, holding an end of a line. It is minded when this returns, so let it wait for a word until then.

        Raises:
            OSError: it cannot be started.
        """
        self.leader = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(holding.fileno(),),
            start_new_session=True,
            bufsize=0,
        )
        self._reaper = reaper
        self._lock = threading.Lock()
        self._reaped = False
        try:
            reaper.watch(self.leader.pid)
        except BaseException:
            self.kill()
            self.close_pipes()
            self.leader.wait()
            raise

    def kill(self) -> None:
        """SIGKILL all of it, at once. It may have ended already."""
        with self._lock:
            if not self._reaped:  # from then on the number may be reused
                _kill(self.leader.pid)

    def wait(self) -> None:
        """Return when the leader has ended. It is not reaped yet, so its number stays the group's."""
        if sys.platform == "darwin" and sys.version_info < (3, 13):  # Python cannot wait without reaping there
            self.leader.wait()
        else:
            with suppress(ChildProcessError):  # the program reaps every child itself
                os.waitid(os.P_PID, self.leader.pid, os.WEXITED | os.WNOWAIT)

    def reap(self) -> bool:
        """Kill what the leader has left behind, and reap the leader. True once nothing in the group lives."""
        _kill(self.leader.pid)
        self._reaper.forget(self.leader.pid)
        with self._lock:
            self.leader.wait()
            self._reaped = True
        return _is_gone(self.leader.pid)

    def close_pipes(self) -> None:
        """Close the leader's standard streams."""
        for pipe in (self.leader.stdin, self.leader.stdout, self.leader.stderr):
            if pipe is not None:
                pipe.close()


def _kill(group: int) -> None:
    # Nobody there, or (macOS) only the dead. A process of another user, left by a setuid program, cannot be killed.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _is_gone(group: int) -> bool:
    """Return True if all of a killed group is dead, after a while. Dead and not yet reaped counts."""
    living: list[str] | None = None
    for step in range(_SETTLE_STEPS):
        with suppress(ChildProcessError):
            while os.waitpid(-group, os.WNOHANG)[0]:  # orphans come to us if this process is the first of a container
                pass
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            if sys.platform == "darwin":  # only the dead are left
                return True
        # The first process of a container often reaps nobody. The list is long, so whoever does reap gets a moment.
        if sys.platform != "darwin" and step >= _UNTIL_LISTED:
            living = [pid for pid in (living or os.listdir("/proc")) if pid.isdigit() and _lives(pid, group)]
            if not living:
                return True
        time.sleep(_SETTLE_STEP)  # noqa: TID251 - waits for other processes, which no clock of ours moves
    return False


def _lives(pid: str, group: int) -> bool:
    try:
        stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            state, _, its_group, _ = os.read(stat, 1024).rpartition(b")")[2].split(None, 3)
        finally:
            os.close(stat)
    except OSError:
        return False  # it has ended meanwhile
    return int(its_group) == group and state not in {b"Z", b"X"}
