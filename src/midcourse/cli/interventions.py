"""What policies have stepped in with, why, and what people say of it: interventions, alarms, label, rate."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from midcourse.cli.controls import control
from midcourse.cli.opening import HERE, JsonOption, SessionArgument, Target, find, opened, with_target
from midcourse.cli.people import me
from midcourse.cli.printing import carry_out, plain, print_json, room_beside, say, say_wrapped, show_table
from midcourse.cli.words import ago, clock_time, intervention_words, span
from midcourse.core.interventions import Intervention, LabelledAlarm
from midcourse.core.policy.restraint import Batch
from midcourse.core.replies import Reply
from midcourse.core.spelling import spelled
from midcourse.handle import SessionHandle
from midcourse.runtime.clock import SystemClock

_MOST = 1000
_WHY = 40
"""Columns that a table must have left for why."""
LimitOption = Annotated[
    int, typer.Option("--limit", metavar="NUMBER", min=1, max=_MOST, help="The most that are listed.")
]
NoteOption = Annotated[str, typer.Option("--note", "-m", metavar="TEXT", help="Why, for whoever looks at it later.")]
WaitOption = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0.0, help="The most to wait for the decision.")
]


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("interventions", short_help="List where policies stepped in, and why.")(interventions)
    app.command("alarms", short_help="List them as people are told of them.")(alarms)
    app.command("label", short_help="Say whether it was right to step in.")(label)
    app.command("rate", short_help="Say how content you are, from 1 to 5.")(rate)


@with_target
def interventions(
    session: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="Those of one session, with all reasons.", show_default=False),
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only those of this agent.")] = None,
    verdict: Annotated[
        Literal["right", "wrong", "unsure", "none"] | None,
        typer.Option("--label", help="Only those labelled so; none: those that nobody has."),
    ] = None,
    hours: Annotated[
        float | None, typer.Option("--hours", metavar="NUMBER", min=0.0, help="Only those of the last hours.")
    ] = None,
    limit: LimitOption = 50,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """List where policies stepped in, or told people of something: over all sessions, newest first, or of one.

    For one session each comes with who, why, and the arithmetic that led to it. Changes nothing.

    \b
    Examples:
      midcourse interventions
      midcourse interventions --label none --hours 24
      midcourse interventions sess_0198f2
    """
    if session is not None and (agent is not None or verdict is not None or hours is not None):
        raise typer.BadParameter("--agent, --label and --hours choose among all sessions; leave SESSION out.")
    since = None if hours is None else max(0.0, SystemClock().now() - hours * 3600)

    async def work() -> None:
        async with opened(target) as sessions:
            if session is None:
                found = await sessions.interventions(since=since, agent=agent, label=verdict, limit=limit)
                _list(found, limit, is_filtered=bool(agent or verdict or hours is not None), as_json=as_json)
                return
            handle = await find(sessions, session)
            _show(handle, await handle.interventions(), as_json=as_json)

    carry_out(work(), as_json=as_json)


def _list(found: Sequence[LabelledAlarm], limit: int, *, is_filtered: bool, as_json: bool) -> None:
    if as_json:
        print_json({"interventions": spelled(found)})
        return
    if not found:
        say("No intervention matches." if is_filtered else "No policy has stepped in so far.")
        return
    now = SystemClock().now()
    rows = [
        (ago(one.at, now), one.session, one.intervention, one.level, one.by, one.label or "", one.sentence)
        for one in found
    ]
    header = ("when", "session", "id", "did", "by", "label", "why")
    if room_beside(header[:-1], [row[:-1] for row in rows]) >= _WHY:
        show_table(header, rows, whole=header[:-1])
    else:
        for when, session, about, did, by, said, why in rows:
            say(f"{when}  {session}  {about}: {did} by {by}{f', labelled {said}' if said else ''}", hang=3)
            say_wrapped(plain(why, lines=False), indent=3)
    if len(found) == limit:
        say(f"The newest {limit}. More: --limit, up to {_MOST}; or narrow it with --agent, --label, --hours.")
    unsaid = next((one for one in found if one.label is None), None)
    if unsaid is not None:
        say(f"Was it right? midcourse label {unsaid.session} {unsaid.intervention} right|wrong|unsure")


def _show(handle: SessionHandle[Any], found: Sequence[Intervention], *, as_json: bool) -> None:
    if as_json:
        print_json({"interventions": spelled(found)})
        return
    if not found:
        say(f"No policy has stepped in in {handle.id}.")
    now = SystemClock().now()
    for one in found:
        say(f"{one.id}  {clock_time(one.at, now)}  {intervention_words(one)}", hang=7)


@with_target
def alarms(
    person: Annotated[
        str | None, typer.Option("--person", metavar="NAME", help="Only those of this person's sessions.")
    ] = None,
    gather: Annotated[
        float | None,
        typer.Option(
            "--gather",
            metavar="SECONDS",
            min=0.0,
            help="Gather what does not interrupt for so long; without it, as its policy says.",
        ),
    ] = None,
    limit: LimitOption = 20,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """List interventions as people are told of them, newest first: what interrupts at once, the rest in batches.

    Changes nothing.

    \b
    Examples:
      midcourse alarms
      midcourse alarms --person ada --gather 600
    """

    async def work() -> None:
        async with opened(target) as sessions:
            found = await sessions.alarms(person, gather=gather, limit=limit)
        if as_json:
            print_json({"batches": spelled(found)})
        elif found:
            _list_batches(found)
        else:
            say("There are no alarms.")

    carry_out(work(), as_json=as_json)


def _list_batches(found: Sequence[Batch]) -> None:
    now = SystemClock().now()
    for batch in found:
        due = f"told {ago(batch.ready_at, now)}" if batch.ready_at <= now else f"told in {span(batch.ready_at - now)}"
        number = len(batch.alarms)
        say(f"{batch.person or '(nobody)'}: {number} alarm{'s' if number > 1 else ''}, {due}")
        for one in batch.alarms:
            why = plain(one.sentence, lines=False)
            say(f"  {clock_time(one.at, now)}  {one.session} {one.intervention}  {one.level}: {why}", hang=3)


@with_target
def label(
    session: SessionArgument,
    about: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="An intervention (int_3), a pause (pause_1) or a message (msg_2).", show_default=False
        ),
    ],
    verdict: Annotated[
        Literal["right", "wrong", "unsure"],
        typer.Argument(metavar="right|wrong|unsure", help="Whether it was right to step in.", show_default=False),
    ],
    note: NoteOption = "",
    wait: WaitOption = 10.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Say whether it was right to step in; said again, the last word counts.

    A signal that was wrong too often for an agent only tells people, until what was said is 30 days old or its
    threshold is another one; the review proposes one from what was said.

    \b
    Examples:
      midcourse label sess_0198f2 int_3 right
      midcourse label sess_0198f2 int_4 wrong --note "it was waiting for the build"
    """

    async def work(handle: SessionHandle[Any]) -> Reply:
        return await handle.label(about, verdict, note, wait=wait, by=me())

    def then(handle: SessionHandle[Any], reply: Reply) -> None:
        say(f"{about} of {handle.id} {_taken(reply)} labelled {verdict} {_by(target, note)}")

    control(target, session, work, as_json=as_json, then=then, is_remark=True)


@with_target
def rate(
    session: SessionArgument,
    score: Annotated[
        int, typer.Argument(metavar="SCORE", min=1, max=5, help="From 1, not at all, to 5.", show_default=False)
    ],
    note: NoteOption = "",
    wait: WaitOption = 10.0,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Say how content you are with a session that has ended; said again, the last word counts.

    \b
    Examples:
      midcourse rate sess_0198f2 5
      midcourse rate sess_0198f2 2 --note "the table is missing"
    """

    async def work(handle: SessionHandle[Any]) -> Reply:
        return await handle.rate(score, note, wait=wait, by=me())

    def then(handle: SessionHandle[Any], reply: Reply) -> None:
        say(f"{handle.id} {_taken(reply)} rated {score} of 5 {_by(target, note)}")

    control(target, session, work, as_json=as_json, then=then, is_remark=True)


def _taken(reply: Reply) -> str:
    return "is to be" if reply.level == "accepted" else "is"


def _by(target: Target, note: str) -> str:
    """Who said it, and why. Whose a token is, the server knows."""
    who = me() if target.server is None else "your token's owner"
    return f"by {who}: {note}" if note else f"by {who}."
