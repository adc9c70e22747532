"""The commands that steer a session: pause, resume, redirect, cancel, undo, message. Each says how far it has got."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal

import typer

from midcourse.cli.command import Call, command
from midcourse.cli.printer import print_json, print_lines
from midcourse.cli.receipts import show_receipt
from midcourse.cli.status_text import cut_words, needed_words, reply_words
from midcourse.cli.target import SessionArgument, WaitOption, argument, field_of, find, flag, opened, option
from midcourse.clock import SystemClock
from midcourse.core import commands as cmd
from midcourse.core.bulk import MOST_SESSIONS, NOT_DURABLE, NOT_REACHABLE, BulkOutcome
from midcourse.core.choices import did_you_mean
from midcourse.core.commands import Behaviour
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Level as RedirectLevel
from midcourse.core.events import ReceiptLine
from midcourse.core.pauses import finishes_first
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Level, Reply
from midcourse.core.session import ENDED, Status
from midcourse.core.to_json import to_json
from midcourse.handle import SessionHandle

PAUSABLE: Final = tuple(one.value for one in (Status.QUEUED, Status.RUNNING, Status.WAITING))
"""Statuses in which a pause does something."""
_UNDO_FAILED: Final = ("undo failed", "undo ran with unknown result")
Until = Literal["stopping", "stopped"]
UntilOption = Annotated[
    Until, flag("--until", "Wait until no call starts any more (stopping), or until no call runs (stopped).")
]
ReasonOption = Annotated[str, field_of(cmd.Pause, "reason", "--reason/-m", "TEXT")]
GraceOption = Annotated[float | None, field_of(cmd.Pause, "grace", "--grace", "SECONDS")]


@command("pause", "Stop a session; resume keeps its context.")
async def pause(
    call: Call,
    session: Annotated[str | None, argument("SESSION", "A session's id, or the beginning of it.")] = None,
    everything: Annotated[bool, flag("--all", "Pause every session that can be paused.")] = False,
    agent: Annotated[str | None, option("--agent", "NAME", "Pause every session of this agent.")] = None,
    status: Annotated[
        list[str] | None, option("--status", "STATUS", "Pause every session in this status; may be repeated.")
    ] = None,
    reason: ReasonOption = "",
    grace: GraceOption = None,
    until: UntilOption = "stopping",
    wait: WaitOption = 10.0,
) -> None:
    """Stop a session and keep its context, so that resume continues where it was.

    Once this answers, the session starts no more model or tool calls. Text that is streaming is cut and kept. Tool
    calls in flight finish, or are aborted after --grace seconds and repeated on resume; an irreversible call always
    finishes. The answer names the calls that still run. A protected session finishes its turn first.

    \b
    Examples:
      midcourse pause sess_0198f2
      midcourse pause sess_0198f2 --until stopped --reason "let me read the draft"
      midcourse pause sess_0198f2 --grace 0
      midcourse pause --agent researcher --status running
      midcourse pause --all --reason "the release is frozen"
    """
    if everything or agent or status:
        if session is not None:
            raise typer.BadParameter("Name a session, or give --all, --agent or --status: not both.")
        await pause_many(call, agent, status or (), reason, grace)
        return
    if session is None:
        raise typer.BadParameter("Name a session; or --all, --agent or --status for many.")

    seen: list[str] = []

    async def work(handle: SessionHandle[Any]) -> Reply:
        level: Level = "decided" if finishes_first(await handle.state()) else until
        reply = await handle.pause(reason, grace=grace, until=level, wait=wait)
        seen.append(cut_words(await handle.state()))
        return reply

    def then(handle: SessionHandle[Any], reply: Reply) -> None:
        word = "Withdraw it" if reply.finishes_first else "Continue"
        print_lines(f"{word} with: midcourse resume {handle.id}{seen[-1]}")

    await control(call, session, work, then=then)


async def pause_many(call: Call, agent: str | None, statuses: Sequence[str], reason: str, grace: float | None) -> None:
    """Pause all that there are, and say what became of each."""
    unknown = [one for one in statuses if one not in PAUSABLE]
    if unknown:
        near = did_you_mean(unknown[0], PAUSABLE)
        raise typer.BadParameter(
            f"None can be paused while it is {unknown[0]!r}. There are: {', '.join(PAUSABLE)}.{near}"
        )

    outcomes: list[BulkOutcome] = []
    async with opened(call) as sessions:
        before: str | None = None
        while heads := await sessions.list(
            status=statuses or PAUSABLE, agent=agent, limit=MOST_SESSIONS, before=before
        ):
            before = heads[-1].id
            names = [head.id for head in heads]
            outcomes += await sessions.bulk("pause", names, reason=reason, grace=grace)
    if call.as_json:
        print_json({"outcomes": outcomes})
        return
    for outcome in outcomes:
        if outcome.problem:
            print_lines(f"{outcome.session}: {outcome.problem}")
    done = sum(outcome.ok for outcome in outcomes)
    lost = sum(outcome.code == NOT_DURABLE for outcome in outcomes)
    stored = sum(outcome.code == NOT_REACHABLE for outcome in outcomes)
    rest = len(outcomes) - done - stored
    counts = (
        (done - lost, "paused"),
        (lost, "stopped, not durable"),
        (stored, "stored and not carried out yet"),
        (rest, "not"),
    )
    told = ", ".join(f"{number} {word}" for number, word in counts if number)
    print_lines(f"{told}." if done or stored else "No session could be paused.")


@command("resume", "Continue a paused session, or retry a failed one.")
async def resume(
    call: Call,
    session: SessionArgument,
    pause: Annotated[str | None, field_of(cmd.Resume, "pause", "--pause", "ID")] = None,
    budget: Annotated[
        float | None, option("--budget", "DOLLARS", "Raise the budget to this sum, and continue.")
    ] = None,
    wait: WaitOption = 10.0,
) -> None:
    """Continue a paused session, or retry a failed one.

    Finished calls are not repeated; aborted calls are. The session runs as soon as a process with its agent picks it
    up: a server, or a program that has the store open. A session at its budget continues once --budget raises it.

    \b
    Examples:
      midcourse resume sess_0198f2
      midcourse resume sess_0198f2 --pause pause_2
      midcourse resume sess_0198f2 --budget 2.50
    """
    if pause is not None and budget is not None:
        raise typer.BadParameter("Give --pause or --budget: a raised budget ends the current pause, whichever it is.")

    async def work(handle: SessionHandle[Any]) -> Reply:
        if budget is not None:
            return await handle.raise_budget(budget, wait=wait)
        return await handle.resume(pause, wait=wait)

    await control(call, session, work)


@command("redirect", "Change the course of a session.")
async def redirect(
    call: Call,
    session: SessionArgument,
    text: Annotated[str, field_of(cmd.Redirect, "text", kind="TEXT")],
    level: Annotated[RedirectLevel, field_of(cmd.Redirect, "level", "--level", show_default=False)],
    resume: Annotated[bool, field_of(cmd.Redirect, "resume", "--resume")] = False,
    grace: GraceOption = None,
    wait: WaitOption = 10.0,
) -> None:
    """Change the course of a session. It keeps running, and its model sees this next.

    Text that is streaming is cut and kept; open questions are withdrawn. A paused session keeps the instruction until
    you resume it. An ended session starts a new turn with it.

    \b
    Examples:
      midcourse redirect sess_0198f2 --level step "leave the archive alone"
      midcourse redirect sess_0198f2 --level goal "only the invoices of 2025"
      midcourse redirect sess_0198f2 --level clarify --resume "the second draft is the one of May"
    """

    async def work(handle: SessionHandle[Any]) -> Reply:
        return await handle.redirect(text, level=level, grace=grace, resume=resume, wait=wait)

    def then(handle: SessionHandle[Any], reply: Reply) -> None:
        if reply.status in (Status.PAUSED, Status.PAUSING):
            print_lines(f"The session keeps it until you resume: midcourse resume {handle.id}")

    await control(call, session, work, then=then)


@command("cancel", "End a session, and report each of its effects.")
async def cancel(
    call: Call,
    session: SessionArgument,
    reason: ReasonOption = "",
    undo: Annotated[UndoChoice | None, field_of(cmd.Cancel, "undo", "--undo")] = None,
    preview: Annotated[
        bool, flag("--preview", "Cancel nothing: show what each --undo would do to each effect.")
    ] = False,
    force: Annotated[bool, field_of(cmd.Cancel, "force", "--force")] = False,
    restart: Annotated[bool, field_of(cmd.Cancel, "restart", "--restart")] = False,
    grace: Annotated[float, field_of(cmd.Cancel, "grace", "--grace", "SECONDS")] = 2.0,
    until: UntilOption = "stopped",
    wait: WaitOption = 10.0,
) -> None:
    """End a session, and report what happened to each of its effects.

    You cannot resume a cancelled session (a redirect starts a new turn). Finished work is kept unless you give --undo
    all; what cannot be undone is listed. A second cancel can only be stricter.

    \b
    Examples:
      midcourse cancel sess_0198f2 --preview
      midcourse cancel sess_0198f2 --reason "wrong customer"
      midcourse cancel sess_0198f2 --undo all
      midcourse cancel sess_0198f2 --force --preview
      midcourse cancel sess_0198f2 --force
      midcourse cancel sess_0198f2 --force --restart
    """
    if preview:
        await _preview(call, session, force=force, restart=restart)
        return

    async with opened(call) as sessions:
        handle = await find(sessions, session)
        before = await handle.state()
        # What finishes first is not waited for: that may take long, and it says so at once.
        level: Level = "decided" if finishes_first(before) and not force else until
        reply = await handle.cancel(
            reason, grace=grace, undo=undo, force=force, restart=restart, until=level, wait=wait
        )
        receipt = await handle.receipt()
        if call.as_json:
            print_json({**_reply(reply), "receipt": _receipt(receipt)})
            return
        print_lines(f"{handle.id}: {reply_words(reply, SystemClock().now())}")
        if reply.finishes_first:
            print_lines(
                f"Withdraw it with: midcourse resume {handle.id}",
                f"End it at once, with the role operate: midcourse cancel {handle.id} --force",
            )
            return
        show_receipt(receipt)
        needed = await handle.state()
        if needed.needs:
            print_lines(needed_words(needed))
        if not receipt.final:
            print_lines(f"The final receipt: midcourse show {handle.id}")
        elif before.status in ENDED:
            print_lines(
                f"It had ended before, and nothing was undone. To roll back what it did: midcourse undo {handle.id}"
            )


@command("undo", "Roll back what an ended session did.")
async def undo(
    call: Call,
    session: SessionArgument,
    reason: ReasonOption = "",
    wait: WaitOption = 60.0,
) -> None:
    """Roll back every effect of an ended session that can be undone, newest first.

    The receipt reports each effect, also those that cannot be undone. To end and roll back a session that still runs,
    cancel it with --undo all. Exits with 1 if an undo failed, or did not end in time.

    \b
    Example:
      midcourse undo sess_0198f2 --reason "wrong customer"
    """

    async with opened(call) as sessions:
        handle = await find(sessions, session)
        receipt = await handle.undo(reason, wait=wait)
        state = await handle.state()
        if call.as_json:
            print_json(_receipt(receipt))
        else:
            show_receipt(receipt)
    failed = [line for line in receipt.lines if line.outcome in _UNDO_FAILED]
    if failed or not receipt.final:
        if not call.as_json:
            print_lines(needed_words(state) if state.needs else _why_undo_failed(session, failed))
        raise typer.Exit(1)


def _why_undo_failed(session: str, failed: Sequence[ReceiptLine]) -> str:
    if failed:
        names = ", ".join(dict.fromkeys(line.name for line in failed))
        return f"Not undone: {names}. To try again: midcourse undo {session}"
    return (
        "It has not ended yet: a process with the session's agent undoes it (midcourse serve, or a program that opens "
        f"the store). See its progress: midcourse show {session}"
    )


@command("message", "Send a message, for now or the next turn.")
async def message(
    call: Call,
    session: SessionArgument,
    text: Annotated[str, field_of(cmd.Message, "text", kind="TEXT")],
    behaviour: Annotated[Behaviour, field_of(cmd.Message, "behaviour", "--if-busy")] = "enqueue",
    wait: WaitOption = 10.0,
) -> None:
    """Send a message to a session. An ended session starts a new turn with it; a busy one finishes its turn first.

    \b
    Examples:
      midcourse message sess_0198f2 "then send it to the team"
      midcourse message sess_0198f2 "stop, wrong file" --if-busy redirect
    """

    async def work(handle: SessionHandle[Any]) -> Reply:
        return await handle.message(text, behaviour=behaviour, wait=wait)

    await control(call, session, work)


async def _preview(call: Call, session: str, *, force: bool, restart: bool) -> None:
    async with opened(call) as sessions:
        handle = await find(sessions, session)
        found = await handle.preview(force=force, restart=restart)
        state = await handle.state()
    if call.as_json:
        print_json({choice: _receipt(one) for choice, one in found.items()})
        return
    if state.status in ENDED:
        print_lines(
            f"It has ended, {state.status}: a cancel changes nothing. To roll it back: midcourse undo {handle.id}"
        )
        show_receipt(found["all"])
        return
    options = f"{' --force' if force else ''}{' --restart' if restart else ''}"
    print_lines(f"Nothing was cancelled. With midcourse cancel {handle.id}{options} …")
    if any(one.begins_anew for one in found.values()):
        print_lines("its work is discarded, and a new session starts with the same goal.")
    elif force and finishes_first(state):
        print_lines("its work is discarded. No new session starts.")
    for choice, one in found.items():
        print_lines("", f"--undo {choice}")
        show_receipt(one)
    if any(one.twice for one in found.values()):
        print_lines("", "If nothing may happen twice, leave out --restart: then no new session starts.")


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {"final": receipt.final, "begins_anew": receipt.begins_anew, "lines": to_json(receipt.lines)}


def _reply(reply: Reply) -> dict[str, Any]:
    return {**to_json(reply), "sentence": str(reply)}


async def control(
    call: Call,
    session: str,
    send: Callable[[SessionHandle[Any]], Awaitable[Reply]],
    *,
    then: Callable[[SessionHandle[Any], Reply], None] | None = None,
    is_remark: bool = False,
) -> None:
    """Send a command to a session and say how far it has got, and ``then`` more.

    ``is_remark``: it changes nothing of what the session does; once it is decided, ``then`` says all there is to say.
    """
    async with opened(call) as sessions:
        handle = await find(sessions, session)
        reply = await send(handle)
    if call.as_json:
        print_json(_reply(reply))
        return
    if not is_remark or reply.level == "accepted" or not reply.durable:
        print_lines(f"{handle.id}: {reply_words(reply, SystemClock().now())}")
    if then is not None:
        then(handle, reply)
