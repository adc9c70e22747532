"""The file tools do what they say, and say what is wrong."""

import base64
import io
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from midcourse.errors import InterruptRequested, InvalidInput, MidcourseError
from midcourse.runtime.calls import CurrentCall
from midcourse.runtime.tools import find_tool, registered_tools, tool_of
from midcourse.tools.atomic_files import stage
from midcourse.tools.backups import default_backups, forget_backups
from midcourse.tools.file_state import State, sha256
from midcourse.tools.files import Files, files_in
from midcourse.tools.root_folder import FOLDER
from tests.unit.tools.tool_calls import under
from tests.unit.tools.trees import tree


def test_what_is_written_can_be_read(files: Files, root: Path) -> None:
    written = files.write("notes/today/a.txt", "héllo\r\n")

    assert (root / "notes/today/a.txt").read_bytes() == "héllo\r\n".encode()
    assert files.read("notes/today/a.txt") == "héllo\r\n"
    assert (written.path, written.size) == ("notes/today/a.txt", 8)
    assert [name for name in os.listdir(root / "notes/today") if name != "a.txt"] == []


def test_binary_content_goes_in_and_out_as_base64(files: Files, root: Path) -> None:
    content = bytes(range(256))
    files.write("a.bin", base64.b64encode(content).decode(), "base64")

    assert (root / "a.bin").read_bytes() == content
    assert base64.b64decode(files.read("a.bin", "base64")) == content
    with pytest.raises(MidcourseError, match="not UTF-8 text. Read it with encoding='base64'") as refused:
        files.read("a.bin")
    assert refused.value.code == "not_text"


def test_a_write_keeps_the_mode_and_a_new_file_gets_the_usual_one(files: Files, root: Path) -> None:
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o750)
    (root / "plain").touch()
    files.write("run.sh", "#!/bin/sh\ntrue\n")
    files.write("new", "")

    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750
    assert (root / "new").stat().st_mode == (root / "plain").stat().st_mode


def test_an_edit_replaces_the_one_place(files: Files, root: Path) -> None:
    (root / "a.py").write_bytes(b"one\r\ntwo\r\n")
    files.edit("a.py", "two", "three")

    assert (root / "a.py").read_bytes() == b"one\r\nthree\r\n"


@pytest.mark.parametrize(
    ("text", "old", "code", "says"),
    [
        ("one\ntwo\n", "three", "text_not_found", "does not hold that text"),
        ("one\ntwo\none\n", "one", "text_not_unique", "more than once \\(lines 1 and 3\\)"),
        ("aaa", "aa", "text_not_unique", "lines 1 and 1"),
        ("one", "", "invalid_input", "is empty"),
    ],
)
def test_an_edit_that_is_not_clear_changes_nothing(
    files: Files, root: Path, text: str, old: str, code: str, says: str
) -> None:
    (root / "a.txt").write_text(text)
    with pytest.raises(MidcourseError, match=says) as refused:
        files.edit("a.txt", old, "new")

    assert refused.value.code == code
    assert (root / "a.txt").read_text() == text


def test_a_move_takes_files_links_and_folders_anywhere_below_the_root(files: Files, root: Path) -> None:
    (root / "a").mkdir()
    (root / "a/file").write_text("text")
    (root / "link").symlink_to("a/file")
    files.move("a", "deep/er/b")
    files.move("link", "deep/link")

    assert set(tree(root)) == {"deep", "deep/er", "deep/er/b", "deep/er/b/file", "deep/link"}
    assert os.readlink(root / "deep/link") == "a/file"


@pytest.mark.parametrize(
    ("source", "destination", "code"),
    [
        ("a", "b", "exists_already"),
        ("a", "folder", "exists_already"),
        ("folder", "b", "exists_already"),
        ("a", "a", "invalid_input"),
        ("folder", "folder/inside", "invalid_input"),
        ("missing", "c", "not_found"),
        (".", "c", "invalid_input"),
        ("a", "b/c", "file_error"),
    ],
)
def test_a_move_that_would_lose_something_is_refused(
    files: Files, root: Path, source: str, destination: str, code: str
) -> None:
    (root / "a").write_text("a")
    (root / "b").write_text("b")
    (root / "folder").mkdir()
    before = tree(root)
    with pytest.raises(MidcourseError) as refused:
        files.move(source, destination)

    assert refused.value.code == code
    assert tree(root) == before


