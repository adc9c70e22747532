"""One session's journal as facts, event by event. Pure."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from midcourse.analysis.reports.facts import STOPS, AskFacts, Interruption, Kind, Money, Outcome, SessionFacts, ToolUse
from midcourse.analysis.reports.recovery import RecoveryReader
from midcourse.core import events as ev
from midcourse.core.asks import REVIEW
from midcourse.core.budget import BUDGET
from midcourse.core.codec import NOTHING, Value
from midcourse.core.commands import BY_AGENT, BY_POLICY
from midcourse.core.ids import SessionId, StepId, message_id
from midcourse.core.policy_decision import INTERRUPTS
from midcourse.core.terms import NO_TERMS
from midcourse.policy.document import Policy
from midcourse.policy.signals.calls_left import NO_HISTORY, CallHistory, class_of

KILOBYTE: Final = 1024
MOST_RATES: Final = 1000
"""Model calls of a session, the newest, whose token rates are kept."""


@dataclass(slots=True)
class _Call:
    begun: ev.StepBegun
    at: float
    torn_by: "_Draft | None" = None


@dataclass(slots=True)
class _Draft:
    """An interruption that is not over."""

    made: Interruption
    began: float
    stood: float | None = None
    quiet: float | None = None
    """When nothing ran any more. A halt is in force at once, even while calls run."""
    resumed: float | None = None
    recovered: float | None = None
    over: float | None = None
    pause: str = ""
    ask: str = ""
    answered: float | None = None
    waited_for: list[str] = field(default_factory=list[str])
    torn: dict[tuple[StepId, int], tuple[bool, float]] = field(
        default_factory=dict[tuple[StepId, int], tuple[bool, float]]
    )
    """Requests it tore: whether they are a model's, and what they, or those in their place, cost."""
    saved: int = 0
    before: float | None = None
    after: float | None = None
    outcome: Outcome = ""


