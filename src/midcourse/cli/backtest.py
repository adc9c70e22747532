"""``midcourse policy backtest``: what policies would have done on recorded runs."""

import sys
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
import typer
from rich.console import Console

from midcourse.cli.command import NOWHERE, Call, command
from midcourse.cli.printer import plain, print_json, print_lines, print_wrapped, show_table, tell
from midcourse.cli.target import Target, argument, flag, opened, option, store_path
from midcourse.core.events import Recorded
from midcourse.core.policy_decision import INTERRUPTS
from midcourse.core.to_json import to_json
from midcourse.errors import InvalidInput
from midcourse.handle import SessionHandle, Sessions
from midcourse.wiring import open_store

if TYPE_CHECKING:  # what this needs is imported when it runs: other commands are not to wait for it
    from midcourse.analysis.backtest import Backtest, Notice, Recording, Verdict
    from midcourse.analysis.backtest.importers import Progress
    from midcourse.policy.document import Policy

_MOST = 20
"""Notices that are printed: more of them say nothing new."""
_PAGE = 1000
_STORES = (".db", ".sqlite", ".sqlite3")


@command("policy backtest", "Try policies on recorded runs.", where=NOWHERE)
async def try_policies(
    call: Call,
    files: Annotated[list[str], argument("FILES", "Recorded runs, or folders of them; or a store.")],
    policy: Annotated[
        list[str] | None,
        option("--policy/-p", "POLICY", "A built-in policy, one saved in the store, or a YAML file; may be repeated."),
    ] = None,
    risk: Annotated[bool, flag("--risk", "Also use the combined risk model that comes with Midcourse.")] = False,
    risk_model: Annotated[Path | None, option("--risk-model", "FILE", "Also use this combined risk model.")] = None,
    drift: Annotated[bool, flag("--drift", "Also measure how far actions are from the goal. Slow.")] = False,
    domain_by: Annotated[
        Literal["source", "none"], flag("--domain-by", "Where the risk model finds a run's domain.")
    ] = "source",
    plan_asks: Annotated[
        bool,
        typer.Option("--plan-asks/--no-plan-asks", help="Whether asking an agent for its plan counts as stopping it."),
    ] = True,
    output: Annotated[Literal["table", "json"], flag("--format", "Tables for people, or one JSON document.")] = "table",
    plots: Annotated[
        Path | None, option("--plots", "DIR", "Draw the figures into this folder, as PNG and SVG.")
    ] = None,
    verdicts: Annotated[
        Path | None, option("--verdicts", "FILE", "Write the verdict on each run, one per line.")
    ] = None,
) -> None:
    """Try policies on recorded runs: which runs they would have stopped, when, and what that would have saved.

    A run counts as stopped at the first decision that interrupts it. Recall is the share of failed runs that were
    stopped, false stops the share of successful ones. Savings are shares of the failed runs' steps, minutes and
    dollars. In brackets: the 95 % confidence interval over tasks like these.

    Files are runs with their steps, one per line; transcripts of Claude Code; OpenTelemetry traces (OTLP JSON, or one
    span per line); journals as `midcourse events --json` prints them; each may be gzipped. Parts that cannot be read
    are listed on stderr. For the sessions of a store, give sqlite:///file.db. Changes nothing.

    \b
    Examples:
      midcourse policy backtest runs.jsonl.gz
      midcourse policy backtest --policy standard --policy mine.yaml --plots pictures runs/
      midcourse policy backtest --policy conservative --risk runs.jsonl.gz --format json
    """
    from midcourse.analysis.backtest import backtest, risk_in

    policies = await policies_in(policy or ["standard"], files)
    noticed: list[Notice] = []
    runs = [one async for one in runs_in(files, noticed)]
    with _progress() as progress:
        tried = backtest(
            policies,
            runs,
            risk=risk_in(risk_model) if risk_model is not None else risk or None,
            drift=drift,
            domain_by=domain_by,
            interrupts=INTERRUPTS if plan_asks else INTERRUPTS - {"ask_plan"},
            progress=progress,
            noticed=noticed,
        )
    _tell_notices(tried.notices)
    if verdicts is not None:
        _write(tried, verdicts)
    drawn: Sequence[Path] = ()
    if plots is not None:
        from midcourse.analysis.backtest.plots import draw

        drawn = draw(tried, plots)
    if call.as_json:
        print_json(tried.to_json())
    else:
        _show(tried, drawn)


