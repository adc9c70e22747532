"""The audit log in a SQLite file: what it costs, several processes, and what a hand in the file leaves behind."""

import asyncio
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from midcourse.core.audit import AuditEntry
from midcourse.core.ids import Epoch, SessionId, WorkerId
from midcourse.errors import Damaged
from midcourse.ports.audit_log import read_audit
from midcourse.ports.store import Append, Creation
from midcourse.stores.sqlite import SqliteStore, writes
from midcourse.stores.sqlite.rows import encode, owner_seal
from midcourse.stores.sqlite.statements import SCHEMA
from midcourse.testing.store_promises.fixtures import ALICE, SESSION, head, owned, rows, started

ROOT = Path(__file__).parents[4]


def entry(detail: str = "", *, session: SessionId = SESSION) -> AuditEntry:
    return AuditEntry(session=session, by="ann", role="steer", action="pause", detail=detail, at=5.0)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in SCHEMA:
            connection.execute(statement)
        seal = owner_seal(SESSION, 1, ALICE)
        creation = Creation(head(), rows(1, 1), worker=ALICE)
        writes.create(connection, creation, encode(creation, seal))
        yield connection


def _statements(connection: sqlite3.Connection, *audit: AuditEntry) -> list[str]:
    """What an append that brings ``audit`` runs."""
    ran: list[str] = []
    connection.set_trace_callback(ran.append)
    append = Append(head(), audit=audit, epoch=Epoch(1))
    writes.append(connection, append, encode(append, owner_seal(SESSION, 1, ALICE)), "")
    connection.set_trace_callback(None)
    return [statement for statement in ran if not statement.startswith("--")]


def test_an_append_without_entries_costs_nothing_and_one_with_them_a_look_and_an_insert_each(
    connection: sqlite3.Connection,
) -> None:
    without = _statements(connection)
    assert not [statement for statement in without if "audit" in statement]

    for audit in ((entry("a"),), (entry("a"), entry("b"), entry("c"))):
        added = _statements(connection, *audit)[len(without) :]
        assert [statement.split()[0] for statement in added] == ["SELECT", *["INSERT"] * len(audit)]


def test_the_end_of_the_log_is_found_without_reading_it(connection: sqlite3.Connection) -> None:
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {writes.WRITE['audit_end']}")]
    assert not [step for step in plan if "TEMP B-TREE" in step]
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {writes.READ['audit']}", (0, 1))]
    assert plan == ["SEARCH audit USING INTEGER PRIMARY KEY (rowid>?)"]


@pytest.mark.parametrize(
    ("tamper", "where"),
    [
        ("UPDATE audit SET entry = replace(entry, 'ann', 'bob') WHERE seq = 2", 2),
        ("UPDATE audit SET entry = 'text', digest = 'text' WHERE seq = 2", 2),
        ("UPDATE audit SET digest = 7 WHERE seq = 3", 3),
        ("UPDATE audit SET seq = 9 WHERE seq = 3", 3),
        ("DELETE FROM audit WHERE seq = 1", 1),
        ("DELETE FROM audit WHERE seq = 2", 2),
        ("DELETE FROM audit WHERE seq >= 2", 2),
        ("DELETE FROM audit", 1),
        ("INSERT INTO audit (entry, digest) SELECT entry, digest FROM audit WHERE seq = 3", 4),
    ],
)
async def test_a_hand_in_the_file_is_noticed(path: Path, store: SqliteStore, tamper: str, where: int) -> None:
    """At once, and still when other entries have come behind it."""
    epoch = await owned(store)
    await store.append(Append(head(), epoch=epoch, audit=[entry(f"{number}") for number in (1, 2, 3)]))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(tamper)
    for _ in range(2):
        with pytest.raises(Damaged, match=f"damaged at entry {where}:"):
            await read_audit(store)
        await store.append(Append(head(), epoch=epoch, audit=[entry("later")]))


async def test_a_log_that_forgot_its_end_goes_on_behind_its_last_row(path: Path, store: SqliteStore) -> None:
    """SQLite's own memory of the highest number may be damaged as well: no number that is there is used again."""
    epoch = await owned(store)
    await store.append(Append(head(), epoch=epoch, audit=[entry("one"), entry("two")]))
    for forgotten in ("UPDATE sqlite_sequence SET seq = 'odd'", "DELETE FROM sqlite_sequence"):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(forgotten)
        await store.append(Append(head(), epoch=epoch, audit=[entry("next")]))
    assert [one.entry.detail for one in await read_audit(store)] == ["one", "two", "next", "next"]


async def test_the_log_is_found_again(path: Path, store: SqliteStore) -> None:
    """A file with entries opens as the store it was, and the log goes on where it ended."""
    epoch = await owned(store)
    await store.append(Append(head(), epoch=epoch, audit=[entry("one")]))
    await store.close()
    again = await SqliteStore.open(path)
    await again.enlist(WorkerId("worker_again"), "")
    taken = await again.take(SESSION, WorkerId("worker_again"))
    await again.append(Append(head(), epoch=taken.epoch, audit=[entry("two")]))
    assert [(one.seq, one.entry.detail) for one in await read_audit(again)] == [(1, "one"), (2, "two")]
    await again.close()


async def write_many(path: str, name: str, count: int) -> None:
    """What each of several processes does: entries, as fast as it can."""
    store = await SqliteStore.open(path, durability="process")
    await store.enlist(WorkerId(name), "")
    session = SessionId(f"sess_{name}")
    epoch = await started(store, session, worker=WorkerId(name))
    for number in range(count):
        one = store.append(Append(head(session), epoch=epoch, audit=[entry(f"{number}", session=session)]))
        if number % 10 == 0:
            await one
    await store.close()


async def test_several_processes_make_one_order_without_gaps(path: Path) -> None:
    """Each takes the end of the log as the others left it."""
    program = "import asyncio, sys; from tests.unit.stores.sqlite.test_audit import write_many; "
    program += "asyncio.run(write_many(sys.argv[1], sys.argv[2], 150))"
    children = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(path), name, cwd=ROOT) for name in "ab"
    ]
    assert [await child.wait() for child in children] == [0, 0]
    store = await SqliteStore.open(path)
    log = await read_audit(store, limit=1000)
    await store.close()
    assert [one.seq for one in log] == list(range(1, 301))
    for name in "ab":
        theirs = [one.entry.detail for one in log if one.entry.session == f"sess_{name}"]
        assert theirs == [f"{number}" for number in range(150)]
