"""What agents made, over HTTP: what nobody documented comes first, and is in the inbox until somebody has looked."""

from typing import Any

import midcourse
from tests.promises.harness import Place, resumable
from tests.server.stream_reader import Data, refusal, served

DAY = 86_400.0


def author() -> midcourse.Agent[Any]:
    """Makes two things, and documents one."""

    async def agent(run: midcourse.Run) -> object:
        run.report(artifact="notes.md")
        run.report(artifact="out/report.md", documentation="the figures of May")
        return "done"

    return resumable(agent)


async def test_what_is_due_is_in_the_inbox_until_somebody_has_looked_and_said_what_it_is(place: Place) -> None:
    with served(place, author()) as server:
        async with server.client() as client:

            async def listed(**given: Any) -> list[Data]:
                return (await client.get("/artifacts", params=given)).json()["artifacts"]

            for name in ("sess_1", "sess_2"):
                await client.post("/sessions", json={"agent": "agent", "session_id": name})
                await client.get(f"/sessions/{name}/result", params={"wait": 30})
            assert [(one["session"], one["name"]) for one in await listed(due=True)] == [
                ("sess_1", "notes.md"),
                ("sess_2", "notes.md"),
            ]
            assert len(await listed()) == 4
            assert [one["name"] for one in await listed(session="sess_2")] == ["notes.md", "out/report.md"]
            assert await listed(session="sess_none") == []
            assert len(await listed(limit=1)) == 1
            inbox = (await client.get("/inbox")).json()
            assert [one["session"] for one in inbox["artifacts"]] == ["sess_1", "sess_2"]
            assert inbox["alarms"] == []  # they are listed once

            body = {"name": "notes.md", "documentation": "what was tried"}
            done = (await client.post("/sessions/sess_1/artifacts/reviewed", json=body)).json()
            assert (done["reviewed_by"], done["documentation"]) == ("local", "what was tried")
            assert done["due_at"] == done["reviewed_at"] + 7 * DAY
            assert [one["session"] for one in await listed(due=True)] == ["sess_2"]
            again = (await client.post("/sessions/sess_1/artifacts/reviewed", json={"name": "notes.md"})).json()
            assert again["documentation"] == "what was tried"
            entries = (await client.get("/audit", params={"session": "sess_1"})).json()["entries"]
            assert [(one["action"], one["by"], one["detail"]) for one in entries][-1] == (
                "artifact.reviewed",
                "local",
                "notes.md",
            )


async def test_what_nobody_made_cannot_be_reviewed(memory: Place) -> None:
    with served(memory, author()) as server:
        async with server.client() as client:
            await client.post("/sessions", json={"agent": "agent", "session_id": "sess_1"})
            await client.get("/sessions/sess_1/result", params={"wait": 30})
            path = "/sessions/sess_1/artifacts/reviewed"
            assert await refusal(client, path, {"name": "nothing.md"}) == (404, "artifact_not_found")
            assert await refusal(client, "/sessions/none/artifacts/reviewed", {"name": "x"}) == (
                404,
                "session_not_found",
            )
            for body in ({}, {"name": ""}, {"name": "x" * 1001}, {"name": "notes.md", "documentation": "x" * 2001}):
                assert await refusal(client, path, body) == (422, "invalid_input")
            for query in ({"limit": 0}, {"limit": 1001}, {"due": "perhaps"}, {"session": ""}):
                assert (await client.get("/artifacts", params=query)).status_code == 422
