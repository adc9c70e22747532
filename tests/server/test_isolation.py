"""Agents' code never shares a loop with HTTP and control; the server in another application; and a killed server."""

import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

import midcourse
from midcourse.server import Server
from tests.promises.harness import Place, resumable
from tests.server.live_server import TOKEN
from tests.server.server_process import alone
from tests.server.stream_reader import Latch, count_of, events_of, eventually, opened, served, until_status


async def started(client: httpx2.AsyncClient, agent: str, goal: str = "") -> str:
    """A new session."""
    response = await client.post("/sessions", json={"agent": agent, "goal": goal})
    assert response.status_code == 201, response.text
    return response.json()["id"]


# ---- a loop of their own


async def test_an_agent_that_blocks_its_loop_blocks_no_control(memory: Place) -> None:
    """While it holds the loop, other sessions are paused, redirected, answered and cancelled; the watchdog names it."""
    entered, may_go_on = Latch(), threading.Event()

    async def rude(run: midcourse.Run) -> str:
        await run.step("look", _look)
        entered.set()
        may_go_on.wait()  # it holds the loop, which is what this test is about
        await run.step("look again", _look)
        return "sorry"

    async def polite(run: midcourse.Run) -> object:
        return [await run.ask("One?", reason="need_input"), await run.ask("Two?", reason="need_input")]

    agents = (resumable(rude, name="rude"), resumable(polite, name="polite"))
    with served(memory, *agents, settings=midcourse.Settings(poll=0.05)) as server:
        async with server.client() as client:
            others = [await started(client, "polite") for _ in range(4)]
            for other in others:
                await until_status(client, other, "waiting")
            blocking = await started(client, "rude")
            try:
                await entered.wait()
                paused, redirected, answered, cancelled = others
                reply = await client.post(f"/sessions/{paused}/pause")
                assert (reply.status_code, reply.json()["status"]) == (200, "paused")
                reply = await client.post(f"/sessions/{redirected}/redirect", json={"text": "left", "level": "step"})
                assert (reply.status_code, reply.json()["level"]) == (200, "decided")
                reply = await client.post(f"/sessions/{answered}/answer", json={"value": 1})
                assert (reply.status_code, reply.json()["level"]) == (200, "decided")
                reply = await client.post(f"/sessions/{cancelled}/cancel", json={"grace": 0})
                assert (reply.status_code, reply.json()["status"]) == (200, "cancelling")
                reply = await client.post(f"/sessions/{blocking}/pause", json={"grace": 0, "wait": 1})
                assert (reply.status_code, reply.json()["status"]) == (200, "pausing")
                assert (await client.get("/sessions")).status_code == 200
                async with opened(
                    client, "GET", f"/sessions/{paused}/events", headers={"Accept": "text/event-stream"}
                ) as events:
                    await events.next()
                await eventually(lambda: count_of(client, blocking, "agent.blocked"), bool)
            finally:
                may_go_on.set()
            await until_status(client, blocking, "paused")
            told = [one["data"] for one in await events_of(client, blocking) if one["type"] == "agent.blocked"]
            assert [("test_isolation" in one["where"], "in rude" in one["where"]) for one in told][:1] == [(True, True)]
            assert sum("in rude" in one["where"] for one in told) == 1


async def test_code_that_would_end_the_process_ends_nothing_of_others(memory: Place) -> None:
    """``sys.exit`` in a task that an agent has begun for itself would end the loop, and with it everybody's agents."""

    async def leave() -> None:
        sys.exit(3)

    async def rude(run: midcourse.Run) -> str:
        await asyncio.wait({asyncio.create_task(leave())})
        return "sorry"

    async def polite(run: midcourse.Run) -> object:
        return await run.ask("One?", reason="need_input")

    with served(memory, resumable(rude, name="rude"), resumable(polite, name="polite")) as server:
        async with server.client() as client:
            other = await started(client, "polite")
            await until_status(client, other, "waiting")
            await until_status(client, await started(client, "rude"), "completed")
            await client.post(f"/sessions/{other}/answer", json={"value": 1})
            await until_status(client, other, "completed")


@midcourse.tool(effect="read")
async def _look() -> str:
    """Nothing much."""
    return "seen"


# ---- mounted


@contextmanager
def running(app: FastAPI) -> Generator[str]:
    """Where ``app`` is served."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server ended before it began"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive()


def client_of(address: str) -> httpx2.AsyncClient:
    """A client of a server that is mounted there."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx2.AsyncClient(base_url=f"{address}/api/v1", headers=headers, timeout=30)


def hello() -> "dict[str, midcourse.Agent[Any]]":
    """One agent, as a server takes them."""

    async def agent(run: midcourse.Run) -> str:
        return f"hello {await run.ask('Who?', reason='need_input')}"

    return {"agent": resumable(agent)}


