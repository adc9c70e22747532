"""Journal rows to a session: every digest checked on the way, nothing damaged ever followed."""

from collections.abc import Iterable

from midcourse.core.codec import GENESIS, chain, follows, remains_of
from midcourse.core.events import AnyEvent, Record, Recorded, decode_record
from midcourse.core.evolution import created, evolve
from midcourse.core.ids import Position, SessionId
from midcourse.core.session import Session
from midcourse.core.snapshot import Snapshot
from midcourse.core.steps import StepLog
from midcourse.errors import Damaged, MidcourseError

Row = tuple[Position, bytes, bytes]
"""A journal row as a store gives it: position, record, running digest."""


class Fold:
    """A session, its step log and the running digest, advanced record by record."""

    __slots__ = ("digest", "log", "session")

    def __init__(self, session: Session, log: StepLog, digest: bytes) -> None:
        self.session = session
        self.log = log
        self.digest = digest

    def advance(self, at: float, event: AnyEvent, content: bytes) -> Position:
        """Fold one event in, whose journal row is ``content``.

        Raises:
            ImpossibleEvent: it cannot happen to the session as it stands; the fold is as before.
        """
        position = Position(self.session.position + 1)
        session = evolve(self.session, Recorded(position, at, event))
        self.log.apply(event, position)
        self.session = session
        self.digest = chain(self.digest, position, content)
        return position

    def look_ahead(self, at: float, event: AnyEvent, content: bytes) -> Position:
        """Advance the session and the digest without the step log, to see where an append would lead."""
        position = Position(self.session.position + 1)
        self.session = evolve(self.session, Recorded(position, at, event))
        self.digest = chain(self.digest, position, content)
        return position

    def snapshot(self) -> Snapshot:
        """Return the fold as it is now. Encode it before the next event is folded: the step log is shared."""
        return Snapshot(self.session.position, self.digest, self.session, self.log)


def first(session_id: SessionId, at: float, event: AnyEvent, content: bytes) -> Fold:
    """Return the fold of a journal's first record."""
    session = created(session_id, Recorded(Position(1), at, event))
    return Fold(session, StepLog(), chain(GENESIS, 1, content))


def fold(
    session_id: SessionId,
    snapshot: Snapshot | None,
    rows: Iterable[Row],
    *,
    ends: tuple[Position, bytes] | None = None,
) -> Fold:
    """Fold ``rows`` onto ``snapshot`` (whose step log becomes the fold's own), checking every digest on the way.

    ``ends`` is a position the journal is known to have reached and its digest there, as a head has them. Only with it
    can rows missing at the end be noticed.

    Raises:
        Damaged: a row is missing, changed or impossible; the session must not continue.
    """
    state = _begin(session_id, snapshot) if snapshot else None
    if state is not None and ends is not None and _contradicts(state, ends):
        raise damaged_journal(session_id, state.session.position)
    for position, content, digest in rows:
        record = read_row(session_id, state.digest if state else GENESIS, _next(state), (position, content, digest))
        try:
            if state is None:
                state = first(session_id, record.at, record.event, content)
            else:
                state.advance(record.at, record.event, content)
            state.digest = digest  # checked above; of a journal of the past it is spelled otherwise
        except MidcourseError as error:
            raise damaged_journal(session_id, position, error.message) from error
        if ends is not None and _contradicts(state, ends):
            raise damaged_journal(session_id, position)
    if state is None:
        raise damaged_journal(session_id, 1, "it is empty")
    if ends is not None and state.session.position < ends[0]:
        raise damaged_journal(session_id, _next(state), f"rows are missing up to position {ends[0]}")
    return state


def _begin(session_id: SessionId, snapshot: Snapshot) -> Fold:
    if snapshot.session.id != session_id:
        raise Damaged(
            f"A snapshot of session '{snapshot.session.id}' lies with '{session_id}'. It is not used.",
            session_id=session_id,
        )
    return Fold(snapshot.session, snapshot.log, snapshot.digest)


def _contradicts(state: Fold, ends: tuple[Position, bytes]) -> bool:
    return state.session.position == ends[0] and state.digest != ends[1]


def _next(state: Fold | None) -> int:
    return state.session.position + 1 if state else 1


def read_row(session_id: SessionId, before: bytes, expected: int, row: Row) -> Record:
    """Return one checked record: at the ``expected`` position, with the digest that follows from ``before``.

    Raises:
        Damaged: it is not.
    """
    position, content, digest = row
    if position != expected or not follows(before, position, content, digest):
        raise damaged_journal(session_id, expected)
    try:
        return decode_record(remains_of(content))
    except Damaged as error:
        raise Damaged(f"Session '{session_id}', position {position}: {error.message}", session_id=session_id) from error


def damaged_journal(session_id: SessionId, position: int, why: str = "it does not match its running digest") -> Damaged:
    """Return the error for a journal that was changed."""
    return Damaged(
        f"The journal of session '{session_id}' is damaged at position {position}: {why.rstrip('.')}. "
        "The session is stopped and nothing is followed; restore the store from a backup.",
        session_id=session_id,
        position=position,
    )
