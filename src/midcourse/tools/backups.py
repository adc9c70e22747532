"""Back up what a call of the file tools changes: contents by their hash, and a record by the call's key.

A record is on the disk before anything is changed, and is gone once the call is undone. So no record means that the
call changed nothing. A record that was pruned leaves a mark, because "changed nothing" would then be a lie.
"""

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from midcourse.clock import SystemClock
from midcourse.errors import MidcourseError
from midcourse.tools.file_state import State, check_unchanged, hash_of, outline_at
from midcourse.tools.root_folder import FILE, PathPlace, opened_file
from midcourse.tools.tool_errors import bad_argument, cannot_undo, changed_meanwhile, explained_os_errors, too_large
from midcourse.tools.toolset import end_if_asked

_CHUNK: Final = 1 << 20
_PRUNED: Final = "pruned"
_USED: Final[set[str]] = set()
"""The folders of backups that this process has used."""


class ChangedPlace(msgspec.Struct, frozen=True):
    """One place that a call changes: its path from the root, what was there, what the call means to leave."""

    path: tuple[str, ...]
    before: State
    after: State


class Rename(msgspec.Struct, frozen=True):
    """A rename: what went where, and what it took the place of."""

    source: tuple[str, ...]
    destination: tuple[str, ...]
    what: State
    over: State


class CallRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call's changes, in the order in which it makes them."""

    tool: str
    key: str
    root: str
    at: float
    temp: str
    """The name of half-written files, this change's alone."""
    pieces: tuple[ChangedPlace, ...] = ()
    moved: Rename | None = None
    temps: tuple[tuple[str, ...], ...] = ()
    """Where half-written files may be, of the call or of its undo."""
    undoing: bool = False
    """An undo has begun: places may stand between what was and what was left."""

    def contents(self) -> Iterator[str]:
        """Yield the hashes of the contents that the undo may need."""
        states = [piece.before for piece in self.pieces] + ([self.moved.over] if self.moved else [])
        return (state.content for state in states if state.content)


class Pruned(msgspec.Struct, frozen=True):
    """The result of ``prune_backups``."""

    records: int
    contents: int
    bytes: int


def default_backups(environment: Mapping[str, str] | None = None) -> str:
    """Return the default place of backups: with this user's other state."""
    known = os.environ if environment is None else environment
    state = known.get("XDG_STATE_HOME", "")
    # The specification has it that a relative one is to be ignored.
    base = Path(state) if state.startswith("/") else Path("~/.local/state").expanduser()
    return str(base / "midcourse" / "backups")


