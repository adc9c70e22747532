"""Put the entries of lists over many sessions on shelves, in the append that journals them: none can be missing."""

from collections.abc import Mapping
from typing import Final

from midcourse.core.events import AnyEvent, InterventionLabelled, InterventionMade, Recorded, ReportMade
from midcourse.core.session import Session
from midcourse.policy.artifact_shelf import ARTIFACTS, artifact_items, reported_artifact
from midcourse.policy.intervention_shelf import INTERVENTIONS, LABELS, alarm_items, alarm_of, label_items, label_of

_LISTED: Final = (InterventionMade, InterventionLabelled, ReportMade)


def is_listed(event: AnyEvent) -> bool:
    """Return True if an event may have a place in a list. Called for every event there is."""
    return isinstance(event, _LISTED)


def listed(session: Session, record: Recorded) -> tuple[str, Mapping[str, bytes]] | None:
    """Return the shelf on which an event is listed, and the item; None if it is in no list."""
    match record.event:
        case InterventionMade() as made:
            return INTERVENTIONS, alarm_items([alarm_of(session, record.at, made)])
        case InterventionLabelled() as said:
            return LABELS, label_items(label_of(session, record.at, said))
        case ReportMade() as report if report.artifact:
            return ARTIFACTS, artifact_items(reported_artifact(session, record.position, record.at, report))
        case _:
            return None
