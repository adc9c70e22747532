"""Agents of Pydantic AI with a scripted model, and what that model hears."""

import itertools
from typing import Any

from pydantic_ai import Agent

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.adapters.pydantic_ai.scripted import scripted
from midcourse.core.events import StepBegun
from midcourse.models.script import Conversation, Script
from tests.promises.harness import history

PATIENCE = 20.0
_numbers = itertools.count(1)


class Desk:
    """One agent and what its model has heard, the latest last."""

    def __init__(self, script: Script, **made: Any) -> None:
        self.heard: list[Conversation] = []
        self.done: list[Any] = []

        def listening(conversation: Conversation, /) -> Any:
            self.heard.append(conversation)
            return script(conversation)

        self.agent: Agent[Any, Any] = Agent(scripted(listening), name=f"desk{next(_numbers)}", **made)

    def held(self, **how: Any) -> midcourse.Agent[Any]:
        """The agent, held."""
        return wrap(self.agent, **how)

    @property
    def results(self) -> list[str]:
        """What tools had returned, as the model heard it last."""
        return [said.text for said in self.heard[-1] if said.role == "tool"]


async def effects(session: midcourse.SessionHandle[Any]) -> dict[str, str]:
    """What each tool that was begun declares, by name."""
    begun = [one.event for one in await history(session) if isinstance(one.event, StepBegun)]
    return {event.name: event.effect for event in begun if event.kind == "tool"}
