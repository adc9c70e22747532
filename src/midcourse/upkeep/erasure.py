"""Erase the texts of ended sessions: after one transaction for each, none of them can be read any more.

The session is acquired, so that no other process writes to it, and released with the same write. What is outside of the
store (the readable checkpoint in Redis, the file tools' backups) is removed afterwards. If that fails, erase the
session once more.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from midcourse.core import events as ev
from midcourse.core.audit import ERASE, AuditEntry, AuditRow, decode_entry, without_detail
from midcourse.core.codec import ERASED, remains_of
from midcourse.core.commands import Role
from midcourse.core.erasure import entombed, is_erased, kept_digest
from midcourse.core.events import Record, decode_record, encode_record
from midcourse.core.fold import Fold, Row, fold
from midcourse.core.ids import Position, SessionId
from midcourse.core.request_checks import check_reason
from midcourse.core.session import ENDED, Session, Status
from midcourse.errors import Damaged, MidcourseError, OwnerAlive, Refused, StaleEpoch
from midcourse.people.outbox import forget_session
from midcourse.ports.sender import check_people_send
from midcourse.ports.shelves import is_shelf_of, readable
from midcourse.ports.store import Append, Erasure, Head, HeadQuery, Owned, Store, every_head
from midcourse.runtime.command_outcome import CommandOutcome, encode_outcome
from midcourse.runtime.journal import head_of
from midcourse.runtime.worker import Worker

log = logging.getLogger("midcourse")

_PAGE: Final = 1000
_PATIENCE: Final = 2.0
"""Seconds that the present owner has to release the session."""
_TEXTS: Final = frozenset(
    ("goal", "prompt", "sentence", "note", "documentation", "text", "message", "title", "summary", "words", "answer")
)
"""The fields with a session's texts in the items of shelves over all sessions.

