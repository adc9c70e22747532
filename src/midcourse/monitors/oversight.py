"""Watches one run: measures its signals act by act, and says what the policy decides.

The same object watches live sessions and recorded runs, so that a backtest decides what would have been decided. It
holds no clock and does nothing: who uses it tells it what happened and what time it is, and acts on what it says.
"""

from bisect import bisect_right
from math import inf
from typing import Protocol

import msgspec

from midcourse.core.policy.acts import AnyAct, Begun, Called, Planned, Reported, Said, SteppedIn, WentOn
from midcourse.core.policy.decisions import SEVERITY, Decision, Unseen
from midcourse.core.policy.document import Automatic, Policy
from midcourse.core.policy.evaluation import Rule, after, armed, evaluate, is_too_early, rules_of
from midcourse.core.policy.observed import Latch, Observed
from midcourse.core.terms import TaskClass
from midcourse.monitors.clocks import Stopwatch
from midcourse.monitors.drift import text_of
from midcourse.monitors.errors import Errors
from midcourse.monitors.estimates import NO_HISTORY, History, calls_left, class_of
from midcourse.monitors.hypotheses import Artifacts, Hypothesis
from midcourse.monitors.loops import Loops
from midcourse.monitors.rates import TokenRate
from midcourse.monitors.scope import Scope
from midcourse.monitors.self_asks import QUESTIONS, ambiguous, cause_of, near, near_marks
from midcourse.monitors.spending import Spending

_UNMEASURED = 100
"""Actions that are kept until the encoder is loaded, so that none is missing from the course."""
_CLEARLY = 0.8
"""Of a threshold: what has come back behind it only just may be past it again with the next act."""
HALF = 0.5
"""Of the budget: from there on the calls that are left are held against it."""


class DriftGauge(Protocol):
    """Measures how far actions are from a text."""

    def goal(self, text: str) -> None:
        """What they are measured against from now on."""
        ...

    def act(self, text: str) -> None:
        """One action more."""
        ...

    def value(self) -> float | None:
        """From 0 to 1; None while it cannot be said."""
        ...

    def alignment(self, hypothesis: str) -> float | None:
        """The same against another text."""
        ...


class RiskReading(Protocol):
    """What the combined risk says."""

    @property
    def value(self) -> float:
        """The chance that this run fails."""
        ...

    @property
    def threshold(self) -> float | None:
        """From where on it is an alarm."""
        ...

    @property
    def is_calibrated(self) -> bool:
        """Whether its threshold was made from runs like this one."""
        ...

    @property
    def words(self) -> str:
        """What moved it."""
        ...


class RiskGauge(Protocol):
    """Adds up what all signals say together."""

    def feed(self, act: AnyAct) -> None:
        """One act more."""
        ...

    def read(self) -> RiskReading:
        """What it comes to."""
        ...


