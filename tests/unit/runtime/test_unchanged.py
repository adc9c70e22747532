"""A tool that looked, or asked, and did nothing says so; and what else helps people who are new."""

from typing import Any

import pytest

import midcourse
from midcourse import Interrupt, Run, Unchanged, current_call
from tests.unit.runtime.test_call import Place

undone: list[Any] = []


def take_back(arguments: Any, result: Any, key: str) -> None:
    """Note that something was undone."""
    undone.append(arguments)


@midcourse.tool(effect="write", undo=take_back, local=True)
def delete(rows: int) -> object:
    """Deletes, if a person agrees."""
    if current_call().answer is None:
        raise Interrupt("need_approval", "Confirm delete?")
    return rows if current_call().answer == "yes" else Unchanged("nothing was deleted")


@midcourse.agent
async def deleter(run: Run) -> object:
    """One call that asks first."""
    return await run.call(delete, {"rows": 3})


@pytest.mark.parametrize(("answer", "result", "lines"), [("yes", 3, 1), ("no", "nothing was deleted", 0)])
async def test_what_says_that_it_did_nothing_is_in_no_receipt_and_is_not_undone(
    place: Place, answer: str, result: object, lines: int
) -> None:
    undone.clear()
    async with place.open() as mc:
        session = await mc.start(deleter)
        ask = await session.next_ask(20)
        assert (ask.reason, ask.prompt) == ("need_approval", "Confirm delete?")
        await session.answer(answer, ask=ask.id)
        assert await session.result(20) == result
        assert len((await session.receipt()).lines) == lines
        assert len((await session.undo()).lines) == lines
        assert len(undone) == lines


async def test_who_waits_for_an_ask_is_told_that_the_session_has_ended(place: Place) -> None:
    async with place.open() as mc:
        session = await mc.start(silent)
        with pytest.raises(midcourse.SessionEnded, match="asks nothing"):
            await session.next_ask(20)


@midcourse.agent
async def silent(run: Run) -> str:
    """Asks nothing."""
    return "done"


async def test_what_is_no_agent_is_refused_with_the_way_to_make_it_one(place: Place) -> None:
    async with place.open() as mc:
        with pytest.raises(midcourse.InvalidInput, match="Wrap it first"):
            await mc.start(object())  # type: ignore[arg-type]


@midcourse.agent
async def hasty(run: Run) -> object:
    """Gives what a function would have made."""
    return await run.stream("draft", "words")  # type: ignore[arg-type]


async def test_a_body_that_is_no_function_is_refused_with_the_way_to_write_it(place: Place) -> None:
    async with place.open() as mc:
        session = await mc.start(hasty)
        with pytest.raises(midcourse.SessionEnded, match="lambda: …"):
            await session.result(20)


def test_what_a_framework_made_of_a_function_cannot_be_declared() -> None:
    with pytest.raises(midcourse.InvalidInput, match="directly above 'def'"):
        midcourse.tool(effect="read")(3)  # type: ignore[arg-type]
