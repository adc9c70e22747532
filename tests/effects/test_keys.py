"""Under which key a call is known to the other side: the same for every attempt, until it was undone."""

import asyncio
from typing import Any

import pytest

import midcourse
from tests.effects.made_tools import made
from tests.promises.harness import Place, resumable, until, until_status, until_true


class Called:
    """A tool that remembers the keys it was called with, and hangs while it is told to."""

    def __init__(self, **declared: Any) -> None:
        self.keys: list[str] = []
        self.attempts: list[int] = []
        self.undone: list[str] = []
        self.hangs = True
        if declared.get("effect") == "write":
            declared["undo"] = self._undo
        self.tool = made(self._body, name="called", **declared)

    async def _body(self, *arguments: str) -> str:
        call = midcourse.current_call()
        self.keys.append(call.key)
        self.attempts.append(call.attempt)
        if self.hangs:
            await asyncio.Event().wait()
        return "-".join(arguments)

    async def _undo(self, _arguments: object, _result: object, key: str) -> None:
        self.undone.append(key)

    async def entered(self, times: int) -> None:
        """Until it was called so often."""
        await until_true(lambda: len(self.keys) == times)


async def test_an_idempotent_call_is_done_again_with_the_same_key(place: Place) -> None:
    """After a pause, after a redirect it does not hear of, and in another process."""
    called = Called(effect="idempotent")

    async def agent(run: midcourse.Run) -> str:
        return await run.step("call", called.tool, "a")

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        session = await mc.start(one, session_id="s")
        await called.entered(1)
        await session.pause(grace=0, until="stopped")
        await session.resume()
        await called.entered(2)
        await session.redirect("quicker", grace=0)
        await called.entered(3)
    called.hangs = False
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == "a"
    assert called.attempts == [1, 2, 3, 4]
    assert len(set(called.keys)) == 1
    assert called.keys[0]


async def test_a_call_that_was_undone_is_done_again_with_a_new_key(place: Place) -> None:
    """The other side knows the old key as undone: under it nothing would be done."""
    called = Called(effect="write")

    async def agent(run: midcourse.Run) -> str:
        return await run.step("call", called.tool, "a")

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        session = await mc.start(one, session_id="s")
        for times in (1, 2):
            await called.entered(times)
            await session.pause(grace=0, until="stopped")
            await session.resume()
        await called.entered(3)
    called.hangs = False
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == "a"
    assert len(set(called.keys)) == 4
    assert called.undone == called.keys[:3]


async def test_a_later_call_with_the_same_tool_and_arguments_inherits_the_key_of_one_that_may_have_happened(
    place: Place,
) -> None:
    """The agent was told of the redirect and calls again: if it had happened, it is not done twice."""
    called, other = Called(effect="idempotent"), Called(effect="idempotent")
    other.hangs = False

    async def agent(run: midcourse.Run) -> None:
        try:
            await run.step("call", called.tool, "a", "b", on_redirect="raise")
        except midcourse.Redirected:
            called.hangs = False
            await run.step("other arguments", called.tool, "b", "a")
            await run.step("other tool", other.tool, "a", "b")
            await run.step("the same", called.tool, "a", "b")
            await run.step("the same, once more", called.tool, "a", "b")

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        await called.entered(1)
        await session.redirect("again", grace=0)
        await session.result()
    interrupted, other_arguments, the_same, once_more = called.keys
    assert the_same == interrupted
    assert len({interrupted, other_arguments, once_more, *other.keys}) == 4


async def test_a_call_that_has_inherited_a_key_keeps_it_when_it_is_done_again(place: Place) -> None:
    """It is what the other side may know it by, through every abort and in every process."""
    called = Called(effect="idempotent")

    async def agent(run: midcourse.Run) -> str:
        try:
            return await run.step("call", called.tool, "a", on_redirect="raise")
        except midcourse.Redirected:
            return await run.step("again", called.tool, "a")

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        session = await mc.start(one, session_id="s")
        await called.entered(1)
        await session.redirect("again", grace=0)
        await called.entered(2)
        await session.pause(grace=0, until="stopped")
        await session.resume()
        await called.entered(3)
    called.hangs = False
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == "a"
    assert len(called.keys) == 4
    assert len(set(called.keys)) == 1


async def test_a_key_is_inherited_after_a_checkpoint_too(place: Place) -> None:
    """A state agent whose call was aborted may go another way, and come back to it under another name."""
    called = Called(effect="idempotent")
    turned = asyncio.Event()

    async def agent(run: midcourse.Run) -> None:
        try:
            await run.step("call", called.tool, "a", on_redirect="raise")
        except midcourse.Redirected:
            await run.checkpoint()
            turned.set()
            called.hangs = False
            await run.step("another name", called.tool, "a")

    one = resumable(agent, mode="state")
    async with place.open(one) as mc:
        session = await mc.start(one)
        await called.entered(1)
        await session.redirect("again", grace=0)
        await turned.wait()
        await session.result()
    assert len(called.keys) == 2
    assert len(set(called.keys)) == 1


@pytest.mark.parametrize("effect", ["idempotent", "write"])
async def test_two_steps_and_two_sessions_have_keys_of_their_own(effect: str, place: Place) -> None:
    """Whatever their arguments."""
    called = Called(effect=effect)
    called.hangs = False

    async def agent(run: midcourse.Run) -> None:
        await run.step("call", called.tool, "a")
        await run.step("call", called.tool, "a")
        await run.step("another", called.tool, "a")

    one = resumable(agent)
    async with place.open(one) as mc:
        for _ in range(2):
            session = await mc.start(one)
            await session.result()
            await until_status(session, "completed")
    assert len(set(called.keys)) == 6


async def test_a_read_has_no_key(place: Place) -> None:
    """It changes nothing: nobody needs to know it again."""
    called = Called(effect="read")
    called.hangs = False
    one = resumable(lambda run: run.step("call", called.tool, "a"))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await until(session, "session.completed")
    assert called.keys == [""]
