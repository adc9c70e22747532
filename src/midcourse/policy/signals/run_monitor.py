"""Watches one run: has its signals measured act by act, and says what the policy decides.

The same object watches live sessions and recorded runs, so that a backtest decides what would have been decided. It
holds no clock and does nothing: who uses it tells it what happened and what time it is, and acts on what it says.
"""

from collections.abc import Iterable, Mapping
from math import inf

import msgspec

from midcourse.core.hypothesis import asked_by
from midcourse.core.policy_decision import SEVERITY, Decision, Unseen
from midcourse.core.terms import TaskClass
from midcourse.policy.document import Policy
from midcourse.policy.evaluation import after, evaluate
from midcourse.policy.observation import Latch, Observed
from midcourse.policy.restraint import is_too_early, may_stop
from midcourse.policy.run_activity import AnyAct, Begun, Called, SteppedIn, WentOn
from midcourse.policy.signals.calls_left import NO_HISTORY, CallHistory, class_of
from midcourse.policy.signals.measurements import OF_SESSION, DriftGauge, Measures, RiskGauge
from midcourse.policy.signals.self_asks import QUESTIONS, ambiguous, cause_of, near, near_marks
from midcourse.policy.signals.threshold_state import Latches
from midcourse.policy.thresholds import Rule, rules_of


