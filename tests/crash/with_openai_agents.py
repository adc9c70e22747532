"""The story of ``talking`` in the OpenAI Agents SDK."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

from agents import Agent, Model, ModelResponse, function_tool
from agents.items import TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from midcourse.adapters.openai_agents import wrap
from midcourse.models.script import Call, Conversation, Said, Text, Wait, answer, call_of
from tests.crash.chat_story import TOOLS, said_by, story


class Scripted(Model):
    """Says what the story says next."""

    async def get_response(self, *given: Any, **more: Any) -> ModelResponse:
        """Not asked for: it streams."""
        raise NotImplementedError

    async def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[TResponseStreamEvent]:
        """The words as they come, and at last the whole."""
        output: list[ResponseOutputItem] = []
        for piece in answer(story, _heard(more["input"])):
            match piece:
                case Text():
                    output.append(_message(piece.text))
                    yield ResponseTextDeltaEvent(
                        type="response.output_text.delta",
                        delta=piece.text,
                        item_id="msg",
                        content_index=0,
                        output_index=0,
                        sequence_number=0,
                        logprobs=[],
                    )
                case Call():
                    output.append(
                        ResponseFunctionToolCall(
                            type="function_call", name=piece.name, arguments=piece.spelled, call_id=piece.id or ""
                        )
                    )
                case Wait():
                    await asyncio.sleep(piece.seconds)
                case _:
                    raise ValueError(f"the story has no {piece}")
        whole = Response(
            id="resp",
            created_at=0,
            model="scripted",
            object="response",
            output=output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(type="response.completed", sequence_number=0, response=whole)


def _message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(type="message", id="msg", role="assistant", status="completed", content=[content])


def _heard(items: str | Sequence[Mapping[str, Any]]) -> Conversation:
    """Items as a script hears them: the calls of one response are one message, with what was said before them."""
    said: list[Said] = []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        match item.get("type", "message"):
            case "function_call":
                call = call_of(item["name"], item["arguments"], item["call_id"])
                last = said.pop() if said and said[-1].role == "assistant" else Said("assistant", "")
                said.append(Said("assistant", last.text, (*last.calls, call)))
            case "function_call_output":
                said.append(Said("tool", _text(item["output"]), call_id=item["call_id"]))
            case _:
                said.append(said_by(item["role"], _text(item["content"])))
    return Conversation(tuple(said))


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


agent = wrap(
    Agent[Any](
        name="crash-openai-agents",
        instructions="Do it.",
        model=Scripted(),
        tools=[function_tool(cast("Any", one)) for one in TOOLS],
    )
)
