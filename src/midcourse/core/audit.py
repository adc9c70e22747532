"""The audit log: who wished or did what to which session, over all sessions, in one order that shows tampering. Pure.

Each row carries the running digest over itself and all rows before it, so that a row that was changed, removed or put
in between does not fit what follows.
"""

from collections.abc import Iterable
from typing import Final, assert_never

import msgspec

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.codec import GENESIS, chain
from midcourse.core.ids import CommandId, SessionId
from midcourse.errors import Damaged, spelled_out

DETAIL_LIMIT: Final = 500
"""The longest detail, in characters."""
UNREADABLE: Final = "unreadable"
"""The action of a command that nobody can read."""


class AuditEntry(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody wished or did something to a session.

    ``at`` is when it was decided, in seconds since 1970; the journal that writes the entry sets it. ``action`` is a
    command's verb, or what was done without one. ``outcome`` is ``ok``, or the code it was refused with. ``detail``
    says more on one line of at most 500 characters, and never holds an answer's value.
    """

    session: SessionId
    by: str
    role: str
    action: str
    outcome: str = "ok"
    detail: str = ""
    at: float = 0.0

    def __post_init__(self) -> None:
        if self.detail:
            msgspec.structs.force_setattr(self, "detail", _one_line(self.detail))


class AuditRow(msgspec.Struct, gc=False, frozen=True):
    """An entry as a store gives it: its place, its bytes, the running digest. Unchecked."""

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
    """An entry as it lies in the log."""
    return _encoder.encode(entry)


def decode_entry(content: bytes) -> AuditEntry:
    """An entry from the log.

    Raises:
        Damaged: it cannot be read.
    """
    try:
        return _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged(f"An entry of the audit log cannot be read ({error}).") from error


def follow(last: AuditRow | None, ends: int, contents: Iterable[bytes]) -> list[AuditRow]:
    """The rows that write ``contents`` behind ``last``, the last row that is left of the ``ends`` ever written.

    A number is used once: where rows were removed from the end, the gap stays to be seen.
    """
    seq, digest = (max(last.seq, ends), last.digest) if last else (max(ends, 0), GENESIS)
    rows: list[AuditRow] = []
    for content in contents:
        seq += 1
        digest = chain(digest, seq, content)
        rows.append(AuditRow(seq, content, digest))
    return rows


def check(rows: Iterable[AuditRow], before: AuditRow | None = None) -> list[Audited]:
    """The entries in ``rows``, which follow ``before``, or begin the log.

    Raises:
        Damaged: a row was changed, removed or put in between.
    """
    seq, digest = (before.seq, before.digest) if before else (0, GENESIS)
    entries: list[Audited] = []
    for row in rows:
        seq += 1
        if row.seq != seq:
            raise damaged_audit(seq, "it is missing", found=row.seq)
        if chain(digest, seq, row.content) != row.digest:
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


def damaged_audit(seq: int, why: str, *, found: int | None = None) -> Damaged:
    """The error for a log that cannot be what was written; ``found``: where what is left of it goes on."""
    on = seq if found is None else found
    return Damaged(
        f"The audit log is damaged at entry {seq}: {why.rstrip('.')}. Somebody, or a bad disk, changed the store; "
        f"compare it with a backup. What came later can be read with after={on}.",
        seq=seq,
    )


def decided(session: SessionId, command: cmd.AnyCommand, outcome: str, events: Iterable[ev.AnyEvent]) -> AuditEntry:
    """The entry of a command that was decided, and made ``events``."""
    return AuditEntry(
        session=session,
        by=command.by,
        role=command.role,
        action=cmd.verb(command),
        outcome=outcome,
        detail="; ".join(_words(command, events)),
    )


def unreadable(session: SessionId, command_id: CommandId, outcome: str, why: str) -> AuditEntry:
    """The entry of a command that was refused because nobody can read it, nor tell whose it was."""
    detail = f"command '{command_id}': {why}"
    return AuditEntry(session=session, by="", role="", action=UNREADABLE, outcome=outcome, detail=detail)


def _words(command: cmd.AnyCommand, events: Iterable[ev.AnyEvent]) -> list[str]:
    # What is short comes first: the detail is cut at its end.
    match command:
        case cmd.Pause(reason=reason, grace=grace):
            words = [_seconds(grace), reason]
        case cmd.Cancel(reason=reason, grace=grace, undo=undo):
            words = [_seconds(grace), f"undo {undo}" if undo else "", reason]
        case cmd.Redirect(text=text, level=level, grace=grace, resume=resume):
            words = [level, _seconds(grace), "and resume" if resume else "", text]
        case cmd.Resume(pause=pause):
            words = [pause or next((one.pause or "" for one in events if isinstance(one, ev.SessionResumed)), "")]
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
            words = [f"${budget:.12g}", "and resume" if resume else ""]
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
    shown = " ".join(spelled_out(text[: 4 * DETAIL_LIMIT]).split())
    whole = len(shown) <= DETAIL_LIMIT and len(text) <= 4 * DETAIL_LIMIT
    return shown if whole else shown[: DETAIL_LIMIT - 1] + "…"
