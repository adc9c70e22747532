"""Ask and answer: an approval as each framework declares it, and an ``Interrupt`` that a tool raises itself."""

from typing import Any

import pytest

import midcourse
from midcourse.models.script import Call, Said, Text
from tests.adapters.matrix import courses
from tests.adapters.matrix.conftest import Stage
from tests.promises.harness import until_status

PATIENCE = 20.0
PAY = Call("pay", {"amount": 7})
WIRE = Call("wire", {"amount": 7})


async def the_ask(session: midcourse.SessionHandle[Any]) -> Any:
    """The one ask that is open, once the session waits for it."""
    assert await until_status(session, "waiting", "failed", "completed") == "waiting"
    (ask,) = (await session.state()).asks
    return ask


@pytest.mark.parametrize("tool", ["pay", "wire"])
async def test_a_call_that_asks_first_is_made_once_when_a_person_approves(stage: Stage, tool: str) -> None:
    """Its sibling is not held up, and is not repeated either."""
    script = courses.after_a_note((courses.LOOK, Call(tool, {"amount": 7}), courses.SEND), courses.ALL_DONE)
    async with stage.started(script) as session:
        ask = await the_ask(session)
        assert ask.reason == "need_approval"
        assert "7" in ask.prompt
        assert courses.counted()[f"{tool} begun"] == 0
        assert courses.counted()["send done"] == 1
        await session.answer("yes")
        assert await session.result(PATIENCE) == "All is done."
        words = {"pay": "paid 7", "wire": "wired 7"}
        assert stage.last_results() == {"look": "Rome is nice", tool: words[tool], "send": "sent to Ann"}
        done = courses.counted()
        assert [done[f"{one} begun"] for one in ("note", "look", tool, "send")] == [1, 1, 1, 1]
        assert len(stage.requests) == 3


@pytest.mark.parametrize("tool", ["pay", "wire"])
async def test_a_call_that_a_person_refuses_is_not_made_and_the_model_is_told_why(stage: Stage, tool: str) -> None:
    script = courses.after_a_note((courses.LOOK, Call(tool, {"amount": 7}), courses.SEND), courses.ALL_DONE)
    async with stage.started(script) as session:
        await the_ask(session)
        await session.answer("that is too much")
        assert await session.result(PATIENCE) == "All is done."
        results = stage.last_results()
        assert "that is too much" in results[tool]
        assert "not" in results[tool]
        assert (results["look"], results["send"]) == ("Rome is nice", "sent to Ann")
        done = courses.counted()
        assert [done[f"{one} begun"] for one in ("note", "look", tool, "send")] == [1, 1, 0, 1]


@pytest.mark.parametrize("tool", ["pay", "wire"])
async def test_an_answer_that_comes_while_paused_is_used_after_the_resume(stage: Stage, tool: str) -> None:
    script = courses.after_a_note((Call(tool, {"amount": 7}), courses.SEND), courses.ALL_DONE)
    async with stage.started(script) as session:
        await the_ask(session)
        assert (await session.pause(until="stopped")).level == "stopped"
        await session.answer("yes")
        assert await session.status() == "paused"
        assert courses.counted()[f"{tool} begun"] == 0
        await session.resume()
        assert await session.result(PATIENCE) == "All is done."
        done = courses.counted()
        assert [done[f"{one} done"] for one in ("note", tool, "send")] == [1, 1, 1]


@pytest.mark.parametrize("tool", ["pay", "wire"])
async def test_a_redirect_supersedes_an_ask_and_the_call_is_closed_unmade(stage: Stage, tool: str) -> None:
    script = courses.after_a_note((Call(tool, {"amount": 7}), courses.SEND), courses.ALL_DONE)
    async with stage.started(script) as session:
        await the_ask(session)
        stage.provider.script = courses.says(Text("Off to Oslo."))
        await session.redirect(courses.INSTEAD)
        assert await session.result(PATIENCE) == "Off to Oslo."
        assert (await session.state()).asks == ()
        results = stage.last_results()
        assert results["send"] == "sent to Ann"
        assert "paid" not in results.get("pay", "")
        assert stage.heard().said[-1] == Said("user", courses.INSTEAD)
        done = courses.counted()
        assert [done[f"{one} begun"] for one in ("note", tool, "send")] == [1, 0, 1]


async def test_of_two_calls_that_ask_each_gets_its_own_answer(stage: Stage) -> None:
    """Whether they ask at the same time or one after the other is the framework's choice."""
    script = courses.after_a_note((PAY, Call("pay", {"amount": 8})), courses.ALL_DONE)
    answered: set[str] = set()
    async with stage.started(script) as session:
        while await until_status(session, "waiting", "completed", "failed") == "waiting":
            for ask in (await session.state()).asks:
                if ask.id not in answered:
                    answered.add(ask.id)
                    await session.answer("no" if "8" in ask.prompt else "yes", ask=ask.id)
        assert await session.result(PATIENCE) == "All is done."
        paid, refused = stage.heard().results("pay")
        assert paid == "paid 7"
        assert "not made" in refused
        assert courses.counted()["pay done"] == 1
