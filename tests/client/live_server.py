"""A real server on a real port, over a SQLite file, with agents to steer."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn

import midcourse
from midcourse.handle.http import RemoteMidcourse
from midcourse.server.app import Server

TOKEN = "mct_test-0123456789abcdef"


held: dict[int, asyncio.Event] = {}
"""Ticks that wait to be let through: a session that is to be stopped has not ended by then."""


@midcourse.tool(effect="read")
async def tick(number: int) -> int:
    await asyncio.sleep(0.01)
    if number in held:
        await held[number].wait()
    return number


@midcourse.agent(name="served-ticker")
async def ticker(run: midcourse.Run) -> dict[str, int]:
    """Ticks as often as its goal says."""
    count = int(run.goal)
    for number in range(count):
        await run.step("tick", tick, number)
        run.report(progress=(number + 1) / count)
    return {"ticks": count}


@midcourse.agent(name="served-asker", goals=("Which of the two?",))
async def asker(run: midcourse.Run) -> object:
    """Asks, and returns what it is told."""
    return await run.ask(run.goal, options=("yes", "no"))


@midcourse.agent(name="served-singer")
async def singer(run: midcourse.Run) -> str:
    """Streams its goal, word by word."""

    async def words() -> AsyncGenerator[str]:
        for word in run.goal.split():
            await asyncio.sleep(0.05)
            yield f"{word} "

    return await run.stream("sing", words)


async def remove(args: object, result: object, key: str) -> None:
    """Undo of put."""


@midcourse.tool(effect="write", undo=remove)
async def put(name: str) -> str:
    return f"put {name}"


@midcourse.tool(effect="write")
async def send_mail(to: str) -> str:
    return f"sent to {to}"


@midcourse.agent(name="served-writer")
async def writer(run: midcourse.Run) -> str:
    """Puts, mails, and then waits to be told."""
    await run.step("put", put, "a")
    await run.step("send_mail", send_mail, "ada@example.org")
    await run.ask("Go on?")
    return "done"


@midcourse.agent(name="served-failer")
async def failer(run: midcourse.Run) -> None:
    """Fails."""
    raise ValueError("no such file: täglich.csv")


FETCHING = "Read the twelve reports in the folder and write one page about churn in Q3"


@midcourse.tool(effect="read")
async def fetch(number: int) -> str:
    raise TimeoutError(f"page {number} does not answer")


@midcourse.tool(effect="read")
async def stand() -> None:
    """Until somebody stops it."""
    await asyncio.sleep(3600)


@midcourse.agent(name="served-fetcher")
async def fetcher(run: midcourse.Run) -> str:
    """Fails so often that a policy stops it."""
    for number in range(5):
        with contextlib.suppress(midcourse.StepError):
            await run.step("fetch", fetch, number)
    await run.step("stand", stand)
    return "in the end"


AGENTS = {one.name: one for one in (ticker, asker, singer, writer, failer, fetcher)}


@asynccontextmanager
async def serving(store: Path, port: int = 0) -> AsyncGenerator[str]:
    """A server over ``store``; its address."""
    server = Server(store=f"sqlite:///{store}", token=TOKEN, agents=AGENTS, durability="process", grace=0.2)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        port = listener.getsockname()[1]
        config = uvicorn.Config(server.app, log_level="warning", timeout_graceful_shutdown=1, lifespan="on")
        running = uvicorn.Server(config)
        # Signals are the tests' own.
        running.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
        task = asyncio.create_task(running.serve(sockets=[listener]))
        while not running.started:
            assert not task.done(), task.exception()
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            running.should_exit = True
            await task


@asynccontextmanager
async def both(folder: Path) -> AsyncGenerator[tuple[midcourse.Midcourse, RemoteMidcourse]]:
    """The same sessions twice: from the file, and from a server that has it open."""
    store = folder / "runs.db"
    async with (
        serving(store) as url,
        midcourse.open(f"sqlite:///{store}", drive=False, durability="process") as here,
        midcourse.connect(url, token=TOKEN) as there,
    ):
        yield here, there
