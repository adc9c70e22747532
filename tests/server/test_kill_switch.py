"""The kill switch over HTTP: thrown once however often it is sent, its report, and who may do what."""

import asyncio
from typing import Any

import midcourse
from tests.promises.harness import Place, resumable
from tests.server.stream_reader import refusal, served, until_status


@midcourse.tool(effect="idempotent")
async def work(number: int) -> int:
    """A little."""
    await asyncio.sleep(0.01)
    return number


def worker(name: str = "worker") -> midcourse.Agent[Any]:
    """Works for ever."""

    async def agent(run: midcourse.Run) -> None:
        number = 0
        while True:
            number = await run.step("work", work, number + 1)

    return resumable(agent, name=name)


async def test_it_halts_its_scope_reports_each_session_and_lifting_it_resumes_nothing(place: Place) -> None:
    """Counted before, thrown once under one key, listed while it stands; what it held goes back when it is released."""
    with served(place, worker(), worker("other")) as server:
        async with server.client() as client:
            body = {"agent": "worker", "goal": "g", "labels": ["night"]}
            ours = [(await client.post("/sessions", json=body)).json()["id"] for _ in range(3)]
            other = (await client.post("/sessions", json={"agent": "other", "goal": "g"})).json()["id"]
            for session in (*ours, other):
                await until_status(client, session, "running")
            scope = {"kind": "label", "value": "night"}
            preview = (await client.post("/kill-switches/preview", json={"scope": scope})).json()
            assert (preview["count"], preview["sentence"]) == (3, "3 sessions now (3 running).")
            wish = {"scope": scope, "reason": "the nightly run deletes too much"}
            key = {"Idempotency-Key": "once"}
            first = await client.post("/kill-switches", json=wish, headers=key)
            assert first.status_code == 201, first.text
            again = (await client.post("/kill-switches", json=wish, headers=key)).json()
            thrown = first.json()
            assert again["id"] == thrown["id"]
            assert thrown["counts"] == {"stopped": 3, "still_running": 0, "not_reachable": 0}
            assert {line["session"] for line in thrown["report"]} == set(ours)
            [listed] = (await client.get("/kill-switches")).json()["switches"]
            assert (listed["id"], listed["stands"], listed["sessions"]) == (thrown["id"], True, 3)
            shown = (await client.get(f"/sessions/{ours[0]}")).json()
            assert (shown["status"], shown["switch"], shown["halt_reason"]) == ("halted", thrown["id"], wish["reason"])
            path = f"/kill-switches/{thrown['id']}"
            assert await refusal(client, f"{path}/release", {}) == (409, "kill_switch_stands")
            late = (await client.post("/sessions", json=body)).json()["id"]
            await until_status(client, late, "halted")
            lifted = (await client.post(f"{path}/lift", json={"why": "mended"})).json()
            assert (lifted["stands"], lifted["sessions"]) == (False, 4)
            assert (await client.get(f"/sessions/{late}")).json()["status"] == "halted"
            some = (await client.post(f"{path}/release", json={"sessions": [ours[0], other]})).json()["outcomes"]
            assert [(one["ok"], one["code"]) for one in some] == [(True, ""), (False, "not_halted")]
            await client.post(f"{path}/release", json={})
            for session in (*ours, late):
                await until_status(client, session, "running")
            assert await refusal(client, f"{path}/lift", {"why": "mended"}) == (409, "already_lifted")


async def test_who_may_watch_sees_that_it_stands_and_only_operators_touch_it(memory: Place) -> None:
    """And bad input is told what is wrong with it."""
    with served(memory, worker()) as server:
        async with server.client() as client:
            token = (await client.post("/tokens", json={"name": "ada", "role": "approve"})).json()["token"]
            wish = {"scope": {"kind": "all"}, "reason": "freeze"}
            thrown = (await client.post("/kill-switches", json=wish)).json()
            for bad in (
                {"scope": {"kind": "agent"}, "reason": "x"},
                {"scope": {"kind": "all", "value": "x"}, "reason": "x"},
                {"scope": {"kind": "some"}, "reason": "x"},
                {"scope": {"kind": "all"}, "reason": "   "},
                {"scope": {"kind": "all"}},
            ):
                assert await refusal(client, "/kill-switches", bad) == (422, "invalid_input")
            assert (await client.get("/kill-switches/ks_none")).json()["code"] == "kill_switch_not_found"
        async with server.client(token=token) as approver:
            assert (await approver.get(f"/kill-switches/{thrown['id']}")).json()["reason"] == "freeze"
            for path in ("", f"/{thrown['id']}/lift", f"/{thrown['id']}/release"):
                assert await refusal(approver, f"/kill-switches{path}", wish) == (403, "forbidden")
