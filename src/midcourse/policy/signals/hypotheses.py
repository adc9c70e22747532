"""The agent's hypothesis, its age, and the agent's artifacts."""

from typing import Final

import msgspec

MOST: Final = 1000
"""Artifacts that are followed."""


class MadeArtifact(msgspec.Struct, gc=False):
    """Something the agent made: at which step, and at which step it was used later."""

    name: str
    step: int
    used_at: int | None = None


class MadeArtifacts:
    """The agent's own artifacts. Later calls that use them use its own work as if it were the world's."""

    def __init__(self) -> None:
        self.made: dict[str, MadeArtifact] = {}
        self.used = 0

    def add(self, name: str, step: int) -> None:
        if len(self.made) < MOST:
            self.made.setdefault(name, MadeArtifact(name, step))

    def touched(self, resources: tuple[str, ...], step: int) -> None:
        """Note the resources of a call."""
        for resource in resources:
            artifact = self.made.get(resource)
            if artifact is not None and artifact.used_at is None:
                artifact.used_at = step
                self.used += 1


class Hypothesis:
    """The working hypothesis and when it was last changed, in working seconds of the turn."""

    def __init__(self) -> None:
        self.text = ""
        self._changed_at: float | None = None

    def state(self, text: str, elapsed: float | None) -> None:
        """Set the hypothesis. The same one in other words changes it; the same words do not."""
        if text and text != self.text:
            self.text = text
            self._changed_at = elapsed

    def age(self, elapsed: float | None) -> float | None:
        """Return its age in seconds; None without a hypothesis or a clock."""
        return None if elapsed is None or self._changed_at is None else elapsed - self._changed_at
