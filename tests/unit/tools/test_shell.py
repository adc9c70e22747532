"""Commands run in their folder with a small environment, and end with everything they have started."""

import asyncio
import sys
from pathlib import Path

import pytest

from midcourse.errors import InvalidInput, MidcourseError
from midcourse.runtime.group_reaper import process_group_reaper
from midcourse.runtime.tools import find_tool
from midcourse.tools.shell import shell_in
from tests.unit.runtime.tasks import is_dead


async def test_a_command_gives_its_exit_code_and_its_output(root: Path) -> None:
    ended = await shell_in(root).run("pwd; echo wrong >&2; printf '\\377'; exit 3")

    assert (ended.returncode, ended.stdout, ended.stderr) == (3, f"{root}\n\N{REPLACEMENT CHARACTER}", "wrong\n")
    assert (ended.timed_out, ended.still_running, ended.dropped) == (False, False, 0)


async def test_the_secrets_of_this_process_are_not_in_its_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hidden-value")
    monkeypatch.setenv("WANTED", "from here")
    assert "hidden-value" not in (await shell_in(root).run("env")).stdout

    assert (await shell_in(root, env=["WANTED", "MISSING"]).run("echo $WANTED")).stdout == "from here\n"
    assert (await shell_in(root, env={"WANTED": "given"}).run("echo $WANTED")).stdout == "given\n"
    assert (await shell_in(root).run("command -v ls")).returncode == 0


async def test_a_command_whose_time_is_over_is_killed_with_what_it_started(root: Path) -> None:
    # Longer than a shell needs to start on a busy machine, and shorter than the command.
    ended = await shell_in(root, timeout=2).run("echo begun; sleep 100 & echo $! > pid; wait")

    assert (ended.timed_out, ended.stdout) == (True, "begun\n")
    assert is_dead(int((root / "pid").read_text()))


async def test_an_aborted_command_is_killed(root: Path) -> None:
    running = asyncio.ensure_future(shell_in(root).run("echo $$ > pid; sleep 100"))
    while not (root / "pid").exists() or not (root / "pid").read_text():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert is_dead(int((root / "pid").read_text()))


async def test_output_beyond_the_limit_is_dropped_and_counted(root: Path) -> None:
    ended = await shell_in(root, limit=10).run("printf '%100s' x")

    assert (len(ended.stdout), ended.dropped) == (10, 90)


async def test_a_command_that_cannot_start_is_said(tmp_path: Path) -> None:
    with pytest.raises(MidcourseError, match="cannot be started"):
        await shell_in(tmp_path / "missing").run("true")
    with pytest.raises(InvalidInput, match="empty"):
        await shell_in(tmp_path).run("")


def test_tools_that_differ_in_secrets_alone_are_not_mixed(root: Path) -> None:
    first = shell_in(root, env={"TOKEN": "of the first"})
    with pytest.raises(InvalidInput, match="takes TOKEN with other values") as refused:
        shell_in(root, env={"TOKEN": "of another"})
    assert "of " not in str(refused.value).replace("of its own", "")
    shell_in(root, env=["TOKEN"])
    assert find_tool(first.run.origin) is first.run


def test_a_tool_that_was_found_first_gives_way_to_the_one_with_values(root: Path) -> None:
    origin = shell_in(root, env={"TOKEN": "x"}, timeout=7).run.origin.replace("7", "8")
    assert find_tool(origin).name == "run_command"
    made = shell_in(root, env={"TOKEN": "x"}, timeout=8)
    assert find_tool(made.run.origin) is made.run


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_helper_that_minds_commands_has_no_environment(root: Path) -> None:
    await shell_in(root).run("true")

    assert Path(f"/proc/{process_group_reaper().pid}/environ").read_bytes() == b""


def test_what_it_declares(root: Path) -> None:
    made = shell_in(root, env={"TOKEN": "secret"}, timeout=5)

    assert (made.run.kind, made.run.is_async) == ("irreversible", True)
    assert "secret" not in made.run.origin
    assert find_tool(made.run.origin) is made.run
    assert shell_in(root, env={"TOKEN": "secret"}, timeout=5) is made
    assert shell_in(root, env={"TOKEN": "other"}, timeout=6) is not made
    for wrong in ({"timeout": 0}, {"limit": -1}, {"env": "TOKEN"}):
        with pytest.raises(InvalidInput):
            shell_in(root, **wrong)  # pyright: ignore[reportArgumentType]
