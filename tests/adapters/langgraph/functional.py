"""A workflow of the functional API that another process drives until it is killed: ``python -m … STORE``."""

import asyncio
import sys
import time

import midcourse
from midcourse.adapters.langgraph import wrap
from tests.adapters.langgraph.graphs import entrypoint, task
from tests.adapters.matrix import courses

note, look, book, send = map(task, (courses.note, courses.look, courses.book, courses.send))


@task
def post(to: str) -> str:
    """Send a letter, in a thread. It declares nothing, so it counts as irreversible."""
    courses.leave_a_line("post begun")
    while (courses.folder() / "hold.post").exists():
        time.sleep(0.005)
    courses.leave_a_line("post done")
    return f"posted to {to}"


@entrypoint()
async def trip(goal: str) -> list[str]:
    """One task, and then four at the same time."""
    first = await note(goal)
    return [first, *await asyncio.gather(look("Rome"), book(room="room 1"), send("Ann"), post("Bob"))]


agent = wrap(trip, name="functional-trip", to_input=str)


async def main(url: str) -> None:
    """Until it is killed."""
    async with midcourse.open(url, durability="process", grace=0) as mc:
        await mc.start(agent, "go", session_id="s")
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
