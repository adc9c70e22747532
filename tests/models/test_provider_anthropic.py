"""What Anthropic's own client makes of the provider: streamed and at once, and every way to fail."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message

from midcourse.models.script import Call, Conversation, Fail, Garbage, Piece, Said, Script, Text, Wait, replies
from midcourse.testing.provider import Provider

USER: Any = {"role": "user", "content": "Find the way"}
BOTH = (Text("Let me look. "), Call("look", {"at": "map"}), Call("look", {"at": "sky"}))
MESSAGE: Any = {"model": "m", "max_tokens": 100}


class Desk:
    """A provider and a client of it, for one test."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def open(self, script: Script, *, api_key: str | None = None) -> tuple[Provider, AsyncAnthropic]:
        provider = await self._stack.enter_async_context(Provider(script, api_key=api_key))
        client = AsyncAnthropic(base_url=provider.anthropic_url, api_key=api_key or "any", max_retries=0)
        return provider, await self._stack.enter_async_context(client)


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    async with AsyncExitStack() as stack:
        yield Desk(stack)


async def ask(client: AsyncAnthropic, *messages: Any, **options: Any) -> Message:
    create: Callable[..., Any] = client.messages.create
    return await create(**MESSAGE, messages=messages, **options)


async def test_messages_stream_text_and_tool_use(desk: Desk) -> None:
    provider, client = await desk.open(replies(BOTH))
    async with client.messages.stream(**MESSAGE, system="Be brief.", messages=[USER]) as stream:
        words = [word async for word in stream.text_stream]
        final = await stream.get_final_message()
    assert words == ["Let ", "me ", "look. "]
    assert final.stop_reason == "tool_use"
    assert [block.type for block in final.content] == ["text", "tool_use", "tool_use"]
    uses = [block for block in final.content if block.type == "tool_use"]
    assert [(use.id, use.name, use.input) for use in uses] == [
        ("call_0_0", "look", {"at": "map"}),
        ("call_0_1", "look", {"at": "sky"}),
    ]
    assert (final.usage.input_tokens, final.usage.output_tokens) == (2 + 3, 3 + 3 + 3)
    (received,) = provider.requests
    assert received.finished
    assert received.pieces == 3 + 2 + 2
    assert received.conversation == Conversation((Said("system", "Be brief."), Said("user", "Find the way")))


async def test_messages_are_answered_at_once_and_go_on_from_results(desk: Desk) -> None:
    provider, client = await desk.open(replies(BOTH, [Text("Go "), Text("north.")]))
    first = await ask(client, USER)
    said: Any = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]}
    results: Any = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "north"}
        for block in first.content
        if block.type == "tool_use"
    ]
    after: Any = {"role": "user", "content": [*results, {"type": "text", "text": "Hurry"}]}
    second = await ask(client, USER, said, after)
    assert second.stop_reason == "end_turn"
    assert [block.text for block in second.content if block.type == "text"] == ["Go north."]
    heard = provider.requests[1].conversation
    assert [said.role for said in heard] == ["user", "assistant", "tool", "tool", "user"]
    assert heard.results("look") == ("north", "north")
    assert heard.user == "Hurry"


USE: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "map"}}
ASKED: Any = {"role": "assistant", "content": [USE]}
ANSWER: Any = {"type": "tool_result", "tool_use_id": "c1", "content": "north"}
RESULT: Any = {"role": "user", "content": [ANSWER]}
HURRY: Any = {"type": "text", "text": "Hurry"}


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "messages: at least one message is required"),
        ([ASKED, RESULT], 'first message must use the "user" role'),
        ([USER, ASKED], "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: c1"),
        ([USER, ASKED, USER], "messages.1: `tool_use` ids were found without `tool_result` blocks"),
        ([USER, ASKED, {"role": "user", "content": [HURRY, ANSWER]}], "`tool_use` ids were found without"),
        ([USER, RESULT], "messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: c1"),
        ([USER, ASKED, RESULT, RESULT], "each tool_use must have a single result.*id: c1"),
        ([USER, ASKED, RESULT, ASKED, RESULT], "`tool_use` ids must be unique"),
        ([USER, {"role": "assistant", "content": "So"}], "The conversation must end with a user message"),
        ([{"role": "user", "content": ""}], "messages.0: all messages must have non-empty content"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "text content blocks must be non-empty"),
        ([{"role": "user", "content": " \n"}], "text content blocks must contain non-whitespace text"),
        ([{"role": "system", "content": "x"}, USER], "messages.0.role: Input should be 'user' or 'assistant'"),
        ([USER, {"role": "assistant", "content": [{**USE, "input": "{"}]}, RESULT], "valid dictionary"),
        ([USER, {"role": "assistant", "content": [{**USE, "id": "a b"}]}, RESULT], "match pattern"),
    ],
)
async def test_it_refuses_messages_that_anthropic_refuses(desk: Desk, messages: list[Any], sentence: str) -> None:
    provider, client = await desk.open(replies(Text("never")))
    with pytest.raises(anthropic.BadRequestError, match=sentence) as caught:
        await ask(client, *messages, stream=True)
    assert caught.value.type == "invalid_request_error"
    assert provider.requests[0].refused
    assert provider.requests[0].pieces == 0


