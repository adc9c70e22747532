"""How a question is asked: repeats, percentiles, the floor in the same run, one table, one results file."""

import asyncio
import json
import os
import platform
import shutil
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import midcourse

RESULTS: Final = Path(__file__).with_name("results.json")
PLACE: Final = Path(__file__).parent.parent / "build"
"""Where stores are made: the disk the project is on, since the system's folder for such things may be memory."""


def versions() -> dict[str, str]:
    """What was measured, and on what."""
    return {
        "midcourse": midcourse.__version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cores": str(os.cpu_count()),
        "system": platform.system(),
    }


@dataclass(frozen=True)
class Result:
    """One line of the table: our figure, the floor's, and the peers' where they were measured in this run.

    Where ``ours`` is a 99th percentile, ``floor`` is one too, and ``median`` stands beside it.
    """

    question: str
    case: str
    ours: float
    unit: str
    repeats: int
    median: float | None = None
    floor: float | None = None
    floor_is: str = ""
    must: float | None = None
    aim: float | None = None
    peers: dict[str, float] | None = None
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def verdict(self) -> str:
        """Against the numbers of the design."""
        if self.aim is not None and self.ours <= self.aim:
            return "aim"
        if self.must is None:
            return "" if self.aim is None else "not the aim"
        return "must" if self.ours <= self.must else "MISSED"


# ---- measuring


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def p99(values: Sequence[float]) -> float:
    """The 99th percentile."""
    return percentile(values, 0.99)


def mean(values: Sequence[float]) -> float:
    """The average one."""
    return statistics.fmean(values)


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def fresh_folder() -> Path:
    """A new folder on a disk; ``BENCH_DIR`` names another place for it."""
    place = Path(os.environ.get("BENCH_DIR", PLACE))
    place.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="bench-", dir=place))


@contextmanager
def folder() -> Generator[Path]:
    """The same, for as long as the block lasts."""
    path = fresh_folder()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def store_in(path: Path) -> str:
    """The URL of the store in a folder."""
    return f"sqlite:///{path}/runs.db"


def ask(*questions: Callable[[], Coroutine[Any, Any, list[Result]]]) -> list[Result]:
    """Ask each question on a loop of its own."""
    return [result for question in questions for result in asyncio.run(question())]


# ---- telling

HEADINGS: Final = ("question", "case", "median", "ours", "floor", "× floor", "peers", "must", "aim", "reached")


def cells(one: Result) -> tuple[str, ...]:
    """A result as one row of the table."""
    return (
        one.question,
        one.case,
        _figure(one.median, one.unit),
        _figure(one.ours, one.unit),
        _figure(one.floor, one.unit),
        f"{one.ours / one.floor:.1f}" if one.floor else "",
        ", ".join(f"{name} {_figure(value, one.unit)}" for name, value in (one.peers or {}).items()),
        _figure(one.must, one.unit),
        _figure(one.aim, one.unit),
        one.verdict,
    )


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{digits} {unit}"


def table(results: Sequence[Result]) -> str:
    """The table, for a terminal."""
    rows = [HEADINGS, *map(cells, results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


# ---- keeping


def saved() -> list[Result]:
    """What the results file holds."""
    return [Result(**line) for line in json.loads(RESULTS.read_text())] if RESULTS.exists() else []


def save(results: Sequence[Result], order: Sequence[str]) -> None:
    """Replace these questions' lines in the results file; the others stay. ``order`` is that of the questions."""
    asked = {one.question for one in results}
    lines = [one for one in saved() if one.question not in asked and one.question in order] + list(results)
    lines.sort(key=lambda one: order.index(one.question))
    RESULTS.write_text(json.dumps([asdict(one) for one in lines], indent=1, ensure_ascii=False) + "\n")
