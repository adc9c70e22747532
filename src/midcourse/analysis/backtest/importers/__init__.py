"""Recorded runs from files, whatever wrote them: each file's format is seen from its first lines."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from midcourse.analysis.backtest.importers import claude_code, journal, jsonl, otel
from midcourse.analysis.backtest.importers.journal import recording_of
from midcourse.analysis.backtest.importers.jsonl import Lines, Tell
from midcourse.analysis.backtest.recordings import Notice, Recording
from midcourse.errors import InvalidInput

__all__ = ["Progress", "read_recordings", "recording_of"]

Progress = Callable[[float, int], None]
"""Told which share of the bytes has been read, and how many runs that were."""
SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".json", ".json.gz")
"""The files that are read from a folder."""


class Format(NamedTuple):
    """A file format: how a line of it is recognised, and its reader."""

    name: str
    is_one: Callable[[dict[str, Any]], bool]
    read: Callable[[Lines], Iterator[Recording]]


FORMATS: Final[tuple[Format, ...]] = (
    Format("runs, one a line with its steps", jsonl.is_run, jsonl.read),
    Format("a journal of Midcourse", journal.is_event, journal.read),
    Format("an OpenTelemetry trace", otel.is_trace, otel.read),
    Format("a Claude Code transcript", claude_code.is_line, claude_code.read),
)


def read_recordings(
    paths: Iterable[str | Path], *, progress: Progress | None = None, tell: Tell | None = None
) -> Iterator[Recording]:
    """Read every run in these files, and in the files of these folders, one after the other.

    Unusable input (a line that is no JSON, a file that was cut off) is reported to ``tell``, and reading continues.

    Raises:
        InvalidInput: there is no such file; or something cannot be used and there is no ``tell``.
    """
    files = list(_files(paths))
    sizes: Mapping[Path, int] = {path: path.stat().st_size for path in files}
    total = sum(sizes.values()) or 1
    before = runs = 0
    for path in files:
        lines = Lines(path, tell=tell)
        for recording in _recordings(lines):
            runs += 1
            yield recording
            if progress is not None:
                progress((before + lines.progress) / total, runs)
        before += sizes[path]
        if progress is not None:
            progress(before / total, runs)


def _files(paths: Iterable[str | Path]) -> Iterator[Path]:
    for given in paths:
        path = Path(given)
        if path.is_dir():
            found = sorted(one for one in path.rglob("*") if one.name.endswith(SUFFIXES) and one.is_file())
            if not found:
                raise InvalidInput(
                    f"There is no recording in the folder {path}: no file there ends with {', '.join(SUFFIXES)}.",
                    code="no_recordings",
                    file=str(path),
                )
            yield from found
        elif path.exists():
            yield path
        else:
            raise InvalidInput(
                f"There is no file {path}. Name files of recorded runs (.jsonl, .jsonl.gz, .json), or their folder.",
                code="no_such_file",
                file=str(path),
            )


def _recordings(lines: Lines) -> Iterator[Recording]:
    try:
        is_json = False
        notices: list[Notice] = []
        for value in lines.head(notices.append):
            is_json = True
            for one in FORMATS if isinstance(value, dict) else ():
                if one.is_one(cast("dict[str, Any]", value)):
                    yield from one.read(lines)
                    return
        lines.add(notices[0] if notices and not is_json else _unknown(lines, is_json=is_json))
    except OSError as error:
        lines.tell(f"The file cannot be read ({error.strerror or error}). It is left out.", None, 1)


def _unknown(lines: Lines, *, is_json: bool) -> Notice:
    known = "; ".join(one.name for one in FORMATS)
    if is_json:
        sentence = f"This is JSON in a format that is not known here. Known are: {known}. The file is left out."
    elif lines.path.stat().st_size == 0:
        sentence = "The file is empty. It is left out."
    else:
        sentence = f"There is no JSON in its first lines. Known are: {known}. The file is left out."
    return Notice(file=lines.file, line=1 if is_json else None, sentence=sentence, left_out=1)
