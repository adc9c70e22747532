"""A sweep that finds nothing costs next to nothing, however many sessions there are."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from midcourse.core.ids import SessionId, WorkerId
from midcourse.stores.sqlite import SqliteStore, locks
from midcourse.stores.sqlite.statements import READ, SCHEMA, WRITE
from midcourse.testing.store_promises.fixtures import ALICE, started


@pytest.fixture
def empty() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in SCHEMA:
            connection.execute(statement)
        yield connection


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("addressed_sessions", "inbox_undecided"),
        ("waking_sessions", "sessions_waking"),
        ("owned_sessions_in_status", "sessions_owned"),
        ("free_sessions_in_status", "sessions_free"),
        ("owners", "sessions_owned"),
        ("pending_sessions", "inbox_undecided"),
        ("undecided_commands", "inbox_undecided"),
        ("newest_sessions", "sessions_newest"),
    ],
)
def test_each_query_begins_at_an_index(empty: sqlite3.Connection, statement: str, index: str) -> None:
    query = READ[statement]
    values = _values_for(query)
    plan = [row[3] for row in empty.execute(f"EXPLAIN QUERY PLAN {query}", values)]
    assert any(index in step for step in plan)
    assert not [step for step in plan if step.startswith(("SCAN sessions", "SCAN s ", "USE TEMP B-TREE FOR ORDER"))]


def test_every_statement_can_be_prepared(empty: sqlite3.Connection) -> None:
    for statement in (*READ.values(), *WRITE.values()):
        empty.execute(f"EXPLAIN {statement}", _values_for(statement))


def _values_for(statement: str) -> Any:
    names = re.findall(r":(\w+)", statement)
    return {name: "[]" if name == "statuses" else 1 for name in names} if names else (1,) * statement.count("?")


async def test_liveness_is_looked_up_once_for_each_owner(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.enlist(ALICE, "")
    for number in range(20):
        await started(store, SessionId(f"sess_{number}"), worker=ALICE)
        await started(store, SessionId(f"free_{number}"))
    looked: list[WorkerId] = []
    is_alive = locks.is_alive

    def look(folder: Path, worker: WorkerId) -> bool:
        looked.append(worker)
        return is_alive(folder, worker)

    monkeypatch.setattr(locks, "is_alive", look)
    assert len(await store.unattended(["running"], 0.0)) == 20
    assert looked == [ALICE]
