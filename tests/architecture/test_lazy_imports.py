"""Lazy imports: counted in modules, which no busy machine changes."""

import subprocess
import sys

import midcourse

PRINTS = "; import sys; print(*sys.modules)"


def loaded(program: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after ``program``."""
    done = subprocess.run([sys.executable, "-c", program + PRINTS], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def run_command(words: str) -> str:
    """The program that runs a command of the terminal, and continues."""
    return f"""
import contextlib
from midcourse.cli import main
with contextlib.suppress(SystemExit):
    main({words.split()!r})
pass"""


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "midcourse"}


def test_the_package_imports_nothing_before_one_of_its_names_is_used() -> None:
    modules = loaded("import midcourse; midcourse.__version__")
    assert ours(modules) == {"midcourse", "midcourse._version"}
    assert not modules & {"asyncio", "msgspec", "sqlite3", "ssl"}


def test_the_version_is_told_without_the_command_tree() -> None:
    modules = loaded(run_command("--version"))
    assert ours(modules) == {
        "midcourse",
        "midcourse._version",
        "midcourse.cli",
        "midcourse.cli.main",
        "midcourse.cli.process",
    }
    assert not modules & {"asyncio", "msgspec", "typer", "rich"}


def test_a_list_of_sessions_imports_no_server_and_no_framework() -> None:
    modules = loaded(run_command("ps --store memory://"))
    assert "midcourse.cli.sessions" in modules
    assert not modules & {"starlette", "uvicorn", "pydantic_ai", "langgraph", "agents", "yaml", "redis", "numpy"}
    assert not {name for name in ours(modules) if name.startswith(("midcourse.server", "midcourse.adapters"))}


def test_every_public_name_is_there_once_it_is_used() -> None:
    for name in midcourse.__all__:
        assert getattr(midcourse, name) is not None, name
    assert set(midcourse.__all__) <= set(dir(midcourse))
    assert not hasattr(midcourse, "no_such_name")
    loaded("from midcourse import *; assert Run and tool")
