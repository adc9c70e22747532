"""One verb for many sessions: each gets the ordinary command, and one that refuses keeps no other from it."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2

import midcourse
from midcourse.core.bulk import MOST_SESSIONS
from tests.console.fleets import elsewhere
from tests.promises.harness import Place, resumable
from tests.server.live_server import serving
from tests.server.stream_reader import Data, events_of, served, until_status


async def waits(run: midcourse.Run) -> object:
    """Asks, so that it is there until somebody does something with it."""
    return await run.ask("Well?", reason="need_input")


async def begun(client: httpx2.AsyncClient, goal: str = "") -> str:
    """A session that waits."""
    session = (await client.post("/sessions", json={"agent": "agent", "goal": goal})).json()["id"]
    await until_status(client, session, "waiting")
    return session


async def sent(client: httpx2.AsyncClient, verb: str, sessions: list[str], key: str = "", **more: Any) -> list[Data]:
    """What became of each."""
    headers = {"Idempotency-Key": key} if key else {}
    response = await client.post("/sessions/bulk", json={"verb": verb, "sessions": sessions, **more}, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()["outcomes"]


async def test_each_session_gets_the_command_and_is_told_of_in_its_place(memory: Place) -> None:
    """With the caller's reason, once for a name given twice; the ended and the unknown are named."""
    with served(memory, resumable(waits)) as server:
        async with server.client() as client:
            one, other, ended = [await begun(client) for _ in range(3)]
            await client.post(f"/sessions/{ended}/cancel", json={"until": "stopped"})
            told = await sent(client, "pause", [one, "sess_none", ended, other, one], reason="a freeze")
            assert [(row["session"], row["ok"], row["code"]) for row in told] == [
                (one, True, ""),
                ("sess_none", False, "session_not_found"),
                (ended, False, "session_ended"),
                (other, True, ""),
            ]
            assert told[1]["problem"] == "There is no session 'sess_none' here."
            assert told[2]["status"] == "cancelled"
            for session in (one, other):
                await until_status(client, session, "paused")
                [asked] = [e for e in await events_of(client, session) if e["type"] == "session.pause_requested"]
                assert asked["data"]["reason"] == "a freeze"
            assert all(row["ok"] for row in await sent(client, "resume", [one, other]))
            for session in (one, other):
                await until_status(client, session, "waiting")
            assert all(row["ok"] for row in await sent(client, "cancel", [one, other], grace=0))
            for session in (one, other):
                await until_status(client, session, "cancelled")


async def test_a_retry_with_the_same_key_is_the_same_command_for_each_session(memory: Place) -> None:
    """Also for those that the first try did not reach; with another verb it is refused for each."""
    with served(memory, resumable(waits)) as server:
        async with server.client() as client:
            one, other = await begun(client), await begun(client)
            await sent(client, "pause", [one], "freeze-1")
            await client.post(f"/sessions/{one}/resume", json={})
            await until_status(client, one, "waiting")
            again = await sent(client, "pause", [one, other], "freeze-1")
            assert [row["ok"] for row in again] == [True, True]
            await until_status(client, other, "paused")
            shown = await client.get(f"/sessions/{one}")
            assert shown.json()["status"] == "waiting"  # it was paused once, and resumed since
            mixed = await sent(client, "cancel", [one], "freeze-1")
            assert mixed[0]["code"] == "command_id_taken"


async def test_a_silent_worker_keeps_nobody_elses_command_back(tmp_path: Path) -> None:
    """Those that answer are reached first; the silent ones are written down, and said to be so."""
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    with elsewhere(url) as silent:
        silent.fill(40)
        with serving(url, resumable(waits), durability="process") as server:
            async with server.client() as client:
                own = await begun(client)
                held = [name for name, head in silent.heads.items() if head.status == "running"][:8]
                asked = asyncio.create_task(sent(client, "pause", [*held, own]))
                await until_status(client, own, "paused")
                told = await asked
                assert [row["code"] for row in told] == ["not_reachable"] * len(held) + [""]
                assert told[0]["problem"].startswith("Stored")
                store = server.server.local
                assert store is not None
                undecided = await store.worker.store.undecided(held[0])
                assert len(undecided) == 1  # sent twice, and one command


async def test_what_cannot_be_meant_is_a_sentence(memory: Place) -> None:
    """No session, too many, no such verb; and a role that may not is refused for all of them at once."""
    with served(memory, resumable(waits)) as server:
        async with server.client() as client:
            bodies: list[Data] = [
                {"verb": "pause", "sessions": []},
                {"verb": "pause", "sessions": ["sess_1"] * (MOST_SESSIONS + 1)},
                {"verb": "halt", "sessions": ["sess_1"]},
                {"verb": "pause", "sessions": [""]},
                {"verb": "pause"},
            ]
            for body in bodies:
                response = await client.post("/sessions/bulk", json=body)
                assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
            token = (await client.post("/tokens", json={"name": "eyes", "role": "watch"})).json()["token"]
        async with server.client(token) as watcher:
            response = await watcher.post("/sessions/bulk", json={"verb": "pause", "sessions": ["sess_1"]})
            assert (response.status_code, response.json()["code"]) == (403, "forbidden")


async def test_another_tenants_session_is_as_one_that_is_not_there(memory: Place) -> None:
    """And within its own tenant a caller may leave the tenant out."""
    with served(memory, resumable(waits)) as server:
        async with server.client() as client:
            theirs = await begun(client)
            body = {"name": "ops", "role": "operate", "tenant": "acme"}
            token = (await client.post("/tokens", json=body)).json()["token"]
            other = (await client.post("/tokens", json=body | {"name": "other", "tenant": "other"})).json()["token"]
        async with server.client(other) as neighbour:
            named = await begun(neighbour)
            assert named.startswith("other~")
        async with server.client(token) as acme:
            own = await begun(acme)
            told = await sent(acme, "pause", [theirs, named, own, own.partition("~")[2]])
            assert [(row["ok"], row["code"]) for row in told] == [
                (False, "session_not_found"),
                (False, "session_not_found"),
                (True, ""),
                (True, ""),
            ]
            assert await sent(acme, "pause", ["sess_none"]) == [
                {**told[0], "session": "sess_none", "problem": "There is no session 'sess_none' here."}
            ]
        async with server.client() as client:
            for session in (theirs, named):
                assert (await client.get(f"/sessions/{session}")).json()["status"] == "waiting"
