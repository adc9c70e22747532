"""``midcourse audit``: who did what, as a list and as a file that can be verified anywhere."""

import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from midcourse.cli.command import NOWHERE, STORE, Call, command
from midcourse.cli.printer import plain, print_json, print_lines, print_wrapped, show_table, width_beside
from midcourse.cli.status_text import clock_time
from midcourse.cli.target import argument, opened, option, span_option
from midcourse.clock import SystemClock
from midcourse.core.audit import Audited, Details
from midcourse.core.audit_export import Title, Verified, verify
from midcourse.errors import InvalidInput
from midcourse.handle import Midcourse, Sessions

SHORTEST: Final = 1.0
_PAGE: Final = 1000
_DETAIL: Final = 30
"""Columns that a table must have left for the details."""


SinceOption = Annotated[str | None, option("--since", "SPAN", "Only what is not older: 12h, 7d, 90d.")]
SessionOption = Annotated[str | None, option("--session", "SESSION", "Only what concerns this session.")]
FileArgument = Annotated[Path, argument("FILE", "A file of the log.")]


@command("audit list", "List who did what, the newest last.")
async def show(
    call: Call,
    since: SinceOption = None,
    session: SessionOption = None,
    limit: Annotated[int, option("--limit/-n", "COUNT", "The most that are listed: the newest.", min=1)] = 1000,
) -> None:
    """List who did what, the newest last. On a server this takes the role operate. Changes nothing.

    \b
    Examples:
      midcourse audit list -n 20
      midcourse audit list --since 7d
      midcourse audit list --session sess_0198f2
    """
    now = SystemClock().now()
    async with opened(call) as sessions:
        found = await _newest(sessions, session, _began(since), limit)
    if call.as_json:
        for one in found:
            print_json({"seq": one.seq, **_fields(one)})
    elif found:
        rows = [_row(one, now) for one in found]
        header = ("entry", "when", "who", "role", "did", "outcome", "to", "more")
        if width_beside(header[:-1], [row[:-1] for row in rows]) >= _DETAIL:
            show_table(header, rows, whole=header[:-1])
        else:
            for entry, when, who, role, did, outcome, about, more in rows:
                print_lines(f"{entry}  {when}  {who} ({role})  {did}: {outcome}  {about}".rstrip(), hang=3)
                print_wrapped(plain(more, lines=False), indent=3)
        if len(found) == limit and found[0].seq > 1:
            print_lines(f"The newest {limit:,}. More: -n, or all of them in a file: midcourse audit export FILE")
    else:
        print_lines("Nothing yet.")


@command("audit check", "Check that nothing was changed or left out.")
async def check(call: Call) -> None:
    """Check the whole log: that no entry was changed or removed. Changes nothing.

    \b
    Examples:
      midcourse audit check
    """
    count, last, details = 0, 0, Details()
    async with opened(call) as sessions:
        async for page in _all(sessions):
            count, last = count + len(page), page[-1].seq
            for one in page:
                details.see(one.seq, one.entry)
    details.check()
    if call.as_json:
        print_json({"entries": count, "last": last})
    else:
        print_lines(
            f"{count:,} entries, up to {last}. Each follows from the one before: nothing was changed or left out."
        )


@command("audit export", "Write the log to a file that proves itself.")
async def export(call: Call, file: FileArgument, since: SinceOption = None, session: SessionOption = None) -> None:
    """Write the log to a file that can be verified anywhere. On a server this takes the role operate.

    \b
    Examples:
      midcourse audit export audit.jsonl
      midcourse audit export audit.jsonl --since 7d --session sess_0198f2
    """
    if file.exists():
        raise InvalidInput(f"{file} is there already. Name another file, or remove that one.", field="file")
    partial = file.with_name(f"{file.name}.part")
    try:
        async with opened(call) as sessions:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:  # noqa: ASYNC230 - nothing else waits here
                async for piece in sessions.audit_export(session=session, since=_began(since)):
                    out.write(piece)
        with partial.open("rb") as written:
            found = verify(written)
        partial.rename(file)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written ({error.strerror or error}).", field="file") from error
    finally:
        partial.unlink(missing_ok=True)
    _tell(found, file, as_json=call.as_json)


