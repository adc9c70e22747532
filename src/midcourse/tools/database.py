"""A SQLite file for agents: queries that cannot write, and statements that happen once under one key."""

import os
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, Final
from urllib.parse import quote

import msgspec

from midcourse.clock import SystemClock
from midcourse.errors import MidcourseError
from midcourse.runtime.tools import Happened
from midcourse.tools.tool_errors import bad_argument, too_large, took_too_long
from midcourse.tools.toolset import Toolset, end_if_asked, key_of_this_call

Cell = str | int | float | None
Parameters = Mapping[str, Cell] | Sequence[Cell] | None

ROWS: Final = 1_000
LIMIT: Final = 5_000_000
TIMEOUT: Final = 30.0

_OURS: Final = "midcourse_calls"
_CREATE: Final = f"create table if not exists {_OURS} (key text primary key, result text not null, at real not null)"
# These only tell, whatever their argument; the others only without one. SQLite's text index asks some of them.
_HARMLESS_PRAGMAS: Final = frozenset(
    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"}
)
_TELLING_PRAGMAS: Final = frozenset(
    {"data_version", "encoding", "foreign_keys", "page_count", "page_size", "schema_version", "user_version"}
)
_LOOKING: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_NEVER: Final = frozenset(
    {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT}
)
# SQLite looks at the clock between operations only, so each must be short: few between two checks, and small values.
_OPERATIONS_PER_LOOK: Final = 100
_LARGEST_VALUE: Final = 1_000_000
_LIMITS: Final = (
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100),
)
# These take as long as the product of what they are given.
_SLOW: Final = (("instr", 2), ("replace", 3), ("trim", 2), ("ltrim", 2), ("rtrim", 2))
_LARGEST_PRODUCT: Final = 100_000_000


