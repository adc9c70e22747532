"""A command: its output is kept within a limit, and nothing of it lives when the wait for it is over."""

import asyncio
import os
import shlex
import signal
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from midcourse.errors import InvalidInput
from midcourse.runtime.process_groups import ProcessGroupReaper
from midcourse.runtime.shell_commands import Completed, run_command
from tests.unit.runtime import tasks
from tests.unit.runtime.tasks import Program, is_dead, is_reaped, is_still, stamping, until, until_growing


@pytest.fixture
async def minder() -> AsyncIterator[ProcessGroupReaper]:
    minder = ProcessGroupReaper()
    yield minder
    await asyncio.to_thread(minder.close)


async def cancelled(task: "asyncio.Task[Completed]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_shell_line_is_run_by_the_shell(minder: ProcessGroupReaper) -> None:
    done = await run_command("echo out; echo err >&2; exit 3", reaper=minder)
    assert done == Completed(returncode=3, stdout=b"out\n", stderr=b"err\n")


async def test_a_program_gets_its_arguments_as_they_are(minder: ProcessGroupReaper) -> None:
    done = await run_command(["printf", "%s|", "a b", "$HOME", "'; exit 1", ""], reaper=minder)
    assert done == Completed(returncode=0, stdout=b"a b|$HOME|'; exit 1||", stderr=b"")


async def test_a_command_that_a_signal_ends_says_which(minder: ProcessGroupReaper) -> None:
    assert (await run_command("kill -TERM $$", reaper=minder)).returncode == -signal.SIGTERM


async def test_a_program_that_is_not_there_is_told_as_a_shell_does(minder: ProcessGroupReaper) -> None:
    done = await run_command(["no-such-program"], reaper=minder)
    assert done.returncode == 127
    assert b"no-such-program" in done.stderr


async def test_a_directory_that_is_not_there_is_told(minder: ProcessGroupReaper, tmp_path: Path) -> None:
    descriptors = tasks.descriptors()
    with pytest.raises(FileNotFoundError, match="nowhere"):
        await run_command("true", reaper=minder, cwd=tmp_path / "nowhere")
    assert tasks.descriptors() == descriptors


@pytest.mark.parametrize("command", ["", [], [""]])
async def test_an_empty_command_is_refused(minder: ProcessGroupReaper, command: str | list[str]) -> None:
    with pytest.raises(InvalidInput, match="The command is empty"):
        await run_command(command, reaper=minder)


async def test_directory_and_environment_are_those_that_are_given(minder: ProcessGroupReaper, tmp_path: Path) -> None:
    done = await run_command("pwd; echo $SPICE$HOME", reaper=minder, cwd=tmp_path, env={"SPICE": "pepper"})
    assert done.stdout.decode().split() == [str(tmp_path.resolve()), "pepper"]


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
async def test_input_is_what_is_given_to_the_byte(minder: ProcessGroupReaper, size: int) -> None:
    given = (b"\n\0\xff\\ " * (size // 5 + 1))[:size]
    done = await run_command(["cat"], reaper=minder, stdin=given, limit=size)
    assert (done.returncode, done.stdout == given, done.dropped) == (0, True, 0)


async def test_without_input_there_is_nothing_to_read(minder: ProcessGroupReaper) -> None:
    assert (await run_command(["cat"], reaper=minder)).stdout == b""


async def test_input_that_nobody_reads_is_no_fault(minder: ProcessGroupReaper) -> None:
    assert (await run_command("echo done", reaper=minder, stdin=bytes(1_000_000))).stdout == b"done\n"


async def test_input_is_still_given_after_the_output_is_closed(minder: ProcessGroupReaper, tmp_path: Path) -> None:
    given = os.urandom(500_000)
    done = await run_command(f"exec >&- 2>&-; cat > '{tmp_path}/kept'", reaper=minder, stdin=given)
    assert done.returncode == 0
    assert (tmp_path / "kept").read_bytes() == given


async def test_output_beyond_the_limit_is_counted_and_dropped(minder: ProcessGroupReaper) -> None:
    line = "head -c 2000000 /dev/zero; printf abcdef >&2; exit 5"
    done = await run_command(line, reaper=minder, limit=4)
    assert done == Completed(returncode=5, stdout=bytes(4), stderr=b"abcd", dropped=1_999_998)


async def test_a_command_leaves_nothing_behind(minder: ProcessGroupReaper) -> None:
    """What it has put into the background is killed when it ends."""
    done = await run_command("sleep 100 & echo $!", reaper=minder)
    assert (done.returncode, done.leftover, done.escaped) == (0, True, False)
    assert is_dead(int(done.stdout))


async def test_what_is_left_behind_is_seen_by_the_output_it_holds(minder: ProcessGroupReaper) -> None:
    """A child of a Python program holds none of its descriptors but the standard ones."""
    code = "import subprocess; print(subprocess.Popen(['sleep', '100']).pid)"
    done = await run_command([sys.executable, "-c", code], reaper=minder)
    assert (done.leftover, done.escaped, is_dead(int(done.stdout))) == (True, False, True)


async def test_a_cancelled_command_does_nothing_more(minder: ProcessGroupReaper, tmp_path: Path) -> None:
    """When the wait for it is over, everything it has started is dead; what it had said is not lost."""
    stamps = [tmp_path / "s", tmp_path / "s2"]
    seen: list[Completed] = []
    task = asyncio.create_task(run_command("echo began; " + stamping(stamps[0]), reaper=minder, killed=seen.append))
    await until_growing(*stamps)
    await cancelled(task)
    written = [path.read_bytes() for path in stamps]
    assert seen == [Completed(returncode=-signal.SIGKILL, stdout=b"began\n", stderr=b"")]
    assert is_reaped(int(written[0].split()[0]))
    assert await is_still(*stamps)
    assert [path.read_bytes() for path in stamps] == written


async def test_a_second_cancellation_does_not_end_the_wait_early(minder: ProcessGroupReaper, tmp_path: Path) -> None:
    stamps = [tmp_path / "s", tmp_path / "s2"]
    task = asyncio.create_task(run_command(stamping(stamps[0]), reaper=minder))
    await until_growing(*stamps)
    task.cancel()
    await asyncio.sleep(0)
    await cancelled(task)
    assert is_reaped(int(stamps[0].read_bytes().split()[0]))


class Slow(ProcessGroupReaper):
    """Knows a group when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.group = 0
        self.let = threading.Event()

    def watch(self, group: int) -> None:
        self.group = group
        self.let.wait(tasks.WAIT)
        super().watch(group)


async def test_a_command_that_is_cancelled_before_it_is_minded_never_begins(tmp_path: Path) -> None:
    minder = Slow()
    task = asyncio.create_task(run_command(f"touch '{tmp_path}/begun'", reaper=minder))
    await until(lambda: minder.group != 0)
    task.cancel()
    await asyncio.sleep(0)
    minder.let.set()
    await cancelled(task)
    assert is_reaped(minder.group)
    assert not (tmp_path / "begun").exists()
    minder.close()


def daemon(pid: Path, then: str) -> str:
    """A shell line that starts a process that leaves the group, and goes on when it has."""
    code = f"import os, time; os.setsid(); open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(100)"
    started = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} &"
    return f"{started} while [ ! -s {shlex.quote(str(pid))} ]; do sleep 0.01; done; {then}"


async def test_a_process_that_has_left_the_group_is_told(minder: ProcessGroupReaper, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = await run_command(daemon(pid, "echo done"), reaper=minder)
    assert (done.returncode, done.stdout, done.escaped) == (0, b"done\n", True)
    assert not is_dead(int(pid.read_text()))
    os.kill(int(pid.read_text()), signal.SIGKILL)


async def test_a_cancellation_tells_of_a_process_that_has_left_the_group(
    minder: ProcessGroupReaper, tmp_path: Path
) -> None:
    """Also of one that holds nothing but the line."""
    pid = tmp_path / "pid"
    seen: list[Completed] = []
    line = f"echo began; {{ {daemon(pid, 'true;')} }} >/dev/null 2>&1; sleep 100"
    task = asyncio.create_task(run_command(line, reaper=minder, killed=seen.append))
    await until(lambda: pid.exists() and bool(pid.read_text()))
    await cancelled(task)
    assert [one.escaped for one in seen] == [True]
    assert not is_dead(int(pid.read_text()))
    os.kill(int(pid.read_text()), signal.SIGKILL)


async def test_many_commands_run_side_by_side(minder: ProcessGroupReaper) -> None:
    done = await asyncio.gather(*(run_command(f"sleep 0.1; echo {number}", reaper=minder) for number in range(20)))
    assert [int(one.stdout) for one in done] == list(range(20))
    assert not any(one.leftover or one.escaped for one in done)


async def test_commands_leave_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    descriptors, threads = tasks.descriptors(), threading.active_count()
    minder = ProcessGroupReaper()
    await run_command("echo done; sleep 100 &", reaper=minder, stdin=b"input")
    task = asyncio.create_task(run_command(stamping(tmp_path / "s"), reaper=minder, stdin=b"input"))
    await until_growing(tmp_path / "s")
    await cancelled(task)
    helper = minder.pid
    assert helper is not None
    minder.close()
    assert is_reaped(helper)
    await until(lambda: threading.active_count() == threads)
    assert tasks.descriptors() == descriptors


async def test_a_minder_that_was_killed_is_replaced(minder: ProcessGroupReaper) -> None:
    await run_command("true", reaper=minder)
    first = minder.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert (await run_command("echo done", reaper=minder)).stdout == b"done\n"
    assert minder.pid != first
    assert is_reaped(first)


async def test_a_minder_is_not_ended_by_what_ends_the_processes_of_a_terminal(minder: ProcessGroupReaper) -> None:
    await run_command("true", reaper=minder)
    helper = minder.pid
    assert helper is not None
    assert os.getsid(helper) == helper
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(helper, number)
    await run_command("true", reaper=minder)
    assert minder.pid == helper


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows the descriptors of another process")
async def test_a_minder_holds_nothing_of_the_program(minder: ProcessGroupReaper, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        await run_command("true", reaper=minder)
    assert sorted(os.listdir(f"/proc/{minder.pid}/fd")) == ["0", "1", "2"]
    assert os.readlink(f"/proc/{minder.pid}/cwd") == "/"


PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from midcourse.runtime.process_groups import ProcessGroupReaper
from midcourse.runtime.shell_commands import run_command
from tests.unit.runtime import tasks

async def main():
    minder = ProcessGroupReaper()
    stamps = Path(sys.argv[1])
    command = asyncio.create_task(run_command(tasks.stamping(stamps), reaper=minder))
    await tasks.until_growing(stamps, Path(str(stamps) + "2"))
    if "replaced" in sys.argv:
        os.kill(minder.pid, signal.SIGKILL)
        await run_command("true", reaper=minder)
    if "forked" in sys.argv and os.fork() == 0:
        signal.pause()
    print(minder.pid, flush=True)
    if "normal" not in sys.argv:
        await command

asyncio.run(main()) if "normal" not in sys.argv else asyncio.new_event_loop().run_until_complete(main())
"""


@pytest.mark.parametrize("circumstance", ["alone", "forked", "replaced", "normal"])
async def test_a_command_dies_with_its_program(tmp_path: Path, circumstance: str) -> None:
    """Killed or ended; also if another process was forked from it, and if its minder was killed and replaced."""
    stamps = [tmp_path / "s", tmp_path / "s2"]
    with Program(tmp_path / "program.py", PROGRAM, stamps[0], circumstance) as program:
        helper = int(program.hear())
        if circumstance == "normal":
            program.process.wait(tasks.WAIT)
        else:
            await until_growing(*stamps)
            program.kill()
        await until(lambda: is_dead(helper))
        await until(lambda: all(is_dead(int(path.read_text().split()[0])) for path in stamps))
    assert await is_still(*stamps)


NEVER = """
import asyncio, sys, time
from midcourse.runtime.process_groups import ProcessGroupReaper
from midcourse.runtime.shell_commands import run_command

class Slow(ProcessGroupReaper):
    def watch(self, group):
        print(group, flush=True)
        time.sleep(100)

asyncio.run(run_command(["touch", sys.argv[1]], reaper=Slow()))
"""


async def test_a_command_whose_program_dies_before_it_is_minded_never_begins(tmp_path: Path) -> None:
    with Program(tmp_path / "program.py", NEVER, tmp_path / "begun") as program:
        group = int(program.hear())
        program.kill()
        await until(lambda: is_dead(group))
    assert not (tmp_path / "begun").exists()
