"""How many of our functions one step goes through: each is cheap, and a thousand sessions pay for all of them."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import midcourse
from tests.promises.harness import turns

OURS: Final = f"{Path(midcourse.__file__).parent}/"
MOST: Final = 175
"""Frames on the agents' loop, until the step's end is written. A property that is asked in each of them adds ten."""


@midcourse.tool(effect="read")
async def look(number: int) -> int:
    """A tool that answers at once."""
    return number


def entered(into: set[FrameType]) -> Callable[[FrameType, str, Any], None]:
    """Return a profiler that collects the frames of our functions; a coroutine that continues is the same frame."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS) and not frame.f_code.co_name.startswith("<"):
            into.add(frame)

    return note


async def test_a_step_goes_through_no_more_of_our_functions_than_it_did(tmp_path: Path) -> None:
    counts: list[int] = []

    @midcourse.agent
    async def stepper(run: midcourse.Run) -> None:
        for number in range(3):
            await turns(50)  # so that nothing of the step before is still on its way
            frames: set[FrameType] = set()
            sys.setprofile(entered(frames))
            try:
                await run.step("look", look, number)
                await turns(20)  # its end is written when the loop has turned a few times
            finally:
                sys.setprofile(None)
            counts.append(len(frames))

    async with midcourse.open(f"sqlite:///{tmp_path}/runs.db") as mc:
        await (await mc.start(stepper, "count")).result()
    assert min(counts) <= MOST, counts