A webhook's receiver may have repeated in its ``answer`` what it was sent.
"""
_NOT_OF_SESSIONS: Final = ("browser-sessions", "kill-switches", "login-codes", "policies", "tokens", "webhooks")
"""Shelves that hold nothing of what was said in sessions, whatever ids they name."""


async def erase_sessions(
    worker: Worker,
    session_ids: Sequence[SessionId],
    *,
    by: str,
    role: Role,
    reason: str = "",
    go_on: bool = False,
) -> list[Session]:
    """Erase ended sessions, one after the other, and what the file tools kept for an undo of theirs.

    ``go_on``: what cannot be erased is left out, and logged.

    Raises:
        Refused: one has not ended, or an undo of it is under way; those before it are erased.
        InvalidInput: the reason is too long.
        SessionNotFound: there is no such session.
        Damaged: its journal is damaged: what it says cannot be told from what it should say.
    """
    from midcourse.tools.backups import forget_backups

    await check_people_send(worker.store, "erase a session")
    check_reason(reason)
    heads = [(await worker.must_exist(session_id)).head for session_id in session_ids]
    for head in heads if not go_on else ():
        _check_ended(head)
    known, seen = await _details(worker.store, set(session_ids))
    erased: list[Session] = []
    keys: set[str] = set()
    for head in heads:
        try:
            forgotten = known.get(head.id, ())
            session, its_keys = await _erase(worker, head.id, forgotten, seen, by=by, role=role, reason=reason)
            erased.append(session)
            keys |= its_keys
        except MidcourseError as error:
            if not go_on:
                raise
            log.warning("session %s is not erased: %s", head.id, error)
    await asyncio.to_thread(forget_backups, frozenset(keys))
    return erased


async def children_of(store: Store, session_id: SessionId) -> list[SessionId]:
    """Return the children of a session, and theirs."""
    return [head.id for head in await store.below(session_id, [one.value for one in Status])]


async def ended_before(store: Store, at: float, *, limit: int = 1000) -> list[SessionId]:
    """Sessions that ended before a time and are not erased, oldest first, at most ``limit``."""
    ended = every_head(store, HeadQuery(statuses=[one.value for one in ENDED]))
    found = [head async for head in ended if head.updated_at < at and head.erased_at is None]
    return [head.id for head in sorted(found, key=lambda head: head.updated_at)[:limit]]


def _check_ended(head: Head) -> None:
    if head.status not in ENDED:
        raise Refused(
            f"Cannot erase session '{head.id}': it is {head.status} (not_ended). Cancel it first; what it says is "
            "needed until then.",
            code="not_ended",
            session_id=head.id,
            status=head.status,
        )


async def _erase(
    worker: Worker, session_id: SessionId, forgotten: Sequence[AuditRow], seen: int, *, by: str, role: Role, reason: str
) -> tuple[Session, frozenset[str]]:
    """Erase a session, and return it with the keys of its calls: what tools keep for an undo lies under those.

    ``forgotten``: its audit entries up to ``seen``. Later ones are searched when no more can be added.
    """
    store = worker.store
    owned = await _take_session(worker, session_id)
    try:
        _check_ended(owned.head)
        late, _ = await _details(store, {session_id}, seen)
        rows = await _rows(store, owned.head)
        # In a thread: a long journal takes seconds, and the loop may be the agents'.
        left, state, keys = await asyncio.to_thread(_remains, session_id, rows)
        now = worker.clock.now()
        lost = tuple(call.step for call in state.session.calls.values() if not call.end)
        _add(state, left, now, ev.SessionTaken(epoch=owned.epoch, worker=worker.id, lost=lost))
        _add(state, left, now, ev.SessionErased(by=by, reason=reason, kept=kept_digest(left)))
        session = state.session
        await store.erase(
            Erasure(
                head_of(session, state.digest),
                left,
                epoch=owned.epoch,
                outcome=_outcome(session),
                shelves=await _shelves(store, session_id),
                forgotten=(*forgotten, *late.get(session_id, ())),
                audit=(AuditEntry(session=session_id, by=by, role=role, action=ERASE, detail=reason, at=now),),
            )
        )
    except BaseException:
        await _release(worker, owned)
        raise
    worker.erased(session)
    # A server may have read it before, and have written its notification since.
    await forget_session(store, session_id)
    return session, keys


async def _take_session(worker: Worker, session_id: SessionId) -> Owned:
    """Acquire the session. The process that has just ended it may still hold it, and a command may have come since."""
    deadline = worker.clock.monotonic() + _PATIENCE
    while True:
        if await worker.store.undecided(session_id):
            await worker.attend(session_id)
        try:
            return await worker.store.take(session_id, worker.id)
        except OwnerAlive as error:
            if worker.clock.monotonic() > deadline:
                raise Refused(
                    f"Cannot erase session '{session_id}': a worker has it just now (session_busy). Try again.",
                    code="session_busy",
                    session_id=session_id,
                ) from error
        await worker.clock.sleep(_PATIENCE / 20)


async def _release(worker: Worker, owned: Owned) -> None:
    try:
        await worker.store.append(Append(owned.head, epoch=owned.epoch, release=True))
    except MidcourseError as error:  # a command came meanwhile: who sent it has it decided
        if not isinstance(error, StaleEpoch):
            log.warning("session %s could not be released: %s", owned.head.id, error)


def _remains(session_id: SessionId, rows: Sequence[Row]) -> tuple[list[Row], Fold, frozenset[str]]:
    """Return the journal without its texts, its fold, and the keys of the session's calls."""
    fold(session_id, None, rows)  # every digest is checked before anything is given up
    is_erased(session_id, rows)  # and every tombstone
    left = entombed(rows)
    return left, fold(session_id, None, left), _keys(left)


def _keys(rows: Iterable[Row]) -> frozenset[str]:
    events = (decode_record(remains_of(record)).event for _, record, _ in rows)
    return frozenset(event.key for event in events if isinstance(event, ev.StepBegun) and event.key)


def _add(state: Fold, rows: list[Row], at: float, event: ev.AnyEvent) -> None:
    content = encode_record(Record(at, event))
    position = state.advance(at, event, content)
    rows.append((position, content, state.digest))


async def _rows(store: Store, head: Head) -> list[Row]:
    rows: list[Row] = []
    while page := await store.read(head.id, Position(len(rows)), _PAGE):
        rows += page
    if not rows or (rows[-1][0], rows[-1][2]) != (head.position, head.digest):
        raise Damaged(
            f"The journal of session '{head.id}' does not end where its head says. Nothing was erased; restore the "
            "store from a backup, or delete it as a whole.",
            session_id=head.id,
        )
    return rows


