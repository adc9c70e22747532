"""Interventions and their labels over all sessions: two shelves that list what each journal tells of one.

The journals are the truth. What a crash kept from the shelves is put there when the session is next watched.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from midcourse.core.events import InterventionLabelled, InterventionMade, Recorded, Verdict
from midcourse.core.policy.restraint import Alarm
from midcourse.core.session import Session
from midcourse.core.tenants import tenant_of
from midcourse.ports.store import Store

_INTERVENTIONS: Final = "interventions"
_LABELS: Final = "labels"
MOST: Final = 20_000
"""Interventions that are looked at for what people said of them: the newest."""


class Labelled(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody says of an intervention, a pause or a redirect."""

    at: float
    session: str
    about: str
    verdict: Verdict
    by: str
    agent: str = ""
    note: str = ""


def alarm_of(session: Session, at: float, made: InterventionMade) -> Alarm:
    """An intervention as lists over many sessions have it."""
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
    )


async def keep_alarms(store: Store, alarms: Iterable[Alarm]) -> None:
    """List them; again, if need be."""
    items = {f"{_key(one.at)}/{one.session}/{one.intervention}": msgspec.json.encode(one) for one in alarms}
    if items:
        await store.shelve(_INTERVENTIONS, items)


async def keep_label(store: Store, session: Session, record: Recorded) -> None:
    """List a label in place of an earlier one."""
    event = record.event
    assert isinstance(event, InterventionLabelled)
    label = Labelled(
        at=record.at,
        session=session.id,
        about=event.about,
        verdict=event.verdict,
        by=event.by,
        agent=session.agent,
        note=event.note,
    )
    await store.shelve(_LABELS, {f"{session.id}/{event.about}": msgspec.json.encode(label)})


async def read_alarms(store: Store, *, since: float = 0.0, limit: int = MOST, tenant: str | None = None) -> list[Alarm]:
    """Interventions since a time, oldest first: the newest ``limit`` of them, of a tenant, or of all (None)."""
    if tenant is None:
        rows = await store.shelved(_INTERVENTIONS, first=_key(since), newest=True, limit=limit)
    else:
        keys = await store.shelf_keys(_INTERVENTIONS, first=_key(since))
        own = [key for key in keys if tenant_of(key.partition("/")[2]) == tenant][-limit:]
        rows = [row for key in reversed(own) for row in await store.shelved(_INTERVENTIONS, first=key, last=key)]
    return [msgspec.json.decode(content, type=Alarm) for _, content in reversed(rows)]


async def count_alarms(store: Store, *, since: float) -> int:
    """How many interventions there were since a time."""
    return len(await store.shelf_keys(_INTERVENTIONS, first=_key(since)))


async def read_labels(store: Store) -> list[Labelled]:
    """The last word about each intervention that anybody has said something of."""
    return [msgspec.json.decode(content, type=Labelled) for _, content in await store.shelved(_LABELS)]


def wrong_by_agent(
    alarms: Iterable[Alarm], labels: Sequence[Labelled]
) -> dict[tuple[str, str], dict[str, tuple[int, int]]]:
    """For each tenant's agent and signal, how many interventions were wrong, of how many that were called anything."""
    signals = {(one.session, one.intervention): one.signals for one in alarms}
    counts: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for label in labels:
        if label.verdict == "unsure":
            continue
        of_agent = counts.setdefault((tenant_of(label.session), label.agent), {})
        for signal in signals.get((label.session, label.about), ()):
            wrong, labelled = of_agent.get(signal, (0, 0))
            of_agent[signal] = (wrong + (label.verdict == "wrong"), labelled + 1)
    return counts


def _key(at: float) -> str:
    return f"{int(at * 1000):015d}"
