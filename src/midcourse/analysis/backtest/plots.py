"""The figures of a backtest as pictures (PNG and SVG). Needs matplotlib, which is imported when one is drawn."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from midcourse.analysis.backtest.scores import Score
from midcourse.errors import InvalidInput

if TYPE_CHECKING:
    from midcourse.analysis.backtest import Backtest

Drawn: TypeAlias = Any
"""A figure of matplotlib, or a part of one: its types know nothing of most of its arguments."""
COLOURS: Final = ("#1f5fa8", "#c4571b", "#2e7d4f", "#7a4fa3", "#8a6d00", "#5c6670")
"""Told apart by people who see no red or green, and in grey."""
MARKS: Final = ("o", "s", "^", "D", "v", "P")
_INK: Final = "#20262c"
_FAINT: Final = "#d5dade"
_STYLE: Final[Mapping[str, Any]] = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "font.size": 10,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    # The same picture from the same figures, byte by byte; and text that can be searched.
    "svg.hashsalt": "midcourse",
    "svg.fonttype": "none",
}


def draw(backtest: "Backtest", folder: Path) -> list[Path]:
    """Draw all pictures into ``folder``, which is made if need be; each as PNG and as SVG.

    Raises:
        InvalidInput: matplotlib is not installed, or the folder cannot be written.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.style import context
    except ImportError as error:
        raise InvalidInput(
            "Pictures need matplotlib, which is not installed. To have it: pip install 'midcourse[backtest]'",
            code="not_installed",
        ) from error
    found: list[Path] = []
    pictures = {"recall": draw_recall, "steps-saved": draw_saved, "when": draw_when}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with context({**_STYLE}):
            for name, picture in pictures.items():
                # A figure of its own draws without a screen, whatever backend is set.
                figure: Drawn = Figure(layout="constrained")
                picture(backtest, figure)
                for suffix in ("png", "svg"):
                    path = folder / f"{name}.{suffix}"
                    figure.savefig(path, dpi=150, metadata={"Date": None} if suffix == "svg" else None)
                    found.append(path)
    except OSError as error:
        raise InvalidInput(
            f"The pictures cannot be written to {folder} ({error.strerror or error}). Name another folder.",
            code="unwritable",
            file=str(folder),
        ) from error
    return found


