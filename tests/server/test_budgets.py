"""A session at its cap on a real server: whatever would go on is refused, and says to what the budget is raised."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import midcourse
from tests.promises.harness import Place, resumable
from tests.server.stream_reader import refusal, served, until_status


async def dear() -> AsyncIterator[str | midcourse.StreamEnd]:
    """A model that tells what it cost when it has ended."""
    yield "word "
    yield midcourse.StreamEnd(cost=0.4, tokens=1)


def spender() -> midcourse.Agent[Any]:
    """Asks its model twice, and may pay for one answer."""

    async def agent(run: midcourse.Run) -> str:
        return await run.stream("think", dear) + await run.stream("think", dear)

    return replace(resumable(agent), terms=midcourse.Terms(budget=0.30))


async def test_every_way_to_go_on_at_the_cap_is_refused_until_the_budget_is_raised(memory: Place) -> None:
    with served(memory, spender()) as server:
        async with server.client() as client:
            session = (await client.post("/sessions", json={"agent": "agent", "goal": "x"})).json()["id"]
            await until_status(client, session, "paused")
            shown = (await client.get(f"/sessions/{session}")).json()
            assert ("resume" in shown["allowed"], "budget" in shown["allowed"]) == (False, True)
            [ask] = shown["asks"]
            assert (shown["raise_to"], ask["options"]) == (0.81, ["cancel"])
            wishes: dict[str, dict[str, Any]] = {
                f"/sessions/{session}/resume": {},
                f"/sessions/{session}/redirect": {"text": "Shorter.", "level": "step", "resume": True},
                f"/sessions/{session}/answer": {"ask": ask["id"], "value": "go on"},
                f"/sessions/{session}/budget": {"budget": 0.35},
                "/chat/resume": {"session_id": session, "ask_id": ask["id"], "answer": "go on"},
            }
            for path, body in wishes.items():
                assert await refusal(client, path, body) == (409, "budget_spent"), path
            problem = (await client.post(f"/sessions/{session}/resume", json={})).json()
            assert problem["raise_to"] == 0.81
            assert "It" not in problem["detail"].split(":")[0]
            assert "it has spent $0.40 of its budget of $0.30. Raise the budget to $0.81 or more" in problem["detail"]
            raised = await client.post(f"/sessions/{session}/budget", json={"budget": 0.81})
            assert raised.status_code == 200, raised.text
            assert (await client.get(f"/sessions/{session}")).json().get("raise_to") is None
            result = (await client.get(f"/sessions/{session}/result", params={"wait": 30})).json()
            assert result["result"] == "word word "


async def test_the_python_client_is_refused_in_the_same_words(memory: Place) -> None:
    with served(memory, spender()) as server:
        async with midcourse.connect(server.url, token=server.token) as remote, server.client() as client:
            session = await remote.start("agent", "x")
            await until_status(client, session.id, "paused")
            try:
                await session.resume()
            except midcourse.Refused as error:
                assert error.code == "budget_spent"
                assert "Raise the budget to $0.81 or more" in error.message
            else:
                raise AssertionError("it went on at its cap")
            await session.raise_budget(1.0)
            assert await session.result() == "word word "