def test_a_move_may_overwrite_if_told_so(files: Files, root: Path) -> None:
    (root / "a").write_text("a")
    (root / "b").write_text("b")
    files.move("a", "b", True)

    assert {name: found.content for name, found in tree(root).items()} == {"b": b"a"}


def test_two_names_of_one_file_become_one_by_a_move(files: Files, root: Path) -> None:
    (root / "a").write_text("a")
    os.link(root / "a", root / "b")
    under("key", files.move, "a", "b", True)
    assert set(tree(root)) == {"b"}

    files.undo({}, None, "key")
    assert set(tree(root)) == {"a", "b"}


def test_a_delete_takes_a_link_and_not_what_it_leads_to(files: Files, root: Path) -> None:
    (root / "a").write_text("a")
    (root / "link").symlink_to("a")
    files.delete("link")

    assert set(tree(root)) == {"a"}


def test_a_folder_that_is_not_empty_goes_only_if_told_so(files: Files, root: Path) -> None:
    (root / "d/e").mkdir(parents=True)
    (root / "d/e/f").write_text("f")
    with pytest.raises(MidcourseError, match="recursive=True") as refused:
        files.delete("d")
    assert refused.value.code == "not_empty"

    assert files.delete("d", True).entries == 3
    assert tree(root) == {}


def test_a_listing_names_everything_and_follows_nothing(files: Files, root: Path) -> None:
    (root / "d").mkdir()
    (root / "d/f").write_text("four")
    (root / "link").symlink_to("d")
    os.mkfifo(root / "pipe")

    assert [(one.path, one.kind, one.size) for one in files.list().entries] == [
        ("d", "folder", 0),
        ("link", "link", 0),
        ("pipe", "other", 0),
    ]
    assert [one.path for one in files.list(".", True).entries] == ["d", "d/f", "link", "pipe"]
    assert [one.path for one in files.list("d").entries] == ["d/f"]
    with pytest.raises(MidcourseError, match="is a file, and this tool is for folders"):
        files.list("d/f")


def test_a_long_listing_says_that_it_is_cut(files: Files, root: Path) -> None:
    for number in range(1_001):
        (root / f"{number}").touch()
    listing = files.list()

    assert (len(listing.entries), listing.is_cut) == (1_000, True)


def test_a_name_that_is_not_unicode_is_listed_so_that_it_can_be_journaled(files: Files, root: Path) -> None:
    (root / os.fsdecode(b"\xff.txt")).write_text("")

    assert [one.path for one in files.list().entries] == ["\\udcff.txt"]


def _too_large_to_read(files: Files, root: Path) -> object:
    (root / "large").write_bytes(b"x" * 10_001)
    return files.read("large")


def _too_large_to_write(files: Files, root: Path) -> object:
    return files.write("large", "x" * 10_001)


def _too_large_to_edit(files: Files, root: Path) -> object:
    (root / "a").write_bytes(b"x" * 9_999 + b"y")
    return files.edit("a", "y", "yyy")


def _too_large_to_delete(files: Files, root: Path) -> object:
    (root / "large").mkdir()
    for name in range(6):
        (root / "large" / f"{name}").write_bytes(b"x" * 9_999)
    return files.delete("large", True)


@pytest.mark.parametrize("ask", [_too_large_to_read, _too_large_to_write, _too_large_to_edit, _too_large_to_delete])
def test_what_is_too_large_is_refused_with_the_limit(
    files: Files, root: Path, ask: Callable[[Files, Path], object]
) -> None:
    with pytest.raises(MidcourseError, match="too large") as refused:
        ask(files, root)

    assert refused.value.code == "too_large"
    assert all(found.kind == "folder" or len(found.content) >= 9_999 for found in tree(root).values())


@pytest.mark.parametrize("tool", ["read", "write", "edit", "delete", "move"])
def test_pipes_sockets_and_devices_are_left_alone(files: Files, root: Path, tool: str) -> None:
    os.mkfifo(root / "pipe")
    arguments = {"write": ("x",), "edit": ("a", "b"), "move": ("elsewhere",)}.get(tool, ())
    with pytest.raises(MidcourseError, match="a pipe") as refused:
        getattr(files, tool)("pipe", *arguments)

    assert refused.value.code == "wrong_kind"


