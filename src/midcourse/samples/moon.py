"""A small agent that looks things up and writes an answer: offline, with a scripted model and honest bookkeeping.

Every execution of a step's body leaves a line in a file outside of Midcourse, so that what ran how often, and in which
process, is not a matter of what the journal claims.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import TypeVar

import midcourse

T = TypeVar("T")

GOAL = "Why do we always see the same face of the Moon?"
INSTRUCTION = "Explain it to a ten-year-old."
ORBIT, SPIN, LOCKING = "look up the orbit", "look up the spin", "read about tidal locking"
COMPARE, WRITE = "compare the periods", "write the answer"
PLAN = (ORBIT, SPIN, LOCKING, COMPARE, WRITE)

_DAYS = {"orbit": 27.32, "spin": 27.32}
_NOTES = (
    "The Earth's pull stretches the Moon a little; while it spun faster, the Moon carried that bulge ahead.",
    "The Earth pulled the bulge back until spin and orbit took the same time. This is called tidal locking.",
)
_FOR_ADULTS = (
    "The Moon turns once about its axis in {days} days, which is precisely the time of one orbit about the Earth; the "
    "two periods agree because tidal torques, acting on a bulge that was carried ahead of the line between the two "
    "bodies, drained the Moon's original spin until none was left to drain, and have held it in that state since. "
    "Because the orbit is not quite a circle, the Moon appears to rock a little, and in the course of time "
    "some 59 per cent of its surface can be seen."
)
_FOR_CHILDREN = (
    "Walk around a chair and keep looking at it: by the time you are back, you have turned around once yourself. "
    "The Moon does the same, and takes {days} days for it. Long ago it spun faster, but the Earth kept tugging at it "
    "until it kept its face to us."
)


def bodies(folder: Path) -> Path:
    """The file outside: a line for each time a step's body ran, with the process it ran in."""
    return folder / "bodies.txt"


class Lab:
    """Where the agent works: a folder, and a pace (1 to watch, near 0 to test)."""

    folder = Path()
    pace = 1.0

    async def spend(self, seconds: float) -> None:
        """Take as long as a real call would."""
        await asyncio.sleep(seconds * self.pace)

    def ran(self, step: str) -> None:
        """One line, in one write, before the body does anything else."""
        with bodies(self.folder).open("a", encoding="utf-8") as lines:
            lines.write(f"{os.getpid()}\t{time.time():.6f}\t{step}\n")


lab = Lab()


@midcourse.tool(effect="read")
async def look_up(what: str) -> float:
    """A tool: days the Moon takes for one round."""
    lab.ran(f"look up the {what}")
    await lab.spend(0.9)
    return _DAYS[what]


@midcourse.tool(effect="read")
async def read(topic: str) -> list[str]:
    """A tool that takes its time: somebody presses pause while it runs."""
    lab.ran(f"read about {topic}")
    await lab.spend(2.4)
    return list(_NOTES)


@midcourse.tool(effect="read")
def compare(orbit: float, spin: float) -> bool:
    """A plain function: it runs in a thread."""
    lab.ran(COMPARE)
    time.sleep(0.5 * lab.pace)
    return abs(orbit - spin) < 0.01


async def model(messages: Sequence[midcourse.Message], days: float) -> AsyncIterator[str]:
    """A scripted model. It answers what it is told last, as any model would."""
    lab.ran(WRITE)
    text = _FOR_CHILDREN if messages[-1].text == INSTRUCTION else _FOR_ADULTS
    words = text.format(days=days).split(" ")
    for number, word in enumerate(words):
        yield word if number == 0 else f" {word}"
        await lab.spend(0.06)


@midcourse.agent(name="moon-writer")
async def moon_writer(run: midcourse.Run) -> str:
    """Looks up, reads, compares, writes. It knows nothing of pauses, crashes or redirects."""
    run.plan.set(*PLAN)

    async def doing(title: str, work: Awaitable[T]) -> T:
        run.plan.start(title)
        result = await work
        run.plan.done(title)
        return result

    orbit = await doing(ORBIT, run.step(ORBIT, look_up, "orbit"))
    spin = await doing(SPIN, run.step(SPIN, look_up, "spin"))
    await doing(LOCKING, run.step(LOCKING, read, "tidal locking"))
    if not await doing(COMPARE, run.step(COMPARE, compare, orbit, spin)):
        return "The periods differ: something is wrong with the sources."
    return await doing(WRITE, run.stream(WRITE, lambda: model(run.messages, spin)))
