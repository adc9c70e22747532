"""Read a fixture store as today's code does: every page of the API over it, and where its sessions end."""

import asyncio
import contextlib
import json
import lzma
import os
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import httpx2

import midcourse
from midcourse.core.session import ENDED
from midcourse.handle import Midcourse
from tests.replay import agents
from tests.server.live_server import serving

STORES: Final = Path(__file__).parent / "stores"
FLEET: Final = (
    *("sessions?limit=200", "inbox", "interventions", "alarms", "artifacts", "kill-switches", "audit?limit=200"),
    *("webhooks", "tokens", "policies", "proposals"),
)
SESSION: Final = ("", "/inspect", "/events?follow=false", "/receipt", "/interventions", "/signals")
CHANGING: Final = {
    "signals": frozenset({"at", "worked", "value", "history", "measured", "window"}),
    "inbox": frozenset({"reminded_at", "escalated_at", "escalated_to"}),
    "kill-switches": frozenset({"sentence"}),
    "receipt": frozenset({"table"}),
}
"""Fields of a page that change by themselves, or that only say its other fields in words."""
QUIET: Final = midcourse.Settings(poll=0.05, unreachable_after=30.0, park_after=0.0)


@contextmanager
def unpacked(name: str) -> Generator[Path]:
    """A copy of a fixture store, alone in a folder, and the effects that its sessions had."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.db")
        path.write_bytes(lzma.decompress((STORES / name / "store.db.xz").read_bytes()))
        effects = Path(folder, "effects")
        effects.write_bytes((STORES / name / "effects").read_bytes())
        os.environ[agents.EFFECTS] = str(effects)
        try:
            yield path
        finally:
            del os.environ[agents.EFFECTS]


def keep(name: str, page: str, value: object) -> None:
    """Write what is expected of a fixture store."""
    (STORES / name / f"{page}.json.xz").write_bytes(lzma.compress(json.dumps(value).encode(), preset=9))


def kept(name: str, page: str) -> Any:
    """Return what is expected of a fixture store."""
    return json.loads(lzma.decompress((STORES / name / f"{page}.json.xz").read_bytes()))


def pages_of(name: str) -> dict[str, Any]:
    """What every page of the API says of the store, whoever reads it and whenever."""
    with unpacked(name) as path, serving(f"sqlite:///{path}", drive=False) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.api, headers=headers, timeout=30) as client:
            pages = {page: _page(client, page) for page in FLEET}
            for one in cast("list[dict[str, Any]]", pages["sessions?limit=200"]["sessions"]):
                for page in SESSION:
                    address = f"sessions/{one['id']}{page}"
                    pages[address] = _page(client, address)
    return pages


def _page(client: httpx2.Client, address: str) -> Any:
    response = client.get(f"/{address}")
    kind = response.headers["content-type"].partition(";")[0]
    body: object = response.json() if kind.endswith("json") else _frames(response.text)
    return lasting(address, body)


def lasting(address: str, body: object) -> Any:
    """Return the body of a page without its changing fields."""
    return _without(CHANGING.get(address.rpartition("/")[2], frozenset()), body)


def _frames(text: str) -> list[object]:
    """The frames of a stream of events, without the comments that keep it open."""
    found: list[object] = []
    for frame in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line and line[0] != ":")
        if "data" in fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def _without(fields: frozenset[str], value: object) -> object:
    if isinstance(value, dict):
        page = cast("dict[str, object]", value)
        # Since decision 27 an ETag has a position behind what a person decides by: that part is the same.
        kept = {**page, "etag": str(page["etag"]).strip('"').partition("#")[0]} if "etag" in page else page
        return {key: _without(fields, one) for key, one in kept.items() if key not in fields}
    if isinstance(value, list):
        return [_without(fields, one) for one in cast("list[object]", value)]
    return value


async def ends_of(name: str) -> dict[str, Any]:
    """Where each session ends: what it comes to by itself when its store is opened, and after people have helped.

    People answer each ask with "yes", resume what is paused or has failed once, and lift each halt.
    """
    with unpacked(name) as path:
        async with midcourse.open(f"sqlite:///{path}", settings=QUIET) as mc:
            names = sorted(head.id for head in await mc.list(limit=200))
            await _settled(mc, names)
            alone = {one: str(await (await mc.get(one)).status()) for one in names}
            for report in await mc.kill_switch.reports():
                await mc.kill_switch.lift(report.switch.id, "it was a drill")
            for turn in range(4):
                for one in names:
                    await _help(mc, one, tried=turn > 0)
                await _settled(mc, names)
            ends = {one: {"alone": alone[one], **await _end(mc, one)} for one in names}
        effects = Counter(Path(os.environ[agents.EFFECTS]).read_text().splitlines())
    return {"sessions": ends, "effects": dict(effects)}


async def _help(mc: Midcourse, name: str, *, tried: bool) -> None:
    session = await mc.get(name)
    state = await session.state()
    if state.status == "halted":
        await session.lift()
    elif state.status == "paused" or (state.status == "failed" and not tried):
        with contextlib.suppress(midcourse.Refused):  # its parent's resume has reached it
            await session.resume()
    for ask in (await session.state()).asks:
        await session.answer("yes", ask=ask.id)


async def _end(mc: Midcourse, name: str) -> dict[str, Any]:
    session = await mc.get(name)
    state = await session.state()
    result: object = None
    if state.status in ENDED:
        try:
            result = await session.result()
        except midcourse.MidcourseError as error:
            result = f"{type(error).__name__}: {error.code}"
    return {"status": str(state.status), "result": result, "receipt": str(await session.receipt()).splitlines()}


async def _settled(mc: Midcourse, names: Sequence[str]) -> None:
    """Wait until every session has ended, is paused or halted, or waits for a person; and no more is journaled."""
    deadline, before = time.monotonic() + 60, None
    while True:
        states = [await (await mc.get(one)).state() for one in names]
        now = [(state.status, state.position) for state in states]
        moving = {
            one: state.status
            for one, state in zip(names, states, strict=True)
            # A parent runs on while its child waits for a person.
            if state.status in ("running", "pausing", "cancelling", "queued") and state.agent != "replay-parent"
        }
        if not moving and now == before:
            return
        assert time.monotonic() < deadline, f"still moving after 60 s: {moving}"
        before = now
        await asyncio.sleep(0.3)
