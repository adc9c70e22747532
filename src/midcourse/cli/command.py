"""Declare a command: its place, the options that each has, and the handling of its errors."""

import os
import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Final, NamedTuple, cast

import typer
from typer.core import TyperGroup

from midcourse.cli.groups import EVERYDAY, MOVED, SERVING, SIMILAR
from midcourse.cli.printer import INTERRUPTED, repeat_in_hints, run_command
from midcourse.cli.target import STORE_VARIABLE, StoreOption, Target, TokenOption, UrlOption
from midcourse.core.choices import did_you_mean, must_be

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
ANYWHERE: Final[Mapping[str, Any]] = {"store": StoreOption, "url": UrlOption, "token": TokenOption}
STORE: Final[Mapping[str, Any]] = {"store": StoreOption}
NOWHERE: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True)
class Call(Target):
    """One call of a command: where its sessions are, and whether a program reads what it prints."""

    as_json: bool = False


class Declared(NamedTuple):
    """A command: its line in a list, what it runs, and the options that a hint repeats for it."""

    short: str
    run: Callable[..., None]
    options: frozenset[str]


COMMANDS: Final[dict[str, Declared]] = {}
"""Every command by what is typed: ``ps``, ``store backup``. A module adds its own when it is imported."""


def command(
    path: str, short: str, *, where: Mapping[str, Any] = ANYWHERE, has_json: bool = True, until_interrupted: str = ""
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Declare a command. Its parameter ``call`` is replaced by ``--store``, ``--url``, ``--token`` and ``--json``.

    ``until_interrupted`` names the option with which Ctrl-C is how the command is meant to end.
    """
    options = {**where, "as_json": JsonOption} if has_json else where

    def declare(act: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        own = signature(act)
        kept = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in own.parameters.values() if one.name != "call"]
        added = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=False if name == "as_json" else None, annotation=kind)
            for name, kind in options.items()
        ]

        @wraps(act)
        def run(**given: Any) -> None:
            chosen = {name: given.pop(name) for name in options}
            if chosen.get("url") is not None and chosen["store"] == os.environ.get(STORE_VARIABLE):
                chosen["store"] = None  # a server that was named wins over a file that lies around
            call = Call(**chosen)
            if given.get("output") == "json":
                call = replace(call, as_json=True)
            repeat_in_hints(*_named(call), COMMANDS)
            interrupted = 0 if given.get(until_interrupted) else INTERRUPTED
            run_command(act(call=call, **given), as_json=call.as_json, interrupted=interrupted)

        run.__signature__ = own.replace(parameters=[*kept, *added])  # pyright: ignore[reportAttributeAccessIssue] - the options are read from it
        return add(path, short, run, where)

    return declare


def add(path: str, short: str, run: Callable[..., None], where: Mapping[str, Any]) -> Callable[..., None]:
    """Add a command that reads its options itself."""
    COMMANDS[path] = Declared(short, run, frozenset(where))
    return run


def _named(target: Target) -> tuple[str, str]:
    """Return the option that the next command needs as well, as it was typed: its name and its value."""
    if target.url is not None:
        return "url", shlex.quote(target.url)
    is_typed = target.store is not None and target.store != os.environ.get(STORE_VARIABLE)
    return ("store", shlex.quote(target.store or "")) if is_typed else ("", "")


class Commands(TyperGroup):
    """A group of commands. It names the new place of a command that moved, and explains errors."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options of the group, which has none but --help and --version."""
        known = [option for one in self.get_params(ctx) for option in one.opts]
        if args and args[0].startswith("-") and args[0] not in known:
            typed = " ".join(["midcourse", *ctx.command_path.split()[1:]])
            ctx.fail(f"Options follow a command: {typed} {'|'.join(self._names())} {args[0]}")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that was named. A near miss is answered with the one that is meant."""
        if args and args[0] not in self.commands:
            path = [*ctx.command_path.split()[1:], *args]
            for length in (2, 1):
                if (now := MOVED.get(" ".join(path[:length]))) is not None:
                    ctx.fail(f"'midcourse {' '.join(path[:length])}' is now: midcourse {now}")
            if ctx.parent is None and args[0] in SIMILAR:
                ctx.fail(f"No such command '{args[0]}'. Did you mean '{SIMILAR[args[0]]}'?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named; its options are read here."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _in_words(error)
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands: at the top the everyday ones first, then those of the server, then the groups."""
        if ctx.parent is not None:
            super().format_commands(ctx, formatter)
            return
        rest = [name for name in self._names() if name not in (*EVERYDAY, *SERVING)]
        for title, names in (("Commands", EVERYDAY), ("Server and machine", SERVING), ("Groups of commands", rest)):
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(200)) for name in names])

    def _names(self) -> Sequence[str]:
        return [name for name, one in self.commands.items() if not one.hidden]


def _in_words(error: typer.BadParameter) -> str:
    cause: Any = error.__cause__
    if not callable(getattr(cause, "errors", None)):  # one of ours, or of a typer that speaks for itself
        return error.message
    finding = cast("list[dict[str, Any]]", cause.errors())[0]
    words = str(finding.get("msg", "")).removeprefix("Value error, ")
    given, sign, choices = words.partition(" is not one of ")
    if sign:
        return f"{words.rstrip('.')}.{did_you_mean(given.strip(chr(39)), choices.split(chr(39))[1::2])}"
    return f"it {must_be(finding, {})}"
