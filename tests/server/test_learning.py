"""What people say over HTTP reaches what is learnt from it: one tap, and it is in reports, metrics and proposals."""

from dataclasses import replace
from typing import Any

import httpx2

import midcourse
from midcourse.analysis.reports.review import review
from midcourse.core.terms import Terms
from tests.promises.harness import Place
from tests.server.stream_reader import Data, eventually, served, until_status
from tests.server.test_interventions import GOAL, failing, stop_of, told

POLICY = """
policy: eager
extends: standard
restraint:
  labels: 2
"""
SESSIONS = ("sess_1", "sess_2", "sess_3")


async def test_a_label_and_a_rating_reach_reports_metrics_and_proposals(memory: Place) -> None:
    watched = replace(failing(), terms=Terms(policy="eager"))
    alone = replace(failing(), name="alone", terms=Terms(policy="none"))
    with served(memory, watched, alone, settings=midcourse.Settings(policy="standard", poll=0.05)) as server:
        async with server.client() as client:
            saved = await client.put("/policies/eager", json={"document": POLICY, "why": "to learn from few"})
            assert saved.status_code == 200, saved.text
            for score, session in enumerate(SESSIONS, start=3):
                await judged(client, session, score)
            await paused_by_a_person(client)

            report = (await client.get("/reports", params={"since": 0})).json()
            [row] = report["classes"]
            assert (row["satisfied"]["part"], row["satisfied"]["of"], row["score"]) == (2, 3, 4.0)
            assert (row["interrupted"]["part"], row["interrupted_by"]) == (4, {"policy": 3, "person": 1})
            assert report["labelled"]["of"] == 3  # the person's pause was labelled, too, and is nobody's false positive
            assert (report["by"], report["notices"]) == ({"policy": 3, "person": 1}, 0)
            streaks = {one["agent"]: one for one in report["signals"] if one["signal"] == "errors.streak"}
            assert (streaks["agent"]["interventions"], streaks["agent"]["wrong"], streaks["agent"]["right"]) == (
                3,
                3,
                0,
            )
            assert row["response"]["count"] == 4
            assert all(0 <= row["response"][name] <= row["stops"]["most"] for name in ("p50", "p99"))

            async def scraped() -> str:
                return (await client.get(f"{server.url}/metrics")).text

            metrics = await eventually(scraped, lambda text: "midcourse_false_positive_ratio{" in text)
            assert 'midcourse_false_positive_ratio{task_class="long"} 1.0' in metrics
            assert 'midcourse_interruption_ratio{task_class="long"} 1.0' in metrics
            assert 'midcourse_interruption_by_ratio{by="person",task_class="long"} 0.25' in metrics

            assert server.server.local is not None
            worker = server.server.local.worker
            tuned = await review(worker.store, since=0.0, now=worker.clock.now())
            streak = (
                "errors.streak (agent) 0 were right and 3 wrong: 100 %, and the limit is 30 %. signals.errors.streak"
            )
            assert any(f"{streak} stays" in one for one in tuned.remarks)  # a stop is never proposed away
            [proposal] = await proposals(client)
            assert [(one["path"], one["words"]) for one in proposal["changes"]] == [
                ("restraint.interventions_per_hour", "steps in later")
            ]
            accepted = await told(client, f"/proposals/{proposal['id']}/accept", {"why": "the pages are slow"})
            kept = (await client.get(f"/policies/{accepted['name']}")).json()
            assert (f"{kept['name']}@{kept['version']}", kept["by"]) == (accepted["kept_as"], "local")


async def judged(client: httpx2.AsyncClient, session: str, score: int) -> None:
    """A session that its policy stops, wrongly; and whoever began it is content in the end."""
    await client.post("/sessions", json={"agent": "agent", "goal": GOAL, "session_id": session})
    await until_status(client, session, "paused")
    stop = await stop_of(client, session)
    await told(client, f"/sessions/{session}/answer", {"value": "go on", "ask": stop["ask"]})
    await until_status(client, session, "completed")
    await told(client, f"/sessions/{session}/label", {"about": stop["id"], "verdict": "wrong"})
    await told(client, f"/sessions/{session}/rate", {"score": score})


async def paused_by_a_person(client: httpx2.AsyncClient) -> None:
    await client.post("/sessions", json={"agent": "alone", "goal": GOAL, "session_id": "sess_own"})
    await told(client, "/sessions/sess_own/pause", {"until": "stopped", "wait": 30, "grace": 0})
    await told(client, "/sessions/sess_own/label", {"about": "pause_1", "verdict": "wrong"})


async def proposals(client: httpx2.AsyncClient) -> list[Data]:
    found: Any = (await client.get("/proposals", params={"state": "open"})).json()
    return found["proposals"]
