"""The audit log: who did what to which session, over all sessions, in one order that shows tampering. Pure.

Each row carries the running digest over itself and all rows before it, so that a row that was changed, removed or put
in between does not fit what follows. The digest goes over the digest of each entry, and that over the digest of its
detail: a reader who may not see an entry can still check the whole log, and a detail can be erased without breaking it.

Old rows are removed from the beginning. The last of them stays as an anchor, without its content: what is left follows
from its digest.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.codec import GENESIS, digest_of
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.money import exact_money
from midcourse.core.tenants import tenant_of
from midcourse.errors import Damaged, encodable_text

DETAIL_LIMIT: Final = 500
"""The longest detail, in characters."""
UNREADABLE: Final = "unreadable"
"""The action of an unreadable command."""
PRUNE: Final = "audit.prune"
"""The action of removing old entries. Every tenant sees it: it explains where the log begins."""
ERASE: Final = "erase"
"""The action of erasing a session: the details of its entries up to there are gone."""
KEPT: Final = 90 * 86_400.0
"""The default time that entries are kept, in seconds."""
DETAIL_GONE: Final = "its detail is gone, and no later entry tells that its session was erased"
_BORDER: Final = b"\n"
"""Between what is sealed of an entry and its detail. Neither holds one."""


class AuditEntry(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One action on a session.

    ``at`` is when it was decided, in seconds since 1970; the journal that writes the entry sets it. ``action`` is a
    command's verb, or what was done without one. ``outcome`` is ``ok``, or the code it was refused with. ``detail``
    says more on one line of at most 500 characters, and never holds an answer's value. ``session`` is empty for what
    concerns no single one: ``tenant`` then names the tenant.
    """

    session: SessionId
    by: str
    role: str
    action: str
    outcome: str = "ok"
    detail: str = ""
    at: float = 0.0
    tenant: str = ""
    detail_digest: str = ""
    """The digest of a detail that was erased."""
    keep: float = 0.0
    """Seconds for which it stays, however short the log is kept; 0: as long as the log."""

    def __post_init__(self) -> None:
        if self.detail:
            msgspec.structs.force_setattr(self, "detail", _one_line(self.detail))

    @property
    def whose(self) -> str:
        """The tenant that may read it, beside the host."""
        return tenant_of(self.session) if self.session else self.tenant

    def is_seen_by(self, tenant: str | None) -> bool:
        """Return True if a tenant's user may read it. None: the host's."""
        return tenant is None or self.whose == tenant or self.action == PRUNE


class AuditRow(msgspec.Struct, gc=False, frozen=True):
    """An entry as a store gives it: its place, its bytes, the running digest. Unchecked. An anchor has no bytes."""

    seq: int
    content: bytes
    digest: bytes


class Audited(msgspec.Struct, gc=False, frozen=True):
    """An entry at its place in the log, checked. ``seq`` counts from 1, without gaps, over all sessions."""

    seq: int
    entry: AuditEntry


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AuditEntry)


def encode_entry(entry: AuditEntry) -> bytes:
    """Encode an entry for the log: the sealed part, with the digest of the detail, and then the detail."""
    detail = entry.detail.encode()
    sealed = replace(entry, detail="", detail_digest=digest_of(detail) if detail else entry.detail_digest)
    return _encoder.encode(sealed) + _BORDER + detail


def decode_entry(content: bytes) -> AuditEntry:
    """Decode an entry of the log. One whose detail was erased has its digest in ``detail_digest``.

    Raises:
        Damaged: it cannot be read, or its detail is not the one that was written.
    """
    sealed, _, detail = content.partition(_BORDER)
    try:
        entry = _decoder.decode(sealed)
        if not detail:
            return entry
        if digest_of(detail) != entry.detail_digest:
            raise Damaged("Its detail was changed.")
        return replace(entry, detail=detail.decode(), detail_digest="")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged(f"An entry of the audit log cannot be read ({error}).") from error


def split_entry(content: bytes) -> tuple[bytes, str]:
    """Return the sealed part of an entry, as it was written, and its detail."""
    sealed, _, detail = content.partition(_BORDER)
    return sealed, detail.decode("utf-8", "replace")


def without_detail(content: bytes) -> bytes:
    """Return the same entry with its detail erased. The digest of the log stays the same."""
    return content.partition(_BORDER)[0] + _BORDER


