"""Queries cannot write, statements happen once under one key, and neither leaves its file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from midcourse.errors import InvalidInput, MidcourseError
from midcourse.runtime.tools import Happened, find_tool
from midcourse.tools.database import Database, Executed, database
from tests.unit.tools.tool_calls import under


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a ?b#%20.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "create table orders (id integer primary key, what text, cost real);"
            "insert into orders (what, cost) values ('tea', 1.5), ('milk', 2);"
        )
    return path


@pytest.fixture
def db(path: Path) -> Database:
    return database(path, rows=100, limit=10_000, timeout=5)


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("select count(*) from orders").fetchone()[0]


def test_a_query_gives_columns_and_rows(db: Database) -> None:
    found = db.query("select id, what, cost from orders where cost > :cost", {"cost": 1.6})

    assert (found.columns, found.rows) == (("id", "what", "cost"), ((2, "milk", 2.0),))
    assert db.query("select what from orders where id = ?", [1]).rows == (("tea",),)
    assert db.query("select x'00ff', null").rows == (("00ff", None),)
    assert db.query("with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) select i from n").rows


@pytest.mark.parametrize("sql", ["pragma table_info(orders)", "select name from pragma_table_info('orders')"])
def test_a_query_may_ask_for_the_schema(db: Database, sql: str) -> None:
    assert len(db.query(sql).rows) == 3
    assert db.query("select name from sqlite_master").rows == (("orders",),)


def test_tables_that_are_functions_or_indexes_of_text_work(db: Database) -> None:
    assert db.query("select value from json_each('[1, 2]')").rows == ((1,), (2,))
    db.execute("create virtual table notes using fts5(text)")
    assert db.execute("insert into notes (text) values ('the quick fox'), ('a lazy dog')").changed
    assert db.query("select text from notes where notes match 'fox'").rows == (("the quick fox",),)


REFUSED_EVERYWHERE = [
    "attach database '/tmp/other.db' as other",
    "detach database main",
    "select load_extension('/tmp/evil.so')",
    "pragma journal_mode = delete",
    "pragma writable_schema = 1",
    "pragma user_version = 3",
    "pragma query_only = 0",
    "vacuum into '/tmp/copy.db'",
    "vacuum",
    "begin",
    "commit",
    "savepoint a",
    "select 1; select 2",
]


@pytest.mark.parametrize(
    "sql",
    [
        *REFUSED_EVERYWHERE,
        "insert into orders (what) values ('x')",
        "update orders set what = 'x'",
        "delete from orders",
        "create table t (a)",
        "create temp table t (a)",
        "drop table orders",
        "update sqlite_master set sql = 'x'",
        "analyze",
    ],
)
def test_a_query_that_could_write_is_refused(db: Database, path: Path, sql: str) -> None:
    before = path.read_bytes()
    with pytest.raises(InvalidInput):
        db.query(sql)

    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "sql",
    [
        *REFUSED_EVERYWHERE,
        "drop table midcourse_calls",
        "delete from midcourse_calls",
        "insert into midcourse_calls values ('k', '{}', 0)",
        "alter table midcourse_calls rename to x",
        "create trigger t after insert on midcourse_calls begin delete from orders; end",
        "create index i on midcourse_calls (at)",
    ],
)
def test_a_statement_that_reaches_beyond_its_file_is_refused(db: Database, path: Path, sql: str) -> None:
    db.execute("insert into orders (what) values ('x')")
    with pytest.raises(InvalidInput) as refused:
        db.execute(sql)

    assert refused.value.fields["field"] == "sql"
    assert count(path) == 3
    assert not Path("/tmp/copy.db").exists()


def test_a_statement_happens_once_under_one_key(db: Database, path: Path) -> None:
    sql = "insert into orders (what, cost) values (:what, 3) returning id, what"
    first = under("key", db.execute, sql, {"what": "bread"})
    again = under("key", db.execute, sql, {"what": "bread"})
    assert first == again == Executed(changed=1, last_id=3, columns=("id", "what"), rows=((3, "bread"),))
    assert count(path) == 3

    assert under("another", db.execute, sql, {"what": "bread"}).last_id == 4


def test_a_probe_tells_what_happened(db: Database) -> None:
    assert db.probe({}, "key") is False
    done = under("key", db.execute, "update orders set cost = cost + 1")
    assert done.changed == 2
    assert db.probe({}, "key") == Happened(done)
    assert db.probe({}, "other") is False


def test_a_statement_that_fails_leaves_nothing_and_may_be_tried_again(db: Database, path: Path) -> None:
    with pytest.raises(InvalidInput, match="UNIQUE constraint failed"):
        under("key", db.execute, "insert into orders (id) select 5 union all select 1")
    assert count(path) == 2
    assert db.probe({}, "key") is False

    assert under("key", db.execute, "insert into orders (id) values (5)").changed == 1


def test_a_query_that_takes_too_long_is_stopped(path: Path) -> None:
    quick = database(path, timeout=0.05)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    for ask in (quick.query, quick.execute):
        with pytest.raises(MidcourseError, match="took longer than 0.05 s") as refused:
            ask(endless if ask is quick.query else f"insert into orders (id) {endless}")
        assert refused.value.code == "took_too_long"
    assert count(path) == 2


LONG = "printf('%.*c', 400000, 'a')"


@pytest.mark.parametrize(
    "slow",
    [
        f"instr({LONG} || {LONG}, {LONG} || 'b')",
        f"replace({LONG} || {LONG}, {LONG} || 'b', '')",
        f"trim({LONG}, printf('%.*c', 50000, 'b') || 'a')",
        f"{LONG} like '%' || printf('%.*c', 10000, 'a') || 'b'",
        f"{LONG} || {LONG} || {LONG}",
    ],
)
def test_what_is_slow_within_one_operation_is_refused(path: Path, slow: str) -> None:
    made = database(path)
    for ask, sql in ((made.query, f"select {slow}"), (made.execute, f"insert into orders (what) select {slow}")):
        with pytest.raises(InvalidInput, match="too (big|complex)"):
            ask(sql)
    assert count(path) == 2


def test_functions_that_can_be_slow_give_what_sqlite_gives(db: Database, path: Path) -> None:
    sql = (
        "select instr('tea', 'e'), instr(null, 'a'), instr(x'0102', x'02'), instr(12.50, 2), replace('tea', 'e', 1), "
        "replace('tea', '', 'x'), trim('xax', 'x'), ltrim('xax', 'x'), rtrim('xax', 'x'), trim(' a ')"
    )
    with closing(sqlite3.connect(path)) as plain:
        assert db.query(sql).rows == tuple(plain.execute(sql))


def test_many_rows_are_cut_and_large_ones_refused(db: Database) -> None:
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) select i from n"
    found = db.query(numbers)
    assert (len(found.rows), found.is_cut) == (100, True)

    for sql in ("select zeroblob(1000000000)", f"select printf('%900s', 'x') from ({numbers})"):
        with pytest.raises(MidcourseError):
            db.query(sql)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("select * from missing", "no such table: missing"),
        ("selec 1", "syntax error"),
        ("select :missing", "Incorrect number of bindings"),
        ("", "is empty"),
    ],
)
def test_a_mistake_is_told_in_sqlites_words(db: Database, sql: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        db.query(sql)


def test_a_file_that_is_missing_or_something_else_is_said(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is not a database at all, but text")
    for name in ("missing", "text"):
        with pytest.raises(MidcourseError):
            database(tmp_path / name).query("select 1 from sqlite_master")
    assert not (tmp_path / "missing").exists()


def test_another_writer_is_waited_for_and_then_said(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(MidcourseError, match="locked"):
            database(path, timeout=0.05).execute("delete from orders")
        other.execute("rollback")


def test_what_the_tools_declare(db: Database) -> None:
    assert (db.query.kind, db.execute.kind) == ("read", "idempotent")
    assert db.execute.probe is not None
    assert find_tool(db.execute.origin) is db.execute
    assert database(db.path, rows=100, limit=10_000, timeout=5) is db
    properties = db.execute.schema["parameters"]["properties"]
    assert set(properties) == {"sql", "parameters"}
    assert db.execute.typed({"sql": "select ?", "parameters": [1, "a"]})["parameters"] == [1, "a"]
