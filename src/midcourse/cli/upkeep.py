"""``midcourse erase``, ``compact``, ``backup`` and ``restore``: looking after the store."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from midcourse.api import Midcourse
from midcourse.cli.opening import (
    DEFAULT_STORE,
    HERE,
    JsonOption,
    StoreOption,
    Target,
    find,
    opened,
    store_path,
    with_target,
)
from midcourse.cli.people import me
from midcourse.cli.printing import carry_out, print_json, say
from midcourse.core.bulk import MOST_SESSIONS, NOT_REACHABLE, BulkOutcome
from midcourse.core.ids import SessionId, depth_of
from midcourse.core.policy.spans import span_of
from midcourse.core.session import Status
from midcourse.errors import InvalidInput
from midcourse.handle import Sessions
from midcourse.runtime.restoring import BY as RESTORE
from midcourse.wiring import back_up, compact, restore

_DAY: Final = 86_400
_FILE: Final = "midcourse.db"


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("erase", short_help="Erase what was said in sessions that have ended.")(erase_command)
    app.command("lift", short_help="Let sessions go on that a restore had halted.")(lift_command)
    app.command("compact", short_help="Make sure that what was erased lies nowhere any more.")(compact_command)
    app.command("backup", short_help="Copy a store to a file, while it is used.")(backup_command)
    app.command("restore", short_help="Make a store of a backup; what had not ended is halted.")(restore_command)


@with_target
def erase_command(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="A session's id, or enough of its beginning.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="SPAN", help="All that ended so long ago: 90d, 12h.")
    ] = None,
    children: Annotated[bool, typer.Option("--children", help="Its children, too.")] = False,
    reason: Annotated[str, typer.Option(metavar="WORDS", help="Why. It stays, in the journal and the audit log.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Erase every text of a session that has ended: goal, messages, arguments, results, answers, reports, reasons.

    When what happened, states, costs, receipts, the names of agents and tools and who did what stay, and so do the
    digests that prove it. It cannot be taken back. Run 'midcourse compact' afterwards: until then the disk may still
    hold the text. Backups that were made before hold it, too.

    \b
    Examples:
      midcourse erase sess_0198f2 --reason "asked for by the customer"
      midcourse erase --older-than 90d --yes
      midcourse compact
    """
    if (session is None) == (older_than is None):
        raise typer.BadParameter("Name a session, or give --older-than.")
    days = None if older_than is None else _days(older_than)

    async def work() -> None:
        async with opened(target) as sessions:
            if session is not None:
                handle = await find(sessions, session)
                _be_sure(f"Erase what was said in session {handle.id}{' and its children' if children else ''}?", yes)
                await handle.erase(reason, children=children, by=me())
                ids = [str(handle.id)]
            else:
                if not isinstance(sessions, Midcourse) or days is None:
                    raise InvalidInput(
                        "--older-than is for a store in a file. A server does it itself: midcourse serve --keep-for.",
                        field="older_than",
                    )
                _be_sure(f"Erase all sessions that ended more than {days:g} days ago?", yes)
                ids = [str(one.id) for one in await sessions.erase_older(days, by=me())]
        if as_json:
            print_json({"erased": ids})
            return
        shown = ids[0] if len(ids) == 1 else f"{len(ids)} sessions"
        say(f"{shown} erased." if ids else "There is none that ended so long ago.")
        if ids:
            say("Until 'midcourse compact' has run, the disk may still hold the text.")

    carry_out(work(), as_json=as_json)


