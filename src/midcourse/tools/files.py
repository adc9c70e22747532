"""Files below one folder: read, write, edit, move, delete and list them, and take every change back.

Nothing asked of these tools leads out of the folder (``rooted``), a kill never leaves half a file (``placing``), and
what a call changed is undone from its key alone, in any process on this machine (``changes``, ``backups``).
"""

import base64
import binascii
import io
import os
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final, Literal

import msgspec

from midcourse.errors import MidcourseError, encodable_text
from midcourse.tools.atomic_files import made_folder, rename_new, stage
from midcourse.tools.backups import Backups, ChangedPlace, Rename, default_backups
from midcourse.tools.file_changes import Changes, folders_made
from midcourse.tools.file_state import ABSENT, State, check_unchanged, kind_of, outline_at, sha256, state_at
from midcourse.tools.observers import file
from midcourse.tools.root_folder import FOLDER, PathPlace, Root, opened_file
from midcourse.tools.tool_errors import (
    bad_argument,
    changed_meanwhile,
    exists_already,
    not_found,
    too_large,
    wrong_kind,
)
from midcourse.tools.toolset import Toolset, end_if_asked, key_of_this_call

Encoding = Literal["utf-8", "base64"]

LIMIT: Final = 10_000_000
BACKUP_LIMIT: Final = 100_000_000
_MOST_ENTRIES: Final = 10_000
_MOST_LISTED: Final = 1_000
_DEEPEST: Final = 100


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a change."""

    path: str
    size: int
    sha256: str = ""


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a deletion."""

    path: str
    entries: int


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a listing."""

    path: str
    kind: Literal["file", "folder", "link", "other"]
    size: int = 0


class Listing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The entries of a folder, sorted by name."""

    entries: tuple[Entry, ...]
    is_cut: bool = False
    """There is more than is listed."""


def files_in(
    root: str | os.PathLike[str],
    *,
    backups: str | os.PathLike[str] | None = None,
    limit: int = LIMIT,
    backup_limit: int = BACKUP_LIMIT,
) -> "Files":
    """Tools for the files below ``root``. The same set for the same parameters.

    - ``backups``: where what was there before is kept; default ``$XDG_STATE_HOME/midcourse/backups``, else
      ``~/.local/state/midcourse/backups``. It cannot be inside the root.
    - ``limit``: the largest file that is read or written, in bytes.
    - ``backup_limit``: the most that one call may overwrite or delete, in bytes.
    """
    kept = os.path.realpath(default_backups() if backups is None else backups)
    return _made(os.path.realpath(root), kept, limit=limit, backup_limit=backup_limit)


