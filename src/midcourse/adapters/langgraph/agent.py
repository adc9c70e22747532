"""Any LangGraph graph as an agent of Midcourse: its checkpoints in our store, its models, tools and nodes as steps."""

import asyncio
import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.graph import StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.pregel import Pregel  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.types import Command, Interrupt, StateSnapshot
from pydantic_core import to_jsonable_python

from midcourse.adapters.held_agent import (
    Declarations,
    check_factory,
    held_agent,
    module_of_caller,
    ours_behind,
    step_key,
)
from midcourse.adapters.langgraph.callbacks import HoldWatch
from midcourse.adapters.langgraph.checkpoint_records import SHELVES
from midcourse.adapters.langgraph.held_run import HeldGraphRun, as_interrupt, calls_in, decided, enter
from midcourse.adapters.langgraph.nodes import held_nodes
from midcourse.adapters.langgraph.saver import MidcourseSaver
from midcourse.core.codec import decode, encode
from midcourse.core.retries import Retry
from midcourse.core.terms import Terms
from midcourse.errors import InvalidInput, Redirected
from midcourse.runtime.agents import Agent, OnNewVersion
from midcourse.runtime.run import Run

MakeInput: TypeAlias = Callable[[str], Any]
TakeOutput: TypeAlias = Callable[[Any], Any]
_TURN: Final = "midcourse_turn"
_CLOSES: Final = "midcourse_closes"
"""The scope whose steps are in the graph's checkpoint: the journal opens another, unless a crash comes in between."""
_STATE: Final = "m/state"
"""The key of what people have said and how much of it the graph has: in one write with the messages that have it."""


def wrap(
    graph: "Pregel[Any, Any, Any, Any] | StateGraph[Any, Any, Any, Any]",
    *,
    name: str = "",
    to_input: MakeInput | None = None,
    to_output: TakeOutput | None = None,
    declare: Declarations | None = None,
    open_nodes: Collection[str] = (),
    config: RunnableConfig | None = None,
    context: Callable[[Run], Any] | None = None,
    asks: bool = True,
    terms: Terms | None = None,
    retry: Retry | None = None,
    description: str = "",
    goals: Sequence[str] = (),
    version: str | None = None,
    on_new_version: OnNewVersion = "go_on",
) -> Agent[Any]:
    """Make a LangGraph graph an agent that Midcourse can start, pause, resume, redirect, cancel and recover.

    Wrap its chat models with :func:`held`. Calls of its ``ToolNode``, tasks and plain nodes become steps by
    themselves; a node that calls a held model, a task or ``interrupt()`` is left open (``open_nodes`` names those
    where that cannot be seen).
    ``interrupt()`` becomes an ask, and its answer the resume value. ``to_input`` makes the graph's input of what a
    person said (default: a message), ``to_output`` the result of its last state (default: the last message's text).
    ``declare`` says what nodes and tools do, by name; functions declare themselves with ``@midcourse.tool``.
    ``retry`` is for its model requests: five attempts if nothing is said. ``description`` and
    ``goals``, examples of what to ask of it, are shown to people who choose an agent.

    Raises:
        InvalidInput: the graph brings a checkpointer of its own.
    """
    given: Any = graph
    compiled = given.compile() if isinstance(graph, StateGraph) else given
    title = name or str(getattr(compiled, "name", "") or "")
    _refuse_foreign_checkpointers(compiled, title)
    nodes = held_nodes(compiled.nodes, open_nodes)

    check_factory("context", context)

    async def function(run: Run) -> Any:
        saver = SessionSaver(run)
        mine = copy.copy(compiled)
        mine.checkpointer = saver
        mine.nodes = nodes
        graph_run = GraphRun(run, mine, saver, declare or {}, config or {}, None if context is None else context(run))
        return await graph_run.follow(to_input or _message, to_output or _last_text)

    return held_agent(
        function,
        name="" if title == "LangGraph" and not name else title,
        made_of=(title, sorted(compiled.nodes)),
        version=version,
        asks=asks,
        on_new_version=on_new_version,
        origin=f"{module_of_caller()}:{title}",
        terms=terms,
        retry=retry,
        description=description,
        goals=goals,
    )


