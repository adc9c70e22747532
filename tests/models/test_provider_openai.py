"""What OpenAI's own client makes of the provider: both of its APIs, streamed and at once, and every way to fail."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from midcourse.models.script import Call, Conversation, Fail, Garbage, Piece, Said, Script, Text, Wait, replies
from midcourse.testing.provider import Provider

USER: Any = {"role": "user", "content": "Find the way"}
BOTH = (Text("Let me look. "), Call("look", {"at": "map"}), Call("look", {"at": "sky"}))

Connect = Callable[..., Any]


class Desk:
    """A provider and a client of it, for one test."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def open(self, script: Script, *, api_key: str | None = None, **options: Any) -> tuple[Provider, AsyncOpenAI]:
        provider = await self._stack.enter_async_context(Provider(script, api_key=api_key))
        options = {"api_key": api_key or "any", "max_retries": 0, **options}
        client = await self._stack.enter_async_context(AsyncOpenAI(base_url=provider.base_url, **options))
        return provider, client


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    async with AsyncExitStack() as stack:
        yield Desk(stack)


async def chat(client: AsyncOpenAI, *messages: Any, **options: Any) -> Any:
    create: Connect = client.chat.completions.create
    return await create(model="m", messages=messages, **options)


async def respond(client: AsyncOpenAI, *items: Any, **options: Any) -> Any:
    create: Connect = client.responses.create
    return await create(model="m", input=items, **options)


# ---- chat completions


async def test_chat_streams_text_and_calls_word_by_word(desk: Desk) -> None:
    provider, client = await desk.open(replies(BOTH))
    stream = await chat(client, USER, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert [delta.content for delta in deltas if delta.content] == ["Let ", "me ", "look. "]
    made: dict[int, dict[str, str]] = {}
    for delta in deltas:
        for part in delta.tool_calls or ():
            call = made.setdefault(part.index, {"id": part.id, "name": part.function.name, "arguments": ""})
            call["arguments"] += part.function.arguments
    assert made == {
        0: {"id": "call_0_0", "name": "look", "arguments": '{"at": "map"}'},
        1: {"id": "call_0_1", "name": "look", "arguments": '{"at": "sky"}'},
    }
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
    assert chunks[-1].usage.completion_tokens == 3 + 3 + 3
    (received,) = provider.requests
    assert received.finished
    assert received.closed_by_client_after is None
    assert received.pieces == 3 + 2 + 2
    assert received.conversation == Conversation((Said("user", "Find the way"),))


async def test_the_clients_own_accumulation_of_a_chat_stream_works(desk: Desk) -> None:
    _, client = await desk.open(replies(BOTH))
    async with client.chat.completions.stream(model="m", messages=[USER]) as stream:
        final = await stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "Let me look. "
    assert [call.function.arguments for call in message.tool_calls or ()] == ['{"at": "map"}', '{"at": "sky"}']


async def test_chat_answers_at_once_and_goes_on_from_results(desk: Desk) -> None:
    provider, client = await desk.open(replies(BOTH, Text("North.")))
    first = await chat(client, USER)
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    results = [{"role": "tool", "tool_call_id": call.id, "content": "north"} for call in message.tool_calls]
    second = await chat(client, USER, message.model_dump(exclude_none=True), *results)
    assert second.choices[0].message.content == "North."
    assert second.choices[0].finish_reason == "stop"
    assert second.usage.total_tokens == second.usage.prompt_tokens + 1
    heard = provider.requests[1].conversation
    assert heard.results("look") == ("north", "north")
    assert heard.rounds == 1
    with pytest.raises(openai.BadRequestError, match="The script has 2 rounds"):
        await chat(
            client,
            *(USER, message.model_dump(exclude_none=True), *results, {"role": "assistant", "content": "North."}, USER),
        )


ASKED: Any = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}
NONE: list[Any] = []
RESULT: Any = {"role": "tool", "tool_call_id": "c1", "content": "north"}


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "Invalid 'messages': empty array"),
        ([USER, ASKED], "must be followed by tool messages responding to each 'tool_call_id'.*: c1"),
        ([USER, ASKED, USER, RESULT], "must be followed by tool messages"),
        ([USER, RESULT], "messages with role 'tool' must be a response to a preceeding message"),
        ([USER, ASKED, {**RESULT, "tool_call_id": "c2"}], "'tool_call_id' of 'c2' not found"),
        ([USER, ASKED, RESULT, RESULT], "Duplicate value for 'tool_call_id' of 'c1' in message.3."),
        ([USER, ASKED, RESULT, ASKED, RESULT], "Duplicate value for 'tool_call_id' of 'c1' in message.3."),
        ([USER, {"role": "assistant", "content": None}], "Invalid value for 'content': expected a string, got null"),
        ([USER, {**ASKED, "tool_calls": NONE}], "Invalid 'messages.1..tool_calls': empty"),
        ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
        ([{"role": "user", "content": 1}], "Expected `str | array | null`, got `int`"),
    ],
)
async def test_chat_refuses_messages_that_openai_refuses(desk: Desk, messages: list[Any], sentence: str) -> None:
    provider, client = await desk.open(replies(Text("never")))
    with pytest.raises(openai.BadRequestError, match=sentence) as caught:
        await chat(client, *messages, stream=True)
    assert caught.value.type == "invalid_request_error"
    assert provider.requests[0].status == 400
    assert provider.requests[0].refused
    assert provider.requests[0].pieces == 0