@with_target
def lift_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SESSION]...", help="Sessions' ids, or enough of their beginnings.", show_default=False
        ),
    ] = None,
    restored: Annotated[bool, typer.Option("--restored", help="Every session that a restore halted.")] = False,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Of those, an agent's.")] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="LABEL", help="Of those, with this label.")] = None,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Let sessions go on that a restore had halted: each is back where it was. An operator's.

    What was in flight when it was halted is listed: nobody can say what became of it. One that is refused keeps no
    other from it. What a kill switch halted is let go with 'midcourse kill-switch release'.

    \b
    Examples:
      midcourse lift sess_0198f2 --store sqlite:///restored/midcourse.db
      midcourse lift sess_0198f2 sess_0198f3
      midcourse lift --restored --agent records-cleaner
    """
    selects = restored or agent is not None or label is not None
    if selects == bool(names):
        raise typer.BadParameter("Name sessions; or give --restored, --agent or --label: not both.")

    async def work() -> None:
        async with opened(target) as sessions:
            if names:
                wanted = [(await find(sessions, one)).id for one in names]
            else:
                wanted = await _restored(sessions, agent, label)
            done: list[BulkOutcome] = []
            for start in range(0, len(wanted), MOST_SESSIONS):
                done += await sessions.bulk("lift", wanted[start : start + MOST_SESSIONS], by=me())
        if as_json:
            print_json({"outcomes": done})
        else:
            for one in done:
                lost = f"; in flight, and unknown: {', '.join(one.unknown)}" if one.unknown else ""
                say(f"{one.session}  {f'is {one.status}{lost}' if one.ok else one.problem}")
            if not done:
                say("Nothing of that is halted by a restore.")
            elif len(done) > 1:
                say(f"{sum(one.ok for one in done)} of {len(done)} are back where they were.")
        if not all(one.ok or one.code == NOT_REACHABLE for one in done):
            raise typer.Exit(1)

    carry_out(work(), as_json=as_json)


async def _restored(sessions: Sessions, agent: str | None, label: str | None) -> list[SessionId]:
    """The sessions that a restore halted, parents before their children."""
    found: list[SessionId] = []
    before: str | None = None
    while heads := await sessions.list(status=[Status.HALTED], agent=agent, limit=MOST_SESSIONS, before=before):
        before = heads[-1].id
        for head in heads:
            if head.switch or (label is not None and label not in head.labels):
                continue
            if (await (await sessions.get(head.id)).state()).halted_by == RESTORE:
                found.append(head.id)
    return sorted(found, key=lambda one: (depth_of(one), one))


def _days(written: str) -> float:
    try:
        return float(span_of(written)) / _DAY
    except ValueError as error:
        raise typer.BadParameter(f"--older-than: {error}.") from error


def _be_sure(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("This cannot be taken back: give --yes to do it without being asked.", field="yes")
    typer.confirm(f"{question} This cannot be taken back.", abort=True)


def compact_command(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Write the store's file anew and empty its log, so that nothing of what was erased lies in either any more.

    Servers and programs may have the store open: what they write waits for it, about a second for every 100 MB; stop
    them first where it has more than a gigabyte. It needs as much free room again as the store is large. If somebody
    reads all the time, it says so, and the log is not empty.

    \b
    Examples:
      midcourse compact
      midcourse compact --store sqlite:///runs.db
    """
    path = _path(store)

    async def work() -> None:
        before, after = await asyncio.to_thread(compact, path)
        if as_json:
            print_json({"store": str(path), "bytes_before": before, "bytes_after": after})
        else:
            say(f"{path}: {_size(before)} before, {_size(after)} now. Nothing of what was erased is left in it.")

    carry_out(work(), as_json=as_json)


def backup_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the backup goes. It is never overwritten.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a store to a file, as it is at one moment, while servers and programs write; and check the copy.

    The copy is as secret as the store. What is erased later is still in it.

    \b
    Examples:
      midcourse backup runs-2026-07-01.db
      midcourse backup /backups/runs.db --store sqlite:///runs.db
    """
    path = _path(store)

    async def work() -> None:
        told = _told("copied", as_json)
        size = await asyncio.to_thread(back_up, path, file, told)
        if as_json:
            print_json({"store": str(path), "backup": str(file), "bytes": size})
        else:
            say(f"{file}: {_size(size)}, checked. Bring it back with: midcourse restore {file} --into FOLDER")

    carry_out(work(), as_json=as_json)


def restore_command(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="What 'midcourse backup' made.")],
    into: Annotated[
        Path, typer.Option("--into", metavar="FOLDER_OR_FILE", help="Where the store is to be. There must be none.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Make a store of a backup. Sessions that had not ended are halted, because the original may still run.

    What was in flight when the backup was made is listed: nobody can say what became of it. An operator lifts a
    session, which then goes on without doing again what had finished, or cancels it.

    \b
    Examples:
      midcourse restore runs-2026-07-01.db --into restored/
      midcourse ps --store sqlite:///restored/midcourse.db
    """
    to = into / _FILE if into.is_dir() or not into.suffix else into

    async def work() -> None:
        tellers = {"copied": _told("copied", as_json), "halted": _told("halted", as_json)}
        restored = await restore(backup, to, lambda what, done, every: tellers[what](done, every))
        if as_json:
            print_json({"store": str(to), **{name: getattr(restored, name) for name in restored.__struct_fields__}})
        else:
            say(f"{to}: {restored.ended} sessions that had ended, {len(restored.halted)} halted.")
            for session_id in restored.halted:
                steps = restored.unknown.get(session_id, ())
                say(f"  {session_id}  halted{'; in flight, and unknown: ' + ', '.join(steps) if steps else ''}")
            if restored.halted:
                say(f"Make sure that the original does not run. Then: midcourse lift --restored --store {to}")
            for session_id, why in restored.failed.items():
                say(f"  {session_id}  could not be halted: {why}")
        if restored.failed:
            raise typer.Exit(1)

    carry_out(work(), as_json=as_json)


def _path(store: str | None) -> Path:
    path = store_path(store or DEFAULT_STORE)
    if path is None:
        raise typer.BadParameter("This is for a store in a file: --store sqlite:///runs.db.")
    return path


def _told(what: str, as_json: bool) -> Callable[[int, int], None]:
    """Tells a person at a terminal how far it is, at every tenth."""
    last = -1

    def tell(done: int, every: int) -> None:
        nonlocal last
        tenth = 10 * done // every if every else 10
        if tenth != last and not as_json and sys.stderr.isatty():
            last = tenth
            print(f"\r{what}: {10 * tenth} %", end="\n" if tenth == 10 else "", file=sys.stderr, flush=True)

    return tell


def _size(count: int) -> str:
    return f"{count / 1024**2:,.1f} MB"
