"""Starts and speaks to the programs of these tests."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
WAIT = 30.0


class Program:
    """A real second process; killed when the test is done with it."""

    def __init__(self, script: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Program":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.signal(signal.SIGKILL)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(WAIT)

    def hear(self) -> str:
        """The next line it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, word: str) -> None:
        """Say a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def ask(self, word: str) -> str:
        """Say a line and hear the answer."""
        self.tell(word)
        return self.hear()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; a killed or stopped one is waited for."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait(WAIT)
        elif number == signal.SIGSTOP:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait(self) -> int:
        """Its exit status."""
        return self._process.wait(WAIT)


@contextmanager
def owner(path: Path, worker: str = "worker_child", session_id: str = "sess_child") -> Generator[Program]:
    """A process that owns a session."""
    with Program("owner.py", path, worker, session_id) as program:
        assert program.hear() == "ready"
        yield program
