"""What an operator stumbles over, over HTTP: who made a session, what a word counted as, names that nobody has."""

from pathlib import Path
from typing import Any

import httpx2

import midcourse
from midcourse.runtime.settings import Settings
from tests.console.fleets import STATUSES, elsewhere
from tests.promises.harness import Place, resumable
from tests.server.stream_reader import opened, served, until_status


@midcourse.tool(effect="write", environment="prod")
async def purge(table: str) -> str:
    return f"{table} is empty"


async def purges(run: midcourse.Run) -> str:
    try:
        return await run.step("purge", purge, "orders")
    except midcourse.StepError as error:
        return str(error.fields["detail"])


async def token(client: httpx2.AsyncClient, name: str, role: str) -> str:
    return (await client.post("/tokens", json={"name": name, "role": role})).json()["token"]


async def begun(client: httpx2.AsyncClient) -> str:
    session = (await client.post("/sessions", json={"agent": "agent", "goal": "empty it"})).json()["id"]
    await until_status(client, session, "waiting")
    return session


async def entries(client: httpx2.AsyncClient, **parameters: Any) -> list[dict[str, Any]]:
    return (await client.get("/audit", params=parameters)).json()["entries"]


async def test_who_started_and_forked_a_session_is_audited_with_their_role(memory: Place) -> None:
    with served(memory, resumable(purges), settings=Settings(approve_prod=True)) as server:
        async with server.client() as local, server.client(await token(local, "bob", "steer")) as bob:
            session = await begun(bob)
            forked = (await bob.post(f"/sessions/{session}/fork", json={"paused": True})).json()["id"]
            async with bob.stream("POST", "/chat", json={"agent": "agent", "message": "empty it"}) as spoken:
                chatted = spoken.headers["X-Session-Id"]
            made = [one for one in await entries(local) if one["action"].startswith("session.")]
            assert [(one["session"], one["by"], one["role"], one["action"]) for one in made] == [
                (session, "bob", "steer", "session.start"),
                (forked, "bob", "steer", "session.fork"),
                (chatted, "bob", "steer", "session.start"),
            ]
            assert made[0]["detail"] == "agent: empty it"


async def test_the_newest_of_the_log_come_page_by_page_backwards(memory: Place) -> None:
    with served(memory, resumable(purges)) as server:
        async with server.client() as local:
            for number in range(5):
                await token(local, f"t{number}", "watch")
            last = (await local.get("/audit", params={"before": 0, "limit": 2})).json()
            assert [one["seq"] for one in last["entries"]] == [4, 5]
            before = (await local.get("/audit", params={"cursor": last["next"], "limit": 2})).json()
            assert [one["seq"] for one in before["entries"]] == [2, 3]
            first = (await local.get("/audit", params={"cursor": before["next"], "limit": 2})).json()
            assert ([one["seq"] for one in first["entries"]], first["next"]) == ([1], None)
            assert (await local.get("/audit", params={"before": 3, "after": 1})).status_code == 422


async def test_the_answer_to_an_approval_says_what_it_counted_as_also_to_a_retry(memory: Place) -> None:
    with served(memory, resumable(purges), settings=Settings(approve_prod=True)) as server:
        async with server.client() as local:
            for word, counted, result in (
                ("maybe", "refused", "a person refused it: maybe"),
                ("approve", "approved", "orders is empty"),
            ):
                session = await begun(local)
                key = {"Idempotency-Key": word}
                for _ in range(2):
                    told = (await local.post(f"/sessions/{session}/answer", json={"value": word}, headers=key)).json()
                    assert (told["counted"], f"counted as {counted}" in told["sentence"]) == (counted, True)
                got = (await local.get(f"/sessions/{session}/result", params={"wait": 10})).json()
                assert got["result"] == result


