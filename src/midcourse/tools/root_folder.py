"""Paths below a root that they cannot leave, even if something changes between a check and its use.

A path is never given to the operating system as a whole. It is walked name by name from a descriptor of the root; no
name is followed by the system if it is a link; links are read and walked by the same rules. What is done at the end is
done relative to the descriptor that the walk ended with, so the path is not walked a second time.
"""

import errno
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from midcourse.tools.tool_errors import (
    bad_argument,
    changed_since,
    explained_os_errors,
    not_found,
    outside_root,
    wrong_kind,
)

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_MOST_LINKS: Final = 40
_MOST_NAMES: Final = 100
_MOST_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPlace:
    """The end of a path: a name in an open folder, and the folders on the way that do not exist yet."""

    given: str
    """The path as the caller wrote it, for error sentences."""
    folder: int
    """A descriptor of the last folder that exists."""
    missing: tuple[str, ...] = ()
    name: str
    """The last name of the path; ``.`` is the root itself."""
    real: tuple[str, ...]
    """The path from the root with no link in it."""

    @property
    def stat(self) -> os.stat_result | None:
        """The stat of the place, links not followed; None if nothing is there."""
        if self.missing:
            return None
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


class Root:
    """A folder that nothing asked of it leads out of. It need not exist before it is used."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)

    @contextmanager
    def at(self, path: str, *, follow: bool = True) -> Generator[PathPlace]:
        """Walk to ``path``. ``follow``: if it ends in a link, walk on to its target; else end at the link itself.

        Raises:
            InvalidInput: it is absolute, too long, has a ``..``, or a link leads out of the root. Nothing was changed.
        """
        with self._walk() as walk, explained_os_errors(path):
            yield walk.to(path, _names(path, self.path), follow=follow)

    @contextmanager
    def exactly(self, real: Sequence[str]) -> Generator[PathPlace]:
        """Walk to a path that had no link in it, and has none now: where a call was, for its undo."""
        given = "/".join(real)
        with self._walk() as walk, explained_os_errors(given):
            yield walk.along(given, real)

    @contextmanager
    def _walk(self) -> "Generator[_Walk]":
        try:
            root = os.open(self.path, FOLDER)
        except OSError as error:
            raise bad_argument(
                f"The root {self.path} cannot be opened: {error.strerror}. It must be a folder on this machine.", "root"
            ) from error
        walk = _Walk(self.path, root)
        try:
            yield walk
        finally:
            walk.close()


class _Walk:
    """The folders that are open on the way, so that ``..`` in a link means the way back and not what is there now."""

    def __init__(self, root: str, opened: int) -> None:
        self._root = root
        self._open = [opened]
        self._names: list[str] = []

    def to(self, given: str, names: Sequence[str], *, follow: bool) -> PathPlace:
        ahead, links = list(reversed(names)), 0
        while ahead:
            name = ahead.pop()
            if name == "..":  # only links have it: the caller's paths were refused
                if not self._names:
                    raise outside_root(given, self._root, "a link on the way leads out of the root")
                self._back()
                continue
            target = self._link(name) if ahead or follow else None
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise outside_root(given, self._root, f"there are more than {_MOST_LINKS} links on the way")
                ahead.extend(reversed(self._inside(given, target)))
                _check_length([*self._names, *reversed(ahead)])
                continue
            if not ahead:
                return self._place(given, name)
            if not self._enter(name):
                rest = (name, *reversed(ahead))
                if ".." in rest:
                    raise not_found(given)
                return self._place(given, rest[-1], missing=rest[:-1])
        if not self._names:
            return PathPlace(given=given, folder=self._open[-1], name=".", real=())
        name = self._names[-1]  # the last link led to a folder that is open already
        self._back()
        return self._place(given, name)

    def along(self, given: str, names: Sequence[str]) -> PathPlace:
        for index, name in enumerate(names[:-1]):
            try:
                entered = self._enter(name)
            except OSError as error:
                raise changed_since(given, "a folder on the way is no longer one") from error
            if not entered:
                return self._place(given, names[-1], missing=tuple(names[index:-1]))
        return self._place(given, names[-1])

    def close(self) -> None:
        for opened in self._open:
            os.close(opened)

    def _place(self, given: str, name: str, *, missing: tuple[str, ...] = ()) -> PathPlace:
        real = (*self._names, *missing, name)
        return PathPlace(given=given, folder=self._open[-1], missing=missing, name=name, real=real)

    def _link(self, name: str) -> str | None:
        """Return the target of a link; None if it is no link."""
        try:
            return os.readlink(name, dir_fd=self._open[-1])
        except OSError as error:
            if error.errno in {errno.EINVAL, errno.ENOENT}:
                return None
            raise

    def _enter(self, name: str) -> bool:
        """Go into the folder of that name. False if there is nothing; a link that has just come there is an error."""
        try:
            self._open.append(os.open(name, FOLDER, dir_fd=self._open[-1]))
        except FileNotFoundError:
            return False
        self._names.append(name)
        return True

    def _back(self) -> None:
        os.close(self._open.pop())
        self._names.pop()

    def _inside(self, given: str, target: str) -> list[str]:
        """Return the names of a link's target, from here. An absolute one must be below the root, and begins there."""
        if not target.startswith("/"):
            return [name for name in target.split("/") if name not in {"", "."}]
        if target != self._root and not target.startswith(self._root.rstrip("/") + "/"):
            raise outside_root(given, self._root, f"a link on the way leads to {target}")
        while self._names:
            self._back()
        return [name for name in target[len(self._root) :].split("/") if name not in {"", "."}]


def _names(path: str, root: str) -> tuple[str, ...]:
    if not path or "\0" in path:
        raise bad_argument("The path is empty or holds a NUL. Name a file, like 'notes/a.txt'.", "path")
    try:
        _check_length([path])
    except UnicodeEncodeError as error:
        raise bad_argument(f"{path!r} cannot be the name of a file here: {error}.", "path") from error
    if path.startswith("/"):
        raise outside_root(path, root, "it is absolute")
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    _check_length(names)
    if ".." in names:
        raise outside_root(path, root, "it has '..' in it")
    return names


def _check_length(names: Sequence[str]) -> None:
    """Check the number of names: each on the way is an open folder and a line of the record."""
    if len(names) > _MOST_NAMES or len(os.fsencode("/".join(names))) > _MOST_BYTES:
        raise bad_argument(
            f"The path '{'/'.join(names)[:60]}…' is too long, as given or where its links lead: "
            f"the limits are {_MOST_NAMES} names and {_MOST_BYTES:,} bytes. Name something that is less deep.",
            "path",
            code="path_too_long",
        )


@contextmanager
def opened_file(place: PathPlace) -> Generator[int]:
    """Open the plain file at ``place`` for reading. Links, devices, pipes and sockets are never opened."""
    found = place.stat
    if found is None:
        raise not_found(place.given)
    if not stat.S_ISREG(found.st_mode):
        raise wrong_kind(place.given, kind_in_words(found.st_mode), "files")
    opened = os.open(place.name, FILE, dir_fd=place.folder)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise wrong_kind(place.given, "no longer a file", "files")
        yield opened
    finally:
        os.close(opened)


def kind_in_words(mode: int) -> str:
    for is_kind, words in _KINDS:
        if is_kind(mode):
            return words
    return "neither a file nor a folder"


_KINDS: Final = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
