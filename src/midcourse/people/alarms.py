"""List the interventions over all sessions with their labels, and the batches in which people are notified."""

from collections.abc import Sequence
from typing import Final

from midcourse.core.events import Verdict
from midcourse.core.interventions import LabelFilter, LabelledAlarm, with_labels
from midcourse.core.tenants import tenant_of
from midcourse.policy.alarm_batches import Batch, batches
from midcourse.policy.artifact_shelf import due, read_artifacts
from midcourse.policy.artifacts import Artifact, by_due
from midcourse.policy.intervention_shelf import MOST, alarm_key, intervention_times, read_alarms, read_labels
from midcourse.policy.profiles import STANDARD
from midcourse.ports.store import Store

MOST_SHOWN: Final = 50
"""Batches of alarms that an inbox shows, and artifacts."""


async def interventions_in(
    store: Store,
    *,
    since: float | None,
    agent: str | None,
    label: LabelFilter | None,
    limit: int,
    tenant: str | None,
    before: str = "",
) -> Sequence[LabelledAlarm]:
    """Those since a time, of an agent, labelled so (``none``: not yet), newest first; ``before`` one of the shelf."""
    most = limit if agent is None and label is None else MOST
    labels: dict[tuple[str, str], Verdict] = {}
    labels |= {(one.session, one.about): one.verdict for one in await read_labels(store)}
    wanted = None if label == "none" else label
    found: list[LabelledAlarm] = []
    while len(found) < limit:
        alarms = await read_alarms(store, since=since or 0.0, limit=most, tenant=tenant, before=before)
        if not alarms:
            break
        before = alarm_key(alarms[0])
        found += [
            one
            for one in with_labels(reversed(alarms), labels)
            if agent in (None, one.agent) and (label is None or one.label == wanted)
        ]
    return found[:limit]


async def alarms_in_batches(
    store: Store,
    now: float,
    *,
    person: str | None,
    gather: float | None = None,
    tenant: str | None,
    artifacts: bool = True,
) -> Sequence[Batch]:
    """Interventions and (``artifacts``) what is due for review by ``now``, newest batch first.

    ``gather``: None is as long as the policy of each alarm wants it.
    """
    alarms = await read_alarms(store, tenant=tenant)
    if artifacts:
        alarms += due(await read_artifacts(store, tenant=tenant), now)
    seen = (one for one in alarms if person in (None, one.person) and tenant in (None, tenant_of(one.session)))
    alarms = sorted(seen, key=lambda one: one.at)
    if gather is not None:
        return batches(alarms, gather)[::-1]
    return batches(alarms, float(STANDARD.restraint.batch), await intervention_times(store, alarms))[::-1]


async def waiting_beside_asks(
    store: Store, now: float, *, tenant: str | None
) -> tuple[tuple[Batch, ...], tuple[Artifact, ...]]:
    """Return the newest alarms and the most urgent artifacts that are due, for an inbox to show below the asks."""
    alarms = await alarms_in_batches(store, now, person=None, tenant=tenant, artifacts=False)
    made = by_due(await read_artifacts(store, tenant=tenant), now, due=True, limit=MOST_SHOWN)
    return tuple(alarms[:MOST_SHOWN]), tuple(made)
