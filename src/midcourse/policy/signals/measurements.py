"""The signals of one run, measured act by act. What they mean is for others to say."""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from midcourse.core.money import money
from midcourse.core.policy_decision import Unseen
from midcourse.policy.document import Policy
from midcourse.policy.run_activity import AnyAct, Begun, Called, Planned, Reported, Said
from midcourse.policy.signals.calls_left import ENOUGH, CallHistory, calls_left
from midcourse.policy.signals.cost import Spending
from midcourse.policy.signals.drift import text_of
from midcourse.policy.signals.error_rate import Errors
from midcourse.policy.signals.hypotheses import Hypothesis, MadeArtifacts
from midcourse.policy.signals.repeated_calls import Loops
from midcourse.policy.signals.risk import RiskReading
from midcourse.policy.signals.scope_growth import ResourceScope
from midcourse.policy.signals.token_rate import TokenRate
from midcourse.policy.signals.working_time import Stopwatch
from midcourse.policy.thresholds import Rule

_UNMEASURED = 100
"""Actions, the newest, that are kept until the encoder is loaded, so that these do not go unmeasured."""
_HALF = 0.5
"""Of the budget: from there on the calls that are left are held against it."""
OF_SESSION = frozenset({"cost", "budget", "api_calls", "compute_seconds", "bytes", "own_artifacts"})
"""Signals that count for the whole session; the others begin anew with each turn."""
_WHY_UNSEEN = {
    "cost": "nothing in it has a price",
    "errors": "too few calls that could fail",
    "scope_drift.alignment": "nothing measures it, or no hypothesis was stated",
    "compute_seconds": "no call says how long it took",
    "bytes": "no call says how much it moved",
    "risk": "no call has been judged yet",
}
"""The explanation for a signal with a threshold that nothing has measured so far."""


class DriftGauge(Protocol):
    """Measures how far actions are from a text."""

    def goal(self, text: str) -> None:
        """Set the goal for the actions from now on."""
        ...

    def act(self, text: str) -> None:
        """Add an action."""
        ...

    def value(self) -> float | None:
        """Return the value, from 0 to 1; None while it is unknown."""
        ...

    def alignment(self, hypothesis: str) -> float | None:
        """Return the distance to another text."""
        ...


class RiskGauge(Protocol):
    """Adds up what all signals say together."""

    def feed(self, act: AnyAct) -> None: ...

    def read(self) -> RiskReading: ...