class Files(Toolset):
    """The tools of one folder. Give them to an agent one by one: ``run.step("write", files.write, path, text)``."""

    def __init__(self, root: str, backups: str, *, limit: int, backup_limit: int) -> None:
        if limit < 0 or backup_limit < 0:
            raise bad_argument("The limits of files_in are numbers of bytes, 0 or more.", "limit")
        if _contains(root, backups) or _contains(backups, root):
            raise bad_argument(
                f"The backups at {backups} would be among the files of {root}. Give files_in another backups folder.",
                "backups",
            )
        super().__init__(files_in, root=root, backups=backups, limit=limit, backup_limit=backup_limit)
        self.root = root
        self.backups = backups
        self._limit = limit
        self._root = Root(root)
        self._backups = Backups(backups, limit=backup_limit)
        self._changes = Changes(self._root, self._backups)
        looked_at = file("path", root=root)
        changing: dict[str, Any] = {"effect": "write", "local": True, "undo": self.undo}
        self.read = self._tool(self._read, "read", "read_file", effect="read", observes=looked_at)
        self.list = self._tool(self._list, "list", "list_files", effect="read")
        self.write = self._tool(self._write, "write", "write_file", observes=looked_at, **changing)
        self.edit = self._tool(self._edit, "edit", "edit_file", observes=looked_at, **changing)
        self.move = self._tool(self._move, "move", "move_file", **changing)
        self.delete = self._tool(self._delete, "delete", "delete_file", **changing)

    def undo(self, arguments: Mapping[str, Any], result: object, key: str) -> None:
        """Take back what was done under ``key``. This is the undo of each tool here, and of tools built from them."""
        del arguments, result  # the key says all
        self._changes.undo(key)

    # ---- what the tools do

    def _read(self, path: str, encoding: Encoding = "utf-8") -> str:
        """Read a file. Use encoding 'base64' for one that is not UTF-8 text."""
        with self._root.at(path) as place:
            content = self._content(place)
        if encoding == "base64":
            return base64.b64encode(content).decode()
        return _text(path, content, "Read it with encoding='base64'.")

    def _list(self, path: str = ".", recursive: bool = False) -> Listing:
        """List what is in a folder: names, kinds and sizes. Links are named, not followed."""
        with self._root.at(path) as place:
            return _listing(place, recursive=recursive)

    def _write(self, path: str, content: str, encoding: Encoding = "utf-8") -> FileChange:
        """Write a file, new or over what it held; missing folders are made. Encoding 'base64' is for binary content."""
        try:
            new = base64.b64decode(content, validate=True) if encoding == "base64" else content.encode()
        except (UnicodeEncodeError, binascii.Error) as error:
            raise bad_argument(f"The content for '{path}' is not {encoding}: {error}.", "content") from error
        self._check_size(path, len(new))
        with self._root.at(path) as place:
            return self._put(place, new, tool="write")

    def _edit(self, path: str, old: str, new: str) -> FileChange:
        """Replace the text 'old', which must stand in the file exactly once, by 'new'."""
        with self._root.at(path) as place:
            content = self._content(place)
            text = _text(path, content, "Only text can be edited.")
            at = text.find(old)
            if not old or at < 0 or text.find(old, at + 1) >= 0:
                raise _not_once(path, text, old)
            changed = (text[:at] + new + text[at + len(old) :]).encode()
            self._check_size(path, len(changed))
            return self._put(place, changed, tool="edit", was=sha256(content))

    def _move(self, source: str, destination: str, overwrite: bool = False) -> FileChange:
        """Move or rename a file, a link or a folder. 'destination' is its full new path; missing folders are made."""
        key = key_of_this_call()
        self._backups.open()
        with self._root.at(source, follow=False) as old, self._root.at(destination, follow=False) as new:
            seen, in_the_way = old.stat, new.stat
            what, over = self._check_move(old, new, overwrite=overwrite)
            over = self._backups.keep(new)
            moved = Rename(old.real, new.real, what, over)
            with (
                self._changes.recorded("move", key, pieces=folders_made(new), moved=moved),
                made_folder(new) as folder,
            ):
                end_if_asked()
                check_unchanged(old, seen)
                check_unchanged(new, in_the_way)
                if _are_two_names(seen, in_the_way):
                    os.unlink(old.name, dir_fd=old.folder)  # a rename would leave both
                elif in_the_way is None:
                    _take_name(new, old.folder, old.name, folder)
                else:
                    os.rename(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=folder)
                os.fsync(folder)
                os.fsync(old.folder)
        return FileChange(path=destination, size=what.size, sha256=what.content)

    def _delete(self, path: str, recursive: bool = False) -> Deletion:
        """Delete a file, a link (not what it leads to) or an empty folder; with 'recursive' also what is in it."""
        key = key_of_this_call()
        self._backups.open()
        with self._root.at(path, follow=False) as place:
            outline = outline_at(place)
            if outline is ABSENT:
                raise not_found(path)
            _check_not_root(place)
            if outline.kind == "folder" and not recursive and _names_in(place):
                raise MidcourseError(
                    f"The folder '{path}' is not empty. Delete it with recursive=True if all of it should go.",
                    code="not_empty",
                    path=path,
                )
            pieces = list(self._tree(place))
            with self._changes.recorded("delete", key, pieces=pieces):
                for piece in pieces:
                    end_if_asked()
                    with self._root.exactly(piece.path) as one:
                        _delete_one(one, piece.before)
        return Deletion(path=path, entries=len(pieces))

    # ---- how they do it

    def _put(self, place: PathPlace, content: bytes, *, tool: str, was: str | None = None) -> FileChange:
        key = key_of_this_call()
        self._backups.open()
        seen = place.stat
        before = self._backups.keep(place)
        if before.kind == "folder":
            raise wrong_kind(place.given, "a folder", "files")
        if before.kind == "link" or (was is not None and before.content != was):
            raise changed_meanwhile(place.given)
        digest = sha256(content)
        after = State("file", mode=before.mode, content=digest, size=len(content))
        pieces = [*folders_made(place), ChangedPlace(place.real, before, after)]
        like = State("file", mode=before.mode, owner=before.owner)
        with self._changes.recorded(tool, key, pieces=pieces) as temp, made_folder(place) as folder:
            stage(folder, io.BytesIO(content), like, temp=temp)
            end_if_asked()
            check_unchanged(place, seen)
            if seen is None:
                _take_name(place, folder, temp, folder)
            else:
                os.rename(temp, place.name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        return FileChange(path=place.given, size=len(content), sha256=digest)

    def _content(self, place: PathPlace) -> bytes:
        with opened_file(place) as opened, os.fdopen(os.dup(opened), "rb") as reading:
            self._check_size(place.given, os.fstat(opened).st_size)
            content = reading.read(self._limit + 1)
        self._check_size(place.given, len(content))
        return content

    def _check_size(self, path: str, size: int) -> None:
        if size > self._limit:
            raise too_large(f"'{path}'", size, self._limit, "Give files_in a larger limit if it is meant to.")

    def _check_move(self, old: PathPlace, new: PathPlace, *, overwrite: bool) -> tuple[State, State]:
        _check_not_root(old)
        what, over = state_at(old, end_if_asked), outline_at(new)
        if what.kind == "absent":
            raise not_found(old.given)
        if new.real[: len(old.real)] == old.real:
            raise bad_argument(
                f"'{old.given}' cannot be moved to '{new.given}': that is itself, or inside.", "destination"
            )
        if over.kind == "folder":
            raise exists_already(new.given, "It is a folder: give the new path in full, with the name at its end.")
        if over.kind != "absent" and (what.kind == "folder" or not overwrite):
            advice = (
                "Choose another name." if what.kind == "folder" else "Pass overwrite=True if it should be replaced."
            )
            raise exists_already(new.given, advice)
        return what, over

    def _tree(self, place: PathPlace) -> Iterator[ChangedPlace]:
        """Yield the states of a place and all in it, contents kept, innermost first."""
        found = place.stat
        device = None if found is None else found.st_dev
        count = spent = 0

        def gather(real: tuple[str, ...]) -> Iterator[ChangedPlace]:
            nonlocal count, spent
            end_if_asked()
            count += 1
            if count > _MOST_ENTRIES or len(real) - len(place.real) > _DEEPEST:
                raise MidcourseError(
                    f"'{place.given}' holds more than {_MOST_ENTRIES:,} entries, or folders more than {_DEEPEST} deep. "
                    "Delete parts of it.",
                    code="too_many",
                    path=place.given,
                )
            with self._root.exactly(real) as one:
                before = self._backups.keep(one, spent=spent)
                spent += before.size
                inside = one.stat
                if inside is not None and inside.st_dev != device:
                    raise wrong_kind("/".join(real), "another file system", "files of one")
                names = _names_in(one) if before.kind == "folder" else []
            for name in names:
                yield from gather((*real, name))
            yield ChangedPlace(real, before, ABSENT)

        yield from gather(place.real)


_made: Final = cache(Files)


def _contains(folder: str, path: str) -> bool:
    return os.path.commonpath((folder, path)) == folder


def _check_not_root(place: PathPlace) -> None:
    if not place.real:
        raise bad_argument("The root itself stays where it is. Name something in it.", "path")


def _text(path: str, content: bytes, advice: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise MidcourseError(f"'{path}' is not UTF-8 text. {advice}", code="not_text", path=path) from error


def _not_once(path: str, text: str, old: str) -> MidcourseError:
    if not old:
        return bad_argument("The text to be replaced is empty. Give the exact text that is to go.", "old")
    if old not in text:
        return MidcourseError(
            f"'{path}' does not hold that text. Read it again, and copy the text exactly, blanks and line ends too.",
            code="text_not_found",
            path=path,
        )
    at = text.find(old)
    first, second = (text.count("\n", 0, place) + 1 for place in (at, text.find(old, at + 1)))
    return MidcourseError(
        f"'{path}' holds that text more than once (lines {first} and {second}). Give more of the text around it.",
        code="text_not_unique",
        path=path,
    )


def _names_in(place: PathPlace) -> list[str]:
    opened = os.open(place.name, FOLDER, dir_fd=place.folder)
    try:
        return sorted(os.listdir(opened))
    finally:
        os.close(opened)


def _are_two_names(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Return True if two places are names of one file, but not one name in two spellings, if the system has those."""
    return one is not None and other is not None and os.path.samestat(one, other) and one.st_nlink > 1


def _take_name(place: PathPlace, old_folder: int, old: str, folder: int) -> None:
    """Rename to a place where nothing was, and nothing that has come since is replaced."""
    try:
        rename_new(old_folder, old, folder, place.name)
    except FileExistsError as error:
        raise changed_meanwhile(place.given) from error


def _delete_one(place: PathPlace, before: State) -> None:
    now = outline_at(place)
    if (now.kind, now.size, now.target) != (before.kind, before.size, before.target) or (
        now.kind == "file" and now.mtime != before.mtime
    ):
        raise changed_meanwhile(place.given)
    if before.kind == "folder":
        os.rmdir(place.name, dir_fd=place.folder)
    else:
        os.unlink(place.name, dir_fd=place.folder)


def _listing(place: PathPlace, *, recursive: bool) -> Listing:
    """List the folder at ``place``; with ``recursive``, also those inside."""
    outline = outline_at(place)
    if outline.kind == "absent":
        raise not_found(place.given)
    if outline.kind != "folder":
        raise wrong_kind(place.given, f"a {outline.kind}", "folders")
    path = "/".join(name for name in place.given.split("/") if name not in {"", "."})
    found = tuple(islice(_entries(place, path, recursive=recursive), _MOST_LISTED + 1))
    return Listing(entries=found[:_MOST_LISTED], is_cut=len(found) > _MOST_LISTED)


def _entries(place: PathPlace, prefix: str, *, recursive: bool) -> Iterator[Entry]:
    """Yield the entries of a folder, each folder before its own. Only nested folders are open at the same time."""
    opened = os.open(place.name, FOLDER, dir_fd=place.folder)
    try:
        for name in sorted(os.listdir(opened)):
            path = f"{prefix}/{name}" if prefix else name
            inner = PathPlace(given=path, folder=opened, name=name, real=(*place.real, name))
            found = inner.stat
            if found is None:
                continue  # it has just gone
            kind = kind_of(found.st_mode)
            yield Entry(path=encodable_text(path), kind=kind, size=found.st_size if kind == "file" else 0)
            if kind == "folder" and recursive and len(inner.real) < _DEEPEST:
                yield from _entries(inner, path, recursive=recursive)
    finally:
        os.close(opened)
