"""``midcourse artifacts``: what agents made themselves, and when somebody should look at it."""

from typing import Annotated

import typer

from midcourse.cli.opening import DEFAULT_STORE, JsonOption, StoreOption
from midcourse.cli.people import me
from midcourse.cli.printing import carry_out, print_json, say, show_table
from midcourse.cli.words import ago
from midcourse.core.policy.profiles import STANDARD
from midcourse.runtime.artifacts import read_artifacts, reviewed
from midcourse.runtime.clock import SystemClock
from midcourse.wiring import open_store


def add_to(root: typer.Typer) -> None:
    """Add this command."""
    root.command("artifacts", short_help="List what agents made, and what is due for review.")(artifacts)


def artifacts(
    look: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--reviewed", metavar="SESSION NAME", help="You have looked at this one: it comes up later again."
        ),
    ] = None,
    due: Annotated[bool, typer.Option("--due", help="Only those that somebody should look at.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what agents told they made: who made it, in which session, what it is, and whether it is due for review.

    What nobody documented is due at once, everything else every seven days.

    \b
    Examples:
      midcourse artifacts --due
      midcourse artifacts --reviewed sess_k04w1z report.md
    """

    async def work() -> None:
        opened = await open_store(store or DEFAULT_STORE)
        now = SystemClock().now()
        rule = STANDARD.artifacts
        try:
            if look is not None:
                await reviewed(opened, *look, by=me(), now=now)
                say(f"'{look[1]}' comes up again in {rule.review}.")
                return
            found = [one for one in await read_artifacts(opened) if not due or one.due_at(rule) <= now]
        finally:
            await opened.close()
        if as_json:
            print_json({"artifacts": found})
            return
        rows = [
            (
                one.name,
                one.agent,
                one.session,
                ago(one.made_at, now),
                "due" if one.due_at(rule) <= now else "",
                one.documentation or "nothing says what it is",
            )
            for one in found
        ]
        show_table(("artifact", "agent", "session", "made", "review", "what it is"), rows, whole=("artifact",))

    carry_out(work(), as_json=as_json)
