"""``midcourse artifact``: what agents made, and when to review it."""

from typing import Annotated

import typer

from midcourse.cli.command import Call, command
from midcourse.cli.printer import print_json, print_lines, show_table
from midcourse.cli.status_text import ago, span
from midcourse.cli.target import argument, flag, opened, option
from midcourse.clock import SystemClock


@command("artifact list", "List what agents made, and what is due for review.")
async def artifacts(
    call: Call,
    due: Annotated[bool, flag("--due", "Only those that are due for review.")] = False,
    session: Annotated[str | None, option("--session", "ID", "Only those of this session.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="List at most so many.")] = 100,
) -> None:
    """List what agents reported that they made, and whether it is due for review, the most urgent first.

    An artifact without documentation is due at once, any other every seven days, or as often as the policy says.

    \b
    Examples:
      midcourse artifact list --due
      midcourse artifact list --session sess_0198f2
    """

    now = SystemClock().now()
    async with opened(call) as sessions:
        found = await sessions.artifacts(session=session, due=due, limit=limit)
    if call.as_json:
        print_json({"artifacts": found})
        return
    rows = [
        (
            one.name,
            one.agent,
            one.session,
            ago(one.made_at, now),
            "due" if one.is_due(now) else f"in {span(one.due_at - now)}",
            one.documentation or "nothing says what it is",
        )
        for one in found
    ]
    show_table(("artifact", "agent", "session", "made", "review", "what it is"), rows, whole=("artifact",))


@command("artifact reviewed", "Record that you reviewed an artifact.")
async def reviewed(
    call: Call,
    session: Annotated[str, argument("SESSION", "The session's id.")],
    name: Annotated[str, argument("NAME", "The artifact's name.")],
    documentation: Annotated[str, option("--says", "TEXT", "What the artifact is.")] = "",
) -> None:
    """Record that you reviewed an artifact. It comes up for review again later, as often as its policy says.

    \b
    Examples:
      midcourse artifact reviewed sess_0198f2 report.md
      midcourse artifact reviewed sess_0198f2 report.md --says "the figures of May"
    """
    async with opened(call) as sessions:
        known = await sessions.reviewed(session, name, documentation)
    if call.as_json:
        print_json(known)
    else:
        print_lines(
            f"'{known.name}' comes up again in {span(known.due_at - (known.reviewed_at or SystemClock().now()))}."
        )
