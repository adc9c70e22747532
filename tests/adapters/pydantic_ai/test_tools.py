"""Tools of Pydantic AI: retries, timeouts, approvals, results that come from elsewhere, servers, rich results."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import StdioTransport
from pydantic_ai import ApprovalRequired, BinaryContent, CallDeferred, ModelRetry, RunContext, ToolReturn
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset

import midcourse
from midcourse.models.script import Call, Text, Wait, replies
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk, effects
from tests.promises.harness import Place, history, types, until, until_status

SLOW = Text("and so on " * 500, every=0.02)


@midcourse.tool(effect="read", run_in="process")
def dig(ctx: RunContext[Any]) -> str:
    """Dig."""
    return f"dug for {ctx.run_id}"


async def _go_on_cold(place: Place, agent: midcourse.Agent[Any], session: midcourse.SessionHandle[Any]) -> Any:
    """Another program opens the store, resumes the session, and has its result."""
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        return await again.result(PATIENCE)


async def _pause_in_model(session: midcourse.SessionHandle[Any], request: int) -> None:
    """Stop it while the model says something for the ``request``-th time."""
    while True:
        begun = [one.event for one in await history(session) if one.type == "step.begun"]
        if sum(getattr(event, "kind", "") == "model" for event in begun) >= request:
            break
        await asyncio.sleep(0.01)
    await session.pause(until="stopped")


def _asks_before_it_deletes(desk: Desk) -> None:
    @desk.agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        """Delete a file."""
        desk.done.append(path)
        return "deleted"


# ---- retries and timeouts


async def test_a_retry_is_told_to_the_model(place: Place) -> None:
    desk = Desk(replies(Call("look", {"at": "sun"}), Call("look", {"at": "map"}), Text("Seen.")))

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def look(at: str) -> str:
        """Look at something."""
        desk.done.append(at)
        if at == "sun":
            raise ModelRetry("Not at the sun.")
        return f"{at} is fine"

    agent = desk.held()
    async with place.open(agent) as mc:
        assert await (await mc.start(agent, "look")).result(PATIENCE) == "Seen."
    assert any("Not at the sun." in said.text for said in desk.heard[1])
    assert desk.done == ["sun", "map"]


async def test_a_retry_is_the_same_after_a_cold_resume(place: Place) -> None:
    """The failed call is not made again; the model is told what it had been told."""
    script = replies(Call("look", {"at": "sun"}), [SLOW, Call("look", {"at": "map"})], Text("Seen."))
    desk = Desk(script)

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def look(at: str) -> str:
        """Look at something."""
        desk.done.append(at)
        if at == "sun":
            raise ModelRetry("Not at the sun.")
        return f"{at} is fine"

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "look")
        await _pause_in_model(session, 2)
    told = desk.heard[-1]
    desk.heard.clear()
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        while not desk.heard:
            await asyncio.sleep(0.01)
        assert desk.heard[0] == told
        assert desk.done == ["sun"]
        await again.cancel(until="stopped")


async def test_too_many_retries_fail_the_session_as_the_framework_has_it(place: Place) -> None:
    desk = Desk(lambda _: [Call("look")], retries=1)

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def look() -> str:
        """Look at something."""
        raise ModelRetry("Again.")

    agent = desk.held()
    async with place.open(agent) as mc:
        with pytest.raises(midcourse.SessionEnded, match="max retries"):
            await (await mc.start(agent, "look")).result(PATIENCE)


async def test_a_tool_that_takes_too_long_is_a_retry(place: Place) -> None:
    """As Pydantic AI has it; the call was aborted."""
    desk = Desk(replies(Call("wait"), Text("Enough.")))

    @midcourse.tool(effect="read")
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(3600)
        return "done"

    desk.agent.tool_plain(timeout=0.05)(wait)
    agent = desk.held()
    async with place.open(agent) as mc:
        assert await (await mc.start(agent, "wait")).result(PATIENCE) == "Enough."
    assert any("Timed out after 0.05 seconds" in said.text for said in desk.heard[-1])


async def test_an_error_of_a_tool_fails_the_session_and_a_resume_tries_it_again(place: Place) -> None:
    desk = Desk(replies(Call("look"), Text("Seen.")))

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def look() -> str:
        """Look at something."""
        desk.done.append("look")
        if len(desk.done) == 1:
            raise OSError("no light")
        return "fine"

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "look")
        with pytest.raises(midcourse.SessionEnded, match="OSError: no light"):
            await session.result(PATIENCE)
        await session.resume()
        assert await session.result(PATIENCE) == "Seen."


# ---- approvals, and results from elsewhere


async def test_a_tool_that_requires_approval_asks(place: Place) -> None:
    desk = Desk(replies(Call("delete", {"path": "a"}), Text("Gone.")))

    _asks_before_it_deletes(desk)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "delete a")
        await until_status(session, "waiting")
        (ask,) = (await session.state()).asks
        assert ask.reason == "need_approval"
        assert "delete" in ask.prompt
        assert not desk.done
        await session.answer("yes")
        assert await session.result(PATIENCE) == "Gone."
    assert desk.done == ["a"]


async def test_a_call_that_a_person_refuses_is_not_made_and_the_model_is_told(place: Place) -> None:
    desk = Desk(replies(Call("delete", {"path": "a"}), Text("Kept.")))

    _asks_before_it_deletes(desk)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "delete a")
        await until_status(session, "waiting")
        await session.answer("no, keep it")
        assert await session.result(PATIENCE) == "Kept."
    assert not desk.done
    assert any("no, keep it" in said.text for said in desk.heard[-1])


async def test_a_tool_may_want_an_approval_while_it_runs(place: Place) -> None:
    """What it raises is no failure and no effect; approved, the function sees that it is."""
    desk = Desk(replies([Call("delete", {"path": "a"}), Call("delete", {"path": "secret"})], Text("Gone.")))

    @desk.agent.tool
    @midcourse.tool(effect="write")
    def delete(ctx: RunContext[Any], path: str) -> str:
        """Delete a file."""
        if path == "secret" and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"why": "it is secret"})
        desk.done.append((path, ctx.tool_call_approved))
        return "deleted"

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "delete both")
        await until_status(session, "waiting")
        assert desk.done == [("a", False)]
        await session.answer("yes")
        assert await session.result(PATIENCE) == "Gone."
        lines = (await session.receipt()).lines
    assert desk.done == [("a", False), ("secret", True)]
    assert [line.outcome for line in lines if line.outcome != "cannot be undone"] == []


async def test_who_approves_reads_what_the_tool_says_of_the_call(place: Place) -> None:
    desk = Desk(replies(Call("buy"), Text("Bought.")))

    @desk.agent.tool
    def buy(ctx: RunContext[Any]) -> str:
        """Buy it."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"why": "it costs 500 dollars"})
        return "bought"

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "buy it")
        await until_status(session, "waiting")
        (ask,) = (await session.state()).asks
        await session.answer("yes")
        await session.result(PATIENCE)
    assert "it costs 500 dollars" in ask.prompt


