"""The child process: opens a store and does what it is told, one JSON line at a time, several at once.

python -m tests.control.program URL '{"drive": true, "settings": {…}}'
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

import midcourse
from midcourse.handle import Midcourse
from tests.control import agents

Answer = dict[str, Any]
_lasting: set[asyncio.Task[None]] = set()


def _say(answer: Answer) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _reply(reply: midcourse.Reply) -> Answer:
    return {**msgspec.to_builtins(reply), "text": str(reply)}


class Program:
    """What can be asked of the child."""

    def __init__(self, mc: Midcourse) -> None:
        self._mc = mc

    async def start(self, agent: str, goal: str, session: str) -> Answer:
        """Start a session."""
        await self._mc.start(agent, goal, session_id=session)
        return {}

    async def status(self, session: str) -> Answer:
        """Where it stands."""
        return {"status": await (await self._mc.get(session)).status()}

    async def result(self, session: str) -> Answer:
        """What it returned."""
        return {"result": await (await self._mc.get(session)).result()}

    async def control(self, session: str, verb: str, arguments: Answer) -> Answer:
        """One of the five controls."""
        handle = await self._mc.get(session)
        method: Callable[..., Awaitable[midcourse.Reply]] = getattr(handle, verb)
        return _reply(await method(**arguments))

    async def resume_often(self, session: str, pause: str, times: int) -> Answer:
        """Many resumes at the same time; how each was answered."""
        handle = await self._mc.get(session)

        async def one() -> str:
            try:
                return (await handle.resume(pause)).level
            except midcourse.Refused as refused:
                return refused.code

        return {"codes": await asyncio.gather(*(one() for _ in range(times)))}

    async def pause_often(self, session: str, times: int, prefix: str) -> Answer:
        """Pause and resume, again and again; every answer that was not as it should be."""
        handle = await self._mc.get(session)
        wrong: list[str] = []
        for number in range(times):
            paused = await handle.pause(command_id=f"{prefix}-pause-{number}")
            if paused.level not in ("stopping", "stopped"):
                wrong.append(str(paused))
            resumed = await handle.resume(paused.pause, command_id=f"{prefix}-resume-{number}")
            if resumed.level != "decided":
                wrong.append(str(resumed))
        return {"wrong": wrong}

    async def watch(self, session: str, after: int = 0, until: str = "", deltas: bool = False) -> Answer:
        """Everything after a position, until the session ends or an event of a type was seen."""
        events: list[tuple[int, str]] = []
        previews = 0
        async for one in (await self._mc.get(session)).watch(after, deltas=deltas):
            if isinstance(one, midcourse.Delta):
                previews += 1
                if until == "delta":
                    break
                continue
            events.append((one.position, one.type))
            if one.type == until:
                break
        return {"events": events, "previews": previews}

    async def fork(self, session: str) -> Answer:
        """Fork, use the store in the child as it must not be, and say what it was told there."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            code = "nothing"
            try:
                code = _in_forked_child(self._mc, session)
            finally:
                os.write(writer, code.encode())
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            code = await asyncio.to_thread(pipe.read)
        await asyncio.to_thread(os.waitpid, child, 0)
        return {"code": code}


def _in_forked_child(mc: Midcourse, session: str) -> str:
    async def look() -> str:
        try:
            await (await mc.get(session)).status()
        except midcourse.MidcourseError as error:
            return error.code
        return "no error"

    # The parent's loop is marked as running in this thread; the child's own must not find it.
    asyncio.events._set_running_loop(None)  # noqa: SLF001 - only a test forks inside a running loop
    loop = asyncio.new_event_loop()
    return loop.run_until_complete(look())


async def _serve(program: Program, line: bytes) -> None:
    wanted = json.loads(line)
    number, name = wanted.pop("id"), wanted.pop("do")
    method: Callable[..., Awaitable[Answer]] = getattr(program, name)
    try:
        _say({"id": number, **await method(**wanted)})
    except midcourse.MidcourseError as error:
        _say({"id": number, "error": error.code, "message": error.message})


async def main(url: str, options: Answer) -> None:
    """Until stdin is closed."""
    settings = midcourse.Settings(**options.get("settings", {}))
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=10**7)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with midcourse.open(url, durability="process", drive=options.get("drive", True), settings=settings) as mc:
        program = Program(mc)
        _say({"ready": os.getpid(), "agents": agents.__name__})
        while line := await lines.readline():
            task = asyncio.create_task(_serve(program, line))
            _lasting.add(task)
            task.add_done_callback(_lasting.discard)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
