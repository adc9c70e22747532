"""What a resume does with an answer that a pause has cut, as the terminal says it before anybody resumes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import midcourse as package
from tests.cli.conftest import Command


async def speak(way: str) -> AsyncIterator[str]:
    """A model that stops in the middle, and says how it would go on."""
    package.current_call().can_continue("prefix" if way == "goes on" else "")
    yield "word "
    await asyncio.Event().wait()


@package.agent(name="told-talker", version="1")
async def talker(run: package.Run) -> str:
    """Lets its model speak."""
    return await run.stream("say", speak, run.goal)


async def _paused(way: str) -> None:
    async with package.open("sqlite:///.midcourse/midcourse.db", durability="process", grace=0.1) as mc:
        session = await mc.start(talker, way, session_id="sess_cut")
        async for seen in session.watch(deltas=True):
            if isinstance(seen, package.Delta) or seen.type == "segment.written":
                break
        await session.pause(until="stopped")


@pytest.mark.parametrize(
    ("way", "words"),
    [("goes on", "(continues the answer that was cut)"), ("again", "(begins the answer again that was cut)")],
)
def test_show_and_pause_say_whether_a_resume_continues_the_answer(midcourse: Command, way: str, words: str) -> None:
    asyncio.run(_paused(way))
    for command in ("show", "pause"):
        told = midcourse(command, "sess_cut")
        assert told.code == 0
        assert f"midcourse resume sess_cut {words}" in " ".join(told.out.split())
