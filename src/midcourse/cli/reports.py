"""``midcourse report``, ``checklist`` and ``review``: what interruptions came to, and what to change."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from midcourse.cli.opening import HERE, JsonOption, Target, with_target
from midcourse.cli.printing import carry_out, print_json, say
from midcourse.cli.report_source import reports_of
from midcourse.cli.words import ago
from midcourse.core.policy.spans import span_of
from midcourse.errors import InvalidInput
from midcourse.runtime.clock import SystemClock

if TYPE_CHECKING:  # what these need is imported when they run: other commands are not to wait for it
    from midcourse.reports.proposals import Proposal

SinceOption = Annotated[
    str, typer.Option("--since", metavar="SPAN", help="Sessions that began so long ago at most: 12h, 7d, 90d.")
]
PolicyOption = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="What sessions without a policy of their own are held against.")
]
WhyOption = Annotated[str, typer.Option("--why", metavar="TEXT", help="Why, for whoever looks at it later.")]
ProposalArgument = Annotated[
    str, typer.Argument(metavar="PROPOSAL", help="A proposal's id, as the list shows it.", show_default=False)
]
_ANSWER = 12
"""Columns that the answer of a checklist's item takes."""
reviews = typer.Typer(help="What labels say of thresholds: proposals, which a person accepts or refuses.")


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("report", short_help="Show what interruptions came to, against the targets.")(report)
    app.command("checklist", short_help="Check what must hold before a policy goes live.")(checklist)
    app.add_typer(reviews, name="review", short_help="Propose thresholds from what people labelled.")


# ---- report


@with_target
def report(
    since: SinceOption = "7d",
    output: Annotated[
        Literal["table", "json", "html"],
        typer.Option("--format", help="Tables for people, one JSON document, or a page for a browser."),
    ] = "table",
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, and nothing on the screen.")
    ] = None,
    policy: PolicyOption = "standard",
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show what interruptions came to: rates per task class against their targets, how fast a stop is a stop, whether
    it was right to step in, and what it cost. Changes nothing.

    \b
    Examples:
      midcourse report
      midcourse report --since 90d --format html -o report.html
      midcourse report --json | jq -r '.alerts[].sentence'
    """
    kind = "json" if as_json else output
    if file is not None and kind == "table":
        kind = "html" if file.suffix in (".html", ".htm") else "json"
    began = _began(since)

    async def work() -> None:
        async with reports_of(target) as reports:
            if kind == "html":
                content = await reports.page(began, policy)
            else:
                found = await reports.report(began, policy)
                content = b"" if kind == "table" else msgspec.json.encode(found) + b"\n"
                if kind == "table":
                    from midcourse.cli.report_tables import show

                    show(found)
                    return
        if file is not None:
            _write(file, content)
            say(f"Written: {file}")
        else:
            sys.stdout.buffer.write(content)
            sys.stdout.flush()

    carry_out(work(), as_json=kind == "json")


def _began(since: str) -> float:
    try:
        span = span_of(since)
    except ValueError as error:
        raise typer.BadParameter(f"--since: {error}.") from error
    return max(0.0, SystemClock().now() - span)


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {file} ({error.strerror or error}). Name another file.",
            code="unwritable",
            file=str(file),
        ) from error


# ---- checklist


@with_target
def checklist(
    since: SinceOption = "30d",
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="The policy that is to go live.")
    ] = "standard",
    backtest: Annotated[
        Path | None,
        typer.Option("--backtest", metavar="FILE", help="What `midcourse backtest --format json` printed here."),
    ] = None,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Check what must hold before a policy goes live, from what is recorded: each holds, does not, or is unknown yet.

    Exits with 1 if anything does not hold. Changes nothing.

    \b
    Examples:
      midcourse checklist
      midcourse checklist --policy careful --backtest result.json
      midcourse checklist --url http://127.0.0.1:8420 --backtest result.json
    """
    began = _began(since)
    held = True

    async def work() -> None:
        nonlocal held
        async with reports_of(target) as reports:
            items = await reports.checklist(began, policy, backtest)
        held = all(one.answer != "does not" for one in items)
        if as_json:
            print_json({"items": items})
            return
        signs = {"holds": "✓", "does not": "✕", "unknown": "?"}
        for one in items:
            say(f"{signs[one.answer]} {one.answer:<9} {one.what}", hang=_ANSWER)
            say(*(f"{' ' * _ANSWER}{line}" for line in (one.number, one.todo) if line))

    carry_out(work(), as_json=as_json)
    if not held:
        raise typer.Exit(1)


