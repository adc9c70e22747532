"""Runs told act by act, on a clock that only the test moves; and observations of runs that nothing holds back."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

from midcourse.core.policy_decision import Decision
from midcourse.policy.document import Policy
from midcourse.policy.observation import Observed
from midcourse.policy.profiles import STANDARD
from midcourse.policy.run_activity import (
    AnyAct,
    Begun,
    Called,
    Ended,
    Planned,
    Reported,
    Rested,
    Said,
    SteppedIn,
    WentOn,
)
from midcourse.policy.signals.calls_left import NO_HISTORY, CallHistory
from midcourse.policy.signals.run_monitor import RunMonitor

GOAL: Final = "Write the churn memo for April"
MINUTE: Final = 60.0
_numbers = itertools.count(1)


def called(kind: Any = "tool", name: str = "read", **fields: Any) -> Called:
    """A call that is like no other, unless its ``digest`` is given."""
    given: dict[str, Any] = {"digest": f"d{next(_numbers)}", **fields}
    return Called(kind=kind, name=name, **given)


def observed(values: Mapping[str, float], **fields: Any) -> Observed:
    """A run that is old enough for everything, of which nothing has been told, and nobody knows what it costs."""
    given: dict[str, Any] = {"values": values, "actions": 50, "requests": 50, "elapsed": 86_400.0, **fields}
    return Observed(**given)


class Run:
    """One run under a policy. ``asks``: whether its agent asks of its own accord, which other tests look at."""

    def __init__(self, policy: Policy = STANDARD, *, asks: bool = False, at: float = 0.0, **given: Any) -> None:
        self.oversight = RunMonitor(policy, asks=asks, **given)
        self.at = at
        self.acts: list[AnyAct] = []
        self.decisions: list[Decision] = []
        self.begin()

    def see(self, act: AnyAct) -> Decision | None:
        """What the policy says to an act; what it decides is journaled, as a live session's is."""
        self.acts.append(act)
        return self._take(self.oversight.see(act))

    def look(self) -> Decision | None:
        """What it says to the time alone."""
        return self._take(self.oversight.look(self.at))

    def _take(self, decision: Decision | None) -> Decision | None:
        if decision is not None:
            self.decisions.append(decision)
            self.see(SteppedIn(at=self.at, level=decision.level, reasons=decision.reasons, question=decision.question))
        return decision

    # ---- what happens

    def begin(self, goal: str = GOAL) -> Decision | None:
        """A turn."""
        return self.see(Begun(at=self.at, goal=goal))

    def wait(self, seconds: float) -> "Run":
        """Only the clock moves."""
        self.at += seconds
        return self

    def call(self, kind: Any = "tool", name: str = "read", **fields: Any) -> Decision | None:
        """A call ends."""
        return self.see(called(kind, name, at=self.at, **fields))

    def calls(self, count: int, **fields: Any) -> Decision | None:
        """Several, all different; what the policy says to the last."""
        decision = None
        for _ in range(count):
            decision = self.call(**fields)
        return decision

    def settle(self, actions: int = 10) -> "Run":
        """Old enough: five minutes and ten harmless actions that cost enough to be worth a word."""
        self.wait(5 * MINUTE)
        self.calls(actions)
        assert not self.decisions
        return self

    def report(self, **fields: Any) -> Decision | None:
        """The agent says something of itself."""
        return self.see(Reported(at=self.at, **fields))

    def plan(self, items: int, done: int) -> Decision | None:
        """Its plan changes."""
        return self.see(Planned(at=self.at, items=items, done=done))

    def say(self, text: str, **fields: Any) -> Decision | None:
        """A person says something."""
        return self.see(Said(at=self.at, text=text, by="ada", **fields))

    def rest(self) -> Decision | None:
        """It is paused, or waits."""
        return self.see(Rested(at=self.at))

    def go_on(self) -> Decision | None:
        """It works again."""
        return self.see(WentOn(at=self.at))

    def reviewed(self) -> Decision | None:
        """A person looks at it and lets it go on."""
        self.rest()
        return self.go_on()

    def end(self) -> Decision | None:
        """The turn is over."""
        return self.see(Ended(at=self.at, outcome="completed"))

    # ---- what was decided

    @property
    def levels(self) -> list[str]:
        """Of all decisions."""
        return [one.level for one in self.decisions]

    def value(self, signal: str) -> float | None:
        """What a signal is at now."""
        return self.oversight.values.get(signal)


def level(decision: Decision | None) -> str:
    """``none`` for nothing."""
    return decision.level if decision is not None else "none"


def runs_of(seconds: float, calls: int = 20, count: int = 10) -> CallHistory:
    """An agent whose runs are all alike."""
    return CallHistory((calls,) * count, (seconds,) * count)


__all__ = ["GOAL", "MINUTE", "NO_HISTORY", "Run", "called", "level", "observed", "runs_of"]
