"""Observers name what a call looked at, and tell when it is no longer the same."""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from midcourse.errors import InvalidInput, MidcourseError
from midcourse.ports.observer import Observer
from midcourse.tools.database import database
from midcourse.tools.files import Files
from midcourse.tools.observers import file, http, observer, row


async def test_a_file_is_observed_by_its_content(tmp_path: Path) -> None:
    looking, arguments = file("name"), {"name": str(tmp_path / "a.txt"), "other": 1}
    assert looking.resource(arguments) == f"file:{tmp_path}/a.txt"
    assert await looking.version(arguments) is None

    (tmp_path / "a.txt").write_text("one")
    first = await looking.version(arguments)
    os.utime(tmp_path / "a.txt", (0, 0))
    assert await looking.version(arguments) == first
    (tmp_path / "a.txt").write_text("two")
    assert await looking.version(arguments) != first


async def test_a_large_file_is_observed_without_reading_it(tmp_path: Path) -> None:
    looking, arguments = file("path"), {"path": str(tmp_path / "large")}
    with (tmp_path / "large").open("wb") as large:
        large.truncate(100_000_001)
    os.utime(tmp_path / "large", ns=(5, 7))
    inode = (tmp_path / "large").stat().st_ino

    assert await looking.version(arguments) == f"stat:100000001:7:{inode}"


async def test_a_file_in_a_folder_that_is_gone_does_not_exist(tmp_path: Path) -> None:
    assert await file("path").version({"path": tmp_path / "gone/a.txt"}) is None
    assert await file("path", root=tmp_path).version({"path": "gone/a.txt"}) is None


async def test_what_cannot_be_looked_at_is_an_error_and_no_version(tmp_path: Path) -> None:
    for looking in (file("path"), file("path", root=tmp_path.parent)):
        with pytest.raises(MidcourseError):
            await looking.version({"path": str(tmp_path)})
    with pytest.raises(MidcourseError):
        await file("path", root=tmp_path / "gone").version({"path": "a"})
    with pytest.raises(InvalidInput, match="looks for the parameter 'path'.*It has: name"):
        await file("path").version({"name": "a"})


async def test_a_file_is_the_same_one_by_whatever_link_it_is_reached(files: Files, root: Path) -> None:
    (root / "a.txt").write_text("one")
    (root / "link").symlink_to("a.txt")
    (looking,) = files.read.observes

    assert looking.resource({"path": "link"}) == looking.resource({"path": "./a.txt"}) == f"file:{root}/a.txt"
    assert await looking.version({"path": "link"}) == await looking.version({"path": "a.txt"})


async def test_a_write_of_the_same_tools_is_the_same_resource(files: Files) -> None:
    (reading,), (writing,) = files.read.observes, files.write.observes
    written = files.write("a.txt", "text")

    assert reading.resource({"path": "a.txt"}) == writing.resource({"path": "a.txt", "content": "text"})
    assert await reading.version({"path": "a.txt"}) == f"sha256:{written.sha256}"


async def test_a_row_is_observed_by_what_is_selected(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "create table orders (id integer primary key, version int); insert into orders values (1, 7)"
        )
    for source in (path, str(path), database(path)):
        looking = row(source, "select version from orders where id = :id")
        assert await looking.version({"id": 1, "what": "tea"}) == "[7]"
        assert await looking.version({"id": 2}) is None
        assert looking.resource({"id": 1}) != looking.resource({"id": 2})
        assert looking.resource({"id": 1, "what": "tea"}) == looking.resource({"id": 1})


async def test_anything_else_is_told_by_a_function() -> None:
    async def later(arguments: Mapping[str, Any]) -> int | None:
        return None if arguments["id"] == 0 else 3

    for function in (later, lambda arguments: None if arguments["id"] == 0 else 3):  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
        looking = observer("order:{id}", function)  # pyright: ignore[reportUnknownArgumentType]
        assert looking.resource({"id": 12}) == "order:12"
        assert [await looking.version({"id": number}) for number in (0, 1)] == [None, "3"]
    with pytest.raises(InvalidInput, match="names what the call does not have"):
        observer("order:{number}", later).resource({"id": 1})


def test_all_of_them_are_observers(tmp_path: Path) -> None:
    made = (file("path"), http("url"), row(tmp_path / "a.db", "select 1"), observer("a", lambda _: None))

    assert all(isinstance(one, Observer) for one in made)
