"""How long from resume to the model's first word, for a Pydantic AI conversation of 1,000 messages in the store alone?

The peer is what Pydantic AI itself offers: read the messages as JSON from a SQLite row, and run the agent with them.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.usage import UsageLimits

import midcourse
from bench import floors
from bench.harness import Result, ask, folder, median, store_in
from midcourse.adapters.pydantic_ai import wrap

QUESTION: Final = "resume a Pydantic AI conversation, median"
MESSAGES: Final = (10, 1000)
REPEATS: Final = 15
SESSION: Final = "sess_talk"
TEXT: Final = "w" * 1000

moments: list[float] = []
"""When the model was asked for what does not end."""


async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """A model that calls the tool until the conversation is long enough, and then speaks without an end."""
    if len(messages) < int(str(getattr(messages[0].parts[0], "content", ""))):
        yield {0: DeltaToolCall("look", "{}", tool_call_id=f"call_{len(messages)}")}
        return
    moments.append(time.perf_counter())
    yield "word "
    await asyncio.get_running_loop().create_future()


talker: Agent[None, str] = Agent(FunctionModel(stream_function=stream), name="talker")


@talker.tool_plain
@midcourse.tool(effect="read")
async def look() -> str:
    """A tool that answers with 1 KB."""
    return TEXT


held: midcourse.Agent[Any] = wrap(talker, usage_limits=UsageLimits(request_limit=None))


async def _until_asked(number: int) -> float:
    async with asyncio.timeout(120):
        while len(moments) < number:
            await asyncio.sleep(0.0005)
    return moments[-1]


async def resumed(length: int) -> list[Result]:
    """Ours and theirs, one after the other."""
    moments.clear()
    taken: list[float] = []
    with folder() as path:
        async with midcourse.open(store_in(path), durability="process", grace=0) as mc:
            session = await mc.start(held, str(length), session_id=SESSION)
            await _until_asked(1)
            reply = await session.pause(grace=0, until="stopped")
            history = (await session.inspect()).history
        floor = floors.read_ms(path / "floor.db", rows=length) + floors.commit_ms(path / "floor.db")
        for number in range(REPEATS):
            async with midcourse.open(store_in(path), grace=0) as mc:
                session = await mc.get(SESSION)
                click = time.perf_counter()
                await session.resume(reply.pause)
                taken.append((await _until_asked(number + 2) - click) * 1000)
                reply = await session.pause(grace=0, until="stopped")
        own = [await _by_hand(path, list(history)) for _ in range(REPEATS)]
    return [
        Result(
            QUESTION,
            f"cold, {length:,} messages of 1 KB",
            median(taken),
            "ms",
            REPEATS,
            floor=floor,
            floor_is="the bare rows of the messages, and a bare commit",
            peers={"Pydantic AI from a JSON row": median(own)},
        )
    ]


async def _by_hand(path: Path, history: list[Any]) -> float:
    """What a user of Pydantic AI does: messages from a row, a run, the first word. Nothing is durable here."""
    place = path / "own.db"
    with contextlib.closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS talk (id TEXT PRIMARY KEY, messages BLOB)")
        content = ModelMessagesTypeAdapter.dump_json(ModelMessagesTypeAdapter.validate_python(history))
        connection.execute("INSERT OR REPLACE INTO talk VALUES ('talk', ?)", (content,))
        connection.commit()
    before = len(moments)
    click = time.perf_counter()
    with contextlib.closing(sqlite3.connect(place)) as connection:
        (row,) = connection.execute("SELECT messages FROM talk WHERE id = 'talk'").fetchone()
    running = asyncio.ensure_future(_run_on(ModelMessagesTypeAdapter.validate_json(row)))
    asked = await _until_asked(before + 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return (asked - click) * 1000


async def _run_on(messages: list[ModelMessage]) -> None:
    async with talker.run_stream(message_history=messages) as said:
        async for _ in said.stream_text(delta=True):
            pass


def answers() -> list[Result]:
    """The table's lines."""
    return ask(*(lambda length=length: resumed(length) for length in MESSAGES))
