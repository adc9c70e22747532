"""The figures of a backtest as tables for a terminal."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rich.text import Text

from midcourse.analysis.backtest.scores import Score

if TYPE_CHECKING:
    from midcourse.analysis.backtest import Backtest

NOT_MEASURED: Final = "–"
_RATES: Final[Mapping[str, str]] = {
    "recall": "recall",
    "false_positive_rate": "false stops",
    "precision": "precision",
    "steps_saved": "steps saved",
    "minutes_saved": "minutes saved",
    "dollars_saved": "dollars saved",
}
NOTHING: Final = "(doing nothing)"


@dataclass(frozen=True)
class Figures:
    """A table: its rows, and which of its columns are numbers."""

    title: str
    header: tuple[str, ...]
    numbers: tuple[str, ...]
    rows: list[tuple[str | Text, ...]] = field(default_factory=list[tuple[str | Text, ...]])


def tables(backtest: "Backtest") -> list[Figures]:
    """Return the figures by source, by class (if there is more than one), and by the reasons to step in."""
    found = [_rates("by source", "source", backtest, "sources")]
    if len(backtest.scores.classes) > 1:
        found.append(_rates("by class", "class", backtest, "classes"))
    found.append(_levels(backtest))
    if any(tried.scores.all.signals for tried in backtest.policies.values()):
        found.append(_signals(backtest))
    return found


def remarks(backtest: "Backtest") -> list[str]:
    """Return remarks on the tables: what could not be measured, and what was left out."""
    missing: dict[tuple[str, str], list[str]] = {}
    for source, score in backtest.scores.sources.items():
        for name, why in score.unmeasured.items():
            if name in _RATES:
                missing.setdefault((_RATES[name], why), []).append(source)
    found = [f"{NOT_MEASURED} {name}: {why} ({', '.join(sources)})." for (name, why), sources in missing.items()]
    found.append("Classes are by how long a run took, unless one was declared; to the policy all those are long runs.")
    if not backtest.with_drift:
        found.append("How far actions are from the goal was not measured: --drift.")
    if backtest.with_risk:
        found.append(
            "The risk that comes with Midcourse was made from runs of five public sources (midcourse risk show): on "
            "those very runs, this flatters it."
        )
    left_out = sum(notice.left_out for notice in backtest.notices)
    if left_out:
        found.append(f"Left out: {left_out} lines, files or spans, each reported above.")
    return found


def _table(title: str, *columns: str, left: int = 2) -> Figures:
    return Figures(title, columns, columns[left:])


def _rates(title: str, group: str, backtest: "Backtest", groups: str) -> Figures:
    table = _table(title, group, "policy", "runs", "failed", "stopped", *_RATES.values())
    named: Iterable[tuple[str, Mapping[str, Score], Score]] = (
        *((name, getattr(tried.scores, groups), tried.scores.all) for name, tried in backtest.policies.items()),
        (NOTHING, getattr(backtest.baseline, groups), backtest.baseline.all),
    )
    rows = list(named)
    for name in (*rows[0][1], "all"):
        for policy, scores, everything in rows:
            if policy == NOTHING and name != "all":
                continue  # it is the same everywhere
            score = everything if name == "all" else scores[name]
            is_first = policy == rows[0][0]
            table.rows.append(
                (
                    Text(name, style="bold" if name == "all" else ""),
                    Text(policy, style="dim" if policy == NOTHING else ""),
                    str(score.runs) if is_first else "",
                    str(score.failures) if is_first else "",
                    str(score.interventions),
                    *(_rate(score, rate) for rate in _RATES),
                )
            )
    return table


def _rate(score: Score, name: str) -> str:
    value: float | None = getattr(score, name)
    if value is None:
        return NOT_MEASURED
    interval = score.intervals.get(name)
    return f"{value:.2f}" if interval is None else f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def _levels(backtest: "Backtest") -> Figures:
    levels = sorted({level for tried in backtest.policies.values() for level in tried.scores.all.levels})
    table = _table("what it did first", "policy", *levels, "warnings a run", "at or before the decisive step", left=1)
    for name, tried in backtest.policies.items():
        score = tried.scores.all
        warnings = NOT_MEASURED if score.warnings is None else f"{score.warnings:.2f}"
        counts = (str(score.levels.get(level, 0)) for level in levels)
        table.rows.append((name, *counts, warnings, _rate(score, "before_decisive")))
    return table


def _signals(backtest: "Backtest") -> Figures:
    table = _table("why", "policy", "signal", "stopped", "of failed runs", "of succeeding runs")
    for name, tried in backtest.policies.items():
        by_count = sorted(tried.scores.all.signals.items(), key=lambda one: -one[1]["interventions"])
        for signal, of in by_count:
            counts = (of["interventions"], of["failures"], of["successes"])
            table.rows.append((name, signal, *map(str, counts)))
    return table
