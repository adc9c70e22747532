"""Track which agents used a tool in this turn: a ``tool_choice`` that was followed must not be followed again."""

from dataclasses import replace
from typing import Any, Final

from agents import Agent, ModelResponse, ModelSettings

from midcourse.adapters.openai_agents.conversation import uses_tools
from midcourse.runtime.run import Run

_USED: Final = "used"
"""The key of ``run.state`` that has the names of the agents, and their turn."""


class UsedTools:
    """The SDK knows this of each run of its own, and a turn has several: another for each redirect and cold resume."""

    def __init__(self, run: Run) -> None:
        self._run = run
        known = run.state.get(_USED)
        self._names: set[str] = set(known["agents"]) if known is not None and known["turn"] == run.turn else set()
        self._name = ""
        self._resets = False

    def by(self, name: str, agent: Agent[Any]) -> None:
        """Note that the next request is this agent's."""
        self._name = name
        self._resets = agent.reset_tool_choice

    def settings(self, given: ModelSettings) -> ModelSettings:
        """Return the settings of that request."""
        return replace(given, tool_choice=None) if self._resets and self._name in self._names else given

    def take(self, response: ModelResponse) -> None:
        """Take in what that request gave."""
        if uses_tools(response):
            self._names.add(self._name)

    def keep(self) -> None:
        """Have ``run.state`` hold them."""
        if self._names:
            self._run.state[_USED] = {"turn": self._run.turn, "agents": sorted(self._names)}

    def forget(self) -> None:
        """End the turn."""
        self._run.state.pop(_USED, None)