@contextmanager
def _progress() -> "Generator[Progress | None]":
    """Show a progress bar on a terminal's stderr."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[runs]} runs"), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0, runs=0)
        yield lambda share, runs: bar.update(task, completed=share, runs=runs)


async def recordings_in(given: Iterable[str]) -> "list[Recording]":
    """Return every run of these files and stores; list what was left out on stderr."""
    from midcourse.analysis.backtest import Recording, read_recordings

    noticed: list[Notice] = []
    found = [one async for one in runs_in(given, noticed)]
    recordings = [one for one in found if isinstance(one, Recording)]
    paths = [one for one in found if not isinstance(one, Recording)]
    recordings += read_recordings(paths, tell=noticed.append) if paths else ()
    _tell_notices(noticed)
    return recordings


async def policies_in(names: Iterable[str], given: Iterable[str]) -> "list[Policy]":
    """Return the named policies or those of files; of a given store also those saved in it.

    Raises:
        InvalidInput: there is none of that name, or a file has mistakes.
    """
    from midcourse.policy import versions
    from midcourse.policy.yaml_reader import read_policy

    stores = [url for url in map(_url, filter(_is_store, given)) if (path := store_path(url)) and path.is_file()]
    try:
        if not stores:
            return [read_policy(one) for one in names]
        store = await open_store(stores[0])
        try:
            return [await versions.read(store, one) for one in names]
        finally:
            await store.close()
    except InvalidInput as error:
        if error.code != "policy_not_found":
            raise
        told = f"{error.message} Give one that is saved elsewhere as a file: midcourse policy show NAME > NAME.yaml"
        raise InvalidInput(told, code=error.code, **error.fields) from error


def _is_store(given: str) -> bool:
    return given.startswith("sqlite:///") or given.endswith(_STORES)


def _url(store: str) -> str:
    return store if store.startswith("sqlite:///") else f"sqlite:///{store}"


async def runs_in(given: Iterable[str], noticed: "list[Notice]") -> "AsyncIterator[str | Recording]":
    """Files as they are; of a store, its sessions."""
    for one in given:
        if not _is_store(one):
            yield one
            continue
        url = _url(one)
        async with opened(Target(store=url)) as sessions:
            async for recording in _of_store(sessions, one, noticed):
                yield recording


async def _of_store(sessions: Sessions, store: str, noticed: "list[Notice]") -> "AsyncIterator[Recording]":
    """Yield every session in which a call has ended, newest first."""
    from midcourse.analysis.backtest import Notice, recording_of

    before: str | None = None
    idle = 0
    while True:
        page = await sessions.list(limit=_PAGE, before=before)
        for head in page:
            recording = recording_of(await _events(await sessions.get(head.id)), run_id=head.id)
            if recording is None:
                idle += 1
            else:
                yield recording
        if len(page) < _PAGE:
            break
        before = page[-1].id
    if idle:
        whose, left = ("1 session here has", "It is") if idle == 1 else (f"{idle} sessions here have", "They are")
        sentence = f"{whose} no call that has ended, of a model or a tool. {left} left out."
        noticed.append(Notice(file=store, sentence=sentence, left_out=idle))


async def _events(handle: SessionHandle[Any]) -> list[Recorded]:
    """Return a session's journal, as far as it has come."""
    last = (await handle.state()).position
    events: list[Recorded] = []
    # What watch gives is a generator, which is to be closed when it is left early.
    async with aclosing(cast("Any", handle.watch(0, follow=True))) as seen:
        async for event in seen:
            events.append(event)
            if event.position >= last:
                break
    return events


def _tell_notices(notices: "Sequence[Notice]") -> None:
    """List what was left out of the files, on stderr."""
    for notice in notices[:_MOST]:
        tell(plain(str(notice), lines=False))
    rest = notices[_MOST:]
    if rest:
        left_out = sum(notice.left_out for notice in rest)
        tell(f"And {len(rest)} notices more, of {left_out} left out. All of them: --format json")


def _write(tried: "Backtest", path: Path) -> None:
    try:
        with path.open("wb") as file:
            for name, one in tried.policies.items():
                for verdict in one.verdicts:
                    file.write(msgspec.json.encode({"policy": name, **_verdict_json(verdict)}) + b"\n")
    except OSError as error:
        raise InvalidInput(
            f"The verdicts cannot be written to {path} ({error.strerror or error}). Name another file.",
            code="unwritable",
            file=str(path),
        ) from error


def _verdict_json(verdict: "Verdict") -> dict[str, Any]:
    why = verdict.decision.arithmetic if verdict.decision is not None else ""
    return {**to_json(verdict), "why": why}


def _show(tried: "Backtest", drawn: Sequence[Path]) -> None:
    from midcourse.analysis.backtest.tables import remarks, tables

    for table in tables(tried):
        show_table(table.header, table.rows, numbers=table.numbers, title=table.title)
        print_lines("")
    print_wrapped(*remarks(tried))
    print_lines(*(f"Drawn: {path}" for path in drawn))