def test_what_is_missing_is_named_as_it_was_asked_for(files: Files) -> None:
    for ask in (files.read, files.delete, partial(files.edit, old="a", new="b")):
        with pytest.raises(MidcourseError, match="There is no 'a/b.txt'") as refused:
            ask("a/b.txt")
        assert refused.value.code == "not_found"


def test_a_root_that_is_not_there_is_said_when_it_is_used(tmp_path: Path) -> None:
    made = files_in(tmp_path / "missing", backups=tmp_path / "backups")
    with pytest.raises(InvalidInput, match="cannot be opened"):
        made.read("a")


def test_the_backups_cannot_lie_among_the_files(tmp_path: Path) -> None:
    for backups in (tmp_path, tmp_path / "root", tmp_path / "root/deep"):
        with pytest.raises(InvalidInput, match="another backups folder"):
            files_in(tmp_path / "root", backups=backups)


def test_backups_lie_with_the_users_other_state() -> None:
    assert default_backups({"XDG_STATE_HOME": "/state"}) == "/state/midcourse/backups"
    assert default_backups({"XDG_STATE_HOME": "state"}) == os.path.expanduser("~/.local/state/midcourse/backups")
    assert default_backups({}) == os.path.expanduser("~/.local/state/midcourse/backups")


# ---- what they declare


def test_the_same_parameters_give_the_same_tools(files: Files, root: Path, tmp_path: Path) -> None:
    again = files_in(f"{root}/../root", backups=tmp_path / "backups", limit=10_000, backup_limit=50_000)

    assert again is files


def test_a_tool_is_found_again_by_its_origin(root: Path, tmp_path: Path) -> None:
    made = files_in(root, backups=tmp_path / "elsewhere")
    origin = made.write.origin
    assert origin.startswith("midcourse.tools.files:files_in({")
    assert registered_tools()[origin] is made.write

    # As another process would: from the origin alone.
    cast("dict[str, object]", registered_tools()).pop(origin)
    assert find_tool(origin) is made.write
    assert tool_of(made.write) is made.write


def test_what_changes_something_can_be_undone_and_the_rest_changes_nothing(files: Files) -> None:
    kinds = {made.name: made.kind for made in files.tools}

    assert kinds == {
        "read_file": "read",
        "list_files": "read",
        "write_file": "reversible",
        "edit_file": "reversible",
        "move_file": "reversible",
        "delete_file": "reversible",
    }
    assert all(made.settles_in == 0 and not made.is_async for made in files.tools)
    assert {made.name for made in files.tools if made.observes} == {"read_file", "write_file", "edit_file"}


def test_models_are_told_what_the_parameters_are(files: Files) -> None:
    schema = files.write.schema

    assert schema["description"].startswith("Write a file")
    assert schema["parameters"]["required"] == ["path", "content"]
    assert schema["parameters"]["properties"]["encoding"]["enum"] == ["base64", "utf-8"]