class Backups:
    """A folder of contents and records. ``limit`` is the most that one call may put into it, in bytes."""

    def __init__(self, path: str, *, limit: int) -> None:
        _USED.add(path)
        self.path = Path(path)
        self.limit = limit

    # ---- before a change

    def open(self) -> None:
        """Make the folder. No other user may read it: it holds the content of other files."""
        with explained_os_errors(str(self.path)):
            for folder in self._folders:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_private()

    def keep(self, place: PathPlace, *, spent: int = 0) -> State:
        """Return the state of ``place``, with its content kept here. ``spent``: bytes the call has kept before.

        Raises:
            MidcourseError: it would be more than the limit, or another process writes to it.
        """
        seen, state = place.stat, outline_at(place)
        if state.kind != "file":
            return state
        if spent + state.size > self.limit:
            advice = (
                "The change of a larger one could not be undone: give files_in a larger backup_limit, or do it by hand."
            )
            raise too_large(f"The backup of '{place.given}'", spent + state.size, self.limit, advice)
        with opened_file(place) as opened, self._locked(fcntl.LOCK_SH):
            digest, size = self._keep(opened, state.size)
        if size != state.size:
            raise changed_meanwhile(place.given)
        check_unchanged(place, seen)
        return msgspec.structs.replace(state, content=digest)

    def write(self, record: CallRecord) -> Path:
        """Put a record on the disk for good; the file it is in."""
        folder = self._folder(record.root, record.key)
        with explained_os_errors(str(self.path)), self._locked(fcntl.LOCK_SH):
            if not all(self._content(digest).exists() for digest in record.contents()):
                raise MidcourseError("The backup was pruned while it was made. Call again.", code="backup_pruned")
            folder.mkdir(mode=0o700, exist_ok=True)
            with _opened(folder) as opened:
                fcntl.flock(opened, fcntl.LOCK_EX)  # two calls under one key do not take the same number
                taken = [int(name.stem) for name in folder.glob("*.json")]
                path = folder / f"{max(taken, default=0) + 1:06d}.json"
                _write_durably(path, _encoded(record))
            _sync(folder.parent)
        return path

    # ---- for an undo

    def records(self, root: str, key: str) -> list[tuple[Path, CallRecord]]:
        """Return the records of a call, newest first. Usually one: a step's own function may call several tools.

        Raises:
            MidcourseError: there was one, and it was pruned or damaged; or this machine has no backups.
        """
        if not self.path.is_dir():
            raise cannot_undo(
                f"There are no backups at {self.path}, so this cannot tell what the call changed. "
                "Undo it on the machine where it was made."
            )
        self._check_private()
        folder = self._folder(root, key)
        if (folder / _PRUNED).exists():
            raise cannot_undo(
                f"The backup of this call was pruned from {self.path}, so it cannot be undone. Compare by hand."
            )
        return [(path, _read(path)) for path in sorted(folder.glob("*.json"), reverse=True)]

    def mark(self, path: Path, record: CallRecord) -> CallRecord:
        """Note that the undo has begun, for a later process that must complete it."""
        marked = msgspec.structs.replace(record, undoing=True)
        with explained_os_errors(str(self.path)):
            _write_durably(path, _encoded(marked))
        return marked

    def forget(self, path: Path) -> None:
        """Forget the record of an undone call: a second undo finds nothing to do."""
        path.unlink(missing_ok=True)
        _sync(path.parent)
        with suppress(OSError):
            path.parent.rmdir()

    @contextmanager
    def content(self, digest: str) -> Generator[BinaryIO]:
        """Yield the open file that holds a content, checked, at its beginning.

        Raises:
            MidcourseError: it is missing or was changed.
        """
        path = self._content(digest)
        try:
            file = os.fdopen(os.open(path, FILE), "rb")
        except OSError as error:
            raise cannot_undo(f"The backup {path} cannot be read: {error.strerror}. Nothing was touched.") from error
        with file:
            if hash_of(file.fileno()) != digest:
                raise cannot_undo(f"The backup {path} is damaged: its content is not what its name says.")
            file.seek(0)
            yield file

    # ---- keeping it small

    def prune(self, older_than: float, at_most: int | None) -> Pruned:
        """Remove records by age, then the oldest beyond ``at_most`` bytes, then contents that no record needs."""
        oldest, total, needed = SystemClock().now() - older_than, 0, set[str]()
        is_over = False

        def is_due(record: CallRecord) -> bool:
            nonlocal total, needed, is_over
            new = set(record.contents()) - needed
            total += sum(map(self._size, new))
            is_over = is_over or record.at < oldest or (at_most is not None and total > at_most)
            needed |= new
            return is_over

        return self._remove(is_due, orphans=True) if self.path.is_dir() else Pruned(0, 0, 0)

    def forget_calls(self, keys: Collection[str]) -> Pruned:
        """Remove the records of the calls with these keys, and the contents that no other record needs."""
        if not keys or not any((self.path / "records").glob("*/*.json")):
            return Pruned(0, 0, 0)  # nothing was kept here, or the folder was refused before anything could be
        return self._remove(lambda record: record.key in keys)

    def _remove(self, is_due: Callable[[CallRecord], bool], *, orphans: bool = False) -> Pruned:
        """Remove the records that are due, asked from the newest to the oldest, and contents that no other needs.

        ``orphans``: also look for such contents if no record is due.
        """
        self._check_private()
        removed = contents = size = 0
        with explained_os_errors(str(self.path)), self._locked(fcntl.LOCK_EX):
            known: list[tuple[Path, CallRecord]] = []
            for path in (self.path / "records").glob("*/*.json"):
                with suppress(MidcourseError):  # a damaged one stays, to be seen
                    known.append((path, _read(path)))
            needed: set[str] = set()
            for path, record in sorted(known, key=lambda one: one[1].at, reverse=True):
                if is_due(record):
                    (path.parent / _PRUNED).touch(mode=0o600)
                    path.unlink()
                    removed += 1
                else:
                    needed |= set(record.contents())
            for path in (self.path / "contents").rglob("*") if removed or orphans else ():
                if path.is_file() and path.name not in needed:
                    size += path.stat().st_size
                    path.unlink()
                    contents += 1
        return Pruned(removed, contents, size)

    # ---- inside

    @property
    def _folders(self) -> tuple[Path, ...]:
        return self.path, self.path / "contents", self.path / "records"

    def _check_private(self) -> None:
        """Refuse a folder that others may write, which an undo would believe, or may read."""
        for folder in self._folders:
            try:
                found = folder.lstat()
            except FileNotFoundError:
                continue
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise MidcourseError(
                    f"The backups at {folder} are refused: it must be a folder of this user that no other user may "
                    f"access. Run 'chmod 700 {folder}' if it is yours, or give files_in another backups folder.",
                    code="backups_not_private",
                    path=str(folder),
                )

    def _folder(self, root: str, key: str) -> Path:
        named = hashlib.sha256(os.fsencode(root) + b"\0" + key.encode("utf-8", "backslashreplace"))
        return self.path / "records" / named.hexdigest()

    def _content(self, digest: str) -> Path:
        return self.path / "contents" / digest[:2] / digest

    def _size(self, digest: str) -> int:
        try:
            return self._content(digest).stat().st_size
        except FileNotFoundError:
            return 0

    def _keep(self, opened: int, most: int) -> tuple[str, int]:
        """Copy what an open file holds, and name the copy by its hash."""
        with explained_os_errors(str(self.path)):
            temp = self.path / "contents" / f"{SystemClock().fresh_id()}.tmp"
            hashing, size = hashlib.sha256(), 0
            try:
                with _created(temp) as copy:
                    while piece := os.read(opened, _CHUNK):
                        end_if_asked()
                        hashing.update(piece)
                        size += len(piece)
                        if size > most:  # it grows while it is read: the caller sees that it is not what it was
                            break
                        copy.write(piece)
                    copy.flush()
                    os.fsync(copy.fileno())
                path = self._content(hashing.hexdigest())
                if not path.exists():
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    temp.rename(path)
                    _sync(path.parent)
                    _sync(path.parent.parent)
            finally:
                temp.unlink(missing_ok=True)
        return hashing.hexdigest(), size

    @contextmanager
    def _locked(self, how: int) -> Generator[None]:
        """Shared while something is kept, alone while something is pruned."""
        opened = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(opened, how)
            yield
        finally:
            os.close(opened)


