"""Pause a session in the middle of a step, and go on later.

A pause is answered when nothing new can begin, and the answer lists what had begun and has not ended. A tool call in
flight may finish; its result is kept. The resume names the pause it lifts, so that a late click lifts no other one.

Prints:
    reading chapter 1
    reading chapter 2
    pause: stopping, pausing, still running: read
    chapter 2 may finish
    then: stopped, paused
    chapters read while paused: 2
    resume: decided, running
    a second click: Cannot resume session 'sess_reader': … (already_resumed). Allowed now: …
    result: 3 chapters, each read once: [1, 2, 3]
"""

import asyncio

import midcourse

begun: list[int] = []
in_chapter_2 = asyncio.Event()
may_finish = {2: asyncio.Event(), 3: asyncio.Event()}


@midcourse.tool(effect="read")
async def read(chapter: int) -> str:
    """A tool that takes its time, until it is told that it may finish."""
    print(f"reading chapter {chapter}")
    begun.append(chapter)
    if chapter == 2:
        in_chapter_2.set()
    if chapter in may_finish:
        await may_finish[chapter].wait()
    return f"notes on chapter {chapter}"


@midcourse.agent
async def reader(run: midcourse.Run) -> int:
    """Reads a book of three chapters. Nothing in it knows about pausing."""
    notes = [await run.step("read", read, chapter) for chapter in (1, 2, 3)]
    return len(notes)


async def main() -> None:
    """Pause it in chapter 2, let that chapter end, and resume."""
    async with midcourse.open("memory://") as mc:
        session = await mc.start(reader, session_id="sess_reader")
        await in_chapter_2.wait()

        stopping = await session.pause("let me read the notes so far")
        print("pause:", stopping)
        print("chapter 2 may finish")
        may_finish[2].set()
        print("then:", await session.pause(until="stopped"))
        print("chapters read while paused:", len(begun))

        print("resume:", await session.resume(stopping.pause))
        try:
            await session.resume(stopping.pause)
        except midcourse.Refused as refused:
            print("a second click:", refused)
        may_finish[3].set()
        chapters = await session.result()
        print(f"result: {chapters} chapters, each read once: {begun}")


asyncio.run(main())