def test_a_call_that_is_asked_to_end_does_so_before_it_changes_anything(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("old")
    monkeypatch.setattr(CurrentCall, "cancelled", True)
    before = tree(root)
    calls: list[Callable[[], object]] = [
        partial(files.write, "a", "new"),
        partial(files.delete, "a"),
        partial(files.move, "a", "d/b"),
    ]
    for call in calls:
        with pytest.raises(InterruptRequested):
            under("key", call)

    assert tree(root) == before


# ---- somebody else writes at the same time


def test_what_somebody_else_writes_just_now_is_not_overwritten(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("old")
    rename = os.fsync

    def meanwhile(opened: int) -> None:
        (root / "a").write_text("theirs")
        rename(opened)

    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(MidcourseError, match="changed by another program just now") as refused:
        files.write("a", "new")

    assert refused.value.code == "changed_meanwhile"
    assert {name: found.content for name, found in tree(root).items()} == {"a": b"theirs"}


def test_what_somebody_else_writes_at_the_last_moment_is_not_overwritten(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("old")
    monkeypatch.setattr("midcourse.tools.files.end_if_asked", partial((root / "a").write_text, "theirs"))
    for call in (partial(files.write, "a", "new"), partial(files.move, "a", "b"), partial(files.delete, "a")):
        with pytest.raises(MidcourseError) as refused:
            call()
        assert refused.value.code == "changed_meanwhile"
        assert {name: found.content for name, found in tree(root).items()} == {"a": b"theirs"}
        (root / "a").write_text("old")


def test_a_call_that_fails_leaves_nothing_behind(files: Files, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename

    def full(source: str, target: str, **folders: int) -> None:
        if "src_dir_fd" in folders:
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", full)
    monkeypatch.setattr(os, "link", full)
    with pytest.raises(MidcourseError, match="no space is left"):
        files.write("deep/er/a", "text")

    assert tree(root) == {}


def test_a_name_that_somebody_takes_at_the_last_moment_is_theirs(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("mine")
    link = os.link

    def meanwhile(source: str, target: str, **folders: Any) -> None:
        (root / "b").write_text("theirs")
        link(source, target, **folders)

    monkeypatch.setattr(os, "link", meanwhile)
    for call in (partial(files.move, "a", "b"), partial(files.write, "b", "mine")):
        with pytest.raises(MidcourseError) as refused:
            call()
        assert refused.value.code == "changed_meanwhile"
        assert {name: found.content for name, found in tree(root).items()} == {"a": b"mine", "b": b"theirs"}
        (root / "b").unlink()


def test_two_threads_under_one_key_do_not_swap_what_they_write(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)
    monkeypatch.setattr("midcourse.tools.files.end_if_asked", partial(both.wait, 20))  # both are staged by then
    with ThreadPoolExecutor(2) as threads:
        writes = [threads.submit(under, "key", files.write, name, name) for name in ("a", "b")]
        for write in writes:
            write.result(30)
    assert {name: found.content for name, found in tree(root).items()} == {"a": b"a", "b": b"b"}

    files.undo({}, None, "key")
    assert tree(root) == {}


def test_setuid_does_not_go_to_another_owner(files: Files, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").write_text("old")
    (root / "a").chmod(0o4755)
    under("one", files.write, "a", "new")
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o4755  # the owner is the same

    outline = State("file", mode=0o6755, owner=(os.getuid() + 1, os.getgid()))
    monkeypatch.setattr(os, "fchown", _may_not)
    opened = os.open(root, FOLDER)
    try:
        stage(opened, io.BytesIO(b"new"), outline, temp="staged")
        with pytest.raises(MidcourseError, match="changed while it was read"):
            stage(opened, io.BytesIO(b"new"), State("file", content=sha256(b"old")), temp="damaged")
    finally:
        os.close(opened)
    assert stat.S_IMODE((root / "staged").stat().st_mode) == 0o755


def _may_not(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_path_that_is_too_deep_is_refused_before_anything_is_made(files: Files, root: Path) -> None:
    (root / "link").symlink_to("/".join(["l"] * 60))
    before = tree(root)
    for path in ("a/" * 100 + "x", "./" * 2_100 + "x", "link/" + "b/" * 50 + "x"):
        with pytest.raises(InvalidInput, match="too long") as refused:
            files.write(path, "text")
        assert refused.value.code == "path_too_long"
    assert tree(root) == before


def test_a_backup_folder_that_others_may_use_is_refused(root: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o777)
    made = files_in(root, backups=wide)
    asked: list[Callable[[], object]] = [partial(made.write, "a", "text"), partial(made.undo, {}, None, "key")]
    for ask in asked:
        with pytest.raises(MidcourseError, match="no other user may access") as refused:
            ask()
        assert refused.value.code == "backups_not_private"
    assert tree(root) == {}
    assert forget_backups({"key"}, backups=str(wide)).records == 0, "it keeps nothing, and hinders no erasing"


def test_the_lock_of_the_backups_is_no_link_and_no_one_elses(files: Files, root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("old")
    files.write("a", "new")
    lock = tmp_path / "backups/lock"
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MidcourseError):
        files.write("a", "newer")
    assert not (tmp_path / "elsewhere").exists()


def test_a_move_of_a_large_file_ends_when_it_is_asked_to(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (root / "large").open("wb") as large:
        large.truncate(3 << 20)
    asked: list[int] = []
    monkeypatch.setattr("midcourse.tools.files.end_if_asked", lambda: asked.append(1))
    files.move("large", "b")

    assert len(asked) >= 3