def prune_backups(older_than: float, *, backups: str | None = None, at_most: int | None = None) -> Pruned:
    """Remove what the file tools kept more than ``older_than`` seconds ago, and the oldest beyond ``at_most`` bytes.

    A call whose backup is pruned can no longer be undone: its undo fails, and says why.
    """
    if older_than < 0 or (at_most is not None and at_most < 0):
        raise bad_argument("older_than is in seconds and at_most in bytes; neither is below 0.", "older_than")
    return Backups(os.path.realpath(backups or default_backups()), limit=0).prune(older_than, at_most)


def forget_backups(keys: Collection[str], *, backups: str | None = None) -> Pruned:
    """Remove what the file tools kept for calls with these keys. None of them can be undone any more.

    ``backups`` is the folder that ``files_in`` was given; without it the usual one, and those used in this process.
    """
    folders = {os.path.realpath(backups)} if backups else {os.path.realpath(default_backups()), *_USED}
    done: list[Pruned] = []
    refused: list[MidcourseError] = []
    for folder in sorted(folders):
        try:
            done.append(Backups(folder, limit=0).forget_calls(keys))
        except MidcourseError as error:  # the other folders are no less to be forgotten
            refused.append(error)
    if refused:
        raise refused[0]
    return Pruned(*(sum(each) for each in zip(*map(msgspec.structs.astuple, done), strict=True)))


def _encoded(record: CallRecord) -> bytes:
    # Not msgspec's JSON: the names of files need not be Unicode, and this spells what is not as escapes.
    return json.dumps(msgspec.to_builtins(record), ensure_ascii=True, indent=1).encode()


def _read(path: Path) -> CallRecord:
    try:
        found: Any = json.loads(path.read_bytes())
        return msgspec.convert(found, CallRecord)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise cannot_undo(f"The record {path} is damaged ({error}), so its call cannot be undone by itself.") from error


def _write_durably(path: Path, content: bytes) -> None:
    temp = path.with_suffix(".tmp")
    temp.unlink(missing_ok=True)
    with _created(temp) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temp.rename(path)
    _sync(path.parent)


def _created(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


def _sync(folder: Path) -> None:
    """Have a folder's names on the disk."""
    with _opened(folder) as opened:
        os.fsync(opened)
