"""The sample agents, by name: what each does, what to ask of it, and where it works."""

from dataclasses import dataclass
from typing import Any, Final

from midcourse.errors import AgentUnavailable
from midcourse.runtime.agents import Agent
from midcourse.samples import churn_memo, order_desk, records_cleaner, repo_fixer, researcher


@dataclass(frozen=True, slots=True)
class Sample:
    agent: Agent[Any]

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def description(self) -> str:
        return self.agent.description

    @property
    def goals(self) -> tuple[str, ...]:
        """Examples, the plainest first."""
        return self.agent.goals


SAMPLES: Final = tuple(
    Sample(module.agent) for module in (churn_memo, repo_fixer, records_cleaner, order_desk, researcher)
)


def sample(name: str) -> Sample:
    """Return the sample of that name.

    Raises:
        AgentUnavailable: there is none.
    """
    for one in SAMPLES:
        if one.name == name:
            return one
    raise AgentUnavailable(
        f"No sample agent is called '{name}'. There are: {', '.join(one.name for one in SAMPLES)}.", agent=name
    )
