"""A first session: an agent of two steps, watched while it works.

Whatever the agent does inside ``run.step`` is journaled: it is done once, and after a crash or a resume its result is
given back instead of being done again.

Prints:
    1  session.created
    2  session.started
    …  step.begun      look up
    …  step.finished   look up
    …  step.begun      advise
    …  step.finished   advise
    …  session.completed
    result: 9 degrees in Oslo: take a coat.
    look up  ended    1/look up#1
    advise   ended    1/advise#1
"""

import asyncio

import midcourse


async def look_up(city: str) -> int:
    """A tool. An async function can be aborted at once when somebody stops the session."""
    return {"Oslo": 9, "Lisbon": 24}[city]


def advise(city: str, degrees: int) -> str:
    """Another tool. A plain function runs in a thread."""
    return f"{degrees} degrees in {city}: {'take a coat' if degrees < 15 else 'leave the coat at home'}."


@midcourse.agent
async def packer(run: midcourse.Run) -> str:
    """What to pack for a city."""
    degrees = await run.step("look up", look_up, run.goal)
    return await run.step("advise", advise, run.goal, degrees)


async def main() -> None:
    """Start it, watch it, take its result and its receipt."""
    async with midcourse.open("memory://") as mc:
        session = await mc.start(packer, goal="Oslo")
        async for event in session.watch():
            step = getattr(event.event, "step", None)
            name = step.partition("/")[2].partition("#")[0] if step else ""
            print(f"{event.position}  {event.type:<15} {name}".rstrip())
        print("result:", await session.result())
        print(await session.receipt())


asyncio.run(main())
