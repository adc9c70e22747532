"""Watch, pause and resume a session that runs in another process.

This program starts itself as a child that runs a session on a SQLite file. The child gets no signal, no socket and no
request: both have opened the same file. Here it is opened with ``drive=False``: to look and to steer.

Prints:
    process … works on sess_survey; process … watches
    question 1 of 6 asked
    question 2 of 6 asked
    question 3 of 6 asked
    pause: stopping, … (answered after … ms)
    stopped: paused after … questions, durable against: …
    resume: decided, running
    question 6 of 6 asked
    result: 6 answers
    the process that worked ended with 0
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time

import midcourse

SCRIPT = os.path.abspath(__file__)
STORE = "sqlite:///runs.db"
SESSION = "sess_survey"
QUESTIONS = 6


async def ask_somebody(number: int) -> str:
    """A tool that takes a moment."""
    await asyncio.sleep(0.03)
    return f"answer {number}"


@midcourse.agent
async def survey(run: midcourse.Run) -> str:
    """Asks six questions, and says how far it is."""
    for number in range(1, QUESTIONS + 1):
        await run.step("question", ask_somebody, number)
        run.report(f"question {number} of {QUESTIONS} asked", progress=number / QUESTIONS)
    return f"{QUESTIONS} answers"


async def child() -> None:
    """Run the session to its end."""
    async with midcourse.open(STORE) as mc:
        session = await mc.start(survey, session_id=SESSION)
        print("started", flush=True)
        await session.result()


async def main() -> None:
    """Watch it; pause it at the third question; resume it."""
    process = await asyncio.create_subprocess_exec(sys.executable, SCRIPT, "--child", stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    print(f"process {process.pid} works on {SESSION}; process {os.getpid()} watches")

    async with midcourse.open(STORE, drive=False) as mc:
        session = await mc.get(SESSION)
        async for event in session.watch():
            if event.type != "report.made":
                continue
            print(event.event.message)
            if event.event.message.startswith("question 3"):
                click = time.perf_counter()
                reply = await session.pause("a person reads along")
                print(f"pause: {reply} (answered after {(time.perf_counter() - click) * 1000:.1f} ms)")
                reply = await session.pause(until="stopped")
                asked = (await session.state()).finished_steps
                print(f"stopped: {reply.status} after {asked} questions, durable against: {reply.durability}")
                print("resume:", await session.resume(reply.pause))
        print("result:", await session.result())
    print("the process that worked ended with", await process.wait())


if "--child" in sys.argv:
    asyncio.run(child())
else:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        asyncio.run(main())
