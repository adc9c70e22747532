"""The commands that steer a session: pause, resume, redirect, cancel, undo, message. Each says how far it has got."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal

import typer

from midcourse.cli.opening import HERE, JsonOption, SessionArgument, Target, find, opened, with_target
from midcourse.cli.people import me
from midcourse.cli.printing import carry_out, print_json, say
from midcourse.cli.receipts import show_receipt
from midcourse.cli.words import cut_words, needed_words, reply_words
from midcourse.core.allowed import did_you_mean
from midcourse.core.bulk import MOST_SESSIONS, NOT_DURABLE, NOT_REACHABLE, BulkOutcome
from midcourse.core.events import ReceiptLine
from midcourse.core.pauses import finishes_first
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Level, Reply
from midcourse.core.session import ENDED, Status
from midcourse.core.spelling import spelled
from midcourse.handle import SessionHandle
from midcourse.runtime.clock import SystemClock

PAUSABLE: Final = tuple(one.value for one in (Status.QUEUED, Status.RUNNING, Status.WAITING))
"""Statuses in which a pause does something."""
_UNDO_FAILED: Final = ("undo failed", "undo ran with unknown result")
Until = Literal["stopping", "stopped"]
UntilOption = Annotated[
    Until, typer.Option("--until", help="Wait until nothing new begins (stopping), or until nothing runs (stopped).")
]
WaitOption = Annotated[float, typer.Option("--wait", metavar="SECONDS", min=0.0, help="The most to wait for that.")]
ReasonOption = Annotated[
    str, typer.Option("--reason", "-m", metavar="TEXT", help="Why: kept in the journal and the audit log.")
]


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("pause", short_help="Stop a session; resume keeps its context.")(pause)
    app.command("resume", short_help="Go on, or try a failed session again.")(resume)
    app.command("redirect", short_help="Change the course of a session.")(redirect)
    app.command("cancel", short_help="End a session; what became of its effects.")(cancel)
    app.command("undo", short_help="Roll back what a session that has ended did.")(undo)
    app.command("message", short_help="Say something, for now or for its next turn.")(message)


@with_target
def pause(
    session: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="A session's id, or enough of its beginning.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every session that could be paused.")] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Every one of this agent, instead of one session.")
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help="Every one in this status; may be repeated."),
    ] = None,
    reason: ReasonOption = "",
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace", metavar="SECONDS", min=0.0, help="Tool calls may go on so long; without it, to their end."
        ),
    ] = None,
    until: UntilOption = "stopping",
    wait: WaitOption = 10.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Stop a session and keep its context, so that resume goes on where it was.

    From the answer on, no model or tool call of it begins. What it streams is cut and kept; tool calls in flight
    finish, or are aborted after --grace seconds and done again on resume (one that cannot be undone always finishes).
    The answer names what still runs. A protected session finishes its turn first, and the answer says so.

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
        pause_many(target, agent, status or (), reason, grace, as_json=as_json)
        return
    if session is None:
        raise typer.BadParameter("Name a session; or --all, --agent or --status for many.")

    seen: list[str] = []

    async def work(handle: SessionHandle[Any]) -> Reply:
        level: Level = "decided" if finishes_first(await handle.state()) else until
        reply = await handle.pause(reason, grace=grace, until=level, wait=wait, by=me())
        seen.append(cut_words(await handle.state()))
        return reply

    def then(handle: SessionHandle[Any], reply: Reply) -> None:
        word = "Take it back" if reply.finishes_first else "Go on"
        say(f"{word} with: midcourse resume {handle.id}{seen[-1]}")

    control(target, session, work, as_json=as_json, then=then)


def pause_many(
    target: Target, agent: str | None, statuses: Sequence[str], reason: str, grace: float | None, *, as_json: bool
) -> None:
    """Pause all that there are, and say what became of each."""
    unknown = [one for one in statuses if one not in PAUSABLE]
    if unknown:
        near = did_you_mean(unknown[0], PAUSABLE)
        raise typer.BadParameter(
            f"None can be paused while it is {unknown[0]!r}. There are: {', '.join(PAUSABLE)}.{near}"
        )

    async def work() -> None:
        outcomes: list[BulkOutcome] = []
        async with opened(target) as sessions:
            before: str | None = None
            while heads := await sessions.list(
                status=statuses or PAUSABLE, agent=agent, limit=MOST_SESSIONS, before=before
            ):
                before = heads[-1].id
                names = [head.id for head in heads]
                outcomes += await sessions.bulk("pause", names, reason=reason, grace=grace, by=me())
        if as_json:
            print_json({"outcomes": outcomes})
            return
        for outcome in outcomes:
            if outcome.problem:
                say(f"{outcome.session}: {outcome.problem}")
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
        say(f"{told}." if done or stored else "No session could be paused.")

    carry_out(work(), as_json=as_json)


@with_target
def resume(
    session: SessionArgument,
    pause: Annotated[
        str | None, typer.Option("--pause", metavar="ID", help="Only if this pause still stands, such as pause_2.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", metavar="DOLLARS", help="Raise what it may cost, and go on with it.")
    ] = None,
    wait: WaitOption = 10.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Go on with a paused session, or try a failed one again.

    What had finished is not done again; what was aborted is. It runs as soon as a process that has its agent drives
    it: a server, or a program that has the store open. A session that has reached its budget goes on once that is
    raised, with --budget.

    \b
    Examples:
      midcourse resume sess_0198f2
      midcourse resume sess_0198f2 --pause pause_2
      midcourse resume sess_0198f2 --budget 2.50
    """
    if pause is not None and budget is not None:
        raise typer.BadParameter("Give --pause or --budget: a raised budget lifts whatever pause stands.")

    async def work(handle: SessionHandle[Any]) -> Reply:
        if budget is not None:
            return await handle.raise_budget(budget, wait=wait, by=me())
        return await handle.resume(pause, wait=wait, by=me())

    control(target, session, work, as_json=as_json)


