"""One owned session: its fold, and the order in which its events become durable.

The fold runs ahead of the disk: an event counts in memory when it is appended, and is durable when the append's
awaitable resolves. What the world may see (a call that begins, a control's answer, a watcher's event) waits for that.
If a write fails the session is broken: nothing more is appended, and the owner stops.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from midcourse.core.asks import NEED_APPROVAL, CallForApproval, wanted_by
from midcourse.core.audit import AuditEntry
from midcourse.core.codec import Blob
from midcourse.core.erasure import REASONS
from midcourse.core.events import (
    AnyEvent,
    AskAnswered,
    AskClosed,
    AskOpened,
    Record,
    Recorded,
    SegmentWritten,
    StepAborted,
    StepCut,
    StepFailed,
    StepFinished,
    StepRetrying,
    encode_record,
)
from midcourse.core.fold import Fold, Row
from midcourse.core.ids import Epoch, Position, StepId, checkpoint_id
from midcourse.core.session import ENDED, OpenAsk, Session, Status
from midcourse.core.snapshot import encode_snapshot, is_due
from midcourse.core.steps import StepLog
from midcourse.errors import ImpossibleEvent, InboxNotEmpty, MidcourseError
from midcourse.policy.pace import USUAL, Pace
from midcourse.ports.clock import Clock
from midcourse.ports.meter import UNMETERED, Meter
from midcourse.ports.store import Append, AskHead, Deciding, Head, Store
from midcourse.runtime.deferred_calls import DeferredCalls
from midcourse.runtime.session_loader import JournalGrowth
from midcourse.runtime.shelf_index import is_listed, listed

log = logging.getLogger("midcourse")

_SHOWN: Final = 200
"""Characters of a goal or a question that lists show."""
_ARGUMENTS: Final = 1000
"""Characters of the arguments that a person is asked to approve, in the inbox."""
NOTHING_SINCE: Final = JournalGrowth()
TURNS: Final = 6
"""Turns of the event loop from a call's end to the start of the agent's next one, with a model call in between that
answers at once. What was not written with that start by then is written alone."""


class Journal:
    """Appends to one session, in order, as the owner of one epoch. Call everything but ``let_go`` under ``lock``.

    ``grown`` is called after each write, with whether the end of a call was in it.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        state: Fold,
        epoch: Epoch,
        *,
        turns: DeferredCalls,
        grown: Callable[[bool], None],
        broke: Callable[[MidcourseError], None],
        added: Callable[[Recorded], None],
        snapshot_size: int = 0,
        since: JournalGrowth = NOTHING_SINCE,
        pace: Pace = USUAL,
        meter: Meter = UNMETERED,
    ) -> None:
        self.lock = threading.RLock()
        self.epoch = epoch
        self.broken: MidcourseError | None = None
        self.leaving = False
        self.risk: float | None = None
        self.pace = pace
        self.meter = meter
        self.session: Session = state.session
        """The session as folded so far, durable or not."""
        self.log: StepLog = state.log
        """The steps of the current scope as folded so far."""
        self._store = store
        self._clock = clock
        self._fold = state
        self._anchor = max(clock.now(), state.session.at) - clock.monotonic()
        self._turns = turns
        self._grown = grown
        self._broke = broke
        self._added = added
        self._rows: list[Row] = []
        self._blobs: list[Blob] = []
        self._listed: dict[str, dict[str, bytes | None]] = {}
        self._deferred: list[tuple[AnyEvent, tuple[Blob, ...]]] = []
        self._flush_is_scheduled = False
        self._bytes_since = since.bytes
        self._steps_since = since.calls
        self._tokens_since = since.tokens
        self._streamed: dict[StepId, int] = {}
        self._snapshot_size = snapshot_size
        self._taken: AnyEvent | None = None
        self._holds_end = False

    def if_durable(self, digest: bytes) -> Session | None:
        """Return the session if its fold is what a journal with this digest makes of it: not ahead of the disk."""
        with self.lock:
            return self.session if self._fold.digest == digest and not self.broken else None

    @property
    def now(self) -> float:
        """The time that an event would have.

        It continues from the last event and counts on the monotonic clock: while one process has the session, a wall
        clock that is set moves no deadline, and after a step back no owner waits longer than a duration again.
        """
        return self._anchor + self._clock.monotonic()

    def take(self, taken: AnyEvent) -> None:
        """Journal who owns the session now, in front of the first fact that this owner appends, and not without one."""
        self._taken = taken

    @property
    def is_untouched(self) -> bool:
        """True if nothing was appended since this owner acquired the session."""
        return self._taken is not None

    def note(self, event: AnyEvent, *blobs: Blob) -> None:
        """Fold an event now; it is written with the next append, or when this loop has run what is ready."""
        if self.leaving:
            self._deferred.append((event, blobs))
            return
        self._add(event)
        self._blobs.extend(blobs)
        if not self._flush_is_scheduled:
            self._flush_is_scheduled = True
            self._turns.after(self.write_noted)

    def note_segment(self, segment: SegmentWritten, pieces: int) -> None:
        """Fold a segment of so many tokens. However fast a stream is, a snapshot is not late: it is written at once."""
        if self.pace.tokens is not None and self._tokens_since + pieces > self.pace.tokens:
            self._write_if_due(ahead=pieces)
        self.note(segment)
        self._streamed[segment.step] = self._streamed.get(segment.step, 0) + pieces
        self._tokens_since += pieces
        self._write_if_due()

    def _write_if_due(self, ahead: int = 0) -> None:
        """Write what was noted, and a snapshot, if one is due with so many more tokens."""
        if not self.leaving and self._is_snapshot_due(ahead):
            if self._rows:
                self._write(None)
            if self._tokens_since:  # not written with the rows: it is due for what is to come
                self.save_snapshot()

    def note_in_thread(self, event: AnyEvent, loop: asyncio.AbstractEventLoop) -> None:
        """Fold an event now, on a thread that is not the agents' ``loop``, which writes it. Not while it is leaving."""
        self._add(event)
        loop.call_soon_threadsafe(self.write_noted)

    def write_noted(self) -> None:
        """Write what was noted. By itself that comes once those it woke have had their turns, to share their commit."""
        with self.lock:
            self._flush_is_scheduled = False
            if self._rows and not self.broken and not self.leaving:
                self._write(None)

    def add(self, *events: AnyEvent) -> Session:
        """Fold ``events`` now, and return the session they make; the ``append`` that follows writes them."""
        if self.broken:
            raise self.broken
        for event in events:
            self._add(event)
        return self.session

    def append(
        self,
        *events: AnyEvent,
        deciding: Deciding | None = None,
        blobs: tuple[Blob, ...] = (),
        audit: tuple[AuditEntry, ...] = (),
    ) -> Awaitable[None]:
        """Fold ``events`` now; write them and what was noted before in one transaction that decides ``deciding``.

        ``audit`` is written in the same transaction, with the time set to now.
        """
        self.add(*events)
        self._blobs.extend(blobs)
        return self._write(deciding, tuple(replace(entry, at=self.now) for entry in audit))

    def _add(self, event: AnyEvent) -> None:
        if self._taken is not None:
            taken, self._taken = self._taken, None
            self._add(taken)
        at = self.now
        content = encode_record(Record(at, event))
        position = self._fold.advance(at, event, content)
        self.session = self._fold.session
        self._rows.append((position, content, self._fold.digest))
        self._bytes_since += len(content)
        if isinstance(event, StepFinished | StepFailed | StepRetrying | StepCut | StepAborted):
            self._count_call(event)
        if isinstance(event, AskOpened | AskAnswered | AskClosed):
            self._notify_checkpoint(event, position)
        recorded = Recorded(position, at, event)
        if is_listed(event):
            self._list(recorded)
        self._added(recorded)
        self.meter.recorded(self.session, self.epoch, recorded)

    def _list(self, recorded: Recorded) -> None:
        """Lists over many sessions have it with the write that makes it durable."""
        found = listed(self.session, recorded)
        if found is not None:
            shelf, items = found
            self._listed.setdefault(shelf, {}).update(items)

    def _count_call(self, event: StepFinished | StepFailed | StepRetrying | StepCut | StepAborted) -> None:
        self._steps_since += 1
        self._holds_end = True
        told = 0 if isinstance(event, StepAborted) else event.tokens
        self._tokens_since += max(0, told - self._streamed.pop(event.step, 0))

    def _is_snapshot_due(self, ahead: int = 0) -> bool:
        return is_due(
            grown=self._bytes_since,
            last_size=self._snapshot_size,
            steps_since=self._steps_since,
            tokens_since=self._tokens_since + ahead,
            most_steps=self.pace.calls,
            most_tokens=self.pace.tokens,
        )

    def _notify_checkpoint(self, event: AskOpened | AskAnswered | AskClosed, position: Position) -> None:
        """Log where a session waits for a person, and continues: the important lines for a reader of the log."""
        name = self.session.id
        match event:
            case AskOpened():
                why = f" ({event.reason})" if event.reason in REASONS else ""  # any other text is an agent's
                words = f"waits at {checkpoint_id(name, position)} for an answer to {event.ask}{why}"
            case AskAnswered():
                words = f"continues: {event.ask} was answered by {event.by}"
            case AskClosed():
                words = f"waits for {event.ask} no more: {event.end}"
        log.info("checkpoint: session %s %s", name, words, extra={"session": name})

    def _write(self, deciding: Deciding | None, audit: tuple[AuditEntry, ...] = ()) -> Awaitable[None]:
        rows, blobs, shelves, holds_end = self._rows, self._blobs, self._listed, self._holds_end
        self._rows, self._blobs, self._listed, self._holds_end = [], [], {}, False
        head = head_of(self.session, self._fold.digest, self.risk, owned=True)
        began = self._clock.monotonic()
        written = asyncio.ensure_future(
            self._store.append(
                Append(head, rows, epoch=self.epoch, deciding=deciding, blobs=blobs, audit=audit, shelves=shelves)
            ),
        )
        written.add_done_callback(lambda done: self._written(done, began, holds_end))
        if self._is_snapshot_due():
            self.save_snapshot()
        return written

    def _written(self, written: "asyncio.Future[None]", began: float, holds_end: bool) -> None:
        if written.cancelled():
            return
        error = written.exception()
        if error is None:
            self.meter.committed(self._clock.monotonic() - began)
            self._grown(holds_end)
        else:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Fail for good: nothing more can be written, and the session continues later from its durable state."""
        with self.lock:
            if self.broken is not None:
                return
            wrapped = error if isinstance(error, MidcourseError) else MidcourseError(str(error))
            self.broken = wrapped
        self._broke(wrapped)

    def save_snapshot(self) -> None:
        """Write the fold as it is now; a failure costs only reading time later."""
        began = self._clock.monotonic()
        snapshot = self._fold.snapshot()
        content, blobs, self._snapshot_size = encode_snapshot(snapshot)
        self._bytes_since = self._steps_since = self._tokens_since = 0
        saved = asyncio.ensure_future(
            self._store.save_snapshot(
                self.session.id,
                Position(snapshot.position),
                content,
                epoch=self.epoch,
                blobs=blobs,
            ),
        )
        size = len(content) + sum(len(blob.content) for blob in blobs)

        def told(done: "asyncio.Future[None]") -> None:
            if not done.cancelled() and done.exception() is None:
                self.meter.saved("snapshot", self._clock.monotonic() - began, size)

        saved.add_done_callback(told)

    async def release(self, *events: AnyEvent, blobs: tuple[Blob, ...] = (), seen: Position | None = None) -> bool:
        """Append ``events`` and release the session in one transaction. False: a command is undecided, decide it first.

        Or something has happened since the position that the caller has ``seen``: there may be another end now.

        Unlike an append this folds after the write, because the store may refuse it.
        """
        with self.lock:
            if self.broken:
                raise self.broken
            if seen is not None and self.session.position != seen:
                return False
            if events and self._taken is not None:
                events = (self._taken, *events)
            if self._rows:
                self._write(None)
            ahead = Fold(self.session, StepLog(), self._fold.digest)  # the log is not read before the write
            rows: list[Row] = []
            recorded: list[tuple[float, AnyEvent, bytes]] = []
            for event in events:
                at = self.now
                content = encode_record(Record(at, event))
                try:
                    place = ahead.look_ahead(at, event, content)
                except ImpossibleEvent:  # a command was decided since the caller looked: there is another end now
                    return False
                rows.append((place, content, ahead.digest))
                recorded.append((at, event, content))
            self.leaving = True
            head = head_of(ahead.session, ahead.digest, self.risk)
            written = self._store.append(Append(head, rows, epoch=self.epoch, blobs=blobs, release=True))
        try:
            await written
        except InboxNotEmpty:
            self._stay()
            return False
        except MidcourseError as error:
            self.fail(error)
            raise
        with self.lock:
            for at, event, content in recorded:
                last = Recorded(self._fold.advance(at, event, content), at, event)
                self.session = self._fold.session
                self._added(last)
                self.meter.recorded(self.session, self.epoch, last)
        self._grown(True)
        return True

    def _stay(self) -> None:
        with self.lock:
            self.leaving = False
            deferred, self._deferred = self._deferred, []
            for event, blobs in deferred:
                self.note(event, *blobs)


def head_of(session: Session, digest: bytes, risk: float | None = None, *, owned: bool = False) -> Head:
    """Return the session's entry for lists and sweeps. ``owned``: its owner continues it, and did not release it."""
    deadlines = [] if session.status in ENDED else list(session.deadlines)
    if session.undo is not None and not session.undo.done:
        deadlines.append(session.undo.since)  # ended, but its undo must be completed
    if owned and session.status is Status.HALTED and session.children:
        deadlines.append(session.at)  # should its owner die, the halt must be passed on
    busy = next((call for call in session.calls.values() if not call.end or call.undo == "running"), None)
    return Head(
        id=session.id,
        agent=session.agent,
        goal=session.goal[:_SHOWN],
        status=session.status.value,
        turn=session.turn,
        position=session.position,
        digest=digest,
        created_at=session.created_at,
        updated_at=session.at,
        asks=len(session.asks),
        cost=session.cost,
        finished_steps=session.finished_steps,
        wake_at=min(deadlines) if deadlines else None,
        parent=session.parent,
        by=session.messages[0].by if session.messages else "",
        task_class=session.terms.task_class,
        policy=session.terms.policy,
        budget=session.terms.budget,
        labels=session.terms.labels,
        risk=risk,
        interventions=session.interventions,
        busy=busy.name if busy else "",
        busy_since=busy.since if busy else 0.0,
        switch=session.switch if session.halted_from is not None else "",
        was=session.halted_from.value if session.halted_from is not None else "",
        open_asks=tuple(_ask_head(session, ask) for ask in session.asks),
        erased_at=session.erased_at,
        finishes_first=session.finishing.stop if session.finishing is not None else "",
        discarded=session.discarded,
        unpriced=session.unpriced_so_far,
        estimated=session.estimated,
        worked=session.worked,
        working_since=session.working_since,
    )


def _ask_head(session: Session, ask: OpenAsk) -> AskHead:
    about = session.calls.get(ask.step)
    wanted = (wanted_by(ask.prompt) if ask.reason == NEED_APPROVAL else None) or CallForApproval()
    return AskHead(
        id=ask.id,
        reason=ask.reason,
        prompt=ask.prompt[:_SHOWN],
        opened_at=ask.since,
        step=ask.step,
        deadline=ask.expires_at,
        tool=wanted.tool if about is None else about.name,
        arguments=_cut(wanted.arguments, _ARGUMENTS),
        why=_cut(wanted.why, _SHOWN),
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