def digest_of_entry(content: bytes) -> str:
    """Return the digest of an entry, the same before and after its detail was erased."""
    return digest_of(content.partition(_BORDER)[0])


def linked(before: bytes, seq: int, entry: str) -> bytes:
    """Return the running digest after an entry whose own digest is ``entry``."""
    return hashlib.blake2b(before + seq.to_bytes(8, "big") + bytes.fromhex(entry), digest_size=16).digest()


def follow(last: AuditRow | None, ends: int, contents: Iterable[bytes]) -> list[AuditRow]:
    """Return the rows that write ``contents`` after ``last``, the last row that is left of the ``ends`` ever written.

    A number is used once: where rows were removed from the end, the gap stays visible.
    """
    seq, digest = (max(last.seq, ends), last.digest) if last else (max(ends, 0), GENESIS)
    rows: list[AuditRow] = []
    for content in contents:
        seq += 1
        digest = linked(digest, seq, digest_of_entry(content))
        rows.append(AuditRow(seq, content, digest))
    return rows


def check(rows: Iterable[AuditRow], before: AuditRow | None = None) -> list[Audited]:
    """Return the entries in ``rows``, which follow ``before``, or begin the log: with its first entry, or an anchor.

    Raises:
        Damaged: a row was changed, removed or put in between.
    """
    seq, digest = (before.seq, before.digest) if before else (0, GENESIS)
    entries: list[Audited] = []
    for row in rows:
        if seq == 0 and not row.content:
            seq, digest = row.seq, row.digest
            continue
        seq += 1
        if row.seq != seq:
            raise damaged_audit(seq, "it is missing", found=row.seq)
        if linked(digest, seq, digest_of_entry(row.content)) != row.digest:
            raise damaged_audit(seq, "it does not follow from the entry before it; one of the two was changed")
        digest = row.digest
        try:
            entries.append(Audited(seq, decode_entry(row.content)))
        except Damaged as error:
            raise damaged_audit(seq, error.message) from error
    return entries


def check_end(rows: Iterable[AuditRow], ends: int, *, after: int) -> None:
    """Refuse ``rows`` as all there is behind ``after``, if ``ends`` were written.

    Raises:
        Damaged: rows are missing at the end.
    """
    last = max((row.seq for row in rows), default=after)
    if last < ends:
        raise damaged_audit(last + 1, f"it is missing, with all that came behind it up to {ends}", found=ends)


class Details:
    """Check, entry by entry, for details that are gone although their session was not erased afterwards."""

    def __init__(self) -> None:
        self._gone: dict[SessionId, int] = {}

    def see(self, seq: int, entry: AuditEntry) -> None:
        """Add the next entry."""
        if entry.action == ERASE and entry.outcome == "ok" and entry.session:
            self._gone.pop(entry.session, None)
        if entry.detail_digest:
            self._gone.setdefault(entry.session, seq)

    @property
    def missing(self) -> int | None:
        """The first entry whose detail was removed by hand, once all were seen."""
        return min(self._gone.values(), default=None)

    def check(self) -> None:
        """Refuse the log if there is one.

        Raises:
            Damaged: its detail is gone.
        """
        if self.missing is not None:
            raise damaged_audit(self.missing, DETAIL_GONE)


class Prunable(msgspec.Struct, gc=False, frozen=True):
    """The rows that may be removed at the beginning of a log: how many, an earlier anchor among them."""

    rows: int
    entries: int


def prunable(rows: Iterable[AuditRow], before: float, limit: int, now: float) -> Prunable:
    """Return the rows, at the log's beginning, of entries from before a time: at most ``limit`` of them.

    An entry from the future, written while a clock was wrong, is removed with the old ones after it. An entry that must
    be kept for longer keeps all that came after it: only the beginning of a log can be removed.

    Raises:
        Damaged: a row was changed, removed or put in between. A removal would hide that.
    """
    found = list(rows)
    entries = check(found)
    old = 0
    for index, one in enumerate(entries[:limit], 1):
        entry = one.entry
        if entry.at > now:
            continue
        if entry.at >= before or entry.at + entry.keep > now:
            break
        old = index
    return Prunable(len(found) - len(entries) + old, old)


