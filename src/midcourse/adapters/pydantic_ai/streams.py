"""A model's answer in Pydantic AI, as a step reads it: words as they come, and in the end all of it, with its cost."""

from collections.abc import AsyncGenerator, Callable

from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import StreamedResponse

from midcourse.adapters.prices import dollars
from midcourse.adapters.pydantic_ai.conversation import dump
from midcourse.runtime.calls import current_call
from midcourse.runtime.streaming import StreamEnd


async def spoken(
    streamed: StreamedResponse, kept: Callable[[ModelResponse], ModelResponse]
) -> AsyncGenerator[str | StreamEnd]:
    """The words of a stream, and its end: the response as ``kept`` wants it journaled. A cut is charged with its usage.

    In the body of a step.
    """
    try:
        async for event in streamed:
            match event:
                case PartStartEvent(part=TextPart(content=text)) if text:
                    yield text
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                    yield text
                case _:
                    pass
    finally:
        end = end_of(streamed.get())
        current_call().spend(end.cost, end.tokens)
    yield end_of(kept(streamed.get()))


def end_of(response: ModelResponse) -> StreamEnd:
    """A whole response as the result of its step, with its price."""
    usage = response.usage
    cost: float | None = None
    if response.model_name:
        cost = dollars(
            model=response.model_name,
            heard=usage.input_tokens,
            said=usage.output_tokens,
            cached=usage.cache_read_tokens,
            written_to_cache=usage.cache_write_tokens,
            provider=response.provider_name,
            url=response.provider_url,
        )
    return StreamEnd(value=dump([response])[0], cost=cost, tokens=usage.output_tokens)