@command("audit verify", "Verify an exported file.", where=NOWHERE)
async def verify_file(call: Call, file: FileArgument) -> None:
    """Verify a file that `midcourse audit export` wrote. It needs no store and no server. Changes nothing.

    \b
    Examples:
      midcourse audit verify audit.jsonl
    """
    try:
        with file.open("rb") as lines:
            found = verify(lines)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read ({error.strerror or error}).", field="file") from error
    _tell(found, file, as_json=call.as_json)


@command("audit prune", "Remove old entries.", where=STORE)
async def prune(
    call: Call,
    older_than: Annotated[str, option("--older-than", "SPAN", "Remove entries that are older than this.")] = "90d",
) -> None:
    """Remove old entries. A running server does this by itself, after 90 days.

    What is left still proves itself: it follows from the last entry that was removed, and an entry says who did it.
    Export the log first if you want to keep it.

    \b
    Examples:
      midcourse audit prune --older-than 30d
    """
    span = _span(older_than, "--older-than")
    async with opened(call) as sessions:
        assert isinstance(sessions, Midcourse)
        gone = await sessions.prune_audit(SystemClock().now() - span)
    if call.as_json:
        print_json({"pruned": gone})
    else:
        print_lines(f"{gone:,} entries were removed." if gone else f"Nothing is older than {older_than}.")


def _began(since: str | None) -> float | None:
    return None if since is None else SystemClock().now() - _span(since, "--since")


def _span(text: str, option: str) -> float:
    if (seconds := span_option(text, option)) < SHORTEST:
        raise typer.BadParameter(f"{option}: it is at least a second.")
    return seconds


async def _newest(sessions: Sessions, session: str | None, since: float | None, limit: int) -> list[Audited]:
    found: list[Audited] = []
    before = 0
    while len(found) < limit:
        wanted = min(limit - len(found), _PAGE)
        page = await sessions.audit(limit=wanted, session=session, since=since, before=before)
        found = [*page, *found]
        if len(page) < wanted or page[0].seq == 1:
            break
        before = page[0].seq
    return found


async def _all(sessions: Sessions) -> AsyncIterator[Sequence[Audited]]:
    after = 0
    while page := await sessions.audit(after, _PAGE):
        yield page
        after = page[-1].seq


def _fields(one: Audited) -> dict[str, object]:
    return {name: getattr(one.entry, name) for name in one.entry.__struct_fields__}


def _row(one: Audited, now: float) -> tuple[str, ...]:
    entry = one.entry
    about = entry.session or (f"tenant {entry.tenant}" if entry.tenant else "")
    more = "erased" if entry.detail_digest else entry.detail
    return str(one.seq), clock_time(entry.at, now), entry.by, entry.role, entry.action, entry.outcome, about, more


def _tell(found: Verified, file: Path, *, as_json: bool) -> None:
    if as_json:
        shown = ("first", "last", "digest", "withheld")
        title = {name: getattr(found.title, name) for name in ("made_at", "by", "tenant", "session", "since")}
        print_json({name: getattr(found, name) for name in shown} | {"entries": len(found.entries), "title": title})
        return
    if not found.last:
        print_lines(f"{file} is whole: the log was empty.", _titled(found.title))
        return
    rest = f", and of {found.withheld:,} others the digest" if found.withheld else ""
    print_lines(
        f"{file} is whole: entries {found.first} to {found.last}, {len(found.entries):,} of them to read{rest}. "
        + (
            "Nothing was changed or left out."
            if found.first == 1
            else "None of these was changed or left out; what came before them this file does not show."
        ),
        _titled(found.title),
        f"Running digest at entry {found.last}: {found.digest}",
    )


def _titled(title: Title) -> str:
    """Return what a file says of itself, which nothing proves."""
    of = [
        "of all tenants" if title.tenant is None else f"of tenant '{title.tenant}'",
        f"of session {title.session}" if title.session is not None else "",
        f"since {clock_time(title.since, 0.0)}" if title.since is not None else "",
    ]
    return f"It says that it was made by {title.by}, {clock_time(title.made_at, 0.0)}: {', '.join(filter(None, of))}."
