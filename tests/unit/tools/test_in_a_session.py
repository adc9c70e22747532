"""The ready tools as steps of a session: what a cancel takes back, and what a receipt says of it."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import midcourse
from midcourse.tools import Files, database
from tests.unit.tools.trees import tree


async def test_a_cancel_takes_back_all_that_the_file_tools_did(files: Files, root: Path) -> None:
    (root / "old").write_text("old")
    (root / "old").chmod(0o640)
    before = tree(root)
    done = asyncio.Event()

    @midcourse.agent(name="tidier")
    async def tidier(run: midcourse.Run) -> None:
        await run.step("write", files.write, "deep/new", "text")
        await run.step("edit", files.edit, "old", "old", "changed")
        await run.step("move", files.move, "old", "deep/new", True)
        await run.step("delete", files.delete, "deep", True)
        done.set()
        await run.ask("Well done?")

    async with midcourse.open("memory://") as mc:
        session = await mc.start(tidier)
        await done.wait()
        assert tree(root) == {}
        await session.cancel(undo="all", until="stopped")
        receipt = await session.receipt()

    assert tree(root) == before
    assert [(line.name, line.outcome) for line in receipt.lines] == [
        ("write", "undone"),
        ("edit", "undone"),
        ("move", "undone"),
        ("delete", "undone"),
    ]


async def test_a_receipt_says_that_an_undo_failed_if_somebody_else_wrote(files: Files, root: Path) -> None:
    done = asyncio.Event()

    @midcourse.agent(name="writer")
    async def writer(run: midcourse.Run) -> None:
        await run.step("write", files.write, "a", "mine")
        done.set()
        await run.ask("Well done?")

    async with midcourse.open("memory://") as mc:
        session = await mc.start(writer)
        await done.wait()
        (root / "a").write_text("theirs")
        await session.cancel(undo="all", until="stopped")
        receipt = await session.receipt()

    assert (root / "a").read_text() == "theirs"
    assert [line.outcome for line in receipt.lines] == ["undo failed"]


async def test_a_statement_in_a_step_has_the_steps_key(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table orders (what text)")
    db = database(path)

    @midcourse.agent(name="clerk")
    async def clerk(run: midcourse.Run) -> list[object]:
        placed = await run.step("place", db.execute, "insert into orders values (:what)", {"what": "tea"})
        found = await run.step("look", db.query, "select what from orders")
        return [placed.changed, found.rows]

    async with midcourse.open("memory://") as mc:
        assert await (await mc.start(clerk)).result() == [1, [["tea"]]]
    with closing(sqlite3.connect(path)) as connection:
        ((key,),) = connection.execute("select key from midcourse_calls").fetchall()
    assert key
