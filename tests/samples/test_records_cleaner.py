"""The records cleaner deletes what a person has confirmed, and nothing else."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.samples.records_cleaner import GOALS, agent, prepare
from tests.promises.harness import until_status

DUPLICATES = (
    "select id from contacts c where exists (select 1 from contacts o where lower(o.email) = lower(c.email) and {})"
)
LATER = "(o.last_used > c.last_used or (o.last_used = c.last_used and o.id < c.id))"
OBSOLETE = "select id from contacts where last_used < '2022-01-01'"


def rows(work: Path, query: str = "select * from contacts order by id") -> list[Any]:
    with closing(sqlite3.connect(work / "records-cleaner" / "contacts.db")) as table:
        return table.execute(query).fetchall()


async def asked(mc: midcourse.Midcourse, goal: str) -> midcourse.SessionHandle[Any]:
    session = await mc.start(agent, goal)
    await until_status(session, "waiting")
    return session


async def test_it_asks_before_it_deletes(mc: midcourse.Midcourse, work: Path) -> None:
    prepare()
    before = rows(work)
    session = await asked(mc, GOALS[0])

    (ask,) = (await session.state()).asks
    assert (ask.reason, ask.prompt) == ("need_approval", "Confirm delete?")
    assert rows(work) == before


@pytest.mark.parametrize("answer", ["yes", "approve", True, " Yes "])
async def test_a_yes_deletes_what_was_found_and_an_undo_restores_it(
    mc: midcourse.Midcourse, work: Path, answer: str | bool
) -> None:
    prepare()
    before = rows(work)
    wanted = {*rows(work, DUPLICATES.format(LATER)), *rows(work, OBSOLETE)}
    session = await asked(mc, GOALS[0])
    await session.answer(answer)

    assert f"Deleted {len(wanted)} records" in await session.result()
    assert {(row[0],) for row in before} - {(row[0],) for row in rows(work)} == wanted

    await session.undo("they were needed")
    assert rows(work) == before


@pytest.mark.parametrize("answer", ["no", "maybe", "", False, {"sure": "yes"}])
async def test_anything_but_a_yes_keeps_everything_and_the_model_is_told(
    mc: midcourse.Midcourse, work: Path, answer: Any
) -> None:
    prepare()
    before = rows(work)
    session = await asked(mc, GOALS[0])
    await session.answer(answer)

    assert await session.result() == "Nothing was deleted. The person did not confirm."
    assert rows(work) == before
    assert not (await session.receipt()).lines, "nothing was done, and nothing is claimed"


async def test_a_redirect_takes_the_question_back_and_asks_about_the_new_course(
    mc: midcourse.Midcourse, work: Path
) -> None:
    prepare()
    duplicates = [
        row
        for row in rows(work, DUPLICATES.format(LATER))
        if "example.org" not in rows(work, f"select lower(email) from contacts where id = {row[0]}")[0][0]
    ]
    session = await asked(mc, GOALS[0])
    first = (await session.state()).asks[0].id
    await session.redirect("only duplicates, and keep example.org")
    while [ask.id for ask in (await session.state()).asks] in ([], [first]):
        await until_status(session, "waiting")
    await session.answer("yes")

    assert f"Deleted {len(duplicates)} records" in await session.result()


async def test_a_cancel_instead_of_an_answer_deletes_nothing(mc: midcourse.Midcourse, work: Path) -> None:
    prepare()
    before = rows(work)
    session = await asked(mc, GOALS[1])
    await session.cancel("leave it", undo="all", until="stopped")

    assert rows(work) == before


async def test_of_two_that_are_confirmed_the_second_says_that_nothing_was_left_to_delete(
    mc: midcourse.Midcourse, work: Path
) -> None:
    first, second = await asked(mc, GOALS[0]), await asked(mc, GOALS[0])
    await first.answer("yes")
    assert "Deleted" in await first.result()
    left = rows(work)
    await second.answer("yes")

    assert await second.result() == "Nothing was deleted. None of these records was there any more."
    assert rows(work) == left
    assert not (await second.receipt()).lines
