"""The state of a place, comparable: a file with its content's hash, a link, a folder, nothing."""

import hashlib
import os
import stat
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from midcourse.tools.root_folder import PathPlace, kind_in_words, opened_file
from midcourse.tools.tool_errors import changed_meanwhile, wrong_kind

_CHUNK: Final = 1 << 20

Kind = Literal["absent", "file", "link", "folder"]


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that an undo needs to restore a place, except a file's content, which a backup holds by its hash."""

    kind: Kind
    mode: int | None = None
    """Permission bits. None for a file that does not exist yet: the system chooses them."""
    content: str = ""
    size: int = 0
    target: str = ""
    mtime: int = 0
    owner: tuple[int, int] | None = None

    def is_same(self, other: "State") -> bool:
        """Return True if nothing that matters has changed: times and owners do not."""
        if self.kind != other.kind:
            return False
        if self.kind == "file":
            if self.content != other.content:
                return False
            # Not setuid and the like: they are not given to a file that could not be given to its owner.
            return self.mode is None or other.mode is None or (self.mode ^ other.mode) & 0o777 == 0
        return self.target == other.target

    def in_words(self) -> str:
        if self.kind == "file":
            return f"a file of {self.size:,} bytes, sha256 {self.content[:12]}…"
        return {"absent": "nothing is there", "link": f"a link to {self.target}"}.get(self.kind, "a folder")


ABSENT: Final = State("absent")
FOLDER: Final = State("folder")


def kind_of(mode: int) -> Literal["file", "folder", "link", "other"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def state_at(place: PathPlace, poll: Callable[[], None] | None = None) -> State:
    """Return the state of ``place``, its content read and hashed; ``poll`` is called now and then, and may end it."""
    state = outline_at(place)
    if state.kind != "file":
        return state
    with opened_file(place) as opened:
        content = hash_of(opened, poll)
    return msgspec.structs.replace(state, content=content)


def outline_at(place: PathPlace) -> State:
    """Return the state of ``place`` without its content.

    Raises:
        MidcourseError: a device, a pipe or a socket, which these tools do not touch.
    """
    found = place.stat
    if found is None:
        return ABSENT
    kind = kind_of(found.st_mode)
    if kind == "other":
        raise wrong_kind(place.given, kind_in_words(found.st_mode), "files, folders and links")
    return State(
        kind,
        mode=stat.S_IMODE(found.st_mode),
        size=found.st_size if kind == "file" else 0,
        target=os.readlink(place.name, dir_fd=place.folder) if kind == "link" else "",
        mtime=found.st_mtime_ns,
        owner=(found.st_uid, found.st_gid),
    )


def hash_of(opened: int, poll: Callable[[], None] | None = None) -> str:
    hashing = hashlib.sha256()
    with os.fdopen(os.dup(opened), "rb") as file:
        while piece := file.read(_CHUNK):
            hashing.update(piece)
            if poll is not None:
                poll()
    return hashing.hexdigest()


def check_unchanged(place: PathPlace, seen: os.stat_result | None) -> None:
    """Check, right before something is replaced, that it is what was backed up.

    Raises:
        MidcourseError: another process has just written to it.
    """
    now = place.stat
    if _marks(now) != _marks(seen):
        raise changed_meanwhile(place.given)


def is_unchanged(place: PathPlace, seen: os.stat_result | None) -> bool:
    """Check right before an undo. A folder is the same one whatever is put into it or removed."""
    now = place.stat
    if now is not None and seen is not None and stat.S_ISDIR(now.st_mode) and stat.S_ISDIR(seen.st_mode):
        return os.path.samestat(now, seen)
    return _marks(now) == _marks(seen)


def _marks(found: os.stat_result | None) -> tuple[int, ...]:
    if found is None:
        return ()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns
