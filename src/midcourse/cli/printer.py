"""Print the output of commands: tables and sentences for people, JSON for programs, and errors as sentences."""

import asyncio
import io
import os
import re
import sys
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TextIO, cast
from unicodedata import category

import msgspec
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from midcourse.core.to_json import to_json
from midcourse.errors import MidcourseError

_encoder = msgspec.json.Encoder(enc_hook=str)
_PIPE_WIDTH = 200
"""Columns where there is no terminal: nothing needs to be cut for a file or a filter."""
_GAP: Final = 2
"""Columns between two of a table."""
_LONGEST_WORD: Final = 30
"""Signs of the longest word that is kept whole: what is longer is a path, or JSON."""
_COMMAND: Final = re.compile(r"(?<=[:?.] )midcourse [^,;]+$")
"""The command at the end of a sentence, for people to copy: it stays on one line."""
_CLINGS: Final = ("Pe", "Pf", "Po")
"""Categories of the signs that do not begin a line: what closes, and what ends."""
INTERRUPTED: Final = 130
"""The exit status of a command that Ctrl-C ended, as shells have it."""


def run_command(work: Coroutine[Any, Any, None], *, as_json: bool, interrupted: int = INTERRUPTED) -> None:
    """Run a command. What it cannot do is said in a sentence on stderr, and exits with 1."""
    try:
        asyncio.run(work)
    except MidcourseError as error:
        print_error(error, as_json=as_json)
        raise typer.Exit(1) from None
    except BrokenPipeError:
        # The reader has read enough. Python would complain again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(interrupted) from None


class _Repeated(NamedTuple):
    """The option that hints repeat, and which commands have it."""

    name: str
    value: str
    commands: Mapping[str, Any]


_repeated: list[_Repeated] = []
_HINT: Final = re.compile(r"(?<![\w-])midcourse ([a-z][a-z-]*)( [a-z][a-z-]*)?(?=[ .,;:)']|$)(?! --(?:store|url))")
"""A command in a hint, which is to be typed as it stands."""


def repeat_in_hints(name: str, value: str, commands: Mapping[str, Any]) -> None:
    """Have each command in a hint that has this option carry it (``--store …``), as the command that was typed does."""
    _repeated[:] = [_Repeated(name, value, commands)] if name else []


def _with_options(text: str) -> str:
    if not _repeated or "midcourse " not in text:
        return text
    option = _repeated[0]

    def repeated(found: "re.Match[str]") -> str:
        verb, below = found[1], found[2] or ""
        path = f"{verb}{below}" if f"{verb}{below}" in option.commands else verb
        if path not in option.commands or option.name not in option.commands[path].options:
            return found[0]
        return f"midcourse {path} --{option.name} {option.value}{found[0].removeprefix(f'midcourse {path}')}"

    return _HINT.sub(repeated, text)


_NO_TOKEN: Final = (
    "The server needs a token. Give --token, set MIDCOURSE_TOKEN, or run this beside its .midcourse folder."
)
_BAD_TOKEN: Final = (
    "The server does not accept this token: it is unknown, revoked or expired. Give another one with --token or "
    "MIDCOURSE_TOKEN. To make one, where the server runs: midcourse token add NAME"
)


def print_error(error: MidcourseError, *, as_json: bool) -> None:
    """Say on stderr what went wrong: the sentence, or with --json its code and facts as well."""
    if error.code == "unauthorized":  # the server speaks to programs; here is a person
        words = _BAD_TOKEN if error.message.startswith("This token") else _NO_TOKEN
        error = MidcourseError(words, code=error.code)
    if as_json:
        told = {"code": error.code, "detail": str(error), **to_json(error.fields)}
        print(_encoder.encode(told).decode(), file=sys.stderr)
    else:
        tell(str(error))


def tell(*lines: str) -> None:
    """Print lines for people beside what a command answers: on stderr, where they are in no program's way."""
    for line in lines:
        for part in _broken(plain(_with_options(line)), _room(sys.stderr)):
            print(part, file=sys.stderr, flush=True)


def print_json(value: object) -> None:
    """Print one JSON value on one line, in any encoding of the terminal."""
    sys.stdout.buffer.write(_encoder.encode(to_json(value)) + b"\n")
    sys.stdout.flush()


def plain(text: str, *, lines: bool = True) -> str:
    """Return text that is safe on a terminal: no escape sequence moves the cursor or hides what follows."""
    kept = "\n\t" if lines else ""
    return "".join(sign if sign.isprintable() or sign in kept else _shown(sign) for sign in text)


def _shown(sign: str) -> str:
    if sign in "\n\r\t":
        return " "
    return "�" if len(ascii(sign)) > len("'\\uffff'") else ascii(sign)[1:-1]


def console() -> Console:
    """Return the console for people. A pipe gets whole lines."""
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding has no sign for is read as a ?
        cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="replace")
    return Console(highlight=False, markup=False, emoji=False, width=wide)


def _room(stream: TextIO) -> int | None:
    """Return the columns of a stream's terminal; None: it is a pipe, which gets whole lines."""
    return console().width if stream.isatty() or "COLUMNS" in os.environ else None


def shortened(line: str, room: int | None = None) -> str:
    """Return a line, cut to ``room`` columns, or to the width of the terminal. A pipe gets all of it."""
    width = _room(sys.stdout)
    if width is None:
        return line
    told = Text(line, no_wrap=True)
    told.truncate(width if room is None else room, overflow="ellipsis")
    return told.plain


def print_lines(*lines: str, hang: int = 0) -> None:
    """Print lines for people, broken between words where the terminal ends. A pipe gets whole lines.

    A continued line is indented as its first line is, that of a text's first line ``hang`` columns further.
    """
    for line in lines:
        for part in _broken(plain(_with_options(line)), _room(sys.stdout), hang):
            _print(part)


def print_wrapped(*sentences: str, indent: int = 0) -> None:
    """Print sentences, all of them indented by ``indent`` columns. Empty ones are left out."""
    print_lines(*(f"{' ' * indent}{one}" for one in sentences if one))


def print_verbatim(*lines: str) -> None:
    """Lines that are a file, or an address: as wide as they are, to be copied."""
    for line in lines:
        _print(plain(line))


def _broken(text: str, room: int | None, hanging: int = 0) -> Iterator[str]:
    """Break a text into lines that are no wider than ``room``, unless a word or a command is."""
    first, *rest = text.split("\n")
    for line, hang in ((first, hanging), *((one, 0) for one in rest)):
        if room is None or cell_len(line) <= room:
            yield line
            continue
        command = _COMMAND.search(line)
        if command is None:
            yield from _wrapped(line.expandtabs(), room, hang)
            continue
        *before, last = _wrapped(line[: command.start()].rstrip(), room, hang)
        yield from before
        if cell_len(last) + 1 + cell_len(command[0]) <= room:
            yield f"{last} {command[0]}"
            continue
        inside = f"{' ' * (_begins(line) + hang)}{command[0]}"
        yield from (last, inside if cell_len(inside) <= room else command[0])


def _begins(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _wrapped(line: str, room: int, hang: int) -> Iterator[str]:
    indent = " " * (_begins(line) + hang)
    done, gap = line[: _begins(line)], ""
    for word in _words(line.lstrip(" ")):
        if word.isspace():
            gap = word
            continue
        # One that fits nowhere stays where it is: the terminal breaks it.
        fits = cell_len(done) + len(gap) + cell_len(word) <= room
        if fits or not done.strip() or cell_len(indent) + cell_len(word) > room:
            done += f"{gap}{word}"
        else:
            yield done
            done = f"{indent}{word}"
        gap = ""
    yield done


def _words(line: str) -> Iterator[str]:
    """Words and the spaces between them. Each wide sign is one of its own, as in writing that has no spaces."""
    for part in re.findall(r"\s+|\S+", line):
        if part.isascii():
            yield part
            continue
        word, was_wide = "", False
        for sign in part:
            wide = cell_len(sign) > 1
            if word and cell_len(sign) and category(sign) not in _CLINGS and (wide or was_wide):
                yield word
                word = ""
            word += sign
            was_wide = wide or (was_wide and not cell_len(sign))
        yield word


def _print(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def show_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    whole: Sequence[str] = (),
    numbers: Sequence[str] = (),
    title: str = "",
) -> None:
    """Print a table without lines. The columns in ``whole`` stay on one line, those in ``numbers`` are right-aligned.

    No word is broken and nothing is cut: where there is no room for that, each row becomes a few lines of its own.
    """
    cells = [[cell if isinstance(cell, Text) else Text(plain(cell, lines=False)) for cell in row] for row in rows]
    out = console()
    if title:
        out.print(Text(title, style="bold"))
    widths = _widths(header, cells, whole, out.width)
    if widths is None:
        _show_stacked(out, header, cells)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name, width in zip(header, widths, strict=True):
        justify = "right" if name and name in numbers else "left"
        table.add_column(name, width=width, no_wrap=name in whole, overflow="fold", justify=justify)
    for row in cells:
        table.add_row(*row)
    out.print(table)


def width_beside(header: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> int:
    """Return the width of a column that comes after these, each of which stays on one line."""
    wide = [0] * len(header)
    for row in (header, *rows):
        wide = [max(before, cell_len(str(cell)) + _GAP) for before, cell in zip(wide, row, strict=True)]
    return console().width - sum(wide)


def _widths(header: Sequence[str], rows: Sequence[Sequence[Text]], whole: Sequence[str], room: int) -> list[int] | None:
    """Return the width of each column, so that all fit into ``room`` and no word is broken; None if impossible."""
    columns = [[Text(name), *(row[place] for row in rows)] for place, name in enumerate(header)]
    full = [max(cell.cell_len for cell in column) for column in columns]
    least = [
        wide if name in whole else max(_longest_word(cell) for cell in column)
        for name, wide, column in zip(header, full, columns, strict=True)
    ]
    spare = room - sum(least) - _GAP * (len(header) - 1)
    if spare < 0:
        return None
    widths = list(least)
    # Who needs little gets all of it; the rest is shared.
    for done, place in enumerate(sorted(range(len(header)), key=lambda one: full[one] - least[one])):
        given = min(full[place] - least[place], spare // (len(header) - done))
        widths[place] += given
        spare -= given
    return widths


def _longest_word(text: Text) -> int:
    return min(_LONGEST_WORD, max((cell_len(word) for word in text.plain.split()), default=0))


def _show_stacked(out: Console, header: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """Print each row as lines: a name and its value. Empty ones are left out."""
    wide = max(map(cell_len, header))
    for number, row in enumerate(rows):
        if number:
            out.print()
        table = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
        table.add_column(style="bold", width=wide, no_wrap=True)
        table.add_column(overflow="fold")
        for name, cell in zip(header, row, strict=True):
            if cell.plain:
                table.add_row(name, cell)
        out.print(table)