def _outcome(session: Session) -> bytes:
    """Return the answer to every command to the session from now on, if it is sent once more."""
    return encode_outcome(
        CommandOutcome(
            code="session_erased",
            message=f"What was said and done in session '{session.id}' was erased, this command and its answer with it "
            "(session_erased).",
            status=session.status.value,
            position=session.position,
        )
    )


async def _details(
    store: Store, sessions: set[SessionId], after: int = 0
) -> tuple[Mapping[SessionId, list[AuditRow]], int]:
    """Return the audit entries of these sessions after ``after``, without detail, and the end of the log."""
    found: dict[SessionId, list[AuditRow]] = {}
    while rows := await store.audit(after, _PAGE):
        after = rows[-1].seq
        for row in rows:
            if not any(session.encode() in row.content for session in sessions):
                continue
            try:
                entry = decode_entry(row.content)
            except Damaged:
                continue  # a reader of the log gets the error
            # Why it was erased stays, also if it is erased again.
            if entry.session in sessions and entry.detail and entry.action != ERASE:
                found.setdefault(entry.session, []).append(AuditRow(row.seq, without_detail(row.content), row.digest))
    return found, after


async def _shelves(store: Store, session_id: SessionId) -> dict[str, dict[str, bytes | None]]:
    """Return the new items on shelves: those of the session alone are removed, others lose its texts."""
    changes: dict[str, dict[str, bytes | None]] = {}
    for shelf in await store.shelves():
        if is_shelf_of(session_id, shelf):
            changes[shelf] = dict.fromkeys(await store.shelf_keys(shelf))
        elif ":" not in shelf and shelf not in _NOT_OF_SESSIONS:
            whole, damaged = await readable(store, shelf)
            items = _without_texts(session_id, shelf, whole)
            items |= {key: None for key in damaged if _is_item_of(session_id, shelf, key)}
            for key in damaged:
                if key not in items:  # no reason not to erase the rest
                    log.warning(
                        "'%s' on the shelf '%s' cannot be read; it may hold words of %s", key, shelf, session_id
                    )
            if items:
                changes[shelf] = items
    return changes


def _is_item_of(session_id: SessionId, shelf: str, key: str) -> bool:
    """Return True if an item is about the session alone, by the place where keys of that shelf name it."""
    match shelf, key.split("/"):
        case ("artifacts", [named, _, *_]):
            return named == session_id
        case ("inbox", ["taken", named, *_] | ["answer", _, _, named, *_]):
            return named == session_id
        case ("telling", ["told", named, *_]):
            return named == session_id
        case _:
            return False


def _without_texts(session_id: SessionId, shelf: str, items: Iterable[tuple[str, bytes]]) -> dict[str, bytes | None]:
    changed: dict[str, bytes | None] = {}
    for key, content in items:
        if _is_item_of(session_id, shelf, key):
            changed[key] = None
            continue
        if session_id.encode() not in content:
            continue
        try:
            item = msgspec.json.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        if _is_told_of(item, session_id):
            changed[key] = None
            continue
        erased = _erased(item, session_id, inside=False)
        if erased != item:
            changed[key] = msgspec.json.encode(erased)
    return changed


def _is_told_of(item: Any, session_id: str) -> bool:
    """Return True for a webhook's delivery about the session alone: its texts are in it."""
    return isinstance(item, dict) and "webhook" in item and cast("dict[str, object]", item).get("session") == session_id


def _erased(value: Any, session_id: str, *, inside: bool) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        inside = inside or session_id in (fields.get("session"), fields.get("session_id"))
        return {name: _erased_field(name, one, session_id, inside=inside) for name, one in fields.items()}
    if isinstance(value, list):
        return [_erased(one, session_id, inside=inside) for one in cast("list[Any]", value)]
    return value


def _erased_field(name: str, value: Any, session_id: str, *, inside: bool) -> Any:
    if not isinstance(value, str):
        return _erased(value, session_id, inside=inside)
    if name == "body" and session_id in value:  # a webhook's delivery: JSON in a text, and still to be sent perhaps
        try:
            return msgspec.json.encode(_erased(msgspec.json.decode(value), session_id, inside=inside)).decode()
        except msgspec.MsgspecError:
            return ERASED
    return ERASED if inside and name in _TEXTS and value else value
