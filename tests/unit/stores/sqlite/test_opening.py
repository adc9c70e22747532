"""Whatever keeps a store from being opened is told in a sentence that says what to do, and changes nothing."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from midcourse.core.ids import SessionId
from midcourse.errors import Damaged, InvalidInput, MidcourseError, StoreUnavailable
from midcourse.stores.sqlite import SqliteStore, connection
from midcourse.testing.store_promises.fixtures import SESSION, started
from tests.promises.damage import damage_id


async def refusal(path: Path) -> MidcourseError:
    with pytest.raises(MidcourseError) as refused:
        await SqliteStore.open(path)
    assert str(path.parent) in str(refused.value)
    return refused.value


async def test_files_are_made_for_this_user_alone(path: Path, store: SqliteStore) -> None:
    await started(store)
    files = [file for file in path.parent.iterdir() if file.is_file()]
    assert {file.name for file in files} == {"midcourse.db", "midcourse.db-wal", "midcourse.db-shm"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_a_store_is_found_again(path: Path) -> None:
    store = await SqliteStore.open(path)
    await started(store)
    await store.close()
    again = await SqliteStore.open(str(path))
    assert (await again.head(SESSION)).head.id == SESSION
    assert again.name == f"sqlite:///{path}"
    await again.close()


async def test_many_may_make_a_store_at_the_same_time(path: Path) -> None:
    stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(8)))
    await asyncio.gather(*(started(store, SessionId(f"sess_{number}")) for number, store in enumerate(stores)))
    assert len(await stores[0].heads()) == 8
    for store in stores:
        await store.close()


async def test_a_link_to_a_store_is_the_store(path: Path, store: SqliteStore, tmp_path: Path) -> None:
    await started(store)
    (tmp_path / "link.db").symlink_to(path)
    linked = await SqliteStore.open(tmp_path / "link.db")
    assert linked.name == store.name
    await linked.close()


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    error = await refusal(tmp_path / "nowhere" / "midcourse.db")
    assert (error.code, "Make it" in str(error)) == ("folder_missing", True)


async def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    error = await refusal(tmp_path)
    assert error.code == "is_directory"
    assert str(tmp_path / "midcourse.db") in str(error)


@pytest.mark.parametrize("content", [b"hello, world\n" * 100, b"SQLite format 3\x00" + b"\xff" * 4096])
async def test_another_file_is_not_a_store(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    error = await refusal(path)
    assert isinstance(error, StoreUnavailable)
    assert error.code == "not_a_store"
    assert path.read_bytes() == content


async def test_the_database_of_another_program_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE sessions (id TEXT)")
    content = path.read_bytes()
    error = await refusal(path)
    assert error.code == "not_a_store"
    assert path.read_bytes() == content


async def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    store = await SqliteStore.open(path)
    await started(store)
    await store.close()


def _spoil(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


async def test_a_newer_schema_is_refused(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
    _spoil(path, "UPDATE meta SET value = '5'")
    error = await refusal(path)
    assert isinstance(error, StoreUnavailable)
    assert error.code == "store_newer"
    assert "schema 5" in str(error)
    assert "Upgrade" in str(error)


async def test_a_store_without_shelves_is_given_them(path: Path, store: SqliteStore) -> None:
    await started(store)
    await store.close()
    with closing(sqlite3.connect(path)) as before:
        before.executescript("DROP TABLE shelves; UPDATE meta SET value = '1' WHERE name = 'schema'")
    again = await SqliteStore.open(path)
    await again.shelve("a shelf", {"key": b"content"})
    assert await again.shelved("a shelf") == [("key", b"content")]
    assert (await again.head(SESSION)).head.id == SESSION
    await again.close()


@pytest.mark.parametrize("statement", ["UPDATE meta SET value = 'one'", "DELETE FROM meta", "DROP TABLE meta"])
async def test_a_store_without_a_schema_is_damaged(path: Path, statement: str) -> None:
    await (await SqliteStore.open(path)).close()
    _spoil(path, statement)
    assert isinstance(await refusal(path), Damaged)


async def test_a_store_cut_short_is_damaged(path: Path) -> None:
    store = await SqliteStore.open(path)
    for number in range(50):
        await started(store, SessionId(f"sess_{number}"))
    await store.close()
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(Damaged, match="restore it from a backup"):
        await _listed(path)


async def _listed(path: Path) -> None:
    store = await SqliteStore.open(path)
    try:
        await store.heads()
    finally:
        await store.close()


def _read_only_file(path: Path) -> None:
    path.chmod(0o400)


def _read_only_folder(path: Path) -> None:
    path.parent.chmod(0o500)


def _no_file_in_a_read_only_folder(path: Path) -> None:
    path.unlink()
    path.parent.chmod(0o500)


@pytest.mark.parametrize(
    ("what", "spoil"),
    [
        ("cannot be read and written", _read_only_file),
        ("cannot be written by this user", _read_only_folder),
        ("cannot be made", _no_file_in_a_read_only_folder),
    ],
)
async def test_a_place_without_permission_is_named(what: str, spoil: Callable[[Path], None]) -> None:
    # Not in pytest's folder, which every other run that begins makes its user's alone.
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "theirs"
        folder.mkdir()
        path = folder / "midcourse.db"
        await (await SqliteStore.open(path)).close()
        spoil(path)
        try:
            answer = _opened_by_somebody(path) if os.getuid() == 0 else await _opened_by_us(path)
        finally:
            folder.chmod(0o700)
    assert answer.startswith("no_permission ")
    assert what in answer
    assert "Change the permissions" in answer


async def _opened_by_us(path: Path) -> str:
    error = await refusal(path)
    return f"{error.code} {error}"


def _opened_by_somebody(path: Path) -> str:
    """Root may do everything: a process of nobody's tries it."""
    for file in (path, path.parent):
        if file.exists():
            os.chown(file, 65534, 65534)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from midcourse.stores.sqlite import connection\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: connection.open_store(Path(sys.argv[1]), 'power', pragmas={}, patience=1)\n"
        "except Exception as error: print(getattr(error, 'code', '?'), error)\n"
    )
    for parent in path.parent.parents:  # temporary folders are root's alone
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout


