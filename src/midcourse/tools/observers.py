"""Observers for what most tools read: a file, a page, a row, or anything a function can describe.

Each names the parameter that identifies it: ``@tool(effect="read", observes=file("path"))``.
"""

import asyncio
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from midcourse.errors import MidcourseError
from midcourse.ports.observer import Observer
from midcourse.runtime.thread_pool import carriable
from midcourse.tools.database import Cell, Database
from midcourse.tools.database import database as database_at
from midcourse.tools.file_state import hash_of, outline_at
from midcourse.tools.http_request import RequestLimits, hosts, request
from midcourse.tools.root_folder import Root, opened_file
from midcourse.tools.tool_errors import bad_argument, wrong_kind

_LARGE: Final = 100_000_000
_NAMED: Final = re.compile(r":([A-Za-z_]\w*)")


def file(parameter: str, *, root: str | os.PathLike[str] | None = None) -> Observer:
    """Observe the content of the file that ``parameter`` names, by its hash. With ``root``, of one that is below it.

    A file above 100 MB is not read: its version is its size, its time of change and its inode.
    """
    return _File(parameter, None if root is None else os.path.realpath(root))


def http(
    parameter: str, *, allow_hosts: Sequence[str] | None = None, allow_private: bool = False, timeout: float = 10.0
) -> Observer:
    """Observe the URL that ``parameter`` names, by its ETag or else its Last-Modified; asked by HEAD."""
    limits = RequestLimits(
        allow_hosts=hosts(allow_hosts), allow_private=allow_private, limit=1_000_000, timeout=timeout
    )
    return _Page(parameter, limits)


def row(database: Database | str | os.PathLike[str], sql: str) -> Observer:
    """Observe a row of a SQLite file, by what ``sql`` selects of it: ``select version from orders where id = :id``."""
    return _Row(database if isinstance(database, Database) else database_at(database), sql)


def observer(name: str, function: Callable[[Mapping[str, Any]], object]) -> Observer:
    """Anything else. ``name`` is the resource's, like ``order:{id}``; the function tells its version, None if absent.

    The function is given the call's arguments by name; it is ``async``, or a plain one, which runs in a thread.
    """
    return _Told(name, function)


@dataclass(frozen=True, slots=True)
class _File:
    parameter: str
    root: str | None

    def resource(self, arguments: Mapping[str, Any]) -> str:
        # The real path, so that a file is the same one by whatever link it was reached.
        return f"file:{os.path.realpath(os.path.join(self.root or '', _argument(arguments, self.parameter)))}"

    async def version(self, arguments: Mapping[str, Any]) -> str | None:
        return await asyncio.to_thread(self._version, _argument(arguments, self.parameter))

    def _version(self, path: str) -> str | None:
        root, below = self.root, path
        if root is None:
            root, below = os.path.split(os.path.realpath(path))
            if not os.path.isdir(root):
                return None
        with Root(root).at(below) as place:
            kind = outline_at(place).kind
            if kind == "folder":
                raise wrong_kind(path, "a folder", "files")
            if kind != "file":
                return None
            with opened_file(place) as opened:
                found = os.fstat(opened)
                if found.st_size > _LARGE:
                    return f"stat:{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"
                return f"sha256:{hash_of(opened)}"


@dataclass(frozen=True, slots=True)
class _Page:
    parameter: str
    limits: RequestLimits

    def resource(self, arguments: Mapping[str, Any]) -> str:
        return _argument(arguments, self.parameter)

    async def version(self, arguments: Mapping[str, Any]) -> str | None:
        url = _argument(arguments, self.parameter)
        answer = await request("HEAD", url, limits=self.limits)
        if answer.status in {404, 410}:
            return None
        for header in ("etag", "last-modified"):
            if answer.status < 300 and header in answer.headers:
                return f"{header}:{answer.headers[header]}"
        raise MidcourseError(
            f"{url} tells no version (status {answer.status}, no ETag and no Last-Modified), so it cannot be checked.",
            code="no_version",
            url=url,
        )


@dataclass(frozen=True, slots=True)
class _Row:
    database: Database
    sql: str

    def resource(self, arguments: Mapping[str, Any]) -> str:
        return f"row:{self.database.path}: {self.sql} {json.dumps(self._parameters(arguments), sort_keys=True)}"

    async def version(self, arguments: Mapping[str, Any]) -> str | None:
        found = await asyncio.to_thread(self.database.first, self.sql, self._parameters(arguments))
        return None if found is None else json.dumps(found)

    def _parameters(self, arguments: Mapping[str, Any]) -> dict[str, Cell]:
        return {name: arguments[name] for name in dict.fromkeys(_NAMED.findall(self.sql)) if name in arguments}


@dataclass(frozen=True, slots=True)
class _Told:
    name: str
    function: Callable[[Mapping[str, Any]], object]

    def resource(self, arguments: Mapping[str, Any]) -> str:
        try:
            return self.name.format_map(dict(arguments))
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise bad_argument(
                f"The observer '{self.name}' names what the call does not have ({error}). "
                f"It has: {', '.join(arguments) or 'no arguments'}.",
                "observes",
            ) from error

    async def version(self, arguments: Mapping[str, Any]) -> str | None:
        if inspect.iscoroutinefunction(self.function):
            found: object = await self.function(arguments)
        else:
            found = await asyncio.to_thread(carriable(self.function), arguments)
            if inspect.isawaitable(found):
                found = await found
        return None if found is None else str(found)


def _argument(arguments: Mapping[str, Any], parameter: str) -> str:
    value: object = arguments.get(parameter)
    if isinstance(value, str | os.PathLike):
        return str(cast("str | os.PathLike[str]", value))
    raise bad_argument(
        f"The observer looks for the parameter '{parameter}', and the call has no such text. "
        f"It has: {', '.join(arguments) or 'no arguments'}.",
        "observes",
    )
