"""A program that is forked with its imports in memory is a process like any other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from midcourse.runtime.process_groups import ProcessGroupReaper
from midcourse.runtime.process_pool import ProcessPool
from tests.forked_programs import AHEAD, ROOT

PROGRAM = """
import os, sys
assert __name__ == "__main__"
print(os.getppid(), os.getcwd(), sys.argv[1:], os.environ.get("SAID"), flush=True)
print(sys.stdin.readline(), file=sys.stderr, end="")
{end}
"""


def started(folder: Path, end: str, *how: str, **more: str) -> "subprocess.Popen[str]":
    (folder / "program.py").write_text(PROGRAM.format(end=end))
    pipe = subprocess.PIPE
    command = [sys.executable, *(how or ("-m", "program")), "one", "two"]
    return subprocess.Popen(
        command, cwd=folder, env={**os.environ, **more}, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


@pytest.mark.parametrize("how", [("-m", "program"), ("program.py",), ("-W", "error", "program.py")])
@pytest.mark.parametrize(("end", "code"), [("", 0), ("sys.exit(3)", 3), ("raise OSError", 1), ("sys.exit('no')", 1)])
def test_it_is_a_child_of_the_tests_with_its_own_folder_environment_pipes_and_end(
    tmp_path: Path, end: str, code: int, how: tuple[str, ...]
) -> None:
    with started(tmp_path, end, *how, SAID="yes") as process:
        out, err = process.communicate("a line\n")
    assert out == f"{os.getpid()} {tmp_path} ['one', 'two'] yes\n"
    assert err.startswith("a line\n")
    assert process.returncode == code


def test_it_is_stopped_and_killed_like_any_other(tmp_path: Path) -> None:
    with started(tmp_path, "") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        process.send_signal(signal.SIGCONT)
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_what_only_a_fresh_interpreter_can_do_is_one(tmp_path: Path) -> None:
    """Another option of Python, or another variable of its environment."""
    code = "import sys; print(sys.flags.ignore_environment, 'midcourse' in sys.modules)"
    assert subprocess.run([sys.executable, "-E", "-c", code], capture_output=True, text=True, check=True).stdout == (
        "1 False\n"
    )
    (tmp_path / "fresh.py").write_text("import sys; print('midcourse' in sys.modules)")
    command = [sys.executable, "-m", "fresh"]

    def has(**more: str) -> str:
        env = {**os.environ, **more}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout

    assert has() == f"{sys.platform == 'linux'}\n"
    assert has(PYTHONPATH=str(ROOT)) == "False\n"


def test_a_warning_is_an_error_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "warns.py").write_text("import warnings; warnings.warn('careful')")
    command = [sys.executable, "-W", "error", "warns.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr.splitlines()[-1]) == (1, "UserWarning: careful")


def test_what_is_imported_ahead_gives_no_warning() -> None:
    """For the programs that are started with ``-W error`` this has been done before they begin."""
    subprocess.run([sys.executable, "-W", "error", "-c", f"import {', '.join(AHEAD)}"], check=True)


def test_programs_whose_agents_have_one_name_are_started_one_after_the_other() -> None:
    """What a module of the tests registers is registered in its program only."""
    subprocess.run([sys.executable, "-m", "tests.chaos.worker"], cwd=ROOT, capture_output=True, check=False)
    command = [sys.executable, "-m", "tests.effects.program", "memory://", "{}"]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "tests.effects.agents\n"), done.stderr


async def test_a_process_for_plain_functions_has_what_the_tests_have_imported_and_only_their_path() -> None:
    """Else each call of a test would wait for the imports of a fresh interpreter."""
    reaper = ProcessGroupReaper()
    processes = ProcessPool(reaper, warm=0)
    try:
        assert await processes.run(None, known_modules, ("midcourse.server",)) == (True, sys.path)
    finally:
        await processes.close()
        reaper.close()


def known_modules(name: str) -> tuple[bool, list[str]]:
    return name in sys.modules, sys.path
