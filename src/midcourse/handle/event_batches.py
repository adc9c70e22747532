"""The events of a session of an open store as they become durable, with previews of streamed text in between."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from midcourse.core.events import Recorded, SegmentWritten, SessionTaken
from midcourse.core.fold import damaged_journal
from midcourse.core.ids import Position, SessionId
from midcourse.core.missing_results import no_such_position
from midcourse.core.session import ENDED
from midcourse.ports.bus import Delta
from midcourse.runtime.control import Control
from midcourse.runtime.fanout import REMOTE_SECONDS
from midcourse.runtime.session_loader import read_events
from midcourse.runtime.worker import Worker

_LEAST_PATIENCE: Final = 0.25
_MOST_PATIENCE: Final = 2.0
"""Seconds between two reads of a watcher that no message woke: longer the longer nothing happens."""
_FIRST: Final = 8
"""Events that a watcher reads at first: more each time, as long as they are small."""
BATCH_BYTES: Final = 128 * 1024
"""About what a reader that has stopped reading holds in memory: its events are read so many bytes at a time."""


async def event_batches(
    control: Control,
    session_id: SessionId,
    *,
    after: Position,
    deltas: bool,
    follow: bool,
    limit: int = 1000,
    ends: Callable[[], bool] | None = None,
) -> AsyncGenerator[Sequence[Recorded | Delta]]:
    """Yield the events after a position, each once and in order: those that are there at once together.

    A batch has at most ``limit`` events, and not more bytes than one reader may hold. It ends with the session, unless
    it is to ``follow`` into later turns; or, once ``ends`` says so, behind what is journaled by then.
    """
    worker = control.worker
    end = (await worker.must_exist(session_id)).head.position
    if after > end:
        raise no_such_position(session_id, after, end)
    told = worker.clock.monotonic()
    opened = worker.clock.now()
    promised = Position(0)
    patience = _LEAST_PATIENCE
    wanted = min(limit, _FIRST)
    await control.listen_to_owner(session_id, deltas=deltas)
    with worker.fanout.watching(session_id, deltas=deltas) as watcher:
        while True:
            previews: list[Recorded | Delta] = []
            while watcher.deltas:
                previews.append(watcher.deltas.popleft())
            if previews:
                yield previews
            events = await read_events(worker.store, session_id, after, wanted, most_bytes=BATCH_BYTES)
            if events:
                after, patience = events[-1].position, _LEAST_PATIENCE
                wanted = min(limit, max(_FIRST, 2 * len(events)))
                _time_delivery(worker, events, opened)
                yield events
            if any(isinstance(event.event, SessionTaken) for event in events):
                await control.listen_to_owner(session_id, deltas=deltas)  # a new owner does not know its audience
            is_last = ends is not None and ends()  # before the read that shows whether there is more
            if events or watcher.deltas:
                continue
            if after < promised:  # head and rows are written together: the rows up to a head's position can be read
                raise damaged_journal(session_id, after + 1, f"rows are missing up to position {promised}")
            owned = await worker.store.head(session_id)
            promised = owned.head.position
            if after < promised:
                continue
            if is_last or (owned.head.status in ENDED and not follow):
                return
            if worker.clock.monotonic() - told > REMOTE_SECONDS / 3:
                told = worker.clock.monotonic()
                await control.listen_to_owner(session_id, deltas=deltas)
            # The driver of this process wakes its watchers; messages of other processes may be lost.
            is_here = worker.driver(session_id) is not None
            await watcher.wait(_MOST_PATIENCE if is_here else patience)
            patience = min(_MOST_PATIENCE, 1.5 * patience)


def _time_delivery(worker: Worker, events: Sequence[Recorded], opened: float) -> None:
    """Meter how long text took to get here. Text from before the stream was opened was not late."""
    now = worker.clock.now()
    for record in events:
        if isinstance(record.event, SegmentWritten) and record.at >= opened:
            worker.meter.delivered(max(0.0, now - record.at))
