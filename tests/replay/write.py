"""``python -m tests.replay.write NAME``: write a fixture store with the code as it is, and what it must be read as.

One process owns the sessions and brings each into its status. It is stopped with SIGSTOP, so that commands stay
undecided in the inbox, and then killed, so that calls are lost. Run it once for each release, never for an old one.
"""

import argparse
import asyncio
import lzma
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx2

import midcourse
from midcourse.core.events import event_type
from midcourse.handle import Midcourse
from tests.replay import agents
from tests.replay.fixture_reader import STORES, ends_of, keep, pages_of
from tests.server.live_server import serving

HERE: Final = midcourse.Settings(poll=0.05, unreachable_after=0.5, park_after=1.0)
POLICY: Final = "policy: watchful\nextends: standard\ncorrection: 150\n"

Wanted = tuple[midcourse.Agent[Any], str, str]
SESSIONS: Final[dict[str, Wanted]] = {
    "completed": (agents.worker, "look put build pay send", "completed"),
    "large": (agents.large, "tides", "completed"),
    "rated": (agents.worker, "look", "completed"),
    "undone": (agents.worker, "build build pay", "completed"),
    "erased": (agents.worker, "put", "completed"),
    "failed": (agents.failing, "", "failed"),
    "straying": (agents.straying, "", "read wait!"),
    "lost-read": (agents.worker, "put look!", "read look!"),
    "lost-put": (agents.worker, "put put!", "put put!"),
    "lost-build": (agents.worker, "build build!", "build build!"),
    "lost-pay": (agents.worker, "put pay!", "pay pay!"),
    "lost-send": (agents.worker, "send!", "send send!"),
    "redirected": (agents.worker, "build pay!", "pay pay!"),
    "messages": (agents.worker, "put!", "put put!"),
    "waiting": (agents.asking, "twice", "waiting"),
    "parked": (agents.asking, "once", "waiting"),
    "paused": (agents.worker, "put put!", "put put!"),
    "paused-in-text": (agents.speaking, "tides", "text"),
    "pausing": (agents.worker, "build pay!", "pay pay!"),
    "text": (agents.speaking, "tides", "text"),
    "loop": (agents.looping, "count", "put 30!"),
    "holding": (agents.holding, "house", "build house!"),
    "cancelling": (agents.worker, "build pay!", "pay pay!"),
    "cancelled": (agents.holding, "house", "build house!"),
    "cancelled-all": (agents.worker, "build put pay look!", "read look!"),
    "halted": (agents.worker, "put look!", "read look!"),
    "tree": (agents.parent, "both", "tree"),
    "paused-tree": (agents.parent, "both", "tree"),
    "protected": (agents.protected, "trade", "put trade!"),
    "inbox-pause": (agents.worker, "put put!", "put put!"),
    "inbox-cancel": (agents.worker, "build build!", "build build!"),
    "inbox-answer": (agents.asking, "once", "waiting"),
    "inbox-resume": (agents.worker, "put look!", "read look!"),
    "inbox-redirect": (agents.worker, "put put!", "put put!"),
}
"""Each session by its name: its agent, its goal, and what it is brought to before anything is done to it."""


async def own(url: str) -> None:
    """Own the sessions, bring each into its status, say so, and wait for the end."""
    async with midcourse.open(url, settings=HERE) as mc:
        for name, (agent, goal, _) in SESSIONS.items():
            terms = midcourse.Terms(labels=("held",)) if name == "halted" else None
            await mc.start(agent, goal, session_id=name, terms=terms)
        for name, (_, _, wanted) in SESSIONS.items():
            await _reach(mc, name, wanted)
        await steer(mc)
        print("ready", flush=True)
        await asyncio.Event().wait()


async def steer(mc: Midcourse) -> None:
    """What people did while the owner lived."""

    async def of(name: str) -> midcourse.SessionHandle[Any]:
        return await mc.get(name)

    await (await of("redirected")).redirect("use less", wait=1)
    await (await of("messages")).message("and then?")
    await (await of("messages")).message("and after that?")
    await (await of("paused")).pause("let me think", until="stopped")
    await (await of("paused")).redirect("keep it short", level="goal")
    await (await of("inbox-resume")).pause("for a moment", grace=0, until="stopped")
    await (await of("paused-in-text")).pause("enough", until="stopped")
    await (await of("pausing")).pause("wait", wait=0.2)
    await (await of("cancelling")).cancel("not that", grace=0, wait=0.2)
    await (await of("cancelled")).cancel("no", grace=0, until="stopped")
    await (await of("cancelled-all")).cancel("no", grace=0, undo="all", until="stopped")
    await (await of("paused-tree")).pause("all of you", grace=0, until="stopped")
    await (await of("undone")).undo("not that")
    await (await of("erased")).erase("asked for")
    await (await of("rated")).rate(4, "good")
    await (await of("completed")).fork(session_id="forked")
    await (await of("waiting")).answer("yes", ask="ask_1")
    await mc.kill_switch.throw(midcourse.Scope("label", "held"), "drill")


