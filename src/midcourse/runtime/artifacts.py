"""What agents made themselves, over all sessions: who made it, what it is, and when somebody should look at it.

An artifact that nobody has documented comes up at once, and each one again some days after it was made or last looked
at: what an agent leaves behind is easily taken for a part of the world.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from midcourse.core.events import Recorded, ReportMade
from midcourse.core.policy.document import Artifacts
from midcourse.core.policy.restraint import Alarm
from midcourse.core.session import Session
from midcourse.errors import InvalidInput
from midcourse.ports.store import Store

_ARTIFACTS: Final = "artifacts"


class Artifact(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One thing an agent made. ``position`` is the event that told of it, ``reviewed_at`` when somebody last looked."""

    name: str
    session: str
    agent: str
    position: int
    made_at: float
    person: str = ""
    documentation: str = ""
    reviewed_at: float | None = None
    reviewed_by: str = ""

    def due_at(self, rule: Artifacts) -> float:
        """When it comes up for review."""
        if rule.documented and not self.documentation and self.reviewed_at is None:
            return self.made_at
        return (self.reviewed_at or self.made_at) + rule.review


def artifact_of(session: Session, record: Recorded) -> Artifact | None:
    """What an event tells of something that was made; None if it tells of nothing."""
    event = record.event
    if not isinstance(event, ReportMade) or not event.artifact:
        return None
    return Artifact(
        name=event.artifact,
        session=session.id,
        agent=session.agent,
        position=record.position,
        made_at=record.at,
        person=session.messages[0].by if session.messages else "",
        documentation=event.documentation,
    )


async def keep_artifact(store: Store, artifact: Artifact) -> None:
    """Keep it. Told of again by the same session, it stays the one that was made first, with what is known by now."""
    key = f"{artifact.session}/{artifact.name}"
    known = await _read(store, key)
    if known is not None:
        documentation = artifact.documentation or known.documentation
        artifact = msgspec.structs.replace(known, documentation=documentation)
    await store.shelve(_ARTIFACTS, {key: msgspec.json.encode(artifact)})


async def read_artifacts(store: Store) -> list[Artifact]:
    """All of them, by session and name."""
    return [msgspec.json.decode(content, type=Artifact) for _, content in await store.shelved(_ARTIFACTS)]


async def reviewed(store: Store, session: str, name: str, *, by: str, now: float) -> Artifact:
    """Somebody has looked at it: it comes up again later.

    Raises:
        InvalidInput: no agent has told of such an artifact.
    """
    key = f"{session}/{name}"
    known = await _read(store, key)
    if known is None:
        raise InvalidInput(
            f"Session '{session}' has told of no artifact '{name}'. `midcourse artifacts` lists them.",
            code="artifact_not_found",
            field="name",
        )
    known = msgspec.structs.replace(known, reviewed_at=now, reviewed_by=by)
    await store.shelve(_ARTIFACTS, {key: msgspec.json.encode(known)})
    return known


def due(artifacts: Iterable[Artifact], rule: Artifacts, now: float) -> list[Alarm]:
    """Those that somebody should look at by now, as people are told of them."""
    return [
        Alarm(
            at=artifact.due_at(rule),
            session=artifact.session,
            intervention="",
            agent=artifact.agent,
            person=artifact.person,
            by=f"session:{artifact.session}",
            signals=("artifact",),
            sentence=_sentence(artifact),
        )
        for artifact in artifacts
        if artifact.due_at(rule) <= now
    ]


def _sentence(artifact: Artifact) -> str:
    if not artifact.documentation and artifact.reviewed_at is None:
        return f"'{artifact.name}' was made by {artifact.agent}, and nothing says what it is."
    return f"'{artifact.name}', made by {artifact.agent}, is due for review."


async def _read(store: Store, key: str) -> Artifact | None:
    rows = await store.shelved(_ARTIFACTS, first=key, last=key)
    return msgspec.json.decode(rows[0][1], type=Artifact) if rows else None
