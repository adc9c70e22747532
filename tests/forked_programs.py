"""Python programs that tests start, without the wait for their imports.

Most of the time of a fresh interpreter goes into its imports. Here one process has them in memory, and forks for each
program. The program is a process of its own all the same, and a child of the tests: it is stopped, killed and waited
for as any other. ``install`` makes ``subprocess`` start so what this page knows how to start: ``python -m MODULE``,
``python SCRIPT``, both with ``-W error`` if wanted, ``midcourse``, and the processes in which plain functions run.
Everything else starts as it always does.
"""

import ast
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, TypedDict, cast

import midcourse
from midcourse.runtime.process_calls import PROGRAM, serve

ROOT: Final = Path(__file__).parents[1]
HERE: Final = str(Path(midcourse.__file__).parents[1])
"""The entry of the path where the package is found."""
AHEAD: Final = ("midcourse.cli.main", "midcourse.server", "midcourse.adapters.pydantic_ai")
"""What nearly every program imports, and what takes longest of what the samples do."""
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER, see prctl(2)


class _Wish(TypedDict):
    """A program to start."""

    argv: list[str]
    kind: Literal["command", "module", "script", "calls"]
    cwd: str
    env: dict[str, str]
    session: bool
    strict: bool
    """Each warning is an error."""


# ---- in the tests


