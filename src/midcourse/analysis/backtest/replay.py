"""Replay one recorded run as a policy would have seen it live: its first interruption, and the savings.

Acts are shown one by one. Where the recording has a clock, the policy is also asked at each moment at which time alone
could have made it step in. Nothing counts after the first interruption: a recording cannot tell what the agent would
have done then.
"""

from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Protocol

import msgspec

from midcourse.analysis.backtest.recordings import Outcome, Recording
from midcourse.core.policy_decision import INTERRUPTS, Decision
from midcourse.core.terms import TaskClass
from midcourse.policy.run_activity import AnyAct, Begun, Called, Ended, Rested, WentOn


class Watching(Protocol):
    """The part of an oversight that a replay needs."""

    def see(self, act: AnyAct, /) -> Decision | None:
        """Return the decision after this act; None: nothing to do."""
        ...

    def look(self, now: float, /) -> Decision | None:
        """Return the decision at this time; None: nothing to do."""
        ...

    def due(self) -> float | None:
        """Return when to check next, if nothing happens before."""
        ...


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one run.

    ``stopped_at_step`` is the last row that happened; None: it was not interrupted. ``steps_saved``, ``minutes_saved``
    and ``dollars_saved`` came after it; None if not measured. ``warnings`` were sent to people before that.
    """

    run_id: str
    source: str
    task_key: str
    outcome: Outcome
    steps: int
    stopped_at_step: int | None = None
    level: str = ""
    decision: Decision | None = None
    warnings: int = 0
    steps_saved: int = 0
    minutes: float | None = None
    minutes_saved: float | None = None
    dollars: float | None = None
    dollars_saved: float | None = None
    decisive_step: int | None = None
    task_class: TaskClass | None = None

    @property
    def is_stopped(self) -> bool:
        return self.stopped_at_step is not None


def replay(recording: Recording, monitor: Watching, *, interrupts: AbstractSet[str] = INTERRUPTS) -> Verdict:
    """Show a run to an oversight that has seen nothing yet. Decisions of a level in ``interrupts`` end it."""
    see, look, due = monitor.see, monitor.look, monitor.due
    warnings = 0
    now: float | None = None
    idle = False
    for index, act in enumerate(recording.acts):
        at = act.at
        if at is not None:
            # Between two turns nothing runs that could be interrupted.
            next_look = None if idle else due()
            while next_look is not None and next_look < at:
                decision = look(next_look)
                if decision is not None:
                    if decision.level in interrupts:
                        return _stopped(recording, index, next_look, decision, warnings)
                    warnings += decision.level != "none"
                later = due()
                # It has nothing new to look for: asking again would never end.
                next_look = later if later is not None and later > next_look else None
            now = at
        decision = see(act)
        if decision is not None:
            if decision.level in interrupts:
                return _stopped(recording, index, now, decision, warnings)
            warnings += decision.level != "none"
        idle = isinstance(act, Ended) or (idle and not isinstance(act, Begun))
    return _verdict(recording, warnings)


def _verdict(recording: Recording, warnings: int) -> Verdict:
    return Verdict(
        run_id=recording.run_id,
        source=recording.source,
        task_key=recording.task_key,
        outcome=recording.outcome,
        steps=recording.count,
        warnings=warnings,
        minutes=None if recording.seconds is None else recording.seconds / 60,
        minutes_saved=None if recording.seconds is None else 0.0,
        dollars=recording.cost,
        dollars_saved=None if recording.cost is None else 0.0,
        decisive_step=recording.decisive_step,
        task_class=recording.task_class,
    )


def _stopped(recording: Recording, index: int, now: float | None, decision: Decision, warnings: int) -> Verdict:
    # What was in flight when time alone made it step in is let finish: that row has happened, too.
    step = recording.steps[index]
    seconds, dollars = _after(recording, index, now)
    return msgspec.structs.replace(
        _verdict(recording, warnings),
        stopped_at_step=step,
        level=decision.level,
        decision=decision,
        steps_saved=recording.count - step - 1,
        minutes_saved=None if recording.seconds is None else seconds / 60,
        dollars_saved=None if recording.cost is None else dollars,
    )


def _after(recording: Recording, index: int, now: float | None) -> tuple[float, float]:
    """Working seconds and dollars of a run after ``now``, when ``acts[index]`` was shown or was about to be."""
    seconds = dollars = 0.0
    rests = index > 0 and isinstance(recording.acts[index - 1], Ended | Rested)
    step = recording.steps[index]
    for act, of in zip(islice(recording.acts, index, None), islice(recording.steps, index, None), strict=True):
        if of > step and isinstance(act, Called) and act.cost is not None:
            dollars += act.cost
        if act.at is not None:
            if now is not None and not rests:
                seconds += max(0.0, act.at - now)
            now = act.at
        rests = isinstance(act, Ended | Rested) or (rests and not isinstance(act, Begun | WentOn))
    return seconds, dollars
