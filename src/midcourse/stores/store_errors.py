"""The errors of a store: one sentence for each reason, the same in every store."""

from collections.abc import Sequence

from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Epoch, SessionId, WorkerId
from midcourse.errors import Damaged, InboxNotEmpty, OwnerAlive, SessionNotFound, ShelfChanged, StaleEpoch, StoreError
from midcourse.errors import StoreUnavailable as Unavailable
from midcourse.ports.store import Head


def not_found(session_id: SessionId, store: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session '{session_id}' in {store}. Check the id, or list the sessions there are.",
        session_id=session_id,
    )


def session_exists(session_id: SessionId) -> StoreError:
    return StoreError(
        f"Session '{session_id}' exists already. Give the new one another id, or continue the existing one.",
        code="session_exists",
        session_id=session_id,
    )


def stale_epoch(session_id: SessionId, held: Epoch, current: int, owner: str | None) -> StaleEpoch:
    """Return the error for a writer that is not, or no longer, the owner."""
    if owner is None:
        sentence = (
            f"Session '{session_id}' has no owner (its last epoch is {current}). Acquire it before writing to it."
        )
    else:
        sentence = (
            f"Session '{session_id}' is owned by '{owner}' under epoch {current}; this writer holds {held}. "
            "Nothing was written: stop its calls, the owner continues."
        )
    return StaleEpoch(sentence, session_id=session_id, held=held, epoch=current, owner=owner)


def owner_alive(session_id: SessionId, owner: WorkerId) -> OwnerAlive:
    return OwnerAlive(
        f"Session '{session_id}' is owned by '{owner}', whose process lives. Put a command into its inbox instead.",
        session_id=session_id,
        owner=owner,
    )


def inbox_not_empty(session_id: SessionId) -> InboxNotEmpty:
    return InboxNotEmpty(
        f"Session '{session_id}' has an undecided command in its inbox. Decide it, then let the session go.",
        session_id=session_id,
    )


def already_decided(session_id: SessionId, command_id: CommandId) -> StoreError:
    return StoreError(
        f"Command '{command_id}' to session '{session_id}' was decided before. Nothing was written: read its outcome.",
        code="already_decided",
        session_id=session_id,
        command_id=command_id,
    )


def no_such_command(session_id: SessionId, command_id: CommandId) -> StoreError:
    return StoreError(
        f"There is no command '{command_id}' in the inbox of session '{session_id}'. Put it there before deciding it.",
        code="command_not_found",
        session_id=session_id,
        command_id=command_id,
    )


def not_enlisted(worker: WorkerId) -> StoreError:
    """Return the error for a session's owner that is not enlisted: the session would be taken over at once."""
    return StoreError(
        f"'{worker}' is not the worker of this store object. Enlist it here before it owns a session.",
        code="not_enlisted",
        worker=worker,
    )


def already_enlisted(worker: WorkerId) -> StoreError:
    return StoreError(
        f"This store object is the worker '{worker}' already. Open another one for another worker.",
        code="already_enlisted",
        worker=worker,
    )


def worker_exists(worker: WorkerId) -> StoreError:
    """Return the error for a reused worker id: such a worker would own what it had lost."""
    return StoreError(
        f"A worker '{worker}' lives or lived in this store. Enlist under a fresh id: an id is used once.",
        code="worker_exists",
        worker=worker,
    )


def closed(store: str) -> Unavailable:
    return Unavailable(f"{store} was closed in this program. Open it again.", code="store_closed")


def damaged_head(session_id: SessionId) -> Damaged:
    """Return the error for a head that does not match its checksum, or the columns beside it."""
    return Damaged(
        f"The head of session '{session_id}' does not match its checksum. Nothing of it is followed; "
        "restore the store from a backup.",
        session_id=session_id,
    )


def damaged_command(session_id: SessionId, command_id: CommandId) -> Damaged:
    return Damaged(
        f"Command '{command_id}' to session '{session_id}' does not match its checksum and is not followed. "
        "Send it again under a new id.",
        session_id=session_id,
        command_id=command_id,
    )


def damaged_inbox(session_id: SessionId) -> Damaged:
    return Damaged(
        f"The inbox of session '{session_id}' is damaged: a command is missing. Nothing of it is followed; "
        "restore the store from a backup.",
        session_id=session_id,
    )


def damaged_item(shelf: str, key: str) -> Damaged:
    return Damaged(
        f"'{key}' on the shelf '{shelf}' does not match its checksum and is not followed. "
        "Restore the store from a backup.",
        shelf=shelf,
        key=key,
    )


def shelf_changed(shelf: str, key: str) -> ShelfChanged:
    return ShelfChanged(
        f"'{key}' on the shelf '{shelf}' was changed meanwhile. Nothing was written; read it again.",
        shelf=shelf,
        key=key,
    )


def check_whole(head: Head, rows: Sequence[Row], position: int) -> None:
    """Refuse ``rows`` that are not a whole journal, which had ``position`` rows, up to ``head``.

    Raises:
        StoreError: code ``out_of_order``.
    """
    check_order(head, rows if len(rows) >= position else (), 0)


def check_order(head: Head, rows: Sequence[Row], position: int) -> None:
    """Refuse ``rows`` that do not continue a journal of ``position`` rows up to ``head``.

    Raises:
        StoreError: code ``out_of_order``.
    """
    expected = position
    for row in rows:
        expected += 1
        if row[0] != expected:
            break
    else:
        if head.position == expected:
            return
    raise StoreError(
        f"These rows do not continue the journal of session '{head.id}', which ends at position {position}: "
        f"they hold {[row[0] for row in rows]}, the head says {head.position}. Nothing was written; read it again.",
        code="out_of_order",
        session_id=head.id,
        position=position,
    )
