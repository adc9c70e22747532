"""The runs that a store has recorded, read one after the other, newest first, as long as there is time for it."""

from dataclasses import dataclass
from typing import Final

import msgspec

from midcourse.analysis.backtest import Recording, recording_of
from midcourse.core.ids import SessionId
from midcourse.errors import Damaged, SessionNotFound
from midcourse.ports.clock import Clock
from midcourse.ports.store import HeadQuery, Store, every_head
from midcourse.runtime.session_loader import every_event

USUAL: Final = 500
"""The default number of runs."""
MOST: Final = 2_000
"""The most runs."""
READING: Final = 20.0
"""Seconds that sessions are read for; what is older is left out, and that is said."""


@dataclass
class Going:
    """The progress of a trial."""

    phase: str = "waiting"
    done: int = 0
    of: int | None = None

    def begin(self, phase: str, of: int | None = None) -> None:
        self.phase, self.done, self.of = phase, 0, of

    def step(self) -> None:
        self.done += 1


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded runs, newest first, when the oldest and the newest began, and what was left out."""

    recordings: tuple[Recording, ...]
    since: float | None
    until: float | None
    notes: tuple[str, ...]


async def read_runs(
    store: Store,
    clock: Clock,
    going: Going,
    *,
    tenant: str | None = None,
    since: float = 0.0,
    most: int = USUAL,
    seconds: float = READING,
) -> Runs:
    """Return a store's newest runs with a finished call, of a tenant (None: of all), that began since a time."""
    going.begin("reading")
    found: list[Recording] = []
    began: list[float] = []
    notes: list[str] = []
    idle, damaged, until = 0, list[SessionId](), clock.monotonic() + seconds
    async for head in every_head(store, HeadQuery(tenant=tenant)):
        if head.created_at < since:
            break
        if len(found) >= most:
            notes.append(f"Only the newest {most:,} runs were tried.")
            break
        if clock.monotonic() > until:
            notes.append(f"Reading took longer than {seconds:g} s: only the newest {len(found):,} runs were tried.")
            break
        try:
            recording = recording_of([one async for one in every_event(store, head.id)], run_id=head.id)
        except Damaged:
            damaged.append(head.id)
            continue
        except SessionNotFound:  # erased since it was listed
            continue
        if recording is None:
            idle += 1
            continue
        found.append(recording)
        began.append(head.created_at)
        going.step()
    if idle:
        whose = "1 session has" if idle == 1 else f"{idle:,} sessions have"
        left_out = "is left out" if idle == 1 else "are left out"
        notes.append(f"{whose} no call that has ended, of a model or a tool, and {left_out}.")
    if damaged:
        whose = (
            "1 session cannot be read, and is"
            if len(damaged) == 1
            else f"{len(damaged):,} sessions cannot be read, and are"
        )
        notes.append(f"{whose} left out: {', '.join(damaged[:5])}.")
    return Runs(
        recordings=tuple(found),
        since=min(began, default=None),
        until=max(began, default=None),
        notes=tuple(notes),
    )
