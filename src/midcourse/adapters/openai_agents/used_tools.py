"""Which agents have used a tool in this turn: a ``tool_choice`` that was followed once is not to be followed again."""

from dataclasses import replace
from typing import Any, Final

from agents import Agent, ModelResponse, ModelSettings

from midcourse.adapters.openai_agents.conversation import uses_tools
from midcourse.runtime.run import Run

_USED: Final = "used"
"""Where ``run.state`` has the names of the agents, and the turn they are of."""


class UsedTools:
    """The SDK knows this of each run of its own, and a turn has several: another for each redirect and cold resume."""

    def __init__(self, run: Run) -> None:
        self._run = run
        known = run.state.get(_USED)
        self._names: set[str] = set(known["agents"]) if known is not None and known["turn"] == run.turn else set()
        self._name = ""
        self._resets = False

    def by(self, name: str, agent: Agent[Any]) -> None:
        """The next request is this agent's."""
        self._name = name
        self._resets = agent.reset_tool_choice

    def settings(self, given: ModelSettings) -> ModelSettings:
        """The settings of that request."""
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
        """The turn is over."""
        self._run.state.pop(_USED, None)
