"""List the artifacts of agents over all sessions: who made them, what they are, and when a review is due.

An artifact without documentation is due at once, and each one again some days after it was made or last reviewed: an
agent's leftovers are easily taken for a part of the world. One shelf holds the reports of sessions (by session and
position) and the reviews of people (``reviewed/``, by session and name).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from midcourse.core.audit import AuditEntry
from midcourse.core.events import ReportMade
from midcourse.core.ids import Position, SessionId
from midcourse.core.policy_decision import Alarm
from midcourse.core.session import Session
from midcourse.core.tenants import tenant_of
from midcourse.errors import InvalidInput, MidcourseError
from midcourse.policy.artifacts import Artifact, ArtifactReported, Reviewed, gathered
from midcourse.policy.document import Artifacts
from midcourse.policy.profiles import STANDARD
from midcourse.policy.versions import load as load_policy
from midcourse.ports.sender import check_people_send
from midcourse.ports.shelves import below
from midcourse.ports.store import Store

ARTIFACTS: Final = "artifacts"
_REVIEWED: Final = "reviewed"
_NAMELESS: Final = ("", "none")


def reported_artifact(session: Session, position: Position, at: float, report: ReportMade) -> ArtifactReported:
    """Return the record of a reported artifact."""
    return ArtifactReported(
        name=report.artifact,
        session=session.id,
        agent=session.agent,
        position=position,
        made_at=at,
        person=session.messages[0].by if session.messages else "",
        documentation=report.documentation,
        policy=session.terms.policy,
    )


def artifact_items(*tellings: ArtifactReported) -> dict[str, bytes]:
    """Return the items for the shelf."""
    return {f"{one.session}/{one.position:012d}": msgspec.json.encode(one) for one in tellings}


async def read_artifacts(store: Store, *, session: str | None = None, tenant: str | None = None) -> list[Artifact]:
    """Those of a session, of a tenant, or all of them, oldest first. Each policy says when its own are due.

    Raises:
        Damaged: one of them cannot be read.
    """
    told: list[ArtifactReported] = []
    reviews: list[Reviewed] = []
    for key, content in await store.shelved(ARTIFACTS, **below("" if session is None else f"{session}/")):
        whose, _, rest = key.partition("/")
        if tenant is not None and tenant_of(whose) != tenant:
            continue
        if rest.startswith(f"{_REVIEWED}/"):
            reviews.append(msgspec.json.decode(content, type=Reviewed))
        else:
            told.append(msgspec.json.decode(content, type=ArtifactReported))
    rules = {name: await _rule(store, name) for name in {one.policy for one in told}}
    return gathered(told, reviews, rules)


async def _rule(store: Store, policy: str) -> Artifacts:
    if policy in _NAMELESS:
        return STANDARD.artifacts
    try:
        return (await load_policy(store, policy)).artifacts
    except MidcourseError:  # it cannot be read now: what was made must come up all the same
        return STANDARD.artifacts


async def reviewed(
    store: Store, session: str, name: str, *, by: str, now: float, documentation: str = "", role: str = ""
) -> Artifact:
    """Record a person's review, with documentation if given: the artifact is due again later.

    Raises:
        InvalidInput: ``artifact_not_found``: no agent has reported such an artifact.
    """
    await check_people_send(store, "review what it made")
    known = {one.name: one for one in await read_artifacts(store, session=session)}.get(name)
    if known is None:
        raise InvalidInput(
            f"Session '{session}' has reported no artifact '{name[:200]}'. `midcourse artifact list` lists them.",
            code="artifact_not_found",
            field="name",
        )
    said = Reviewed(name=name, session=session, at=now, by=by, documentation=documentation or known.documentation)
    entry = AuditEntry(
        session=SessionId(session), by=by, role=role, action="artifact.reviewed", detail=name, at=now, tenant=""
    )
    key = f"{session}/{_REVIEWED}/{name}"
    await store.shelve(ARTIFACTS, {key: msgspec.json.encode(said)}, audit=(entry,))
    return {one.name: one for one in await read_artifacts(store, session=session)}[name]


def due(artifacts: Iterable[Artifact], now: float) -> list[Alarm]:
    """Return the artifacts that are due for review by now, as alarms."""
    return [
        Alarm(
            at=artifact.due_at,
            session=artifact.session,
            intervention="",
            agent=artifact.agent,
            person=artifact.person,
            by=f"session:{artifact.session}",
            signals=("artifact",),
            sentence=artifact.sentence,
        )
        for artifact in artifacts
        if artifact.is_due(now)
    ]
