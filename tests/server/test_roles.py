"""What a role may do that no address tells: approvals are for approvers, and nobody answers for themselves."""

from typing import Any

import httpx2
import pytest

import midcourse
from tests.promises.harness import Place, resumable
from tests.server.stream_reader import Data, Latch, refusal, served, until_status


async def _started(client: httpx2.AsyncClient) -> str:
    session = (await client.post("/sessions", json={"agent": "agent"})).json()["id"]
    await until_status(client, session, "waiting")
    return session


def asking(reason: str) -> midcourse.Agent[Any]:
    """Asks for that reason."""

    async def agent(run: midcourse.Run) -> object:
        return await run.ask("May I?", reason=reason)

    return resumable(agent)


@pytest.mark.parametrize(
    ("role", "reason", "code"),
    [
        ("steer", "need_input", None),
        ("steer", "need_approval", "approver_only"),
        ("approve", "need_approval", None),
        ("operate", "need_approval", None),
    ],
)
async def test_an_approval_is_for_approvers(memory: Place, role: str, reason: str, code: str | None) -> None:
    """On the session's verb and on the chat alike; what was refused leaves the ask open."""
    with served(memory, asking(reason)) as server:
        async with server.client() as operator:
            made = await operator.post("/tokens", json={"name": "ann", "role": role})
            async with server.client(made.json()["token"]) as ann:
                session = await _started(operator)
                assert ("answer" in (await ann.get(f"/sessions/{session}")).json()["allowed"]) == (code is None)
                body = {"session_id": session, "answer": "yes", "ask_id": "ask_1"}
                if code is None:
                    async with ann.stream("POST", "/chat/resume", json=body) as response:
                        assert response.status_code == 200
                    await until_status(operator, session, "completed")
                    return
                assert await refusal(ann, "/chat/resume", body) == (403, code)
                assert await refusal(ann, f"/sessions/{session}/answer", {"value": "yes"}) == (403, code)
                assert (await operator.get(f"/sessions/{session}")).json()["status"] == "waiting"


async def test_a_session_never_answers_its_own_asks(memory: Place) -> None:
    """Nor those of its children, with whatever role its token has; its other verbs are its own."""
    latch = Latch()

    async def child(run: midcourse.Run) -> object:
        return await run.ask("May I?", reason="need_input")

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> object:
        said = await run.spawn(kid, "ask")
        latch.set()
        return [said, await run.ask("And I?", reason="need_input")]

    with served(memory, resumable(parent), kid) as server:
        async with server.client() as operator:
            session = (await operator.post("/sessions", json={"agent": "agent"})).json()["id"]
            made = await operator.post("/tokens", json={"name": "itself", "role": "operate", "session": session})
            async with server.client(made.json()["token"]) as itself:
                me = (await itself.get("/me")).json()
                assert me == {"name": "itself", "role": "agent", "session": session, "tenant": None, "only": None}

                async def child_asks() -> list[Data]:
                    return (await itself.get(f"/sessions/{session}")).json()["child_asks"]

                while not (asks := await child_asks()):
                    pass
                ask = f"{asks[0]['child']}/{asks[0]['ask']}"
                body = {"session_id": session, "answer": "yes", "ask_id": ask}
                assert await refusal(itself, "/chat/resume", body) == (403, "own_ask")
                named = {"value": "yes", "ask": ask}
                assert await refusal(itself, f"/sessions/{session}/answer", named) == (403, "own_ask")
                direct = f"/sessions/{asks[0]['child']}/answer"
                assert await refusal(itself, direct, {"value": "yes"}) == (403, "own_ask")
                assert (await operator.post(direct, json={"value": "yes"})).status_code == 200
                await latch.wait()
                await until_status(operator, session, "waiting")
                assert await refusal(itself, f"/sessions/{session}/answer", {"value": "yes"}) == (403, "own_ask")
                paused = await itself.post(f"/sessions/{session}/pause")
                assert paused.status_code == 200
                shown = (await operator.get(f"/sessions/{session}")).json()
                assert shown["pause"]["by"] == f"session:{session}"
