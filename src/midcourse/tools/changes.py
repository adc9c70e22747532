"""A change to files that can be taken back: recorded before it is made, undone from the record alone.

The undo looks first. Each place must be as the call left it or as it was before; if somebody else has changed one of
them since, it raises and touches nothing. It may be killed and run again, in any process.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from midcourse.runtime.clock import SystemClock
from midcourse.tools.backups import Backups, Moved, Piece, Record
from midcourse.tools.placing import dress_folder, put_file, put_link, remove, temp_name
from midcourse.tools.refusals import changed_since
from midcourse.tools.rooted import Place, Root
from midcourse.tools.states import ABSENT, FOLDER, State, outline_at, state_at


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
        pieces: Sequence[Piece] = (),
        moved: Moved | None = None,
        temps: Sequence[Place] = (),
    ) -> Generator[None]:
        """Make the change in here. It is on record before; if it fails, what it did so far is taken back."""
        record = Record(
            tool=tool,
            key=key,
            root=self._root.path,
            at=SystemClock().now(),
            pieces=tuple(pieces),
            moved=moved,
            temps=tuple((*place.real[:-1], temp_name(key)) for place in temps),
        )
        path = self._backups.write(record)
        try:
            yield
        except BaseException:
            with suppress(Exception):  # what cannot be taken back now stays on record
                self._restore(path, record)
            raise

    def undo(self, key: str) -> None:
        """Take back all that was changed under ``key``; nothing, if nothing was.

        Raises:
            MidcourseError: somebody else has changed it since, or the backup is gone. Nothing was touched.
        """
        for path, record in self._backups.records(self._root.path, key):
            self._restore(path, record)

    def _restore(self, path: Path, record: Record) -> None:
        for temp in record.temps:  # nobody's but this call's, so it may go before the rest is looked at
            with self._root.exactly(temp) as place:
                if not place.missing:
                    remove(place.folder, place.name)
        due = [piece for piece in reversed(record.pieces) if self._is_due(piece)]
        renames_back, puts_back = self._owes_move(record)
        needed = [piece.before for piece in due] + ([record.moved.over] if record.moved and puts_back else [])
        for state in needed:
            if state.kind == "file":
                self._backups.content(state.content)
        # Up to here nothing was touched.
        if (renames_back and puts_back) or any(piece.before.kind == "folder" for piece in due):
            record = self._backups.mark(path, record)  # not one act, so whoever goes on must know
        if record.moved is not None:
            self._move_back(record, record.moved, renames_back=renames_back, puts_back=puts_back)
        for piece in due:
            with self._root.exactly(piece.path) as place:
                self._put_back(place, piece.before, record.key)
        for piece in record.pieces:  # innermost first, when nothing more is made in them
            if piece.before.kind == "folder" and record.undoing:
                with self._root.exactly(piece.path) as place:
                    dress_folder(place, piece.before)
        self._backups.forget(path)

    def _is_due(self, piece: Piece) -> bool:
        """Whether a place must be put back. It is an error if it is neither as it was nor as the call left it."""
        with self._root.exactly(piece.path) as place:
            # A folder that the call made, and anything in it, is looked at when it is removed: only if it is empty.
            now = state_at(place)
            if now.is_same(piece.before):
                return False
            if not now.is_same(piece.after):
                raise changed_since(place.given, now.in_words())
            return True

    def _owes_move(self, record: Record) -> tuple[bool, bool]:
        """Whether a rename must be taken back, and whether what it replaced must be put back."""
        moved = record.moved
        if moved is None:
            return False, False
        with self._root.exactly(moved.source) as source, self._root.exactly(moved.destination) as destination:
            here, there = state_at(source), state_at(destination)
            if here.kind == "absent" and there.is_same(moved.what):
                if source.missing:
                    raise changed_since(source.given, "the folder it was in is gone")
                return True, moved.over.kind != "absent"
            if here.is_same(moved.what) and there.is_same(moved.over):
                return False, False
            if record.undoing and here.is_same(moved.what) and there.kind == "absent":
                return False, True  # an earlier undo came as far as the rename
            wrong, found = (source, here) if here.kind != "absent" else (destination, there)
            raise changed_since(wrong.given, found.in_words())

    def _move_back(self, record: Record, moved: Moved, *, renames_back: bool, puts_back: bool) -> None:
        with self._root.exactly(moved.source) as source, self._root.exactly(moved.destination) as destination:
            if renames_back:
                os.rename(destination.name, source.name, src_dir_fd=destination.folder, dst_dir_fd=source.folder)
                os.fsync(destination.folder)
                os.fsync(source.folder)
            if puts_back:
                self._put_back(destination, moved.over, record.key)

    def _put_back(self, place: Place, before: State, key: str) -> None:
        if before.kind == "absent":
            if not place.missing:
                _take_away(place)
            return
        if place.missing:
            raise changed_since(place.given, "the folder it was in is gone")
        match before.kind:
            case "file":
                with self._backups.content(before.content).open("rb") as content:
                    put_file(place.folder, place.name, content, before, temp=temp_name(key))
            case "link":
                put_link(place.folder, place.name, before, temp=temp_name(key))
            case "folder":
                os.mkdir(place.name, 0o700, dir_fd=place.folder)


def _take_away(place: Place) -> None:
    if outline_at(place).kind == "folder":
        with suppress(OSError):  # not empty: somebody else uses it by now
            os.rmdir(place.name, dir_fd=place.folder)
    else:
        remove(place.folder, place.name)


def folders_made(place: Place) -> list[Piece]:
    """What must be made on the way to a place, outermost first."""
    first = len(place.real) - 1 - len(place.missing)
    return [Piece(place.real[: first + index + 1], ABSENT, FOLDER) for index in range(len(place.missing))]