class _Fork:
    """The process that forks, from the side of the tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair()
        command = [sys.executable, "-c", "import sys; from tests.forked_programs import main; main(int(sys.argv[1]))"]
        path = os.pathsep.join(str(one) for one in (ROOT, os.environ.get("PYTHONPATH", "")) if one)
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": path},
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )

    def start(self, wish: _Wish, descriptors: Sequence[int]) -> int:
        """Start a program with these for its input and outputs; return its process id."""
        with self._lock:
            _adopt(True)
            try:
                text = json.dumps(wish).encode()
                socket.send_fds(self._line, [len(text).to_bytes(4, "big")], descriptors)
                self._line.sendall(text)
                return int.from_bytes(_received(self._line, 4), "big")
            finally:
                _adopt(False)

    def close(self) -> None:
        """Start no more."""
        self._line.close()
        self._process.wait()


def install() -> Callable[[], None]:
    """Have ``subprocess`` fork the programs that this page knows. Return what takes it back."""
    if sys.platform != "linux":  # elsewhere no process adopts the child of another
        return lambda: None
    popen: Any = subprocess.Popen
    usual = popen._execute_child  # noqa: SLF001
    fork: list[_Fork] = []

    def start(
        self: Any,
        args: Any,
        executable: Any,
        preexec: Any,
        close: bool,
        passed: Any,
        cwd: Any,
        env: Any,
        info: Any,
        flags: int,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        restore: bool,
        gid: Any,
        gids: Any,
        uid: Any,
        umask: int,
        session: bool,
        group: int,
    ) -> None:
        pipes = (p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        wish = None
        if not (executable or preexec or shell or gid or gids or uid or umask != -1 or group != -1):
            wish = _understood(args, cwd, env, session)
        if wish is None or (wish["kind"] == "calls") != bool(passed):
            rest = (executable, preexec, close, passed, cwd, env, info, flags, shell, *pipes, restore, gid, gids, uid)
            usual(self, args, *rest, umask, session, group)
            return
        if not fork:
            fork.append(_Fork())
        given = zip((p2cread, c2pwrite, errwrite), range(3), strict=True)
        self.pid = fork[0].start(wish, [*(own if own != -1 else usually for own, usually in given), *passed])
        self._child_created = True
        self._close_pipe_fds(*pipes)

    popen._execute_child = start  # noqa: SLF001

    def uninstall() -> None:
        popen._execute_child = usual  # noqa: SLF001
        for one in fork:
            one.close()

    return uninstall


def _understood(args: Any, cwd: Any, env: Mapping[Any, Any] | None, session: bool) -> _Wish | None:
    """Return what to fork for a command; None if only a fresh interpreter will do."""
    if isinstance(args, str | bytes | os.PathLike):
        return None
    command = [os.fsdecode(one) for one in cast("Sequence[str | os.PathLike[str]]", args)]
    given = {os.fsdecode(name): os.fsdecode(text) for name, text in (os.environ if env is None else env).items()}
    of_python = {name for name in {*given, *os.environ} if name.startswith("PYTHON")} - {"PYTHONUNBUFFERED"}
    if any(given.get(name) != os.environ.get(name) for name in of_python):
        return None
    where = os.path.abspath(os.fspath(cwd or "."))
    strict = command[1:3] == ["-W", "error"]
    rest = command[3:] if strict else command[1:]
    wish: _Wish = {
        "argv": command,
        "kind": "command",
        "cwd": where,
        "env": given,
        "session": session,
        "strict": strict,
    }
    if command[0] == "midcourse":
        return wish
    if command[0] == sys.executable and PROGRAM in rest and HERE in rest:
        return {**wish, "argv": rest[rest.index(PROGRAM) + 1 :], "kind": "calls"}
    if command[0] == sys.executable and rest[0] == "-m":
        return {**wish, "argv": rest[1:], "kind": "module"}
    if command[0] == sys.executable and rest[0].endswith(".py"):
        return {**wish, "argv": rest, "kind": "script"}
    return None


def _adopt(whether: bool) -> None:
    """Become the parent of what a child of ours leaves behind."""
    ctypes.CDLL(None).prctl(_SUBREAPER, int(whether), 0, 0, 0)


# ---- in the process that forks


def main(descriptor: int) -> None:
    """Fork for each wish until the tests are gone."""
    line = socket.socket(fileno=descriptor)
    parent = os.getppid()
    for name in AHEAD:
        importlib.import_module(name)
    known = set[Path]()
    while head := socket.recv_fds(line, 4, 4):
        size, descriptors, _, _ = head
        if not size:
            return
        wish: _Wish = json.loads(_received(line, int.from_bytes(size, "big")))
        if wish["kind"] in {"module", "script"}:
            program = wish["argv"][0]
            _import_ahead(_file_of(program) if wish["kind"] == "module" else Path(wish["cwd"], program), known)
        # A copy made by a fork shares what neither side writes to: nothing that is here now is to be collected.
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            if os.fork():
                os._exit(0)  # so that the tests become the parent
            while os.getppid() != parent:
                os.sched_yield()
            if wish["session"]:
                os.setsid()  # before it is known: its group may be killed at once
            line.sendall(os.getpid().to_bytes(4, "big"))
            line.close()
            _become(wish, descriptors)
        for one in descriptors:
            os.close(one)
        os.waitpid(pid, 0)


def _import_ahead(path: Path, known: set[Path]) -> None:
    """Import what a program and the modules of these tests in it import, and not these: they register their agents."""
    if path in known or not path.is_relative_to(ROOT) or not path.is_file():
        return
    known.add(path)
    for one in ast.parse(path.read_bytes()).body:
        names: list[str] = []
        if isinstance(one, ast.ImportFrom) and one.module is not None:
            names = [one.module, *(f"{one.module}.{name.name}" for name in one.names)]
        elif isinstance(one, ast.Import):
            names = [name.name for name in one.names]
        for name in names:
            if name.startswith("tests."):
                _import_ahead(_file_of(name), known)
            else:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)


def _file_of(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def _become(wish: _Wish, descriptors: Sequence[int]) -> NoReturn:
    """Be that program, from its first line to the end of this process."""
    for descriptor, own in zip(descriptors, range(3), strict=False):
        os.dup2(descriptor, own)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unbuffered = bool(wish["env"].get("PYTHONUNBUFFERED"))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = (
        open(own, "w", encoding="utf-8", closefd=False, buffering=1, errors=errors)  # noqa: SIM115
        for own, errors in ((1, "strict"), (2, "backslashreplace"))
    )
    sys.stdout.reconfigure(line_buffering=os.isatty(1), write_through=unbuffered)
    os.chdir(wish["cwd"])
    os.environ.clear()
    os.environ.update(wish["env"])
    sys.argv[:] = wish["argv"]
    if wish["strict"]:
        warnings.simplefilter("error")
        sys.warnoptions[:] = ["error"]
    sys.orig_argv = [sys.executable, *wish["argv"]]
    if wish["kind"] == "calls":
        sys.path[:] = wish["argv"][1:]
        serve(descriptors[3])
    if wish["kind"] == "command":
        from midcourse.cli import main as command

        sys.exit(command())
    if wish["kind"] == "module":
        sys.path.insert(0, wish["cwd"])
        runpy.run_module(wish["argv"][0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(wish["argv"][0]).absolute().parent))
        runpy.run_path(wish["argv"][0], run_name="__main__")
    sys.exit(0)


def _received(line: socket.socket, size: int) -> bytes:
    """The next bytes of the line."""
    found = b""
    while len(found) < size:
        piece = line.recv(size - len(found))
        if not piece:
            raise ConnectionError("the other side has ended")
        found += piece
    return found
