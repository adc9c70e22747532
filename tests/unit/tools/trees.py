"""A folder as a value: what is in it, byte for byte, so that two looks can be compared."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Found(NamedTuple):
    """One entry of a tree."""

    kind: str
    mode: int
    content: bytes | str


def tree(root: Path) -> dict[str, Found]:
    """Everything below a folder: kinds, modes, contents, where links lead."""
    return dict(_entries(root, ""))


def _entries(folder: Path, prefix: str) -> Iterator[tuple[str, Found]]:
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        path, found = Path(entry.path), os.lstat(entry.path)
        mode = stat.S_IMODE(found.st_mode)
        if entry.is_symlink():
            yield prefix + entry.name, Found("link", 0, os.readlink(path))
        elif entry.is_dir():
            yield prefix + entry.name, Found("folder", mode, b"")
            yield from _entries(path, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, Found("file", mode, path.read_bytes())
