"""Sessions that stand in every status over a real server: what requests of any kind are sent to."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import httpx2

import midcourse

STATUSES = ("running", "waiting", "twice", "paused", "completed", "failed", "cancelled")
"""What a session comes to; ``twice`` waits for two answers."""
_SHOWN = {"twice": "waiting"}
_ASKS = {"waiting": 1, "twice": 2}
Bodies = dict[str, Any]
_numbers = itertools.count(1)


@midcourse.tool(effect="read")
async def hang(text: str) -> str:
    """Never ends by itself, and can be stopped."""
    await asyncio.Event().wait()
    return text


@midcourse.tool(effect="write")
async def act(text: str) -> str:
    """Has an effect, so that a receipt has a line."""
    return text


@midcourse.agent(name="standing", version="1")
async def standing(run: midcourse.Run) -> object:
    """Comes to the status that its goal names, and stays there."""
    goal = run.goal
    await run.step("act", act, goal[:100])
    if goal.startswith(("running", "paused", "cancelled")):
        await run.step("hang", hang, goal)
    elif goal.startswith("waiting"):
        await run.ask("Confirm delete?", reason="need_approval", options=("yes", "no"))
    elif goal.startswith("twice"):
        await asyncio.gather(run.ask("One?", key="one"), run.ask("Two?", key="two"))
    elif goal.startswith("failed"):
        raise RuntimeError("as it was told to")
    return {"goal": goal}


class Standing:
    """Makes sessions that stand, and looks at them, with a blocking client."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        self._kept: dict[str, str] = {}

    def kept(self) -> Mapping[str, str]:
        """A session in each status: those of last time, as far as they still stand so."""
        gone = [status for status in STATUSES if status not in self._kept or not self._stands(status)]
        self._kept |= self.make_all(tuple(gone))
        return dict(self._kept)

    def _stands(self, status: str) -> bool:
        seen = self.look(self._kept[status])
        return seen["status"] == _SHOWN.get(status, status) and len(seen["asks"]) == _ASKS.get(status, 0)

    def make(self, status: str) -> str:
        """A new session in that status; its id."""
        return self.make_all((status,))[status]

    def make_all(self, statuses: tuple[str, ...] = STATUSES) -> Mapping[str, str]:
        """A new session in each status."""
        made: dict[str, str] = {}
        for status in statuses:
            name = f"s{next(_numbers)}-{status}"
            response = self.client.post("/sessions", json={"agent": "standing", "goal": status, "session_id": name})
            assert response.status_code == 201, response.text
            made[status] = name
        for status, name in made.items():
            self._bring(name, status)
        return made

    def _bring(self, name: str, status: str) -> None:
        # A session that is to hang hangs once its second step has begun.
        before = {"paused": "running", "cancelled": "running", **_SHOWN}.get(status, status)
        hangs = status in ("running", "paused", "cancelled")
        while True:
            seen = self.look(name)
            is_there = seen["status"] == before and (not hangs or len(seen["calls"]) == 1)
            if is_there and len(seen["asks"]) == _ASKS.get(status, 0):
                break
        if status == "paused":
            self.post(name, "pause", grace=0, until="stopped")
        elif status == "cancelled":
            self.post(name, "cancel", grace=0, until="stopped")

    def look(self, name: str) -> Bodies:
        """A session as it stands."""
        response = self.client.get(f"/sessions/{name}")
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, name: str, verb: str, **body: object) -> Bodies:
        """A control that must be granted."""
        response = self.client.post(f"/sessions/{name}/{verb}", json=body)
        assert response.status_code == 200, response.text
        return response.json()
