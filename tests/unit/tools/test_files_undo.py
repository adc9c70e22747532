"""What a call of the file tools changed is taken back exactly, from its key alone, or not touched at all."""

import base64
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midcourse.clock import SystemClock
from midcourse.errors import InvalidInput, MidcourseError
from midcourse.tools.backups import Pruned, prune_backups
from midcourse.tools.file_state import is_unchanged
from midcourse.tools.files import Files, files_in
from midcourse.tools.root_folder import PathPlace
from tests.unit.tools.tool_calls import under, undo
from tests.unit.tools.trees import tree

OLD = 1_000_000_000_123_456_789
"""A time of change, in nanoseconds."""


def _plant(root: Path) -> None:
    """Folders, files, binary content, modes, and links of every kind."""
    (root / "src/deep").mkdir(parents=True)
    (root / "empty").mkdir(mode=0o700)
    (root / "src/main.py").write_text("print('one')\nprint('two')\n")
    (root / "src/deep/image.bin").write_bytes(bytes(range(256)))
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "secret").write_text("s")
    (root / "secret").chmod(0o600)
    (root / "src/deep").chmod(0o750)
    (root / "link").symlink_to("src/main.py")
    (root / "src/to_deep").symlink_to("deep")
    (root / "dangling").symlink_to("nowhere/at/all")
    (root / os.fsdecode(b"odd-\xff")).write_text("odd")
    os.utime(root / "run.sh", ns=(OLD, OLD))


CALLS: dict[str, Callable[[Files], object]] = {
    "write a new file": lambda files: files.write("new", "text"),
    "write a new file in new folders": lambda files: files.write("a/b/c/new", "text"),
    "write over": lambda files: files.write("run.sh", "text"),
    "write binary": lambda files: files.write("src/deep/image.bin", base64.b64encode(b"\xff\xfe").decode(), "base64"),
    "write through a link": lambda files: files.write("link", "text"),
    "write through a link that leads nowhere": lambda files: files.write("dangling", "text"),
    "write what is there": lambda files: files.write("run.sh", "#!/bin/sh\n"),
    "edit": lambda files: files.edit("src/main.py", "one", "three"),
    "move": lambda files: files.move("run.sh", "a/b/run"),
    "move a link": lambda files: files.move("link", "src/link"),
    "move a folder": lambda files: files.move("src", "a/b/src"),
    "move over": lambda files: files.move("run.sh", "src/main.py", True),
    "move over a link": lambda files: files.move("run.sh", "dangling", True),
    "move over the same content": lambda files: files.move("secret", "secret2", True),
    "delete": lambda files: files.delete("run.sh"),
    "delete a link": lambda files: files.delete("dangling"),
    "delete an empty folder": lambda files: files.delete("empty"),
    "delete a folder": lambda files: files.delete("src", True),
}


@pytest.fixture
def planted(root: Path) -> Path:
    _plant(root)
    (root / "secret2").write_text("s")
    return root


@pytest.mark.parametrize("call", CALLS)
def test_an_undo_leaves_the_tree_as_it_was_and_may_run_again(files: Files, planted: Path, call: str) -> None:
    before = tree(planted)
    under("key", CALLS[call], files)
    changed = tree(planted)
    assert (changed == before) == (call == "write what is there")

    undo(files.write, "key")
    assert tree(planted) == before
    assert (planted / "run.sh").stat().st_mtime_ns == OLD or call == "write what is there"
    undo(files.write, "key")
    assert tree(planted) == before


def test_a_call_that_changed_nothing_has_nothing_to_undo(files: Files, planted: Path) -> None:
    files.write("first", "so that there are backups")
    before = tree(planted)
    undo(files.write, "never called")

    assert tree(planted) == before


def test_no_backups_at_all_means_that_nobody_can_tell(files: Files, planted: Path) -> None:
    with pytest.raises(MidcourseError, match="machine where it was made") as refused:
        undo(files.write, "key")

    assert refused.value.code == "cannot_undo"


