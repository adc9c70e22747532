"""A model of Pydantic AI whose every request is a step: streamed, cut at once by a stop, and never made twice."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from midcourse.adapters.continuation import OBJECTS, ModelAnswer, Way, takes_a_prefix
from midcourse.adapters.held_agent import MODEL, NewCourse
from midcourse.adapters.prices import PriceMeter, TokenUsage, dollars, priced
from midcourse.adapters.pydantic_ai.conversation import dump, interrupted, load_response
from midcourse.errors import Redirected
from midcourse.runtime.calls import current_call
from midcourse.runtime.model_streams import StreamEnd

if TYPE_CHECKING:
    from midcourse.adapters.pydantic_ai.agent import HeldCapability


class PydanticStepModel(WrapperModel):
    """Sends what the wrapped model would send, as a step of the session."""

    def __init__(self, wrapped: Model, held: "HeldCapability") -> None:
        super().__init__(wrapped)
        self._held = held

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        return await self._step(messages, model_settings, model_request_parameters, None)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        # The agent's own handlers see a stream that is over: a token they saw could not be revoked by a cut.
        response = await self._step(messages, model_settings, model_request_parameters, run_context)
        yield CompletedStreamedResponse(
            model_request_parameters=model_request_parameters, response=response, replay_events=True
        )

    async def _step(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        context: RunContext[Any] | None,
    ) -> ModelResponse:
        held = self._held
        held.tool_names.update(tool.name for tool in parameters.function_tools)
        if held.listener.has_news:
            raise NewCourse(list(messages))
        await held.save(messages)
        # A request that the client makes again by itself could not be seen, counted or stopped.
        once = cast("ModelSettings", {**(settings or {}), "max_retries": 0})

        @priced
        async def body() -> AsyncIterator[str | StreamEnd]:
            # Renamed before they are journaled: a cold start must find the calls under the ids they had.
            own = held.conversation.with_own_ids
            if not _streams(self.wrapped):
                current_call().continue_at(0)
                response = await self.wrapped.request(messages, once, parameters)
                yield response.text or ""
                yield end_of(own(response))
                return
            async with aclosing(spoken(self.wrapped, messages, once, parameters, context, own)) as words:
                async for word in words:
                    yield word

        try:
            heard = held.run.state.get("heard", 0)
            said = await held.run.stream(MODEL, body, on_redirect="raise", heard=heard)
        except Redirected as redirect:
            cut = [interrupted(redirect.partial)] if redirect.partial else []
            raise NewCourse([*messages, *cut]) from None
        return held.conversation.taken_in(load_response(said))


def _streams(model: Model) -> bool:
    """Return True if a model can be asked for a stream."""
    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    if isinstance(model, FallbackModel):
        return all(_streams(one) for one in model.models)
    if isinstance(model, WrapperModel):
        return _streams(model.wrapped)
    return type(model).request_stream is not Model.request_stream


# ---- the answer, as a step reads it

Keep = Callable[[ModelResponse], ModelResponse]


async def spoken(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
    context: RunContext[Any] | None,
    keep: Keep,
) -> AsyncGenerator[str | StreamEnd]:
    """Yield the words of an answer, and its end: the response as ``keep`` wants it journaled. In the body of a step.

    It continues the earlier attempt, if possible; a cut is charged with its usage.
    """
    answer = ModelAnswer(_way(model, settings, parameters))
    asked = answer.continued(
        messages,
        lambda text: ModelResponse(parts=[TextPart(text)]),
        lambda text: ModelRequest(parts=[UserPromptPart(text)]),
    )
    at_most = settings.get("max_tokens")
    meter = PriceMeter([asked, parameters.function_tools], at_most=at_most, provider=model.system, url=model.base_url)
    meter.begin(model.model_name)
    for attempt in (asked, messages):
        try:
            async with (
                model.request_stream(attempt, settings, parameters, context) as streamed,
                # Closed with this one: a stop reaches this generator, and must reach the stream behind it at once.
                aclosing(_words(streamed, answer, meter, keep)) as words,
            ):
                async for word in words:
                    yield word
            return
        except ModelHTTPError as error:
            if not answer.said or answer.pieces or error.status_code not in OBJECTS:
                raise
            answer.begin_again()


def _way(model: Model, settings: ModelSettings, parameters: ModelRequestParameters) -> Way:
    """Return how an answer of this model would be continued if it were cut."""
    if isinstance(model, FallbackModel):  # it is unknown which one answers next
        return "again" if any(_way(one, settings, parameters) == "again" for one in model.models) else "quote"
    if isinstance(model, WrapperModel):
        return _way(model.wrapped, settings, parameters)
    if isinstance(model, TestModel) or (isinstance(model, FunctionModel) and not hasattr(model, "goes_on")):
        return "again"  # a user's own function, that knows nothing of this
    if parameters.output_mode in ("native", "prompted"):
        return "again"  # half an object cannot be quoted
    thinks = bool(parameters.thinking or settings.get("anthropic_thinking"))
    takes = model.system == "anthropic" and takes_a_prefix(model.model_name) and not thinks
    return "prefix" if takes or getattr(model, "goes_on", "") == "prefix" else "quote"


async def _words(
    streamed: StreamedResponse, answer: ModelAnswer, meter: PriceMeter, keep: Keep
) -> AsyncGenerator[str | StreamEnd]:
    try:
        async for event in streamed:
            match event:
                case (
                    PartStartEvent(part=TextPart(content=text))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
                ) if text:
                    used = streamed.usage
                    model = streamed.model_name
                    word = answer.take(text, meter, model, said=used.output_tokens, heard=used.input_tokens)
                    if word:
                        yield word
                case _:
                    pass
        if rest := answer.rest():
            yield rest
    finally:
        end = end_of(streamed.get())
        answer.used(end.cost, end.tokens)
    response = streamed.get()
    yield end_of(keep(_whole(response, answer.text) if answer.said else response))


def _whole(response: ModelResponse, text: str) -> ModelResponse:
    """Return a response that continues another, with the text of both."""
    others = [part for part in response.parts if not isinstance(part, TextPart)]
    return replace(response, parts=[TextPart(text), *others])


def end_of(response: ModelResponse) -> StreamEnd:
    """Return a whole response as the result of its step, with its price."""
    usage = response.usage
    cost: float | None = None
    if response.model_name:
        used = TokenUsage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        cost = dollars(response.model_name, used, provider=response.provider_name, url=response.provider_url)
    return StreamEnd(value=dump([response])[0], cost=cost, tokens=usage.output_tokens)