async def test_messages_of_one_role_in_a_row_are_one(desk: Desk) -> None:
    provider, client = await desk.open(replies(Text("x"), Text("North.")))
    said: Any = {"role": "assistant", "content": "I look."}
    hurry: Any = {"role": "user", "content": "Hurry"}
    made = await ask(client, USER, hurry, said, ASKED, RESULT, hurry, extra_body={"strange": 1})
    assert made.content[0].type == "text"
    assert made.content[0].text == "North."
    assert [said.role for said in provider.requests[0].conversation] == ["user", "assistant", "tool", "user"]
    assert provider.requests[0].conversation.said[0].text == "Find the way\nHurry"


async def test_a_wrong_key_is_refused(desk: Desk) -> None:
    _, client = await desk.open(replies(Text("Fine.")), api_key="right")
    assert await ask(client, USER)
    with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
        await ask(client.with_options(api_key="wrong"), USER)


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_a_failure_before_anything_is_said_is_an_http_error(desk: Desk, status: int) -> None:
    _, client = await desk.open(replies([Wait(0.01), Fail(status, "Overloaded")]))
    with pytest.raises(anthropic.APIStatusError, match="Overloaded") as caught:
        async with client.messages.stream(**MESSAGE, messages=[USER]):
            pytest.fail("it began")
    assert caught.value.status_code == status
    assert caught.value.type == {429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}[status]


async def test_a_failure_in_the_middle_breaks_the_stream(desk: Desk) -> None:
    _, client = await desk.open(replies([Text("Half a"), Fail(529, "Overloaded")]))
    heard: list[str] = []

    async def listen() -> None:
        async with client.messages.stream(**MESSAGE, messages=[USER]) as stream:
            async for word in stream.text_stream:
                heard.append(word)

    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        await listen()
    assert "".join(heard) == "Half a"


async def test_a_connection_that_is_cut_is_an_error_of_the_transport(desk: Desk) -> None:
    provider, client = await desk.open(replies([Text("Half a"), Fail(0, "cut")]))
    with pytest.raises(httpx2.TransportError):
        async with client.messages.stream(**MESSAGE, messages=[USER]) as stream:
            await stream.until_done()
    provider.script = replies(Fail(0, "cut"))
    with pytest.raises(anthropic.APIConnectionError):
        await ask(client, USER)


async def test_garbage_in_a_stream_reaches_the_client(desk: Desk) -> None:
    _, client = await desk.open(replies([Text("Fine "), Garbage("}{ not a chunk")]))
    with pytest.raises(json.JSONDecodeError):
        async with client.messages.stream(**MESSAGE, messages=[USER]) as stream:
            await stream.until_done()


async def test_tool_input_can_be_broken_json(desk: Desk) -> None:
    _, client = await desk.open(replies(Call("look", raw='{"at" "ma')))
    with pytest.raises(ValueError, match="JSON"):
        async with client.messages.stream(**MESSAGE, messages=[USER]) as stream:
            await stream.until_done()
    raw = await client.messages.create(**MESSAGE, messages=[USER], stream=True)
    fragments = [
        event.delta.partial_json
        async for event in raw
        if event.type == "content_block_delta" and event.delta.type == "input_json_delta"
    ]
    assert "".join(fragments) == '{"at" "ma'
    with pytest.raises(json.JSONDecodeError):
        json.loads("".join(fragments))


async def test_a_stream_that_is_closed_is_no_longer_made(desk: Desk) -> None:
    provider, client = await desk.open(replies(Text("word " * 100_000, every=0.002)))
    async with client.messages.stream(**MESSAGE, messages=[USER]) as stream:
        async for _ in stream:
            if provider.requests[0].pieces > 5:
                break
    closed = await provider.wait_for_close(0, timeout=10)
    assert closed.closed_by_client_after == closed.pieces
    assert not closed.finished
    await asyncio.sleep(0.05)
    assert provider.requests[0] == closed, "it went on"


async def test_a_reader_that_is_cancelled_in_the_middle_of_a_call_is_seen_to_leave(desk: Desk) -> None:
    provider, client = await desk.open(replies(Call("write", {"text": "x" * 80_000}, every=0.002)))

    async def read() -> None:
        async with client.messages.stream(**MESSAGE, messages=[USER]) as stream:
            await stream.until_done()

    reading = asyncio.create_task(read())
    await provider.wait_for_request(0, pieces=4)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    closed = await provider.wait_for_close(0)
    assert closed.closed_by_client_after is not None
    assert closed.closed_by_client_after >= 4


async def test_a_script_that_raises_is_an_error_of_the_server(desk: Desk) -> None:
    def script(conversation: Conversation) -> list[Piece]:
        raise TypeError(f"no idea about {conversation.user}")

    provider, client = await desk.open(script)
    with pytest.raises(anthropic.InternalServerError, match="the script raised TypeError: no idea about"):
        await ask(client, USER)
    assert provider.requests[0].refused.startswith("the script raised TypeError")