class Rows(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a query. Binary values are given in hexadecimal digits."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_cut: bool = False
    """There are more rows than were given."""


class Executed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a statement."""

    changed: int
    """Rows inserted, updated or deleted."""
    last_id: int | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()


def database(
    path: str | os.PathLike[str], *, rows: int = ROWS, limit: int = LIMIT, timeout: float = TIMEOUT
) -> "Database":
    """Tools for one SQLite file, which must exist. The same set for the same parameters.

    ``rows``: the most a query gives; ``limit``: the most bytes it gives; ``timeout``: seconds a statement may take.
    """
    if rows < 1 or limit < 1 or timeout <= 0:
        raise bad_argument("rows, limit (bytes) and timeout (seconds) of a database are more than 0.", "rows")
    return _made(os.path.realpath(path), rows=rows, limit=limit, timeout=timeout)


class Database(Toolset):
    """The tools of one SQLite file: ``query`` and ``execute``."""

    def __init__(self, path: str, *, rows: int, limit: int, timeout: float) -> None:
        super().__init__(database, path=path, rows=rows, limit=limit, timeout=timeout)
        self.path = path
        self._rows = rows
        self._limit = limit
        self._timeout = timeout
        self.query = self._tool(self._query, "query", "query_database", effect="read")
        self.execute = self._tool(
            self._execute, "execute", "execute_sql", effect="idempotent", probe=self.probe, local=True
        )

    def probe(self, arguments: Mapping[str, Any], key: str) -> Happened | bool:
        """Return if a statement was executed under ``key``, and what it returned."""
        del arguments  # the key says all
        with self._opened("ro") as connection:
            if not connection.execute("select 1 from sqlite_master where name = ?", (_OURS,)).fetchone():
                return False
            found = _earlier(connection, key)
        return False if found is None else Happened(found)

    def first(self, sql: str, parameters: Mapping[str, Cell]) -> tuple[Cell, ...] | None:
        """Return the first row that a query finds, for an observer."""
        found = self._query(sql, dict(parameters)).rows
        return found[0] if found else None

    # ---- what the tools do

    def _query(self, sql: str, parameters: Parameters = None) -> Rows:
        """Run one SELECT and return its rows. Pass values as parameters: '?' with a list, ':name' with an object."""
        with self._opened("ro") as connection, self._watched(connection, sql):
            connection.set_authorizer(_may_look)
            with self._limited(connection):
                return self._rows_of(connection.execute(sql, parameters or ()))

    def _execute(self, sql: str, parameters: Parameters = None) -> Executed:
        """Run one statement that changes the database, in a transaction of its own. Pass values as parameters."""
        key = key_of_this_call()
        with self._opened("rw") as connection, self._watched(connection, sql):
            connection.execute("begin immediate")
            try:
                connection.execute(_CREATE)
                done = _earlier(connection, key)
                if done is None:
                    done = self._change(connection, sql, parameters)
                    connection.set_authorizer(None)
                    result = msgspec.json.encode(done).decode()
                    at = SystemClock().now()
                    connection.execute(f"insert into {_OURS} (key, result, at) values (?, ?, ?)", (key, result, at))
                connection.execute("commit")
            except BaseException:
                connection.set_authorizer(None)
                connection.set_progress_handler(None, 0)  # its time is over, the rollback's is not
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        return done

    def _change(self, connection: sqlite3.Connection, sql: str, parameters: Parameters) -> Executed:
        before = connection.total_changes
        connection.set_authorizer(_may_change)
        with self._limited(connection):
            cursor = connection.execute(sql, parameters or ())
            given = self._rows_of(cursor)
        changed = connection.total_changes - before
        last = cursor.lastrowid if changed else None
        return Executed(changed=changed, last_id=last, columns=given.columns, rows=given.rows)

    def _rows_of(self, cursor: sqlite3.Cursor) -> Rows:
        columns = tuple(one[0] for one in cursor.description or ())
        rows: list[tuple[Cell, ...]] = []
        size = 0
        for row in cursor:
            if len(rows) == self._rows:
                return Rows(columns=columns, rows=tuple(rows), is_cut=True)
            cells = tuple(value.hex() if isinstance(value, bytes) else value for value in row)
            size += sum(len(cell) if isinstance(cell, str) else 8 for cell in cells)
            if size > self._limit:
                raise too_large("What the query finds", size, self._limit, "Ask for fewer columns or rows.")
            rows.append(cells)
        return Rows(columns=columns, rows=tuple(rows))

    # ---- how they do it

    @contextmanager
    def _opened(self, mode: str) -> Generator[sqlite3.Connection]:
        try:
            opened = sqlite3.connect(
                f"file:{quote(self.path)}?mode={mode}", uri=True, isolation_level=None, timeout=self._timeout
            )
        except sqlite3.Error as error:
            raise MidcourseError(
                f"The database {self.path} cannot be opened: {error}. It must be a SQLite file that exists.",
                code="database_unavailable",
                path=self.path,
            ) from error
        with closing(opened) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            yield connection

    @contextmanager
    def _limited(self, connection: sqlite3.Connection) -> Generator[None]:
        """While a statement of the agent runs; what this module keeps may be larger than what the agent may make."""
        wanted = (*_LIMITS, (sqlite3.SQLITE_LIMIT_LENGTH, min(self._limit, _LARGEST_VALUE)))
        before = [(which, connection.setlimit(which, most)) for which, most in wanted]
        try:
            yield
        finally:
            for which, most in before:
                connection.setlimit(which, most)

    @contextmanager
    def _watched(self, connection: sqlite3.Connection, sql: str) -> Generator[None]:
        """Within the time limit; SQLite's errors as sentences."""
        clock = SystemClock()
        until = clock.monotonic() + self._timeout
        is_late = False

        def look() -> int:
            nonlocal is_late
            is_late = clock.monotonic() > until
            return is_late

        if not sql.strip():
            raise bad_argument("The statement is empty. Give one, like 'select 1'.", "sql")
        connection.set_progress_handler(look, _OPERATIONS_PER_LOOK)
        try:
            end_if_asked()
            with closing(sqlite3.connect(":memory:")) as aside:
                for name, count in _SLOW:
                    connection.create_function(name, count, _bounded(name, count, aside, look), deterministic=True)
                yield
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            if is_late:
                raise took_too_long(f"The statement {_short(sql)}", self._timeout) from error
            code = "sql_refused" if "not authorized" in str(error) or "prohibited" in str(error) else "sql_error"
            why = _REFUSED if code == "sql_refused" else str(error).rstrip(".")
            raise bad_argument(f"The statement {_short(sql)} does not run: {why}.", "sql", code=code) from error


_REFUSED: Final = (
    "a query may only read, and no statement may attach files, load extensions, set pragmas, begin or end "
    f"transactions, or touch the table {_OURS}"
)


_made: Final = cache(Database)


def _bounded(name: str, count: int, aside: sqlite3.Connection, look: Callable[[], int]) -> Callable[..., Any]:
    """SQLite's own function, computed aside: not of values that would keep it busy, and not when the time is over."""
    sql = f"select {name}({', '.join('?' * count)})"

    def function(*values: Any) -> Any:
        text, sought = (len(one) if isinstance(one, str | bytes) else 32 for one in values[:2])
        if look() or text * sought > _LARGEST_PRODUCT:
            raise OverflowError  # to SQLite: too big
        return aside.execute(sql, values).fetchone()[0]

    return function


def _may_look(action: int, first: str | None, second: str | None, where: str | None, by: str | None) -> int:
    """Authorize a query: reading, functions that load no code, and pragmas that only read."""
    del where, by
    # SQLite takes its own tables that are functions (json_each, pragma_table_info) in as if it wrote to its schema.
    # No other code can: the schema is not writable, and the file is open for reading only.
    takes_in = action == sqlite3.SQLITE_UPDATE and first in {"sqlite_master", "sqlite_schema"}
    if action in _LOOKING or takes_in or _is_harmless(action, first, second):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _may_change(action: int, first: str | None, second: str | None, where: str | None, by: str | None) -> int:
    """Authorize a statement: everything within this file, except the tables of these tools."""
    del where, by
    if action in _NEVER or (action != sqlite3.SQLITE_READ and _OURS in {first, second}):
        return sqlite3.SQLITE_DENY
    if action in {sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION}:
        return sqlite3.SQLITE_OK if _is_harmless(action, first, second) else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _is_harmless(action: int, first: str | None, second: str | None) -> bool:
    if action == sqlite3.SQLITE_FUNCTION:
        return (second or "").lower() not in {"load_extension", "fts3_tokenizer"}
    named = (first or "").lower()
    tells = named in _HARMLESS_PRAGMAS or (second is None and named in _TELLING_PRAGMAS)
    return action == sqlite3.SQLITE_PRAGMA and tells


def _earlier(connection: sqlite3.Connection, key: str) -> Executed | None:
    found = connection.execute(f"select result from {_OURS} where key = ?", (key,)).fetchone()
    return None if found is None else msgspec.json.decode(found[0], type=Executed)


def _short(sql: str) -> str:
    shown = " ".join(sql.split())
    return f"'{shown}'" if len(shown) <= 80 else f"'{shown[:79]}…'"