def test_calls_are_undone_newest_first(files: Files, root: Path) -> None:
    under("first", files.write, "a", "one")
    under("second", files.write, "a", "two")
    under("third", files.move, "a", "b")
    under("fourth", files.delete, "b")
    for key, left in (("fourth", {"b": b"two"}), ("third", {"a": b"two"}), ("second", {"a": b"one"}), ("first", {})):
        undo(files.write, key)
        assert {name: found.content for name, found in tree(root).items()} == left


def test_several_calls_under_one_key_are_undone_together(files: Files, planted: Path) -> None:
    before = tree(planted)

    def body() -> None:
        files.write("a/b", "one")
        files.move("a/b", "run.sh", True)
        files.edit("run.sh", "one", "two")
        files.delete("src", True)

    under("key", body)
    files.undo({}, None, "key")
    assert tree(planted) == before


@pytest.mark.parametrize("call", [call for call in CALLS if call != "write what is there"])
def test_what_somebody_else_changed_since_is_not_touched(files: Files, planted: Path, call: str) -> None:
    before = tree(planted)
    under("key", CALLS[call], files)
    after = tree(planted)
    for path in sorted({*before, *after}):
        there = planted / path
        if before.get(path) == after.get(path) or there.is_dir() or not there.parent.is_dir():
            continue
        there.unlink(missing_ok=True)
        there.write_text("theirs")
    theirs = tree(planted)
    if theirs == after:
        return  # it only made or moved folders, which an undo never empties
    with pytest.raises(MidcourseError, match="changed by another program since") as refused:
        undo(files.write, "key")

    assert refused.value.code == "changed_since"
    assert tree(planted) == theirs


@pytest.mark.parametrize("change", ["content", "mode", "gone", "link", "folder"])
def test_any_kind_of_change_is_noticed(files: Files, root: Path, change: str) -> None:
    target = root / "a"
    target.write_text("old")
    under("key", files.write, "a", "new")
    match change:
        case "content":
            target.write_text("mew")
        case "mode":
            target.chmod(0o600)
        case "gone":
            target.unlink()
        case "link":
            target.unlink()
            target.symlink_to("b")
        case _:
            target.unlink()
            target.mkdir()
    theirs = tree(root)
    with pytest.raises(MidcourseError) as refused:
        undo(files.write, "key")

    assert refused.value.code == "changed_since"
    assert tree(root) == theirs


def test_a_folder_that_the_call_made_stays_if_somebody_uses_it(files: Files, root: Path) -> None:
    under("key", files.write, "a/b/c", "text")
    (root / "a/theirs").write_text("theirs")
    undo(files.write, "key")

    assert set(tree(root)) == {"a", "a/theirs"}


