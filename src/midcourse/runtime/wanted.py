"""What an agent asks for when it calls ``run.step``, ``run.stream`` or ``run.spawn``."""

from dataclasses import dataclass
from typing import Any, Literal

from midcourse.core.effects import Effect
from midcourse.core.events import StepKind
from midcourse.core.ids import StepId
from midcourse.runtime.agents import Agent
from midcourse.runtime.asking import OnRedirect
from midcourse.runtime.tools import Tool

OnCut = Literal["regenerate", "continue"]


@dataclass(slots=True, eq=False, kw_only=True)
class Step:
    """One call the agent wants made: what, with what, and what a redirect means for it."""

    id: StepId
    name: str
    kind: StepKind
    digest: str
    arguments: str
    tool: Tool[..., Any]
    given: tuple[object, ...] = ()
    child: "tuple[Agent[object], str] | None" = None
    on_redirect: OnRedirect = "again"
    on_cut: OnCut = "regenerate"

    def call(self) -> object:
        """Call the function with what it was given."""
        return self.tool.function(*self.given)

    @property
    def effect(self) -> Effect:
        """Its row in the table of effects. A model call changes nothing, and a child answers for itself."""
        return self.tool.kind if self.kind == "tool" else "read"
