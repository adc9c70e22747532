"""``raise Interrupt``: ask a person, then try again with the answer."""

from collections.abc import AsyncIterator

import pytest

import midcourse
from midcourse import current_call
from tests.promises.harness import Place, Tool, history, resumable, types, until, until_status


def _spend() -> str:
    call = current_call()
    if call.answer is None:
        raise midcourse.Interrupt("approval", "Spend 5 €?")
    return f"{call.answer} at attempt {call.attempt}"


async def _spend_async() -> str:
    return _spend()


@pytest.mark.parametrize("body", [_spend, _spend_async])
async def test_a_step_that_interrupts_is_tried_again_with_the_answer(place: Place, body: object) -> None:
    """Whether it runs on the loop or in a thread."""
    assert callable(body)
    agent = resumable(lambda run: run.step("spend", body))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
        [ask] = (await session.state()).asks
        assert (ask.reason, ask.prompt) == ("approval", "Spend 5 €?")
        await session.answer("yes")
        assert await session.result() == "yes at attempt 2"


async def test_a_step_may_interrupt_again_and_sees_only_the_last_answer(place: Place) -> None:
    """Each is an ask of its own."""

    async def body() -> object:
        if current_call().attempt < 3:
            raise midcourse.Interrupt("approval", f"Sure, {current_call().answer}?")
        return current_call().answer

    agent = resumable(lambda run: run.step("spend", body))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        for number, answer in enumerate(("a", "b"), start=1):
            await until(session, "ask.opened", times=number)
            await session.answer(answer, ask=f"ask_{number}")
        assert await session.result() == "b"
        asked = [one.event for one in await history(session) if isinstance(one.event, midcourse.events.AskOpened)]
        assert [event.prompt for event in asked] == ["Sure, None?", "Sure, a?"]


async def test_a_stream_may_interrupt_too(place: Place) -> None:
    """Before or after its first words, which the next call supersedes."""

    async def model() -> AsyncIterator[str]:
        if current_call().answer is None:
            yield "Hm."
            raise midcourse.Interrupt("style", "Formal?")
        yield f"Formal: {current_call().answer}"

    agent = resumable(lambda run: run.stream("speak", model))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
        await session.answer("no")
        assert await session.result() == "Formal: no"


async def test_a_redirect_supersedes_the_ask_of_a_step_and_the_step_is_tried_without_an_answer(place: Place) -> None:
    """It interrupts again, and that ask can be answered."""
    agent = resumable(lambda run: run.step("spend", _spend_async))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
        await session.redirect("be careful")
        await until(session, "ask.opened", times=2)
        await session.answer("well then", ask="ask_2")
        assert await session.result() == "well then at attempt 3"


@pytest.mark.parametrize("mode", ["replay", "state"])
async def test_an_agent_that_interrupts_is_started_again_with_the_answer(
    place: Place, mode: midcourse.events.Mode
) -> None:
    """What it had done before is not done again."""
    tool = Tool()
    starts = 0

    async def agent(run: midcourse.Run) -> list[object]:
        nonlocal starts
        starts += 1
        looked = await run.step("look", tool.run, "page")
        if run.answer is None:
            raise midcourse.Interrupt("approval", "Publish?")
        return [looked, run.answer]

    one = resumable(agent, mode=mode)
    async with place.open(one) as mc:
        session = await mc.start(one)
        await until_status(session, "waiting")
        await session.answer(True)
        assert await session.result() == ["page", True]
        assert (starts, len(tool.begun)) == (2, 1)


async def test_an_agent_may_interrupt_again_and_sees_the_last_answer(place: Place) -> None:
    """And in a new turn there is none."""

    async def agent(run: midcourse.Run) -> object:
        if run.answer != "yes":
            raise midcourse.Interrupt("approval", f"Sure ({run.answer})?")
        return run.answer

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        for number, answer in enumerate(("perhaps", "yes"), start=1):
            await until(session, "ask.opened", times=number)
            await session.answer(answer, ask=f"ask_{number}")
        assert await session.result() == "yes"
        await session.redirect("once more")
        await until_status(session, "waiting")
        assert [ask.prompt for ask in (await session.state()).asks] == ["Sure (None)?"]


@pytest.mark.parametrize("where", ["step", "agent"])
@pytest.mark.parametrize("answered", ["before", "after"])
async def test_an_interrupt_is_answered_after_the_store_was_opened_again(
    place: Place, where: str, answered: str
) -> None:
    """Answered while nobody had the agent, or once somebody had: it is tried again once, and asked once."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> object:
        await run.step("look", tool.run)
        if where == "step":
            return await run.step("spend", _spend_async)
        if run.answer is None:
            raise midcourse.Interrupt("approval", "Spend 5 €?")
        return f"{run.answer} at attempt 2"

    one = resumable(agent)
    async with place.open(one) as mc:
        await until_status(await mc.start(one, session_id="s"), "waiting")
    if answered == "before":
        async with place.open(drive=False) as mc:
            await (await mc.get("s")).answer("yes")
    async with place.open(one) as mc:
        session = await mc.get("s")
        if answered == "after":
            await session.answer("yes")
        assert await session.result() == "yes at attempt 2"
        assert types(await history(session)).count("ask.opened") == 1
        assert len(tool.begun) == 1
