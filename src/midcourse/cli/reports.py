"""``midcourse report``, ``checklist`` and ``review``: what interruptions came to, and what to change."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import msgspec
import typer

from midcourse.cli.opening import DEFAULT_STORE, HERE, JsonOption, Target, store_path, token_for, with_target
from midcourse.cli.people import me
from midcourse.cli.printing import carry_out, print_json, say, say_wrapped, show_table
from midcourse.cli.words import ago
from midcourse.core.policy.spans import span_of
from midcourse.errors import InvalidInput, StoreUnavailable
from midcourse.ports.store import Store
from midcourse.runtime.clock import SystemClock
from midcourse.wiring import open_store

if TYPE_CHECKING:  # what these need is imported when they run: other commands are not to wait for it
    from midcourse.client.wire import Wire
    from midcourse.reports.checklist import ChecklistItem
    from midcourse.reports.fleet import Progress
    from midcourse.reports.intervals import Proportion
    from midcourse.reports.report import Report, SignalRow
    from midcourse.reports.tuning import Proposal

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
_ITS_OWN_REVIEWS = (
    "A server makes its reviews by itself, once a week unless it was started with another --review-every; this lists "
    "what they proposed. To make one now, name its file on its machine: midcourse review --store sqlite:///FILE"
)
_WAIT = 270.0
"""Seconds beyond the usual that a server may take to read all it has."""
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
        async with _reports(target) as reports:
            if kind == "html":
                content = await reports.page(began, policy)
            else:
                found = await reports.report(began, policy)
                content = b"" if kind == "table" else msgspec.json.encode(found) + b"\n"
                if kind == "table":
                    _show(found)
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


def _show(found: "Report") -> None:
    from midcourse.core.rates import by_whom
    from midcourse.reports.words import amount, percent, seconds, span_of_target

    who = by_whom(found.by)
    say_wrapped(
        f"Sessions: {found.sessions:,}, {found.ended:,} ended. Stepped in: {found.interventions:,}"
        + (f", {who}" if who else "")
        + f". Only told: {found.notices:,}"
        + (f", {found.warnings.of:,} of them labelled" if found.warnings.of else "")
        + f". Labelled: {found.labelled.of:,}"
        + (f", {percent(found.labelled.share)} right." if found.labelled.of else ".")
    )
    say_wrapped(*(f"Missed: {one.sentence}" for one in found.alerts), *found.notes)
    if found.classes:
        say("")
        show_table(
            (
                "class",
                "sessions",
                "interrupted (target)",
                "by whom",
                "completed (target)",
                "response p50, p99",
                "stop p50, p99",
                "satisfied",
            ),
            [
                (
                    row.task_class.replace("_", " "),
                    f"{row.sessions:,}",
                    _against(row.interrupted),
                    by_whom(row.interrupted_by) or "–",
                    _against(row.completed, "none ended"),
                    f"{seconds(row.response.p50)}, {seconds(row.response.p99)}",
                    f"{seconds(row.stops.p50)}, {seconds(row.stops.p99)}",
                    "–" if row.score is None else f"{percent(row.satisfied.share)} ({row.score:.1f} of 5)",
                )
                for row in found.classes
            ],
        )
        say_wrapped(f"Interrupted: {found.meanings['interrupted']}", f"Response: {found.meanings['response']}")
    if found.signals:
        say("")
        show_table(
            ("signal", "agent", "stepped in", "only told", "right", "wrong", "unsure", "false positives", "limit"),
            [
                (
                    row.signal,
                    row.agent or "(all)",
                    f"{row.interventions:,}",
                    row.only_told,
                    str(row.right),
                    str(row.wrong),
                    str(row.unsure),
                    _false_positives(row),
                    span_of_target(row.rate.target or (0, 1)),
                )
                for row in found.signals
            ],
        )
        say_wrapped(
            f"False positives: {found.meanings['false_positives']}", f"Only told: {found.meanings['only_told']}"
        )
    if found.kinds:
        say("")
        show_table(
            ("kind", "count", "by whom", "until stopped", "stood still", "recovery", "money", "quality"),
            [
                (
                    row.kind,
                    f"{row.count:,}",
                    by_whom(row.by),
                    seconds(row.save.p50),
                    seconds(row.wait.p50),
                    seconds(row.recovery.p50),
                    amount(row.dollars, is_estimate=row.estimated > 0),
                    percent(row.quality),
                )
                for row in found.kinds
            ],
        )
    if found.answers.asked:
        say("")
        say_wrapped(
            f"Questions: {found.answers.asked:,}, answered in {seconds(found.answers.seconds.p50)} (median); "
            f"{percent(found.answers.within.share)} within {seconds(found.answers.target)}; {found.answers.open} open.",
        )
    if found.outlived_count:
        named = "; ".join(f"{name} ({', '.join(calls)})" for name, calls in found.outlived.items())
        say("")
        say_wrapped(f"Could not be stopped: {named}")


def _false_positives(row: "SignalRow") -> str:
    from midcourse.reports.words import percent

    if row.only_warned:
        return "only warned"
    return percent(row.rate.share) if row.rate.of >= row.needed else f"{row.rate.of} labelled of {row.needed}"


def _against(rate: "Proportion", none: str = "") -> str:
    """A share, its target, and what that comes to: ``12 % (5–10 %: above)``. ``none``: that there is nothing yet."""
    from midcourse.reports.words import percent, span_of_target

    verdict = rate.verdict if rate.of or not none else none
    return f"{percent(rate.share)} ({span_of_target(rate.target or (0, 1))}: {verdict})"


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
        async with _reports(target) as reports:
            items = await reports.checklist(began, policy, backtest)
        held = all(one.answer != "does not" for one in items)
        if as_json:
            print_json({"items": items})
            return
        signs = {"holds": "✓", "does not": "✕", "unknown": "?"}
        rows = [(f"{signs[one.answer]} {one.answer}", one.what, one.number, one.todo) for one in items]
        show_table(("", "what", "by", "to do"), rows, whole=("",))

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
        async with _reports(target) as reports:
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
        async with _reports(target) as reports:
            done = await reports.settle(verb, name, why)
        if as_json:
            print_json(done)
        elif done.state == "accepted":
            whom = f"the terms of {done.agent}" if done.agent else f"the terms of what {done.person} starts"
            say(f"Kept as {done.kept_as}. It is used once {whom} name it: policy='{done.name}'.")
        else:
            say(f"{done.id} is refused.")

    carry_out(work(), as_json=as_json)


# ---- here or there


class _Reports(Protocol):
    async def report(self, since: float, policy: str) -> "Report": ...
    async def page(self, since: float, policy: str) -> bytes: ...
    async def checklist(self, since: float, policy: str, backtest: Path | None) -> "Sequence[ChecklistItem]": ...
    async def review(self, since: float) -> Sequence[str]: ...
    async def proposals(self) -> "Sequence[Proposal]": ...
    async def settle(self, verb: Literal["accept", "refuse"], name: str, why: str) -> "Proposal": ...


@asynccontextmanager
async def _reports(target: Target) -> AsyncGenerator[_Reports]:
    server = target.server
    if server is not None:
        from midcourse.client.address import address_of, token_of
        from midcourse.client.wire import Wire

        wire = Wire(address_of(server), token_of(token_for(target, server)), SystemClock(), 10.0)
        try:
            yield _There(wire)
        finally:
            await wire.close()
        return
    url = target.store or DEFAULT_STORE
    path = store_path(url)
    if path is not None and not path.is_file():
        raise StoreUnavailable(
            f"There is no store at {path}. Name one with --store sqlite:///file.db, or a server with --url.",
            path=str(path),
        )
    opened = await open_store(url)
    try:
        yield _Here(opened)
    finally:
        await opened.close()


class _Here:
    """The reports of a store that is open here."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def report(self, since: float, policy: str) -> "Report":
        from midcourse.reports.fleet import Fleet, default_policy, report_on

        default = await default_policy(self._store, policy)
        now = SystemClock().now()
        return await report_on(Fleet(self._store, since, now, default=default, progress=_progress()))

    async def page(self, since: float, policy: str) -> bytes:
        from midcourse.reports.html import page

        found = await self.report(since, policy)
        return page(found, await self._items(found, policy, None)).encode()

    async def checklist(self, since: float, policy: str, backtest: Path | None) -> "Sequence[ChecklistItem]":
        return await self._items(await self.report(since, policy), policy, backtest)

    async def _items(self, found: "Report", policy: str, backtest: Path | None) -> "Sequence[ChecklistItem]":
        from midcourse.reports.checklist import checklist, grounds_of
        from midcourse.reports.fleet import default_policy

        meant = await default_policy(self._store, policy)
        return checklist(found, await grounds_of(meant, self._store.durability, backtest))

    async def review(self, since: float) -> Sequence[str]:
        from midcourse.reports.review import review

        tuned = await review(self._store, since=since, now=SystemClock().now(), progress=_progress())
        told = f"Looked at {tuned.sessions:,} sessions and {tuned.labelled:,} labelled interventions"
        told += f"; {tuned.warnings:,} labelled warnings are counted apart." if tuned.warnings else "."
        return (told, *tuned.remarks)

    async def proposals(self) -> "Sequence[Proposal]":
        from midcourse.reports.review import proposals

        return await proposals(self._store)

    async def settle(self, verb: Literal["accept", "refuse"], name: str, why: str) -> "Proposal":
        from midcourse.reports.review import accept, refuse

        settle = accept if verb == "accept" else refuse
        return await settle(self._store, name, by=me(), why=why, now=SystemClock().now())


