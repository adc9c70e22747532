"""The tools that call the remote: one function for each way to run, and each declared with each effect."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal
from urllib.parse import quote, urlsplit

import midcourse
from midcourse.runtime.group_reaper import process_group_reaper
from midcourse.runtime.shell_commands import run_command
from midcourse.runtime.tools import declared_tool, register

Kind = Literal["async", "thread", "process", "shell"]
KINDS: Final[tuple[Kind, ...]] = ("async", "thread", "process", "shell")
SETTLE: Final = 0.25
"""Seconds in which a request that nobody waits for may still land here. The remote of the tests is much quicker."""

_COMMAND: Final = """
import socket, sys
line = socket.create_connection((sys.argv[1], int(sys.argv[2])))
line.sendall(sys.argv[3].encode())
answer = b""
while piece := line.recv(1000):
    answer += piece
sys.stdout.write(answer.decode())
"""


class Refused(Exception):
    """The remote did not do it."""


def _request(path: str, name: str, key: str, method: str = "POST", delay: float = 0.0) -> bytes:
    target = f"{path}?name={quote(name)}&key={quote(key)}&delay={delay}"
    return f"{method} {target} HTTP/1.0\r\nContent-Length: 0\r\n\r\n".encode()


def _answer(response: bytes) -> int:
    head, _, body = response.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise Refused("the remote refused it")
    return int(body) if body != b"null" else 0


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 0)


async def exchange(url: str, request: bytes) -> int:
    """Send a request and wait for the answer, as a task that can be cancelled."""
    reader, writer = await asyncio.open_connection(*_address(url))
    try:
        writer.write(request)
        return _answer(await reader.read())
    finally:
        writer.transport.abort()


async def in_task(url: str, name: str) -> int:
    """An async tool."""
    return await exchange(url, _request("/do", name, midcourse.current_call().key))


def in_thread(url: str, name: str) -> int:
    """A plain tool, which looks now and then whether it should end."""
    call = midcourse.current_call()
    answer = b""
    with socket.create_connection(_address(url)) as line:
        line.sendall(_request("/do", name, call.key))
        line.settimeout(0.005)
        while True:
            with contextlib.suppress(TimeoutError):
                piece = line.recv(1000)
                answer += piece
                if not piece:
                    return _answer(answer)
            call.raise_if_cancelled()


def in_process(url: str, name: str) -> int:
    """A plain tool that looks at nothing: it is killed with its process."""
    answer = b""
    with socket.create_connection(_address(url)) as line:
        line.sendall(_request("/do", name, midcourse.current_call().key))
        while piece := line.recv(1000):
            answer += piece
    return _answer(answer)


async def in_shell(url: str, name: str) -> int:
    """A tool that runs a program."""
    host, port = _address(url)
    request = _request("/do", name, midcourse.current_call().key).decode()
    program = (sys.executable, "-I", "-S", "-c", _COMMAND, host, str(port), request)
    return _answer((await run_command(program, reaper=process_group_reaper())).stdout)


async def twice_in_task(url: str, name: str) -> int:
    """An async tool that is whole with its second request."""
    await exchange(url, _request("/do", name, midcourse.current_call().key))
    return await exchange(url, _request("/do", f"{name} on", midcourse.current_call().key))


def twice_in_process(url: str, name: str) -> int:
    """The same, in a process."""
    in_process(url, name)
    return in_process(url, f"{name} on")


async def take_back(arguments: Mapping[str, Any], _result: object, key: str) -> None:
    """The undo: works from arguments and key alone."""
    await exchange(arguments["url"], _request("/undo", arguments["name"], key))


async def look(arguments: Mapping[str, Any], key: str) -> bool:
    """The probe."""
    return await exchange(arguments["url"], _request("/did", arguments["name"], key, "GET")) > 0


async def let_go(url: str, name: str) -> None:
    """What lets go of something held."""
    await exchange(url, _request("/do", name, ""))


FUNCTIONS: Final[Mapping[Kind, Callable[[str, str], Any]]] = {
    "async": in_task,
    "thread": in_thread,
    "process": in_process,
    "shell": in_shell,
}
EFFECTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "read": {"effect": "read"},
    "idempotent": {"effect": "idempotent", "settle": SETTLE},
    "idempotent with undo": {"effect": "idempotent", "settle": SETTLE, "undo": take_back},
    "reversible": {"effect": "write", "settle": SETTLE, "undo": take_back},
    "irreversible": {"effect": "write", "settle": SETTLE},
    "irreversible with probe": {"effect": "write", "settle": SETTLE, "probe": look},
}


def _declared(effect: str, kind: Kind) -> midcourse.Tool[[str, str], Any]:
    run_in = "process" if kind == "process" else "thread"
    name = f"{effect.replace(' ', '_')}_{kind}"
    tool = declared_tool(FUNCTIONS[kind], name=effect, origin=f"{__name__}:{name}", run_in=run_in, **EFFECTS[effect])
    register(tool)
    globals()[name] = tool  # where other processes find it
    return tool


SEND: Final[Mapping[str, midcourse.Tool[[str, str], Any]]] = {
    "async": midcourse.tool(effect="write", settle=SETTLE)(twice_in_task),
    "process": midcourse.tool(effect="write", settle=SETTLE, run_in="process")(twice_in_process),
}
"""Irreversible, in two parts."""
TOOLS: Final = {(effect, kind): _declared(effect, kind) for effect in EFFECTS for kind in KINDS}


@midcourse.tool(effect="write", settle=0, run_in="process")
def die() -> None:
    """End the process it runs in, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


@midcourse.tool(effect="read", run_in="process")
def live(number: int) -> int:
    """A call like any other, in a process."""
    return number + 1
