"""Nothing that is asked of the file tools leads out of their root."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from midcourse.errors import InvalidInput, MidcourseError
from midcourse.tools.files import Files
from midcourse.tools.observers import file
from tests.unit.tools.tool_calls import under
from tests.unit.tools.trees import tree

CALLS: dict[str, Callable[[Files, str], object]] = {
    "read": lambda files, path: files.read(path),
    "list": lambda files, path: files.list(path),
    "write": lambda files, path: files.write(path, "mine"),
    "edit": lambda files, path: files.edit(path, "secret", "mine"),
    "move from": lambda files, path: files.move(path, "taken"),
    "move to": lambda files, path: files.move("a.txt", path, True),
    "delete": lambda files, path: files.delete(path, True),
}

PATHS = [
    "../outside/secret.txt",
    "folder/../../outside/secret.txt",
    "folder/..",
    "..",
    "./..",
    "/etc/passwd",
    "//etc/passwd",
    "{outside}/secret.txt",
    "{root}/a.txt",
    "to_folder/secret.txt",
    "to_folder/new.txt",
    "folder/up/outside/secret.txt",
    "folder/up/outside/deep/new.txt",
    "chain/secret.txt",
    "absolute_up/outside/secret.txt",
    "to_missing/deep/new.txt",
    "loop/a",
    "",
    "a\0b",
]
# These end in a link. Where the tool works on the link itself, it is not followed.
LINKS = ["to_file", "to_folder", "chain", "to_missing", "folder/up", "loop"]
FOLLOWING = ["read", "list", "write", "edit"]


@pytest.fixture
def outside(root: Path) -> Path:
    """A neighbour of the root, and links that lead to it in every way."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (root / "folder").mkdir()
    (root / "a.txt").write_text("a")
    (root / "to_file").symlink_to(outside / "secret.txt")
    (root / "to_folder").symlink_to("../outside")
    (root / "to_missing").symlink_to(outside / "missing")
    (root / "folder/up").symlink_to("../..")
    (root / "chain").symlink_to("folder/up/outside")
    (root / "absolute_up").symlink_to(f"{root}/folder/../..")
    (root / "loop").symlink_to("loop")
    return outside


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("call", CALLS)
def test_a_path_that_leads_out_is_refused_and_nothing_is_changed(
    files: Files, root: Path, outside: Path, call: str, path: str
) -> None:
    before = tree(root.parent)
    with pytest.raises(InvalidInput) as refused:
        CALLS[call](files, path.format(root=root, outside=outside))

    assert refused.value.code == ("outside_root" if path and "\0" not in path else "invalid_input")
    after = tree(root.parent)
    assert {name: after[name] for name in after if not name.startswith("backups")} == before


@pytest.mark.parametrize("path", LINKS)
@pytest.mark.parametrize("call", FOLLOWING)
def test_a_link_at_the_end_is_refused_where_it_would_be_followed(
    files: Files, root: Path, outside: Path, call: str, path: str
) -> None:
    before = tree(root), tree(outside)
    with pytest.raises(InvalidInput, match="refused: ") as refused:
        CALLS[call](files, path)

    assert refused.value.code == "outside_root"
    assert (tree(root), tree(outside)) == before


@pytest.mark.parametrize("path", LINKS)
def test_a_link_that_leads_out_can_itself_be_moved_replaced_and_deleted(
    files: Files, root: Path, outside: Path, path: str
) -> None:
    before = tree(outside)
    files.move(path, "elsewhere")
    files.move("a.txt", "elsewhere", True)
    assert (root / "elsewhere").read_text() == "a"
    (root / "elsewhere").unlink()
    (root / "elsewhere").symlink_to(outside)
    files.delete("elsewhere", True)

    assert tree(outside) == before


def test_a_link_that_stays_inside_is_followed(files: Files, root: Path) -> None:
    (root / "releases/3").mkdir(parents=True)
    (root / "releases/3/a.txt").write_text("three")
    (root / "current").symlink_to("releases/3")
    (root / "absolute").symlink_to(root / "releases" / "3" / "a.txt")
    (root / "releases/up").symlink_to("../current/./a.txt")
    (root / "top").symlink_to(root)

    assert [files.read(path) for path in ("current/a.txt", "absolute", "releases/up", "top/absolute")] == ["three"] * 4
    assert [one.path for one in files.list("current").entries] == ["current/a.txt"]
    assert len(files.list("top").entries) == 4
    files.write("absolute", "four")
    files.write("current/new/b.txt", "b")
    assert (root / "releases/3/a.txt").read_text() == "four"
    assert (root / "releases/3/new/b.txt").read_text() == "b"
    assert (root / "absolute").is_symlink()


def test_a_dangling_link_inside_is_written_through(files: Files, root: Path) -> None:
    (root / "link").symlink_to("folder/new.txt")
    files.write("link", "text")

    assert (root / "folder/new.txt").read_text() == "text"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names in one act")
def test_a_folder_that_becomes_a_link_between_check_and_use_leads_nowhere(
    files: Files, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    inside, trap = root / "d", root / "trap"
    inside.mkdir()
    (inside / "a.txt").write_text("inside")
    trap.symlink_to(outside)
    done = threading.Event()
    exchange = ctypes.CDLL(None).renameat2

    def swap() -> None:
        while not done.is_set():
            assert exchange(-100, os.fsencode(inside), -100, os.fsencode(trap), 2) == 0

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(300):
            for call in (
                lambda: files.write("d/a.txt", "inside"),
                lambda n=number: files.write(f"d/{n}/new.txt", "inside"),
                lambda: files.read("d/a.txt"),
                lambda: files.move("d/a.txt", "d/b.txt"),
                lambda: files.move("d/b.txt", "d/a.txt"),
            ):
                with suppress(MidcourseError):
                    assert call() != "secret"
    finally:
        done.set()
        swapping.join()

    assert {name: found.content for name, found in tree(outside).items()} == {"a.txt": b"secret"}


def test_an_undo_does_not_follow_a_link_that_has_come_since(files: Files, root: Path, outside: Path) -> None:
    (root / "d").mkdir()
    (root / "d/secret.txt").write_text("secret")
    before = tree(outside)
    under("key", files.delete, "d/secret.txt")
    (root / "d").rmdir()
    (root / "d").symlink_to(outside)
    with pytest.raises(MidcourseError, match="changed by another program since") as refused:
        files.undo({}, None, "key")

    assert refused.value.code == "changed_since"
    assert tree(outside) == before


@pytest.mark.parametrize("path", ["../outside/secret.txt", "to_file", "to_folder/secret.txt", "/etc/passwd"])
async def test_an_observer_does_not_look_outside_either(root: Path, outside: Path, path: str) -> None:
    arguments: dict[str, Any] = {"path": path}
    looking = file("path", root=root)
    assert looking.resource(arguments).startswith("file:/")
    with pytest.raises(InvalidInput):
        await looking.version(arguments)


def test_no_descriptor_stays_open(files: Files, root: Path, outside: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for path in [*PATHS, *LINKS, "folder", "a.txt", "folder/x/y"]:
        for call in CALLS.values():
            with suppress(MidcourseError):
                call(files, path.format(root=root, outside=outside))

    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)
