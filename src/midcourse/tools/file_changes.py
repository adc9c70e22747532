"""A change to files that can be taken back: recorded before it is made, undone from the record alone.

The undo checks first. Each place must be as the call left it or as it was before; if one of them was changed since, it
raises and touches nothing. It may be killed and run again, in any process.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from midcourse.clock import SystemClock
from midcourse.tools.atomic_files import dress_folder, put_file, put_link, remove, rename_new
from midcourse.tools.backups import Backups, CallRecord, ChangedPlace, Rename
from midcourse.tools.file_state import ABSENT, FOLDER, State, is_unchanged, outline_at, state_at
from midcourse.tools.root_folder import PathPlace, Root
from midcourse.tools.tool_errors import changed_since

_JUST_NOW: Final = "something came there just now"


class Changes:
    """The changes that are made below one root, with their backups."""

    def __init__(self, root: Root, backups: Backups) -> None:
        self._root = root
        self._backups = backups

    @contextmanager
    def recorded(
        self,
        tool: str,
        key: str,
        *,
        pieces: Sequence[ChangedPlace] = (),
        moved: Rename | None = None,
    ) -> Generator[str]:
        """Record the change made in this block, before it is made. If the block fails, the change is undone."""
        temp = f".midcourse-{SystemClock().fresh_id()}.tmp"
        changed = [piece.path for piece in pieces] + ([moved.destination] if moved else [])
        record = CallRecord(
            tool=tool,
            key=key,
            root=self._root.path,
            at=SystemClock().now(),
            pieces=tuple(pieces),
            moved=moved,
            temp=temp,
            temps=tuple((*folder, temp) for folder in sorted({path[:-1] for path in changed})),
        )
        path = self._backups.write(record)
        try:
            yield temp
        except BaseException:
            with suppress(Exception):  # what cannot be undone now stays on record
                self._restore(path, record)
            raise

    def undo(self, key: str) -> None:
        """Take back all that was changed under ``key``, if anything.

        Raises:
            MidcourseError: it was changed since, or the backup is gone. Nothing was touched.
        """
        for path, record in self._backups.records(self._root.path, key):
            self._restore(path, record)

    def _restore(self, path: Path, record: CallRecord) -> None:
        for left in record.temps:  # only this call's, so it may go before the rest is checked
            with self._root.exactly(left) as place:
                if not place.missing:
                    remove(place.folder, place.name)
        looks = [(piece, *self._look(piece)) for piece in reversed(record.pieces)]
        due = [(piece, seen) for piece, is_due, seen in looks if is_due]
        renames_back, puts_back, moved_seen = self._owes_move(record)
        needed = [piece.before for piece, _ in due] + ([record.moved.over] if record.moved and puts_back else [])
        for state in needed:
            if state.kind == "file":
                with self._backups.content(state.content):
                    pass
        # Up to here nothing was touched.
        if (renames_back and puts_back) or any(piece.before.kind == "folder" for piece, _ in due):
            record = self._backups.mark(path, record)  # not one act, so the process that continues must know
        if record.moved is not None:
            with self._root.exactly(record.moved.source) as source, self._root.exactly(record.moved.destination) as now:
                if renames_back:
                    _rename_back(now, source, moved_seen)
                if puts_back:
                    self._put_back(now, record.moved.over, None, record.temp)
        for piece, seen in due:
            with self._root.exactly(piece.path) as place:
                self._put_back(place, piece.before, seen, record.temp)
        for piece in record.pieces:  # innermost first, when nothing more is made in them
            if piece.before.kind == "folder" and record.undoing:
                with self._root.exactly(piece.path) as place:
                    dress_folder(place, piece.before)
        self._backups.forget(path)

    def _look(self, piece: ChangedPlace) -> tuple[bool, os.stat_result | None]:
        """Return if a place must be put back, and its state, to be checked again right before that.

        Raises:
            MidcourseError: it is neither as it was nor as the call left it.
        """
        with self._root.exactly(piece.path) as place:
            seen = place.stat
            # A folder that the call made, and anything in it, is checked when it is removed: only if it is empty.
            now = state_at(place)
            if now.is_same(piece.before):
                return False, seen
            if not now.is_same(piece.after):
                raise changed_since(place.given, now.in_words())
            return True, seen

    def _owes_move(self, record: CallRecord) -> tuple[bool, bool, os.stat_result | None]:
        """Return if a rename must be taken back, if the replaced file must be put back, and the state there."""
        moved = record.moved
        if moved is None:
            return False, False, None
        with self._root.exactly(moved.source) as source, self._root.exactly(moved.destination) as destination:
            seen, at_source = destination.stat, source.stat
            here, there = state_at(source), state_at(destination)
            replaced = moved.over.kind != "absent"
            if _is_one(at_source, seen) and here.is_same(moved.what) and (record.undoing or not replaced):
                return True, replaced, seen  # killed in the middle of a rename, one way or the other
            if here.kind == "absent" and there.is_same(moved.what):
                if source.missing:
                    raise changed_since(source.given, "the folder it was in is gone")
                return True, replaced, seen
            if here.is_same(moved.what) and there.is_same(moved.over):
                return False, False, seen
            if record.undoing and here.is_same(moved.what) and there.kind == "absent":
                return False, True, seen  # an earlier undo came as far as the rename
            wrong, found = (source, here) if here.kind != "absent" else (destination, there)
            raise changed_since(wrong.given, found.in_words())

    def _put_back(self, place: PathPlace, before: State, seen: os.stat_result | None, temp: str) -> None:
        def check() -> None:
            _check_still(place, seen)

        if before.kind == "absent":
            if not place.missing:
                check()
                _take_away(place)
            return
        if place.missing:
            raise changed_since(place.given, "the folder it was in is gone")
        folder, name, is_new = place.folder, place.name, seen is None
        try:
            match before.kind:
                case "file":
                    with self._backups.content(before.content) as content:
                        put_file(folder, name, content, before, temp=temp, is_new=is_new, check=check)
                case "link":
                    put_link(folder, name, before, temp=temp, is_new=is_new, check=check)
                case "folder":
                    os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError as error:
            raise changed_since(place.given, _JUST_NOW) from error


def _rename_back(place: PathPlace, source: PathPlace, seen: os.stat_result | None) -> None:
    _check_still(place, seen)
    if _is_one(source.stat, seen):
        os.unlink(place.name, dir_fd=place.folder)
    else:
        try:
            rename_new(place.folder, place.name, source.folder, source.name)
        except FileExistsError as error:
            raise changed_since(source.given, _JUST_NOW) from error
    os.fsync(place.folder)
    os.fsync(source.folder)


def _check_still(place: PathPlace, seen: os.stat_result | None) -> None:
    if not is_unchanged(place, seen):
        raise changed_since(place.given, _JUST_NOW)


def _is_one(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    return one is not None and other is not None and os.path.samestat(one, other)


def _take_away(place: PathPlace) -> None:
    if outline_at(place).kind == "folder":
        with suppress(OSError):  # not empty: it is used by now
            os.rmdir(place.name, dir_fd=place.folder)
    else:
        remove(place.folder, place.name)


def folders_made(place: PathPlace) -> list[ChangedPlace]:
    """Return the folders to make on the way to a place, outermost first."""
    first = len(place.real) - 1 - len(place.missing)
    return [ChangedPlace(place.real[: first + index + 1], ABSENT, FOLDER) for index in range(len(place.missing))]