def draw_recall(backtest: "Backtest", figure: Drawn) -> None:
    """Recall against false stops: a panel a source, a point a policy, with its 95 % intervals."""
    groups = _groups(backtest, lambda score: score.recall is not None and score.false_positive_rate is not None)
    columns = min(3, max(1, len(groups)))
    rows = max(1, -(-len(groups) // columns))
    figure.set_size_inches(max(5.5, 3.4 * columns), 3.4 * rows + 0.9)
    figure.suptitle("Recall against false stops", x=0.01, ha="left", weight="bold")
    panels: Drawn = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    axes: list[Drawn] = list(panels.flat)
    if not groups:
        _empty(axes[0], "No source has failing and succeeding runs.")
        return
    for panel, name in zip(axes, groups, strict=False):
        panel.plot((0, 1), (0, 1), color=_FAINT, lw=1, zorder=0)
        policies = _of(backtest, name)
        for number, (policy, score) in enumerate(policies):
            x, y = score.false_positive_rate or 0.0, score.recall or 0.0
            panel.errorbar(
                x, y, xerr=_bar(score, "false_positive_rate", x), yerr=_bar(score, "recall", y), label=policy,
                fmt=MARKS[number % len(MARKS)], color=COLOURS[number % len(COLOURS)], lw=1, clip_on=False,
                # The first is the largest, so that one at the same place does not hide it.
                ms=6 + 3 * (len(policies) - 1 - number), zorder=3 + number,
            )  # fmt: skip
        panel.set(xlim=(0, 1), ylim=(0, 1), title=f"{name} ({policies[0][1].runs} runs)")
        panel.xaxis.set_major_formatter(_percent)
        panel.yaxis.set_major_formatter(_percent)
        panel.set_aspect("equal")
    for panel in axes[len(groups) :]:
        panel.set_visible(False)
    for number, panel in enumerate(axes[: len(groups)]):
        if number % columns == 0:
            panel.set_ylabel("recall")
        if number + columns >= len(groups):
            panel.set_xlabel("false stops")
            panel.tick_params(labelbottom=True)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)


def draw_saved(backtest: "Backtest", figure: Drawn) -> None:
    """Draw the share of the failed runs' steps that would have been saved, by source and policy."""
    groups = _groups(backtest, lambda score: score.steps_saved is not None)
    policies = list(backtest.policies)
    figure.set_size_inches(8, max(1.7, 0.9 + len(groups) * (0.28 * len(policies) + 0.22)))
    axes = figure.subplots()
    axes.set_title("Share of the failed runs' steps that came after the stop", weight="bold")
    if not groups:
        _empty(axes, "No source has failing runs.")
        return
    height = 0.8 / len(policies)
    for number, policy in enumerate(policies):
        for place, name in enumerate(groups):
            score = dict(_of(backtest, name))[policy]
            value = score.steps_saved or 0.0
            y = place + (number - (len(policies) - 1) / 2) * height
            axes.barh(
                y, value, height * 0.86, color=COLOURS[number % len(COLOURS)], label=policy if place == 0 else None
            )
            bar = _bar(score, "steps_saved", value)
            if bar is not None:
                axes.errorbar(value, y, xerr=bar, color=_INK, lw=1, fmt="none")
            high = score.intervals.get("steps_saved", (value, value))[1]
            axes.text(max(value, high) + 0.01, y, _percent(value), va="center", fontsize=9)
    axes.set_yticks(range(len(groups)), groups)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(_percent)
    axes.tick_params(axis="y", length=0)
    if len(policies) > 1:
        figure.legend(loc="outside lower left", ncols=3)


def draw_when(backtest: "Backtest", figure: Drawn) -> None:
    """Draw how far runs were when they were stopped: a panel a policy, failing runs above, succeeding ones below."""
    policies = list(backtest.policies.items())
    figure.set_size_inches(8, 1.9 * len(policies) + 1.1)
    figure.suptitle("When the stops came", x=0.01, ha="left", weight="bold")
    panels: Drawn = figure.subplots(len(policies), 1, squeeze=False, sharex=True)
    edges = [number / 10 for number in range(11)]
    for panel, (name, tried) in zip(list[Drawn](panels.flat), policies, strict=True):
        parts: Sequence[tuple[str, str, int, str]] = (
            ("failure", "failing runs (right)", 1, COLOURS[0]),
            ("success", "succeeding runs (wrong)", -1, COLOURS[1]),
        )
        most = 1
        for outcome, label, sign, colour in parts:
            counts = [0] * 10
            for one in tried.verdicts:
                if one.stopped_at_step is not None and one.outcome == outcome:
                    counts[min(9, int(10 * one.stopped_at_step / one.steps))] += 1
            most = max(most, *counts)
            panel.bar(edges[:-1], [sign * n for n in counts], 0.094, align="edge", color=colour, label=label)
        panel.axhline(0, color=_INK, lw=0.8)
        panel.set(xlim=(0, 1), ylim=(-1.1 * most, 1.1 * most), title=name, ylabel="runs stopped")
        panel.yaxis.set_major_formatter(_whole)
        panel.yaxis.get_major_locator().set_params(integer=True)
    last: Drawn = panels.flat[len(policies) - 1]
    last.set_xlabel("share of the run's steps that had happened")
    last.xaxis.set_major_formatter(_percent)
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside lower left", ncols=2)


def _whole(value: float, _: object) -> str:
    return f"{abs(value):.0f}"


def _percent(value: float, _: object = None) -> str:
    return f"{100 * value:.0f} %"


def _groups(backtest: "Backtest", is_shown: Callable[[Score], bool]) -> list[str]:
    shown = [name for name, score in backtest.scores.sources.items() if is_shown(score)]
    return [*shown, "all"] if len(shown) > 1 else shown


def _of(backtest: "Backtest", group: str) -> list[tuple[str, Score]]:
    return [
        (name, tried.scores.all if group == "all" else tried.scores.sources[group])
        for name, tried in backtest.policies.items()
    ]


def _bar(score: Score, name: str, value: float) -> list[list[float]] | None:
    interval = score.intervals.get(name)
    return None if interval is None else [[max(0.0, value - interval[0])], [max(0.0, interval[1] - value)]]


def _empty(axes: Drawn, sentence: str) -> None:
    axes.text(0.5, 0.5, sentence, ha="center", va="center", transform=axes.transAxes)
    axes.set_axis_off()
