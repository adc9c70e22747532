"""The processes of the demonstration: one works, one pauses from outside, one goes on after the first was killed.

Each opens the same SQLite file. None knows the others; what one has to say goes to its own output, a JSON line each.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import midcourse
from midcourse.samples.moon import GOAL, LOCKING, PLAN, lab, moon_writer

SESSION = "sess_moon"


def store(folder: Path) -> str:
    """The URL of the demonstration's store."""
    return f"sqlite:///{folder / 'runs.db'}"


def say(**facts: object) -> None:
    """One line for whoever started this process."""
    print(json.dumps({"pid": os.getpid(), **facts}), flush=True)


def milliseconds(since: float) -> float:
    """Since then."""
    return (time.perf_counter() - since) * 1000


async def cue() -> None:
    """Until whoever started this process says so: the story does not depend on how long a process takes to start."""
    say(ready=True)
    await asyncio.to_thread(sys.stdin.readline)


async def work() -> None:
    """Process A: start the session and run it, until it ends or this process does."""
    async with midcourse.open(store(lab.folder)) as mc:
        await cue()
        session = await mc.start(moon_writer, goal=GOAL, session_id=SESSION)
        say(started=session.id, durability=mc.durability)
        await session.result()


async def pause() -> None:
    """Process B: wait until the slow step runs, and press pause."""
    async with midcourse.open(store(lab.folder), drive=False) as mc:
        await cue()
        session = await mc.get(SESSION)
        async for _ in session.watch():
            state = await session.state()
            if any(call.name == LOCKING for call in state.calls.values()) or state.finished_steps > PLAN.index(LOCKING):
                break
        await lab.spend(0.8)
        click = time.perf_counter()
        reply = await session.pause("let me look at this")
        say(
            level=reply.level,
            pause=reply.pause,
            running=[(call.name, call.seconds) for call in reply.running],
            milliseconds=milliseconds(click),
        )
        reply = await session.pause(until="stopped")
        say(level=reply.level, status=reply.status, running=len(reply.running), milliseconds=milliseconds(click))


async def resume(pause_id: str) -> None:
    """Process C: lift the pause, and run the session to its end."""
    began = time.perf_counter()
    async with midcourse.open(store(lab.folder)) as mc:
        opened = milliseconds(began)
        session = await mc.get(SESSION)
        click = time.perf_counter()
        reply = await session.resume(pause_id)
        say(level=reply.level, status=reply.status, opened=opened, milliseconds=milliseconds(click))
        await session.result()


def main() -> None:
    """``work FOLDER PACE``, ``pause FOLDER PACE`` or ``resume FOLDER PACE PAUSE``."""
    role, folder, pace, *rest = sys.argv[1:]
    lab.folder, lab.pace = Path(folder), float(pace)
    match role:
        case "work":
            asyncio.run(work())
        case "pause":
            asyncio.run(pause())
        case _:
            asyncio.run(resume(*rest))


if __name__ == "__main__":
    main()