class RunMonitor:
    """One run under one policy."""

    def __init__(
        self,
        policy: Policy,
        *,
        task_class: TaskClass | None = None,
        budget: float | None = None,
        history: CallHistory = NO_HISTORY,
        drift: DriftGauge | None = None,
        risk: RiskGauge | None = None,
        asks: bool = True,
        awaits_drift: bool = False,
    ) -> None:
        self.policy = policy
        self._measures = Measures(
            policy, budget=budget, history=history, drift=drift, risk=risk, awaits_drift=awaits_drift
        )
        self.values = self._measures.values
        self.artifacts = self._measures.artifacts
        self._declared: TaskClass | None = task_class
        self._asks = asks
        self._rules = rules_of(policy, 1.0)
        self._knows_risk = False
        self._latches = Latches(policy.restraint)
        self._told_before: Mapping[tuple[str, str], Latch] = {}
        self._asked: set[str] = set()
        self._occasions = 0
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._plan_asked_at: int | None = None
        self._is_explaining = False
        self._reviewed = False
        self._is_held = self._is_allowed = False
        self._unheard: Decision | None = None
        self._asked.clear()
        self._latches.begin_turn()
        self._forget(signal for signal, _ in self._latches.told if signal not in OF_SESSION)

    def _forget(self, signals: Iterable[str]) -> None:
        """Forget the notices about these signals."""
        gone = frozenset(signals)
        self._latches.told = {key: latch for key, latch in self._latches.told.items() if key[0] not in gone}
        self._set_arms()

    def _set_arms(self) -> None:
        rule = self.policy.classes.of(self.task_class)
        self._outlived_at = rule.up_to if self._declared is None and rule.up_to is not None else inf
        nearby = near_marks(self.policy, self._asked) if self._asks and rule.automatic != "never" else ()
        is_declared = self._declared is not None
        self._latches.arm(self._rules, nearby, tells_only=not may_stop(rule, is_declared=is_declared))

    # ---- notices

    @property
    def budget(self) -> float | None:
        """Dollars that the session may cost."""
        return self._measures.budget

    @budget.setter
    def budget(self, budget: float | None) -> None:
        """Set another budget: notices about the old one no longer count."""
        self._measures.budget = budget
        self._forget(("budget", "calls_left"))

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
        """Decide again after time has passed."""
        self._measures.clock.advance(now)
        self._tick()
        return self._decide() if self._is_past_a_mark() else None

    def due(self) -> float | None:
        """Return when time alone could lead to a decision; None if it cannot. Call ``look`` then."""
        clock = self._measures.clock
        elapsed = clock.seconds
        if elapsed is None:
            return None
        mark = self._latches.next_time(elapsed, self._measures.age(elapsed), self.policy.restraint.first_after)
        # Just past the mark: rounding must not make a look come a hair too early, again and again.
        return None if mark is None else clock.when(mark + 1e-3)

    def failed(self, decision: Decision) -> None:
        """Take back a decision that could not be carried out: its reason counts anew."""
        self._unheard = None
        told, before = self._latches.told, self._told_before
        for key in ((reason.signal, stage) for reason in decision.reasons for stage in (reason.stage, "warn")):
            told.pop(key, None)
            if key in before:
                told[key] = before[key]
        if decision.level == "ask_plan":
            self._plan_asked_at = None
        self._asked.discard(decision.question)
        self._set_arms()

    def held(self, decision: Decision) -> None:
        """Limits over many sessions let a decision only be told: it is not tried again, and no plan was asked for."""
        done = msgspec.structs.replace(decision, level="stop")
        self._latches.told = after(done, self.observed(unseen=False), self._rules)
        if decision.level == "ask_plan":
            self._plan_asked_at = None
        self._set_arms()

    def measure_drift(self, by: DriftGauge | Unseen) -> None:
        """Measure drift by this from now on; a string is the reason why nothing does."""
        self._measures.measure_drift(by)

    # ---- acts

    def _feed(self, act: AnyAct) -> None:
        if type(act) is Begun:
            self._measures.begin_turn()
            self._begin_turn()
        self._measures.feed(act)
        if isinstance(act, SteppedIn):
            self._stepped_in(act)
        elif isinstance(act, WentOn) and self._unheard is not None:
            # It never happened: it had been stopped, or waited for an answer. That must not last for ever.
            self.failed(self._unheard)
        elif isinstance(act, WentOn) and self._reviewed:
            self._reviewed = False
            self._measures.confirm_scope()
            if self._is_allowed:
                self._is_held = self._is_allowed = False
                self._measures.allow_unstated()
        if not self._knows_risk and self._measures.risk_marks is not None:
            self._knows_risk = True
            self._rules = rules_of(self.policy, *self._measures.risk_marks)
            self._set_arms()
        self._tick()

    def _stepped_in(self, act: SteppedIn) -> None:
        decision = Decision(level=act.level, wanted=act.level, policy=self.policy.id, reasons=act.reasons)
        self._unheard = None
        if act.question:
            self._asked.add(act.question)
        about_hypothesis = asked_by(decision)
        if about_hypothesis == "asked":  # it acts no more: that is no question that it may answer as it likes
            self._is_held = True
            return
        self._is_allowed = self._is_allowed or about_hypothesis == "reviewed"
        # Counted here and not when it is decided: what was decided comes back as this, once it has happened.
        if act.level == "ask_plan":
            self._occasions += 1
            self._is_explaining = True
        elif act.level == "pause" and not decision.is_wish:
            self._occasions += not self._is_explaining
            self._is_explaining = False
        self._latch(decision)

    def _tick(self) -> None:
        seconds = self._measures.tick()
        if seconds is not None and seconds >= self._outlived_at:  # it has moved up to the next class
            self._set_arms()

    # ---- what is decided

    def _is_past_a_mark(self) -> bool:
        self._arm_again()
        return self._latches.is_past(self.values, len(self.values) + 2 * self._measures.dropped)

    def _arm_again(self) -> None:
        if self._latches.forget_what_went_back(self.values, self._measures.actions):
            self._set_arms()

    def _decide(self) -> Decision | None:
        observed = self.observed(unseen=False)
        decision = evaluate(self.policy, observed, self._measures.clock.now, rules=self._rules)
        if decision.level == "none":
            return self._near()
        if SEVERITY[decision.level] < SEVERITY["ask"] and (question := self._near()) is not None:
            return question
        decision = evaluate(self.policy, self.observed(), self._measures.clock.now, rules=self._rules)
        self._latch(decision)
        self._unheard = decision if decision.interrupts else None
        return decision

    def _latch(self, decision: Decision) -> None:
        self._told_before = self._latches.told
        self._latches.told = after(decision, self.observed(unseen=False), self._rules)
        if decision.level == "ask_plan":
            self._plan_asked_at = self._measures.actions
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
            cause, why = cause_of(act, self.policy.agent_asks, self._measures.errors.kinds - {act.error})
            return self._ask(cause, why) if cause else None
        return None

    def about_goal(self) -> Decision | None:
        """Return the agent's question about its goal, if the goal is ambiguous."""
        why = ambiguous(self._measures.goal) if self._asks and self.policy.agent_asks.ambiguous else ""
        return self._ask("ambiguous_instructions", why) if why else None

    def _ask(self, cause: str, why: str) -> Decision | None:
        """Ask once for each cause in a turn; not where interruptions are not allowed."""
        if cause in self._asked or self.policy.classes.of(self.task_class).automatic == "never":
            return None
        self._asked.add(cause)
        self._set_arms()
        self._reviewed = True
        return Decision(
            level="ask",
            wanted="ask",
            policy=self.policy.id,
            at=self._measures.clock.now,
            question=cause,
            unseen=self.unseen(),
            words=QUESTIONS[cause].format(why=why),
        )

    # ---- what is known

    @property
    def task_class(self) -> TaskClass:
        """The declared class, or the one that the agent's history predicts."""
        if self._declared is not None:
            return self._declared
        return class_of(self._measures.history, self.policy.classes, self._measures.clock.seconds or 0.0)

    def observed(self, *, unseen: bool = True) -> Observed:
        """Return everything a decision depends on, at this moment."""
        measures = self._measures
        left = measures.calls_left
        alarm, warns = measures.risk_marks or (None, None)
        return Observed(
            task_class=self.task_class,
            is_class_declared=self._declared is not None,
            at=measures.clock.now,
            elapsed=measures.clock.seconds,
            actions=measures.actions,
            requests=measures.spending.requests,
            values=dict(self.values),
            unseen={one.signal: one.why for one in self.unseen()} if unseen else {},
            words=measures.words() if unseen else {},
            told=dict(self._latches.told),
            went_back=frozenset(self._latches.went_back),
            plan_asked_at=self._plan_asked_at,
            occasions=self._occasions,
            is_held=self._is_held and self._measures.lacks_hypothesis,
            is_explaining=self._is_explaining,
            share_left=None if left is None else left / (measures.actions + left),
            calls_left=left,
            dollars_per_request=measures.spending.per_request,
            seconds_per_request=measures.seconds_per_request,
            risk_threshold=alarm,
            risk_warns=warns,
        )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The thresholds of this run: those of a risk are known from its first call on."""
        return self._rules

    def values_at(self, now: float) -> dict[str, float]:
        """Return the values as they would be by then without another act. Decides nothing, and changes nothing."""
        return self._measures.values_at(now)

    def unseen(self) -> tuple[Unseen, ...]:
        """Return the signals that could not be measured, and why."""
        return self._measures.unseen(self._rules)
