"""What Anthropic's models send besides text: it is kept as it came, since the next request must have it again."""

import json
from pathlib import Path
from typing import Any, cast

import httpx2
from anthropic import AsyncAnthropic

import midcourse
from midcourse.adapters.plain import Create, ModelReply, model_reply, streamed
from midcourse.core.events import StepFinished
from midcourse.models.script import Text, replies
from tests.adapters.plain.desk import desk
from tests.promises.harness import Place, history, resumable

EVENTS: list[Any] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-of-a-test",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Where "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "is it?"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2lnbmVk"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "aGlkZGVu"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "content_block_start",
        "index": 3,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    },
    {"type": "content_block_stop", "index": 3},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 42},
    },
    {"type": "message_stop"},
]


def answer(_: httpx2.Request) -> httpx2.Response:
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=lines.encode())


async def test_thinking_is_sent_back_with_its_signature_and_is_no_text(tmp_path: Path) -> None:
    wire = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    async with AsyncAnthropic(api_key="any", http_client=wire) as client:
        seen: list[ModelReply] = []

        async def function(run: midcourse.Run) -> str:
            seen.append(
                await model_reply(
                    run,
                    "think",
                    lambda: streamed(client.messages.create, model="m", max_tokens=9, messages=[], tools=[{}]),
                )
            )
            return seen[0].text

        agent = resumable(function)
        async with Place("memory", tmp_path).open(agent) as mc:
            session = await mc.start(agent)
            assert await session.result() == ""
            (told,) = [event.event for event in await history(session) if isinstance(event.event, StepFinished)]
    assert told.tokens == 42
    (reply,) = seen
    assert (reply.ended, [call.arguments for call in reply.calls]) == ("tool_use", [{}])
    assert reply.messages == (
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Where is it?", "signature": "c2lnbmVk"},
                {"type": "redacted_thinking", "data": "aGlkZGVu"},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            ],
        },
    )


async def test_the_beta_of_messages_is_read_like_the_other(tmp_path: Path) -> None:
    async with desk("messages", replies(Text("Yes."))) as at:
        assert isinstance(at.client, AsyncAnthropic)
        create = cast("Create", at.client.beta.messages.create)
        asked: Any = [{"role": "user", "content": "Well?"}]
        agent = resumable(
            lambda run: run.stream("ask", lambda: streamed(create, model="m", max_tokens=9, messages=asked))
        )
        async with Place("memory", tmp_path).open(agent) as mc:
            assert await (await mc.start(agent)).result() == "Yes."
