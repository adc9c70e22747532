"""Puts files, links and folders where they belong, in one act: whoever is killed leaves the old or the new, never half.

All of it is done relative to the open folder of a place (see ``rooted``).
"""

import hashlib
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

from midcourse.tools.rooted import FOLDER, Place
from midcourse.tools.states import State

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def temp_name(key: str) -> str:
    """The name of a call's half-written file, the same for its undo."""
    return f".midcourse-{hashlib.sha256(key.encode('utf-8', 'backslashreplace')).hexdigest()[:16]}.tmp"


def put_file(folder: int, name: str, content: BinaryIO, like: State, *, temp: str) -> None:
    """Have a file of that name with that content; mode, owner and time as ``like`` has them, where it has any."""
    stage(folder, content, like, temp=temp)
    os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def stage(folder: int, content: BinaryIO, like: State, *, temp: str) -> None:
    """Write it beside its place, whole and on the disk, so that a rename is all that is left to do."""
    remove(folder, temp)
    # A file that nobody had yet gets the mode that the system gives new files here.
    opened = os.open(temp, _NEW, 0o666 if like.mode is None else 0o600, dir_fd=folder)
    with os.fdopen(opened, "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        _dress(opened, like)
        os.fsync(opened)


def put_link(folder: int, name: str, like: State, *, temp: str) -> None:
    """Have a link of that name."""
    remove(folder, temp)
    os.symlink(like.target, temp, dir_fd=folder)
    os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def dress_folder(place: Place, like: State) -> None:
    """Give a folder its mode, owner and time: last, when everything in it is there."""
    opened = os.open(place.name, FOLDER, dir_fd=place.folder)
    try:
        _dress(opened, like)
    finally:
        os.close(opened)


def remove(folder: int, name: str) -> None:
    """Have no file or link of that name."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


@contextmanager
def made_folder(place: Place) -> Generator[int]:
    """The folder of a place, open; the missing ones on the way are made."""
    opened = [os.dup(place.folder)]
    try:
        for name in place.missing:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=opened[-1])
            opened.append(os.open(name, FOLDER, dir_fd=opened[-1]))
            os.fsync(opened[-2])
        yield opened[-1]
    finally:
        for one in opened:
            os.close(one)


def _dress(opened: int, like: State) -> None:
    if like.owner is not None:
        found = os.fstat(opened)
        if like.owner != (found.st_uid, found.st_gid):
            with suppress(OSError):  # only the superuser gives files away
                os.fchown(opened, *like.owner)
    if like.mode is not None:
        os.fchmod(opened, like.mode)
    if like.mtime:
        os.utime(opened, ns=(like.mtime, like.mtime))
