"""``midcourse artifacts``: what agents made themselves, and when somebody should look at it."""

from typing import Annotated

import typer

from midcourse.cli.opening import HERE, JsonOption, Target, opened, with_target
from midcourse.cli.people import me
from midcourse.cli.printing import carry_out, print_json, say, show_table
from midcourse.cli.words import ago, span
from midcourse.errors import InvalidInput
from midcourse.runtime.clock import SystemClock


def add_to(root: typer.Typer) -> None:
    """Add this command."""
    root.command("artifacts", short_help="List what agents made, and what is due for review.")(artifacts)


@with_target
def artifacts(
    look: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--reviewed", metavar="SESSION NAME", help="You have looked at this one: it comes up later again."
        ),
    ] = None,
    documentation: Annotated[
        str, typer.Option("--says", metavar="TEXT", help="With --reviewed: what it is, for whoever finds it.")
    ] = "",
    due: Annotated[bool, typer.Option("--due", help="Only those that somebody should look at.")] = False,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Only those of one session.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 100,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """List what agents told they made, the most urgent first: who made it, in which session, what it is, and whether
    it is due for review.

    What nobody documented is due at once, everything else every seven days, or as often as the session's policy says.

    \b
    Examples:
      midcourse artifacts --due
      midcourse artifacts --reviewed sess_k04w1z report.md --says "the figures of May"
    """

    async def work() -> None:
        if documentation and look is None:
            raise InvalidInput("--says goes with --reviewed SESSION NAME.", field="says")
        now = SystemClock().now()
        async with opened(target) as sessions:
            if look is not None:
                known = await sessions.reviewed(*look, documentation, by=me())
                if as_json:
                    print_json(known)
                else:
                    say(f"'{known.name}' comes up again in {span(known.due_at - (known.reviewed_at or now))}.")
                return
            found = await sessions.artifacts(session=session, due=due, limit=limit)
        if as_json:
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

    carry_out(work(), as_json=as_json)
