"""The story of ``talking`` in LangGraph: a declared node, a scripted model, a node of tools, and a question at the end.

Whatever dies, every checkpoint of the session can be read: each life looks at all of them before it goes on.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

from midcourse import tool
from midcourse.adapters.langgraph import held, wrap
from midcourse.adapters.langgraph.saver import MidcourseSaver
from midcourse.models.script import Call, Conversation, Said, Text, Wait, answer
from midcourse.ports.store import Store
from tests.crash.chat_story import TOOLS, said_by, story
from tests.crash.effects import site
from tests.crash.scenarios import SESSION


class Scripted(BaseChatModel):
    """Says what the story says next."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("it streams")

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for index, piece in enumerate(answer(story, _heard(messages))):
            match piece:
                case Text():
                    yield ChatGenerationChunk(message=AIMessageChunk(content=piece.text))
                case Call():
                    chunk = tool_call_chunk(name=piece.name, args=piece.spelled, id=piece.id, index=index)
                    yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[chunk]))
                case Wait():
                    await asyncio.sleep(piece.seconds)
                case _:
                    raise ValueError(f"the story has no {piece}")


def _heard(messages: Sequence[BaseMessage]) -> Conversation:
    said: list[Said] = []
    for message in messages:
        match message:
            case AIMessage():
                calls = tuple(Call(call["name"], call["args"], call["id"]) for call in message.tool_calls)
                said.append(Said("assistant", str(message.text), calls))
            case ToolMessage():
                said.append(Said("tool", str(message.text), call_id=message.tool_call_id))
            case _:
                said.append(said_by(message.type, str(message.text)))
    return Conversation(tuple(said))


async def take_down(arguments: Mapping[str, Any], result: object, key: str) -> None:
    """The undo of what the node makes."""
    del result
    assert arguments["state"]["messages"]
    site.write("unmade", "open_up", key)


@tool(undo=take_down, local=True)
async def open_up(state: MessagesState) -> dict[str, Any]:
    """A plain node, reversible: the first turn begins with it."""
    site.try_it()
    site.make("reversible")
    return {}


def _begins(state: MessagesState) -> str:
    return "chat" if any(message.type == "ai" for message in state["messages"]) else "open_up"


model = held(Scripted()).bind_tools(())


async def chat(state: MessagesState) -> dict[str, Any]:
    """Ask the model."""
    return {"messages": [await model.ainvoke([SystemMessage("Do it."), *state["messages"]])]}


async def confirm(state: MessagesState) -> dict[str, Any]:
    """Ask a person, and say what the answer was."""
    answered = interrupt({"prompt": "Is that all?", "options": ["yes", "no"]})
    return {"messages": [AIMessage(f"{state['messages'][-1].text} ({answered})")]}


def _graph() -> Any:
    made: list[BaseTool] = []
    for one in TOOLS:
        function: Any = one
        called = {"coroutine": function} if one.is_async else {"func": function}
        made.append(StructuredTool.from_function(name=one.name, **called))
    graph: Any = StateGraph(MessagesState)
    graph.add_node("open_up", open_up)
    graph.add_node("chat", chat)
    graph.add_node("tools", ToolNode(made))
    graph.add_node("confirm", confirm)
    graph.add_conditional_edges(START, _begins, ["open_up", "chat"])
    graph.add_edge("open_up", "chat")
    graph.add_conditional_edges("chat", tools_condition, {"tools": "tools", END: "confirm"})
    graph.add_edge("tools", "chat")
    graph.add_edge("confirm", END)
    return graph


graph = _graph()
agent = wrap(graph, name="crash-langgraph")


async def read_all_checkpoints(store: Store) -> None:
    """The state at every checkpoint of the session, as LangGraph reads it; what cannot be read is an error."""
    compiled = graph.compile(checkpointer=MidcourseSaver(store))
    config = {"configurable": {"thread_id": str(SESSION)}}
    newest = await compiled.aget_state(config)
    seen = [snapshot async for snapshot in compiled.aget_state_history(config)]
    for snapshot in seen:
        again = await compiled.aget_state(snapshot.config)
        assert again.values == snapshot.values, f"checkpoint {snapshot.config} is read in two ways"
    parents = {one.config["configurable"]["checkpoint_id"] for one in seen}
    for snapshot in seen:
        parent = snapshot.parent_config
        assert parent is None or parent["configurable"]["checkpoint_id"] in parents, "a checkpoint lacks its parent"
    assert bool(newest.config["configurable"].get("checkpoint_id")) <= bool(seen), "the newest is not in the list"
