"""A first session: an agent of two steps, watched while it works.

Whatever the agent does inside ``run.step`` is journaled: it is done once, and after a crash or a resume its result is
given back instead of being done again. Tools say what they do to the world, and a receipt what became of it.

Prints:
    1  session.created
    2  session.started
    …  step.begun      look up
    …  step.finished   look up
    …  step.begun      write down
    …  step.finished   write down
    …  session.completed
    result: 9 degrees in Oslo: take a coat.
    what                   effect      outcome  detail
    write down ["Oslo",9]  reversible  kept
"""

import asyncio

import midcourse

notes: dict[str, str] = {}


@midcourse.tool(effect="read")
async def look_up(city: str) -> int:
    """A tool that changes nothing. Being async, it is aborted at once when somebody stops the session."""
    return {"Oslo": 9, "Lisbon": 24}[city]


def take_back(arguments: dict[str, str], result: str | None, key: str) -> None:
    """The undo of ``write_down``: it works from the arguments alone."""
    del result, key
    notes.pop(arguments["city"], None)


@midcourse.tool(effect="write", undo=take_back, local=True)
def write_down(city: str, degrees: int) -> str:
    """A tool that changes something, and can be undone. A plain function runs in a thread."""
    coat = "take a coat" if degrees < 15 else "leave the coat at home"
    notes[city] = f"{degrees} degrees in {city}: {coat}."
    return notes[city]


@midcourse.agent
async def packer(run: midcourse.Run) -> str:
    """What to pack for a city."""
    degrees = await run.step("look up", look_up, run.goal)
    return await run.step("write down", write_down, run.goal, degrees)


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