class Measures:
    """The measurements of one run so far."""

    def __init__(
        self,
        policy: Policy,
        *,
        budget: float | None,
        history: CallHistory,
        drift: DriftGauge | None,
        risk: RiskGauge | None,
        awaits_drift: bool,
    ) -> None:
        self._policy = policy
        self.values: dict[str, float] = {}
        self.dropped = 0
        """The number of times that a signal lost its value."""
        self.budget = budget
        self.history = history
        self.artifacts = MadeArtifacts()
        self.spending = Spending()
        self._drift = drift
        self._awaits_drift = awaits_drift
        self._drift_goal = ""
        self._unmeasured: deque[str] = deque(maxlen=_UNMEASURED)
        self._given_unseen: dict[str, str] = {}
        self._risk = risk if policy.signals.risk.enabled else None
        self._risk_reading: RiskReading | None = None
        self.risk_marks: tuple[float | None, float | None] | None = None
        """From where on the risk is an alarm, or where nothing has calibrated it, is told; known from a call on."""
        self.begin_turn()

    def begin_turn(self) -> None:
        """Begin a turn: the measures of the session stay; those of a turn begin anew."""
        self.clock = Stopwatch()
        self.errors = Errors()
        self._loops = Loops(self._policy.signals.loops.alike)
        self._scope = ResourceScope()
        self._rate = TokenRate()
        self._hypothesis = Hypothesis()
        self._must_state = self._policy.signals.hypothesis.required
        self.actions = 0
        self._progress = -1.0
        self._done_items = 0
        self.goal = ""
        self._drop(*[name for name in self.values if name not in OF_SESSION])

    @property
    def budget(self) -> float | None:
        """Dollars that the session may cost."""
        return self._budget

    @budget.setter
    def budget(self, budget: float | None) -> None:
        self._budget = budget
        self._drop("budget", "calls_left")

    def _note(self, signal: str, value: float | None) -> None:
        """Keep a value, if there is one; else the one before stands."""
        if value is not None:
            self.values[signal] = value

    def _drop(self, *signals: str) -> None:
        for signal in signals:
            self.dropped += self.values.pop(signal, None) is not None

    def feed(self, act: AnyAct) -> None:
        """Add an act. Changes by time alone are for :meth:`tick`."""
        kind = type(act)
        self.clock.feed(act)
        if kind is Called:
            self._called(act)  # pyright: ignore[reportArgumentType]
        elif isinstance(act, Begun):
            self.goal = act.goal
            self._hold_to(act.goal)
        elif isinstance(act, Said):
            self.goal = act.text if act.is_goal else self.goal
            # From here on it follows the message, and is measured by that.
            self._hold_to(self.goal if act.is_goal else f"{self.goal}\n{act.text}")
            self._drop("scope_drift", "scope_drift.alignment")
            self._loops.progress()
            self.values["loops"] = 0.0
            self.confirm_scope()
        elif isinstance(act, Reported):
            self._reported(act)
        elif isinstance(act, Planned):
            if act.done > self._done_items:
                self._loops.progress()
                self.values["loops"] = 0.0
            self._done_items = act.done
        if self._risk is not None:
            self._risk.feed(act)
            if kind is Called:
                reading = self._risk.read()
                self.values["risk"] = reading.value
                self._risk_reading = reading
                if self.risk_marks is None:
                    threshold = reading.threshold
                    self.risk_marks = (threshold, None) if reading.is_calibrated else (None, threshold)

    def tick(self) -> float | None:
        """Apply the changes by time alone. Return the seconds that this turn has worked, if known."""
        seconds = self.clock.seconds
        if seconds is None:
            return None
        self.values["duration"] = seconds
        self._note("hypothesis", self.age(seconds))
        return seconds

    def confirm_scope(self) -> None:
        """Accept the scope: a person has seen it, so only later domains are new."""
        self._scope.confirm()
        self._scope_values()

    def measure_drift(self, by: DriftGauge | Unseen) -> None:
        """Measure drift by this from now on; or tell why nothing does."""
        self._awaits_drift = False
        if isinstance(by, Unseen):
            self._given_unseen[by.signal] = by.why
            return
        self._drift = by
        by.goal(self._drift_goal)
        for text in self._unmeasured:
            by.act(text)
        if self._unmeasured:
            self._drift_values(by)
        self._unmeasured.clear()

    def _hold_to(self, goal: str) -> None:
        """Set the text that drift is measured against; earlier actions no longer count."""
        self._drift_goal = goal
        self._unmeasured.clear()
        if self._drift is not None:
            self._drift.goal(goal)

    def _called(self, call: Called) -> None:
        values = self.values
        self.actions += 1
        self.spending.feed(call)
        self.errors.feed(call)
        self._loops.feed(call)
        self._rate.feed(call)
        if call.resources:
            self._scope.feed(call)
            self._scope_values()
            if self.artifacts.made:
                self.artifacts.touched(call.resources, self.actions)
                if self.artifacts.used:
                    values["own_artifacts"] = self.artifacts.used
        spending = self.spending
        values["api_calls"] = spending.requests
        values["loops"] = self._loops.value
        values["errors.streak"] = self.errors.streak
        self._note("errors", self.errors.rate(self._policy.signals.errors.at_least))
        if spending.is_priced:
            self._costs(call)
        if spending.timed:
            values["compute_seconds"] = spending.seconds
        if spending.bytes:
            values["bytes"] = spending.bytes
        self._note("token_rate", self._rate.value)
        if self._drift is not None:
            self._drift.act(text_of(call))
            self._drift_values(self._drift)
        elif self._awaits_drift:
            self._unmeasured.append(text_of(call))

    def _costs(self, call: Called) -> None:
        values, spending = self.values, self.spending
        values["cost"] = spending.cost
        values["cost.per_action"] = call.cost or 0.0
        self._note("cost.acceleration", spending.acceleration)
        if self.budget:
            values["budget"] = spending.cost / self.budget
            left = self.calls_left
            if left is not None and values["budget"] >= _HALF:
                values["calls_left"] = left / (self.actions + left)
            else:
                self._drop("calls_left")

    def _drift_values(self, drift: DriftGauge) -> None:
        self._note("scope_drift", drift.value())
        if self._hypothesis.text:
            self._note("scope_drift.alignment", drift.alignment(self._hypothesis.text))

    def _scope_values(self) -> None:
        values, scope = self.values, self._scope
        values["resources"] = scope.resources
        values["scope.new_domain"] = scope.outside
        self._note("scope.expansion", scope.expansion)

    def _reported(self, act: Reported) -> None:
        if act.hypothesis:
            self._hypothesis.state(act.hypothesis, self.clock.seconds)
            if self._drift is not None:
                self._drift_values(self._drift)
        if act.artifact:
            self.artifacts.add(act.artifact, self.actions)
        if act.progress is not None and act.progress > self._progress:
            self._progress = act.progress
            self._loops.progress()
            self.values["loops"] = 0.0

    def age(self, seconds: float) -> float | None:
        """Return the age of the hypothesis; of the turn, where one is required before it acts and missing."""
        return seconds if self._must_state and self.lacks_hypothesis else self._hypothesis.age(seconds)

    @property
    def lacks_hypothesis(self) -> bool:
        """True if it must state one, and has not."""
        return self._must_state and not self._hypothesis.text

    def allow_unstated(self) -> None:
        """Allow it to act without one, in this turn."""
        self._must_state = False
        if not self._hypothesis.text:
            self._drop("hypothesis")

    # ---- what is known

    @property
    def calls_left(self) -> float | None:
        """The calls left, as the agent's earlier runs predict."""
        return calls_left(self.actions, self.history)

    @property
    def seconds_per_request(self) -> float | None:
        """The average time of an action."""
        seconds = self.clock.seconds
        return seconds / self.actions if seconds and self.actions else None

    def words(self) -> dict[str, str]:
        """Return the facts of a signal besides its value."""
        words = {"loops": self._loops.words}
        if self.errors.last:
            words["errors.streak"] = words["errors"] = f"The last: {self.errors.last}."
        if self._scope.latest:
            words["scope.new_domain"] = words["scope.expansion"] = f"The latest is {self._scope.latest}."
        if not self._hypothesis.text:
            words["hypothesis"] = "It has stated none at all."
        if self.goal:
            words["scope_drift"] = f"The goal is “{self.goal[:80]}”."
        used = [one for one in self.artifacts.made.values() if one.used_at is not None]
        if used:
            words["own_artifacts"] = f"The last: {used[-1].name}, made at action {used[-1].step}."
        if self._risk_reading is not None:
            words["risk"] = self._risk_reading.words
        return words

    def values_at(self, now: float) -> dict[str, float]:
        """Return the values as they would be by then without another act. Decides nothing, and changes nothing."""
        values = dict(self.values)
        seconds = self.clock.seconds_at(now)
        if seconds is not None:
            values["duration"] = seconds
            age = self.age(seconds)
            if age is not None:
                values["hypothesis"] = age
        return values

    def unseen(self, rules: Sequence[Rule]) -> tuple[Unseen, ...]:
        """Return the signals that could not be measured, and why."""
        why = dict(self._given_unseen)
        values, spending = self.values, self.spending
        if "duration" not in values:
            why["duration"] = "the record has no clock"
        elif self.clock.went_back:
            why["duration"] = f"the clock went back by {self.clock.went_back:.3g} s, not counted"
        if spending.unpriced:
            known = f"at least {money(spending.cost)}" if spending.is_priced else "the cost is not known"
            why["cost"] = f"{spending.unpriced} model calls have no known price; {known}"
        if self._drift is None:
            loading = "its encoder is still loading" if self._awaits_drift else "no encoder measures it"
            why.setdefault("scope_drift", loading)
        if "token_rate" not in values:
            why["token_rate"] = "fewer than 6 model calls had tokens and a duration"
        if "scope.expansion" not in values:
            why["scope.expansion"] = "fewer than 3 calls are known to have changed something"
        if not self._hypothesis.text:
            why["hypothesis"] = "the agent has stated none"
        elif "hypothesis" not in values:
            why["hypothesis"] = "its age is unknown: the record had no clock"
        if self.calls_left is None or not self.budget:
            why["calls_left"] = self._why_no_calls_left()
        if self._policy.signals.risk.enabled and self._risk is None:
            why["risk"] = "no model is loaded"
        for signal in (rule.signal for rule in rules if rule.signal in _WHY_UNSEEN and rule.signal not in values):
            why.setdefault(signal, _WHY_UNSEEN[signal])
        return tuple(Unseen(signal, words) for signal, words in why.items())

    def _why_no_calls_left(self) -> str:
        if self.calls_left is not None:
            return "the session has no budget to hold the calls against"
        if len(self.history.calls) < ENOUGH:
            return f"{len(self.history.calls)} earlier runs of this agent; {ENOUGH} are needed"
        return "its earlier runs differ too much, or were all shorter"
