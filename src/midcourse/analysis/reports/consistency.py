"""Check that a journal folds to the state that the store has of its session."""

from midcourse.core.fold import Fold, fold
from midcourse.core.ids import Position
from midcourse.core.snapshot import Snapshot, decode_snapshot, encode_snapshot
from midcourse.errors import Damaged
from midcourse.ports.store import Head, Store
from midcourse.runtime.session_loader import newest_snapshot

_PAGE = 500


async def flaw_of(store: Store, head: Head) -> str:
    """Return why the journal up to ``head`` does not come to what head and newest snapshot say; empty if it does.

    The fold refuses what breaks a promise: a step that begins although it has a result, or while nothing may begin.

    Raises:
        SessionNotFound: it is gone.
    """
    saved, _ = await newest_snapshot(store, head.id, head.position)
    state: Fold | None = None
    marks = [saved.position, head.position] if saved is not None else [head.position]
    try:
        for mark in marks:
            state = await _fold_to(store, head, state, mark)
            if saved is not None and mark == saved.position and _as_saved(state.snapshot()).session != saved.session:
                return f"its snapshot at position {mark} is not what its journal comes to"
    except Damaged as error:
        now = (await store.head(head.id)).head
        # It may have been erased while it was read.
        return error.message if now.erased_at == head.erased_at else await flaw_of(store, now)
    if state is not None and (state.session.status, state.digest) != (head.status, head.digest):
        return f"its list says {head.status}, and its journal {state.session.status} at position {head.position}"
    return ""


async def _fold_to(store: Store, head: Head, state: Fold | None, mark: Position) -> Fold:
    while True:
        at = state.session.position if state is not None else Position(0)
        if state is not None and at >= mark:
            return state
        page = await store.read(head.id, at, min(_PAGE, mark - at))
        # Of no rows the fold says what is missing.
        before = state.snapshot() if state is not None else None
        state = fold(head.id, before, page, ends=None if page else (head.position, head.digest))


def _as_saved(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as it is read back: what the codec leaves out is left out on both sides."""
    return decode_snapshot(encode_snapshot(snapshot)[0])