def pruned(telling: AuditEntry, last: int, count: int) -> AuditEntry:
    """Return ``telling``, which names the one who removed entries, with these."""
    return replace(telling, detail=f"up to entry {last}: {count} of them")


def is_pruned_to(entry: AuditEntry, last: int) -> bool:
    """Return True if it reports that the entries up to ``last`` were removed."""
    return entry.action == PRUNE and entry.detail.startswith(f"up to entry {last}:")


def damaged_audit(seq: int, why: str, *, found: int | None = None) -> Damaged:
    """Return the error for a log that was changed; ``found``: where the rest of it begins."""
    on = seq if found is None else found
    return Damaged(
        f"The audit log is damaged at entry {seq}: {why.rstrip('.')}. A person, or a bad disk, changed the store; "
        f"compare it with a backup. What came later can be read with after={on}.",
        seq=seq,
    )


def decided(session: SessionId, command: cmd.AnyCommand, outcome: str, events: Iterable[ev.AnyEvent]) -> AuditEntry:
    """Return the entry of a command that was decided, and made ``events``."""
    return AuditEntry(
        session=session,
        by=command.by,
        role=command.role,
        action=cmd.verb(command),
        outcome=outcome,
        detail="; ".join(_words(command, events)),
    )


def made(session: SessionId, by: str, role: str, action: str, detail: str, at: float) -> AuditEntry:
    """Return the entry of a session's creation: there is no command for it, so it comes with its first rows."""
    return AuditEntry(session=session, by=by, role=role, action=action, detail=detail, at=at)


def unreadable(session: SessionId, command_id: CommandId, outcome: str, why: str) -> AuditEntry:
    """Return the entry of a command that was refused because it, and so its sender, cannot be read."""
    detail = f"command '{command_id}': {why}"
    return AuditEntry(session=session, by="", role="", action=UNREADABLE, outcome=outcome, detail=detail)


def _words(command: cmd.AnyCommand, events: Iterable[ev.AnyEvent]) -> list[str]:
    # What is short comes first: the detail is cut at its end.
    match command:
        case cmd.Pause(reason=reason, grace=grace):
            words = [_seconds(grace), reason]
        case cmd.Cancel(reason=reason, grace=grace, undo=undo, force=force, restart=restart):
            words = [
                "forced" if force else "",
                "begun anew" if restart else "",
                _seconds(grace),
                f"undo {undo}" if undo else "",
                reason,
            ]
        case cmd.Redirect(text=text, level=level, grace=grace, resume=resume):
            words = [level, _seconds(grace), "and resume" if resume else "", text]
        case cmd.Resume(pause=pause):
            words = [
                pause
                or next((one.pause or "" for one in events if isinstance(one, ev.SessionResumed | ev.PauseLifted)), "")
            ]
        case cmd.Answer(ask=ask):
            # Only which ask: its value may be a secret.
            words = [ask or next((one.ask for one in events if isinstance(one, ev.AskAnswered)), "")]
        case cmd.Halt(reason=reason) | cmd.Undo(reason=reason):
            words = [reason]
        case cmd.Message(text=text, behaviour=behaviour):
            words = [behaviour, text]
        case cmd.Edit(message=message, text=text):
            words = [message, text]
        case cmd.Withdraw(message=message):
            words = [message]
        case cmd.OutsideEvent(text=text, source=source):
            words = [source, text]
        case cmd.Budget(budget=budget, resume=resume):
            words = [exact_money(budget), "and resume" if resume else ""]
        case cmd.Intervene(decision=decision):
            words = [decision.level, decision.sentence]
        case cmd.Label(about=about, verdict=verdict, note=note):
            words = [about, verdict, note]
        case cmd.Rate(score=score, note=note):
            words = [f"{score} of 5", note]
        case cmd.Lift():
            words = []
        case _:
            assert_never(command)
    return [word for word in words if word]


def _seconds(grace: float | None) -> str:
    return "" if grace is None else f"grace {grace:g} s"


def _one_line(text: str) -> str:
    shown = " ".join(encodable_text(text[: 4 * DETAIL_LIMIT]).split())
    whole = len(shown) <= DETAIL_LIMIT and len(text) <= 4 * DETAIL_LIMIT
    return shown if whole else shown[: DETAIL_LIMIT - 1] + "…"
