"""How a question is asked: repeats, percentiles, the floor in the same run, one table, one results file."""

import asyncio
import json
import os
import platform
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import midcourse
from midcourse.wiring import open_store

RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Result:
    """One line of the table: our figure, the floor's, and the peers' where they were measured in this run."""

    question: str
    case: str
    ours: float
    unit: str
    repeats: int
    floor: float | None = None
    floor_is: str = ""
    must: float | None = None
    aim: float | None = None
    peers: dict[str, float] | None = None
    versions: dict[str, str] = field(default_factory=lambda: versions())

    @property
    def verdict(self) -> str:
        """Against the numbers of the design."""
        if self.must is None:
            return ""
        if self.aim is not None and self.ours <= self.aim:
            return "aim"
        return "must" if self.ours <= self.must else "MISSED"


def versions() -> dict[str, str]:
    """What was measured."""
    return {
        "midcourse": midcourse.__version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cores": str(os.cpu_count()),
        "system": platform.system(),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


@contextmanager
def folder() -> Iterator[Path]:
    """A fresh folder on the disk the working directory is on: /tmp may be memory."""
    path = Path(tempfile.mkdtemp(prefix="bench-", dir=os.environ.get("BENCH_DIR")))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def stopwatch() -> Iterator[list[float]]:
    """Appends the milliseconds the block took."""
    taken: list[float] = []
    start = time.perf_counter()
    yield taken
    taken.append((time.perf_counter() - start) * 1000)


def ask(*questions: Callable[[], Awaitable[list[Result]]]) -> list[Result]:
    """Ask each question on a loop of its own."""
    results: list[Result] = []
    for question in questions:
        results += asyncio.run(question())  # pyright: ignore[reportArgumentType]
    return results


def show(results: Sequence[Result]) -> None:
    """The table."""
    rows = [("question", "case", "ours", "floor", "× floor", "must", "aim", "")]
    for one in results:
        ratio = f"{one.ours / one.floor:.1f}" if one.floor else ""
        rows.append(
            (
                one.question,
                one.case,
                f"{one.ours:.3g} {one.unit}",
                f"{one.floor:.3g} {one.unit}" if one.floor is not None else "",
                ratio,
                f"{one.must:g}" if one.must is not None else "",
                f"{one.aim:g}" if one.aim is not None else "",
                one.verdict,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")
    sys.stdout.flush()


def save(results: Sequence[Result]) -> None:
    """Replace these questions' lines in the results file; the others stay."""
    known: list[dict[str, object]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    asked = {one.question for one in results}
    kept = [line for line in known if line["question"] not in asked]
    RESULTS.write_text(json.dumps(kept + [asdict(one) for one in results], indent=1, ensure_ascii=False) + "\n")


__all__ = ["Result", "ask", "folder", "median", "open_store", "percentile", "save", "show", "stopwatch", "versions"]