# ---- review


@reviews.callback(invoke_without_command=True)
@with_target
def review(
    context: typer.Context,
    since: SinceOption = "30d",
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also proposals that were settled.")] = False,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Look at what people labelled, and list what that proposes for thresholds, per agent and per person.

    Nothing is put into force: a person accepts or refuses each. A server makes its review by itself; with --url this
    lists what it has proposed.

    \b
    Examples:
      midcourse review
      midcourse review --since 90d --all
      midcourse review accept prop_1f20c4a9b3d1 --why "drift is too eager for the researcher"
    """
    if context.invoked_subcommand is not None:
        return
    began = _began(since)

    async def work() -> None:
        async with reports_of(target) as reports:
            remarks = await reports.review(began)
            found = [one for one in await reports.proposals() if everything or one.state == "open"]
        if as_json:
            print_json({"proposals": found, "remarks": remarks})
            return
        for one in found:
            _describe(one)
        if not found:
            say("Nothing is proposed.")
        say(*remarks)

    carry_out(work(), as_json=as_json)


def _describe(one: "Proposal") -> None:
    whom = f"agent {one.agent}" if one.agent else f"person {one.person}"
    say(f"{one.id}  {one.state}, for {whom}: {one.policy} → {one.name} ({ago(one.made_at, SystemClock().now())})")
    for change in one.changes:
        words = f" ({change.words})" if change.words else ""
        say(f"  {change.path}: {change.before} → {change.after}{words}")
    say(*(f"  {line}" for line in one.evidence), hang=2)
    if one.state == "open":
        say(f"  Accept it with: midcourse review accept {one.id} --why TEXT", "")
    else:
        say(f"  {one.state} by {one.by}: {one.why}" if one.by else f"  {one.state}", "")


@reviews.command("accept", short_help="Save the policy that a proposal describes.")
@with_target
def accept(
    proposal: ProposalArgument,
    why: WhyOption,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Save the policy that a proposal describes. Agents that name it use it from their next session on.

    \b
    Example:
      midcourse review accept prop_1f20c4a9b3d1 --why "14 of 44 were wrong"
    """
    _settle("accept", proposal, why, target, as_json=as_json)


@reviews.command("refuse", short_help="Say that a proposal is not wanted.")
@with_target
def refuse(
    proposal: ProposalArgument,
    why: WhyOption,
    target: Target = HERE,
    as_json: JsonOption = False,
) -> None:
    """Say that a proposal is not wanted, and why. The same is not proposed again.

    \b
    Example:
      midcourse review refuse prop_1f20c4a9b3d1 --why "the labels were made on a bad day"
    """
    _settle("refuse", proposal, why, target, as_json=as_json)


def _settle(verb: Literal["accept", "refuse"], name: str, why: str, target: Target, *, as_json: bool) -> None:
    async def work() -> None:
        async with reports_of(target) as reports:
            done = await reports.settle(verb, name, why)
        if as_json:
            print_json(done)
        elif done.state == "accepted":
            whom = f"the terms of {done.agent}" if done.agent else f"the terms of what {done.person} starts"
            say(f"Kept as {done.kept_as}. It is used once {whom} name it: policy='{done.name}'.")
        else:
            say(f"{done.id} is refused.")

    carry_out(work(), as_json=as_json)