def keep_documents(url: str) -> None:
    """Put on the shelves what operators keep there."""
    with serving(url, drive=False) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.api, headers=headers, timeout=30) as client:
            for method, page, body in (
                ("PUT", "/policies/watchful", {"document": POLICY, "why": "a replay"}),
                ("POST", "/webhooks", {"url": "http://127.0.0.1:9/hook", "kinds": ["ask.opened"]}),
                ("POST", "/tokens", {"name": "reader", "role": "watch"}),
            ):
                response = client.request(method, page, json=body)
                assert response.is_success, f"{method} {page}: {response.text}"


async def leave_undecided(url: str) -> None:
    """What people wanted of an owner that answered no more."""
    async with midcourse.open(url, drive=False, settings=HERE) as mc:
        await (await mc.get("inbox-pause")).pause("please", wait=0.6)
        await (await mc.get("inbox-cancel")).cancel("please", wait=0.6)
        await (await mc.get("inbox-answer")).answer("no", wait=0.6)
        await (await mc.get("inbox-resume")).resume(wait=0.6)
        await (await mc.get("inbox-redirect")).redirect("the other way", wait=0.6)
        await mc.start(agents.worker, "put", session_id="queued")


async def _reach(mc: Midcourse, name: str, wanted: str) -> None:
    session = await mc.get(name)

    async def is_there() -> bool:
        state = await session.state()
        if wanted == "text":
            return await _count(session, "segment.written") >= 3
        if wanted == "tree":
            return await _children_of(mc, name) == {"replay-asking": "waiting", "replay-worker": "running"}
        alike = sum(one == wanted for _, _, one in SESSIONS.values())
        return state.status == wanted or done().count(wanted) >= alike

    await _until(is_there, f"{name} is {wanted}")


async def _children_of(mc: Midcourse, name: str) -> dict[str, str]:
    heads = [head for head in await mc.list(limit=200) if head.id.startswith(f"{name}.")]
    return {head.agent: str(head.status) for head in heads}


def done() -> list[str]:
    """The effects so far."""
    path = Path(os.environ[agents.EFFECTS])
    return path.read_text().splitlines() if path.exists() else []


async def _count(session: midcourse.SessionHandle[Any], kind: str) -> int:
    position, found = (await session.state()).position, 0
    async for record in session.watch(follow=True):
        found += event_type(record.event).startswith(kind)
        if record.position >= position:
            break
    return found


async def _until(holds: Callable[[], Any], what: str) -> None:
    for _ in range(600):
        if await holds():
            return
        await asyncio.sleep(0.05)
    raise SystemExit(f"not reached within 30 s: {what}; effects: {done()}")


def write(name: str) -> None:
    """Write the store ``name`` and its two pages of what is expected."""
    place = STORES / name
    if place.exists():
        raise SystemExit(f"{place} exists. A store is written once, by the release that it is named after.")
    with tempfile.TemporaryDirectory() as folder:
        path, effects = Path(folder, "store.db"), Path(folder, "effects")
        url = f"sqlite:///{path}"
        environment = {**os.environ, agents.EFFECTS: str(effects), agents.HANGS: "1"}
        owner = subprocess.Popen(
            [sys.executable, "-m", "tests.replay.write", "--own", url], env=environment, stdout=subprocess.PIPE
        )
        try:
            assert owner.stdout is not None
            if owner.stdout.readline() != b"ready\n":
                raise SystemExit("the owner ended before its sessions were there")
            keep_documents(url)
            owner.send_signal(signal.SIGSTOP)
            asyncio.run(leave_undecided(url))
        finally:
            owner.kill()
            owner.wait()
        copy = Path(folder, "copy.db")
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            target.execute("VACUUM")
        place.mkdir(parents=True)
        (place / "store.db.xz").write_bytes(lzma.compress(copy.read_bytes(), preset=9))
        (place / "effects").write_bytes(effects.read_bytes())
    time.sleep(2)  # the owner's silence counts from a second on
    keep(name, "pages", pages_of(name))
    keep(name, "ends", asyncio.run(ends_of(name)))
    print(f"{place}: {sum(one.stat().st_size for one in place.iterdir()) // 1024} KB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.replay.write", description=__doc__)
    parser.add_argument("name", nargs="?", help="the release, such as 0.1")
    parser.add_argument("--own", metavar="URL", help="be the owner of the sessions (used by itself)")
    options = parser.parse_args()
    if options.own:
        asyncio.run(own(options.own))
    elif options.name:
        write(options.name)
    else:
        parser.error("name the release that writes, such as 0.1")
