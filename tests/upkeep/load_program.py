"""A program that works on many sessions at once, each step of which leaves a line in a file. Run as a process."""

import asyncio
import os
import sys
from pathlib import Path

import midcourse

STEPS = 40


@midcourse.tool(effect="write")
async def note(session: str, number: int) -> int:
    """Leave a line: who reads the file sees what was done twice."""
    with open(os.environ["MIDCOURSE_TEST_LINES"], "a", encoding="utf-8") as lines:
        lines.write(f"{session} {number}\n")
    await asyncio.sleep(0.01)
    return number


@midcourse.agent
async def noter(run: midcourse.Run) -> int:
    """As many steps as the goal says."""
    name, steps = run.messages[-1].text.split()
    return sum([await run.step("note", note, name, number) for number in range(int(steps))])


async def work(store: str) -> None:
    """Some that end at once, and some that do not end before somebody ends this process."""
    async with midcourse.open(store, durability="process") as mc:
        short = [await mc.start(noter, f"short{number} 2", session_id=f"short{number}") for number in range(3)]
        for handle in short:
            await handle.result()
        for number in range(4):
            await mc.start(noter, f"long{number} 100000", session_id=f"long{number}")
        print("busy", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    os.environ["MIDCOURSE_TEST_LINES"] = sys.argv[2]
    Path(sys.argv[2]).touch()
    asyncio.run(work(sys.argv[1]))
