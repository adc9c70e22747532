"""Erasing over HTTP, and the erasing that a server does by itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.core.events import SessionErased
from midcourse.errors import Refused
from midcourse.handle import LocalTransport
from midcourse.server.host_threads import ReadingThread
from midcourse.server.retention import keep_erasing
from midcourse.wiring import open_control
from tests.checkpoints.programs import Skipping
from tests.promises.harness import Place, resumable
from tests.server.live_server import TOKEN, serving
from tests.server.stream_reader import served, until_status

SECRET = "quixotic-marmalade-7391"


def teller() -> midcourse.Agent[Any]:
    async def agent(run: midcourse.Run) -> object:
        return await run.ask(f"{SECRET}?")

    return resumable(agent)


@pytest.fixture
def memory(tmp_path: Path) -> Place:
    return Place("memory", tmp_path)


async def test_an_operator_erases_what_has_ended(memory: Place) -> None:
    with served(memory, teller()) as server:
        async with server.client() as client:
            made = await client.post("/sessions", json={"agent": "agent", "goal": SECRET})
            path = f"/sessions/{made.json()['id']}"
            await until_status(client, made.json()["id"], "waiting")
            refused = await client.delete(f"{path}/payloads")
            assert (refused.status_code, refused.json()["code"]) == (409, "not_ended")
            await client.post(f"{path}/cancel", json={"until": "stopped", "reason": SECRET})
            erased = await client.delete(f"{path}/payloads", params={"reason": "asked for"})
            assert erased.status_code == 200, erased.text
            assert (erased.json()["goal"], erased.json()["erased_at"] is None) == ("erased", False)
            assert erased.json()["allowed"] == ["cancel"]
            for address in ("", "/events", "/inspect", "/receipt", "/result"):
                assert SECRET not in (await client.get(path + address)).text
            assert SECRET not in (await client.get("/audit")).text
            again = await client.post(f"{path}/message", json={"text": "go on"})
            assert again.json()["code"] == "session_erased"


async def test_who_may_not_operate_may_not_erase(memory: Place) -> None:
    with served(memory, teller()) as server:
        async with server.client() as client:
            token = (await client.post("/tokens", json={"name": "ann", "role": "approve"})).json()["token"]
            made = await client.post("/sessions", json={"agent": "agent", "goal": SECRET})
            async with server.client(token) as other:
                refused = await other.delete(f"/sessions/{made.json()['id']}/payloads")
                assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_a_client_erases_and_lifts_as_a_program_does(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/s.db", teller()) as server:
        async with midcourse.connect(server.url, token=TOKEN) as remote:
            handle = await remote.start("agent", SECRET)
            await handle.next_ask(timeout=10)
            with pytest.raises(Refused, match="Cancel it first"):
                await handle.erase()
            await handle.cancel(until="stopped")
            erased = await handle.erase("asked for", by="whoever")
            assert (erased.goal, erased.erased_at is None) == ("erased", False)
            assert (await remote.list())[0].erased_at == erased.erased_at
            with pytest.raises(Refused):
                await handle.lift()


async def test_a_server_erases_what_ended_long_enough_ago() -> None:
    clock = Skipping()
    agent = teller()
    control = await open_control(
        "memory://",
        durability="power",
        drives=True,
        settings=midcourse.Settings(),
        agents={"agent": agent},
        clock=clock,
    )
    local = LocalTransport(control)
    mc = midcourse.Midcourse(local)
    reading = ReadingThread()
    handle = await mc.start(agent, SECRET)
    await handle.next_ask(timeout=10)
    await handle.cancel(until="stopped")
    task = asyncio.create_task(keep_erasing(local, reading, 30.0, every=0.02))
    await asyncio.sleep(0.1)
    assert (await handle.state()).goal == SECRET
    clock.skipped = 31 * 86_400.0
    async for event in handle.watch(follow=True):
        if isinstance(event.event, SessionErased):
            assert event.event.by == "retention"
            break
    task.cancel()
    reading.close()
    await mc.close()
