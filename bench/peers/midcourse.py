"""Midcourse: the model call and the tool call are one step each, in SQLite, safe against power loss.

The stop is a pause with grace 0, durable before it is confirmed; the session can be resumed. A ``replay`` agent starts
at its top and is given its finished steps back; a ``state`` agent takes a checkpoint every 50 steps and starts from it.

Page: docs/how-to/pause-and-resume.md, "Pause and resume"
"""

import json
from contextlib import AsyncExitStack
from typing import Any, Final

import midcourse
from bench.peers import workload
from bench.peers.basis import Embedded
from bench.peers.workload import Work, trace, until

EVERY: Final = 50
"""Steps between two checkpoints."""


@midcourse.tool(effect="read")
async def peers_model(session: str, step: int) -> str:
    """Call the model."""
    return await workload.model(session, step)


@midcourse.tool(effect="idempotent", local=True)
async def peers_tool(session: str, step: int, seconds: float, acts: bool) -> str:
    """Call the tool."""
    return await workload.tool(session, step, seconds, acts)


async def _loop(run: midcourse.Run, *, first: int, checkpoints: bool) -> None:
    goal = json.loads(run.goal)
    work = Work.of(goal["work"])
    for step in range(first, work.steps):
        await run.step("think", peers_model, goal["session"], step)
        await run.step("act", peers_tool, goal["session"], step, work.seconds(step), work.acts)
        if checkpoints and (step + 1) % EVERY == 0:
            run.state["done"] = step + 1
            await run.checkpoint()


@midcourse.agent
async def peers_replay(run: midcourse.Run) -> None:
    """Start at the top, with finished steps given back."""
    await _loop(run, first=0, checkpoints=False)


@midcourse.agent(mode="state")
async def peers_state(run: midcourse.Run) -> None:
    """Start from the last checkpoint."""
    await _loop(run, first=run.state.get("done", 0), checkpoints=True)


def _id(session: str) -> str:
    return f"sess_{session.replace('-', '_')}"


class Stopper:
    """A program that has only opened the file."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stack = AsyncExitStack()

    async def open(self) -> "Stopper":
        """Open the file."""
        self._mc = await self._stack.enter_async_context(midcourse.open(self._url, drive=False))
        return self

    async def stop(self, session: str) -> None:
        """Pause."""
        reply = await (await self._mc.get(_id(session))).pause(grace=0, until="stopped")
        assert reply.level == "stopped", reply

    async def close(self) -> None:
        """Close the file."""
        await self._stack.aclose()


class Peer(Embedded):
    """Sessions in this process."""

    @property
    def _url(self) -> str:
        return f"sqlite:///{self.database}"

    async def open(self) -> None:
        """Open the file, and continue what was running."""
        self._stack = AsyncExitStack()
        self._mc = await self._stack.enter_async_context(midcourse.open(self._url, grace=0))
        self._handles: dict[str, midcourse.SessionHandle[Any]] = {}

    async def close(self) -> None:
        """Close the file."""
        await self._stack.aclose()

    async def start(self, session: str, work: Work) -> None:
        """Start a session; its goal says what to do."""
        agent = peers_state if self.variant == "state" else peers_replay
        goal = json.dumps({"session": session, "work": work.plain()})
        self._handles[session] = await self._mc.start(agent, goal, session_id=_id(session))

    async def _handle(self, session: str) -> midcourse.SessionHandle[Any]:
        if session not in self._handles:
            self._handles[session] = await self._mc.get(_id(session))
        return self._handles[session]

    async def result(self, session: str) -> None:
        """Wait for its end."""
        await (await self._handle(session)).result()

    async def stop(self, session: str) -> None:
        """Pause."""
        reply = await (await self._handle(session)).pause(grace=0, until="stopped")
        assert reply.level == "stopped", reply

    async def elsewhere(self) -> Stopper:
        """Open the file without driving."""
        return await Stopper(self._url).open()

    async def stand(self, session: str, history: int) -> None:
        """Pause in a long call."""
        await self.start(session, Work(steps=history + 1, tool=600, history=history))
        await until(lambda: trace(session).tools > history, "long call")
        await self.stop(session)

    async def resume(self, session: str) -> None:
        """Resume."""
        await (await self._handle(session)).resume()