@with_target
def redirect(
    session: SessionArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What should change, in words.", show_default=False)],
    level: Annotated[
        Literal["step", "goal", "clarify"],
        typer.Option(
            "--level",
            help="One more instruction (step), another goal (goal), or an explanation (clarify).",
            show_default=False,
        ),
    ],
    go_on: Annotated[bool, typer.Option("--resume", help="A paused session goes on at once.")] = False,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace", metavar="SECONDS", min=0.0, help="Tool calls may go on so long; without it, to their end."
        ),
    ] = None,
    wait: WaitOption = 10.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Change the course of a session. It keeps running, and this is what its model sees next.

    What it streams is cut and kept; open questions are withdrawn. A paused session keeps the instruction until it is
    resumed; one that has ended begins a new turn with it.

    \b
    Examples:
      midcourse redirect sess_0198f2 --level step "leave the archive alone"
      midcourse redirect sess_0198f2 --level goal "only the invoices of 2025"
      midcourse redirect sess_0198f2 --level clarify --resume "the second draft is the one of May"
    """

    async def work(handle: SessionHandle[Any]) -> Reply:
        return await handle.redirect(text, level=level, grace=grace, resume=go_on, wait=wait, by=me())

    def then(handle: SessionHandle[Any], reply: Reply) -> None:
        if reply.status in (Status.PAUSED, Status.PAUSING):
            say(f"It is kept until it goes on: midcourse resume {handle.id}")

    control(target, session, work, as_json=as_json, then=then)


@with_target
def cancel(
    session: SessionArgument,
    reason: ReasonOption = "",
    undo: Annotated[
        Literal["in-flight", "all", "none"] | None,
        typer.Option(
            "--undo",
            help="in-flight: roll back what is in flight (so it is without this option); all: also what had "
            "finished, newest first; none: only stop.",
        ),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Cancel nothing: show what each --undo would make of each effect.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="End a protected session half-way (as an operator): what it had reached is discarded. Without this "
            "it finishes its turn first.",
        ),
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="With --force: a new session begins the same anew.")
    ] = False,
    grace: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", min=0.0, help="Calls in flight may go on so long.")
    ] = 2.0,
    until: UntilOption = "stopped",
    wait: WaitOption = 10.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """End a session, and say what became of each of its effects.

    This cannot be taken back: the session does not go on (a redirect begins a new turn). Finished work is kept unless
    --undo all; what cannot be undone is listed as such. A second cancel may only be firmer.

    \b
    Examples:
      midcourse cancel sess_0198f2 --preview
      midcourse cancel sess_0198f2 --reason "wrong customer"
      midcourse cancel sess_0198f2 --undo all
      midcourse cancel sess_0198f2 --force --preview
      midcourse cancel sess_0198f2 --force
      midcourse cancel sess_0198f2 --force --restart
    """
    if restart and not force:
        raise typer.BadParameter("--restart goes with --force: only what is forced to end is begun anew.")
    if preview:
        carry_out(_preview(target, session, force=force, restart=restart, as_json=as_json), as_json=as_json)
        return

    async def work() -> None:
        async with opened(target) as sessions:
            handle = await find(sessions, session)
            before = await handle.state()
            # What finishes first is not waited for: that may take long, and it says so at once.
            level: Level = "decided" if finishes_first(before) and not force else until
            reply = await handle.cancel(
                reason, grace=grace, undo=undo, force=force, restart=restart, until=level, wait=wait, by=me()
            )
            receipt = await handle.receipt()
            if as_json:
                print_json({**_reply(reply), "receipt": _receipt(receipt)})
                return
            say(f"{handle.id}: {reply_words(reply, SystemClock().now())}")
            if reply.finishes_first:
                say(
                    f"Take it back with: midcourse resume {handle.id}",
                    f"End it half-way, as an operator: midcourse cancel {handle.id} --force",
                )
                return
            show_receipt(receipt)
            needed = await handle.state()
            if needed.needs:
                say(needed_words(needed))
            if not receipt.final:
                say(f"The final receipt: midcourse show {handle.id}")
            elif before.status in ENDED:
                say(
                    f"It had ended before, and nothing was undone. To roll back what it did: midcourse undo {handle.id}"
                )

    carry_out(work(), as_json=as_json)


@with_target
def undo(
    session: SessionArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the journal.")] = "",
    wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", min=0.0, help="How long to wait for it.")] = 60.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Roll back every effect of a session that has ended, newest first, as far as it can be.

    What cannot be undone is said, not hidden: the receipt tells of each effect what was observed. A session that still
    works is cancelled with --undo all instead. Exits with 1 if an undo failed, or has not ended in time.

    \b
    Example:
      midcourse undo sess_0198f2 --reason "wrong customer"
    """

    async def work() -> None:
        async with opened(target) as sessions:
            handle = await find(sessions, session)
            receipt = await handle.undo(reason, wait=wait, by=me())
            state = await handle.state()
            if as_json:
                print_json(_receipt(receipt))
            else:
                show_receipt(receipt)
        failed = [line for line in receipt.lines if line.outcome in _UNDO_FAILED]
        if failed or not receipt.final:
            if not as_json:
                say(needed_words(state) if state.needs else _why_undo_failed(session, failed))
            raise typer.Exit(1)

    carry_out(work(), as_json=as_json)


