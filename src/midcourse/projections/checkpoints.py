"""The readable checkpoints: ``checkpoint:{session}`` as the session's journal tells, kept up to date in the background.

A thread of its own reads journals and writes; agents and controls only leave a name. Of many moves the latest state is
written, and never more often than every ``GAP`` seconds. While the board cannot be written to, nothing else notices.
"""

import asyncio
import contextlib
import logging
import threading
from typing import Final

from midcourse.core.codec import NOTHING
from midcourse.core.events import CheckpointTaken, SessionCompleted
from midcourse.core.ids import SessionId
from midcourse.core.session import Session
from midcourse.errors import MidcourseError, StoreUnavailable
from midcourse.ports.clock import Clock
from midcourse.ports.projection import ViewBoard
from midcourse.ports.store import Store
from midcourse.projections.document import Document
from midcourse.runtime.session_loader import content_of, read_events

log = logging.getLogger("midcourse")

GAP: Final = 0.1
"""Seconds between two writes for one session."""
FIRST_WAIT: Final = 0.25
LONGEST_WAIT: Final = 5.0
"""Seconds until a board that could not be written to is tried again: at first, and at most."""
LAST_MOMENT: Final = 2.0
"""Seconds that closing waits for what is not written yet."""


def key_of(session_id: SessionId) -> str:
    """Under which name people find the checkpoint of a session."""
    return f"checkpoint:{session_id}"


def seconds_kept(session: Session, now: float) -> float | None:
    """Return how long to keep the document: while its ask can be answered; else for the TTL; without a TTL for ever."""
    if session.terms.ttl_seconds is None:
        return None
    if not session.asks:
        return session.terms.ttl_seconds
    deadlines = [ask.expires_at for ask in session.asks]
    if None in deadlines:
        return None
    return max(1.0, max(deadline for deadline in deadlines if deadline is not None) - now)


