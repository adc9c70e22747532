"""What is wrong with an option or argument, in our words: those of what reads them are for programmers."""

from typing import Any, cast

import typer
from typer.core import TyperGroup

from midcourse.core.allowed import did_you_mean, must_be

_NO_CHOICE = " is not one of "
_OTHERWISE = {"run": "start", "list": "ps", "ls": "ps", "log": "events", "logs": "events", "stop": "pause"}
"""What others call a command of ours."""


class Commands(TyperGroup):
    """All commands. What typer has found wrong with a value says what it must be, and what was given."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was named. Of one that there is not typer says what is spelled nearly so."""
        if args and args[0] in _OTHERWISE and args[0] not in self.commands:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{_OTHERWISE[args[0]]}'?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Carry out the command that was named; its options are read here."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _in_words(error)
            raise


def _in_words(error: typer.BadParameter) -> str:
    cause: Any = error.__cause__
    if not callable(getattr(cause, "errors", None)):  # one of ours, or of a typer that speaks for itself
        return error.message
    finding = cast("list[dict[str, Any]]", cause.errors())[0]
    words = str(finding.get("msg", "")).removeprefix("Value error, ")
    given, sign, choices = words.partition(_NO_CHOICE)
    if sign:
        return f"{words.rstrip('.')}.{did_you_mean(given.strip(chr(39)), choices.split(chr(39))[1::2])}"
    return f"it {must_be(finding, {})}"
