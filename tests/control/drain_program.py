"""The program that a drain test starts and stops: it works until SIGTERM."""

import asyncio
import os
import sys
from pathlib import Path

import midcourse

SESSIONS, STEPS = 40, 12
_folder = Path(".")


def _write(line: str) -> None:
    descriptor = os.open(_folder / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


async def _work(session: str, number: int) -> int:
    await asyncio.sleep(0.05)
    _write(f"ended {session} {number}")
    return number


@midcourse.agent(name="drained")
async def AGENT(run: midcourse.Run) -> int:  # noqa: N802 - a constant to its readers
    """A few short steps."""
    total = 0
    for number in range(STEPS):
        total += await run.step("work", _work, run.session_id, number)
    return total


async def main(folder: str) -> None:
    """Work until told to stop."""
    global _folder  # noqa: PLW0603 - one program, one folder
    _folder = Path(folder)
    async with midcourse.open(f"sqlite:///{folder}/runs.db", durability="process") as mc:
        sys.stdout.write("working\n")
        sys.stdout.flush()
        await mc.work()


if __name__ == "__main__":
    from tests.control import drain_program  # the agent must be the importable module's, not __main__'s

    asyncio.run(drain_program.main(sys.argv[1]))
