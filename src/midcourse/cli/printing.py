"""What a command prints: tables and sentences for people, JSON for programs, and errors as sentences."""

import asyncio
import io
import os
import sys
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, cast

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from midcourse.core.spelling import spelled
from midcourse.errors import MidcourseError

_encoder = msgspec.json.Encoder(enc_hook=str)
_PIPE_WIDTH = 200
"""Columns where there is no terminal: nothing needs to be cut for a file or a filter."""
INTERRUPTED: Final = 130
"""The exit status of a command that Ctrl-C ended, as shells have it."""


def carry_out(work: Coroutine[Any, Any, None], *, as_json: bool, interrupted: int = INTERRUPTED) -> None:
    """Run a command. What it cannot do is said in a sentence on stderr, and exits with 1."""
    try:
        asyncio.run(work)
    except MidcourseError as error:
        complain(error, as_json=as_json)
        raise typer.Exit(1) from None
    except BrokenPipeError:
        # Whoever read has read enough. Python would complain again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(interrupted) from None


def complain(error: MidcourseError, *, as_json: bool) -> None:
    """Say on stderr what went wrong: the sentence, or with --json its code and facts as well."""
    if error.code == "unauthorized":  # the server speaks to programs; here is a person
        error = MidcourseError(
            "The server does not know you. Give --token, set MIDCOURSE_TOKEN, or run it beside its .midcourse folder.",
            code=error.code,
        )
    if as_json:
        told = {"code": error.code, "detail": str(error), **spelled(error.fields)}
        print(_encoder.encode(told).decode(), file=sys.stderr)
    else:
        print(plain(str(error)), file=sys.stderr)


def print_json(value: object) -> None:
    """One JSON value on one line, whatever the terminal's encoding."""
    sys.stdout.buffer.write(_encoder.encode(spelled(value)) + b"\n")
    sys.stdout.flush()


def plain(text: str, *, lines: bool = True) -> str:
    """Somebody else's text as a terminal may show it: no escape sequence moves the cursor or hides what follows."""
    kept = "\n\t" if lines else ""
    return "".join(sign if sign.isprintable() or sign in kept else _shown(sign) for sign in text)


def _shown(sign: str) -> str:
    if sign in "\n\r\t":
        return " "
    return "�" if len(ascii(sign)) > len("'\\uffff'") else ascii(sign)[1:-1]


def console() -> Console:
    """Where people read. A pipe gets whole lines."""
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding has no sign for is read as a ?
        cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="replace")
    return Console(highlight=False, markup=False, emoji=False, width=wide)


def shortened(line: str, room: int | None = None) -> str:
    """A line, cut to ``room`` columns, or to the width of the terminal. A pipe gets all of it."""
    if not (sys.stdout.isatty() or "COLUMNS" in os.environ):
        return line
    told = Text(line, no_wrap=True)
    told.truncate(console().width if room is None else room, overflow="ellipsis")
    return told.plain


def say(*lines: str) -> None:
    """Lines for people, as wide as they are: a terminal breaks them itself."""
    for line in lines:
        _print(plain(line))


def _print(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def show_table(header: Sequence[str], rows: Iterable[Sequence[str | Text]], *, whole: Sequence[str] = ()) -> None:
    """A table without lines. The columns in ``whole`` are never cut."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in header:
        table.add_column(name, no_wrap=name in whole, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell, lines=False)) for cell in row))
    console().print(table)