class Checkpoints:
    """Write sessions to a board when they change."""

    def __init__(self, store: Store, clock: Clock, board: ViewBoard) -> None:
        self._store = store
        self._clock = clock
        self._board = board
        self._lock = threading.Lock()
        self._due: dict[SessionId, None] = {}
        self._left: set[SessionId] = set()
        self._anew: set[SessionId] = set()
        self._thread: threading.Thread | None = None
        self._closing = False
        # Of the thread alone:
        self._documents: dict[SessionId, Document] = {}
        self._rests_until: dict[SessionId, float] = {}
        self._wait = 0.0

    # ---- on any thread

    def moved(self, session_id: SessionId) -> None:
        """Note that the session's journal has durably grown, or that this process acquired it. Returns at once."""
        if session_id in self._due and session_id not in self._left:
            return
        with self._lock:
            self._left.discard(session_id)
            self._mark(session_id)

    def left(self, session_id: SessionId) -> None:
        """Write a session that has left this process once more, and forget it."""
        with self._lock:
            self._left.add(session_id)
            self._mark(session_id)

    def erased(self, session_id: SessionId) -> None:
        """Write the document of an erased session anew from what is left, and forget it."""
        with self._lock:
            self._anew.add(session_id)
            self._left.add(session_id)
            self._mark(session_id)

    def _mark(self, session_id: SessionId) -> None:
        if self._closing:
            return
        self._due[session_id] = None
        if self._thread is None:
            self._loop = asyncio.new_event_loop()
            self._stirred, self._ends = asyncio.Event(), asyncio.Event()
            self._thread = threading.Thread(target=self._run, name="midcourse-checkpoints", daemon=True)
            self._thread.start()
        with contextlib.suppress(RuntimeError):  # whatever became of that thread, the caller continues
            self._loop.call_soon_threadsafe(self._stirred.set)

    async def close(self) -> None:
        """Write what is not written yet, for a moment at most, and stop."""
        with self._lock:
            self._closing = True
            if self._thread is None:
                return
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._end)
        # Polled, not waited for in a thread: agents may have taken all threads that the loop lends.
        while self._thread.is_alive():  # noqa: ASYNC110
            await asyncio.sleep(0.002)

    # ---- on a thread of its own

    def _end(self) -> None:
        self._ends.set()
        self._stirred.set()
        self._loop.call_later(LAST_MOMENT, self._working.cancel)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._working = self._loop.create_task(self._work())
            self._loop.run_until_complete(self._until_it_ends())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _until_it_ends(self) -> None:
        await asyncio.wait({self._working})
        for session_id in self._due:
            log.warning(
                "checkpoint of session %s: its last state was not written to %s before this process closed; "
                "the next process with the session writes it.",
                session_id,
                self._board.name,
            )
        await self._board.close()

    async def _work(self) -> None:
        while not self._closing:
            self._stirred.clear()
            session_id, later = self._next()
            if session_id is None:
                await _until(self._stirred, later)
                continue
            began = self._loop.time()
            if await self._show(session_id):
                took = self._loop.time() - began
                if session_id in self._documents:
                    self._rests_until[session_id] = self._loop.time() + GAP
                await _until(self._ends, took)  # rests as long as it works: agents run beside it
            else:
                await _until(self._ends, self._wait)
        for session_id in list(self._due):
            del self._due[session_id]
            if not await self._show(session_id):
                return

    def _next(self) -> tuple[SessionId | None, float | None]:
        """Return a session that is due; or how long until one is."""
        now = self._loop.time()
        with self._lock:
            for session_id in self._due:
                if self._rests_until.get(session_id, 0.0) <= now:
                    del self._due[session_id]
                    return session_id, None
            soonest = min((self._rests_until[session_id] for session_id in self._due), default=None)
        return None, None if soonest is None else soonest - now

    async def _show(self, session_id: SessionId) -> bool:
        """Read and write one. False: the board cannot be written to, and the session is due again."""
        try:
            document = await self._read(session_id)
            session = document.session
            if session is None:
                return True
            kept = seconds_kept(session, self._clock.now())
            await self._board.put(key_of(session_id), document.content(), kept)
        except asyncio.CancelledError:
            self._due[session_id] = None
            raise
        except StoreUnavailable as error:
            self._put_back(session_id, error)
            return False
        except MidcourseError as error:
            self._forget(session_id)
            log.warning("checkpoint of session %s cannot be made: %s", session_id, error)
            return True
        except Exception:
            self._forget(session_id)
            log.exception("checkpoint of session %s: unexpected", session_id)
            return True
        if self._wait:
            self._wait = 0.0
            log.info("checkpoint of session %s: %s can be written to again.", session_id, self._board.name)
        await self._look_again(session_id, document)
        return True

    async def _read(self, session_id: SessionId) -> Document:
        """Return the document, with the journal's new events."""
        if session_id in self._anew:
            self._anew.discard(session_id)
            self._documents.pop(session_id, None)
        document = self._documents.setdefault(session_id, Document(session_id))
        while events := await read_events(self._store, session_id, document.position):
            for recorded in events:
                document.apply(recorded)
                event = recorded.event
                if isinstance(event, CheckpointTaken | SessionCompleted) and event.history != NOTHING:
                    document.gather(await content_of(self._store, event.history))
        return document

    async def _look_again(self, session_id: SessionId, document: Document) -> None:
        """Write again if a stopped writer may have overwritten this with an old document."""
        try:
            head = (await self._store.head(session_id)).head
        except MidcourseError:
            head = None
        with self._lock:
            if head is not None and head.position > document.position and not self._closing:
                self._due[session_id] = None
            elif session_id in self._left and session_id not in self._due:
                self._forget(session_id)

    def _forget(self, session_id: SessionId) -> None:
        self._left.discard(session_id)
        self._documents.pop(session_id, None)
        self._rests_until.pop(session_id, None)

    def _put_back(self, session_id: SessionId, error: StoreUnavailable) -> None:
        with self._lock:
            self._due[session_id] = None
        if not self._wait:
            log.warning(
                "checkpoint of session %s cannot be written: %s It is tried again until it can; the session "
                "continues, and nothing of it is lost.",
                session_id,
                error,
            )
        self._wait = min(LONGEST_WAIT, max(FIRST_WAIT, 2 * self._wait))


async def _until(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for the event, at most for ``seconds``."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


class Unconfigured:
    """Stands where a Redis would: says once that there is none."""

    def __init__(self) -> None:
        self._said = False

    def moved(self, session_id: SessionId) -> None:
        if not self._said:
            self._said = True
            log.warning(
                "checkpoint of session %s: its agent wants it to be readable in Redis (backend: redis), and no Redis "
                "is configured: give open(redis=…), or set MIDCOURSE_REDIS_URL. The session continues; its "
                "checkpoint is in the store alone. This is logged once.",
                session_id,
            )

    def left(self, session_id: SessionId) -> None:
        """Do nothing: there is nothing to forget."""

    def erased(self, session_id: SessionId) -> None:
        """Say that what stands in Redis, still stands there."""
        log.warning(
            "checkpoint of session %s: it was erased here, and no Redis is configured: its readable checkpoint is "
            "still there. Set MIDCOURSE_REDIS_URL and erase the session once more.",
            session_id,
        )

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
