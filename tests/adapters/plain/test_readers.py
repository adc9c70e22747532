"""Streams as servers of all kinds send them, where they differ from what the API's makers send."""

from collections.abc import Iterable
from typing import Any

from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseCompletedEvent, ResponseOutputItemDoneEvent

from midcourse.adapters.plain.replies import ModelReply
from midcourse.adapters.plain.stream_readers import ChatCompletionsReader, ResponsesReader, StreamReader


def read(reader: StreamReader, events: Iterable[Any]) -> ModelReply:
    reader.asked({"model": "m"})
    for event in events:
        reader.take(event)
    return reader.reply("1.1/think#1", {})


def chunk(index: int, id: str | None, name: str | None, arguments: str) -> ChatCompletionChunk:
    call = {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
    whole = {"id": "it", "created": 0, "model": "m", "object": "chat.completion.chunk", "choices": [choice]}
    return ChatCompletionChunk.model_validate(whole)


def test_calls_that_all_have_the_index_0_are_told_apart_by_their_ids() -> None:
    reply = read(
        ChatCompletionsReader(),
        [
            chunk(0, "a", "look", '{"at"'),
            chunk(0, None, None, ':"map"}'),
            chunk(0, "b", "look", '{"at"'),
            chunk(0, "b", None, ':"sky"}'),
        ],
    )
    assert [(call.id, call.name, call.spelled) for call in reply.calls] == [
        ("a", "look", '{"at":"map"}'),
        ("b", "look", '{"at":"sky"}'),
    ]


def test_a_part_of_the_arguments_with_an_id_of_its_own_is_no_call_of_its_own() -> None:
    reply = read(ChatCompletionsReader(), [chunk(0, "a", "look", '{"at"'), chunk(0, "b", None, ':"map"}')])
    assert [(call.id, call.spelled) for call in reply.calls] == [("a", '{"at":"map"}')]


def test_calls_whose_parts_come_in_turns_stay_whole_and_in_their_order() -> None:
    parts = [chunk(1, "b", "look", '{"at"'), chunk(0, "a", "find", "{"), chunk(1, None, None, ":1}")]
    reply = read(ChatCompletionsReader(), [*parts, chunk(0, None, None, "}")])
    assert [(call.id, call.name, call.spelled) for call in reply.calls] == [
        ("a", "find", "{}"),
        ("b", "look", '{"at":1}'),
    ]


def test_a_response_that_ends_without_its_output_is_what_came_before() -> None:
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": "{}"}
    done = {"type": "response.output_item.done", "item": call, "output_index": 0, "sequence_number": 0}
    response: Any = {
        "id": "it",
        "created_at": 0,
        "model": "m",
        "object": "response",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    ended = {"type": "response.completed", "response": response, "sequence_number": 1}
    item = ResponseOutputItemDoneEvent.model_validate(done)
    reply = read(ResponsesReader(), [item, ResponseCompletedEvent.model_validate(ended)])
    assert [(call.id, call.name) for call in reply.calls] == [("c", "look")]
    assert reply.messages == (call,)

    response["output"] = [call]
    reply = read(ResponsesReader(), [item, ResponseCompletedEvent.model_validate(ended)])
    assert len(reply.calls) == 1
