"""A loop with tools that is written by hand: the same for all three APIs, and each call is a step of its own."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.adapters.plain import Api, ModelReply, Streamed, ToolCall, model_reply, streamed
from midcourse.core.events import Recorded, StepBegun, StepFinished
from midcourse.errors import InvalidInput, StepError
from midcourse.models.script import Call, Fail, Piece, Text, replies
from tests.adapters.plain.desk import APIS, Desk, desk
from tests.promises.harness import Place, history, resumable

each_api = pytest.mark.parametrize("api", APIS)
SCHEMA: Any = {"type": "object", "properties": {"at": {"type": "string"}}}
DECLARED: dict[Api, Any] = {
    "chat.completions": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}],
    "responses": [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}],
    "messages": [{"name": "look", "input_schema": SCHEMA}],
}
TWO_ROUNDS: tuple[tuple[Piece, ...], ...] = (
    (Text("Let me look. "), Call("look", {"at": "map"}), Call("look", {"at": "sky"})),
    (Call("look", {"at": "map"}),),
    (Text("North."),),
)
looked: list[str] = []


@midcourse.tool(effect="read")
async def look(at: str) -> dict[str, str]:
    looked.append(at)
    return {"at": at, "seen": "a star"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    looked.clear()
    return Place("memory", tmp_path)


def looker(at: Desk) -> midcourse.Agent[str]:
    async def function(run: midcourse.Run) -> str:
        messages: list[Any] = []
        heard = 0

        def think() -> Streamed:
            return at.ask(*messages, tools=DECLARED[at.api])

        while True:
            said = run.messages
            messages += [{"role": "user", "content": message.text} for message in said[heard:]]
            heard = len(said)
            try:
                reply = await model_reply(run, "think", think, on_redirect="raise")
            except midcourse.Redirected:
                continue
            messages += reply.messages
            if not reply.calls:
                return reply.text
            messages += await asyncio.gather(*(answered(run, call) for call in reply.calls))

    return resumable(function)


async def answered(run: midcourse.Run, call: ToolCall) -> Any:
    try:
        return call.result(await run.call(look, call.arguments, key=call.key))
    except StepError as error:
        return call.result(str(error))


def begun(events: list[Recorded]) -> list[str]:
    return [event.event.step for event in events if isinstance(event.event, StepBegun)]


@each_api
async def test_two_rounds_of_calls_side_by_side_are_steps_and_the_model_hears_their_results(
    api: Api, place: Place
) -> None:
    async with desk(api, replies(*TWO_ROUNDS)) as at:
        agent = looker(at)
        async with place.open(agent) as mc:
            session = await mc.start(agent, goal="Find the way.")
            assert await session.result() == "North."
            events = await history(session)
    assert sorted(looked) == ["map", "map", "sky"]
    assert [step.partition("/")[2] for step in begun(events)] == [
        "think#1",
        "look#=think.1.0",
        "look#=think.1.1",
        "think#2",
        "look#=think.2.0",
        "think#3",
    ]
    last = at.provider.requests[-1].conversation
    assert last.rounds == 2
    assert [json.loads(result) for result in last.results("look")] == [
        {"at": where, "seen": "a star"} for where in ("map", "sky", "map")
    ]
    assert [said.text.strip() for said in last if said.role == "assistant" and said.text] == ["Let me look."]
    told = [event.event for event in events if isinstance(event.event, StepFinished) and "/think#" in event.event.step]
    assert all(one.tokens for one in told)


@each_api
async def test_a_pause_in_the_middle_of_a_calls_arguments_leaves_nothing_of_the_call(api: Api, place: Place) -> None:
    slow = Call("look", {"at": "far " * 3_000}, every=0.002)
    async with desk(api, replies(slow)) as at:
        agent = looker(at)
        async with place.open(agent) as mc:
            session = await mc.start(agent, goal="Find the way.")
            await at.provider.wait_for_request(0, pieces=5)
            await session.pause(until="stopped")
            assert (await at.provider.wait_for_close(0)).pieces < 1_000
            at.provider.script = replies(*TWO_ROUNDS)
            await session.resume()
            assert await session.result() == "North."
    assert sorted(looked) == ["map", "map", "sky"]


@each_api
async def test_a_redirect_between_rounds_comes_after_what_was_done_before_it(api: Api, place: Place) -> None:
    slow = Text("So it goes. " * 1_000, every=0.002)
    async with desk(api, replies(TWO_ROUNDS[0], slow)) as at:
        agent = looker(at)
        async with place.open(agent) as mc:
            session = await mc.start(agent, goal="Find the way.")
            await at.provider.wait_for_request(1, pieces=5)
            at.provider.script = replies(TWO_ROUNDS[0], Text("South."))
            await session.redirect("Go south.")
            assert await session.result() == "South."
        await at.provider.wait_for_close(1)
        last = at.provider.requests[-1].conversation
    assert [said.role for said in last] == ["user", "assistant", "tool", "tool", "user"]
    assert last.user == "Go south."
    assert len(looked) == 2


@each_api
async def test_a_call_whose_arguments_are_broken_is_an_error_that_the_model_can_be_told(api: Api, place: Place) -> None:
    async with desk(api, replies(Call("look", raw='{"at": '), Text("Sorry."))) as at:
        agent = looker(at)
        async with place.open(agent) as mc:
            session = await mc.start(agent, goal="Find the way.")
            assert await session.result() == "Sorry."
        (told,) = [said.text for said in at.provider.requests[-1].conversation if said.role == "tool"]
    assert told == "Call 'look' cannot be made: the arguments are no JSON object: {\"at\": "
    assert looked == []


@each_api
async def test_a_server_that_uses_one_id_again_still_makes_calls_of_their_own(api: Api, place: Place) -> None:
    async with desk(api, replies(Text("unused"))) as at:
        # Each request is one of a new conversation, so that the script gives the same id again.
        at.provider.script = replies(Call("look", {"at": "map"}, "call_0"))

        async def function(run: midcourse.Run) -> list[str]:
            keys: list[str] = []
            for _ in range(2):
                reply = await model_reply(run, "think", lambda: at.ask("Look.", tools=DECLARED[api]))
                (call,) = reply.calls
                assert (call.id, call.name) == ("call_0", "look")
                await run.call(look, call.arguments, key=call.key)
                keys.append(call.key)
            return keys

        agent = resumable(function)
        async with place.open(agent) as mc:
            assert await (await mc.start(agent)).result() == ["think.1.0", "think.2.0"]
    assert looked == ["map", "map"]


@each_api
async def test_a_reply_is_the_same_after_a_replay(api: Api, place: Place) -> None:
    seen: list[ModelReply] = []

    async with desk(api, replies(TWO_ROUNDS[0])) as at:

        async def function(run: midcourse.Run) -> str:
            seen.append(await model_reply(run, "think", lambda: at.ask("Look.", tools=DECLARED[api])))
            if len(seen) == 1:
                raise ValueError("once")
            return seen[-1].ended

        agent = resumable(function)
        async with place.open(agent) as mc:
            session = await mc.start(agent)
            with pytest.raises(midcourse.SessionEnded):
                await session.result()
            await session.resume()
            ended = await session.result()
        assert len(at.provider.requests) == 1
    assert seen[0] == seen[1]
    assert [call.arguments for call in seen[1].calls] == [{"at": "map"}, {"at": "sky"}]
    assert seen[1].text == "Let me look. "
    assert ended == {"chat.completions": "tool_calls", "responses": "completed", "messages": "tool_use"}[api]


@each_api
async def test_tools_without_a_place_for_calls_are_refused_before_anything_is_sent(api: Api, place: Place) -> None:
    async with desk(api, replies(Text("unused"))) as at:
        agent = resumable(lambda run: run.stream("think", lambda: at.ask("Look.", tools=DECLARED[api])))
        async with place.open(agent) as mc:
            with pytest.raises(midcourse.SessionEnded, match="Use `await model_reply"):
                await (await mc.start(agent)).result()
        assert at.provider.requests == ()


async def test_a_request_that_is_kept_is_made_anew_each_time(place: Place) -> None:
    async with desk("chat.completions", replies(Text("Yes."))) as at:
        kept = at.ask("Well?")

        async def function(run: midcourse.Run) -> str:
            with pytest.raises(StepError):
                await run.stream("first", lambda: kept)
            return await run.stream("second", lambda: kept)

        agent = resumable(function)
        at.provider.fail_next(Fail(400, "not now"))
        async with place.open(agent) as mc:
            assert await (await mc.start(agent)).result() == "Yes."
        assert len(at.provider.requests) == 2


def test_a_result_that_is_no_text_is_json_for_the_model() -> None:
    call = ToolCall("call_1", "look", "", "think.1.0", "chat.completions")
    assert call.arguments == {}
    assert call.result({"seen": ["a star"]})["content"] == '{"seen":["a star"]}'
    assert call.result("a star")["content"] == "a star"


def test_nothing_is_checked_before_the_step_so_that_its_error_is_the_steps() -> None:
    made = streamed(print)  # pyright: ignore[reportArgumentType] - that is the test
    with pytest.raises(InvalidInput):
        asyncio.run(_first(made))


async def _first(made: Any) -> None:
    await anext(made)
