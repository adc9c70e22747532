"""A model of the OpenAI Agents SDK whose every request is a step: streamed, cut at once by a stop, never made twice."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from agents import FunctionTool, Model, ModelBehaviorError, ModelResponse, ModelSettings, Tool, Usage
from agents.agent_output import AgentOutputSchemaBase
from agents.exceptions import ModelTimeoutError
from agents.handoffs import Handoff
from agents.items import TResponseInputItem, TResponseStreamEvent
from agents.models.interface import ModelTracing
from agents.usage import _response_usage_to_usage as usage_of  # pyright: ignore[reportPrivateUsage] - as its runner does
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputItem, ResponsePromptParam

from midcourse.adapters.continuation import ModelAnswer
from midcourse.adapters.held_agent import MODEL, NewCourse
from midcourse.adapters.openai_agents.conversation import (
    NESTED_MODEL,
    calls_of,
    continued,
    dump_response,
    load_response,
    said,
    text_of,
    whole,
    with_own_ids,
)
from midcourse.adapters.openai_agents.nested_runs import the_nest
from midcourse.adapters.prices import PriceMeter, TokenUsage, dollars, priced
from midcourse.errors import Redirected
from midcourse.runtime.model_streams import StreamEnd

if TYPE_CHECKING:
    from midcourse.adapters.openai_agents.agent import HeldAgentRun

T = TypeVar("T")
_FAILED: Final = ("response.failed", "response.incomplete", "response.error", "error")


class OpenAIStepModel(Model):
    """Sends what the agent's own model would send, as a step of the session. That model is looked up when needed."""

    def __init__(
        self, held: "HeldAgentRun", agent: str, inner: Callable[[], Model], *, limit: float | None, strict: bool
    ) -> None:
        self._held = held
        self._agent = agent
        self._look_up = inner
        self._limit = limit
        self._strict = strict

    @cached_property
    def _inner(self) -> Model:
        return self._look_up()

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: ResponsePromptParam | None = None,
    ) -> ModelResponse:
        """Return the response, from the journal if it is there."""
        held, nest = self._held, the_nest()
        settings = model_settings if nest else held.used.settings(model_settings)
        given: dict[str, Any] = {
            "system_instructions": system_instructions,
            "input": input,
            # The client's and the runner's retries are off; it has no use for the rest of their settings.
            "model_settings": replace(settings, retry=None),
            "tools": tools,
            "output_schema": output_schema,
            "handoffs": handoffs,
            "tracing": tracing,
            "previous_response_id": None,
            "conversation_id": None,
            "prompt": prompt,
        }
        patience = _Patience(self._limit)

        @priced
        async def body() -> AsyncIterator[str | StreamEnd]:
            response: ModelResponse | None = None
            model = ""
            answer = ModelAnswer("again" if output_schema and not output_schema.is_plain_text() else "quote")
            asked = continued(given, answer)
            named, meter = str(getattr(self._inner, "model", "")), self._meter(asked)
            meter.begin(named)
            try:
                async with aclosing(self._events(asked, patience)) as events:
                    async for event in events:
                        if not isinstance(event, str):
                            response, model = event
                        elif word := answer.take(event, meter, named):
                            yield word
                if rest := answer.rest():
                    yield rest
            finally:
                if response is not None:
                    end = self._end(response, model)
                    answer.used(end.cost, end.tokens)
            assert response is not None
            response = whole(response, answer.text) if answer.said else response
            self._check(response, tools, handoffs, output_schema)
            # Before they are journaled: a cold start must find the calls under the ids they had.
            yield self._end(with_own_ids(response, ids), model)

        ids = nest.ids if nest else held.conversation.ids
        name, key = (NESTED_MODEL, nest.next_request()) if nest else (MODEL, None)
        try:
            heard = held.run.state.get("heard", 0)
            content = await held.run.stream(name, body, key=key, on_redirect="raise", heard=heard)
        except asyncio.CancelledError:
            patience.end()  # it was abandoned: a guardrail has been tripped
            raise
        except Redirected as redirect:
            cut = [said(redirect.partial)] if redirect.partial else []
            raise NewCourse([*held.asked, *cut]) from None
        answered = load_response(content)
        ids.take(call.call_id for call in calls_of(answered))
        if not nest:
            held.response = answered
            held.used.take(answered)
        return answered

    async def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Yield only the end of the stream, when it is over: a cut could not take back a token that was shown."""
        response = await self.get_response(*given, **more)
        whole = Response(
            id=response.response_id or "",
            created_at=0,
            model="",
            object="response",
            output=response.output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(type="response.completed", sequence_number=0, response=whole)

    async def _events(
        self, given: dict[str, Any], patience: "_Patience"
    ) -> AsyncGenerator[str | tuple[ModelResponse, str]]:
        """Yield the words as they come, and the response with the name of the model that gave it."""
        patience.begin()
        done: list[ResponseOutputItem] = []
        response: Response | None = None
        source: AsyncIterator[TResponseStreamEvent] | None = None
        try:
            source = self._inner.stream_response(**given)
            while True:
                event = await patience.wait_for(anext(source))
                match event.type:
                    case "response.output_text.delta":
                        if event.delta:
                            yield event.delta
                    case "response.output_item.done":
                        done.append(event.item)
                    case "response.completed":
                        response = event.response
                    case kind if kind in _FAILED:
                        raise ModelBehaviorError(f"The model's answer ended with {kind}: {_why(event)}.") from _Broken(
                            event
                        )
                    case _:
                        pass
        except StopAsyncIteration:
            pass
        except NotImplementedError:  # it cannot stream
            whole = await self._inner.get_response(**given)
            yield text_of(whole)
            yield whole, ""
            return
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()
        if response is None:
            raise ModelBehaviorError("The model's answer ended before it was complete.") from ConnectionResetError()
        usage = usage_of(response.usage) if response.usage else Usage(requests=1)
        output = response.output or done  # some leave it out of the last event
        yield ModelResponse(output=output, usage=usage, response_id=response.id), response.model

    def _check(
        self,
        response: ModelResponse,
        tools: Sequence[Tool],
        handoffs: Sequence[Handoff[Any, Any]],
        output_schema: AgentOutputSchemaBase | None,
    ) -> None:
        """Fail here where the SDK would fail after the request: so a resume asks the model again.

        Raises:
            ModelBehaviorError: it calls what is not there, or its output is not of the type the agent wants.
        """
        known = {tool.name for tool in tools} | {handoff.tool_name for handoff in handoffs}
        known |= {tool.qualified_name for tool in tools if isinstance(tool, FunctionTool)}
        for call in calls_of(response):
            if self._strict and call.name not in known:
                raise ModelBehaviorError(
                    f"The model called '{call.name}', which is no tool of agent '{self._agent}'. It has: "
                    f"{', '.join(sorted(known)) or 'none'}."
                )
        text = text_of(response)
        if output_schema is not None and not output_schema.is_plain_text() and text and not calls_of(response):
            output_schema.validate_json(text)

    def _end(self, response: ModelResponse, model: str) -> StreamEnd:
        usage = response.usage
        cost: float | None = None
        if model:
            used = TokenUsage(usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens)
            cost = dollars(model, used, **self._seller)
        return StreamEnd(value=dump_response(response), cost=cost, tokens=usage.output_tokens or None)

    def _meter(self, given: dict[str, Any]) -> PriceMeter:
        schemas = [getattr(tool, "params_json_schema", None) for tool in given["tools"]]
        prompt = [given["system_instructions"], given["input"], schemas]
        return PriceMeter(prompt, at_most=given["model_settings"].max_tokens, **self._seller)

    @property
    def _seller(self) -> dict[str, Any]:
        """Whose price list it is."""
        url = getattr(getattr(self._inner, "_client", None), "base_url", None)
        return {"url": str(url)} if url else {"provider": "openai"}

    # ---- what the SDK asks a model besides

    async def _cleanup_on_run_end(self, owner: object) -> None:
        if "_inner" in self.__dict__:
            await self._inner._cleanup_on_run_end(owner)  # noqa: SLF001 - on behalf of the SDK

    def _supports_default_prompt_cache_key(self) -> bool:
        try:
            supports = getattr(self._inner, "_supports_default_prompt_cache_key", None)
        except Exception:  # noqa: BLE001 - looked up again by the request, whose failure is a step's
            return False
        return bool(cast("Callable[[], object]", supports)()) if callable(supports) else False


class _Patience:
    """Limit the wait for an answer, event by event: the limit must not strike while the step is working."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._until: float | None = None
        self._waiting: asyncio.Timeout | None = None
        self._ended = False

    def begin(self) -> None:
        self._until = None if self._seconds is None else asyncio.get_running_loop().time() + self._seconds

    def end(self) -> None:
        """Wait no longer. On the agent's loop."""
        self._ended = True
        if self._waiting is not None:
            self._waiting.reschedule(0.0)

    async def wait_for(self, event: Awaitable[T]) -> T:
        """Return the next event.

        Raises:
            ModelTimeoutError: it did not come in time, by the settings of the agent.
            ModelBehaviorError: the stream was abandoned.
        """
        self._waiting = asyncio.timeout_at(0.0 if self._ended else self._until)
        try:
            async with self._waiting:
                return await event
        except TimeoutError as error:
            if self._ended:
                raise ModelBehaviorError("The agent has ended and does not wait for the answer.") from error
            if self._seconds is not None and self._waiting.expired():
                raise ModelTimeoutError(self._seconds) from error
            raise
        finally:
            self._waiting = None


class _Broken(Exception):
    """The reason of a failed stream: it decides if the request is made again."""

    def __init__(self, event: object) -> None:
        super().__init__()
        error = getattr(getattr(event, "response", None), "error", None)
        self.code = getattr(error, "code", None) or getattr(event, "code", None)


def _why(event: object) -> str:
    """Return the reason that a failed stream reports."""
    response = getattr(event, "response", None)
    details = getattr(response, "error", None) or getattr(response, "incomplete_details", None)
    reason = getattr(details, "message", None) or getattr(details, "reason", None) or getattr(event, "message", None)
    return str(reason or "no reason given")
