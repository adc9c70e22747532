"""The checks of a store by ``midcourse doctor``: its file, its journals, its audit log, and its workers."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from midcourse.clock import SystemClock
from midcourse.core.audit import Details
from midcourse.core.erasure import is_erased
from midcourse.core.fold import Row, fold
from midcourse.core.ids import Position
from midcourse.core.session import NEEDS_DRIVING
from midcourse.errors import Damaged, MidcourseError
from midcourse.people.outbox import Outbox
from midcourse.people.webhooks import webhook_view
from midcourse.ports.active_switches import ActiveSwitches
from midcourse.ports.audit_log import read_audit
from midcourse.ports.shelves import readable
from midcourse.ports.store import Head, Store, every_head
from midcourse.wiring import examine, open_store

_LARGE_LOG: Final = 256 * 1024**2
_AHEAD: Final = 60.0
"""Seconds by which a time in the store may be ahead of the clock: two clocks of one machine do not differ more."""
_PAGE: Final = 1000
_SHOWN: Final = 5
_SURVIVES: Final = {"power": "a power failure", "process": "the end of its process", "nothing": "nothing"}
_RESTORE: Final = "Stop what uses it, and restore a backup: midcourse store restore."


class Check(NamedTuple):
    """A check, its result, and what to do if it failed."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    advice: str = ""


async def store_checks(name: str, path: Path | None, *, deep: bool) -> list[Check]:
    """Return all of them, as far as the store can be read."""
    checks: list[Check] = []
    if path is not None:
        checks += _file(path, deep=deep)
        if any(one.status == "fail" for one in checks):
            return checks  # a program that opens it would report the same, or change it
    try:
        store = await open_store(name)
    except MidcourseError as error:
        return [*checks, Check("store", "fail", str(error))]
    try:
        status = "ok" if store.durability == "power" else "warn"
        advice = "" if status == "ok" else "Put it on a disk: what lies in memory is gone after a power cut."
        survives = f"{name} opens; what it answers survives {_SURVIVES[store.durability]}"
        checks.insert(0, Check("store", status, survives, advice))
        checks += [one async for one in _inside(store, deep=deep)]
    except MidcourseError as error:
        checks.append(Check("store", "fail", str(error), _RESTORE))
    finally:
        await store.close()
    return checks


def _file(path: Path, *, deep: bool) -> Iterator[Check]:
    try:
        file = examine(path, deep=deep)
    except Damaged as error:
        yield Check("file", "fail", str(error), _RESTORE)
        return
    except MidcourseError as error:
        yield Check("store", "fail", str(error), "Check --store.")
        return
    if file.problems:
        yield Check("file", "fail", f"{path} is damaged: {file.problems[0]}", _RESTORE)
    else:
        looked = "every page was checked" if deep else "checked quickly; --deep checks every page and journal"
        yield Check("file", "ok", f"{file.bytes / 1024**2:,.1f} MB, schema {file.schema}; {looked}")
    if file.damaged:
        told = f"the heads of {_some(file.damaged)} do not match their checksums: lists leave them out"
        yield Check("sessions", "fail", told, _RESTORE)
    if file.log_bytes > _LARGE_LOG:
        yield Check(
            "log",
            "warn",
            f"the log beside the file has {file.log_bytes / 1024**2:,.0f} MB",
            "A program reads all the time, or hangs: end it, then run midcourse store compact.",
        )
    dead = [f"{worker} (process {pid})" for worker, pid, lives in file.workers if not lives]
    living = len(file.workers) - len(dead)
    if dead:
        told = f"{living} alive; ended without a word: {_some(dead)}"
        yield Check("workers", "warn", told, "The next program with their agents continues their sessions.")
    else:
        yield Check("workers", "ok", f"{living} alive")


async def _inside(store: Store, *, deep: bool) -> AsyncGenerator[Check]:
    now = SystemClock().now()
    heads = [head async for head in every_head(store)]
    if deep:
        yield await _journals(store, heads)
    yield await _audit(store)
    yield await _driven(store, now)
    yield _clock(heads, now)
    yield await _shelves(store, deep=deep)
    async for one in _operations(store):
        yield one


