"""Interventions: how a policy, or the agent itself, steps in, what people say of that, and lists of both. Pure."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.asks import CANCEL, GO_ON
from midcourse.core.events import InterventionLabelled, InterventionMade, Recorded, Verdict
from midcourse.core.hypothesis import asked_by
from midcourse.core.ids import (
    REVIEW,
    AskId,
    InterventionId,
    PauseId,
    ask_id,
    intervention_id,
    message_id,
    pause_id,
    review_id,
    was_given,
)
from midcourse.core.pauses import pause_now
from midcourse.core.policy_decision import Alarm, Level, Reason, Unseen, Worth
from midcourse.core.request_checks import check_limit
from midcourse.core.rules import Arm, Changes, Events, Table, changes_nothing, refusal
from midcourse.core.session import ENDED, LIVE, Session, Status
from midcourse.errors import ImpossibleEvent, InvalidInput, Refused

LabelFilter = Literal[Verdict, "none"]
"""Interventions with this label; ``none``: those without a label."""
EXPLAIN: Final = "Before you go on, explain your plan: what is left to do, and why it serves the goal."
"""A policy's message to an agent before it would pause it."""
LONGEST_GATHER: Final = 7 * 86_400.0
"""Seconds for which alarms may be gathered, at most."""
LATEST: Final = 1e11
"""A time in the far future, in seconds since 1970."""


