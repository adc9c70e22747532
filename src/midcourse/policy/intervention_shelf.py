"""Interventions and their labels over all sessions: two shelves that list what each journal tells of one.

The append that journals it lists it, too (``runtime/shelf_index.py``): a list never lacks what a journal has.
"""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from midcourse.core.commands import BY_POLICY
from midcourse.core.events import InterventionLabelled, InterventionMade, Verdict
from midcourse.core.policy_decision import INTERRUPTS, Alarm
from midcourse.core.session import Session
from midcourse.core.tenants import tenant_of
from midcourse.errors import Damaged, InvalidInput
from midcourse.policy.restraint import JudgedIntervention
from midcourse.policy.versions import load as load_policy
from midcourse.ports.shelves import decoded, readable
from midcourse.ports.store import Store

INTERVENTIONS: Final = "interventions"
LABELS: Final = "labels"
MOST: Final = 20_000
"""The number of interventions whose labels are read: the newest."""


class LabelRecord(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """A person's label of an intervention, a pause or a redirect."""

    at: float
    session: str
    about: str
    verdict: Verdict
    by: str
    agent: str = ""
    note: str = ""


def alarm_of(session: Session, at: float, made: InterventionMade) -> Alarm:
    """Return an intervention in the form of lists over many sessions."""
    decision = made.decision
    signals = tuple(reason.signal for reason in decision.reasons)
    return Alarm(
        at=at,
        session=session.id,
        intervention=made.intervention,
        agent=session.agent,
        person=session.messages[0].by if session.messages else "",
        by=made.by,
        level=decision.level,
        signals=signals or ((decision.question,) if decision.question else ()),
        sentence=decision.sentence,
        ask=made.ask or "",
        held=not decision.interrupts and decision.wanted in INTERRUPTS,
        wish=decision.is_wish,
    )


def alarm_items(alarms: Iterable[Alarm]) -> dict[str, bytes]:
    """As they lie on the shelf, in the order of their time."""
    return {alarm_key(one): msgspec.json.encode(one) for one in alarms}


def alarm_key(alarm: Alarm) -> str:
    """Return its place on the shelf."""
    return f"{_key(alarm.at)}/{alarm.session}/{alarm.intervention}"


def label_of(session: Session, at: float, said: InterventionLabelled) -> LabelRecord:
    """Return a label in the form of lists over many sessions."""
    return LabelRecord(
        at=at,
        session=session.id,
        about=said.about,
        verdict=said.verdict,
        by=said.by,
        agent=session.agent,
        note=said.note,
    )


def label_items(label: LabelRecord) -> dict[str, bytes]:
    """Return the item for the shelf, in place of an earlier one."""
    return {f"{label.session}/{label.about}": msgspec.json.encode(label)}


async def read_alarms(
    store: Store, *, since: float = 0.0, limit: int = MOST, tenant: str | None = None, before: str = ""
) -> list[Alarm]:
    """Interventions since a time, oldest first: the newest ``limit`` of them, of a tenant, or of all (None).

    ``before``: of those that stand before this place on the shelf.

    What cannot be read is left out: the journals have it, and ``midcourse doctor`` names it.
    """
    try:
        rows = await _alarm_rows(store, since, limit, tenant, before)
    except Damaged:
        whole, _ = await readable(store, INTERVENTIONS, first=_key(since), last=before)
        rows = [row for row in whole if tenant in (None, _tenant_in(row[0])) and row[0] != before][-limit:]
    return [alarm for _, content in rows if (alarm := decoded(content, Alarm)) is not None]


async def intervention_times(store: Store, alarms: Iterable[Alarm]) -> dict[str, float]:
    """Return for each policy that notified people how long it gathers such alarms.

    A version never changes, so that a batch is always the same.
    """
    found: dict[str, float] = {}
    for by in {one.by for one in alarms if one.level == "notify" and one.by.startswith(BY_POLICY)}:
        with contextlib.suppress(InvalidInput, Damaged):  # its text is gone
            found[by] = float((await load_policy(store, by.removeprefix(BY_POLICY))).restraint.batch)
    return found


async def _alarm_rows(
    store: Store, since: float, limit: int, tenant: str | None, before: str
) -> Sequence[tuple[str, bytes]]:
    first = _key(since)
    if tenant is None:
        rows = await store.shelved(INTERVENTIONS, first=first, last=before, newest=True, limit=limit + 1)
        return [row for row in rows if row[0] != before][limit - 1 :: -1]
    keys = await store.shelf_keys(INTERVENTIONS, first=first, last=before)
    own = [key for key in keys if _tenant_in(key) == tenant and key != before]
    return [row for key in own[-limit:] for row in await store.shelved(INTERVENTIONS, first=key, last=key)]


def _tenant_in(key: str) -> str:
    return tenant_of(key.partition("/")[2])


async def count_alarms(store: Store, *, since: float) -> int:
    """Return how many interventions there were since a time."""
    return len(await store.shelf_keys(INTERVENTIONS, first=_key(since)))


async def read_labels(store: Store) -> list[LabelRecord]:
    """Return the newest label of each intervention that has one."""
    whole, _ = await readable(store, LABELS)
    return [label for _, content in whole if (label := decoded(content, LabelRecord)) is not None]


def judged_by_agent(
    alarms: Iterable[Alarm], labels: Sequence[LabelRecord]
) -> dict[tuple[str, str], list[JudgedIntervention]]:
    """Return, for each tenant's agent, the labelled interventions that the false-positive rate counts."""
    made = {(one.session, one.intervention): one for one in alarms if one.is_judged}
    found: dict[tuple[str, str], list[JudgedIntervention]] = {}
    for label in labels:
        alarm = made.get((label.session, label.about))
        if alarm is not None and label.verdict != "unsure":
            judged = JudgedIntervention(label.at, alarm.by, alarm.signals, label.verdict == "wrong")
            found.setdefault((tenant_of(label.session), label.agent), []).append(judged)
    return found


def _key(at: float) -> str:
    return f"{int(at * 1000):015d}"
