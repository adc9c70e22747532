"""After kill -9 nothing is still running: what ran is lost, and `midcourse show` says so."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.cli.conftest import Command

JOB = textwrap.dedent(
    """
    import asyncio
    import midcourse

    @midcourse.tool(effect="write", local=True)
    async def send(to: str) -> None:
        print("sending", flush=True)
        await asyncio.sleep(3600)

    @midcourse.agent
    async def sender(run: midcourse.Run) -> None:
        await run.step("send", send, "ada")

    async def main() -> None:
        async with midcourse.open("sqlite:///lost.db", durability="process") as mc:
            await mc.start(sender, session_id="sess_lost")
            await asyncio.sleep(3600)

    asyncio.run(main())
    """
)


def test_what_ran_in_a_killed_process_is_shown_as_lost(midcourse: Command, folder: Path) -> None:
    (folder / "job.py").write_text(JOB)
    process = subprocess.Popen([sys.executable, "job.py"], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "sending\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    shown = midcourse("show", "sess_lost", "--store", "sqlite:///lost.db").out
    assert "Lost with that process: send." in " ".join(shown.split())
    assert "lost with its process" in shown
    assert "still running" not in shown
