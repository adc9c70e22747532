"""``midcourse serve --demo`` as a user starts it: a process of its own, in a folder of its own, on a free port."""

import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

STARTS_WITHIN = 60.0


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    port: int
    folder: Path
    said: str
    """What it printed when it was ready."""
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The operator's token."""
        return (self.folder / ".midcourse" / "token").read_text(encoding="ascii").strip()


def free_port() -> int:
    """A port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def surroundings(folder: Path, **more: str) -> Mapping[str, str]:
    """An environment in which `midcourse` is found, and the samples are quick and work inside ``folder``."""
    # Without the width of the terminal that the tests are started from: what is piped has whole lines.
    left_out = ("MIDCOURSE_", "COLUMNS")
    own = {name: text for name, text in os.environ.items() if not name.startswith(left_out)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
    samples = {"MIDCOURSE_SAMPLES_DIR": str(folder / "samples"), "MIDCOURSE_SAMPLE_PACE": "0.005"}
    return {**own, "PATH": path, "PYTHONUNBUFFERED": "1", **samples, **more}


@contextmanager
def served(
    folder: Path, *options: str, port: int | None = None, terminal: bool = False, **environment: str
) -> Generator[Served]:
    """``midcourse serve`` with ``options`` while the block lasts; Ctrl-C ends it, and it must end well.

    ``terminal``: a person started it, and reads what it prints.
    """
    chosen = port or free_port()
    screen, log = folder / "serve.txt", folder / "serve.log"
    with _terminal(screen) if terminal else screen.open("wb") as out, log.open("ab") as err:
        process = subprocess.Popen(
            ["midcourse", "serve", *options, "--port", str(chosen)],
            cwd=folder,
            env=surroundings(folder, **environment),
            stdout=out,
            stderr=err,
        )
    try:
        yield Served(chosen, folder, _until_ready(process, screen, log), process)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        assert process.returncode in (0, -signal.SIGKILL), log.read_text(encoding="utf-8")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _terminal(screen: Path) -> IO[bytes]:
    """One end of a terminal; what is printed there is kept in a file until it is closed everywhere."""
    ours, theirs = pty.openpty()

    def keep() -> None:
        with screen.open("wb", buffering=0) as kept, contextlib.suppress(OSError):
            while piece := os.read(ours, 4096):
                kept.write(piece.replace(b"\r", b""))
        os.close(ours)

    screen.touch()
    threading.Thread(target=keep, daemon=True).start()
    return os.fdopen(theirs, "wb")


def _until_ready(process: "subprocess.Popen[bytes]", screen: Path, log: Path) -> str:
    deadline = time.monotonic() + STARTS_WITHIN
    while "Ctrl-C" not in (said := screen.read_text(encoding="utf-8")):
        has_failed = process.poll() is not None or time.monotonic() > deadline
        assert not has_failed, f"it did not start:\n{said}\n{log.read_text(encoding='utf-8')}"
        time.sleep(0.05)
    return said
