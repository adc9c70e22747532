"""Plots as SVG, small and readable on a light and on a dark page: rows of dots, and lines on logarithmic axes."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

WIDTH: Final = 440
"""Of one panel; two stand side by side."""
ROW: Final = 17
LABEL: Final = 14
"""Between two labels of lines."""
MARGIN: Final = 128
"""Left of a panel's axis, for names."""
RIGHT: Final = 92
"""Right of it, for numbers."""
STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 13px }
.quiet { fill: #59636e; font-size: 11px }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.theirs { fill: #57606a; stroke: #57606a }
.floor { fill: #9a6700; stroke: #9a6700 }
.ours { fill: #0969da; stroke: #0969da }
.line { fill: none; stroke-width: 2 }
.leader { stroke-width: 1; opacity: 0.4; stroke-dasharray: 2 3 }
.spread { stroke-width: 2; opacity: 0.5 }
.page { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .quiet { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .theirs { fill: #b1bac4; stroke: #b1bac4 }
  .floor { fill: #d29922; stroke: #d29922 }
  .ours { fill: #4493f8; stroke: #4493f8 }
  .page { fill: #0d1117 }
}
"""


@dataclass(frozen=True)
class Dot:
    """A row of a panel: a value, and how far it was from round to round."""

    name: str
    kind: str
    """``ours``, ``theirs`` or ``floor``."""
    middle: float
    least: float
    most: float


@dataclass(frozen=True)
class Dots:
    """A panel of rows on one logarithmic axis; less is better."""

    title: str
    unit: str
    rows: Sequence[Dot]
    smallest: float = 0.01
    """Where the axis begins at the least; what is smaller stands there."""


@dataclass(frozen=True)
class Line:
    """Values over sizes."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Lines:
    """A panel of lines, both axes logarithmic."""

    title: str
    unit: str
    over: str
    lines: Sequence[Line]


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line that fits best in logarithms: 1 is linear, 0 does not grow."""
    logs = [(math.log(size), math.log(value)) for size, value in points]
    across = sum(x for x, _ in logs) / len(logs)
    up = sum(y for _, y in logs) / len(logs)
    return sum((x - across) * (y - up) for x, y in logs) / sum((x - across) ** 2 for x, _ in logs)


def short(value: float) -> str:
    """Write a number with two digits that matter."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}"


@dataclass(frozen=True)
class _Axis:
    """Whole decades from ``low`` to ``high``, drawn from ``begin`` to ``end``."""

    low: int
    high: int
    begin: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], smallest: float, begin: float, end: float) -> "_Axis":
        low = math.floor(math.log10(max(min(values), smallest)))
        high = math.ceil(math.log10(max(*values, smallest * 1.01)))
        return cls(low, max(high, low + 1), begin, end)

    def at(self, value: float) -> float:
        share = (math.log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _stroke(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _dots(panel: Dots, left: float, top: float) -> list[str]:
    values = [value for row in panel.rows for value in (row.least, row.most)]
    axis = _Axis.over(values, panel.smallest, left + MARGIN, left + WIDTH - RIGHT)
    bottom = top + 26 + ROW * len(panel.rows)
    parts = [_text(left, top + 12, f"{panel.title}, {panel.unit}", "title")]
    for tick in axis.ticks:
        parts.append(_stroke(axis.at(tick), top + 22, axis.at(tick), bottom, "grid"))
        parts.append(_text(axis.at(tick), bottom + 13, f"{tick:,g}", "quiet", "middle"))
    for number, row in enumerate(panel.rows):
        y = top + 34 + ROW * number
        parts.append(_text(left + MARGIN - 10, y + 4, row.name, "", "end"))
        parts.append(_stroke(axis.at(row.least), y, axis.at(row.most), y, f"{row.kind} spread"))
        parts.append(f'<circle cx="{axis.at(row.middle):.1f}" cy="{y:.1f}" r="4" class="{row.kind}"/>')
        parts.append(_text(left + WIDTH - RIGHT + 10, y + 4, short(row.middle), "quiet"))
    return parts


def _lines(panel: Lines, left: float, top: float, height: float) -> list[str]:
    points = [point for line in panel.lines for point in line.points]
    across = _Axis.over([x for x, _ in points], 1e-9, left + 46, left + WIDTH - 152)
    up = _Axis.over([y for _, y in points], 1e-9, top + height - 40, top + 26)
    parts = [_text(left, top + 12, f"{panel.title}, {panel.unit}", "title")]
    for tick in up.ticks:
        parts.append(_stroke(across.begin, up.at(tick), across.end, up.at(tick), "grid"))
        parts.append(_text(across.begin - 6, up.at(tick) + 4, f"{tick:,g}", "quiet", "end"))
    parts += [_text(across.at(tick), up.begin + 15, f"{tick:,.0f}", "quiet", "middle") for tick in across.ticks]
    parts.append(_text((across.begin + across.end) / 2, up.begin + 30, panel.over, "quiet", "middle"))
    label_at = across.end + 14
    for line, y in zip(panel.lines, _apart([up.at(one.points[-1][1]) for one in panel.lines], up.begin), strict=True):
        places = [(across.at(size), up.at(value)) for size, value in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" class="{line.kind} line" style="fill: none"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{line.kind}"/>' for x, y in places]
        parts.append(_stroke(*places[-1], label_at - 4, y, f"{line.kind} leader"))
        parts.append(_text(label_at, y + 4, f"{line.name}: {_signed(exponent(line.points))}"))
    return parts


def _apart(heights: Sequence[float], bottom: float) -> list[float]:
    """Return heights of labels that do not stand on each other, in the same order, above the bottom."""
    order = sorted(range(len(heights)), key=lambda one: heights[one])
    placed = list(heights)
    for before, one in itertools.pairwise(order):
        placed[one] = max(placed[one], placed[before] + LABEL)
    limit = bottom
    for one in reversed(order):
        placed[one] = min(placed[one], limit)
        limit = placed[one] - LABEL
    return placed


def _signed(value: float) -> str:
    """Write an exponent, without a minus before zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def write(path: Path, says: str, panels: Sequence[Dots] | Sequence[Lines]) -> None:
    """Draw the panels, two beside each other, into a file; ``says`` is for those who do not see it."""
    heights = [24.0 + 34 + ROW * len(one.rows) if isinstance(one, Dots) else 225.0 for one in panels]
    parts: list[str] = []
    top = 16.0
    for number in range(0, len(panels), 2):
        height = max(heights[number : number + 2])
        for column, panel in enumerate(panels[number : number + 2]):
            left = 16.0 + column * (WIDTH + 24)
            parts += _dots(panel, left, top) if isinstance(panel, Dots) else _lines(panel, left, top, height)
        top += height
    width = 2 * WIDTH + 56
    box = f'viewBox="0 0 {width} {top:.0f}" role="img" aria-label="{escape(says)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    page = f'<rect class="page" width="{width}" height="{top:.0f}"/>'
    path.write_text("\n".join([head, f"<style>{STYLE}</style>", page, *parts, "</svg>", ""]))
