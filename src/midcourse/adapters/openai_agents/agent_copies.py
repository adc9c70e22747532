"""Copies of an OpenAI agent and of all it hands off to, their models and tools made steps. The originals stay."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from agents import (
    Agent,
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    Handoff,
    LocalShellTool,
    Model,
    ModelRetrySettings,
    RunConfig,
    RunContextWrapper,
    ShellTool,
    Tool,
)
from agents.run_internal.turn_preparation import get_model_settings
from pydantic import TypeAdapter

from midcourse.adapters.openai_agents.model import OpenAIStepModel
from midcourse.adapters.openai_agents.tools import declared_type, step_tool
from midcourse.errors import InvalidInput

if TYPE_CHECKING:
    from midcourse.adapters.openai_agents.agent import HeldAgentRun


class Copies:
    """The copies for one run of a session, each made once: agents may hand off in circles."""

    def __init__(self, held: "HeldAgentRun", config: RunConfig) -> None:
        self._held = held
        self._config = config
        self._made: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        self._names: dict[str, Agent[Any]] = {}

    def of(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the copy of an agent; of a copy, itself."""
        if id(agent) in self._made:
            return self._made[id(agent)][1]
        config = self._config
        settings = get_model_settings(agent, config)

        def model() -> Model:
            wanted = agent.model if config.model is None else config.model
            return wanted if isinstance(wanted, Model) else config.model_provider.get_model(wanted)

        strict = config.tool_not_found_behavior == "raise_error"
        made = agent.clone(model=OpenAIStepModel(self._held, agent.name, model, limit=settings.timeout, strict=strict))
        # Set, not given: an agent whose model is an object takes default settings for settings that nobody made.
        # A request that is made again by itself would be one that nobody sees, counts or can stop.
        # A stream of chat completions says what it cost only if asked to.
        made.model_settings = replace(
            settings,
            retry=ModelRetrySettings(max_retries=0),
            timeout=None,
            include_usage=settings.include_usage is not False,
        )
        self._made[id(agent)] = (agent, made)  # before its handoffs, which may lead back to it
        self._made[id(made)] = (made, made)
        self._name(made)
        made.tools = [self._tool(tool) for tool in agent.tools]
        made.handoffs = [self._handoff(one) for one in agent.handoffs]

        async def get_mcp_tools(run_context: RunContextWrapper[Any]) -> list[Tool]:
            return [self._tool(tool) for tool in await type(made).get_mcp_tools(made, run_context)]

        object.__setattr__(made, "get_mcp_tools", get_mcp_tools)
        return made

    def name_of(self, agent: Agent[Any]) -> str:
        """Return the name under which a copy is found again, in another process too."""
        return next(name for name, one in self._names.items() if one is agent)

    def named(self, name: str, first: Agent[Any]) -> Agent[Any]:
        """Return the copy of that name, among ``first`` and all it hands off to.

        Raises:
            InvalidInput: there is none, here and now.
        """
        found = self._names.get(name) if self.of(first) and name else self.of(first)
        if found is None:
            raise InvalidInput(
                f"This session is with agent '{name}', to which '{first.name}' no longer hands off. "
                f"Known: {', '.join(self._names)}. Bring it back, or start a new session.",
                field="agent",
            )
        return found

    def _name(self, made: Agent[Any]) -> None:
        name, ordinal = made.name, 1
        while name in self._names:
            ordinal += 1
            name = f"{made.name} ({ordinal})"
        self._names[name] = made

    def _tool(self, tool: Tool) -> Tool:
        def inner(agent: Agent[Any], config: RunConfig | None) -> Agent[Any]:
            return (self if config is None else self._held.copies(config)).of(agent)

        return step_tool(tool, self._held, inner) if isinstance(tool, FunctionTool) else tool

    def _handoff(self, handoff: "Agent[Any] | Handoff[Any, Any]") -> "Agent[Any] | Handoff[Any, Any]":
        if isinstance(handoff, Agent):
            return self.of(handoff)
        target = handoff._agent_ref() if handoff._agent_ref else None  # noqa: SLF001 - the only way to its agent  # pyright: ignore[reportPrivateUsage]
        if isinstance(target, Agent):
            self.of(cast("Agent[Any]", target))  # so that it has its name before it is needed

        async def invoke(context: RunContextWrapper[Any], input: str) -> Agent[Any]:
            return self.of(await handoff.on_invoke_handoff(context, input))

        made = replace(handoff, on_invoke_handoff=invoke)
        made._agent_ref = None  # noqa: SLF001 - it would lead to the original  # pyright: ignore[reportPrivateUsage]
        return made


def check_tools(agent: Agent[Any]) -> None:
    """Refuse tools that run on this machine and are no functions: a stop could not reach them.

    Raises:
        InvalidInput: the agent, or one it hands off to, has such a tool.
    """
    for one in reachable(agent):
        for tool in one.tools:
            local = isinstance(tool, ApplyPatchTool | ComputerTool | CustomTool | LocalShellTool)
            if local or (isinstance(tool, ShellTool) and tool.executor is not None):
                raise InvalidInput(
                    f"Agent '{one.name}' has a {type(tool).__name__}, which runs here and could not be stopped. "
                    "Give it a function tool instead, such as those of midcourse.tools.",
                    field="tools",
                )


def type_of_results(agent: Agent[Any], name: str) -> TypeAdapter[Any] | None:
    """Return the type of the results of the tool ``name``, of an agent or of one it can come to; None if unknown."""
    tools = (tool for one in reachable(agent) for tool in one.tools if isinstance(tool, FunctionTool))
    return next((declared_type(tool) for tool in tools if tool.name == name), None)


def reachable(agent: Agent[Any]) -> Iterator[Agent[Any]]:
    """Yield an agent, all it hands off to, and all that are tools of those."""
    waiting, seen = deque([agent]), {id(agent)}
    while waiting:
        one = waiting.popleft()
        yield one
        tools = [tool._agent_instance for tool in one.tools if isinstance(tool, FunctionTool)]  # noqa: SLF001 - the only way to its agent  # pyright: ignore[reportPrivateUsage]
        targets = [
            handoff._agent_ref() if isinstance(handoff, Handoff) and handoff._agent_ref else handoff  # noqa: SLF001 - the only way to its agent  # pyright: ignore[reportPrivateUsage]
            for handoff in one.handoffs
        ]
        for found in (*tools, *targets):
            if isinstance(found, Agent) and id(cast("object", found)) not in seen:
                seen.add(id(cast("object", found)))
                waiting.append(cast("Agent[Any]", found))
