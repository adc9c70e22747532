"""The root of the command line: answers ``--version`` at once, builds the command tree only when it is used."""

import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

from midcourse._version import __version__
from midcourse.cli.process import own_process

if TYPE_CHECKING:
    import typer

UNSUPPORTED_PLATFORM = (
    "Midcourse runs on Linux and macOS; on Windows, install it inside WSL (run `wsl --install`) and start it there."
)
HELP = """Interrupt AI agents: see what runs, and pause, resume, redirect, cancel or answer it.

The sessions are in a file here (--store), even while a server or a program has it open, or on a server (--url).
Shorten a session's id as you like, as long as only one begins so. Each command has examples in its --help, and
--json for programs. To see an agent stopped and brought back: python -m midcourse.samples

\b
Examples:
  midcourse ps
  midcourse pause sess_0198f2
  midcourse answer sess_0198f2 "yes, all of them"
"""
_MODULES: Final = (
    *("start", "sessions", "events", "controls", "answer", "serve", "doctor", "artifacts", "audit", "tokens"),
    *("inbox", "interventions", "signals", "kill_switch", "policies", "backtest", "reports", "risk"),
    *("store_maintenance", "webhooks"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the ``midcourse`` command with ``arguments``, or with those of this process.

    Raises:
        SystemExit: always, with the exit status of the command.
    """
    if arguments is None:  # this process is ours
        own_process()
        arguments = sys.argv[1:]
    if sys.platform == "win32":
        print(UNSUPPORTED_PLATFORM, file=sys.stderr)
        raise SystemExit(1)
    if list(arguments) == ["--version"]:
        # Before typer is imported: scripts ask this often, and it is the first thing a new user tries.
        print(f"midcourse {__version__}")
        raise SystemExit(0)
    build()(args=list(arguments), prog_name="midcourse")


def build() -> "typer.Typer":
    """Build the command tree from what each module declares."""
    import typer

    from midcourse.cli.command import COMMANDS, Commands
    from midcourse.cli.groups import EVERYDAY, GROUPS, SERVING
    from midcourse.cli.printer import repeat_in_hints

    for name in _MODULES:
        import_module(f"midcourse.cli.{name}")
    repeat_in_hints("", "", COMMANDS)  # those of another run in this process are not typed here
    # Help is plain text, which a screen reader, a narrow terminal and a pipe can all use.
    settings: dict[str, Any] = {
        "cls": Commands,
        "rich_markup_mode": None,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    # A program's error is shown as Python shows it: no local variable, so no token, can be in it.
    app = typer.Typer(help=HELP, add_completion=False, pretty_exceptions_enable=False, **settings)

    def print_version(wanted: bool) -> None:
        if wanted:
            print(f"midcourse {__version__}")
            raise typer.Exit

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context,
        version: Annotated[
            bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    for path in (*EVERYDAY, *SERVING):
        app.command(path, short_help=COMMANDS[path].short)(COMMANDS[path].run)
    for group, (short, text) in GROUPS.items():
        own = {path: one for path, one in COMMANDS.items() if path.startswith(f"{group} ")}
        examples = "\n".join(f"  {_example_of(one.run)}" for one in own.values())
        below = typer.Typer(help=f"{text}\n\n\b\nExamples:\n{examples}", no_args_is_help=True, **settings)
        for path, declared in own.items():
            below.command(path.removeprefix(f"{group} "), short_help=declared.short)(declared.run)
        app.add_typer(below, name=group, short_help=short)
    return app


def _example_of(run: Callable[..., None]) -> str:
    """Return the first example of a command's help."""
    return re.split(r"Examples?:\n", run.__doc__ or "")[-1].lstrip().partition("\n")[0]
