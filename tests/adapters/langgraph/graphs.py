"""A model that says what a function says, graphs around it, and what their sessions did."""

import inspect
import json
import operator
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import agenerate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph import func as functional_api
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import Field

import midcourse
from midcourse.core.events import StepBegun

entrypoint: Any = functional_api.entrypoint
task: Any = functional_api.task
"""What they make of a function has types that nothing can say."""
Answer = Callable[[list[BaseMessage]], Any]


class State(TypedDict):
    """A state of one word."""

    x: str


class Says(BaseChatModel):
    """Answers with what ``answer`` makes of the messages, and keeps them."""

    answer: Answer
    asked: list[list[str]] = Field(default_factory=list[list[str]])

    @property
    def _llm_type(self) -> str:
        return "says"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Tools make no difference here."""
        return self.bind(**kwargs)

    def _generate(self, *arguments: Any, **keywords: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *arguments: Any, **keywords: Any) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages))

    async def _astream(
        self, messages: list[BaseMessage], *arguments: Any, **keywords: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.asked.append([str(one.text) for one in messages])
        said = self.answer(messages)
        said = await said if inspect.isawaitable(said) else said
        whole = said if isinstance(said, AIMessage) else AIMessage(said)
        yield ChatGenerationChunk(message=AIMessageChunk(content=whole.content))
        for index, one in enumerate(whole.tool_calls):
            chunk = tool_call_chunk(name=one["name"], args=json.dumps(one["args"]), id=one["id"], index=index)
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[chunk]))


def calls(name: str, *, id: str = "call_1", **arguments: Any) -> AIMessage:
    """A model's wish."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": id, "type": "tool_call"}])


def after(call: AIMessage) -> Answer:
    """A model that makes a call, and then says what came of it."""

    def answer(said: list[BaseMessage]) -> Any:
        return str(said[-1].text) if said[-1].type == "tool" else call

    return answer


def one_node(node: Any, *, state: Any = State, **options: Any) -> Any:
    """A graph of one node, not compiled."""
    graph: Any = StateGraph(state)
    graph.add_node("n", node, **options)
    graph.add_edge(START, "n")
    return graph


def with_tools(model: Any, tools: list[Any], *, retry_policy: Any = None, **options: Any) -> Any:
    """A model, its tools and a way back, not compiled."""

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools, **options), retry_policy=retry_policy)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph


def _word(text: str) -> State:
    return {"x": text}


WORD: dict[str, Any] = {"to_input": _word, "to_output": operator.itemgetter("x")}
"""How to wrap a graph whose state is one word."""


async def result(agent: midcourse.Agent[Any], goal: str = "go") -> Any:
    """What the agent makes of it, in a store of its own."""
    async with midcourse.open("memory://") as mc:
        session = await mc.start(agent, goal)
        return await session.result(10)


async def steps_of(session: Any) -> list[str]:
    """The names of a completed session's steps, in order."""
    names: list[str] = []
    async for one in session.watch():
        event = getattr(one, "event", None)
        if isinstance(event, StepBegun):
            names.append(event.name)
        if "Completed" in type(event).__name__:
            break
    return names