class Intervention(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One time that a policy, or the agent itself, stepped in or told people of something.

    ``sentence`` says why, ``arithmetic`` shows how that came about. ``held`` is what made it less than ``wanted``,
    ``unseen`` what could not be measured, ``pause`` and ``ask`` what it led to, ``label`` the last word about it.
    """

    id: InterventionId
    at: float
    by: str
    level: Level
    wanted: Level
    policy: str
    sentence: str
    arithmetic: str
    reasons: tuple[Reason, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    held: tuple[str, ...] = ()
    worth: Worth | None = None
    question: str = ""
    pause: PauseId | None = None
    ask: AskId | None = None
    label: Verdict | None = None
    note: str = ""


class LabelledAlarm(Alarm, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """An intervention in a list over many sessions, with the last word about it."""

    label: Verdict | None = None


class Interventions:
    """The interventions of one session, from its journal."""

    def __init__(self) -> None:
        self._made: dict[str, Intervention] = {}

    def apply(self, record: Recorded) -> None:
        match record.event:
            case InterventionMade() as made:
                self._made[made.intervention] = _intervention(record.at, made)
            case InterventionLabelled(about=about, verdict=verdict, note=note) if about in self._made:
                self._made[about] = replace(self._made[about], label=verdict, note=note)
            case _:
                pass

    @property
    def all(self) -> list[Intervention]:
        """All of them, oldest first."""
        return list(self._made.values())


def _intervention(at: float, made: InterventionMade) -> Intervention:
    decision = made.decision
    return Intervention(
        id=made.intervention,
        at=at,
        by=made.by,
        level=decision.level,
        wanted=decision.wanted,
        policy=decision.policy,
        sentence=decision.sentence,
        arithmetic=decision.arithmetic,
        reasons=decision.reasons,
        unseen=decision.unseen,
        held=decision.held,
        worth=decision.worth,
        question=decision.question,
        pause=made.pause,
        ask=made.ask,
    )


def interventions_of(records: Iterable[Recorded]) -> list[Intervention]:
    """Return the interventions in ``records``, oldest first."""
    found = Interventions()
    for record in records:
        found.apply(record)
    return found.all


def with_labels(alarms: Iterable[Alarm], labels: Mapping[tuple[str, str], Verdict]) -> list[LabelledAlarm]:
    """Return the alarms with the last label of each; ``labels`` are by session and intervention."""
    return [
        LabelledAlarm(**msgspec.structs.asdict(one), label=labels.get((one.session, one.intervention)))
        for one in alarms
    ]


def check_interventions(since: float | None, label: str | None, limit: int) -> None:
    """Check a request for interventions, and how many.

    Raises:
        InvalidInput: that is no time, no label, or the limit is not from 1 to 1000.
    """
    check_limit(limit)
    _check_seconds(since, "since", "a time, in seconds since 1970", LATEST)
    known = (*get_args(Verdict), "none")
    if label is not None and label not in known:
        raise InvalidInput(f"label is {label!r}; it is one of {', '.join(known)}.", field="label")


def check_alarms(gather: float | None, limit: int) -> None:
    """Check how long alarms are gathered, and how many batches are listed.

    Raises:
        InvalidInput: it is no such length of time, or the limit is not from 1 to 1000.
    """
    check_limit(limit)
    _check_seconds(gather, "gather", "a number of seconds", LONGEST_GATHER)


def _check_seconds(value: object, field: str, what: str, most: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not (isfinite(value) and 0 <= value <= most):
        raise InvalidInput(f"{field} is {value!r}; it is {what}, from 0 to {most:.0f}.", field=field)


# ---- rules


def _intervene(session: Session, command: cmd.Intervene) -> Events:
    """Let a policy step in on a working session; one that has stopped by now needs no second stop."""
    decision = command.decision
    name = intervention_id(session.interventions + 1)
    made = InterventionMade(intervention=name, by=command.by, decision=decision)
    if decision.level == "notify":
        return (made,)
    if session.status not in (Status.QUEUED, Status.RUNNING, Status.WAITING) or decision.level == "none":
        return ()
    if decision.level == "ask_plan":
        # To ask now would supersede what people are being asked: they are looking already.
        if session.asks:
            return ()
        text = f"{decision.sentence} {EXPLAIN}"
        return (made, ev.SessionRedirected(text=text, level="clarify", by=command.by))
    asked = ev.AskOpened(
        ask=ask_id(session.asks_opened + 1),
        step=review_id(session.scope, str(session.interventions + 1)),
        reason=decision.question or REVIEW,
        prompt=decision.sentence,
        options=(GO_ON, CANCEL),
    )
    grace = 0.0 if decision.level == "stop" else None
    pause = cmd.Pause(id=command.id, by=command.by, reason=decision.sentence, grace=grace)
    made = replace(made, ask=asked.ask, pause=pause_id(session.pauses + 1))
    return (made, asked, *pause_now(session, pause))


def _label(session: Session, command: cmd.Label) -> Events:
    known = (
        (intervention_id, session.interventions),
        (pause_id, session.pauses),
        (message_id, len(session.messages)),
    )
    if not any(was_given(command.about, named, count) for named, count in known):
        why = f"there was never an intervention '{command.about}'; there were {session.interventions}"
        raise Refused(why, code="intervention_not_found")
    return (InterventionLabelled(about=command.about, verdict=command.verdict, by=command.by, note=command.note),)


def _rate(_session: Session, command: cmd.Rate) -> Events:
    return (ev.SessionRated(score=command.score, by=command.by, note=command.note),)


_not_before_it_ends = refusal("not_allowed", "it is {status}; rate it once it has ended")
TABLE: Final[Table] = {
    cmd.Intervene: {**dict.fromkeys(LIVE, _intervene), **dict.fromkeys(ENDED, changes_nothing)},
    cmd.Label: dict.fromkeys(Status, _label),
    cmd.Rate: {**dict.fromkeys(LIVE, _not_before_it_ends), **dict.fromkeys(ENDED, _rate)},
}


# ---- what an event changes


def _stepped_in(session: Session, event: InterventionMade, _at: float) -> Changes:
    expected = intervention_id(session.interventions + 1)
    if event.intervention != expected:
        raise ImpossibleEvent(f"the next intervention is '{expected}', not '{event.intervention}'")
    changes: Changes = {"interventions": session.interventions + 1}
    asked = "" if session.hypothesis else asked_by(event.decision)
    return {**changes, "unstated": asked} if asked else changes


def _labelled(session: Session, event: InterventionLabelled, _at: float) -> Changes:
    return {"labels": {**session.labels, event.about: event.verdict}}


ARMS: Final[Mapping[type[ev.Event], Arm]] = {
    InterventionMade: _stepped_in,
    InterventionLabelled: _labelled,
    ev.SessionRated: lambda _session, event, _at: {"score": event.score},
}
