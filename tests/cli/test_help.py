"""The help teaches, old spellings name the new ones, and asking for the version is fast."""

import re
import subprocess
import sys
from typing import Any

import pytest
import typer

from midcourse.cli.groups import EVERYDAY, GROUPS, MOVED, SERVING
from midcourse.cli.main import build
from midcourse.core import commands as cmd
from midcourse.core.parameters import parameters
from tests.cli.conftest import Command

ROOT: Any = typer.main.get_command(build())
BELOW = {f"{group} {name}": one for group in GROUPS for name, one in ROOT.commands[group].commands.items()}
COMMANDS: dict[str, Any] = {name: ROOT.commands[name] for name in (*EVERYDAY, *SERVING)} | BELOW
AVOIDED = re.compile(
    r"\b(nobody|somebody|whoever|everybody|anybody|goe?s? on|lets? go|set going|told of|is told|its own accord)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", COMMANDS)
def test_each_help_has_an_example_of_its_command_and_is_in_plain_english(midcourse: Command, path: str) -> None:
    done = midcourse(*path.split(), "--help")
    assert done.code == 0
    assert re.search("Examples?:\n", done.out)
    assert f"  midcourse {path}" in done.out
    assert_is_plain(done.out)


def assert_is_plain(text: str) -> None:
    assert AVOIDED.findall(" ".join(text.split())) == []


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_has_an_example_and_does_nothing_by_itself(midcourse: Command, group: str) -> None:
    done = midcourse(group)
    assert "Examples:\n" in done.err
    assert f"  midcourse {group} " in done.err
    assert_is_plain(done.err)
    shown = re.findall(rf"^  +midcourse {group} ([a-z-]+)", done.err, re.MULTILINE)
    assert shown
    assert set(shown) <= set(ROOT.commands[group].commands)


def test_each_command_of_sessions_takes_a_store_a_server_and_json(midcourse: Command) -> None:
    policies = [f"policy {one}" for one in ("list", "show", "check", "diff", "history", "save")]
    for path in (*EVERYDAY, *policies, "doctor", "inbox list", "session rate", "kill-switch throw"):
        options = {option for one in COMMANDS[path].params for option in one.opts}
        assert {"--store", "--url", "--token", "--json"} <= options, path
    assert "--json" in {option for one in COMMANDS["policy backtest"].params for option in one.opts}


@pytest.mark.parametrize("kind", cmd.SENT, ids=cmd.verb)
def test_a_control_has_the_help_choices_and_defaults_of_the_table_of_commands(kind: type[cmd.AnyCommand]) -> None:
    place = {"label": "intervention label", "rate": "session rate"}.get(cmd.verb(kind), cmd.verb(kind))
    if place not in COMMANDS:
        assert kind in (cmd.Edit, cmd.Withdraw, cmd.OutsideEvent, cmd.Budget)  # of programs; resume --budget
        return
    assert kind.sent is not None
    known = {name: one for name, one in parameters(kind).items() if name not in cmd.Command.__struct_fields__}
    shown = {one.name: one for one in COMMANDS[place].params if one.name in known}
    assert set(known) - set(shown) <= {"lapses"}
    for name, option in shown.items():
        if name == "value":  # as text, or as JSON
            continue
        assert option.help == known[name].help.replace("`", "")
        if not option.required:
            assert option.default == known[name].default
        assert option.required == (known[name].is_required or name in kind.sent.chosen)
    waits = next(one for one in COMMANDS[place].params if one.name == "wait")
    assert waits.default == kind.sent.wait


def test_without_a_command_it_says_what_there_is(midcourse: Command) -> None:
    done = midcourse()
    assert done.code == 0
    for name in (*EVERYDAY, *SERVING, *GROUPS):
        assert f"\n  {name} " in done.out
    assert "..." not in done.out.partition("Commands:")[2]
    assert len(EVERYDAY) <= 12
    assert_is_plain(done.out)
    assert set(ROOT.commands) == {*EVERYDAY, *SERVING, *GROUPS}


def test_the_list_of_commands_fits_eighty_columns(midcourse: Command) -> None:
    for path in ("", *GROUPS):
        for line in midcourse(*path.split(), "--help", env={"COLUMNS": "80"}).out.splitlines():
            assert len(line) <= 80, line


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_spelling_is_refused_with_the_new_one(midcourse: Command, old: str, new: str) -> None:
    assert new in COMMANDS
    done = midcourse(*old.split(), "sess_waiting", "--yes")
    assert done.code == 2
    assert f"'midcourse {old}' is now: midcourse {new}\n" in done.err


@pytest.mark.parametrize(("typed", "group"), [("audit --since 7d", "audit"), ("report --since 7d", "report")])
def test_an_option_behind_a_group_is_refused_with_the_commands_there_are(
    midcourse: Command, typed: str, group: str
) -> None:
    done = midcourse(*typed.split())
    assert done.code == 2
    assert f"Options follow a command: midcourse {group} {'|'.join(ROOT.commands[group].commands)} --since" in done.err


def test_a_word_of_other_tools_is_answered_with_ours(midcourse: Command) -> None:
    assert "Did you mean 'ps'?" in midcourse("ls").err
    assert "Did you mean 'pause'?" in midcourse("stop").err
    assert "Did you mean 'backup'?" in midcourse("store", "backp").err


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_help_fits_any_terminal(midcourse: Command, columns: str) -> None:
    assert midcourse("cancel", "-h", env={"COLUMNS": columns}).code == 0


def test_the_version_is_told_without_building_the_command_tree() -> None:
    code = "import sys; from midcourse.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass\n"
    code += "print([one for one in ('typer', 'rich', 'httpx2', 'fastapi') if one in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
