"""A program that is killed at every change it makes to the disk, in a call and in its undo, and undoes the rest.

For each point a fork of this program makes the call and is killed there; then the call is undone, once by a fork that
is killed at each point of the undo and once in full. The tree must be as it was, and no file ever half-written.
"""

import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from midcourse.tools.files import Files, files_in
from tests.unit.tools.tool_calls import under, undo
from tests.unit.tools.trees import tree

CHANGES: Final = ("open", "rename", "link", "symlink", "mkdir", "rmdir", "unlink", "fsync", "fchmod", "utime", "write")

CALLS: Final[dict[str, Callable[[Files], object]]] = {
    "write": lambda files: files.write("new/folder/a", "text"),
    "overwrite": lambda files: files.edit("run.sh", "old", "new"),
    "move": lambda files: files.move("run.sh", "new/over"),
    "move over": lambda files: files.move("run.sh", "folder/a", True),
    "delete": lambda files: files.delete("folder", True),
}


def plant(root: Path) -> None:
    """What the calls change."""
    (root / "folder/inner").mkdir(parents=True)
    (root / "folder/a").write_bytes(b"\xff binary")
    (root / "folder/inner/link").symlink_to("../a")
    (root / "run.sh").write_text("old")
    (root / "run.sh").chmod(0o750)
    (root / "folder/inner").chmod(0o750)


def killed_at(point: int, act: Callable[[], object]) -> bool:
    """Whether a fork that acts was killed before its change of that number; False: it makes fewer."""
    child = os.fork()
    if child == 0:
        _act_and_be_killed(point, act)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status != 0


def _act_and_be_killed(point: int, act: Callable[[], object]) -> NoReturn:
    left = point

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return call

    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))
    try:
        act()
    except BaseException:  # noqa: BLE001 - a fork must not come back
        os._exit(1)
    os._exit(0)


def _call(call: Callable[[Files], object], files: Files) -> None:
    under("key", call, files)


def main(folder: Path) -> int:
    """How many kills it survived."""
    kills = 0
    for name, call in CALLS.items():
        here = folder / name.replace(" ", "-")
        root = here / "root"
        plant(root)
        files = files_in(root, backups=here / "backups")
        files.write("so-that-there-are-backups", "")
        before = tree(root)
        whole = {found.content for found in before.values()} | {b"text", b"new"}
        # Every point in the call; in the undos of only some of them, or it would be the square.
        for point in itertools.count():
            was_killed = killed_at(point, partial(_call, call, files))
            kills += was_killed
            for path, found in tree(root).items():
                assert found.content in whole or ".midcourse-" in path, (name, point, path)
            for inner in itertools.count() if point % 7 == 0 or not was_killed else ():
                kills += 1
                if not killed_at(inner, partial(undo, files.write, "key")):
                    break
            undo(files.write, "key")
            assert tree(root) == before, (name, point, tree(root).keys() ^ before.keys())
            if not was_killed:
                break
        shutil.rmtree(here)
    return kills


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
