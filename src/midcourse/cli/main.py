"""The root of the command line: answers ``--version`` at once, builds the command tree only when it is used."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from midcourse._version import __version__

if TYPE_CHECKING:
    import typer

UNSUPPORTED_PLATFORM = (
    "Midcourse runs on Linux and macOS; on Windows, install it inside WSL (run `wsl --install`) and start it there."
)

HELP = """The interrupt handle for AI agents: see what runs, and pause, redirect, cancel or answer it.

Sessions are those of a file here (--store), also while a server or a program has it open, or of a server (--url). A
session's id may be shortened, as long as it is the only one that begins so. Every command has --json for programs,
and examples in its --help. To see an agent being stopped and brought back: python -m midcourse.samples

\b
Examples:
  midcourse ps
  midcourse pause sess_0198f2
  midcourse answer sess_0198f2 "yes, all of them"
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the ``midcourse`` command with ``arguments``, or with those of this process.

    Raises:
        SystemExit: always, with the exit status of the command.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if sys.platform == "win32":
        print(UNSUPPORTED_PLATFORM, file=sys.stderr)
        raise SystemExit(1)
    if list(arguments) == ["--version"]:
        # Before typer is imported: scripts ask this often, and it is the first thing a new user tries.
        print(f"midcourse {__version__}")
        raise SystemExit(0)
    build()(args=list(arguments), prog_name="midcourse")


def build() -> "typer.Typer":
    """Build the command tree; each noun adds its own file here."""
    import typer

    from midcourse.cli import (
        answering,
        artifacts,
        audit,
        backtest,
        controls,
        doctor,
        events,
        inbox,
        interventions,
        kill_switch,
        policies,
        reports,
        risk,
        serve,
        sessions,
        signals,
        starting,
        tokens,
        upkeep,
        webhooks,
    )
    from midcourse.cli.options import Commands
    from midcourse.cli.printing import repeat_in_hints

    repeat_in_hints("")  # those of another run in this process are not typed here
    app = typer.Typer(
        cls=Commands,
        help=HELP,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        # Help is plain text, which a screen reader, a narrow terminal and a pipe can all use.
        rich_markup_mode=None,
        # A program's error is shown as Python shows it: no local variable, so no token, can be in it.
        pretty_exceptions_enable=False,
    )

    def print_version(wanted: bool) -> None:
        if wanted:
            print(f"midcourse {__version__}")
            raise typer.Exit

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context,
        version: Annotated[
            bool,
            typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and leave."),
        ] = False,
    ) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    nouns = (
        serve,
        starting,
        sessions,
        events,
        controls,
        answering,
        inbox,
        interventions,
        signals,
        kill_switch,
        artifacts,
        backtest,
        policies,
        risk,
        reports,
        audit,
        tokens,
        webhooks,
        upkeep,
        doctor,
    )
    for noun in nouns:
        noun.add_to(app)
    return app
