"""Files of JSON, line by line; and the recordings that hold one run a line, with its rows (``steps``)."""

import gzip
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar, cast

import msgspec

from midcourse.analysis.backtest.recordings import Notice, Outcome, Recorder, Recording, backwards
from midcourse.core.terms import TaskClass
from midcourse.errors import InvalidInput, MidcourseError
from midcourse.policy.run_activity import Called

T = TypeVar("T")
Tell = Callable[[Notice], None]
INTERRUPTED: Final = "[Request interrupted"
"""The mark of Claude Code for a stop by a person."""
_CUT: Final = (EOFError, zlib.error, gzip.BadGzipFile)
_NOT_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Lines:
    """The lines of one file, unpacked, with their numbers. Unusable lines are reported, never dropped in silence.

    A document that is one value over many lines is split: a list into its items, a page of events into these.
    """

    def __init__(self, path: Path, *, tell: Tell | None = None) -> None:
        self.path = path
        self.file = str(path)
        self.name = path.name.partition(".")[0] or path.name
        self.progress = 0
        """The number of bytes read from the file."""
        self._tell = tell

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield every line that is not blank."""
        items = self._items()
        if items is not None:
            yield from items
            return
        number = 0
        try:
            with self._opened() as (stream, raw):
                for number, line in enumerate(stream, start=1):
                    if not line.isspace():
                        self.progress = raw.tell()
                        yield number, line
        except _CUT as error:
            self.tell(f"The file is cut off or damaged here ({error}). What comes before is used.", number + 1, 1)

    def head(self, tell: Tell, most: int = 20) -> Iterator[Any]:
        """Yield the values in the first lines, as far as they are JSON: enough to detect the format."""
        for seen, (_, line) in enumerate(Lines(self.path, tell=tell), start=1):
            with suppress(*_NOT_JSON):
                yield msgspec.json.decode(line)
            if seen >= most:
                break

    @contextmanager
    def _opened(self) -> Generator[tuple[IO[bytes], IO[bytes]]]:
        with self.path.open("rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not is_packed:
                yield raw, raw
                return
            with gzip.open(raw) as stream:
                yield cast("IO[bytes]", stream), raw

    def _items(self) -> list[tuple[int, bytes]] | None:
        """Return the values of a file that does not hold lines, with their offsets; None if it does."""
        first = self._first()
        with suppress(*_NOT_JSON):
            if not isinstance(value := msgspec.json.decode(first), list) and not _is_page(value):
                return None
        content = b""
        try:
            with self._opened() as (stream, _):
                content = stream.read()
            document: Any = msgspec.json.decode(content)
        except (*_CUT, *_NOT_JSON) as error:
            if first not in (b"{", b"["):
                return None
            stacked = _stacked(content)
            if not stacked:
                self.tell(f"This JSON value cannot be read to its end ({error}). Nothing of it is used.", 1, 1)
            return stacked
        if _is_page(document):
            document = document["events"]
        items = cast("list[Any]", document) if isinstance(document, list) else [document]
        return list(enumerate(map(msgspec.json.encode, items), start=1))

    def _first(self) -> bytes:
        with suppress(*_CUT), self._opened() as (stream, _):
            for line in stream:
                if not line.isspace():
                    return line.strip()
        return b"null"

    def tell(self, sentence: str, line: int | None = None, left_out: int = 0) -> None:
        """Report to the reader.

        Raises:
            InvalidInput: something is left out, and there is no listener.
        """
        self.add(Notice(file=self.file, line=line, sentence=sentence, left_out=left_out))

    def add(self, notice: Notice | None) -> None:
        if notice is None:
            return
        if self._tell is not None:
            self._tell(notice)
        elif notice.left_out:
            raise InvalidInput(str(notice), code="unreadable_recording", file=self.file, line=notice.line)

    def decoded(self, decode: Callable[[bytes], T], wanted: str) -> Iterator[tuple[int, T]]:
        """Yield what each line holds, with its number. A line that is not ``wanted`` is reported and left out."""
        for number, line in self:
            try:
                value = decode(line)
            except (*_NOT_JSON, MidcourseError) as error:
                is_json = isinstance(error, msgspec.ValidationError | MidcourseError)
                what = f"not {wanted}" if is_json else "not JSON"
                self.tell(f"This line is {what} ({error}). It is left out.", number, 1)
            else:
                yield number, value


def _is_page(value: Any) -> bool:
    return isinstance(value, dict) and "events" in value and value.keys() <= {"events", "next"}


def _stacked(content: bytes) -> list[tuple[int, bytes]]:
    """Values over many lines each, one after the other: how OpenTelemetry prints spans to a terminal."""
    found: list[tuple[int, bytes]] = []
    line = 1
    for part in content.split(b"\n}"):
        if not part.isspace() and part:
            begins = len(part) - len(part.lstrip())
            found.append((line + part[:begins].count(b"\n"), part.strip() + b"\n}"))
        line += part.count(b"\n") + 1
    try:
        msgspec.json.decode(found[0][1])
    except (IndexError, *_NOT_JSON):
        return []
    return found


class Kind(msgspec.Struct, gc=False):
    """The kind of a line, in the formats that name it."""

    type: str = ""


# ---- one run a line


class Row(msgspec.Struct, gc=False):
    kind: str
    name: str = ""
    text: str = ""
    args: str = ""
    error: bool = False
    resources: tuple[str, ...] = ()
    t_offset_s: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None


class RunLine(msgspec.Struct, gc=False):
    steps: list[Row]
    source: str = ""
    run_id: str = ""
    task_key: str = ""
    goal: str = ""
    outcome: Outcome = "unknown"
    decisive_error_step: int | None = None
    task_class: TaskClass | None = None


_decoder = msgspec.json.Decoder(RunLine)


def is_run(line: dict[str, Any]) -> bool:
    return isinstance(line.get("steps"), list)


def read(lines: Lines) -> Iterator[Recording]:
    """Yield every run of a file. Other lines are reported and left out."""
    for number, run in lines.decoded(_decoder.decode, "a run"):
        recorder = recorded(run)
        if isinstance(recorder, str):
            lines.tell(
                f"A row is of kind '{recorder}': there are model, tool and user. The run is left out.", number, 1
            )
            continue
        run_id = run.run_id or f"{lines.name}#{number}"
        if not recorder.count:
            lines.tell(f"Run '{run_id}' has no rows. It is left out.", number, 1)
            continue
        lines.add(backwards(recorder, lines.file, run_id, number))
        yield recorder.done(
            source=run.source or lines.name,
            run_id=run_id,
            task_key=run.task_key,
            outcome=run.outcome,
            decisive_step=run.decisive_error_step,
            task_class=run.task_class,
        )


def recorded(run: RunLine) -> Recorder | str:
    """Return a run's rows as acts, or the kind of an unknown row."""
    recorder = Recorder(run.goal)
    recorder.begin(next((row.t_offset_s for row in run.steps if row.t_offset_s is not None), None))
    for row in run.steps:
        kind = row.kind
        if kind == "model" or kind == "tool":  # noqa: PLR1714 - a type checker follows this one
            recorder.told(
                Called(
                    kind=kind,
                    name=row.name,
                    arguments=row.args,
                    error="error" if row.error else "",
                    text=row.text,
                    resources=row.resources,
                    tokens_in=row.tokens_in,
                    tokens_out=row.tokens_out,
                    cost=row.cost_usd,
                    at=row.t_offset_s,
                )
            )
        elif kind == "user":
            # Without a clock there is no waiting to be cut out, and the conversation is one turn.
            is_turn = row.t_offset_s is not None and not row.text.startswith(INTERRUPTED)
            recorder.said(row.text, row.t_offset_s, by=row.name, new_turn=is_turn)
        else:
            return kind
    return recorder
