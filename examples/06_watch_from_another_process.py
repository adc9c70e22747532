"""Watch, pause and resume a session that runs in another process.

This program starts itself as a child that runs a session on a SQLite file: a survey, whose answers it reads from its
standard input. Watching and steering go through the file alone. Here it is opened with ``drive=False``: to look and to
steer.

Prints:
    process … works on sess_survey; process … watches
    question 1 of 6 is answered
    question 2 of 6 is answered
    question 3 of 6 is answered
    pause: stopping, … (answered after … ms)
    stopped: paused after … answers, durable against: …
    resume: decided, running
    question 6 of 6 is answered
    result: yes, no, yes, no, yes, no
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


@midcourse.tool(effect="write")
def next_answer(number: int) -> str:
    """A tool that takes as long as somebody takes to answer. A line that was read is gone, so it is no ``read``."""
    return sys.stdin.readline().strip() or f"no answer to {number}"


@midcourse.agent
async def survey(run: midcourse.Run) -> str:
    """Asks six questions, and says how far it is."""
    answers: list[str] = []
    for number in range(1, QUESTIONS + 1):
        answers.append(await run.step("question", next_answer, number))
        run.report(f"question {number} of {QUESTIONS} is answered", progress=number / QUESTIONS)
    return ", ".join(answers)


async def child() -> None:
    """Run the session to its end."""
    async with midcourse.open(STORE) as mc:
        session = await mc.start(survey, session_id=SESSION)
        print("started", flush=True)
        await session.result()


async def main() -> None:
    """Answer three questions, pause while the fourth is open, answer it, resume, answer the rest."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, SCRIPT, "--child", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdout.readline()
    print(f"process {process.pid} works on {SESSION}; process {os.getpid()} watches")
    process.stdin.write(b"yes\nno\nyes\n")

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
                process.stdin.write(b"no\n")
                reply = await session.pause(until="stopped")
                answers = (await session.state()).finished_steps
                print(f"stopped: {reply.status} after {answers} answers, durable against: {reply.durability}")
                print("resume:", await session.resume(reply.pause))
                process.stdin.write(b"yes\nno\n")
        print("result:", await session.result())
    print("the process that worked ended with", await process.wait())


if "--child" in sys.argv:
    asyncio.run(child())
else:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        asyncio.run(main())
