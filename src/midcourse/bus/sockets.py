"""Names for the sockets of this machine's processes: a private folder, short paths, and no leftovers of the dead."""

import contextlib
import errno
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from midcourse.errors import StoreUnavailable

LONGEST_PATH: Final = 103
"""The longest socket path every system takes: macOS has room for 104 bytes, with the zero at the end."""

_LONGEST_NAME: Final = len("/4294967295-9999.sock")


def bind(kind: socket.SocketKind) -> tuple[socket.socket, str]:
    """Return a socket of this process, bound to a path of its own.

    Raises:
        StoreUnavailable: there is no folder to bind it in.
    """
    folder = private_folder()
    _remove_leftovers(folder, kind)
    for number in range(10_000):
        path = str(folder / f"{os.getpid()}-{number}.sock")
        bound = socket.socket(socket.AF_UNIX, kind)
        try:
            bound.bind(path)
            os.chmod(path, 0o600)
        except OSError as error:
            bound.close()
            if error.errno != errno.EADDRINUSE:
                raise _no_folder(f"{path} cannot be bound ({error.strerror})") from error
        else:
            return bound, path
    raise _no_folder(f"{folder} is full of sockets")


def private_folder() -> Path:
    """Return a folder that only this user can read, with a short name.

    Raises:
        StoreUnavailable: there is none.
    """
    for parent, name in _candidates():
        folder = Path(parent) / name
        if len(os.fsencode(folder)) + _LONGEST_NAME > LONGEST_PATH:
            continue
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            found = os.lstat(folder)
            # Another user's folder of that name in a shared place could be swapped under us: not that one.
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
                return folder
    raise _no_folder("There is no private folder for sockets")


def _candidates() -> Iterator[tuple[str, str]]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        yield runtime, "midcourse"
    mine = f"midcourse-{os.getuid()}"
    yield tempfile.gettempdir(), mine
    yield "/tmp", mine


def _no_folder(what: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{what}, so that other processes cannot be heard at once. Set XDG_RUNTIME_DIR or TMPDIR to a folder of yours "
        f"with a path below {LONGEST_PATH - _LONGEST_NAME} bytes.",
        code="no_socket_folder",
    )


def _remove_leftovers(folder: Path, kind: socket.SocketKind) -> None:
    """Remove the sockets of killed processes."""
    with contextlib.suppress(OSError):
        for path in folder.glob("*.sock"):
            with socket.socket(socket.AF_UNIX, kind) as probe:
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink(missing_ok=True)
                except OSError:
                    continue
