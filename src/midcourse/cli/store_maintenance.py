"""``midcourse session erase``, ``compact``, ``backup`` and ``restore``: looking after the store."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from midcourse.cli.command import NOWHERE, STORE, Call, command
from midcourse.cli.printer import print_json, print_lines
from midcourse.cli.target import DEFAULT_STORE, argument, find, flag, opened, option, span_option, store_path
from midcourse.core.bulk import MOST_SESSIONS, NOT_REACHABLE, BulkOutcome
from midcourse.core.ids import SessionId, depth_of
from midcourse.core.session import Status
from midcourse.errors import InvalidInput
from midcourse.handle import Midcourse, Sessions
from midcourse.upkeep.restore import BY as RESTORE
from midcourse.wiring import back_up, compact, restore

_DAY: Final = 86_400
_FILE: Final = "midcourse.db"


@command("session erase", "Erase the texts of ended sessions.")
async def erase_command(
    call: Call,
    session: Annotated[str | None, argument("[SESSION]", "A session's id, or the beginning of it.")] = None,
    older_than: Annotated[
        str | None, option("--older-than", "SPAN", "Every session that ended longer ago: 90d, 12h.")
    ] = None,
    children: Annotated[bool, flag("--children", "Also erase its children.")] = False,
    reason: Annotated[str, typer.Option(metavar="WORDS", help="Why: kept in the journal and the audit log.")] = "",
    yes: Annotated[bool, flag("--yes/-y", "Do not ask for confirmation.")] = False,
) -> None:
    """Erase every text of an ended session: goal, messages, arguments, results, answers, reports, reasons.

    Times, states, costs, receipts, the names of agents and tools, who did what, and the digests that prove it are
    kept. You cannot undo this. Run 'midcourse store compact' afterwards: until then the disk may still hold the text.
    Earlier backups hold it, too.

    \b
    Examples:
      midcourse session erase sess_0198f2 --reason "asked for by the customer"
      midcourse session erase --older-than 90d --yes
      midcourse store compact
    """
    if (session is None) == (older_than is None):
        raise typer.BadParameter("Name a session, or give --older-than.")
    days = None if older_than is None else span_option(older_than, "--older-than") / _DAY

    async with opened(call) as sessions:
        if session is not None:
            handle = await find(sessions, session)
            _be_sure(f"Erase what was said in session {handle.id}{' and its children' if children else ''}?", yes)
            await handle.erase(reason, children=children)
            ids = [str(handle.id)]
        else:
            if not isinstance(sessions, Midcourse) or days is None:
                raise InvalidInput(
                    "--older-than is for a store in a file. A server does it itself: midcourse serve --keep-for.",
                    field="older_than",
                )
            _be_sure(f"Erase all sessions that ended more than {days:g} days ago?", yes)
            ids = [str(one.id) for one in await sessions.erase_older(days)]
    if call.as_json:
        print_json({"erased": ids})
        return
    shown = ids[0] if len(ids) == 1 else f"{len(ids)} sessions"
    print_lines(f"{shown} erased." if ids else "No session ended so long ago.")
    if ids:
        print_lines("Until 'midcourse store compact' has run, the disk may still hold the text.")


@command("session lift", "Let sessions continue that a restore halted.")
async def lift_command(
    call: Call,
    names: Annotated[
        list[str] | None, argument("[SESSION]...", "The sessions' ids, or the beginnings of them.")
    ] = None,
    restored: Annotated[bool, flag("--restored", "Every session that a restore halted.")] = False,
    agent: Annotated[str | None, option("--agent", "NAME", "Only those of this agent.")] = None,
    label: Annotated[str | None, option("--label", "LABEL", "Only those with this label.")] = None,
) -> None:
    """Let sessions continue that a restore halted: each returns to the state it was in. This takes the role operate.

    Calls that were in flight when the backup was made are listed, as their outcome is unknown. If one session is
    refused, the others still continue. For sessions that a kill switch halted, use 'midcourse kill-switch release'.

    \b
    Examples:
      midcourse session lift sess_0198f2 --store sqlite:///restored/midcourse.db
      midcourse session lift sess_0198f2 sess_0198f3
      midcourse session lift --restored --agent records-cleaner
    """
    selects = restored or agent is not None or label is not None
    if selects == bool(names):
        raise typer.BadParameter("Name sessions; or give --restored, --agent or --label: not both.")

    async with opened(call) as sessions:
        if names:
            wanted = [(await find(sessions, one)).id for one in names]
        else:
            wanted = await _restored(sessions, agent, label)
        done: list[BulkOutcome] = []
        for start in range(0, len(wanted), MOST_SESSIONS):
            done += await sessions.bulk("lift", wanted[start : start + MOST_SESSIONS])
    if call.as_json:
        print_json({"outcomes": done})
    else:
        for one in done:
            lost = f"; in flight, and unknown: {', '.join(one.unknown)}" if one.unknown else ""
            print_lines(f"{one.session}  {f'is {one.status}{lost}' if one.ok else one.problem}")
        if not done:
            print_lines("No such session is halted by a restore.")
        elif len(done) > 1:
            print_lines(f"{sum(one.ok for one in done)} of {len(done)} are back where they were.")
    if not all(one.ok or one.code == NOT_REACHABLE for one in done):
        raise typer.Exit(1)


async def _restored(sessions: Sessions, agent: str | None, label: str | None) -> list[SessionId]:
    """Return the sessions that a restore halted, parents before their children."""
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


def _be_sure(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("You cannot undo this. Add --yes to do it without a question.", field="yes")
    typer.confirm(f"{question} You cannot undo this.", abort=True)


@command("store compact", "Remove what was erased from the disk.", where=STORE)
async def compact_command(call: Call) -> None:
    """Rewrite the store's file and empty its log, so that neither holds what was erased.

    Servers and programs may have the store open: their writes wait, about a second per 100 MB. Stop them first if the
    store has more than a gigabyte. This needs as much free space as the store takes. If a program reads all the time,
    the log cannot be emptied, and this says so.

    \b
    Examples:
      midcourse store compact
      midcourse store compact --store sqlite:///runs.db
    """
    path = _path(call.store)

    before, after = await asyncio.to_thread(compact, path)
    if call.as_json:
        print_json({"store": str(path), "bytes_before": before, "bytes_after": after})
    else:
        print_lines(f"{path}: {_size(before)} before, {_size(after)} now. Nothing of what was erased is left in it.")


@command("store backup", "Copy a store to a file, while it is in use.", where=STORE)
async def backup_command(
    call: Call, file: Annotated[Path, argument("FILE", "The backup to write. It must not exist yet.")]
) -> None:
    """Copy a store to a file, as it is at one moment, while servers and programs write; and check the copy.

    The copy is as secret as the store. It keeps what you erase from the store later.

    \b
    Examples:
      midcourse store backup runs-2026-07-01.db
      midcourse store backup /backups/runs.db --store sqlite:///runs.db
    """
    path = _path(call.store)

    told = _progress_printer("copied", call.as_json)
    size = await asyncio.to_thread(back_up, path, file, told)
    if call.as_json:
        print_json({"store": str(path), "backup": str(file), "bytes": size})
    else:
        print_lines(f"{file}: {_size(size)}, checked. Restore it with: midcourse store restore {file} --into FOLDER")


@command("store restore", "Make a store from a backup.", where=NOWHERE)
async def restore_command(
    call: Call,
    backup: Annotated[Path, argument("BACKUP", "A file that 'midcourse store backup' made.")],
    into: Annotated[Path, option("--into", "FOLDER_OR_FILE", "Where to put the store. It must not exist yet.")],
) -> None:
    """Make a store from a backup. Sessions that had not ended are halted, because the original may still run.

    Calls that were in flight when the backup was made are listed, as their outcome is unknown. With the role operate
    you lift a session, which then continues without repeating finished calls, or cancel it.

    \b
    Examples:
      midcourse store restore runs-2026-07-01.db --into restored/
      midcourse ps --store sqlite:///restored/midcourse.db
    """
    to = into / _FILE if into.is_dir() or not into.suffix else into

    tellers = {"copied": _progress_printer("copied", call.as_json), "halted": _progress_printer("halted", call.as_json)}
    restored = await restore(backup, to, lambda what, done, every: tellers[what](done, every))
    if call.as_json:
        print_json({"store": str(to), **{name: getattr(restored, name) for name in restored.__struct_fields__}})
    else:
        print_lines(f"{to}: {restored.ended} sessions that had ended, {len(restored.halted)} halted.")
        for session_id in restored.halted:
            steps = restored.unknown.get(session_id, ())
            print_lines(f"  {session_id}  halted{'; in flight, and unknown: ' + ', '.join(steps) if steps else ''}")
        if restored.halted:
            print_lines(
                f"Make sure that the original does not run. Then: midcourse session lift --restored --store {to}"
            )
        for session_id, why in restored.failed.items():
            print_lines(f"  {session_id}  could not be halted: {why}")
    if restored.failed:
        raise typer.Exit(1)


def _path(store: str | None) -> Path:
    path = store_path(store or DEFAULT_STORE)
    if path is None:
        raise typer.BadParameter("This is for a store in a file: --store sqlite:///runs.db.")
    return path


def _progress_printer(what: str, as_json: bool) -> Callable[[int, int], None]:
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