def _why_undo_failed(session: str, failed: Sequence[ReceiptLine]) -> str:
    if failed:
        names = ", ".join(dict.fromkeys(line.name for line in failed))
        return f"Not undone: {names}. To try again: midcourse undo {session}"
    return (
        "It has not ended yet: a process that has the session's agent undoes it (midcourse serve, or a program that "
        f"opens the store). See how far it is: midcourse show {session}"
    )


@with_target
def message(
    session: SessionArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.", show_default=False)],
    behaviour: Annotated[
        Literal["enqueue", "redirect", "reject"],
        typer.Option("--if-busy", help="While it works: wait for its turn, change the course now, or be refused."),
    ] = "enqueue",
    wait: WaitOption = 10.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Say something. It opens a new turn of a session that has ended; one that works does first what it is at.

    \b
    Examples:
      midcourse message sess_0198f2 "then send it to the team"
      midcourse message sess_0198f2 "stop, wrong file" --if-busy redirect
    """

    async def work(handle: SessionHandle[Any]) -> Reply:
        return await handle.message(text, behaviour=behaviour, wait=wait, by=me())

    control(target, session, work, as_json=as_json)


async def _preview(target: Target, session: str, *, force: bool, restart: bool, as_json: bool) -> None:
    async with opened(target) as sessions:
        handle = await find(sessions, session)
        found = await handle.preview(force=force, restart=restart)
        state = await handle.state()
    if as_json:
        print_json({choice: _receipt(one) for choice, one in found.items()})
        return
    if state.status in ENDED:
        say(f"It has ended, {state.status}: a cancel changes nothing. To roll it back: midcourse undo {handle.id}")
        show_receipt(found["all"])
        return
    options = f"{' --force' if force else ''}{' --restart' if restart else ''}"
    say(f"Nothing was cancelled. With midcourse cancel {handle.id}{options} …")
    if any(one.begins_anew for one in found.values()):
        say("what it has reached is discarded, and a new session begins the same anew.")
    elif force and finishes_first(state):
        say("what it has reached is discarded. Nothing begins anew.")
    for choice, one in found.items():
        say("", f"--undo {choice}")
        show_receipt(one)
    if any(one.twice for one in found.values()):
        say("", "If nothing may happen twice, leave out --restart: then nothing is begun anew.")


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {"final": receipt.final, "begins_anew": receipt.begins_anew, "lines": spelled(receipt.lines)}


def _reply(reply: Reply) -> dict[str, Any]:
    return {**spelled(reply), "sentence": str(reply)}


def control(
    target: Target,
    session: str,
    send: Callable[[SessionHandle[Any]], Awaitable[Reply]],
    *,
    as_json: bool,
    then: Callable[[SessionHandle[Any], Reply], None] | None = None,
    is_remark: bool = False,
) -> None:
    """Send a command to a session and say how far it has got, and ``then`` more.

    ``is_remark``: it changes nothing of what the session does; once it is decided, ``then`` says all there is to say.
    """

    async def work() -> None:
        async with opened(target) as sessions:
            handle = await find(sessions, session)
            reply = await send(handle)
        if as_json:
            print_json(_reply(reply))
            return
        if not is_remark or reply.level == "accepted" or not reply.durable:
            say(f"{handle.id}: {reply_words(reply, SystemClock().now())}")
        if then is not None:
            then(handle, reply)

    carry_out(work(), as_json=as_json)
