"""What is wrong with an option or argument, in our words: those of what reads them are for programmers."""

from typing import Any, cast

import typer
from typer.core import TyperGroup

from midcourse.core.allowed import did_you_mean, must_be

_NO_CHOICE = " is not one of "


class Commands(TyperGroup):
    """All commands. What typer has found wrong with a value says what it must be, and what was given."""

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
