"""The agent's request in ``run.step``, ``run.call``, ``run.stream`` or ``run.spawn``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from midcourse.core.codec import REDACTED, canonical, preview
from midcourse.core.effects import Effect
from midcourse.core.events import StepKind
from midcourse.core.ids import StepId
from midcourse.core.retries import Retry
from midcourse.errors import InvalidInput
from midcourse.runtime.agents import Agent
from midcourse.runtime.asks import OnRedirect
from midcourse.runtime.tools import Tool

OnCut = Literal["regenerate", "continue"]


@dataclass(slots=True, eq=False, kw_only=True)
class StepRequest:
    """A requested call: its function, its arguments, and the effect of a redirect on it.

    ``spelled`` are its canonical arguments, ``given`` those in order, ``by_name`` those of a tool call. ``body``
    calls the function, where a framework has more to give it than its arguments; ``shape`` makes its result something
    that can be journaled.
    ``heard`` is the number of people's messages that the request is based on: after another one, it does not begin.
    ``retry``: None is the tool's declaration, or for a model the default.
    """

    id: StepId
    name: str
    kind: StepKind
    digest: str
    spelled: bytes
    tool: Tool[..., Any]
    given: tuple[object, ...] = ()
    by_name: Mapping[str, object] | None = None
    body: Callable[[], object] | None = None
    shape: Callable[[Any], object] | None = None
    needs_approval: str = ""
    may_ask: bool = True
    child: "tuple[Agent[object], str] | None" = None
    on_redirect: OnRedirect = "again"
    on_cut: OnCut = "regenerate"
    heard: int | None = None
    retry: Retry | None = None

    @property
    def arguments(self) -> str:
        """Its arguments for people's eyes: by name, if one of them is a secret by its name."""
        if not self.given or not self.tool.takes_secrets:
            return preview(self.spelled)
        try:
            return preview(canonical(self.tool.named(self.given)))
        except InvalidInput:  # the call will say so
            return REDACTED

    def call(self) -> object:
        """Call the function with what it was given."""
        if self.body is not None:
            return self.body()
        if self.by_name is not None:
            return self.tool.function(**self.tool.typed(self.by_name))
        return self.tool.function(*self.given)

    @property
    def named(self) -> Mapping[str, object]:
        """Its arguments by name, defaults included, for an undo, a probe and an observer."""
        if self.by_name is None:
            return self.tool.named(self.given)
        return self.by_name if self.body is not None else self.tool.typed(self.by_name)

    @property
    def effect(self) -> Effect:
        """Its row in the table of effects. A model call changes nothing, and a child answers for itself."""
        return self.tool.kind if self.kind == "tool" else "read"
