"""The acts of a run, as monitors read them: the same for a live journal, a recording and another tool's trace.

A run in this form can be watched, backtested and learned from. ``at`` is in seconds, on any clock that goes forward;
None where the record has none. What was not measured is None, and never 0.
"""

from typing import Literal, dataclass_transform

import msgspec

from midcourse.core.policy_decision import Level, Reason

CallKind = Literal["model", "tool"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Act(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """One thing that happened in a run."""

    at: float | None = None


class Begun(Act):
    """A turn begins, with the goal as it stands."""

    goal: str = ""


class Called(Act):
    """A call of a model or a tool has ended. A request, in the words of the design.

    ``error`` is what kind of error it ended with, empty if none. ``digest`` stands for all of the arguments, of which
    ``arguments`` shows the beginning. ``text`` is the beginning of what it said or returned, ``seconds`` how long it
    took. ``resources`` is what it touched (files, URLs, tables, ids); ``environment`` where, if it is tagged; and
    ``effect`` what it does to that, if anybody has said so.
    """

    kind: CallKind
    name: str
    arguments: str = ""
    digest: str = ""
    error: str = ""
    detail: str = ""
    text: str = ""
    resources: tuple[str, ...] = ()
    environment: str = ""
    effect: str = ""
    seconds: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    bytes: int | None = None

    @property
    def same(self) -> tuple[str, str]:
        """Equal for two calls that ask for the same."""
        return (self.name, self.digest or self.arguments)


class Said(Act):
    """A person said something to the agent, or an event outside did."""

    text: str = ""
    by: str = ""
    is_goal: bool = False


class Reported(Act):
    """The agent said something of itself: progress from 0 to 1, its hypothesis, something it made."""

    progress: float | None = None
    hypothesis: str = ""
    artifact: str = ""
    documentation: str = ""


class Planned(Act):
    """The agent's plan, as it stands: so many items, so many done."""

    items: int = 0
    done: int = 0
    titles: tuple[str, ...] = ()


class Rested(Act):
    """From here on nothing of the run works: it is paused, or waits for a person. That time is not counted."""


class WentOn(Act):
    """It works again."""


class SteppedIn(Act):
    """A policy decided something here: what a monitor that reads a journal again must know."""

    level: Level = "none"
    reasons: tuple[Reason, ...] = ()
    question: str = ""


class Ended(Act):
    """The turn is over: ``completed``, ``failed`` or ``cancelled``."""

    outcome: str = ""


AnyAct = Begun | Called | Said | Reported | Planned | Rested | WentOn | SteppedIn | Ended