async def test_an_approval_in_the_inbox_names_its_call(memory: Place) -> None:
    with served(memory, resumable(purges), settings=Settings(approve_prod=True)) as server:
        async with server.client() as local:
            await begun(local)
            [ask] = (await local.get("/inbox")).json()["asks"]
            assert (ask["tool"], ask["arguments"], ask["why"]) == ("purge", '["orders"]', "changes something in prod")


async def test_many_sessions_are_lifted_by_an_operator_and_by_nobody_else(memory: Place) -> None:
    with served(memory, resumable(purges), settings=Settings(approve_prod=True)) as server:
        async with server.client() as local, server.client(await token(local, "bob", "approve")) as bob:
            sessions = [await begun(local) for _ in range(2)]
            thrown = (await local.post("/kill-switches", json={"scope": {"kind": "all"}, "reason": "x"})).json()
            await local.post(f"/kill-switches/{thrown['id']}/lift", json={"why": "over"})
            wish = {"verb": "lift", "sessions": sessions}
            refused = (await bob.post("/sessions/bulk", json=wish)).json()["outcomes"]
            assert [one["code"] for one in refused] == ["operator_only"] * 2
            done = (await local.post("/sessions/bulk", json=wish)).json()["outcomes"]
            assert [(one["ok"], one["status"], one["unknown"]) for one in done] == [(True, "waiting", [])] * 2


async def test_a_name_that_nothing_has_is_said_with_those_there_are_and_never_another_tenants(memory: Place) -> None:
    with served(memory, resumable(purges)) as server:
        async with server.client() as local:
            scope = {"kind": "agent", "value": "agnt"}
            counted = (await local.post("/kill-switches/preview", json={"scope": scope})).json()
            assert counted["hint"] == "No agent of that name is known here. Did you mean 'agent'? Known: agent."
            assert counted["sentence"].endswith(counted["hint"])
            thrown = (await local.post("/kill-switches", json={"scope": scope, "reason": "x"})).json()
            assert (thrown["stands"], thrown["hint"]) == (True, counted["hint"])
            await local.post("/sessions", json={"agent": "agent", "labels": ["secret-plan"]})
            made = await local.post("/tokens", json={"name": "eve", "role": "operate", "tenant": "acme"})
            async with server.client(made.json()["token"]) as eve:
                wish = {"scope": {"kind": "label", "value": "secret-plans"}}
                theirs = (await eve.post("/kill-switches/preview", json=wish)).json()
                ours = (await local.post("/kill-switches/preview", json=wish)).json()
                assert theirs["hint"] == "No label of that name is known here."
                assert "Did you mean 'secret-plan'?" in ours["hint"]


async def test_whoever_has_a_token_is_known_before_doing_anything(memory: Place) -> None:
    with served(memory, resumable(purges)) as server:
        async with server.client() as local:
            await token(local, "bob", "steer")
            for name, warning in (("bob", ""), ("bbo", "No person called 'bbo' has acted here so far.")):
                made = (await local.post("/inbox/hand-over", json={"to": name})).json()
                assert (made["to"], made["warning"]) == (name, warning)


async def test_a_list_and_its_stream_say_of_a_session_that_nobody_drives_it(tmp_path: Path) -> None:
    """Its agent is not here, so that this server leaves it to others."""
    place = Place("sqlite", tmp_path)
    with elsewhere(place.url) as fleet:
        fleet.fill(len(STATUSES))
        with served(place, resumable(purges)) as server:
            async with server.client() as local:
                driven = (await local.get("/sessions", params={"limit": 200})).json()["sessions"]
                assert not any(one["unattended"] for one in driven)
    with served(place, resumable(purges)) as server:
        async with server.client() as local:
            alone = (await local.get("/sessions", params={"limit": 200})).json()["sessions"]
            assert {one["status"] for one in alone if one["unattended"]} == {"running", "pausing"} & set(STATUSES)
            async with opened(local, "GET", "/sessions", headers={"Accept": "text/event-stream"}) as stream:
                told = (await stream.next()).data["sessions"]
                assert {one["id"]: one["unattended"] for one in told} == {one["id"]: one["unattended"] for one in alone}
