"""A process that is killed, or that does not answer: what `midcourse ps` and `midcourse show` say of its sessions."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from midcourse.runtime.settings import Settings
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


def test_a_command_that_a_silent_worker_has_not_decided_is_shown_as_stored(
    midcourse: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By any process that looks, until the worker answers; what ran last is called last seen, and not running."""
    defaults = Settings.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "unreachable_after", 0.5)
    (folder / "job.py").write_text(JOB)
    here = ("--store", "sqlite:///lost.db")
    process = subprocess.Popen([sys.executable, "job.py"], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            assert process.stdout.readline() == "sending\n"
            process.send_signal(signal.SIGSTOP)
            assert "Its worker has not answered since" in " ".join(midcourse("pause", "sess_lost", *here).out.split())
            assert "running, pause stored" in midcourse("ps", *here).out
            shown = " ".join(midcourse("show", "sess_lost", *here).out.split())
            assert "Stored, not carried out: pause" in shown
            assert "Its worker has not answered since" in shown
            assert "Last seen" in shown
            told = midcourse("show", "sess_lost", "--json", *here).json()
            [head] = midcourse("ps", "--json", *here).json()["sessions"]
            assert [one["command"] for one in told["pending"]] == ["pause"]
            assert told["unreachable_since"] == head["unreachable_since"] == told["pending"][0]["at"]
            assert (told["status"], told["unattended"]) == ("running", False)
            process.send_signal(signal.SIGCONT)
            deadline = time.monotonic() + 30
            while midcourse("show", "sess_lost", "--json", *here).json()["pending"]:
                assert time.monotonic() < deadline
            assert "stored" not in midcourse("ps", *here).out
        finally:
            process.kill()
            process.wait()


def test_show_and_every_reply_name_the_same_time_since_which_a_worker_has_not_answered(
    midcourse: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the oldest command it has not decided: one worker, one silence."""
    defaults = Settings.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "unreachable_after", 0.5)
    (folder / "job.py").write_text(JOB)
    here = ("--json", "--store", "sqlite:///lost.db")
    process = subprocess.Popen([sys.executable, "job.py"], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            assert process.stdout.readline() == "sending\n"
            process.send_signal(signal.SIGSTOP)
            paused, resumed, again = (
                midcourse(verb, "sess_lost", *here).json()["unreachable_since"] for verb in ("pause", "resume", "pause")
            )
            assert paused is not None
            shown = midcourse("show", "sess_lost", *here).json()["unreachable_since"]
            assert [resumed, again, shown] == [paused] * 3
        finally:
            process.kill()
            process.wait()
