"""A scripted model for Pydantic AI: it streams what a script says, with its delays, without a network or a key."""

import asyncio
from collections.abc import AsyncIterator

from pydantic_ai import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from midcourse.models.script import Call, Conversation, Fail, Garbage, Said, Script, Text, Wait, answer, call_of


def scripted(script: Script, name: str = "scripted") -> FunctionModel:
    """Return a model that answers as ``script`` does, given the conversation so far."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for index, piece in enumerate(answer(script, heard(messages, info.instructions or ""))):
            match piece:
                case Text():
                    for ordinal, word in enumerate(piece.parts):
                        if ordinal and piece.every:
                            await asyncio.sleep(piece.every)
                        yield word
                case Call():
                    yield {index: DeltaToolCall(piece.name, "", tool_call_id=piece.id)}
                    for ordinal, part in enumerate(piece.parts):
                        if ordinal and piece.every:
                            await asyncio.sleep(piece.every)
                        yield {index: DeltaToolCall(json_args=part)}
                case Wait():
                    await asyncio.sleep(piece.seconds)
                case Fail() | Garbage():
                    raise _failure(piece, name)

    async def whole(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts: list[TextPart | ToolCallPart] = []
        for piece in answer(script, heard(messages, info.instructions or "")):
            match piece:
                case Text():
                    await asyncio.sleep(piece.every * max(0, len(piece.parts) - 1))
                    parts.append(TextPart(piece.text))
                case Call():
                    parts.append(ToolCallPart(piece.name, piece.spelled, piece.id or ""))
                case Wait():
                    await asyncio.sleep(piece.seconds)
                case Fail() | Garbage():
                    raise _failure(piece, name)
        return ModelResponse(parts=parts)

    model = FunctionModel(whole, stream_function=stream, model_name=name)
    model.goes_on = "quote"  # pyright: ignore[reportAttributeAccessIssue] - a script knows what it has said
    return model


def _failure(piece: Fail | Garbage, name: str) -> ModelHTTPError:
    if isinstance(piece, Fail):
        return ModelHTTPError(piece.status, name, piece.message)
    return ModelHTTPError(502, name, f"not a chunk: {piece.text}")


def heard(messages: list[ModelMessage], instructions: str = "") -> Conversation:
    """Messages as a script hears them."""
    said: list[Said] = [Said("system", instructions)] if instructions else []
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                match part:
                    case SystemPromptPart():
                        said.append(Said("system", part.content))
                    case UserPromptPart():
                        content = part.content
                        text = content if isinstance(content, str) else "\n".join(map(str, content))
                        said.append(Said("user", text))
                    case ToolReturnPart():
                        said.append(Said("tool", part.model_response_str(), call_id=part.tool_call_id))
                    case RetryFeedbackPart():
                        said.append(Said("user", part.model_response()))
                    case _:
                        pass
        else:
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            calls = tuple(
                call_of(part.tool_name, part.args_as_json_str(), part.tool_call_id)
                for part in message.parts
                if isinstance(part, ToolCallPart)
            )
            said.append(Said("assistant", text, calls))
    return Conversation(tuple(said))
