"""Put files, links and folders in place atomically: a killed process leaves the old or the new, never half.

All of it is done relative to the open folder of a place (see ``rooted``).
"""

import hashlib
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

from midcourse.tools.file_state import State
from midcourse.tools.root_folder import FOLDER, PathPlace
from midcourse.tools.tool_errors import cannot_undo

_CHUNK: Final = 1 << 20
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def put_file(
    folder: int, name: str, content: BinaryIO, like: State, *, temp: str, is_new: bool, check: Callable[[], None]
) -> None:
    """Put a file of that name with that content; mode, owner and time are those of ``like``, if any.

    ``check`` runs last before the name is used. If it ``is_new``, an existing file is never replaced.
    """
    try:
        stage(folder, content, like, temp=temp)
        check()
        if is_new:
            rename_new(folder, temp, folder, name)
        else:
            os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        remove(folder, temp)
    os.fsync(folder)


def rename_new(old_folder: int, old: str, folder: int, name: str) -> None:
    """Rename to a name that nothing has. A kill in between may leave a file with both names.

    Raises:
        FileExistsError: something has it by now.
    """
    if stat.S_ISREG(os.stat(old, dir_fd=old_folder, follow_symlinks=False).st_mode):
        try:
            os.link(old, name, src_dir_fd=old_folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:
            pass  # no links here, or not for this user: a look right before the rename must do
        else:
            os.unlink(old, dir_fd=old_folder)
            return
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(old, name, src_dir_fd=old_folder, dst_dir_fd=folder)
    else:
        raise FileExistsError(name)


def stage(folder: int, content: BinaryIO, like: State, *, temp: str) -> None:
    """Write it beside its place, whole and on the disk, so that a rename is all that is left to do."""
    remove(folder, temp)
    # A new file gets the mode that the system gives new files here.
    opened = os.open(temp, _NEW, 0o666 if like.mode is None else 0o600, dir_fd=folder)
    with os.fdopen(opened, "wb") as file:
        hashing = hashlib.sha256()
        while piece := content.read(_CHUNK):
            hashing.update(piece)
            file.write(piece)
        if like.content not in {"", hashing.hexdigest()}:
            raise cannot_undo("The backup is damaged: it was changed while it was read.")
        file.flush()
        _dress(opened, like)
        os.fsync(opened)


def put_link(folder: int, name: str, like: State, *, temp: str, is_new: bool, check: Callable[[], None]) -> None:
    """Have a link of that name, by the same rules."""
    if is_new:
        check()
        os.symlink(like.target, name, dir_fd=folder)
    else:
        try:
            remove(folder, temp)
            os.symlink(like.target, temp, dir_fd=folder)
            check()
            os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            remove(folder, temp)
    os.fsync(folder)


def dress_folder(place: PathPlace, like: State) -> None:
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
def made_folder(place: PathPlace) -> Generator[int]:
    """Make the folder of a place, with the missing ones on the way, and yield it open."""
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
        os.fchmod(opened, _safe_mode(like.mode, like.owner, os.fstat(opened)))
    if like.mtime:
        os.utime(opened, ns=(like.mtime, like.mtime))


def _safe_mode(mode: int, owner: tuple[int, int] | None, found: os.stat_result) -> int:
    """Return the part of a mode that is safe for a file that may be another user's now: without setuid."""
    if owner is None or owner[0] != found.st_uid:
        return mode & 0o777
    return mode if owner[1] == found.st_gid else mode & ~stat.S_ISGID