async def test_an_approval_survives_a_cold_resume(place: Place) -> None:
    desk = Desk(replies(Call("delete", {"path": "a"}), Text("Gone.")))

    _asks_before_it_deletes(desk)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "delete a")
        await until_status(session, "waiting")
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await until_status(again, "waiting")
        await again.answer("yes")
        assert await again.result(PATIENCE) == "Gone."
    assert desk.done == ["a"]


async def test_a_call_whose_result_comes_from_elsewhere_is_an_ask(place: Place) -> None:
    look = ToolDefinition(name="measure", parameters_json_schema={"type": "object", "properties": {"what": {}}})
    desk = Desk(replies(Call("measure", {"what": "room"}), Text("Thanks.")), toolsets=[ExternalToolset([look])])
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "measure")
        await until_status(session, "waiting")
        (ask,) = (await session.state()).asks
        assert ask.reason == "need_result"
        assert "measure" in ask.prompt
        assert "room" in ask.prompt
        await session.answer("12 square metres")
        assert await session.result(PATIENCE) == "Thanks."
    assert desk.results == ["12 square metres"]


async def test_a_tool_may_leave_its_result_to_others(place: Place) -> None:
    desk = Desk(replies(Call("measure"), Text("Thanks.")))

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def measure() -> str:
        """Measure the room."""
        raise CallDeferred

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "measure")
        await until_status(session, "waiting")
        await session.answer("12 square metres")
        assert await session.result(PATIENCE) == "Thanks."
    assert desk.results == ["12 square metres"]


# ---- several at once


async def test_parallel_calls_run_at_the_same_time_and_finished_ones_are_not_done_again(place: Place) -> None:
    desk = Desk(replies([Call("quick"), Call("slow")], Text("Both.")))
    together, may_end = asyncio.Event(), asyncio.Event()

    @desk.agent.tool_plain
    @midcourse.tool(effect="idempotent", settle=0)
    async def slow() -> str:
        """Take time."""
        desk.done.append("slow")
        together.set()
        await may_end.wait()
        return "slow"

    @desk.agent.tool_plain
    @midcourse.tool(effect="write")
    async def quick() -> str:
        """Be quick, once the other has begun."""
        await together.wait()
        desk.done.append("quick")
        return "quick"

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "both")
        await together.wait()
        while "quick" not in desk.done:
            await asyncio.sleep(0.01)
        await until(session, "step.finished", times=2)
        await session.pause(grace=0, until="stopped")
    may_end.set()
    assert await _go_on_cold(place, agent, session) == "Both."
    assert desk.done == ["slow", "quick", "slow"]
    assert desk.results == ["quick", "slow"]


