"""The class ``protected`` over HTTP: a stop waits for the end, and only an operator forces it."""

import httpx2

import midcourse
from tests.promises.harness import Place, resumable
from tests.server.stream_reader import Latch, events_of, served


async def _token(client: httpx2.AsyncClient, role: str) -> dict[str, str]:
    made = await client.post("/tokens", json={"name": f"a-{role}", "role": role})
    assert made.status_code == 201, made.text
    return {"Authorization": f"Bearer {made.json()['token']}"}


async def test_a_stop_finishes_first_and_an_operator_forces_it(memory: Place) -> None:
    """The answers say which; what was forced goes on nowhere but in the session that begins anew."""
    entered, may_end = Latch(), Latch()

    @midcourse.tool(effect="idempotent", local=True)
    async def place(order: str) -> str:
        entered.set()
        await may_end.wait()
        return order

    agent = resumable(lambda run: run.step("place", place, run.goal), name="desk")
    with served(memory, agent, settings=midcourse.Settings(poll=0.05)) as server:
        async with server.client() as client:
            new = {"agent": "desk", "goal": "10 chairs", "session_id": "order", "task_class": "protected"}
            assert (await client.post("/sessions", json=new)).status_code == 201
            await entered.wait()
            told = await client.post("/sessions/order/pause", json={"reason": "lunch"})
            assert (told.status_code, told.json()["finishes_first"]) == (200, True)
            shown = (await client.get("/sessions/order")).json()
            assert (shown["status"], shown["deferred"]["stop"]) == ("running", "pause")
            assert "resume" in shown["allowed"]
            [head] = (await client.get("/sessions")).json()["sessions"]
            assert (head["status"], head["finishes_first"]) == ("running", "pause")

            force = {"force": True, "restart": True, "grace": 0, "until": "stopped"}
            refused = await client.post("/sessions/order/cancel", json=force, headers=await _token(client, "steer"))
            assert (refused.status_code, refused.json()["code"]) == (403, "operator_only"), refused.text
            foreseen = "/sessions/order/cancel/preview?force=true&restart=true"
            approver = await _token(client, "approve")
            refused = await client.get(foreseen, headers=approver)
            assert (refused.status_code, refused.json()["code"]) == (403, "operator_only"), refused.text
            assert (await client.get("/sessions/order/cancel/preview", headers=approver)).status_code == 200
            told = (await client.get(foreseen)).json()["in-flight"]
            assert (told["begins_anew"], told["lines"][0]["outcome"]) == (True, "unknown")
            assert told["table"].endswith("place may happen a second time in the session that begins anew.")
            forced = (await client.post("/sessions/order/cancel", json=force)).json()
            assert (forced["level"], forced["status"], forced["restarted_as"]) == (
                "stopped",
                "cancelled",
                "order-again",
            )
            for path, body in (
                ("/sessions/order/redirect", {"text": "x", "level": "step"}),
                ("/sessions/order/message", {"text": "x"}),
                ("/sessions/order/fork", {}),
                ("/chat", {"agent": "desk", "message": "x", "session_id": "order"}),
            ):
                refused = await client.post(path, json=body)
                assert (refused.status_code, refused.json()["code"]) == (409, "session_discarded"), refused.text
                assert "discarded" in refused.json()["detail"]
            may_end.set()
            done = (await client.get("/sessions/order-again/result", params={"wait": 20})).json()
            assert (done["status"], done["result"]) == ("completed", "10 chairs")
            assert "stop.deferred" in [event["type"] for event in await events_of(client, "order")]
