"""Reports, checklists and reviews of a store that is opened here, or of a server: the same questions to both."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from midcourse.cli.target import LOCAL, Target, check_there, token_for
from midcourse.clock import SystemClock
from midcourse.ports.store import Store
from midcourse.wiring import open_store

if TYPE_CHECKING:  # what these need is imported when they run: other commands are not to wait for it
    from midcourse.analysis.reports.checklist import ChecklistItem
    from midcourse.analysis.reports.fleet import Progress
    from midcourse.analysis.reports.proposals import Proposal
    from midcourse.analysis.reports.report import Report
    from midcourse.handle.http.connection import HttpConnection

_ITS_OWN_REVIEWS = (
    "A server makes its reviews by itself, once a week unless it was started with another --review-every; this lists "
    "what they proposed. To make one now, name its file on its machine: midcourse policy review --store sqlite:///FILE"
)
_WAIT = 270.0
"""Seconds beyond the usual that a server may take to read all it has."""


class Reports(Protocol):
    async def report(self, since: float, policy: str) -> "Report": ...
    async def page(self, since: float, policy: str) -> bytes: ...
    async def checklist(self, since: float, policy: str, backtest: Path | None) -> "Sequence[ChecklistItem]": ...
    async def review(self, since: float) -> Sequence[str]: ...
    async def proposals(self) -> "Sequence[Proposal]": ...
    async def settle(self, verb: Literal["accept", "refuse"], name: str, why: str) -> "Proposal": ...


@asynccontextmanager
async def reports_of(target: Target) -> AsyncGenerator[Reports]:
    server = target.server
    if server is not None:
        from midcourse.handle.http.address import address_of, token_of
        from midcourse.handle.http.connection import HttpConnection

        wire = HttpConnection(address_of(server), token_of(token_for(target, server)), SystemClock(), 10.0)
        try:
            yield _There(wire)
        finally:
            await wire.close()
        return
    opened = await open_store(check_there(target.store))
    try:
        yield _Here(opened)
    finally:
        await opened.close()


class _Here:
    """The reports of a store that is open here."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def report(self, since: float, policy: str) -> "Report":
        from midcourse.analysis.reports.fleet import Fleet, default_policy, report_on

        default = await default_policy(self._store, policy)
        now = SystemClock().now()
        return await report_on(Fleet(self._store, since, now, default=default, progress=_progress()))

    async def page(self, since: float, policy: str) -> bytes:
        from midcourse.analysis.reports.html import page

        found = await self.report(since, policy)
        return page(found, await self._items(found, policy, None)).encode()

    async def checklist(self, since: float, policy: str, backtest: Path | None) -> "Sequence[ChecklistItem]":
        return await self._items(await self.report(since, policy), policy, backtest)

    async def _items(self, found: "Report", policy: str, backtest: Path | None) -> "Sequence[ChecklistItem]":
        from midcourse.analysis.reports.checklist import checklist
        from midcourse.analysis.reports.checklist_inputs import grounds_of
        from midcourse.analysis.reports.fleet import default_policy

        meant = await default_policy(self._store, policy)
        return checklist(found, await grounds_of(meant, self._store.durability, backtest))

    async def review(self, since: float) -> Sequence[str]:
        from midcourse.analysis.reports.review import review

        tuned = await review(self._store, since=since, now=SystemClock().now(), progress=_progress())
        told = f"Checked {tuned.sessions:,} sessions and {tuned.labelled:,} labelled interventions"
        told += f"; {tuned.warnings:,} labelled warnings are counted apart." if tuned.warnings else "."
        return (told, *tuned.remarks)

    async def proposals(self) -> "Sequence[Proposal]":
        from midcourse.analysis.reports.review import proposals

        return await proposals(self._store)

    async def settle(self, verb: Literal["accept", "refuse"], name: str, why: str) -> "Proposal":
        from midcourse.analysis.reports.review import accept, refuse

        settle = accept if verb == "accept" else refuse
        return await settle(self._store, name, by=LOCAL, why=why, now=SystemClock().now())


def _progress() -> "Progress | None":
    """Return a counter on a line of stderr, on a terminal."""
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

    def __init__(self, wire: "HttpConnection") -> None:
        self._wire = wire

    async def report(self, since: float, policy: str) -> "Report":
        from midcourse.analysis.reports.report import Report

        return await self._wire.get("reports", Report, {"since": since, "policy": policy}, wait=_WAIT)

    async def page(self, since: float, policy: str) -> bytes:
        wanted = {"since": since, "policy": policy, "format": "html"}
        return await self._wire.send("GET", "reports", parameters=wanted, wait=_WAIT)

    async def checklist(self, since: float, policy: str, backtest: Path | None) -> "Sequence[ChecklistItem]":
        from midcourse.analysis.reports.checklist import Items, backtested
        from midcourse.analysis.reports.checklist_inputs import read_backtest

        tried = None if backtest is None else read_backtest(backtest)
        items = (await self._wire.get("checklist", Items, {"since": since, "policy": policy}, wait=_WAIT)).items
        if tried is None:
            return items
        # The file is here, and what it is of is there: the one item that rests on it is made here.
        meant = await self._version(policy)
        mine = backtested(meant.name, meant.version, tried)
        return [mine if one.id == mine.id else one for one in items]

    async def _version(self, policy: str) -> "_Version":
        """Return the server's policy of that name."""
        from urllib.parse import quote

        from midcourse.analysis.reports.fleet import NAMELESS
        from midcourse.policy.profiles import STANDARD
        from midcourse.policy.yaml_reader import split

        name, version = split(STANDARD.id if policy in NAMELESS else policy)
        wanted = {} if version is None else {"version": version}
        return await self._wire.get(f"policies/{quote(name, safe='')}", _Version, wanted, wait=_WAIT)

    async def review(self, since: float) -> Sequence[str]:
        return (_ITS_OWN_REVIEWS,)

    async def proposals(self) -> "Sequence[Proposal]":
        from midcourse.analysis.reports.proposals import Proposal

        return await self._wire.items("proposals", "proposals", Proposal, wait=_WAIT)

    async def settle(self, verb: Literal["accept", "refuse"], name: str, why: str) -> "Proposal":
        from urllib.parse import quote

        from midcourse.analysis.reports.proposals import Proposal

        path = f"proposals/{quote(name, safe='')}/{verb}"
        return self._wire.read(await self._wire.send("POST", path, body={"why": why}), Proposal)
