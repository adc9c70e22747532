"""What policies, and agents themselves, have stepped in with: as one session's journal tells it, and in lists. Pure."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Final, Literal, get_args

import msgspec

from midcourse.core.events import InterventionLabelled, InterventionMade, Recorded, Verdict
from midcourse.core.ids import AskId, InterventionId, PauseId
from midcourse.core.policy.decisions import Level, Reason, Unseen, Worth
from midcourse.core.policy.restraint import Alarm
from midcourse.core.requests import check_limit
from midcourse.errors import InvalidInput

LabelFilter = Literal[Verdict, "none"]
"""Interventions that were labelled so; ``none``: those of which nobody has said anything."""
LONGEST_GATHER: Final = 7 * 86_400.0
"""Seconds for which alarms may be gathered, at most."""
LATEST: Final = 1e11
"""A time that nobody will see, in seconds since 1970."""


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
        """One record more."""
        match record.event:
            case InterventionMade() as made:
                self._made[made.intervention] = _intervention(record.at, made)
            case InterventionLabelled(about=about, verdict=verdict, note=note) if about in self._made:
                self._made[about] = msgspec.structs.replace(self._made[about], label=verdict, note=note)
            case _:
                pass

    @property
    def all(self) -> list[Intervention]:
        """As they were made, oldest first."""
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
    """The interventions that ``records`` tell of, oldest first."""
    found = Interventions()
    for record in records:
        found.apply(record)
    return found.all


def with_labels(alarms: Iterable[Alarm], labels: Mapping[tuple[str, str], Verdict]) -> list[LabelledAlarm]:
    """The same, with what was last said of each; ``labels`` are by session and intervention."""
    return [
        LabelledAlarm(**msgspec.structs.asdict(one), label=labels.get((one.session, one.intervention)))
        for one in alarms
    ]


def check_interventions(since: float | None, label: str | None, limit: int) -> None:
    """Which interventions are to be listed, and how many.

    Raises:
        InvalidInput: that is no time, no label, or the limit is not from 1 to 1000.
    """
    check_limit(limit)
    _check_seconds(since, "since", "a time, in seconds since 1970", LATEST)
    known = (*get_args(Verdict), "none")
    if label is not None and label not in known:
        raise InvalidInput(f"label is {label!r}; it is one of {', '.join(known)}.", field="label")


def check_alarms(gather: float | None, limit: int) -> None:
    """For how long alarms are gathered, and how many batches are to be listed.

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
