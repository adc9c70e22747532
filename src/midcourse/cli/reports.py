"""``midcourse report show``, ``checklist`` and ``review``: what interruptions came to, and what to change."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from midcourse.cli.command import Call, command
from midcourse.cli.printer import print_json, print_lines
from midcourse.cli.report_source import reports_of
from midcourse.cli.status_text import ago
from midcourse.cli.target import argument, flag, option, span_option
from midcourse.clock import SystemClock
from midcourse.errors import InvalidInput

if TYPE_CHECKING:  # what these need is imported when they run: other commands are not to wait for it
    from midcourse.analysis.reports.proposals import Proposal

SinceOption = Annotated[str, option("--since", "SPAN", "Only sessions that began in this time: 12h, 7d, 90d.")]
PolicyOption = Annotated[str, option("--policy", "NAME", "The policy whose targets apply to sessions without one.")]
WhyOption = Annotated[str, option("--why", "TEXT", "Why, for later readers.")]
ProposalArgument = Annotated[str, argument("PROPOSAL", "A proposal's id, as the list shows it.")]
_ANSWER = 12
"""Columns that the answer of a checklist's item takes."""


# ---- report


@command("report show", "Measure interruptions against their targets.")
async def report(
    call: Call,
    since: SinceOption = "7d",
    output: Annotated[
        Literal["table", "json", "html"],
        flag("--format", "Tables for people, one JSON document, or a page for a browser."),
    ] = "table",
    file: Annotated[Path | None, option("--output/-o", "FILE", "Write to this file instead of the screen.")] = None,
    policy: PolicyOption = "standard",
) -> None:
    """Measure interruptions: rates per task class against targets, time to stop, how often it was right to step in, and
    cost. Changes nothing.

    \b
    Examples:
      midcourse report show
      midcourse report show --since 90d --format html -o report.html
      midcourse report show --json | jq -r '.alerts[].sentence'
    """
    kind = "json" if call.as_json else output
    if file is not None and kind == "table":
        kind = "html" if file.suffix in (".html", ".htm") else "json"
    began = _began(since)

    async with reports_of(call) as reports:
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
        print_lines(f"Written: {file}")
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()


def _began(since: str) -> float:
    return max(0.0, SystemClock().now() - span_option(since, "--since"))


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


@command("report checklist", "Check what must hold before a policy goes live.")
async def checklist(
    call: Call,
    since: SinceOption = "30d",
    policy: Annotated[str, option("--policy", "NAME", "The policy that you want to use.")] = "standard",
    backtest: Annotated[
        Path | None, option("--backtest", "FILE", "A file that `midcourse policy backtest --format json` printed.")
    ] = None,
) -> None:
    """Check what must hold before you use a policy, from recorded sessions. Each item holds, does not, or is unknown.

    Exits with 1 if an item does not hold. Changes nothing.

    \b
    Examples:
      midcourse report checklist
      midcourse report checklist --policy careful --backtest result.json
      midcourse report checklist --url http://127.0.0.1:8420 --backtest result.json
    """
    began = _began(since)
    async with reports_of(call) as reports:
        items = await reports.checklist(began, policy, backtest)
    held = all(one.answer != "does not" for one in items)
    if call.as_json:
        print_json({"items": items})
        return
    signs = {"holds": "✓", "does not": "✕", "unknown": "?"}
    for one in items:
        print_lines(f"{signs[one.answer]} {one.answer:<9} {one.what}", hang=_ANSWER)
        print_lines(*(f"{' ' * _ANSWER}{line}" for line in (one.number, one.todo) if line))
    if not held:
        raise typer.Exit(1)


# ---- review


@command("policy review", "Propose thresholds from what people labelled.")
async def review(
    call: Call,
    since: SinceOption = "30d",
    everything: Annotated[bool, flag("--all/-a", "Also proposals that were accepted or refused.")] = False,
) -> None:
    """Propose thresholds from the labels that people gave, per agent and per person.

    A proposal changes nothing until you accept it. A server makes its reviews by itself; with --url, this lists its
    proposals.

    \b
    Examples:
      midcourse policy review
      midcourse policy review --since 90d --all
      midcourse policy accept prop_1f20c4a9b3d1 --why "drift is too eager for the researcher"
    """
    began = _began(since)

    async with reports_of(call) as reports:
        remarks = await reports.review(began)
        found = [one for one in await reports.proposals() if everything or one.state == "open"]
    if call.as_json:
        print_json({"proposals": found, "remarks": remarks})
        return
    for one in found:
        _describe(one)
    if not found:
        print_lines("Nothing is proposed.")
    print_lines(*remarks)


def _describe(one: "Proposal") -> None:
    whom = f"agent {one.agent}" if one.agent else f"person {one.person}"
    print_lines(
        f"{one.id}  {one.state}, for {whom}: {one.policy} → {one.name} ({ago(one.made_at, SystemClock().now())})"
    )
    for change in one.changes:
        words = f" ({change.words})" if change.words else ""
        print_lines(f"  {change.path}: {change.before} → {change.after}{words}")
    print_lines(*(f"  {line}" for line in one.evidence), hang=2)
    if one.state == "open":
        print_lines(f"  Accept it with: midcourse policy accept {one.id} --why TEXT", "")
    else:
        print_lines(f"  {one.state} by {one.by}: {one.why}" if one.by else f"  {one.state}", "")


@command("policy accept", "Save the policy that a proposal describes.")
async def accept(call: Call, proposal: ProposalArgument, why: WhyOption) -> None:
    """Save the policy that a proposal describes. Agents that name it use it from their next session on.

    \b
    Example:
      midcourse policy accept prop_1f20c4a9b3d1 --why "14 of 44 were wrong"
    """
    await _settle("accept", proposal, why, call)


@command("policy refuse", "Refuse a proposal.")
async def refuse(call: Call, proposal: ProposalArgument, why: WhyOption) -> None:
    """Refuse a proposal, and say why. The same change is not proposed again.

    \b
    Example:
      midcourse policy refuse prop_1f20c4a9b3d1 --why "hasty labels"
    """
    await _settle("refuse", proposal, why, call)


async def _settle(verb: Literal["accept", "refuse"], name: str, why: str, call: Call) -> None:
    async with reports_of(call) as reports:
        done = await reports.settle(verb, name, why)
    if call.as_json:
        print_json(done)
    elif done.state == "accepted":
        whom = f"the terms of {done.agent}" if done.agent else f"the terms of what {done.person} starts"
        print_lines(f"Kept as {done.kept_as}. It is used once {whom} name it: policy='{done.name}'.")
    else:
        print_lines(f"{done.id} is refused.")