async def test_fields_it_does_not_know_are_left_alone(desk: Desk) -> None:
    _, client = await desk.open(replies(Text("Fine.")))
    developer = {"role": "developer", "content": [{"type": "text", "text": "Be brief."}], "strange": 1}
    made = await chat(client, developer, USER, extra_body={"strange": {"deep": []}}, temperature=0.1)
    assert made.choices[0].message.content == "Fine."


# ---- responses


async def test_responses_stream_text_and_calls(desk: Desk) -> None:
    provider, client = await desk.open(replies(BOTH))
    async with client.responses.stream(model="m", input="Find the way", instructions="Be brief.") as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert kinds.count("response.output_text.delta") == 3
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert final.output_text == "Let me look. "
    calls = [item for item in final.output if item.type == "function_call"]
    assert [(call.call_id, call.name, call.arguments) for call in calls] == [
        ("call_0_0", "look", '{"at": "map"}'),
        ("call_0_1", "look", '{"at": "sky"}'),
    ]
    assert final.usage is not None
    assert final.usage.input_tokens == 2 + 3
    assert provider.requests[0].conversation.system == "Be brief."
    assert provider.requests[0].finished


async def test_responses_answer_at_once_and_go_on_from_results(desk: Desk) -> None:
    provider, client = await desk.open(replies(BOTH, Text("North.")))
    first = await respond(client, USER)
    items = [item.model_dump(exclude_none=True) for item in first.output]
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "north"}
        for item in items
        if item["type"] == "function_call"
    ]
    second = await respond(client, USER, *items, *results)
    assert second.output_text == "North."
    heard = provider.requests[1].conversation
    assert [said.role for said in heard] == ["user", "assistant", "tool", "tool"]
    assert heard.said[1].text == "Let me look. "
    assert len(heard.said[1].calls) == 2


CALLED: Any = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT: Any = {"type": "function_call_output", "call_id": "c1", "output": "north"}


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([], 'One of "input"'),
        ([USER, CALLED], "No tool output found for function call c1."),
        ([USER, OUTPUT], "No tool call found for function call output with call_id c1."),
        ([USER, OUTPUT, CALLED], "No tool call found for function call output with call_id c1."),
        ([USER, CALLED, CALLED, OUTPUT], "Duplicate function call found with call_id c1."),
        ([USER, CALLED, OUTPUT, OUTPUT], "Duplicate function call output found with call_id c1."),
        ([{**USER, "id": "msg_1"}, {**USER, "id": "msg_1"}], "Duplicate item found with id msg_1."),
        ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
    ],
)
async def test_responses_refuse_items_that_openai_refuses(desk: Desk, items: list[Any], sentence: str) -> None:
    _, client = await desk.open(replies(Text("never")))
    with pytest.raises(openai.BadRequestError, match=sentence):
        await respond(client, *items, stream=True)


