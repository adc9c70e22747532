"""List a folder: names, kinds and sizes, links not followed."""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal

import msgspec

from midcourse.errors import encodable_text
from midcourse.tools.file_state import outline_at
from midcourse.tools.root_folder import FOLDER, PathPlace
from midcourse.tools.tool_errors import not_found, wrong_kind

_MOST: Final = 1_000
_DEEPEST: Final = 100


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


def listing_of(place: PathPlace, *, recursive: bool) -> Listing:
    """List the folder at ``place``; with ``recursive``, also those inside."""
    outline = outline_at(place)
    if outline.kind == "absent":
        raise not_found(place.given)
    if outline.kind != "folder":
        raise wrong_kind(place.given, f"a {outline.kind}", "folders")
    path = "/".join(name for name in place.given.split("/") if name not in {"", "."})
    found = tuple(islice(_entries(place, path, recursive=recursive), _MOST + 1))
    return Listing(entries=found[:_MOST], is_cut=len(found) > _MOST)


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
            kind = _kind(found.st_mode)
            yield Entry(path=encodable_text(path), kind=kind, size=found.st_size if kind == "file" else 0)
            if kind == "folder" and recursive and len(inner.real) < _DEEPEST:
                yield from _entries(inner, path, recursive=recursive)
    finally:
        os.close(opened)


def _kind(mode: int) -> Literal["file", "folder", "link", "other"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
