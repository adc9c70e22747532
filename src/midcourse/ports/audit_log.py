"""The audit log of a store: read back, exported and pruned, its chain checked."""

from collections.abc import AsyncIterator, Callable
from typing import Final

from midcourse.core.audit import (
    PRUNE,
    Audited,
    AuditEntry,
    AuditRow,
    check,
    damaged_audit,
    decode_entry,
    is_pruned_to,
)
from midcourse.core.audit_export import Title, end_line, problem_line, row_line, title_line
from midcourse.core.codec import GENESIS
from midcourse.core.ids import SessionId
from midcourse.errors import Damaged, without_path
from midcourse.ports.store import Store

_PAGE: Final = 500
_SEARCHED: Final = 5000
_PAGES: Final = 20
"""Pages that are searched for the wanted entries, before the answer says how far it came."""
Wanted = Callable[[AuditEntry], bool]


async def read_audit(store: Store, after: int = 0, limit: int = 100) -> list[Audited]:
    """The entries behind ``after``, at most ``limit``, each one following from the one before it.

    Raises:
        Damaged: an entry was changed, removed or put in between; the sentence names it.
    """
    before, rows = await _rows(store, after, limit)
    return check(rows, before)


async def _rows(store: Store, after: int, limit: int) -> tuple[AuditRow | None, list[AuditRow]]:
    """The rows behind ``after``, at most ``limit``, and the one they follow: an anchor where older ones are gone."""
    first, *rows = await store.audit(max(after - 1, 0), limit + (after > 0)) or (None,)
    while first is not None and not first.content and first.seq > after and not await _is_told(store, first):
        anchor = first  # unless more was taken away just now, and with it who took that
        first, *rows = await store.audit(max(after - 1, 0), limit + (after > 0)) or (None,)
        if first == anchor:
            why = "what was up to there is gone, and no entry tells who took it away"
            raise damaged_audit(anchor.seq, why)
    if first is None:
        return None, []
    if first.content and after <= 0:
        return None, [first, *rows]
    if first.content and first.seq != after:
        raise damaged_audit(after, "it is missing", found=first.seq)
    if after <= 0 and rows:  # the anchor took a place
        rows += [row for row in await store.audit(rows[-1].seq, 1) if row.content]
    return first, rows


async def _is_told(store: Store, anchor: AuditRow) -> bool:
    """Return whether an entry says that the log was pruned up to ``anchor``."""
    after = anchor.seq
    while rows := await store.audit(after, _SEARCHED):
        after = rows[-1].seq
        if any(_tells(row, anchor) for row in rows if PRUNE.encode() in row.content):
            return True
    return False


def _tells(row: AuditRow, anchor: AuditRow) -> bool:
    try:
        return is_pruned_to(decode_entry(row.content), anchor.seq)
    except Damaged:
        return False  # a reader of that entry gets the error


def audit_filter(*, session: str | None, since: float | None, tenant: str | None) -> Wanted | None:
    """Return the filter for entries of this session, time and tenant; None: all are wanted."""
    if session is None and since is None and tenant is None:
        return None

    def wanted(entry: AuditEntry) -> bool:
        return entry.is_seen_by(tenant) and session in (None, entry.session) and (since is None or entry.at >= since)

    return wanted


async def audit_page(
    store: Store, after: int, limit: int, wanted: Wanted | None = None
) -> tuple[list[Audited], int | None]:
    """A page of the entries that are wanted, and where the next one begins; None behind the last.

    A page may be short though more follow: not more than some thousand entries are looked through for one.

    Raises:
        Damaged: an entry was changed, removed or put in between; the sentence names it.
    """
    found: list[Audited] = []
    size = limit if wanted is None else _PAGE
    for _ in range(_PAGES):
        page = await read_audit(store, after, size)
        for one in page:
            after = one.seq
            if wanted is None or wanted(one.entry):
                found.append(one)
                if len(found) == limit:
                    return found, after
        if len(page) < size:
            return found, None
    return found, after


async def audit_page_before(
    store: Store, before: int, limit: int, wanted: Wanted | None = None
) -> tuple[list[Audited], int | None]:
    """The last entries that are wanted before one, or (0) before the end, oldest first; and before which to go on.

    Short pages and errors are as with :func:`audit_page`.
    """
    end = before or await store.audit_end() + 1
    found: list[Audited] = []
    size = limit if wanted is None else _PAGE
    for _ in range(_PAGES):
        after = max(0, end - 1 - size)
        # Where older ones were taken away, more behind them come along.
        page = (
            [one for one in await read_audit(store, after, end - 1 - after) if one.seq < end] if after < end - 1 else []
        )
        found = [one for one in page if wanted is None or wanted(one.entry)] + found
        if len(found) >= limit:
            return found[-limit:], found[-limit].seq
        if after == 0 or not page or page[0].seq > after + 1:
            return found, None
        end = after + 1
    return found, end


async def export_audit(store: Store, title: Title) -> AsyncIterator[bytes]:
    """The log as a file, in pieces: what ``title`` asks for can be read, of the rest there is the digest.

    Where the log is damaged, or was pruned before the file came there, the file says so, and ends.
    """
    yield title_line(title)
    try:
        before, rows = await _since(store, title.since)
        if before is not None:
            yield row_line(AuditRow(before.seq, b"", before.digest), shown=False)  # an anchor
        while rows:
            entries = check(rows, before)
            yield b"".join(
                row_line(row, shown=is_wanted(title, one.entry)) for row, one in zip(rows, entries, strict=True)
            )
            before = rows[-1]
            follows, rows = await _rows(store, before.seq, _PAGE)
            if follows is not None and follows.seq != before.seq:
                yield problem_line(f"entries up to {follows.seq} were pruned meanwhile, which is no damage")
                return
    except Damaged as error:
        yield problem_line(without_path(error))
        return
    yield end_line(before.seq, before.digest) if before else end_line(0, GENESIS)


async def _since(store: Store, since: float | None) -> tuple[AuditRow | None, list[AuditRow]]:
    """The first rows of a file, and the one that they follow: it begins with the first entry since a time."""
    before, rows = await _rows(store, 0, _PAGE)
    while since is not None and rows:
        entries = check(rows, before)
        for index, one in enumerate(entries):
            if one.entry.at >= since:
                return (rows[index - 1] if index else before), rows[index:]
        before, rows = await _rows(store, rows[-1].seq, _PAGE)
    return before, rows


def is_wanted(title: Title, entry: AuditEntry) -> bool:
    """Return whether an export shows the entry itself. Each one shows who pruned the log."""
    return entry.action == PRUNE or (entry.is_seen_by(title.tenant) and title.session in (None, entry.session))


async def prune_audit(store: Store, before: float, *, by: str, role: str, now: float) -> int:
    """Remove the entries from before a time, and add an entry that says so. Return their number.

    Raises:
        Damaged: the log is damaged there; nothing is removed.
    """
    gone = 0
    telling = AuditEntry(session=SessionId(""), by=by, role=role, action=PRUNE, at=now)
    while taken := await store.trim_audit(min(before, now), telling):
        gone += taken
    return gone
