"""The agents of the child processes. What they do to the world is a line in a file that Midcourse does not write.

Their tools say that they may be done again, and leave a line each time: so the lines count what Midcourse did again.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import midcourse


def leave_a_line(path: str, text: str) -> None:
    """One effect that can be counted whatever dies: a line is written whole or not at all."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def lines(path: Path) -> list[str]:
    """The effects so far."""
    return path.read_text().splitlines() if path.exists() else []


@midcourse.tool(effect="idempotent", local=True)
async def note(path: str, text: str) -> str:
    """A tool whose effect is a line."""
    leave_a_line(path, text)
    return text


@midcourse.tool(effect="idempotent", local=True)
async def note_and_wait(path: str, text: str) -> str:
    """A tool whose effect is a line, and which ends once there is a file of its name."""
    leave_a_line(path, text)
    while not os.path.exists(f"{path}.{text}"):
        await asyncio.sleep(0.005)
    return text


@midcourse.agent(version="1")
async def ten_notes(run: midcourse.Run) -> int:
    """Ten lines, one step each."""
    for number in range(10):
        await run.step("note", note, run.goal, f"note {number}")
    return 10


@midcourse.agent(version="1")
async def two_waits(run: midcourse.Run) -> list[str]:
    """Two steps that wait for a file each."""
    return [await run.step("wait", note_and_wait, run.goal, name) for name in ("one", "two")]


@midcourse.agent(version="1")
async def asker(run: midcourse.Run) -> object:
    """Leaves a line, asks, and leaves the answer."""
    await run.step("note", note, run.goal, "asking")
    answer = await run.ask("Go on?")
    await run.step("note", note, run.goal, f"answered {answer}")
    return answer


@midcourse.agent(version="1", mode="state")
async def full_speed(run: midcourse.Run) -> None:
    """Appends as fast as it can, for ever, and counts in its state."""
    while True:
        for _ in range(20):
            await run.step("note", note, run.goal, "x")
        run.state["rounds"] = run.state.get("rounds", 0) + 1
        await run.checkpoint()


async def _words() -> AsyncIterator[str]:
    while True:
        yield "word "
        await asyncio.sleep(0.001)


@midcourse.agent(version="1")
async def talker(run: midcourse.Run) -> str:
    """Speaks for ever; after a redirect it says what it was told, and ends."""
    try:
        return await run.stream("talk", _words, on_redirect="raise")
    except midcourse.Redirected as redirected:
        return f"{redirected.instruction} (had said {len(redirected.partial.split())} words)"
