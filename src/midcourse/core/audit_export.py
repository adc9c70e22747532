"""The audit log as a file that proves itself: JSON lines, of which each follows from the one before. Pure.

The first line says what the file is, the last where it ends. In between there is a line for every entry of the log,
without a gap. Who may not read an entry, or did not ask for it, gets its digest in its place: that is enough to check
that nothing was changed or left out.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from midcourse.core.audit import (
    DETAIL_GONE,
    AuditEntry,
    AuditRow,
    Details,
    decode_entry,
    digest_of_entry,
    is_pruned_to,
    linked,
    split_entry,
)
from midcourse.core.codec import GENESIS
from midcourse.errors import Damaged

FORMAT: Final = "midcourse.audit@1"
LINE_LIMIT: Final = 64 * 1024
"""Bytes of the longest line that is read."""
_encoder = msgspec.json.Encoder()
_NONE: Final = msgspec.Raw(b"")


class Title(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """The first line: whose file this is. ``tenant`` None: the host's, with every entry."""

    format: str = ""
    made_at: float
    by: str
    tenant: str | None = None
    session: str | None = None
    since: float | None = None


class Line(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """An entry at its place. ``entry`` is what is sealed of it, byte by byte; ``withheld`` its digest alone.

    A line with neither is an anchor: the file begins behind that entry.
    """

    seq: int
    digest: str
    entry: msgspec.Raw = _NONE
    detail: str = ""
    withheld: str = ""


class End(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The last line: where the log ended."""

    ends: int
    digest: str


class Verified(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The contents of a valid file. ``digest`` is the running one at its end: files with the same digest are equal."""

    title: Title
    first: int
    last: int
    digest: str
    entries: tuple[tuple[int, AuditEntry], ...]
    withheld: int


def title_line(title: Title) -> bytes:
    return _encoder.encode(msgspec.structs.replace(title, format=FORMAT)) + b"\n"


def row_line(row: AuditRow, *, shown: bool) -> bytes:
    """Return the line of a row: with its entry, or with its digest alone."""
    line = Line(seq=row.seq, digest=row.digest.hex())
    if row.content and shown:
        sealed, detail = split_entry(row.content)
        line = msgspec.structs.replace(line, entry=msgspec.Raw(sealed), detail=detail)
    elif row.content:
        line = msgspec.structs.replace(line, withheld=digest_of_entry(row.content))
    return _encoder.encode(line) + b"\n"


def end_line(ends: int, digest: bytes) -> bytes:
    return _encoder.encode(End(ends=ends, digest=digest.hex())) + b"\n"


def problem_line(sentence: str) -> bytes:
    """Stands where the log could not be read any further."""
    return _encoder.encode({"problem": sentence}) + b"\n"


def verify(lines: Iterable[bytes]) -> Verified:
    """Return the contents of an exported file, if nothing of it was changed or left out since.

    Raises:
        Damaged: it was; the sentence names the line and the entry, and so do ``line`` and ``seq`` of the error.
    """
    numbered = iter(enumerate(lines, start=1))
    _, first_line = next(numbered, (1, b""))
    title = _title(first_line)
    first, seq, digest, number = 0, 0, GENESIS, 1
    entries: list[tuple[int, AuditEntry]] = []
    withheld, pruned_to, explained = 0, 0, False
    details = Details()
    for number, text in numbered:
        line = _line(number, text, seq + 1)
        if isinstance(line, End):
            _check_end(line, number, seq, digest)
            if next(numbered, None) is not None:
                raise _wrong(number + 1, seq + 1, "it is after the end of the log")
            if pruned_to and title.since is None and not explained:
                raise _wrong(2, pruned_to, "entries before it are gone, and no entry tells who took them away")
            if details.missing is not None:
                raise _wrong(number - seq + details.missing - 1, details.missing, DETAIL_GONE)
            return Verified(
                title=title, first=first, last=seq, digest=line.digest, entries=tuple(entries), withheld=withheld
            )
        if not bytes(line.entry) and not line.withheld:
            if number != 2:
                raise _wrong(number, line.seq, "an entry is left out")
            seq, digest, pruned_to = line.seq, bytes.fromhex(line.digest), line.seq
            continue
        seq += 1
        first = first or seq
        entry = _checked(line, number, seq, digest)
        digest = bytes.fromhex(line.digest)
        if entry is None:
            if title.tenant is None and title.session is None:
                raise _wrong(number, seq, "it is withheld, and the title says that every entry can be read")
            withheld += 1
        else:
            details.see(seq, entry)
            explained = explained or is_pruned_to(entry, pruned_to)
            entries.append((seq, entry))
    raise _wrong(number + 1, seq + 1, "the file ends before the log does")


def _title(text: bytes) -> Title:
    try:
        title = msgspec.json.decode(text[:LINE_LIMIT], type=Title)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged("This is no exported audit log: its first line does not say so.", line=1) from error
    if title.format != FORMAT:
        raise Damaged(
            f"This is an audit log of the format '{title.format[:100]}', and this Midcourse reads {FORMAT}. "
            "Use the Midcourse that wrote it.",
            line=1,
        )
    return title


class _Any(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    problem: str | None = None
    ends: int | None = None


def _line(number: int, text: bytes, seq: int) -> Line | End:
    if len(text) > LINE_LIMIT:
        raise _wrong(number, seq, "it is longer than any that was written")
    try:
        kind = msgspec.json.decode(text, type=_Any)
        if kind.problem is not None:
            raise _wrong(number, seq, f"the log could not be read any further when the file was made: {kind.problem}")
        line = msgspec.json.decode(text, type=End if kind.ends is not None else Line)
        if len(bytes.fromhex(line.digest)) != len(GENESIS):
            raise ValueError("a digest of another length")
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise _wrong(number, seq, f"it cannot be read ({error})") from error
    return line


def _checked(line: Line, number: int, seq: int, before: bytes) -> AuditEntry | None:
    """Return the entry of a line that is at its place and follows from the last digest; None if it is withheld."""
    if line.seq != seq:
        raise _wrong(number, seq, f"it is missing; the file continues with {line.seq}")
    sealed = bytes(line.entry)
    content = sealed and sealed + b"\n" + line.detail.encode()
    own = digest_of_entry(content) if content else line.withheld
    try:
        follows = linked(before, seq, own).hex() == line.digest
        entry = decode_entry(content) if content else None
    except (Damaged, ValueError) as error:
        raise _wrong(number, seq, str(error).rstrip(".")) from error
    if not follows:
        raise _wrong(number, seq, "it does not follow from the entry before it; one of the two was changed")
    return entry


def _check_end(line: End, number: int, seq: int, digest: bytes) -> None:
    if (line.ends, line.digest) != (seq, digest.hex()):
        raise _wrong(number, seq, f"the log ended with entry {line.ends}, and the file does not")


def _wrong(line: int, seq: int, why: str) -> Damaged:
    return Damaged(
        f"The exported audit log is wrong at line {line}, entry {seq}: {why}. The file was changed, or it is not "
        "whole. Export it again, and compare the two.",
        line=line,
        seq=seq,
    )
