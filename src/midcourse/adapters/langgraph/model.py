"""A LangChain chat model whose every request is a step: streamed, cut at once by a stop, and never made twice."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, cast, overload

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.messages.utils import message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableParallel, RunnableSequence
from langchain_core.tools import BaseTool

from midcourse.adapters.continuation import ModelAnswer, Way, takes_a_prefix
from midcourse.adapters.conversation_history import OwnIds
from midcourse.adapters.held_agent import MODEL
from midcourse.adapters.langgraph.functions import running
from midcourse.adapters.langgraph.held_run import HeldGraphRun, current, raise_as_was
from midcourse.adapters.langgraph.threads import is_on, wait_for
from midcourse.adapters.prices import PriceMeter, TokenUsage, dollars, priced
from midcourse.errors import InvalidInput, MisusedRun, Redirected, StepError
from midcourse.runtime.calls import current_call, in_a_step
from midcourse.runtime.model_streams import StreamEnd

_OURS: Final = "midcourse "
_asks_inner: ContextVar[bool] = ContextVar("midcourse_langgraph_request", default=False)


class LangChainStepModel(BaseChatModel):
    """Asks what ``inner`` would be asked. Outside a held run it is ``inner``, and nothing more."""

    inner: BaseChatModel

    @property
    def _llm_type(self) -> str:
        return f"{_OURS}{self.inner._llm_type}"  # noqa: SLF001 - a model's name for itself

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Tools in the spelling that ``inner`` gives them."""
        bound = self.inner.bind_tools(tools, **kwargs)
        assert isinstance(bound, RunnableBinding)
        return cast("Runnable[LanguageModelInput, AIMessage]", self.bind(**bound.kwargs))

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[LanguageModelInput, Any]:
        """Answers of a shape, in the way that ``inner`` has for it."""
        return in_place_of(self.inner, self, self.inner.with_structured_output(schema, **kwargs))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        held = _holder()
        if held is None:
            return self.inner._generate(messages, stop, run_manager, **kwargs)  # noqa: SLF001
        if is_on(held.loop):
            raise MisusedRun(
                "A held model was called with invoke() on the event loop, which would stand still meanwhile. "
                "Use 'await model.ainvoke(…)' in an async node, or make the node a plain 'def'.",
                code="blocks_the_loop",
            )
        # A plain node runs in a thread of its own, with the node's context: it waits there.
        return wait_for(self._step(held, messages, stop, kwargs), held.loop)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        held = _holder()
        if held is None:
            return await self.inner._agenerate(messages, stop, run_manager, **kwargs)  # noqa: SLF001
        return await self._step(held, messages, stop, kwargs)

    async def _step(
        self, held: HeldGraphRun, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> ChatResult:
        await held.stands()
        while True:
            sent = held.heard(messages)

            @priced
            async def body(sent: list[BaseMessage] = sent) -> AsyncIterator[str | StreamEnd]:
                _asks_inner.set(True)
                whole: AIMessageChunk | None = None
                answer = ModelAnswer(way_of(self.inner, kwargs))
                asked = answer.continued(sent, AIMessage, HumanMessage)
                named, meter = name_of(self.inner), PriceMeter([asked, kwargs.get("tools")])
                meter.begin(named)
                try:
                    async for chunk in self._once().astream(asked, stop=stop, **kwargs):
                        current_call().raise_if_cancelled()  # asyncio.wait_for, in LangChain, may lose a cancel
                        whole = chunk if whole is None else whole + chunk
                        if chunk.text and (word := answer.take(str(chunk.text), meter, named)):
                            yield word
                    if rest := answer.rest():
                        yield rest
                finally:
                    end = None if whole is None else _end(whole)
                    if end is not None:
                        answer.used(end.cost, end.tokens)
                if whole is None:
                    raise ValueError("the model answered with nothing at all")
                yield _end(whole, answer)

            heard = held.run.state.get("heard", 0)
            key = held.key(MODEL, about=_contents(messages))
            try:
                said: Any = await held.run.stream(MODEL, body, key=key, on_redirect="raise", heard=heard)
            except Redirected as redirect:
                held.was_cut(messages, redirect.partial)
                continue
            except StepError as error:
                held.failed(key)
                raise_as_was(error)
            (message,) = messages_from_dict([said])
            return ChatResult(generations=[ChatGeneration(message=_with_own_ids(cast("AIMessage", message), sent))])

    def _once(self) -> BaseChatModel:
        """Return the model without its own retries: those requests could not be seen or stopped."""
        changed: dict[str, Any] = {"max_retries": 0} if hasattr(self.inner, "max_retries") else {}
        if getattr(self.inner, "stream_usage", 0) is None:
            changed["stream_usage"] = True  # else its cost is unknown
        client = getattr(self.inner, "root_async_client", None)
        if client is None or not hasattr(client, "with_options"):
            return self.inner.model_copy(update=changed) if changed else self.inner
        once = client.with_options(max_retries=0)
        clients = {"root_async_client": once, "async_client": once.chat.completions}
        return self.inner.model_copy(update={**changed, **clients})


@overload
def held(model: BaseChatModel) -> LangChainStepModel: ...
@overload
def held(model: Runnable[Any, Any]) -> Runnable[Any, Any]: ...
def held(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Wrap a chat model: its requests are steps in a held graph, and ordinary requests anywhere else.

    Works for one that tools or a schema are bound to already.

    Raises:
        InvalidInput: there is no chat model in it.
    """
    if isinstance(model, LangChainStepModel):
        return model
    if isinstance(model, BaseChatModel):
        return LangChainStepModel(inner=model)
    found = chat_model_in(model)
    if found is None:
        raise InvalidInput(
            f"A {type(model).__name__} is no chat model, and there is none in it: held(ChatOpenAI(…)).", field="model"
        )
    return in_place_of(found, LangChainStepModel(inner=found), model)


def chat_model_in(runnable: Any) -> BaseChatModel | None:
    """Return the chat model that something is bound to, or that a chain asks."""
    if isinstance(runnable, BaseChatModel):
        return runnable
    inner: list[Any] = []
    if isinstance(runnable, RunnableBinding):
        inner = [cast("Any", runnable).bound]
    elif isinstance(runnable, RunnableSequence):
        inner = list(cast("Any", runnable).steps)
    elif isinstance(runnable, RunnableParallel):
        inner = list(cast("Any", runnable).steps__.values())
    return next((found for one in inner if (found := chat_model_in(one)) is not None), None)


def in_place_of(old: BaseChatModel, new: BaseChatModel, runnable: Any) -> Runnable[Any, Any]:
    """Return the same runnable with another model in it."""
    made: Any = runnable
    if runnable is old:
        made = new
    elif isinstance(runnable, RunnableBinding):
        binding = cast("Any", runnable)
        made = binding.model_copy(update={"bound": in_place_of(old, new, binding.bound)})
    elif isinstance(runnable, RunnableSequence):
        steps = [in_place_of(old, new, step) for step in cast("Any", runnable).steps]
        made = cast("Any", RunnableSequence)(*steps, name=cast("Any", runnable).name)
    elif isinstance(runnable, RunnableParallel):
        branches = {name: in_place_of(old, new, one) for name, one in cast("Any", runnable).steps__.items()}
        made = RunnableParallel(branches)
    return cast("Runnable[Any, Any]", made)


def _contents(messages: Sequence[BaseMessage]) -> str:
    """Return the contents of a request, without what is new each time, such as ids."""
    return repr([(one.type, one.content, getattr(one, "tool_calls", ())) for one in messages])


def _holder() -> HeldGraphRun | None:
    """Return the run to make a step of; None without one, or inside a step."""
    held = current()
    if held is not None and in_a_step():
        if running():
            held.warn(
                f"Node '{running()}' is a step and asks a held model, whose request is then no step of its own: a stop "
                f"does not cut it. Name the node in wrap(…, open_nodes=['{running()}'])."
            )
        return None
    return held


def is_held_request(model: str) -> bool:
    """Return True if a request to a model of this type is one of ours, or made for one of ours."""
    return model.startswith(_OURS) or _asks_inner.get()


def _end(message: AIMessageChunk, answer: ModelAnswer | None = None) -> StreamEnd:
    usage = message.usage_metadata
    about = message.response_metadata
    cost: float | None = None
    tokens: int | None = None
    if usage is not None:
        tokens = usage["output_tokens"]
        detail = usage.get("input_token_details", {})
        used = TokenUsage(usage["input_tokens"], tokens, detail.get("cache_read", 0), detail.get("cache_creation", 0))
        named = str(about.get("model_name") or about.get("model") or "")
        cost = dollars(named, used, provider=about.get("model_provider"))
    made = message_chunk_to_message(message)
    if answer is not None and answer.said:
        made = made.model_copy(update={"content": whole_content(made.content, answer.text)})
    return StreamEnd(value=message_to_dict(made), cost=cost, tokens=tokens)


def _with_own_ids(message: AIMessage, before: Sequence[BaseMessage]) -> AIMessage:
    """Return the message with a call id of its own for each call."""
    ids = OwnIds(call["id"] or "" for one in before if isinstance(one, AIMessage) for call in _all_calls(one))
    calls = [{**call, "id": ids.own(call["id"] or "")} for call in message.tool_calls]
    wrong = [{**call, "id": ids.own(call["id"] or "")} for call in message.invalid_tool_calls]
    if [*calls, *wrong] == _all_calls(message):
        return message
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": wrong})


def _all_calls(message: AIMessage) -> list[dict[str, Any]]:
    return [dict(call) for call in (*message.tool_calls, *message.invalid_tool_calls)]


# ---- an answer that was cut


def name_of(model: BaseChatModel) -> str:
    """Return the name of a model, as far as its class tells it."""
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")


def way_of(model: BaseChatModel, asked: Mapping[str, Any]) -> Way:
    """Return how an answer of this model would be continued if it were cut."""
    package = type(model).__module__
    if not package.startswith("langchain_") or package.startswith("langchain_core"):
        return "again"  # a user's own class, that knows nothing of this
    if any(asked.get(name) for name in ("response_format", "output_format", "output_config", "format")):
        return "again"  # half an object cannot be quoted
    thinks = bool(getattr(model, "thinking", None))
    is_anthropic = package.startswith("langchain_anthropic")
    return "prefix" if is_anthropic and takes_a_prefix(name_of(model)) and not thinks else "quote"


def whole_content(content: str | Sequence[str | dict[Any, Any]], text: str) -> Any:
    """Return the content of a message that continues another, with the text of both."""
    if isinstance(content, str):
        return text
    others = [one for one in content if not isinstance(one, str) and cast("dict[str, Any]", one).get("type") != "text"]
    return [{"type": "text", "text": text}, *others]