async def test_a_log_that_cannot_be_kept_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without shared memory: SQLite offers another journal."""

    class Stubborn(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("= WAL", "= DELETE"), *arguments)

    monkeypatch.setattr(connection.sqlite3, "connect", partial(sqlite3.connect, factory=Stubborn))
    error = await refusal(path)
    assert error.code == "no_wal"
    assert "network drive" in str(error)


async def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OLDEST_SQLITE", (4, 0, 0))
    with pytest.raises(StoreUnavailable, match="newer Python"):
        await SqliteStore.open(path)


async def test_an_unknown_durability_is_refused(path: Path) -> None:
    with pytest.raises(InvalidInput, match="'power' or 'process'"):
        await SqliteStore.open(path, durability="for ever")
    assert not path.exists()


async def test_an_index_that_hides_a_session_is_built_again(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A flipped bit in an index would leave the session standing still without a word: no sweep would find it."""
    store = await SqliteStore.open(path)
    await started(store)
    owned = await store.head(SESSION)
    await store.close()
    _hide(path, owned.head.status)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check(sessions)").fetchone() != ("ok",)
    store = await SqliteStore.open(path)
    assert [one.head.id for one in await store.unattended([owned.head.status], 0.0, limit=10)] == [SESSION]
    assert "an index of 'sessions' was damaged" in caplog.text
    await store.close()


@pytest.mark.parametrize("byte", [0x72, 0xF3])
async def test_a_session_whose_id_was_damaged_has_it_again(
    path: Path, byte: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its parent would not find it, and begin it a second time."""
    store = await SqliteStore.open(path)
    await started(store)
    owned = await store.head(SESSION)
    await store.close()
    damage_id(path, SESSION, byte)
    store = await SqliteStore.open(path)
    assert await store.head(SESSION) == owned
    assert "was mended from its head" in caplog.text
    await store.close()


async def test_a_session_whose_id_is_no_text_hides_no_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is too large to be checked when it is opened."""
    monkeypatch.setattr(connection, "_CHECKED_AT_OPEN", 0)
    store = await SqliteStore.open(path)
    await started(store)
    await started(store, SessionId("other"))
    head = (await store.head(SessionId("other"))).head
    await store.close()
    damage_id(path, SESSION, 0xF3)
    store = await SqliteStore.open(path)
    assert [one.id for one in await store.heads()] == ["other"]
    assert [one.head.id for one in await store.unattended([head.status], 0.0, limit=10)] == ["other"]
    await store.close()


def _hide(path: Path, status: str) -> None:
    """Leave the indexes of the table of sessions with another status than the table has."""
    for sentences in (
        ("UPDATE sessions SET status = 'zzz'",),
        (
            "PRAGMA writable_schema = ON",
            "CREATE TABLE kept AS SELECT * FROM sqlite_master WHERE tbl_name = 'sessions' AND sql LIKE 'CREATE INDEX%'",
            "DELETE FROM sqlite_master WHERE name IN (SELECT name FROM kept)",
        ),
        (f"UPDATE sessions SET status = '{status}', owner = owner",),
        ("PRAGMA writable_schema = ON", "INSERT INTO sqlite_master SELECT * FROM kept"),
        ("DROP TABLE kept",),
    ):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for sentence in sentences:
                connection.execute(sentence)