class FactsReader:
    """Reads one journal from its first event on. Work and memory grow with interruptions, questions and open calls."""

    def __init__(self, session_id: SessionId) -> None:
        self.id = session_id
        self.terms = NO_TERMS
        self._agent = self._person = ""
        self._started = self._at = 0.0
        self._ended: float | None = None
        self._outcome: Outcome = ""
        self._rests_since: float | None = None
        self._rested = 0.0
        self._worked_before = 0.0
        self._rested_at_halt = False
        self._score: int | None = None
        self._plan = (0, 0)
        self._messages = 0
        self._turns = 1
        self._tail = 0
        self._tools: dict[str, ToolUse] = {}
        self._begin()

    def _begin(self) -> None:
        self._cost = 0.0
        self._calls: dict[StepId, _Call] = {}
        self._drafts: list[_Draft] = []
        self._notices: list[Interruption] = []
        self._labels: dict[str, ev.Verdict] = {}
        self._asks: dict[str, AskFacts] = {}
        self._outlived: list[str] = []
        self._finished = 0
        self._rates: deque[float] = deque(maxlen=MOST_RATES)
        self._recoveries = RecoveryReader()
        self._decisions = 0
        self._unseen: set[str] = set()
        self._last: _Draft | None = None
        self._turn_from = 0

    # ---- events

    def read(self, record: ev.Recorded) -> None:
        if isinstance(record.event, ev.SessionTaken) and self._rests_since is None:
            self._rested += max(0.0, record.at - self._at)  # it had no owner
        self._at = record.at
        event = record.event
        if isinstance(event, ev.SegmentWritten):
            self._tail += len(event.text.encode())
            return
        self._recoveries.read(event, at_work=self._rests_since is None)
        self._steps(event, record.at)
        self._interrupting(event, record)
        halt = self._last
        if halt is not None and halt.made.kind == "halt" and halt.quiet is None and halt.over is None:
            halt.quiet = None if self._calls else record.at
        self._asking(event, record.at)
        self._life(event, record.at)
        self._tail = 0

    def _life(self, event: ev.AnyEvent, at: float) -> None:
        match event:
            case ev.SessionCreated():
                self._agent, self._person, self.terms = event.agent, event.by, event.terms
                self._started, self._messages, self._rests_since = at, 1, at
            case ev.SessionForked():
                # What came before is its source's, and counted there.
                self._begin()
                self._turns = 0
                self._started, self._ended, self._outcome, self._score = at, None, "", None
                self._rested, self._rests_since, self._worked_before = 0.0, at, 0.0
            case ev.SessionHalted():
                self._rested_at_halt = self._rests_since is not None
                self._rest(at)
            case ev.SessionPaused() | ev.SessionParked() | ev.SessionWaiting():
                self._rest(at)
            case ev.HaltLifted() if self._rested_at_halt:
                pass
            case ev.SessionStarted() | ev.SessionResumed() | ev.SessionWoken() | ev.HaltLifted() | ev.StepBegun():
                self._go_on(at)
                self._ended, self._outcome = None, ""
            case ev.TurnOpened():
                self._messages += 1
                self._turns += self._turns > 0
                self._go_on(at)
                self._worked_before = self._worked
                self._ended, self._outcome = None, ""
                self._turn_from = len(self._drafts)
            case ev.SessionCompleted():
                self._end("completed", at)
            case ev.SessionFailed():
                self._end("failed", at)
            case ev.SessionCancelled(receipt=receipt):
                self._outlived += [line.name for line in receipt if line.outcome == "still running"]
                self._end("cancelled", at)
            case ev.PlanChanged(items=items):
                self._plan = (sum(item.status == "done" for item in items), len(items))
            case ev.BudgetRaised(budget=budget):
                self.terms = msgspec.structs.replace(self.terms, budget=budget)
            case ev.SessionRated(score=score):
                self._score = score
            case ev.InterventionLabelled():
                self._labels[event.about] = event.verdict
            case _:
                pass

    def _rest(self, at: float) -> None:
        if self._rests_since is None:
            self._rests_since = at

    def _go_on(self, at: float) -> None:
        if self._rests_since is not None:
            self._rested += max(0.0, at - self._rests_since)
            self._rests_since = None

    def _end(self, outcome: Outcome, at: float) -> None:
        self._ended, self._outcome = at, outcome
        self._rest(at)
        for draft in self._drafts[self._turn_from :]:
            draft.outcome, draft.after = outcome, self._share_done()
            draft.over = draft.over if draft.over is not None else at

    def _share_done(self) -> float | None:
        done, planned = self._plan
        return done / planned if planned else None

    # ---- interruptions

    def _interrupting(self, event: ev.AnyEvent, record: ev.Recorded) -> None:
        match event:
            case ev.InterventionMade():
                self._made(event, record)
            case ev.PauseRequested(pause=pause, by=by, wished_at=wished):
                known = next((one for one in self._drafts if pause in (one.pause, one.made.id)), None)
                if known is None:
                    draft = self._draft("pause", by, pause, record, wished)
                    if by == BUDGET:  # the review of the cap was opened just before
                        asked = [ask for ask, one in self._asks.items() if one.reason == REVIEW and not one.end]
                        draft.ask = asked[-1] if asked else ""
                else:
                    known.saved += self._tail
            case ev.CancelRequested(by=by, wished_at=wished):
                self._lifted(record.at, ends=True)
                if self._last is None or self._last.made.kind != "cancel" or self._last.stood is not None:
                    self._draft("cancel", by, "", record, wished)
            case ev.SessionHalted(by=by, wished_at=wished):
                self._draft("halt", by, "", record, wished)
            case ev.SessionRedirected(by=by, level=level):
                self._messages += 1
                # A policy's is its question for the plan; of a stopped session, it is what it continues with.
                if level != "event" and not by.startswith((BY_POLICY, BY_AGENT)) and not self._stands():
                    self._draft("redirect", by, message_id(self._messages), record)
            case ev.SessionPaused() | ev.SessionCancelled():
                for draft in self._drafts[self._turn_from :]:
                    if draft.made.kind in STOPS and draft.stood is None and draft.resumed is None:
                        draft.stood = record.at
            case ev.SessionResumed():
                self._lifted(record.at)
            case ev.HaltLifted():  # a pause that it found is in force again
                self._lifted(record.at, kinds=frozenset({"halt"}))
            case ev.CheckpointTaken(state=state, history=history) if self._last is not None:
                if self._last.stood is None:
                    self._last.saved += _size(state) + _size(history)
            case _:
                pass

    def _stands(self) -> bool:
        return any(
            one.made.kind in STOPS and one.resumed is None and one.over is None
            for one in self._drafts[self._turn_from :]
        )

    def _made(self, event: ev.InterventionMade, record: ev.Recorded) -> None:
        decision = event.decision
        self._decisions += bool(decision.reasons)
        self._unseen.update(one.signal for one in decision.unseen)
        decided = decision.at
        made = Interruption(
            kind=decision.level if decision.level != "none" else "notify",
            by=event.by,
            id=event.intervention,
            at=record.at,
            position=record.position,
            reasons=decision.reasons,
            question=decision.question,
            response=None if decided is None else max(0.0, record.at - decided),
            expected=decision.worth,
            before=self._share_done(),
            was_held=not decision.interrupts and decision.wanted in INTERRUPTS,
        )
        if decision.level not in INTERRUPTS:
            self._notices.append(made)
            return
        draft = self._add(made, record.at)
        draft.pause, draft.ask = event.pause or "", event.ask or ""

    def _draft(self, kind: Kind, by: str, name: str, record: ev.Recorded, wished: float | None = None) -> _Draft:
        made = Interruption(
            kind=kind,
            by=by,
            id=name,
            at=record.at,
            position=record.position,
            response=None if wished is None else max(0.0, record.at - wished),
            before=self._share_done(),
        )
        draft = self._add(made, record.at)
        draft.saved += self._tail
        return draft

    def _add(self, made: Interruption, at: float) -> _Draft:
        earlier = self._drafts[self._turn_from :]
        first = not any(one.made.is_by_policy for one in earlier)
        draft = _Draft(msgspec.structs.replace(made, is_first=first), at, before=made.before)
        if made.kind == "halt":  # the kill switch shuts the gate at once; what lives on has outlived it
            draft.stood = at
            draft.quiet = None if self._calls else at
        elif made.kind in ("redirect", "ask_plan"):
            draft.resumed = at
        self._drafts.append(draft)
        self._last = draft
        return draft

    def _lifted(self, at: float, *, kinds: frozenset[Kind] = STOPS - {"cancel"}, ends: bool = False) -> None:
        for draft in self._drafts[self._turn_from :]:
            if draft.made.kind in kinds and draft.resumed is None and draft.over is None:
                draft.over = at
                draft.resumed = None if ends else at

    # ---- calls

    def _steps(self, event: ev.AnyEvent, at: float) -> None:
        match event:
            case ev.StepBegun():
                self._step_begun(event, at)
            case ev.StepFinished() | ev.StepFailed():
                self._step_ended(event, at)
            case ev.StepRetrying(cost=cost):
                self._cost += cost
                self._calls.pop(event.step, None)
            case ev.StepNotBegun() | ev.StepCut(free=True, tokens=0):
                self._not_asked(event.step, event.attempt)
            case ev.StepCut(cost=cost, free=free):
                self._torn(event.step, event.attempt, cost, free=free)
            case ev.StepAborted(asked=False):
                self._torn(event.step, event.attempt, 0.0)
            case ev.StepAborted():
                self._calls.pop(event.step, None)
            case ev.SessionTaken():
                self._calls.clear()
            case _:
                pass

    def _step_begun(self, event: ev.StepBegun, at: float) -> None:
        torn_by = next((one for one in self._drafts if (event.step, event.attempt - 1) in one.torn), None)
        self._calls[event.step] = _Call(event, at, torn_by)
        for draft in self._drafts[self._turn_from :]:
            if draft.resumed is not None and draft.recovered is None:
                draft.recovered = at
        if event.kind == "tool" and event.effect != "read":
            known = ToolUse(event.name, event.effect, event.can_undo, event.can_probe)
            self._tools[event.name] = known

    def _step_ended(self, event: ev.StepFinished | ev.StepFailed, at: float) -> None:
        self._cost += event.cost
        self._finished += isinstance(event, ev.StepFinished)
        call = self._calls.pop(event.step, None)
        if call is None:
            return
        if call.torn_by is not None:
            key = (event.step, event.attempt - 1)
            is_model, before = call.torn_by.torn[key]
            call.torn_by.torn[key] = (is_model and not event.free, event.cost or before)
        if isinstance(event, ev.StepFailed) and event.cut:
            return
        if call.begun.kind == "model" and event.tokens and at > call.at:
            self._rates.append(event.tokens / (at - call.at))
        for draft in self._drafts[self._turn_from :]:
            if draft.made.kind not in STOPS or draft.over is not None:
                continue
            if draft.stood is None:
                draft.waited_for.append(call.begun.name)
            elif not getattr(event, "told_by", ""):  # it ended by itself, after the session had been called stopped
                self._outlived.append(call.begun.name)
                if draft.made.kind == "halt":
                    draft.waited_for.append(call.begun.name)
                break

    def _not_asked(self, step: StepId, attempt: int) -> None:
        """Leave out an attempt of which nothing was sent: the gate was shut, or the cap was too near."""
        call = self._calls.pop(step, None)
        if call is None:
            return
        if call.torn_by is not None:  # the next attempt takes the place of the one before
            torn = call.torn_by.torn
            torn[step, attempt] = torn.pop((step, attempt - 1))

    def _torn(self, step: StepId, attempt: int, cost: float, *, free: bool = False) -> None:
        self._cost += cost
        call = self._calls.pop(step, None)
        if self._last is not None and self._last.recovered is None:
            is_model = call is None or call.begun.kind == "model"
            self._last.torn[step, attempt] = (is_model and not free, cost)

    # ---- questions

    def _asking(self, event: ev.AnyEvent, at: float) -> None:
        match event:
            case ev.AskOpened(ask=ask, reason=reason):
                self._asks[ask] = AskFacts(at, reason)
            case ev.AskAnswered(ask=ask):
                self._asked(ask, at, "answered")
                if self._rests_since is not None and not self._stands():
                    self._go_on(at)
            case ev.AskClosed(ask=ask, end=end):
                # Lifting the pause is an answer to the review that came with it.
                is_review = end == "superseded" and any(one.ask == ask for one in self._drafts)
                self._asked(ask, at, "answered" if is_review else end)
            case _:
                pass

    def _asked(self, ask: str, at: float, end: str) -> None:
        asked = self._asks.get(ask)
        if asked is None:
            return
        seconds = max(0.0, at - asked.at) if end == "answered" else None
        self._asks[ask] = AskFacts(asked.at, asked.reason, seconds, end)
        for draft in self._drafts[self._turn_from :]:
            if draft.ask == ask and draft.answered is None and seconds is not None:
                draft.answered = at

    # ---- facts

    @property
    def is_stopped_by_a_person(self) -> bool:
        """True if a person stepped in, labelled right: a policy may have missed it."""
        return any(self._labels.get(one.made.id) == "right" and one.made.is_by_person for one in self._drafts)

    @property
    def _worked(self) -> float:
        rested = self._rested + (max(0.0, self._at - self._rests_since) if self._rests_since is not None else 0.0)
        return max(0.0, self._at - self._started - rested)

    def facts(self, policy: Policy, history: CallHistory = NO_HISTORY) -> SessionFacts:
        """Return the facts known by now.

        ``policy`` has the limits of classes and the default price of a request, ``history`` the needs of the agent's
        earlier runs: a class that was not declared is the one that its last turn was watched as.
        """
        worked = self._worked
        predicted = class_of(history, policy.classes, worked - self._worked_before)
        return SessionFacts(
            id=self.id,
            agent=self._agent,
            task_class=self.terms.task_class or predicted,
            is_class_declared=self.terms.task_class is not None,
            policy=self.terms.policy,
            person=self._person,
            started=self._started,
            ended=self._ended,
            outcome=self._outcome,
            worked=worked,
            score=self._score,
            cost=self._cost,
            budget=self.terms.budget,
            interruptions=tuple(self._interruption(one, policy) for one in self._drafts),
            notices=tuple(
                msgspec.structs.replace(one, label=self._labels.get(one.id)) if one.id in self._labels else one
                for one in self._notices
            ),
            asked=tuple(self._asks.values()),
            outlived=tuple(dict.fromkeys(self._outlived)),
            tools=tuple(sorted(self._tools.values(), key=lambda one: one.name)),
            calls=self._finished,
            turns=self._turns,
            token_rates=tuple(self._rates),
            recoveries=tuple(self._recoveries.found),
            decisions=self._decisions,
            unseen=tuple(sorted(self._unseen)),
        )

    def _interruption(self, draft: _Draft, policy: Policy) -> Interruption:
        made, kind = draft.made, draft.made.kind
        lifted = draft.resumed if draft.resumed is not None else draft.over
        stops = kind in STOPS and kind != "cancel"
        is_over = draft.recovered is not None or draft.over is not None
        stood = draft.quiet if kind == "halt" else draft.stood
        return msgspec.structs.replace(
            made,
            save=None if stood is None else max(0.0, stood - draft.began),
            waited_for=tuple(draft.waited_for),
            wait=max(0.0, lifted - (draft.stood or draft.began)) if stops and lifted is not None else None,
            answer=None if draft.answered is None else draft.answered - draft.began,
            recovery=None
            if draft.recovered is None or draft.resumed is None
            else max(0.0, draft.recovered - draft.resumed),
            resolution=max(0.0, lifted - draft.began) if lifted is not None and stops else None,
            money=_money(draft, policy.restraint.worth.per_request, is_over=is_over),
            kilobytes=draft.saved / KILOBYTE if draft.saved else None,
            after=draft.after,
            outcome=draft.outcome,
            label=self._labels.get(made.id) or self._labels.get(draft.pause),
        )


def _size(value: Value) -> int:
    return 0 if value == NOTHING else value.size or len(bytes(value.raw))


def _money(draft: _Draft, per_request: float, *, is_over: bool) -> Money:
    """Return the costs. A model's request without a price has an unknown price; other calls cost what they report."""
    unknown = sum(is_model and not cost for is_model, cost in draft.torn.values())
    dollars = sum(cost for _, cost in draft.torn.values()) + unknown * per_request
    return Money(dollars, len(draft.torn), bool(unknown) or (bool(draft.torn) and not is_over))


def facts_of(
    session_id: SessionId, records: Iterable[ev.Recorded], policy: Policy, history: CallHistory = NO_HISTORY
) -> SessionFacts:
    reader = FactsReader(session_id)
    for record in records:
        reader.read(record)
    return reader.facts(policy, history)