async def test_responses_that_were_not_stored_are_not_found(desk: Desk) -> None:
    _, client = await desk.open(replies(Text("never")))
    with pytest.raises(openai.BadRequestError, match="Previous response with id 'resp_1' not found"):
        await respond(client, USER, previous_response_id="resp_1")


# ---- keys and failures


async def test_a_wrong_key_is_refused(desk: Desk) -> None:
    provider, client = await desk.open(replies(Text("Fine.")), api_key="right")
    assert await chat(client, USER)
    with pytest.raises(openai.AuthenticationError, match="Incorrect API key provided"):
        await chat(client.with_options(api_key="wrong"), USER)
    assert [received.status for received in provider.requests] == [200, 401]


@pytest.mark.parametrize("ask", [chat, respond])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_failure_before_anything_is_said_is_an_http_error(desk: Desk, ask: Connect, stream: bool) -> None:
    provider, client = await desk.open(replies([Wait(0.01), Fail(503, "Overloaded, try later.")]))
    with pytest.raises(openai.InternalServerError, match="Overloaded, try later") as caught:
        await ask(client, USER, stream=stream)
    assert caught.value.status_code == 503
    assert provider.requests[0].finished


async def test_a_failure_that_is_not_the_scripts_passes_when_the_client_tries_again(desk: Desk) -> None:
    provider, client = await desk.open(replies(Text("Fine.")), max_retries=1)
    provider.fail_next(Fail(429, "Slow down."))
    assert (await chat(client, USER)).choices[0].message.content == "Fine."
    assert [received.status for received in provider.requests] == [429, 200]


async def test_a_failure_in_the_middle_of_a_chat_breaks_the_stream(desk: Desk) -> None:
    _, client = await desk.open(replies([Text("Half a"), Fail(500, "The model fell over.")]))
    heard: list[str] = []

    async def listen() -> None:
        async for chunk in await chat(client, USER, stream=True):
            heard.append(chunk.choices[0].delta.content)

    with pytest.raises(openai.APIError, match="The model fell over"):
        await listen()
    assert "".join(heard) == "Half a"


async def test_a_failure_in_the_middle_of_a_response_is_an_event_that_the_client_does_not_raise(desk: Desk) -> None:
    _, client = await desk.open(replies([Text("Half a"), Fail(500, "The model fell over.")]))
    events = [event async for event in await respond(client, USER, stream=True)]
    assert events[-1].type == "error"
    assert events[-1].message == "The model fell over."


@pytest.mark.parametrize("ask", [chat, respond])
async def test_a_connection_that_is_cut_is_an_error_of_the_transport(desk: Desk, ask: Connect) -> None:
    provider, client = await desk.open(replies([Text("Half a"), Fail(0, "cut")]))
    stream = await ask(client, USER, stream=True)
    with pytest.raises(openai.APIConnectionError):
        async for _ in stream:
            pass
    assert provider.requests[0].pieces == 2
    provider.script = replies(Fail(0, "cut"))
    with pytest.raises(openai.APIConnectionError):
        await ask(client, USER, stream=True)
    assert provider.requests[1].status is None


@pytest.mark.parametrize("ask", [chat, respond])
async def test_garbage_in_a_stream_reaches_the_client(desk: Desk, ask: Connect) -> None:
    _, client = await desk.open(replies([Text("Fine "), Garbage("}{ not a chunk")]))
    with pytest.raises(json.JSONDecodeError):
        async for _ in await ask(client, USER, stream=True):
            pass


async def test_arguments_can_be_broken_json(desk: Desk) -> None:
    provider, client = await desk.open(replies(Call("look", raw='{"at": "ma')))
    made = await chat(client, USER)
    (call,) = made.choices[0].message.tool_calls
    assert call.function.arguments == '{"at": "ma'
    result = {"role": "tool", "tool_call_id": call.id, "content": "What?"}
    with pytest.raises(openai.BadRequestError, match="The script has 1 rounds"):
        await chat(client, USER, made.choices[0].message.model_dump(exclude_none=True), result)
    assert provider.requests[1].conversation.calls == (Call("look", id="call_0_0", raw='{"at": "ma'),)


