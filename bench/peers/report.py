"""The figures of a run: medians, ratios to ours with their spread over the rounds, and the tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.harness import median, p99
from bench.peers.case import CASES, Case
from bench.peers.catalogue import CATALOGUE, OURS, Entry

RESULTS: Final = Path(__file__).with_name("results.json")
README: Final = Path(__file__).parent.parent / "README.md"
PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "benchmarks.md"
UNMEASURED: Final = "Not measured yet."
"""What stands between the markers before the first complete run."""
BEGIN: Final = "<!-- written by `make peers` -->"
END: Final = "<!-- end of the peers -->"

Round = dict[str, list[float]] | str
"""The values of each figure that one trial measured; or why it measured none."""


@dataclass(frozen=True)
class Run:
    """What one ``make peers`` measured."""

    date: str
    rounds: int
    seed: int
    versions: dict[str, str]
    values: dict[str, dict[str, list[Round]]]
    """By case, then by peer: one entry for each round."""

    @classmethod
    def read(cls, path: Path = RESULTS) -> "Run":
        """Read a run from a file."""
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(json.dumps(vars(self), indent=1, ensure_ascii=False) + "\n")

    def values_of(self, case: str, peer: str, figure: str) -> list[list[float]]:
        """Return the values of a figure, round by round; none for a round in which the trial failed."""
        rounds = self.values.get(case, {}).get(peer, [])
        return [[] if isinstance(each, str) else each.get(figure, []) for each in rounds]

    def failure(self, case: str, peer: str) -> str | None:
        """Return why a peer has no figure, if there is none from any round."""
        rounds = self.values.get(case, {}).get(peer, [])
        said = [each for each in rounds if isinstance(each, str)]
        return said[-1] if said and len(said) == len(rounds) else None


@dataclass(frozen=True)
class Spread:
    """The median of a ratio over the rounds, with the smallest and the largest."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        """Write it as in the table."""
        if f"{self.least:.2g}" == f"{self.most:.2g}":
            return f"{_short(self.median)}"
        return f"{_short(self.median)} ({_short(self.least)} to {_short(self.most)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def ratio(theirs: Sequence[Sequence[float]], ours: Sequence[Sequence[float]]) -> Spread | None:
    """Return how often their median is ours, round by round; nothing where ours is zero.

    Only rounds that both have are compared, so that both met the same noise.
    """
    pairs = [(median(a), median(b)) for a, b in zip(theirs, ours, strict=False) if a and b]
    ratios = [a / b for a, b in pairs if b]
    return Spread(median(ratios), min(ratios), max(ratios)) if ratios and len(ratios) == len(pairs) else None


def figure(rounds: Sequence[Sequence[float]], unit: str) -> str:
    """Write the median of all values, and the 99th percentile if there are several."""
    values = [value for each in rounds for value in each]
    if not values:
        return "–"
    text = _number(median(values))
    if len(values) > 1:
        text += f" / {_number(p99(values))}"
    return f"{text} {unit}"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value < 10 else f"{value:.1f}"


def headings(case: Case) -> list[str]:
    """Return the heads of the columns of a case."""
    return ["", *(head for one in case.figures for head in (one.says, "× ours")), "notes"]


def row(run: Run, case: Case, entry: Entry) -> list[str]:
    """Return a peer's row in the table of a case."""
    cells = [entry.title]
    for one in case.figures:
        theirs = run.values_of(case.name, entry.name, one.name)
        ours = run.values_of(case.name, OURS, one.name)
        cells.append(figure(theirs, one.unit))
        spread = ratio(theirs, ours) if entry.name != OURS else None
        cells.append(str(spread or ""))
    failure = run.failure(case.name, entry.name)
    reason = failure or entry.notes.get(case.name, "")
    return [*cells, entry.cannot.get(case.name, reason)]


def shown(run: Run, case: Case) -> list[Entry]:
    """Return the peers that a run asked, and those that cannot do a case."""
    asked = {name for peers in run.values.values() for name in peers}
    return [
        one
        for one in CATALOGUE
        if one.name in run.values.get(case.name, {}) or (one.name in asked and case.name in one.cannot)
    ]


def text_table(run: Run, case: Case) -> str:
    """Return the table of a case for a terminal."""
    rows = [headings(case), *(row(run, case, one) for one in shown(run, case))]
    widths = [max(len(each[column]) for each in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(each, widths, strict=True)).rstrip() for each in rows)
    return "\n".join([case.says, *lines])


def markdown(run: Run) -> str:
    """Return all tables for the README."""
    known = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    lines = [
        f"{run.date}, {run.rounds} rounds, seed {run.seed}. {known}.",
        "",
        "Median / 99th percentile of all rounds (the largest, where fewer than 100 were measured). **× ours** compares",
        "medians with those of `replay` in the same round: the middle one, and from the smallest to the largest.",
    ]
    for case in CASES:
        if case.name not in run.values:
            continue
        lines += ["", f"### {case.says}", "", _line(headings(case)), _line(["---"] * (2 + 2 * len(case.figures)))]
        lines += [_line(row(run, case, one)) for one in shown(run, case)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def put(text: str, page: Path, begin: str = BEGIN, end: str = END) -> None:
    """Put a text where the markers of a page are."""
    before, _ = page.read_text().split(begin)
    _, after = page.read_text().split(end)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def shown_in(page: Path, begin: str = BEGIN, end: str = END) -> str:
    """Return what stands between the markers of a page."""
    return page.read_text().split(begin)[1].split(end)[0].strip()


def versions(entries: Sequence[Entry], common: Mapping[str, str]) -> dict[str, str]:
    """Return what was measured, and on what."""
    found: dict[str, Any] = dict(common)
    for one in entries:
        found |= one.versions()
    return found
