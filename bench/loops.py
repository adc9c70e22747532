"""The agents that durable_step and bytes_per_step share: a model call and a tool call, again and again, 1 KB a step."""

import random
import string
import time
from collections.abc import AsyncIterator
from typing import Final

import midcourse

_random = random.Random(7)
TEXT: Final = "".join("".join(_random.choices(string.ascii_letters + string.digits, k=4)) + " " for _ in range(100))
"""What the model says: 100 tokens, 500 bytes that hardly get smaller when they are compressed."""
EVERY: Final = 50
"""Steps between two checkpoints of an agent that takes them."""

steps_ms: list[float] = []
"""How long each step took, checkpoints included."""


async def model() -> AsyncIterator[str]:
    """A model whose answer comes in one piece."""
    yield TEXT


async def streaming_model() -> AsyncIterator[str]:
    """A model whose answer comes token by token."""
    for token in TEXT.split():
        yield f"{token} "


@midcourse.tool(effect="idempotent", local=True)
async def tool(number: int) -> str:
    """A tool that answers at once."""
    return f"{number:>5}{TEXT[5:]}"


@midcourse.agent
async def loop_replaying(run: midcourse.Run) -> None:
    """Starts at its top after a crash, so it takes no checkpoints."""
    for number in range(int(run.goal)):
        start = time.perf_counter()
        await run.stream("think", model)
        await run.step("act", tool, number)
        steps_ms.append((time.perf_counter() - start) * 1000)


@midcourse.agent(mode="state")
async def loop_checkpointing(run: midcourse.Run) -> None:
    """Starts from its last checkpoint; its state is small."""
    for number in range(run.state.get("done", 0), int(run.goal)):
        start = time.perf_counter()
        await run.stream("think", model)
        await run.step("act", tool, number)
        run.state["done"] = number + 1
        if run.state["done"] % EVERY == 0:
            await run.checkpoint()
        steps_ms.append((time.perf_counter() - start) * 1000)


@midcourse.agent(mode="state")
async def loop_streaming(run: midcourse.Run) -> None:
    """The same, with a model that streams."""
    for number in range(run.state.get("done", 0), int(run.goal)):
        start = time.perf_counter()
        await run.stream("think", streaming_model)
        await run.step("act", tool, number)
        run.state["done"] = number + 1
        if run.state["done"] % EVERY == 0:
            await run.checkpoint()
        steps_ms.append((time.perf_counter() - start) * 1000)


@midcourse.agent(mode="state")
async def loop_remembering(run: midcourse.Run) -> None:
    """The same, with the whole conversation in its state."""
    history: list[str] = run.state.setdefault("history", [])
    for number in range(len(history) // 2, int(run.goal)):
        start = time.perf_counter()
        history.append(await run.stream("think", model))
        history.append(await run.step("act", tool, number))
        if (number + 1) % EVERY == 0:
            await run.checkpoint()
        steps_ms.append((time.perf_counter() - start) * 1000)


async def run_loop(store: str, agent: midcourse.Agent[None], steps: int) -> list[float]:
    """How long each of so many steps took, in a session of its own."""
    steps_ms.clear()
    async with midcourse.open(store) as mc:
        session = await mc.start(agent, str(steps))
        await session.result()
    return list(steps_ms)