# ---- who stops listening

ENDLESS: tuple[Piece, ...] = (Text("word " * 100_000, every=0.002),)


@pytest.mark.parametrize("ask", [chat, respond])
async def test_a_stream_that_is_closed_is_no_longer_made(desk: Desk, ask: Connect) -> None:
    provider, client = await desk.open(replies(ENDLESS))
    stream = await ask(client, USER, stream=True)
    async for _ in stream:
        if provider.requests[0].pieces > 5:
            break
    await stream.close()
    closed = await provider.wait_for_close(0, timeout=10)
    assert closed.closed_by_client_after == closed.pieces
    assert not closed.finished
    await asyncio.sleep(0.05)
    assert provider.requests[0] == closed, "it went on"


async def test_a_client_that_is_cancelled_before_the_first_word_is_seen_to_leave(desk: Desk) -> None:
    provider, client = await desk.open(replies([Wait(60), Text("late")]))
    asking = asyncio.create_task(chat(client, USER, stream=True))
    await provider.wait_for_request(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await provider.wait_for_close(0)).closed_by_client_after == 0
    assert provider.requests[0].status is None


async def test_a_client_that_waits_for_all_at_once_is_seen_to_leave_too(desk: Desk) -> None:
    provider, client = await desk.open(replies([Call("write", {"text": "x" * 80_000}, every=0.002)]))
    asking = asyncio.create_task(chat(client, USER))
    await provider.wait_for_request(0, pieces=3)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await provider.wait_for_close(0)).pieces >= 3


async def test_a_stream_that_was_heard_to_its_end_was_not_closed(desk: Desk) -> None:
    provider, client = await desk.open(replies(Text("Fine.")))
    async for _ in await chat(client, USER, stream=True):
        pass
    with pytest.raises(AssertionError, match="Request 0 was answered to its end"):
        await provider.wait_for_close(0)
    with pytest.raises(TimeoutError, match="Request 1 with 0 pieces sent was not seen"):
        await provider.wait_for_request(1, timeout=0.01)


async def test_the_server_goes_on_while_the_loop_of_the_test_is_blocked(desk: Desk) -> None:
    provider, _ = await desk.open(replies(Text("Fine.")))
    with OpenAI(base_url=provider.base_url, api_key="any", max_retries=0) as blocking:
        made = blocking.chat.completions.create(model="m", messages=[USER])
    assert made.choices[0].message.content == "Fine."


async def test_leaving_the_provider_ends_the_streams_it_is_sending() -> None:
    async with Provider(replies([Text("a"), Wait(600)])) as provider:
        port = int(provider.anthropic_url.rpartition(":")[2])
        client = AsyncOpenAI(base_url=provider.base_url, api_key="any", max_retries=0)
        stream = await chat(client, USER, stream=True)
    with pytest.raises(openai.APIConnectionError):
        async for _ in stream:
            pass
    await client.close()
    assert provider.requests[0].closed_by_client_after is None, "it was not the client"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


# ---- scripts with mistakes


def broken(conversation: Conversation) -> list[Piece]:
    raise KeyError(conversation.user)


def alone(_: Conversation) -> Any:
    return Text("not in a list")


def words(_: Conversation) -> Any:
    return ["a word"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("script", "said"),
    [
        (broken, "the script raised KeyError: 'Find the way'"),
        (alone, "the script raised TypeError: 'Text' object is not iterable"),
        (words, "the script said 'a word', which is no piece"),
    ],
)
async def test_a_script_with_a_mistake_is_an_error_that_names_it_and_prints_nothing(
    desk: Desk, script: Script, said: str, stream: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    provider, client = await desk.open(script)
    for ask in (chat, respond):
        with pytest.raises(openai.InternalServerError, match=re.escape(said)) as failed:
            await ask(client, USER, stream=stream)
        assert failed.value.type == "server_error"
    for received in provider.requests:
        assert (received.status, received.finished, received.pieces) == (500, True, 0)
        assert received.refused.startswith(said)
        assert received.conversation.user == "Find the way"
    assert capfd.readouterr() == ("", "")
