"""Calls of plain functions in another process: how they are written down, and the program that does them there."""

import os
import pickle
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Final, Never, cast

from midcourse.errors import describe
from midcourse.runtime.process_groups import keep_private

HEAD: Final = struct.Struct("!Q")
"""Before each message: how long it is."""
READY: Final = b"+"

PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; from midcourse.runtime.process_calls import serve; serve(int(sys.argv[1]))"
)
"""The program of such a process. The path comes first: midcourse may be found there only."""
_RETURNED: Final = b"="
_RAISED: Final = b"!"
_FAILED: Final = b"?"
_CLEAN: Final = b"1"
_LEFT_SOMETHING: Final = b"0"

_loading_main = threading.Event()


class ProcessFailed(Exception):
    """A call could not be brought into a process, or what it ended with could not be brought back.

    If that was an exception, ``kind`` and ``detail`` are its class and its words.
    """

    def __init__(self, message: str, *, kind: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.detail = detail


def packed_call(
    prepare: Callable[[object], None],
    about: object,
    function: Callable[..., object],
    arguments: tuple[object, ...],
    keywords: Mapping[str, object],
) -> bytes:
    """Return the call as it is sent.

    Raises:
        ProcessFailed: it cannot be pickled.
    """
    if _loading_main.is_set():
        raise ProcessFailed(
            "This program was started again, inside a process that only needs its functions. "
            "Put what starts it under `if __name__ == '__main__':`."
        )
    try:
        return pickle.dumps((prepare, about, function, arguments, dict(keywords)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise ProcessFailed(
            f"{name} cannot be called in a process: {describe(error)}. Use a function at the top level of a module, "
            "and arguments that can be pickled."
        ) from error


def needs_main(request: bytes) -> bool:
    """Return True if the call may need definitions of the program's main module."""
    return b"__main__" in request


def is_clean(reply: bytes) -> bool:
    """Return True if the call has left no thread and no child behind, so that its process can do another."""
    return reply[1:2] == _CLEAN


def outcome(reply: bytes) -> object:
    """Return what the function returned, or raise what it raised.

    Raises:
        ProcessFailed: it cannot be brought back.
    """
    tag, body = reply[:1], memoryview(reply)[2:]
    if tag == _FAILED:
        raise ProcessFailed(*cast("tuple[str]", pickle.loads(body)))
    if tag == _RAISED:
        _raise_again(*cast("tuple[str, str, bytes]", pickle.loads(body)))
    try:
        return pickle.loads(body)
    except Exception as error:
        raise ProcessFailed(f"What the function returned cannot be read here: {describe(error)}") from error


def _raise_again(kind: str, detail: str, packed: bytes) -> Never:
    try:
        raised = cast("Exception", pickle.loads(packed))
    except Exception as error:
        raise ProcessFailed(
            f"The function raised {kind}: {detail} (the exception itself cannot be brought out of its process)",
            kind=kind,
            detail=detail,
        ) from error
    raise raised


def command(descriptor: int) -> list[str]:
    """Return the command that starts a process for calls: the same interpreter, with the same options and path."""
    from multiprocessing import spawn

    usual = spawn.get_command_line()
    path = [entry or os.getcwd() for entry in sys.path]
    return [*usual[: usual.index("-c")], "-c", PROGRAM, str(descriptor), *path]


def greeting(*, load_main: bool) -> bytes:
    """Return the first message to such a process."""
    return pickle.dumps((sys.argv, _main_module(), load_main))


def _main_module() -> dict[str, str]:
    """Return where the program's main module can be loaded from, in multiprocessing's form."""
    main = sys.modules["__main__"]
    sys.modules.setdefault("__mp_main__", main)  # what it defines comes back under this name
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if isinstance(name, str):
        return {"init_main_from_name": name}
    path = getattr(main, "__file__", None)
    return {"init_main_from_path": os.path.abspath(path)} if isinstance(path, str) else {}


# ---------------------------------------------------------------------------------------------------------------------
# In the other process


def serve(descriptor: int) -> Never:
    """Do the calls that are sent, one after another, and die with the program that sends them."""
    line = socket.socket(fileno=descriptor)
    line.set_inheritable(False)
    keep_private(line)
    sys.argv, main, load_main = cast("tuple[list[str], dict[str, str], bool]", pickle.loads(_receive(line)))
    if load_main:
        with suppress(Exception):  # the call that needs it tries again, and tells
            _load(main)
    line.sendall(READY)
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(line, requests), name="midcourse-lifeline", daemon=True).start()
    while True:
        reply = _perform(requests.get(), main)
        _flush()
        try:
            line.sendall(HEAD.pack(len(reply)) + reply)
        except OSError:  # the program is gone, or this is a fork which the function let return
            os._exit(1)


def _listen(line: socket.socket, requests: "SimpleQueue[bytes]") -> None:
    """Pass calls on. When the pipe ends, so has the program: end this process too, with all that it has started.

    The program's reaper does the same from outside, also while a function lets no other thread run. This is for the
    case that the reaper was killed.
    """
    with suppress(EOFError, OSError):
        while True:
            requests.put(_receive(line))
    with suppress(ProcessLookupError):
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _receive(line: socket.socket) -> bytes:
    return _exactly(line, HEAD.unpack(_exactly(line, HEAD.size))[0])


def _exactly(line: socket.socket, size: int) -> bytes:
    content = bytearray(size)
    rest = memoryview(content)
    while rest:
        count = line.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return bytes(content)


def _load(main: dict[str, str]) -> None:
    """Load the program's main module, as multiprocessing does; once."""
    if not main:
        return
    from multiprocessing import spawn

    _loading_main.set()
    try:
        spawn.prepare(dict(main))
    finally:
        _loading_main.clear()
    main.clear()


def _perform(request: bytes, main: dict[str, str]) -> bytes:
    try:
        if needs_main(request):
            _load(main)
        prepare, about, function, arguments, keywords = pickle.loads(request)
    except Exception as error:  # noqa: BLE001 - it is the call's outcome
        return _failure(_CLEAN, f"The call cannot be loaded in its process: {type(error).__name__}: {describe(error)}")
    threads = set(threading.enumerate())  # a library that was loaded may have its own

    def call() -> object:
        prepare(about)
        return function(*arguments, **keywords)

    try:
        result = copy_context().run(call)
    except SystemExit as leaving:
        _flush()
        os._exit(leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None))
    except Exception as error:  # noqa: BLE001 - it is the call's outcome
        with suppress(Exception):
            error.add_note("In its process:\n" + "".join(traceback.format_exception(error)))
        body = pickle.dumps((type(error).__name__, describe(error), _packed_error(error)))
        return _RAISED + _left_behind(threads) + body
    except BaseException as error:  # noqa: BLE001 - it must not end the program that waits
        words = f"The function raised {type(error).__name__}, which is no Exception: {describe(error)}"
        return _failure(_left_behind(threads), words)
    try:
        body = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - it is the call's outcome
        words = f"The function returned a {type(result).__name__}, which cannot be pickled: {describe(error)}"
        return _failure(_left_behind(threads), words)
    return _RETURNED + _left_behind(threads) + body


def _failure(left: bytes, words: str) -> bytes:
    return _FAILED + left + pickle.dumps((words,))


def _left_behind(threads: set[threading.Thread]) -> bytes:
    """Return whether a thread or a child of the call is still there."""
    if not threads.issuperset(threading.enumerate()):
        return _LEFT_SOMETHING
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:  # one that has ended and was not waited for
            pass
    except ChildProcessError:
        return _CLEAN
    return _LEFT_SOMETHING


def _packed_error(error: Exception) -> bytes:
    """Pickle the error, if that can be read back; else without calling its ``__init__``; else nothing."""
    for form in (error, _Bare(error)):
        with suppress(Exception):
            packed = pickle.dumps(form)
            if isinstance(pickle.loads(packed), type(error)):
                return packed
    return b""


class _Bare:
    """An exception whose ``__init__`` does not take what pickle gives it: keyword-only arguments, for one."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (type(self._error), self._error.args, self._error.__dict__)


def _remade(kind: type[Exception], arguments: tuple[object, ...], attributes: dict[str, object]) -> Exception:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


def _flush() -> None:
    """Flush the printed output, which would be lost when this process is killed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
