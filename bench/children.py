"""Child processes: a function of a question, run in a Python of its own, that talks in JSON lines."""

import asyncio
import importlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
PATIENCE: Final = 120.0
"""Seconds after which a child that says nothing is given up."""
_LONGEST_LINE: Final = 16 * 1024 * 1024


class Child:
    """A process this one started, and will end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def hear(self) -> dict[str, Any]:
        """The next thing it says.

        Raises:
            RuntimeError: it ended instead.
        """
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Child process {self.pid} ended without a word; its errors are above.")
        return json.loads(line)

    def tell(self, line: str) -> None:
        """Say something to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.is_alive:
            self._process.kill()
        await self._process.wait()

    async def end(self) -> int:
        """Close its input, which is how a child is told to end, and wait until it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            return await self._process.wait()


@asynccontextmanager
async def child(function: str, *arguments: object, descriptors: Sequence[int] = ()) -> AsyncGenerator[Child]:
    """``module:function`` of the bench in a process of its own, killed at the end of the block if it still lives."""
    one = await start(function, *arguments, descriptors=descriptors)
    try:
        yield one
    finally:
        await one.kill()


async def start(
    function: str, *arguments: object, descriptors: Sequence[int] = (), errors: Path | None = None
) -> Child:
    """The same, for whoever ends it himself. It inherits ``descriptors``, and adds to the file ``errors``."""
    descriptor = None if errors is None else os.open(errors, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "bench.children", function, *map(str, arguments)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=descriptor,
            pass_fds=descriptors,
            limit=_LONGEST_LINE,
            cwd=ROOT,
        )
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return Child(process)


# ---- the child's side


def say(**facts: object) -> None:
    """One line to whoever started this process."""
    print(json.dumps(facts), flush=True)


async def heard() -> str:
    """The next line from whoever started this process; empty once it is told to end, or nobody is there any more."""
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


def resident_bytes() -> int:
    """The memory of this process that is in RAM."""
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource  # elsewhere there is only the highest it has been

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """``python -m bench.children module:function argument …``."""
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(f"bench.{module}"), name)
    asyncio.run(function(*sys.argv[2:]))


if __name__ == "__main__":
    main()
