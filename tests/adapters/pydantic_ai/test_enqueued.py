"""What tools enqueue into the conversation: delivered once, wherever the run continues."""

import asyncio
from typing import Any

import pytest
from pydantic_ai import ModelRetry, RunContext
from pydantic_ai.capabilities import Capability

import midcourse
from midcourse.models.script import Call, Conversation, Text, replies
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk
from tests.promises.harness import Place, until

BOTH = [Call("note"), Call("listen")]


def desk_with(script: Any, may_end: asyncio.Event, *, effect: Any = "read", priority: Any = "asap") -> Desk:
    """A desk with a tool that enqueues, and one that ends when it may."""
    desk = Desk(script)

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def note(ctx: RunContext[Any]) -> str:
        """Note something for the model."""
        desk.done.append("note")
        ctx.enqueue("By the way: mind the step.", priority=priority)
        return "noted"

    @desk.agent.tool
    @midcourse.tool(effect=effect)
    async def listen(ctx: RunContext[Any]) -> str:
        """Listen until it may end."""
        ctx.enqueue("I am listening.")
        await may_end.wait()
        return "a bell"

    return desk


def said(heard: Conversation) -> list[str]:
    """What the model was told after its first words."""
    return [one.text for one in heard if one.role in ("user", "tool")][1:]


async def test_what_a_finished_tool_enqueued_survives_the_kill_of_a_parallel_call(place: Place) -> None:
    """The process dies under the other call: the finished one is not made again, and what it enqueued is there."""
    may_end = asyncio.Event()
    desk = desk_with(replies(BOTH, Text("Done.")), may_end)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await until(session, "step.finished", times=2)  # the model's wishes, and the note
        await session.pause(grace=0, until="stopped")
    may_end.set()
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        assert await again.result(PATIENCE) == "Done."
    assert desk.done == ["note"]
    assert len(desk.heard) == 2
    told = said(desk.heard[-1])
    assert sorted(told) == ["By the way: mind the step.", "I am listening.", "a bell", "noted"]
    async with place.open(agent) as mc:
        straight = await mc.start(agent, "go")
        assert await straight.result(PATIENCE) == "Done."
    assert told == said(desk.heard[-1])


async def test_an_attempt_that_is_made_again_enqueues_once(place: Place) -> None:
    may_end = asyncio.Event()
    desk = desk_with(replies([Call("listen")], Text("Done.")), may_end)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await until(session, "step.begun", times=2)
        await session.pause(grace=0, until="stopped")
        may_end.set()
        await session.resume()
        assert await session.result(PATIENCE) == "Done."
    assert said(desk.heard[-1]) == ["a bell", "I am listening."]


async def test_what_waits_until_the_agent_is_idle_waits_through_a_redirect_and_a_cold_resume(place: Place) -> None:
    slow = Text("and so on " * 500, every=0.02)

    def script(heard: Conversation, /) -> Any:
        if "step" in heard.user:
            return [Text("Minded.")]
        if "quiet" in heard.user:
            return [Text("Quiet.")]
        return [slow] if heard.calls else [Call("note")]

    desk = desk_with(script, asyncio.Event(), priority="when_idle")
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await until(session, "segment.written")
        await session.pause(until="stopped")
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.redirect("Be quiet.")
        await again.resume()
        assert await again.result(PATIENCE) == "Minded."
        assert desk.heard[-1].user == "By the way: mind the step."
        await again.redirect("Be quiet.")
        assert await again.result(PATIENCE) == "Quiet.", "it was delivered once"


@pytest.mark.parametrize("cold", [False, True])
async def test_what_a_tool_enqueued_before_it_asked_for_a_retry_is_kept(place: Place, cold: bool) -> None:
    may_end = asyncio.Event()

    def script(heard: Conversation, /) -> Any:
        return [Text("Done.")] if heard.calls else [Call("refuse"), Call("listen")]

    desk = desk_with(script, may_end)

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def refuse(ctx: RunContext[Any]) -> str:
        """Refuse."""
        ctx.enqueue("The door is shut.")
        raise ModelRetry("try the window")

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await until(session, "step.failed")
        if cold:
            await session.pause(grace=0, until="stopped")
        else:
            may_end.set()
            assert await session.result(PATIENCE) == "Done."
    may_end.set()
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        if cold:
            await again.resume()
        assert await again.result(PATIENCE) == "Done."
    assert [text for text in said(desk.heard[-1]) if "door" in text] == ["The door is shut."]


async def test_a_capability_that_a_finished_tool_has_loaded_is_loaded_after_the_kill_of_a_parallel_call(
    place: Place,
) -> None:
    may_end = asyncio.Event()
    refunds = Capability[Any](id="refunds", description="Refunds.", instructions="Be kind.", defer_loading=True)

    @refunds.tool_plain
    @midcourse.tool(effect="read")
    def refund() -> str:
        """Refund it."""
        return "refunded"

    def script(heard: Conversation, /) -> Any:
        match len(heard.calls):
            case 0:
                return [Call("learn"), Call("listen")]
            case 2:
                return [Call("refund")]
            case _:
                return [Text(heard.results("refund")[-1])]

    desk = Desk(script, capabilities=[refunds])

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def learn(ctx: RunContext[Any]) -> str:
        """Learn how to refund."""
        ctx.load_capability("refunds")
        return "learned"

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    async def listen() -> str:
        """Listen until it may end."""
        await may_end.wait()
        return "a bell"

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await until(session, "step.finished", times=2)
        await session.pause(grace=0, until="stopped")
    may_end.set()
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        assert await again.result(PATIENCE) == "refunded"
    assert len(desk.heard) == 3
