"""What a store says it survives is what it was found to survive."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from midcourse.errors import StoreUnavailable
from midcourse.stores.sqlite import SqliteStore, durability

MOUNTS = r"""
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
26 22 0:23 / /dev/shm rw,nosuid - tmpfs tmpfs rw
30 22 0:40 / /mnt/in\040memory rw shared:1 master:2 - ramfs none rw
31 26 254:1 / /dev/shm/disk rw - xfs /dev/vdb rw
40 22 0:41 / /over rw - tmpfs tmpfs rw
41 40 254:2 / /over rw - ext4 /dev/vdc rw
not a mount
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/var/lib/midcourse.db", None),
        ("/dev/shm/midcourse.db", "tmpfs"),
        ("/dev/shmoo/midcourse.db", None),
        ("/dev/shm/disk/midcourse.db", None),
        ("/mnt/in memory/a/midcourse.db", "ramfs"),
        ("/over/midcourse.db", None),
    ],
)
def test_the_file_system_of_a_place_is_found(place: str, kind: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "mounts", lambda: MOUNTS)
    assert durability.forgetful_filesystem(Path(place)) == kind


def test_without_a_list_of_mounts_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "mounts", lambda: "")
    assert durability.forgetful_filesystem(Path("/dev/shm/midcourse.db")) is None


@pytest.mark.parametrize("wanted", ["power", "process"])
async def test_a_disk_keeps_what_is_wanted(path: Path, wanted: str) -> None:
    store = await SqliteStore.open(path, durability=wanted)
    assert store.durability == wanted
    await store.close()


async def test_a_place_in_memory_does_not_survive_power(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(durability, "mounts", lambda: f"30 22 0:40 / {path.parent} rw - tmpfs none rw")
    with caplog.at_level(logging.WARNING):
        store = await SqliteStore.open(path)
    assert store.durability == "process"
    assert "its durability is 'process'" in caplog.text
    await store.close()


@pytest.mark.parametrize(("wanted", "synchronous"), [("power", 2), ("process", 1)])
def test_sqlite_is_told_and_asked(path: Path, wanted: durability.Wanted, synchronous: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert durability.set_durability(connection, path, wanted) == wanted
        assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)


def test_a_sqlite_that_does_not_obey_is_refused(path: Path) -> None:
    class Deaf(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("synchronous = 2", "synchronous = 0"), *arguments)

    with closing(sqlite3.connect(path, factory=Deaf)) as connection, pytest.raises(StoreUnavailable) as refused:
        durability.set_durability(connection, path, "power")
    assert refused.value.code == "store_not_durable"
