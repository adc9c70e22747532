"""Kill a process in the middle of a step, and go on in another one.

This program starts itself as a child that runs a session on a SQLite file, kills the child with SIGKILL while its third
step is in flight, and goes on here. Every step first writes a line into a file that Midcourse knows nothing of, so the
count at the end comes from outside: finished steps ran once, and the one that was torn ran again, because it says that
it may. Had it said nothing, a person would have been asked whether it happened.

Prints:
    process …: in the middle of train
    killed process … with SIGKILL; it ended with -9
    process …: goes on with sess_nightly
    result: model of 3 cleaned rows, evaluated
    load      ran 1 time   in process …
    clean     ran 1 time   in process …
    train     ran 2 times  in process …, …
    evaluate  ran 1 time   in process …
    the journal says: lost with its process: 1/train#1
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path

import midcourse

SCRIPT = os.path.abspath(__file__)
STORE = "sqlite:///runs.db"
SESSION = "sess_nightly"
LINES = Path("lines.txt")
IN_THE_CHILD = "--child" in sys.argv


def note(step: str) -> None:
    """One line per execution of a step's body."""
    with LINES.open("a") as lines:
        lines.write(f"{step} {os.getpid()}\n")


def executions() -> dict[str, list[str]]:
    """For each step the processes its body ran in, as the lines say."""
    ran: dict[str, list[str]] = {}
    for line in LINES.read_text().splitlines():
        step, pid = line.split()
        ran.setdefault(step, []).append(pid)
    return ran


@midcourse.tool(effect="read")
def load() -> list[int]:
    """A tool."""
    note("load")
    return [3, 1, 2]


@midcourse.tool(effect="read")
def clean(rows: list[int]) -> list[int]:
    """Another."""
    note("clean")
    return sorted(rows)


@midcourse.tool(effect="idempotent", local=True)
async def train(rows: list[int]) -> str:
    """The long one: in the child it never ends. Trained twice it is the same model, and nobody else sees it."""
    note("train")
    if IN_THE_CHILD:
        print(f"process {os.getpid()}: in the middle of train", flush=True)
        await asyncio.Event().wait()
    return f"model of {len(rows)} cleaned rows"


@midcourse.tool(effect="read")
def evaluate(model: str) -> str:
    """The last one."""
    note("evaluate")
    return f"{model}, evaluated"


@midcourse.agent
async def nightly(run: midcourse.Run) -> str:
    """A plain function of four steps. It holds no code for crashes."""
    rows = await run.step("load", load)
    rows = await run.step("clean", clean, rows)
    model = await run.step("train", train, rows)
    return await run.step("evaluate", evaluate, model)


async def child() -> None:
    """Start the session and work on it, until somebody ends this process."""
    async with midcourse.open(STORE) as mc:
        session = await mc.start(nightly, session_id=SESSION)
        await session.result()


async def main() -> None:
    """Start the child, kill it in its third step, and go on."""
    process = await asyncio.create_subprocess_exec(sys.executable, SCRIPT, "--child", stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    print((await process.stdout.readline()).decode().strip())
    os.kill(process.pid, signal.SIGKILL)
    print(f"killed process {process.pid} with SIGKILL; it ended with {await process.wait()}")

    print(f"process {os.getpid()}: goes on with {SESSION}")
    async with midcourse.open(STORE) as mc:  # opening is enough: what was left running goes on
        session = await mc.get(SESSION)
        print("result:", await session.result())

        for step, pids in executions().items():
            times = "1 time " if len(pids) == 1 else f"{len(pids)} times"
            print(f"{step:<9} ran {times}  in process {', '.join(pids)}")

        lost = [step async for event in session.watch() if event.type == "session.taken" for step in event.event.lost]
        print("the journal says: lost with its process:", ", ".join(lost))


if IN_THE_CHILD:
    asyncio.run(child())
else:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        asyncio.run(main())