# ---- declarations


async def test_functions_declare_themselves_and_declare_speaks_for_others(place: Place) -> None:
    desk = Desk(replies([Call("look"), Call("jump"), Call("say")], Text("Done.")))

    @midcourse.tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    def jump() -> str:
        """Jump."""
        return "jumped"

    def say() -> str:
        """Say."""
        return "said"

    for function in (look, jump, say):
        desk.agent.tool_plain(function)
    agent = desk.held(declare={"say": {"effect": "idempotent", "settle": 0}})
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        assert await session.result(PATIENCE) == "Done."
        assert await effects(session) == {"look": "read", "jump": "irreversible", "say": "idempotent"}


async def test_a_tool_of_a_prefixed_toolset_is_the_step_of_its_whole_name(place: Place) -> None:
    @midcourse.tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    desk = Desk(replies(Call("eye_look"), Text("Done.")), toolsets=[FunctionToolset([look]).prefixed("eye")])
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        assert await session.result(PATIENCE) == "Done."
        assert set((await effects(session)).values()) == {"read"}


async def test_functions_of_a_dynamic_toolset_declare_themselves(place: Place) -> None:
    @midcourse.tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    desk = Desk(replies(Call("look"), Text("Done.")))

    @desk.agent.toolset
    def chosen(ctx: RunContext[Any]) -> FunctionToolset[Any]:
        return FunctionToolset([look])

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        assert await session.result(PATIENCE) == "Done."
        assert await effects(session) == {"look": "read"}


async def test_declare_speaks_of_tools_by_the_name_the_model_uses(place: Place) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    desk = Desk(replies(Call("eye_look"), Text("Done.")), toolsets=[FunctionToolset([look]).prefixed("eye")])
    agent = desk.held(declare={"eye_look": {"effect": "read"}})
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        assert await session.result(PATIENCE) == "Done."
        assert await effects(session) == {"eye_look": "read"}


async def test_a_tool_that_runs_in_a_process_takes_no_context(place: Place) -> None:
    """With words, before anything is done."""
    desk = Desk(replies(Call("dig"), Text("Done.")))

    desk.agent.tool(dig)
    agent = desk.held()
    async with place.open(agent) as mc:
        with pytest.raises(midcourse.SessionEnded, match="tool_plain"):
            await (await mc.start(agent, "dig")).result(PATIENCE)


async def test_calls_of_a_servers_tools_are_steps_with_the_effect_the_server_hints_at(place: Place) -> None:
    shop = StdioTransport(sys.executable, [str(Path(__file__).with_name("shop.py"))], keep_alive=False)
    calls = [Call(name, {"item": "tea"}) for name in ("price", "reserve", "order")]
    desk = Desk(replies(calls, Text("Done.")), toolsets=[MCPToolset(shop, id="shop")])
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "buy tea")
        assert await session.result(2 * PATIENCE) == "Done."
        assert await effects(session) == {"price": "read", "reserve": "idempotent", "order": "irreversible"}
    assert desk.results == ["tea costs 3", "tea is reserved", "tea is on its way"]


# ---- rich results


async def test_rich_results_survive_a_cold_resume(place: Place) -> None:
    """What the model is told after it is what it would have been told."""
    script = replies([Call("photograph"), Call("describe")], [Wait(0.01), SLOW], Text("never"))
    desk = Desk(script)

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def photograph() -> BinaryContent:
        """Take a picture."""
        desk.done.append("photograph")
        return BinaryContent(data=b"\x89PNG\x00", media_type="image/png")

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def describe() -> ToolReturn[Any]:
        """Describe it."""
        desk.done.append("describe")
        picture = BinaryContent(data=b"\x00\xff", media_type="image/png")
        return ToolReturn(return_value={"is": "a tree"}, content=["Look:", picture], metadata={"secret": 1})

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "picture")
        await _pause_in_model(session, 2)
        before = (await session.inspect()).history
    told = desk.heard[-1]
    desk.heard.clear()
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.resume()
        while not desk.heard:
            await asyncio.sleep(0.01)
        assert desk.heard[0] == told
        after = (await again.inspect()).history
        await again.cancel(until="stopped")
    assert after[: len(before)] == before
    assert sorted(desk.done) == ["describe", "photograph"]
    assert "a tree" in str(told)


async def test_a_result_that_cannot_be_journaled_fails_with_words(place: Place) -> None:
    desk = Desk(replies(Call("look"), Text("Seen.")))

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    def look() -> Any:
        """Look."""
        return object()

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "look")
        with pytest.raises(midcourse.SessionEnded, match="object"):
            await session.result(PATIENCE)
        assert "session.failed" in types(await history(session))
