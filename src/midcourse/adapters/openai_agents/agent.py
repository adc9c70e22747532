"""Any agent of the OpenAI Agents SDK as an agent of Midcourse: its own loop, with its model and tools made steps."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import agents
from agents import (
    MaxTurnsExceeded,
    ModelResponse,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunHooks,
    Runner,
    RunResult,
)
from agents.lifecycle import RunHooksBase
from agents.memory import Session
from agents.run_config import CallModelData, ModelInputData, _coerce_run_config  # pyright: ignore[reportPrivateUsage] - as its runner does
from pydantic_core import to_jsonable_python

from midcourse.adapters.context import Context, ContextMaker
from midcourse.adapters.held_agent import (
    Declarations,
    MessageListener,
    NewCourse,
    held_agent,
    module_of_caller,
    ours_behind,
)
from midcourse.adapters.openai_agents.agent_copies import Copies, check_tools, type_of_results
from midcourse.adapters.openai_agents.conversation import Item, ItemHistory, UsedTools, as_given, calls_of, grown, told
from midcourse.adapters.openai_agents.mcp_servers import connected
from midcourse.adapters.openai_agents.memory import SessionMemory
from midcourse.adapters.openai_agents.nested_runs import the_nest
from midcourse.core.retries import Retry
from midcourse.core.terms import Terms
from midcourse.errors import InvalidInput, MisusedRun
from midcourse.runtime.agents import Agent, OnNewVersion
from midcourse.runtime.run import Run

ContextFactory = Callable[[Run], Any]
SessionFactory = Callable[[Run], Session]


def wrap(
    agent: agents.Agent[Any],
    *,
    name: str = "",
    context: ContextFactory | None = None,
    declare: Declarations | None = None,
    run_config: RunConfig | dict[str, Any] | None = None,
    hooks: RunHooks[Any] | None = None,
    session: SessionFactory | None = None,
    max_turns: int | None = agents.run.DEFAULT_MAX_TURNS,
    asks: bool = True,
    terms: Terms | None = None,
    retry: Retry | None = None,
    description: str = "",
    goals: Sequence[str] = (),
    version: str | None = None,
    on_new_version: OnNewVersion = "go_on",
) -> Agent[Any]:
    """Make an agent of the OpenAI Agents SDK one that Midcourse can start, pause, resume, redirect, cancel and recover.

    Every model request and every function call becomes a step, those of agents it hands off to and of agents that are
    its tools among them. ``context`` makes the context for a run, in each process that drives it. If it is a Pydantic
    model, what the run changes in it is journaled, and put back in the next process.
    ``declare`` says what tools do that are no functions of yours, such as an MCP server's:
    ``declare={"search": {"effect": "read"}}``; functions declare themselves with ``@midcourse.tool``, below
    ``@function_tool``. Calls that need approval become asks; with ``asks=False`` they are refused.

    ``hooks`` are the SDK's own for a run, and serve all sessions of the agent; they may run again after a crash.
    ``session`` gives one of the SDK's sessions: it is read before the first turn, and added to after each.
    ``max_turns`` counts for a turn of the session, redirects and resumes included. Tracing is off unless ``run_config``
    has it on. ``retry`` is for its model requests: five attempts if nothing is said. ``description`` and
    ``goals``, examples of what to ask of it, are shown to people who choose an agent.
    """
    check_tools(agent)
    config = _configuration(run_config)

    maker = ContextMaker("context", context)
    if hooks is not None and not isinstance(cast("object", hooks), RunHooksBase):
        kind = hooks.__name__ if isinstance(hooks, type) else type(hooks).__name__
        raise InvalidInput(
            f"hooks is {kind}; it is an object of a subclass of the SDK's RunHooks. Give hooks of one agent "
            "(AgentHooks) to that agent: Agent(hooks=…).",
            field="hooks",
        )

    async def function(run: Run) -> Any:
        made = await maker.make(run)
        memory = None if session is None else SessionMemory(run, name or agent.name, session(run))
        held = HeldAgentRun(run, name or agent.name, declare or {}, config, memory, made)
        async with connected(agent):
            return await held.follow(agent, hooks, max_turns)

    return held_agent(
        function,
        name=name or agent.name,
        made_of=(agent.name, agent.model if isinstance(agent.model, str) else type(agent.model).__name__),
        version=version,
        asks=asks,
        on_new_version=on_new_version,
        origin=f"{module_of_caller()}:{name or agent.name}",
        terms=terms,
        retry=retry,
        description=description,
        goals=goals,
    )


class HeldAgentRun:
    """One run of the agent in one session: where it stands, and what it was last asked and said."""

    def __init__(
        self,
        run: Run,
        name: str,
        declarations: Declarations,
        config: RunConfig,
        memory: SessionMemory | None,
        context: Context,
    ) -> None:
        self.run = run
        self.name = name
        self.declarations = declarations
        self.context = context
        self.listener = MessageListener(run)
        self.conversation = ItemHistory(run)
        self.asked: list[Item] = []
        self.response: ModelResponse | None = None
        self.used = UsedTools(run)
        self._config = config
        self._memory = memory
        self._all: dict[int, tuple[RunConfig, Copies]] = {}
        self._turns: int = run.state.get("turns", 0)
        self._current: agents.Agent[Any] | None = None

    async def follow(self, agent: agents.Agent[Any], hooks: RunHooks[Any] | None, max_turns: int | None) -> Any:
        """Run the agent to its end, beginning anew from the conversation whenever a person changes its course."""
        await self.conversation.close_turn_before(partial(type_of_results, agent))
        items = self.conversation.messages
        if self._memory is not None:
            items = await self._memory.before(items)
            self.conversation.keep(items)
        self._current = self.copies(self._config).named(self.run.state.get("agent", ""), agent)
        while True:
            new = self.listener.news()
            try:
                result = await Runner.run(
                    self._current,
                    cast("Any", as_given([*items, told(new)] if new else items)),
                    context=self.context.value,
                    hooks=hooks,
                    max_turns=None if max_turns is None else max(1, max_turns - self._turns),
                    run_config=self.configured(self._config),
                )
            except NewCourse as course:
                items = course.messages
                continue
            except MaxTurnsExceeded as error:
                await self._keep_all(error)
                raise
            except OutputGuardrailTripwireTriggered:
                await self._go_back()
                raise
            except Exception as error:
                if (ours := ours_behind(error)) is not None:
                    raise ours from error
                raise
            items = self._ended(result)
            if not self.listener.has_news:
                return await self._finish(items, result)

    def _ended(self, result: RunResult) -> list[Item]:
        if result.interruptions:
            raise MisusedRun(
                "The agent wants an approval for a tool that is not Midcourse's to ask for, such as one of a hosted "
                "MCP server. Give the tool an on_approval_request, or require no approval.",
                code="foreign_approval",
            )
        assert self.response is not None
        return grown(self.asked, self.response, result.new_items)

    async def _finish(self, items: list[Item], result: RunResult) -> Any:
        self._keep(items)
        if self._memory is not None:
            await self._memory.after(items)
        self.run.state["agent"] = self.copies(self._config).name_of(result.last_agent)
        self.run.state.pop("turns", None)  # the limit is a turn's
        self.used.forget()
        return to_jsonable_python(result.final_output)

    async def _keep_all(self, error: MaxTurnsExceeded) -> None:
        """Keep what was done, and restart the count: a resume continues from there."""
        if self.response is not None and error.run_data is not None and not self.run.under_way:
            self._keep(grown(self.asked, self.response, error.run_data.new_items))
            self.used.keep()
            self.run.state["turns"] = 0
            await self.run.checkpoint()

    async def _go_back(self) -> None:
        """Have a resume ask for another answer than the one a guardrail refused, unless calls were made for it."""
        if self.response is not None and not calls_of(self.response) and not self.run.under_way:
            self._keep(self.asked)
            self.conversation.refuse(self.response)
            await self.run.checkpoint(ahead=True)

    def _keep(self, items: Sequence[Item]) -> None:
        if self._memory is not None:
            self._memory.follow(self.conversation.messages, items)
        self.conversation.keep(items)
        self.context.save()

    # ---- what the SDK is given

    def copies(self, config: RunConfig) -> Copies:
        """Return the copies of agents as they run under ``config``."""
        if id(config) not in self._all:
            self._all[id(config)] = (config, Copies(self, config))
        return self._all[id(config)][1]

    def configured(self, config: RunConfig) -> RunConfig:
        """Return the configuration with our hook before each request; models and their settings are in the copies."""

        async def before(data: CallModelData[Any]) -> ModelInputData:
            await self._before_request(cast("list[Item]", data.model_data.input), data.agent)
            theirs = config.call_model_input_filter
            if theirs is None:
                return data.model_data
            filtered = theirs(data)
            return await filtered if inspect.isawaitable(filtered) else filtered

        return replace(
            config,
            model=None,
            model_settings=None,
            call_model_input_filter=before,
            group_id=config.group_id or str(self.run.session_id),
        )

    async def _before_request(self, items: Sequence[Item], agent: agents.Agent[Any]) -> None:
        if the_nest() is not None:
            if self.listener.has_news:
                raise NewCourse([])
            return
        self._current = agent
        self.used.by(self.copies(self._config).name_of(agent), agent)
        if self.listener.has_news:
            raise NewCourse(list(items))
        self.asked = list(items)
        await self._save(items, agent)
        self._turns += 1

    async def _save(self, items: Sequence[Item], agent: agents.Agent[Any]) -> None:
        """Keep the conversation as the place to continue from, where nothing else is under way."""
        if self.run.under_way:
            return
        self._keep(items)
        self.used.keep()
        self.run.state["agent"] = self.copies(self._config).name_of(agent)
        self.run.state["turns"] = self._turns
        await self.run.checkpoint(durable=False)


def _configuration(given: RunConfig | dict[str, Any] | None) -> RunConfig:
    """Return the configuration with tracing off unless it was asked for: it sends the agent's actions to OpenAI."""
    if given is None or isinstance(given, dict):
        return _coerce_run_config({"tracing_disabled": True, **(given or {})})
    return given