async def _journals(store: Store, heads: Sequence[Head]) -> Check:
    bad: list[str] = []
    erased = 0
    for head in heads:
        try:
            erased += await _check_journal(store, head)
        except Damaged as error:
            bad.append(error.message)
    if bad:
        return Check("journals", "fail", f"{len(bad)} damaged; the first: {bad[0]}", _RESTORE)
    gone = f", {erased} of them erased" if erased else ""
    return Check("journals", "ok", f"the digests of {len(heads)} match{gone}")


async def _check_journal(store: Store, head: Head) -> bool:
    """Check a journal, and return True if it was erased.

    Raises:
        Damaged: a record, or a tombstone, is not the one that was written.
    """
    rows: list[Row] = []
    while page := await store.read(head.id, Position(len(rows)), _PAGE):
        rows += page
    fold(head.id, None, rows, ends=(head.position, head.digest))
    return is_erased(head.id, rows)


async def _audit(store: Store) -> Check:
    seen, after, details = 0, 0, Details()
    try:
        while entries := await read_audit(store, after, _PAGE):
            for one in entries:
                details.see(one.seq, one.entry)
            seen, after = seen + len(entries), entries[-1].seq
        details.check()
    except Damaged as error:
        return Check("audit", "fail", str(error), "Find out who can write to the store's file besides its programs.")
    return Check("audit", "ok", f"{seen} entries, each following from the one before")


async def _driven(store: Store, now: float) -> Check:
    found = await store.unattended([status.value for status in NEEDS_DRIVING], now, limit=_PAGE)
    waiting = [one.head for one in found if one.head.parent is None]
    if not waiting:
        return Check("driven", "ok", "every session with work to do has a process that drives it")
    agents = sorted({head.agent for head in waiting})
    return Check(
        "driven",
        "warn",
        f"no process drives {_some([head.id for head in waiting])}",
        f"Start the program that defines {_some(agents)}, or: midcourse serve --agents FILE.",
    )


def _clock(heads: Sequence[Head], now: float) -> Check:
    ahead = [head for head in heads if head.updated_at > now + _AHEAD]
    if not ahead:
        return Check("clock", "ok", "nothing in the store is from the future")
    by = max(head.updated_at for head in ahead) - now
    return Check(
        "clock",
        "warn",
        f"{_some([head.id for head in ahead])} moved {by:,.0f} s ahead of this machine's clock",
        "The clock was set back, or is wrong: deadlines come that much later. Set it right (NTP).",
    )


async def _shelves(store: Store, *, deep: bool) -> Check:
    """Check the shelves. Those of frameworks are large, and checked with the journals."""
    bad: set[tuple[str, str]] = set()
    for shelf in await store.shelves():
        if deep or ":" not in shelf:
            bad |= {(shelf, key) for key in (await readable(store, shelf))[1]}
    outbox = Outbox(store)
    await outbox.look_through()
    named = [f"'{key}' on the shelf '{shelf}'" for shelf, key in sorted(bad | outbox.unreadable)]
    if not named:
        return Check("shelves", "ok", "what lies beside the journals can be read")
    advice = f"{_RESTORE} What is left of a webhook is removed with: midcourse webhook remove WEBHOOK."
    return Check("shelves", "fail", f"{_some(named)} cannot be read, and is left out", advice)


async def _operations(store: Store) -> AsyncGenerator[Check]:
    standing = await ActiveSwitches(store).switches()
    if standing:
        scopes = [f"{one.id} over {one.scope.kind} {one.scope.value}".rstrip() for one in standing]
        yield Check(
            "kill switch",
            "warn",
            f"in force: {_some(scopes)}",
            "What starts there is halted. midcourse kill-switch list",
        )
    outbox = Outbox(store)
    views = [webhook_view(one, await outbox.deliveries(one.id)) for one in await outbox.webhooks()]
    gone = [one.id for one in views if one.gone_at is not None]
    if gone:
        told = f"gets nothing more, because the receiver answered that it is gone (410): {_some(gone)}"
        yield Check("webhooks", "warn", told, "Remove them; or, if it is there again: midcourse webhook test WEBHOOK.")
    failing = [
        f"{one.id} ({one.waiting} waiting, {one.given_up} given up)"
        for one in views
        if one.failing_since and one.gone_at is None
    ]
    if failing:
        yield Check(
            "webhooks", "warn", f"nothing arrives at {_some(failing)}", "Check their answers; repair or remove them."
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
