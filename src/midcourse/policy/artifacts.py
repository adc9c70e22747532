"""The artifacts that an agent reported, people's reviews of them, and when the next review is due. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from midcourse.errors import InvalidInput
from midcourse.policy.document import Artifacts

DOCUMENTATION_LIMIT: Final = 2000
"""Characters in which a person says what an artifact is."""
ARTIFACT_LIMIT: Final = 1000
"""Characters of the longest name of one that a person names."""


class ArtifactReported(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """An agent told that it made something; ``position`` is the event that tells so."""

    name: str
    session: str
    agent: str
    position: int
    made_at: float
    person: str = ""
    documentation: str = ""
    policy: str = ""


class Reviewed(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """A person's review, perhaps with documentation."""

    name: str
    session: str
    at: float
    by: str
    documentation: str = ""


class Artifact(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """One artifact of an agent, as it is now.

    ``position`` is the event that first reported it, ``documentation`` its description (may be empty), ``reviewed_at``
    the time of the last review, ``due_at`` that of the next one, in seconds since 1970.
    """

    name: str
    session: str
    agent: str
    position: int
    made_at: float
    due_at: float
    person: str = ""
    documentation: str = ""
    reviewed_at: float | None = None
    reviewed_by: str = ""

    def is_due(self, now: float) -> bool:
        return self.due_at <= now

    @property
    def sentence(self) -> str:
        """Why it is due for review."""
        if not self.documentation and self.reviewed_at is None:
            return f"'{self.name}' was made by {self.agent}, and nothing says what it is."
        return f"'{self.name}', made by {self.agent}, is due for review."


def by_due(artifacts: Iterable[Artifact], now: float, *, due: bool, limit: int) -> list[Artifact]:
    """Return the most urgent first; ``due``: only those that are due for review by now."""
    found = [one for one in artifacts if not due or one.is_due(now)]
    return sorted(found, key=due_order)[:limit]


def due_order(artifact: Artifact) -> tuple[float, str, int]:
    """Return how urgent a review of it is, to sort by."""
    return (artifact.due_at, artifact.session, artifact.position)


def check_reviewed(name: object, documentation: object) -> tuple[str, str]:
    """Return the name of an artifact and a person's documentation of it.

    Raises:
        InvalidInput: that is no name, or too much.
    """
    if not (isinstance(name, str) and 0 < len(name) <= ARTIFACT_LIMIT):
        raise InvalidInput(f"'name' is the artifact's, 1 to {ARTIFACT_LIMIT} characters.", field="name")
    if not (isinstance(documentation, str) and len(documentation) <= DOCUMENTATION_LIMIT):
        raise InvalidInput(
            f"'documentation' says what it is in at most {DOCUMENTATION_LIMIT:,} characters.", field="documentation"
        )
    return name, documentation.strip()


def gathered(
    told: Iterable[ArtifactReported], reviews: Iterable[Reviewed], rules: Mapping[str, Artifacts]
) -> list[Artifact]:
    """Return each artifact once, oldest first; ``rules`` tells for each policy when its own are due.

    Reported again by the same session, it stays the first one, with the newest documentation.
    """
    seen = {(one.session, one.name): one for one in reviews}
    found: dict[tuple[str, str], list[ArtifactReported]] = {}
    for one in sorted(told, key=lambda one: (one.made_at, one.session, one.position)):
        found.setdefault((one.session, one.name), []).append(one)
    return [_artifact(tellings, seen.get(key), rules) for key, tellings in found.items()]


def _artifact(tellings: list[ArtifactReported], review: Reviewed | None, rules: Mapping[str, Artifacts]) -> Artifact:
    first = tellings[0]
    said = [(one.made_at, one.documentation) for one in tellings if one.documentation]
    if review is not None and review.documentation:
        said.append((review.at, review.documentation))
    documentation = max(said, key=lambda one: one[0])[1] if said else ""
    rule = rules[first.policy]
    if review is not None:
        due_at = review.at + rule.review
    else:
        due_at = first.made_at + (rule.review if documentation or not rule.documented else 0.0)
    return Artifact(
        name=first.name,
        session=first.session,
        agent=first.agent,
        position=first.position,
        made_at=first.made_at,
        due_at=due_at,
        person=first.person,
        documentation=documentation,
        reviewed_at=None if review is None else review.at,
        reviewed_by="" if review is None else review.by,
    )