class SessionSaver(MidcourseSaver):
    """The session's checkpointer: when a superstep is durable, the next steps get a scope of their own."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.store, owner=lambda: run.owner)
        self._run = run
        self.held: HeldGraphRun | None = None

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        opens = not config.get("configurable", {}).get("checkpoint_ns") and not self._run.under_way
        ours = cast("CheckpointMetadata", {**metadata, _CLOSES: self._run.scope if opens else ""})
        if not opens or self.held is None:
            return await super().aput(config, checkpoint, ours, new_versions)
        with self.held.superstep():
            stored = await super().aput(config, checkpoint, ours, new_versions)
            # In this order: with the scope opened first, a crash in between would have finished steps done again.
            self.held.forget_counts()
            # Also by a run that catches up: all that is journaled since the last one is in this superstep.
            await self._run.checkpoint(durable=False, ahead=True)
        return stored

    async def _write(self, shelf: str, items: Mapping[str, bytes | None]) -> None:
        await super()._write(shelf, {**items, _STATE: encode(self._run.state, what="run.state")})


class GraphRun:
    """One run of a graph in one session, asks and turns included."""

    def __init__(
        self,
        run: Run,
        graph: Any,
        saver: SessionSaver,
        declarations: Declarations,
        config: RunnableConfig,
        context: Any,
    ) -> None:
        self._run = run
        self._graph = graph
        self._held = HeldGraphRun(run, declarations, saver.serde)
        saver.held = self._held
        self._saver = saver
        self._context = context
        settings = {**config.get("configurable", {}), "thread_id": str(run.session_id)}
        watched: RunnableConfig = {**config, "configurable": settings}
        self._config: RunnableConfig = merge_configs(watched, {"callbacks": [HoldWatch(self._held)]})

    async def follow(self, to_input: MakeInput, to_output: TakeOutput) -> Any:
        """Run the graph to its end, asking people where it interrupts itself."""
        enter(self._held)
        snapshot = await self._snapshot()
        feed = await self._feed(snapshot, to_input)
        if feed is None and await self._stands_at_breakpoint() and not await self._goes_on(snapshot):
            return to_jsonable_python(to_output(snapshot.values), fallback=str)
        if feed is None and not snapshot.tasks and self._held.listener.has_news:
            feed = to_input(self._held.listener.news())  # said when it had nothing left to do
        # Not its ``next``: that leaves out tasks whose writes are stored, also when their checkpoint is not.
        while feed is not None or snapshot.tasks:
            await self._run_on(feed)
            snapshot = await self._snapshot()
            feed = await self._answers(snapshot)
            if feed is None and snapshot.next and not await self._goes_on(snapshot):
                break
            if feed is None and not snapshot.next and self._held.listener.has_news:
                feed = to_input(self._held.listener.news())  # said to its last words
        return to_jsonable_python(to_output(snapshot.values), fallback=str)

    async def _run_on(self, feed: Any) -> None:
        self._held.begin()
        running = self._graph.astream(
            feed, self._config, stream_mode="values", durability="sync", context=self._context
        )
        try:
            async for _ in running:
                pass
        except Exception as error:
            ours = ours_behind(error)
            if ours is None or ours is error:
                raise
            raise ours from ours.__cause__  # not from the framework's, which has ours behind it

    async def _snapshot(self, *, subgraphs: bool = False) -> StateSnapshot:
        return await self._graph.aget_state(self._config, subgraphs=subgraphs)

    async def _feed(self, snapshot: StateSnapshot, to_input: MakeInput) -> Any:
        """Return the graph's input: a person's message, the answers it waits for, or nothing if it is to continue."""
        about = cast("Mapping[str, Any]", snapshot.metadata or {})
        known = about.get(_TURN, 0)
        # The shelf may be ahead of the journal, never behind it: a crash may have come between the two.
        shelf = f"{SHELVES}{self._run.session_id}"
        for _, state in await self._run.store.shelved(shelf, first=_STATE, last=_STATE):
            self._run.state = decode(state)
        if about.get(_CLOSES) == self._run.scope:
            await self._run.checkpoint(durable=False, ahead=True)
        self._config = {**self._config, "metadata": {**self._config.get("metadata", {}), _TURN: self._run.turn}}
        if known < self._run.turn:
            missing = await self._held.turn_before(await self._kept_messages(), _places(snapshot))
            return _with_first(to_input(self._held.listener.news()), missing)
        # What is said while the graph runs goes to its model, and starts nothing anew.
        return await self._answers(snapshot)

    async def _kept_messages(self) -> list[BaseMessage]:
        """Return the messages of the last checkpoint: what single tasks wrote after it is lost with a new input."""
        kept = await self._saver.aget_tuple(self._config)
        return _messages(kept.checkpoint["channel_values"] if kept else {})

    async def _answers(self, snapshot: StateSnapshot) -> "Command[Any] | None":
        if not snapshot.interrupts:
            return None
        answers = await asyncio.gather(*(self._ask(one) for one in snapshot.interrupts))
        return Command(resume={one.id: answer for one, answer in zip(snapshot.interrupts, answers, strict=True)})

    async def _ask(self, interrupt: Interrupt) -> Any:
        asked = as_interrupt(interrupt.value)
        try:
            answer = await self._run.ask(
                asked.prompt,
                reason=asked.reason,
                options=_options(interrupt.value),
                key=step_key(interrupt.id),
                on_redirect="raise",
            )
        except Redirected as redirect:
            # Words, marked as what they are: code that waits for a yes must not take them for one.
            answer = f"Redirected: {redirect.instruction}"
        return decided(interrupt.value, answer)

    async def _stands_at_breakpoint(self) -> bool:
        """Return True if LangGraph stopped, or would have stopped, at the stored checkpoint. It stops there once."""
        return await self._stopped(self._graph, await self._snapshot(subgraphs=True))

    async def _stopped(self, graph: Any, snapshot: StateSnapshot) -> bool:
        kept = await self._saver.aget_tuple(snapshot.config)
        if kept is None or not snapshot.next:
            return False
        before = await self._saver.aget_tuple(kept.parent_config) if kept.parent_config else None
        if stops(graph, kept.checkpoint, before.checkpoint if before else None, snapshot.next):
            return True
        subgraphs = dict(graph.get_subgraphs())
        for task in snapshot.tasks:
            inner = subgraphs.get(task.name)
            if inner and isinstance(task.state, StateSnapshot) and await self._stopped(inner, task.state):
                return True
        return False

    async def _goes_on(self, snapshot: StateSnapshot) -> bool:
        """Ask a person at a breakpoint of the graph (``interrupt_before``); return True if it may continue."""
        answer = await self._run.ask(
            f"Go on with {', '.join(snapshot.next)}?",
            reason="need_approval",
            options=("yes", "no"),
            key=step_key(".".join(["breakpoint", *_checkpoint_ids(await self._snapshot(subgraphs=True))])),
        )
        return str(answer).strip().lower() in {"yes", "approve", "true"}


def stops(graph: Any, checkpoint: Checkpoint, before: Checkpoint | None, following: Sequence[str]) -> bool:
    """Return True if LangGraph stops here by a breakpoint: before its ``following`` nodes or after those that ran.

    This follows its own ``should_interrupt``, which needs tasks that only a running graph has.
    """
    passed = cast("Mapping[str, Any]", checkpoint["versions_seen"].get("__interrupt__", {}))
    versions = cast("Mapping[str, Any]", checkpoint["channel_versions"])
    if all(channel in passed and version <= passed[channel] for channel, version in versions.items()):
        return False
    earlier = before["versions_seen"] if before else {}
    ran = [name for name, seen in checkpoint["versions_seen"].items() if seen != earlier.get(name)]
    return _any_of(graph, graph.interrupt_before_nodes, following) or _any_of(graph, graph.interrupt_after_nodes, ran)


def _any_of(graph: Any, named: str | Sequence[str], nodes: Sequence[str]) -> bool:
    hidden = {name for name, node in graph.nodes.items() if "langsmith:hidden" in (node.tags or ())}
    return any(name not in hidden if named == "*" else name in named for name in nodes if not name.startswith("__"))


def _options(value: Any) -> tuple[str, ...]:
    if calls_in(value) is not None:
        return ("yes", "no")
    about = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    options = about.get("options", ())
    return tuple(map(str, cast("Sequence[Any]", options))) if isinstance(options, list | tuple) else ()


def _checkpoint_ids(snapshot: StateSnapshot) -> list[str]:
    """Return the ids of the graph, and of its subgraphs that have begun."""
    inner = [task.state for task in snapshot.tasks if isinstance(task.state, StateSnapshot)]
    own = str(snapshot.config.get("configurable", {}).get("checkpoint_id", ""))
    return [own, *(one for state in inner for one in _checkpoint_ids(state))]


def _places(snapshot: StateSnapshot) -> list[str]:
    """Return where the next nodes run, by the names LangGraph gives them."""
    return [f"{task.name}:{task.id}" for task in snapshot.tasks]


def _message(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def _with_first(feed: Any, missing: list[BaseMessage]) -> Any:
    """Put these messages before the graph's input, where it has messages."""
    state = cast("dict[str, Any]", feed if isinstance(feed, dict) else {})
    if missing and isinstance(state.get("messages"), list):
        return {**state, "messages": [*missing, *state["messages"]]}
    return cast("Any", feed)


def _messages(values: Any) -> list[BaseMessage]:
    state = cast("dict[str, Any]", values if isinstance(values, dict) else {})
    found = cast("list[Any]", state.get("messages", []))
    return [one for one in found if isinstance(one, BaseMessage)]


def _last_text(values: Any) -> Any:
    messages = _messages(values)
    return str(messages[-1].text) if messages else values


def _refuse_foreign_checkpointers(graph: Any, name: str) -> None:
    graphs = [(name, graph), *graph.get_subgraphs(recurse=True)]
    for title, one in graphs:
        checkpointer = getattr(one, "checkpointer", None)
        if checkpointer not in (None, True, False):
            raise InvalidInput(
                f"Graph '{title}' brings its own checkpointer ({type(checkpointer).__name__}). Midcourse keeps a "
                "session's checkpoints beside its journal, in one store and fenced by its owner, so that a stop, a "
                "crash and a resume agree on what was done. Compile the graph without a checkpointer.",
                field="graph",
                code="foreign_checkpointer",
            )
