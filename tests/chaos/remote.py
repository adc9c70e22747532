"""What effects are counted by: a process of its own that no fault is done to. ``python -m tests.chaos.remote FILE``.

It says its port, takes one line of JSON per connection on loopback, keeps it in FILE and says so. It is no file that
tools write themselves, because a store that is full would be full for that, too.
"""

import asyncio
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final, cast

from midcourse import current_call
from tests.chaos.ways import READY
from tests.faults.checker import Deed, What

LIMIT: Final = 10.0
"""Seconds after which a remote that does not answer is a fault of the test."""
PORT: Final = "MIDCOURSE_CHAOS_PORT"
"""The variable that says where the remote listens: processes in which tools run have it from their worker."""


def deed(what: What, session: str, effect: str, key: str | None = None) -> Deed:
    """What the body of a call, or (with its ``key``) an undo, does now."""
    if key is not None:
        return Deed(at=time.time(), what=what, session=session, step="", effect=effect, key=key, attempt=0)
    call = current_call()
    return Deed(
        at=time.time(),
        what=what,
        session=session,
        step=call.step,
        effect=effect,
        key=call.key,
        attempt=call.attempt,
    )


def _line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _fields(one: Deed) -> dict[str, Any]:
    return {name: getattr(one, name) for name in Deed.__slots__}


def tell(one: Deed) -> None:
    """From a thread or a process: returns once the remote has it."""
    _send(_fields(one))


def was_done(key: str) -> bool:
    """Whether the remote has seen the effect of this key, and nobody has taken it back."""
    return _send({"ask": key}) == "yes"


def _send(message: Any) -> str:
    with socket.create_connection(("127.0.0.1", int(os.environ[PORT])), LIMIT) as connection:
        connection.sendall(_line(message))
        return connection.makefile().readline().strip()


async def tell_soon(one: Deed) -> None:
    """The same from a task, which may be aborted meanwhile: then it may have got there or not."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ[PORT]))
    try:
        writer.write(_line(_fields(one)))
        await reader.readline()
    finally:
        writer.close()


def read(file: Path) -> list[Deed]:
    """Everything the remote saw."""
    return [Deed(**json.loads(line)) for line in file.read_text().splitlines()]


# ---- the process


async def serve(file: Path) -> None:
    """Until somebody ends this process."""
    there: set[str] = set()
    with file.open("a", buffering=1) as kept:

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                line = await reader.readline()
                if not line.endswith(b"\n"):  # whoever wrote it is gone
                    return
                message = cast("dict[str, Any]", json.loads(line))
                if "ask" in message:
                    writer.write(b"yes\n" if message["ask"] in there else b"no\n")
                else:
                    kept.write(json.dumps(message) + "\n")
                    if message["what"] == "done":
                        there.add(message["key"])
                    elif message["what"] == "undone":
                        there.discard(message["key"])
                    writer.write(b"kept\n")
                await writer.drain()
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(take, "127.0.0.1", 0, backlog=1000)
        print(READY, server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
