"""An agent that runs as another agent's tool: its requests and calls are steps too, told apart by the outer call."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from midcourse.adapters.conversation_history import OwnIds
from midcourse.adapters.held_agent import step_key
from midcourse.adapters.openai_agents.conversation import nested_key


@dataclass(slots=True)
class NestedRun:
    """One run inside a tool call. It takes no checkpoint: after a crash it is replayed from the outer request on."""

    outer: str
    ids: OwnIds = field(default_factory=OwnIds)
    requests: int = 0

    def next_request(self) -> str:
        """Return the key of its next model request."""
        self.requests += 1
        return nested_key(self.outer, self.requests)


_nest: Final[ContextVar[NestedRun | None]] = ContextVar("midcourse_openai_agents_nest", default=None)


def the_nest() -> NestedRun | None:
    """Return the run inside a tool call that this code belongs to; None in the agent's own run."""
    return _nest.get()


def enter_nest(call_id: str) -> None:
    """Belong to the run of the agent that ``call_id`` calls. For the rest of the present task."""
    _nest.set(NestedRun(full_id(call_id)))


def full_id(call_id: str) -> str:
    """Return a model's id of a call, preceded by the calls it happens in."""
    nest = _nest.get()
    return f"{nest.outer}:{call_id}" if nest else call_id


def call_key(call_id: str) -> str:
    """Return the key of the step for a model's call."""
    return step_key(full_id(call_id))
