"""Show the interventions of policies and people's labels: interventions, alarms, label, rate."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

import typer

from midcourse.cli.command import Call, command
from midcourse.cli.controls import control
from midcourse.cli.printer import plain, print_json, print_lines, print_wrapped, show_table, width_beside
from midcourse.cli.status_text import ago, clock_time, intervention_words, span
from midcourse.cli.target import SessionArgument, WaitOption, argument, field_of, find, flag, opened, option
from midcourse.clock import SystemClock
from midcourse.core import commands as cmd
from midcourse.core.events import Verdict
from midcourse.core.interventions import Intervention, LabelledAlarm
from midcourse.core.replies import Reply
from midcourse.core.to_json import to_json
from midcourse.handle import SessionHandle
from midcourse.policy.alarm_batches import Batch

_MOST = 1000
_WHY = 40
"""Columns that a table must have left for why."""
LimitOption = Annotated[int, option("--limit", "NUMBER", "List at most so many.", min=1, max=_MOST)]
NoteOption = Annotated[str, field_of(cmd.Label, "note", "--note/-m", "TEXT")]


@command("intervention list", "List where policies stepped in, and why.")
async def interventions(
    call: Call,
    session: Annotated[str | None, argument("SESSION", "Only those of this session, with all reasons.")] = None,
    agent: Annotated[str | None, option("--agent", "NAME", "Only those of this agent.")] = None,
    verdict: Annotated[
        Literal["right", "wrong", "unsure", "none"] | None,
        flag("--label", "Only those with this label; none: only those without a label."),
    ] = None,
    hours: Annotated[float | None, option("--hours", "NUMBER", "Only those of so many last hours.", min=0.0)] = None,
    limit: LimitOption = 50,
) -> None:
    """List where policies stepped in or notified people: of one session, or of all, newest first.

    Of one session, each intervention is shown with its reasons and its arithmetic. Changes nothing.

    \b
    Examples:
      midcourse intervention list
      midcourse intervention list --label none --hours 24
      midcourse intervention list sess_0198f2
    """
    if session is not None and (agent is not None or verdict is not None or hours is not None):
        raise typer.BadParameter("--agent, --label and --hours choose among all sessions; leave SESSION out.")
    since = None if hours is None else max(0.0, SystemClock().now() - hours * 3600)

    async with opened(call) as sessions:
        if session is None:
            found = await sessions.interventions(since=since, agent=agent, label=verdict, limit=limit)
            _list(found, limit, is_filtered=bool(agent or verdict or hours is not None), as_json=call.as_json)
            return
        handle = await find(sessions, session)
        _show(handle, await handle.interventions(), as_json=call.as_json)


def _list(found: Sequence[LabelledAlarm], limit: int, *, is_filtered: bool, as_json: bool) -> None:
    if as_json:
        print_json({"interventions": to_json(found)})
        return
    if not found:
        print_lines("No intervention matches." if is_filtered else "No policy has stepped in so far.")
        return
    now = SystemClock().now()
    rows = [
        (ago(one.at, now), one.session, one.intervention, one.level, one.by, one.label or "", one.sentence)
        for one in found
    ]
    header = ("when", "session", "id", "did", "by", "label", "why")
    if width_beside(header[:-1], [row[:-1] for row in rows]) >= _WHY:
        show_table(header, rows, whole=header[:-1])
    else:
        for when, session, about, did, by, said, why in rows:
            print_lines(f"{when}  {session}  {about}: {did} by {by}{f', labelled {said}' if said else ''}", hang=3)
            print_wrapped(plain(why, lines=False), indent=3)
    if len(found) == limit:
        print_lines(f"The newest {limit}. More: --limit, up to {_MOST}; or narrow it with --agent, --label, --hours.")
    unsaid = next((one for one in found if one.label is None), None)
    if unsaid is not None:
        print_lines(
            f"Was it right? midcourse intervention label {unsaid.session} {unsaid.intervention} right|wrong|unsure"
        )


def _show(handle: SessionHandle[Any], found: Sequence[Intervention], *, as_json: bool) -> None:
    if as_json:
        print_json({"interventions": to_json(found)})
        return
    if not found:
        print_lines(f"No policy has stepped in in {handle.id}.")
    now = SystemClock().now()
    for one in found:
        print_lines(f"{one.id}  {clock_time(one.at, now)}  {intervention_words(one)}", hang=7)


@command("intervention alarms", "List the alarms that people receive.")
async def alarms(
    call: Call,
    person: Annotated[str | None, option("--person", "NAME", "Only those of this person's sessions.")] = None,
    gather: Annotated[
        float | None,
        option(
            "--gather",
            "SECONDS",
            "Collect alarms that do not interrupt for so long. Default: as the policy says.",
            min=0.0,
        ),
    ] = None,
    limit: LimitOption = 20,
) -> None:
    """List the alarms that people receive, newest first: interruptions at once, the rest in batches.

    Changes nothing.

    \b
    Examples:
      midcourse intervention alarms
      midcourse intervention alarms --person ada --gather 600
    """

    async with opened(call) as sessions:
        found = await sessions.alarms(person, gather=gather, limit=limit)
    if call.as_json:
        print_json({"batches": to_json(found)})
    elif found:
        _list_batches(found)
    else:
        print_lines("There are no alarms.")


def _list_batches(found: Sequence[Batch]) -> None:
    now = SystemClock().now()
    for batch in found:
        due = f"sent {ago(batch.ready_at, now)}" if batch.ready_at <= now else f"sent in {span(batch.ready_at - now)}"
        number = len(batch.alarms)
        print_lines(f"{batch.person or '(no one)'}: {number} alarm{'s' if number > 1 else ''}, {due}")
        for one in batch.alarms:
            why = plain(one.sentence, lines=False)
            print_lines(f"  {clock_time(one.at, now)}  {one.session} {one.intervention}  {one.level}: {why}", hang=3)


@command("intervention label", "Say whether it was right to step in.")
async def label(
    call: Call,
    session: SessionArgument,
    about: Annotated[str, field_of(cmd.Label, "about", kind="ID")],
    verdict: Annotated[Verdict, field_of(cmd.Label, "verdict", kind="|".join(get_args(Verdict)))],
    note: NoteOption = "",
    wait: WaitOption = 10.0,
) -> None:
    """Say whether it was right to step in. You may say it again: the last label counts.

    A signal that was wrong too often for an agent only notifies people, until the labels are 30 days old or its
    threshold has changed. The review proposes thresholds from labels: midcourse policy review

    \b
    Examples:
      midcourse intervention label sess_0198f2 int_3 right
      midcourse intervention label sess_0198f2 int_4 wrong --note "it was waiting for the build"
    """

    async def work(handle: SessionHandle[Any]) -> Reply:
        return await handle.label(about, verdict, note, wait=wait)

    def then(handle: SessionHandle[Any], reply: Reply) -> None:
        print_lines(f"{about} of {handle.id} {_taken(reply)} labelled {verdict}{_because(note)}")

    await control(call, session, work, then=then, is_remark=True)


@command("session rate", "Rate an ended session, from 1 to 5.")
async def rate(
    call: Call,
    session: SessionArgument,
    score: Annotated[int, field_of(cmd.Rate, "score", kind="SCORE")],
    note: NoteOption = "",
    wait: WaitOption = 10.0,
) -> None:
    """Rate an ended session. You may rate it again: the last score counts.

    \b
    Examples:
      midcourse session rate sess_0198f2 5
      midcourse session rate sess_0198f2 2 --note "the table is missing"
    """

    async def work(handle: SessionHandle[Any]) -> Reply:
        return await handle.rate(score, note, wait=wait)

    def then(handle: SessionHandle[Any], reply: Reply) -> None:
        print_lines(f"{handle.id} {_taken(reply)} rated {score} of 5{_because(note)}")

    await control(call, session, work, then=then, is_remark=True)


def _taken(reply: Reply) -> str:
    return "is to be" if reply.level == "accepted" else "is"


def _because(note: str) -> str:
    return f": {note}" if note else "."