@pytest.mark.parametrize("call", ["write over", "write a new file", "move over", "delete", "delete a link", "move"])
def test_what_comes_between_the_look_and_the_undo_is_not_overwritten(
    files: Files, planted: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    target = planted / {"write a new file": "new", "delete a link": "dangling", "move": "a/b/run"}.get(call, "run.sh")
    under("key", CALLS[call], files)

    def last_look(place: PathPlace, seen: os.stat_result | None) -> bool:
        target.write_text("theirs")
        return is_unchanged(place, seen)

    monkeypatch.setattr("midcourse.tools.file_changes.is_unchanged", last_look)
    with pytest.raises(MidcourseError) as refused:
        undo(files.write, "key")

    assert refused.value.code == "changed_since"
    assert target.read_text() == "theirs"
    assert not list(planted.rglob(".midcourse-*"))


def test_a_damaged_backup_is_not_put_back(files: Files, root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("old")
    under("key", files.write, "a", "new")
    for content in (tmp_path / "backups/contents").glob("*/*"):
        content.write_text("damaged")
    with pytest.raises(MidcourseError, match="damaged") as refused:
        undo(files.write, "key")

    assert refused.value.code == "cannot_undo"
    assert (root / "a").read_text() == "new"


def test_a_damaged_record_is_not_taken_for_none(files: Files, tmp_path: Path) -> None:
    under("key", files.write, "a", "new")
    for record in (tmp_path / "backups/records").glob("*/*.json"):
        record.write_text("{")
    with pytest.raises(MidcourseError, match="damaged"):
        undo(files.write, "key")


def test_nobody_else_may_read_the_backups(files: Files, root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("secret")
    files.write("a", "new")

    for path in (tmp_path / "backups").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_another_process_can_undo(files: Files, planted: Path) -> None:
    before = tree(planted)
    under("key", files.delete, "src", True)
    program = (
        "import sys; from midcourse.runtime.tools import find_tool; find_tool(sys.argv[1]).undo({}, None, sys.argv[2])"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program, files.delete.origin, "key"], check=True, timeout=30)

    assert tree(planted) == before


# ---- keeping the backups small


def test_pruned_backups_are_missed_and_not_taken_for_nothing_done(files: Files, root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("x" * 1_000)
    under("old", files.write, "a", "new")
    under("undone", files.write, "b", "b")
    undo(files.write, "undone")
    assert prune_backups(3600, backups=str(tmp_path / "backups")) == Pruned(0, 0, 0)
    assert prune_backups(0, backups=str(tmp_path / "backups")) == Pruned(1, 1, 1_000)

    with pytest.raises(MidcourseError, match="pruned") as refused:
        undo(files.write, "old")
    assert refused.value.code == "cannot_undo"
    undo(files.write, "undone")
    assert prune_backups(0, backups=str(tmp_path / "missing")) == Pruned(0, 0, 0)


def test_the_newest_backups_that_fit_are_kept(
    files: Files, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        monkeypatch.setattr(SystemClock, "now", staticmethod(partial(float, 1_000_000 + number)))
        (root / f"{number}").write_text(f"{number}" * 1_000)
        under(f"key {number}", files.write, f"{number}", "new")
    assert prune_backups(3600, backups=str(tmp_path / "backups"), at_most=2_500) == Pruned(2, 2, 2_000)

    for number in (3, 2):
        undo(files.write, f"key {number}")
        assert (root / f"{number}").read_text() == f"{number}" * 1_000
    for number in (1, 0):
        with pytest.raises(MidcourseError, match="pruned"):
            undo(files.write, f"key {number}")


def test_an_age_below_zero_is_refused() -> None:
    with pytest.raises(InvalidInput):
        prune_backups(-1)


# ---- any sequence of calls

PATHS = st.sampled_from(
    [
        *("run.sh", "secret", "link", "link/x", "dangling", "empty", "src", "src/main.py", "src/deep"),
        *("src/deep/image.bin", "src/deep/new/x", "src/to_deep", "src/to_deep/image.bin", "src/to_deep/new"),
        *("new", "new/a", "new/a/b"),
    ]
)
CONTENTS = st.binary(max_size=40) | st.just(b"print('one')\nprint('two')\n") | st.just(b"one")
DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, CONTENTS),
        st.tuples(st.just("edit"), PATHS, st.sampled_from(["one", "two", "#!", "print"])),
        st.tuples(st.just("move"), PATHS, PATHS, st.booleans()),
        st.tuples(st.just("delete"), PATHS, st.booleans()),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(doings=DOINGS)
def test_any_calls_undone_newest_first_leave_the_tree_as_it_was(
    doings: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", os.fstat)  # the disk's speed is not what is tested here
    here = tmp_path_factory.mktemp("any")
    root = here / "root"
    root.mkdir()
    _plant(root)
    files = files_in(root, backups=here / "backups")
    files.write("so-that-there-are-backups", "")
    stages = [tree(root)]
    for number, doing in enumerate(doings):
        try:
            under(f"key {number}", _do, files, doing)
        except MidcourseError as error:
            assert error.code != "changed_meanwhile"
            assert tree(root) == stages[-1], f"{doing} failed and left something"
        assert not list(root.rglob(".midcourse-*"))
        stages.append(tree(root))
    for number in reversed(range(len(doings))):
        for _ in range(2):
            undo(files.write, f"key {number}")
            assert tree(root) == stages[number]


def _do(files: Files, doing: tuple[object, ...]) -> None:
    match doing:
        case ("write", str() as path, bytes() as content):
            files.write(path, base64.b64encode(content).decode(), "base64")
        case ("edit", str() as path, str() as old):
            files.edit(path, old, "three")
        case ("move", str() as source, str() as destination, bool() as overwrite):
            files.move(source, destination, overwrite)
        case ("delete", str() as path, bool() as recursive):
            files.delete(path, recursive)
        case _:
            raise AssertionError(doing)