async def test_it_is_mounted_into_your_application_in_three_lines(tmp_path: Path) -> None:
    """Its addresses begin where it is mounted, and yours stay yours."""
    server = Server(store=f"sqlite:///{tmp_path / 'runs.db'}", token=TOKEN, agents=hello())
    app = FastAPI(lifespan=server.lifespan)
    app.mount("/agents", server.app)

    @app.get("/mine")
    async def mine() -> str:
        return "mine"

    with running(app) as url:
        async with client_of(f"{url}/agents") as client, httpx2.AsyncClient(base_url=url, timeout=30) as browser:
            assert (await browser.get("/mine")).json() == "mine"
            assert (await browser.get("/agents/api/v1/sessions")).status_code == 401
            made = await client.post("/sessions", json={"agent": "agent", "goal": "greet"})
            session = made.json()["id"]
            assert made.headers["location"] == f"/agents/api/v1/sessions/{session}"
            assert made.headers["cache-control"] == "no-store"
            refused = await client.put("/sessions")
            assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
            found = await browser.get(made.headers["location"], headers={"Authorization": f"Bearer {TOKEN}"})
            assert found.json()["id"] == session
            await until_status(client, session, "waiting")
            body = {"session_id": session, "answer": "you", "ask_id": "ask_1"}
            async with opened(client, "POST", "/chat/resume", json=body) as resumed:
                assert (await resumed.rest())[-1].data["result"] == "hello you"
            made_code = (await client.post("/login/codes")).json()
            assert made_code["link"] == f"{url}/agents/login#{made_code['code']}"
            assert (await browser.get("/agents/login")).status_code == 200
            entered = await browser.post("/agents/api/v1/login", json={"credential": made_code["code"]})
            assert entered.headers["set-cookie"].startswith(f"midcourse_{url.rpartition(':')[2]}_agents=mcb_")
            page = {"Midcourse-Page": entered.json()["page_key"]}
            assert (await browser.get("/agents/api/v1/me", headers=page)).json()["name"] == "local"
            assert (await browser.get("/agents/api/v1/me")).status_code == 401
    assert server.local is None


async def test_a_forgotten_lifespan_is_said_plainly() -> None:
    """Every address that needs the store says what to write; 503, not an unexplained failure."""
    app = FastAPI()
    app.mount("/agents", Server(store="memory://", token=TOKEN, agents=hello()).app)
    with running(app) as url:
        async with client_of(f"{url}/agents") as client:
            for method, path in (("GET", "/sessions"), ("POST", "/chat"), ("GET", "/tokens"), ("POST", "/sessions")):
                response = await client.request(method, path, json={} if method == "POST" else None)
                assert (response.status_code, response.json()["code"]) == (503, "not_started")
                assert "FastAPI(lifespan=server.lifespan)" in response.json()["detail"]


async def test_a_store_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    """The error is the store's own sentence, raised where the lifespan is entered."""
    (tmp_path / "runs.db").write_bytes(b"this is no database, and longer than a header of one" * 100)
    server = Server(store=f"sqlite:///{tmp_path / 'runs.db'}", token=TOKEN, agents=hello())
    with pytest.raises(midcourse.MidcourseError):
        async with server.lifespan():
            pass


# ---- killed


async def test_after_a_kill_every_acknowledged_command_is_there_and_all_goes_on(memory: Place) -> None:
    """kill -9 under load: what was answered is in the journal, and running sessions end by themselves."""
    answered: list[tuple[str, str]] = []
    with alone(memory.path) as server:
        async with server.client() as client:
            goal = json.dumps({"steps": 40, "pace": 0.05})
            sessions = [await started(client, "counter", goal) for _ in range(6)]
            enough = asyncio.Event()

            async def steer(session: str) -> None:
                number = 0
                while True:
                    text = f"instruction {number} for {session}"
                    try:
                        response = await client.post(f"/sessions/{session}/message", json={"text": text})
                    except httpx2.TransportError:
                        return
                    if response.status_code == 200:
                        answered.append((session, text))
                    number += 1
                    if len(answered) >= 30:
                        enough.set()

            steering = [asyncio.create_task(steer(session)) for session in sessions]
            await enough.wait()
            server.kill()
            await asyncio.gather(*steering)
    with alone(memory.path) as server:
        async with server.client() as client:
            for session in sessions:
                said = {
                    one["data"]["text"]
                    for one in await events_of(client, session)
                    if one["type"] in ("message.queued", "session.turn_opened")
                }
                assert {text for of, text in answered if of == session} <= said

            async def first_turn_done() -> int:
                count = 0
                for session in sessions:
                    kinds = [one["type"] for one in await events_of(client, session)]
                    count += "session.completed" in kinds or "session.failed" in kinds
                return count

            # The queued texts are no goals a counter understands: its first turn completes, the next one fails.
            await eventually(first_turn_done, lambda count: count == len(sessions))
            taken = 0
            for session in sessions:
                events = await events_of(client, session)
                finished = [one["data"]["step"] for one in events if one["type"] == "step.finished"]
                assert len(finished) == len(set(finished)) == 40
                taken += any(one["type"] == "session.taken" for one in events)
            assert taken, "the new server has taken by itself what had not ended"
