"""The help teaches, and asking for the version is fast."""

import subprocess
import sys

import pytest
import typer

from midcourse.cli.main import build
from tests.cli.conftest import Command

COMMANDS = (
    *("ps", "show", "events", "pause", "resume", "redirect", "cancel", "answer", "doctor"),
    *("interventions", "alarms", "label", "rate", "signals", "start"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_help_has_an_example_and_says_what_changes(midcourse: Command, command: str) -> None:
    done = midcourse(command, "--help")
    assert done.code == 0
    assert "Examples:" in done.out
    assert f"  midcourse {command}" in done.out
    assert "--json" in done.out
    assert "--store" in done.out
    assert "--url" in done.out


def test_without_a_command_it_says_what_there_is(midcourse: Command) -> None:
    done = midcourse()
    assert done.code == 0
    for command in COMMANDS:
        assert f"\n  {command}" in done.out
    assert "..." not in done.out.partition("Commands:")[2]


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_help_fits_any_terminal(midcourse: Command, columns: str) -> None:
    assert midcourse("cancel", "-h", env={"COLUMNS": columns}).code == 0


def test_every_command_is_tested_here() -> None:
    group = typer.main.get_command(build())
    assert set(COMMANDS) <= set(getattr(group, "commands", {}))


def test_the_version_is_told_without_building_the_command_tree() -> None:
    code = "import sys; from midcourse.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass\n"
    code += "print([one for one in ('typer', 'rich', 'httpx2', 'fastapi') if one in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