def _progress() -> "Progress | None":
    """A line on stderr that counts, if somebody looks."""
    if not sys.stderr.isatty():
        return None

    def tell(count: int) -> None:
        if count % 100 == 0:
            print(f"\rReading: {count:,} sessions", end="", file=sys.stderr, flush=True)

    return tell


class _Version(msgspec.Struct):
    """Of a policy, what it is called."""

    name: str
    version: int


class _There:
    """The reports of a server."""

    def __init__(self, wire: "Wire") -> None:
        self._wire = wire

    async def report(self, since: float, policy: str) -> "Report":
        from midcourse.reports.report import Report

        return await self._wire.get("reports", Report, {"since": since, "policy": policy}, wait=_WAIT)

    async def page(self, since: float, policy: str) -> bytes:
        wanted = {"since": since, "policy": policy, "format": "html"}
        return await self._wire.send("GET", "reports", parameters=wanted, wait=_WAIT)

    async def checklist(self, since: float, policy: str, backtest: Path | None) -> "Sequence[ChecklistItem]":
        from midcourse.reports.checklist import Items, backtested, read_backtest

        tried = None if backtest is None else read_backtest(backtest)
        items = (await self._wire.get("checklist", Items, {"since": since, "policy": policy}, wait=_WAIT)).items
        if tried is None:
            return items
        # The file is here, and what it is of is there: the one item that rests on it is made here.
        meant = await self._version(policy)
        mine = backtested(meant.name, meant.version, tried)
        return [mine if one.id == mine.id else one for one in items]

    async def _version(self, policy: str) -> "_Version":
        """What the server means by a policy's name."""
        from urllib.parse import quote

        from midcourse.core.policy.profiles import STANDARD
        from midcourse.policies.loading import split
        from midcourse.reports.fleet import NAMELESS

        name, version = split(STANDARD.id if policy in NAMELESS else policy)
        wanted = {} if version is None else {"version": version}
        return await self._wire.get(f"policies/{quote(name, safe='')}", _Version, wanted, wait=_WAIT)

    async def review(self, since: float) -> Sequence[str]:
        return (_ITS_OWN_REVIEWS,)

    async def proposals(self) -> "Sequence[Proposal]":
        from midcourse.reports.tuning import Proposals

        return (await self._wire.get("proposals", Proposals, wait=_WAIT)).proposals

    async def settle(self, verb: Literal["accept", "refuse"], name: str, why: str) -> "Proposal":
        from urllib.parse import quote

        from midcourse.reports.tuning import Proposal

        path = f"proposals/{quote(name, safe='')}/{verb}"
        return self._wire.read(await self._wire.send("POST", path, body={"why": why}), Proposal)