class Oversight:
    """One run under one policy."""

    def __init__(
        self,
        policy: Policy,
        *,
        task_class: TaskClass | None = None,
        budget: float | None = None,
        history: History = NO_HISTORY,
        drift: DriftGauge | None = None,
        risk: RiskGauge | None = None,
        asks: bool = True,
        awaits_drift: bool = False,
    ) -> None:
        self.policy = policy
        self._budget = budget
        self.values: dict[str, float] = {}
        self.artifacts = Artifacts()
        self._declared: TaskClass | None = task_class
        self._history = history
        self._drift = drift
        self._risk = risk if policy.signals.risk.enabled else None
        self._asks = asks
        self._given_unseen: tuple[Unseen, ...] = ()
        self._awaits_drift = awaits_drift
        self._unmeasured: list[str] = []
        self._risk_marks: tuple[float | None, float | None] | None = None
        self._risk_reading: RiskReading | None = None
        self._rules = rules_of(policy, 1.0)
        self._told: dict[tuple[str, str], Latch] = {}
        self._asked: set[str] = set()
        self._occasions = 0
        self._spending = Spending()
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._clock = Stopwatch()
        self._errors = Errors()
        self._loops = Loops(self.policy.signals.loops.alike)
        self._scope = Scope()
        self._rate = TokenRate()
        self._hypothesis = Hypothesis()
        self._actions = 0
        self._progress = -1.0
        self._done_items = 0
        self._plan_asked_at: int | None = None
        self._is_explaining = False
        self._reviewed = False
        self._unheard: Decision | None = None
        self._asked.clear()
        self._goal = ""
        # What counts for the whole session stays; what counts for a turn begins anew.
        kept = {name: value for name, value in self.values.items() if name in _OF_SESSION}
        self.values.clear()
        self.values.update(kept)
        self._told = {key: latch for key, latch in self._told.items() if key[0] in _OF_SESSION}
        self._set_arms()

    def _set_arms(self) -> None:
        rule = self.policy.classes.of(self.task_class)
        self._outlived_at = rule.up_to if self._declared is None and rule.up_to is not None else inf
        automatic = self._automatic
        self._arms = armed(self._rules, self._told, tells_only=automatic == "never")
        self._measured = -1
        self._is_past = False
        nearby = near_marks(self.policy, self._asked) if self._asks and automatic != "never" else []
        self._arms += [(signal, mark, False) for signal, mark in nearby]
        marks = {(rule.signal, stage): (mark, rule.below) for rule in self._rules for stage, mark in rule.steps}
        self._disarmed = [(key, *marks[key]) for key in self._told if key in marks and key[0] not in _ADDS_UP]
        time_rules = {rule.signal: [mark for _, mark in rule.steps] for rule in self._rules}
        near_times = [mark for signal, mark in nearby if signal == "duration"]
        self._marks = {
            "duration": sorted([*time_rules.get("duration", []), *near_times]),
            "hypothesis": time_rules.get("hypothesis", []),
        }

    # ---- what is told

    @property
    def budget(self) -> float | None:
        """Dollars that the session may cost."""
        return self._budget

    @budget.setter
    def budget(self, budget: float | None) -> None:
        """Another one: what was told of the old one has nothing to say of it."""
        self._budget = budget
        for signal in ("budget", "calls_left"):
            self.values.pop(signal, None)
        self._told = {key: latch for key, latch in self._told.items() if key[0] not in ("budget", "calls_left")}
        self._set_arms()

    def see(self, act: AnyAct, *, past: bool = False) -> Decision | None:
        """Take an act in, and say what to do about it, if anything. ``past``: it was seen before, decide nothing."""
        self._feed(act)
        if past:
            self._arm_again()
            return None
        question = self._question(act)
        if question is not None:
            return question
        return self._decide() if self._is_past_a_mark() else None

    def look(self, now: float) -> Decision | None:
        """Only time has passed."""
        self._clock.advance(now)
        self._time_values()
        return self._decide() if self._is_past_a_mark() else None

    def due(self) -> float | None:
        """When time alone could lead to a decision; None if it cannot. Look again then."""
        elapsed = self._clock.seconds
        if elapsed is None:
            return None
        mark = self._next_mark(elapsed)
        # Just past the mark: rounding must not make a look come a hair too early, again and again.
        return None if mark is None else self._clock.when(mark + 1e-3)

    def _next_mark(self, elapsed: float) -> float | None:
        """The next threshold of time, in working seconds of the turn."""
        marks = self._marks["duration"]
        place = bisect_right(marks, elapsed)
        ahead: list[float] = marks[place : place + 1]
        age = self._age(elapsed)
        if age is not None:
            ahead += [elapsed - age + one for one in self._marks["hypothesis"] if one > age]
        first = self.policy.restraint.first_after
        if self._is_past and elapsed < first:
            ahead.append(first)
        return min(ahead) if ahead else None

    def failed(self, decision: Decision) -> None:
        """A decision could not be carried out: what it was made for counts anew."""
        self._unheard = None
        for reason in decision.reasons:
            self._told.pop((reason.signal, reason.stage), None)
        if decision.level == "ask_plan":
            self._plan_asked_at = None
        self._asked.discard(decision.question)
        self._set_arms()

    def held(self, decision: Decision) -> None:
        """Limits over many sessions let a decision only be told: it is not tried again, and no plan was asked for."""
        self._told = after(msgspec.structs.replace(decision, level="stop"), self.observed(unseen=False), self._rules)
        if decision.level == "ask_plan":
            self._plan_asked_at = None
        self._set_arms()

    def measure_drift(self, by: DriftGauge | Unseen) -> None:
        """From now on this measures drift, or nothing does and here is why."""
        self._awaits_drift = False
        if isinstance(by, Unseen):
            self._given_unseen = (*self._given_unseen, by)
            return
        self._drift = by
        by.goal(self._goal)
        for text in self._unmeasured:
            by.act(text)
        self._unmeasured.clear()

    # ---- what is measured

    def _feed(self, act: AnyAct) -> None:
        kind = type(act)
        if kind is Begun:
            self._begin_turn()
        self._clock.feed(act)
        if kind is Called:
            self._called(act)  # pyright: ignore[reportArgumentType]
        elif isinstance(act, Begun):
            self._goal = act.goal
            if self._drift is not None:
                self._drift.goal(act.goal)
        elif isinstance(act, Said):
            self._goal = act.text if act.is_goal else self._goal
            if self._drift is not None:  # from here on it does what it was told, and is held to that
                self._drift.goal(self._goal if act.is_goal else f"{self._goal}\n{act.text}")
                self.values.pop("scope_drift", None)
            self._loops.progress()
            self.values["loops"] = 0.0
            self._scope.confirm()
            self._scope_values()
        elif isinstance(act, Reported):
            self._reported(act)
        elif isinstance(act, Planned):
            if act.done > self._done_items:
                self._loops.progress()
                self.values["loops"] = 0.0
            self._done_items = act.done
        elif isinstance(act, SteppedIn):
            self._stepped_in(act)
        elif isinstance(act, WentOn) and self._unheard is not None:
            # It never happened: somebody had stopped it, or was being asked. That is no reason to go on for ever.
            self.failed(self._unheard)
        elif isinstance(act, WentOn) and self._reviewed:
            self._reviewed = False
            self._scope.confirm()
            self._scope_values()
        if self._risk is not None:
            self._risk.feed(act)
            if kind is Called:
                reading = self._risk.read()
                self.values["risk"] = reading.value
                self._risk_reading = reading
                if self._risk_marks is None:
                    threshold = reading.threshold
                    self._risk_marks = (threshold, None) if reading.is_calibrated else (None, threshold)
                    self._rules = rules_of(self.policy, *self._risk_marks)
                    self._set_arms()
        self._time_values()

    def _called(self, call: Called) -> None:
        values = self.values
        self._actions += 1
        self._spending.feed(call)
        self._errors.feed(call)
        self._loops.feed(call)
        self._rate.feed(call)
        if call.resources:
            self._scope.feed(call)
            self._scope_values()
            if self.artifacts.made:
                self.artifacts.touched(call.resources, self._actions)
                if self.artifacts.used:
                    values["own_artifacts"] = self.artifacts.used
        spending = self._spending
        values["api_calls"] = spending.requests
        values["loops"] = self._loops.value
        values["error_streak"] = self._errors.streak
        rate = self._errors.rate(self.policy.signals.errors.at_least)
        if rate is not None:
            values["errors"] = rate
        if spending.is_priced:
            self._costs(call)
        if spending.timed:
            values["compute_seconds"] = spending.seconds
        if spending.bytes:
            values["bytes"] = spending.bytes
        token_rate = self._rate.value
        if token_rate is not None:
            values["token_rate"] = token_rate
        if self._drift is not None:
            self._drift_values(call)
        elif self._awaits_drift and len(self._unmeasured) < _UNMEASURED:
            self._unmeasured.append(text_of(call))

    def _costs(self, call: Called) -> None:
        values, spending = self.values, self._spending
        values["cost"] = spending.cost
        values["cost_per_action"] = call.cost or 0.0
        acceleration = spending.acceleration
        if acceleration is not None:
            values["cost_acceleration"] = acceleration
        if self.budget:
            values["budget"] = spending.cost / self.budget
            left = calls_left(self._actions, self._history)
            if left is not None and values["budget"] >= HALF:
                values["calls_left"] = left / (self._actions + left)
            else:
                values.pop("calls_left", None)

    def _drift_values(self, call: Called) -> None:
        assert self._drift is not None
        self._drift.act(text_of(call))
        value = self._drift.value()
        if value is not None:
            self.values["scope_drift"] = value
        if self.policy.signals.scope_drift.alignment is not None and self._hypothesis.text:
            alignment = self._drift.alignment(self._hypothesis.text)
            if alignment is not None:
                self.values["alignment"] = alignment

    def _scope_values(self) -> None:
        values, scope = self.values, self._scope
        values["resources"] = scope.resources
        values["new_domain"] = scope.outside
        expansion = scope.expansion
        if expansion is not None:
            values["scope_expansion"] = expansion

    def _reported(self, act: Reported) -> None:
        if act.hypothesis:
            self._hypothesis.state(act.hypothesis, self._clock.seconds)
        if act.artifact:
            self.artifacts.add(act.artifact, self._actions, act.documentation)
        if act.progress is not None and act.progress > self._progress:
            self._progress = act.progress
            self._loops.progress()
            self.values["loops"] = 0.0

    def _stepped_in(self, act: SteppedIn) -> None:
        decision = Decision(level=act.level, wanted=act.level, policy=self.policy.id, reasons=act.reasons)
        self._unheard = None
        if act.question:
            self._asked.add(act.question)
        # Counted here and not when it is decided: what was decided comes back as this, once it has happened.
        if act.level == "ask_plan":
            self._occasions += 1
            self._is_explaining = True
        elif act.level == "pause":
            self._occasions += not self._is_explaining
            self._is_explaining = False
        self._latch(decision)

    def _time_values(self) -> None:
        seconds = self._clock.seconds
        if seconds is None:
            return
        self.values["duration"] = seconds
        if seconds >= self._outlived_at:  # it has moved up to the next class
            self._set_arms()
        age = self._age(seconds)
        if age is not None:
            self.values["hypothesis"] = age

    def _age(self, seconds: float) -> float | None:
        """Of the hypothesis; of the turn, where one must be stated before it acts and none was."""
        is_missing = self.policy.signals.hypothesis.required and self._actions and not self._hypothesis.text
        return seconds if is_missing else self._hypothesis.age(seconds)

    # ---- what is decided

    def _is_past_a_mark(self) -> bool:
        values = self.values
        if self._disarmed:
            self._arm_again()
        if len(values) != self._measured:  # most signals of a run are never measured, and need not be looked at
            self._measured = len(values)
            self._present = [arm for arm in self._arms if arm[0] in values]
        self._is_past = False
        for signal, mark, below in self._present:
            value = values[signal]
            if value <= mark if below else value >= mark:
                self._is_past = True
                break
        return self._is_past

    def _arm_again(self) -> None:
        """A signal that has gone back behind its threshold counts anew the next time."""
        back = [
            key
            for key, mark, below in self._disarmed
            if (value := self.values.get(key[0])) is not None
            and (value * _CLEARLY > mark if below else value < mark * _CLEARLY)
        ]
        if back:
            for key in back:
                del self._told[key]
            self._set_arms()

    def _decide(self) -> Decision | None:
        observed = self.observed(unseen=False)
        decision = evaluate(self.policy, observed, self._clock.now, rules=self._rules)
        if decision.level == "none":
            return self._near()
        if SEVERITY[decision.level] < SEVERITY["ask"] and (question := self._near()) is not None:
            return question
        decision = evaluate(self.policy, self.observed(), self._clock.now, rules=self._rules)
        self._latch(decision)
        self._unheard = decision if decision.interrupts else None
        return decision

    def _latch(self, decision: Decision) -> None:
        self._told = after(decision, self.observed(unseen=False), self._rules)
        if decision.level == "ask_plan":
            self._plan_asked_at = self._actions
        if decision.level in ("pause", "stop", "ask"):
            self._reviewed = True
        self._set_arms()

    def _near(self) -> Decision | None:
        if not self._asks:
            return None
        cause, why = near(self.policy, self.values)
        if not cause or is_too_early(self.policy, self.observed(unseen=False)):
            return None
        return self._ask(cause, why)

    def _question(self, act: AnyAct) -> Decision | None:
        if not self._asks:
            return None
        if isinstance(act, Begun):
            return self.about_goal()
        if isinstance(act, Called) and act.error:
            cause, why = cause_of(act, self.policy.agent_asks, self._errors.kinds - {act.error})
            return self._ask(cause, why) if cause else None
        return None

    def about_goal(self) -> Decision | None:
        """What the agent has to ask about its goal, if that can mean anything."""
        why = ambiguous(self._goal) if self._asks and self.policy.agent_asks.ambiguous else ""
        return self._ask("ambiguous_instructions", why) if why else None

    def _ask(self, cause: str, why: str) -> Decision | None:
        """Once for each cause in a turn; not where nobody may interrupt."""
        if cause in self._asked or self._automatic == "never":
            return None
        self._asked.add(cause)
        self._set_arms()
        self._reviewed = True
        return Decision(
            level="ask",
            wanted="ask",
            policy=self.policy.id,
            at=self._clock.now,
            question=cause,
            unseen=self.unseen(),
            words=QUESTIONS[cause].format(why=why),
        )

    # ---- what is known

    @property
    def task_class(self) -> TaskClass:
        """As declared, or as the agent's history predicts."""
        if self._declared is not None:
            return self._declared
        return class_of(self._history, self.policy.classes, self._clock.seconds or 0.0)

    @property
    def _automatic(self) -> Automatic:
        return self.policy.classes.of(self.task_class).automatic

    def observed(self, *, unseen: bool = True) -> Observed:
        """Everything a decision depends on, at this moment."""
        spending = self._spending
        left = calls_left(self._actions, self._history)
        return Observed(
            task_class=self.task_class,
            is_class_declared=self._declared is not None,
            at=self._clock.now,
            elapsed=self._clock.seconds,
            actions=self._actions,
            requests=spending.requests,
            values=dict(self.values),
            unseen={one.signal: one.why for one in self.unseen()} if unseen else {},
            words=self._words() if unseen else {},
            told=dict(self._told),
            plan_asked_at=self._plan_asked_at,
            occasions=self._occasions,
            is_explaining=self._is_explaining,
            share_left=None if left is None else left / (self._actions + left),
            calls_left=left,
            dollars_per_request=spending.per_request,
            seconds_per_request=self._seconds_per_request(),
            risk_threshold=self._risk_marks[0] if self._risk_marks else None,
            risk_warns=self._risk_marks[1] if self._risk_marks else None,
        )

    def _seconds_per_request(self) -> float | None:
        seconds = self._clock.seconds
        return seconds / self._actions if seconds and self._actions else None

    def _words(self) -> dict[str, str]:
        words = {"loops": self._loops.words}
        if self._errors.last:
            words["error_streak"] = words["errors"] = f"The last: {self._errors.last}."
        if self._scope.latest:
            words["new_domain"] = words["scope_expansion"] = f"The latest is {self._scope.latest}."
        if not self._hypothesis.text:
            words["hypothesis"] = "It has stated none at all."
        if self._goal:
            words["scope_drift"] = f"The goal is “{self._goal[:80]}”."
        used = [one for one in self.artifacts.made.values() if one.used_at is not None]
        if used:
            words["own_artifacts"] = f"The last: {used[-1].name}, made at action {used[-1].step}."
        if self._risk_reading is not None:
            words["risk"] = self._risk_reading.words
        return words

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The thresholds as they are for this run: those of a risk are known from its first call on."""
        return self._rules

    def values_at(self, now: float) -> dict[str, float]:
        """The values as they are by then, if nothing has happened since. Decides nothing, and changes nothing."""
        values = dict(self.values)
        seconds = self._clock.seconds_at(now)
        if seconds is not None:
            values["duration"] = seconds
            age = self._age(seconds)
            if age is not None:
                values["hypothesis"] = age
        return values

    def unseen(self) -> tuple[Unseen, ...]:
        """The signals that could not be measured, and why."""
        missing = list(self._given_unseen)
        values, spending = self.values, self._spending
        if "duration" not in values:
            missing.append(Unseen("duration", "the record has no clock"))
        elif self._clock.went_back:
            missing.append(Unseen("duration", f"the clock went back by {self._clock.went_back:.3g} s, not counted"))
        if spending.unpriced:
            known = f"at least ${spending.cost:.2f}" if spending.is_priced else "the cost is not known"
            missing.append(Unseen("cost", f"{spending.unpriced} model calls have no known price; {known}"))
        if self._drift is None and not any(one.signal == "scope_drift" for one in missing):
            missing.append(Unseen("scope_drift", "no encoder measures it"))
        if "token_rate" not in values:
            missing.append(Unseen("token_rate", "fewer than 6 model calls had tokens and a duration"))
        if "scope_expansion" not in values:
            missing.append(Unseen("scope_expansion", "fewer than 3 calls are known to have changed something"))
        if not self._hypothesis.text:
            missing.append(Unseen("hypothesis", "the agent has stated none"))
        elif "hypothesis" not in values:
            missing.append(Unseen("hypothesis", "nobody knows since when it stands: the record had no clock"))
        if calls_left(self._actions, self._history) is None:
            missing.append(Unseen("calls_left", _why_no_estimate(self._history)))
        elif not self.budget:
            missing.append(Unseen("calls_left", "the session has no budget to hold the calls against"))
        if self.policy.signals.risk.enabled and self._risk is None:
            missing.append(Unseen("risk", "no model is loaded"))
        named = {one.signal for one in missing}
        missing += [
            Unseen(rule.signal, _WHY_UNSEEN[rule.signal])
            for rule in self._rules
            if rule.signal in _WHY_UNSEEN and rule.signal not in values and rule.signal not in named
        ]
        return tuple(missing)


_ADDS_UP = frozenset({"duration", "cost", "budget", "resources", "api_calls", "compute_seconds", "bytes"})
"""Signals that only ever grow in a turn, or whose share begins anew where ``budget`` is set."""
_OF_SESSION = frozenset({"cost", "budget", "api_calls", "compute_seconds", "bytes", "own_artifacts"})


_WHY_UNSEEN = {
    "cost": "nothing in it has a price",
    "errors": "too few calls that could fail",
    "alignment": "nothing measures it, or no hypothesis was stated",
    "compute_seconds": "no call says how long it took",
    "bytes": "no call says how much it moved",
    "risk": "no call has been judged yet",
}
"""What is to be said of a signal with a threshold that nothing has measured so far."""


def _why_no_estimate(history: History) -> str:
    if len(history.calls) < 5:
        return f"{len(history.calls)} earlier runs of this agent; 5 are needed"
    return "its earlier runs differ too much, or were all shorter"
