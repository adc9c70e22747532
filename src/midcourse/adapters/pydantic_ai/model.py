"""A model of Pydantic AI whose every request is a step: streamed, cut at once by a stop, and never made twice."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from midcourse.adapters.held_agent import MODEL, NewCourse
from midcourse.adapters.prices import priced
from midcourse.adapters.pydantic_ai.conversation import interrupted, load_response
from midcourse.adapters.pydantic_ai.streams import end_of, spoken
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
