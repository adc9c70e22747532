"""Function tools: everything the SDK does around a call is still done, and the call is a step."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    FunctionTool,
    LocalShellTool,
    RunContextWrapper,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
    tool_input_guardrail,
)
from agents.tool_context import ToolContext

import midcourse
from midcourse.adapters.openai_agents import wrap
from midcourse.core.session import Status
from midcourse.models.script import Call, Text, replies
from tests.adapters.openai_agents.desk import PATIENCE, Desk, adding, ask_of, failure_of, until, until_begun


def once(*calls: Call) -> Any:
    """A script that makes these calls, and then says that it is done."""
    return replies(calls, Text("Done."))


async def test_a_tool_of_midcourse_can_be_given_to_function_tool_and_keeps_what_it_declares(at: Desk) -> None:
    session = await at.start(at.agent(adding), once(Call("add", {"left": 1, "right": 2})))
    assert await session.result(PATIENCE) == "Done."
    assert at.heard[-1] == "tool: 3"


async def test_a_plain_function_that_sleeps_is_shown_as_running_until_it_has_ended(at_responses: Desk) -> None:
    begun, go_on, threads = threading.Event(), threading.Event(), list[str]()

    @midcourse.tool(effect="read")
    def nap() -> str:
        threads.append(threading.current_thread().name)
        begun.set()
        go_on.wait(PATIENCE)
        return "rested"

    session = await at_responses.start(at_responses.agent(function_tool(nap)), once(Call("nap")))
    await until_begun(session, "nap")
    assert begun.wait(PATIENCE)
    reply = await session.pause(grace=0, until="stopping")
    assert [call.name for call in reply.running] == ["nap"]
    assert await session.status() is Status.PAUSING
    go_on.set()
    await until(session, Status.PAUSED)
    await session.resume()
    assert await session.result(PATIENCE) == "Done."
    assert not any(name.startswith("asyncio_") for name in threads)


async def test_errors_go_to_the_model_as_the_tool_says(at: Desk) -> None:
    def words(ctx: RunContextWrapper[Any], error: Exception) -> str:
        return f"{type(error).__name__}: {error}"

    @function_tool(failure_error_function=words)
    def open_door(door: str) -> str:
        raise LookupError(f"no {door}")

    @function_tool
    def close_door(door: str) -> str:
        raise LookupError(f"no {door}")

    calls = [
        Call("open_door", {"door": "front"}),
        Call("open_door", {"door": 5}),
        Call("open_door", raw="{"),
        Call("close_door", {"door": "front"}),
    ]
    session = await at.start(at.agent(open_door, close_door), once(*calls))
    assert await session.result(PATIENCE) == "Done."
    found = at.heard[-4:]
    assert found[0] == "tool: LookupError: no front"
    assert found[1].startswith("tool: ModelBehaviorError: Invalid JSON input for tool open_door")
    assert found[2].startswith("tool: ModelBehaviorError: Invalid JSON input for tool open_door")
    assert found[3] == "tool: An error occurred while running the tool. Please try again."


async def test_a_tool_that_raises_fails_the_session_at_its_step_and_a_resume_tries_it_again(at: Desk) -> None:
    mended: list[bool] = []

    @function_tool(failure_error_function=None)
    def turn_key() -> str:
        if not mended:
            raise RuntimeError("it is stuck")
        return "turned"

    session = await at.start(at.agent(turn_key), once(Call("turn_key")))
    assert "Step 'turn_key' failed: RuntimeError: it is stuck" in await failure_of(session)
    mended.append(True)
    await session.resume()
    assert await session.result(PATIENCE) == "Done."
    assert at.heard[-1] == "tool: turned"
    assert len(at.provider.requests) == 2


async def test_a_result_that_cannot_be_journaled_is_not_asked_for_again(at_responses: Desk) -> None:
    calls: list[int] = []

    @function_tool
    def odd() -> Any:
        calls.append(1)
        return object()

    session = await at_responses.start(at_responses.agent(odd), once(Call("odd")))
    assert "unencodable" in await failure_of(session)
    assert calls == [1]


async def test_a_timeout_is_the_steps_and_is_told_as_the_tool_says(at_responses: Desk) -> None:
    @function_tool(timeout=0.05)
    async def quietly() -> str:
        await asyncio.sleep(600)
        return ""

    @function_tool(timeout=0.05, timeout_error_function=lambda ctx, error: f"No: {error}")
    async def loudly() -> str:
        await asyncio.sleep(600)
        return ""

    @function_tool(timeout=0.05, timeout_behavior="raise_exception")
    async def badly() -> str:
        await asyncio.sleep(600)
        return ""

    at = at_responses
    agent = at.agent(quietly, loudly, badly)
    session = await at.start(agent, once(Call("quietly"), Call("loudly")))
    assert await session.result(PATIENCE) == "Done."
    assert at.heard[-2] == "tool: Tool 'quietly' timed out after 0.05 seconds."
    assert at.heard[-1].startswith("tool: No: ")
    session = await at.start(agent, once(Call("badly")))
    assert "ToolTimeoutError" in await failure_of(session)


async def test_guardrails_of_a_tool_and_its_switch_are_kept(at_responses: Desk) -> None:
    calls: list[str] = []

    @tool_input_guardrail
    def not_the_safe(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        if "safe" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.reject_content("Not the safe.")
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[not_the_safe])
    def open_it(what: str) -> str:
        calls.append(what)
        return "open"

    @function_tool(is_enabled=False)
    def hidden() -> str:
        return ""

    at = at_responses
    session = await at.start(
        at.agent(open_it, hidden), once(Call("open_it", {"what": "safe"}), Call("open_it", {"what": "jar"}))
    )
    assert await session.result(PATIENCE) == "Done."
    assert at.heard[-2:] == ["tool: Not the safe.", "tool: open"]
    assert calls == ["jar"]
    assert b"hidden" not in at.provider.requests[0].body


async def test_a_policy_decides_call_by_call_whether_a_person_is_asked(at: Desk) -> None:
    async def much(ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        return arguments["amount"] > 100

    @function_tool(needs_approval=much)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    session = await at.start(at.agent(pay), once(Call("pay", {"amount": 5}), Call("pay", {"amount": 500})))
    ask = await ask_of(session)
    assert "500" in ask.prompt
    assert "It wants a person's approval." in ask.prompt
    await session.answer("refuse")
    assert await session.result(PATIENCE) == "Done."
    assert at.heard[-2:] == ["tool: paid 5", "tool: The call was not made: a person refused it."]


async def test_an_agent_that_may_not_ask_is_refused_what_needs_approval(at_responses: Desk) -> None:
    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    at = at_responses
    session = await at.start(at.agent(pay), once(Call("pay", {"amount": 5})), asks=False)
    assert await session.result(PATIENCE) == "Done."
    assert at.heard[-1].startswith("tool: The call was not made: it wants a person's approval")


async def test_a_tool_can_ask_by_itself(at_responses: Desk) -> None:
    @function_tool
    @midcourse.tool(effect="read")
    def choose() -> str:
        if (answer := midcourse.current_call().answer) is None:
            raise midcourse.Interrupt("need_input", "Which one?")
        return f"chose {answer}"

    at = at_responses
    session = await at.start(at.agent(choose), once(Call("choose")))
    assert (await ask_of(session)).prompt == "Which one?"
    await session.answer("the red one")
    assert await session.result(PATIENCE) == "Done."
    assert at.heard[-1] == "tool: chose the red one"


@dataclass
class House:
    """A context."""

    rooms: int


async def test_tools_get_the_context_that_is_made_for_the_run(at_responses: Desk) -> None:
    @function_tool
    def rooms(ctx: RunContextWrapper[House], floor: int = 0) -> str:
        return f"{ctx.context.rooms} on {floor}"

    async def house(run: midcourse.Run) -> House:
        return House(3)

    at = at_responses
    session = await at.start(at.agent(rooms), once(Call("rooms", {"floor": 2})), context=house)
    assert await session.result(PATIENCE) == "Done."
    assert at.heard[-1] == "tool: 3 on 2"


async def test_a_tool_in_a_process_cannot_take_a_context(at_responses: Desk) -> None:
    at = at_responses
    session = await at.start(
        at.agent(function_tool(far_with_context)), once(Call("far_with_context")), name="with-context"
    )
    assert "takes a context, which cannot be sent there" in await failure_of(session)


@midcourse.tool(effect="read", run_in="process")
def far_with_context(ctx: RunContextWrapper[Any]) -> str:
    """Cannot be called."""
    return str(ctx)


async def test_pictures_and_lists_of_texts_survive_the_journal(at_responses: Desk) -> None:
    @function_tool
    def picture() -> list[Any]:
        return [ToolOutputText(text="look"), ToolOutputImage(image_url="data:image/png;base64,AAAA")]

    at = at_responses
    session = await at.start(at.agent(picture), once(Call("picture")))
    assert await session.result(PATIENCE) == "Done."
    body = at.provider.requests[-1].body
    assert b'"input_image"' in body
    assert b'"input_text"' in body


async def test_a_tool_made_by_hand_is_declared_from_outside(at_responses: Desk) -> None:
    async def invoke(ctx: ToolContext[Any], input: str) -> str:
        await asyncio.sleep(600 if "slow" in input else 0)
        return f"got {input}"

    schema = {"type": "object", "properties": {"how": {"type": "string"}}}
    by_hand = FunctionTool("by_hand", "", schema, invoke, strict_json_schema=False)
    at = at_responses
    session = await at.start(
        at.agent(by_hand), once(Call("by_hand", {"how": "slow"})), declare={"by_hand": {"effect": "read"}}
    )
    await until_begun(session, "by_hand")
    await session.redirect("Do not.", grace=0)
    at.provider.script = replies(Text("Never."), Text("All right."))
    assert await session.result(PATIENCE) == "All right."  # and the call would have slept for ten minutes
    session = await at.start(at.agent(by_hand), once(Call("by_hand", {"how": "fast"})))
    assert await session.result(PATIENCE) == "Done."
    assert at.heard[-1] == 'tool: got {"how": "fast"}'


def test_tools_that_no_stop_could_reach_are_refused_when_the_agent_is_wrapped(at_responses: Desk) -> None:
    at = at_responses
    helper = at.agent(LocalShellTool(executor=lambda request: ""), name="helper")
    with pytest.raises(midcourse.InvalidInput, match="Agent 'helper' has a LocalShellTool"):
        wrap(at.agent(handoffs=[helper]))
