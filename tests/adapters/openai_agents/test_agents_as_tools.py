"""Agents that are tools of another: what they ask and call are steps of the same session."""

from collections.abc import Sequence
from typing import Any

import pytest
from agents import AgentToolStreamEvent, RunConfig

from midcourse.core.events import StepBegun
from midcourse.models.script import Call, Conversation, Piece, Text, replies
from tests.adapters.openai_agents.desk import PATIENCE, Desk, ask_of, finding, searching, until_begun

BROKEN_OFF = "Interrupted by the user before it had finished. What it had done until then stays done."


def two_at_once(heard: Conversation, /) -> Sequence[Piece]:
    """The chief asks the scout twice at the same time; the scout uses the same call id each time."""
    if heard.system == "scout":
        return replies(Call("find", {"what": heard.user}, "call"), Text(f"Seen: {heard.user}."))(heard)
    return replies([Call("ask", {"input": "hills"}), Call("ask", {"input": "woods"})], Text("Thanks."))(heard)


async def test_two_of_them_at_once_do_not_get_into_each_others_way(at: Desk) -> None:
    scout = at.agent(finding, name="scout")
    session = await at.start(at.agent(scout.as_tool("ask", ""), name="chief"), two_at_once)
    assert await session.result(PATIENCE) == "Thanks."
    assert at.heard[-2:] == ["tool: Seen: hills.", "tool: Seen: woods."]
    at.assert_that_all_requests_were_valid()
    steps = [one.event.name async for one in session.watch() if isinstance(one.event, StepBegun)]
    assert {name: steps.count(name) for name in steps} == {"model": 2, "nested model": 4, "find": 2}


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_redirect_reaches_one_that_is_at_work(at: Desk, *, streamed: bool) -> None:
    seen: list[AgentToolStreamEvent] = []
    scout = at.agent(searching, name="scout")
    ask = scout.as_tool("ask", "", on_stream=seen.append if streamed else None)

    def script(heard: Conversation, /) -> Sequence[Piece]:
        if heard.system == "scout":
            return [Call("search", {"what": heard.user})]
        return [Text("As you wish.")] if heard.user == "Come home." else [Call("ask", {"input": "hills"})]

    session = await at.start(at.agent(ask, name="chief"), script)
    await until_begun(session, "search")
    await session.redirect("Come home.", grace=0)
    assert await session.result(PATIENCE) == "As you wish."
    assert at.heard == ["user: Go.", "assistant: [ask]", f"tool: {BROKEN_OFF}", "user: Come home."]
    assert bool(seen) is streamed
    at.assert_that_all_requests_were_valid()


async def test_a_pause_stops_one_and_a_resume_asks_nothing_twice(at: Desk) -> None:
    scout = at.agent(finding, name="scout")

    def script(heard: Conversation, /) -> Sequence[Piece]:
        if heard.system == "scout":
            slow = Text("Seen: all that there is to see in these hills.", every=0.1)
            return replies(Call("find", {"what": "hills"}), slow)(heard)
        return replies(Call("ask", {"input": "hills"}), Text("Thanks."))(heard)

    session = await at.start(at.agent(scout.as_tool("ask", ""), name="chief"), script)
    await at.provider.wait_for_request(2, pieces=2, timeout=PATIENCE)
    await session.pause(until="stopped")
    assert (await at.provider.wait_for_close(2, timeout=PATIENCE)).pieces < 10
    await session.resume()
    assert await session.result(PATIENCE) == "Thanks."
    assert len(at.provider.requests) == 5  # the one that was cut was made again


async def test_one_that_was_cancelled_at_work_is_not_called_unbegun(at: Desk) -> None:
    scout = at.agent(searching, name="scout")
    chief = at.agent(scout.as_tool("ask", ""), name="chief")
    session = await at.start(
        chief,
        lambda heard: [Call("search", {"what": "it"})] if heard.system == "scout" else [Call("ask", {"input": "x"})],
    )
    await until_begun(session, "search")
    await session.cancel(grace=0, until="stopped")
    at.provider.script = replies(Text("Never."), Text("I see."))
    await session.redirect("And now?")
    assert await session.result(PATIENCE) == "I see."
    assert at.heard[2] == "tool: It was begun and did not end. What it had done until then stays done."
    at.assert_that_all_requests_were_valid()


async def test_one_that_needs_approval_is_asked_about(at_responses: Desk) -> None:
    at = at_responses
    scout = at.agent(finding, name="scout")
    session = await at.start(at.agent(scout.as_tool("ask", "", needs_approval=True), name="chief"), two_at_once)
    for answer in ("approve", "refuse"):
        ask = await ask_of(session)
        assert ask.prompt.startswith("Allow 'ask'")
        await session.answer(answer, ask=ask.id)
    assert await session.result(PATIENCE) == "Thanks."
    assert "tool: The call was not made: a person refused it." in at.heard[-2:]
    assert len([one for one in at.provider.requests if one.conversation.system == "scout"]) == 2


async def test_one_with_a_configuration_of_its_own_has_its_model(at_responses: Desk) -> None:
    at = at_responses
    asked: list[Any] = []

    def note(data: Any) -> Any:
        asked.append(data.agent.name)
        return data.model_data

    scout = at.agent(finding, name="scout")
    scout.model = "none-of-this-name"
    config = RunConfig(model=at.model, call_model_input_filter=note, tracing_disabled=True)
    session = await at.start(at.agent(scout.as_tool("ask", "", run_config=config), name="chief"), two_at_once)
    assert await session.result(PATIENCE) == "Thanks."
    assert asked == ["scout"] * 4
