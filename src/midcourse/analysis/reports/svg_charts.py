"""The report's pictures as SVG inside the page: no script, no style of their own, and every one with its words."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log
from typing import Final

from midcourse.analysis.reports.intervals import Proportion, Range, Verdict
from midcourse.analysis.reports.number_format import percent, seconds, span_of_range, span_of_target
from midcourse.analysis.reports.report import Bar, Durations

_WIDTH: Final = 640
_LEFT: Final = 44
_BASE: Final = 168
_TALL: Final = 132
_KINDS: Final[Mapping[Verdict, str]] = {"kept": "ok", "above": "no", "below": "no", "too few to say": "few"}


def histogram(bars: Sequence[Bar], p50: float | None, p99: float | None, target: float | None) -> str:
    """Draw how long stops took, on a scale on which each bar is about twice the one before."""
    most = max((bar.count for bar in bars), default=0)
    if not most:
        return ""
    step = (_WIDTH - _LEFT - 16) / len(bars)
    parts: list[str] = []
    for place, bar in enumerate(bars):
        x, tall = _LEFT + place * step, _TALL * bar.count / most
        if bar.count:
            shown = max(1.5, tall)
            parts.append(
                f'<rect class="bar" x="{x + 1:.1f}" y="{_BASE - shown:.1f}" width="{step - 2:.1f}" '
                f'height="{shown:.1f}"/><text class="small" x="{x + step / 2:.1f}" y="{_BASE - shown - 5:.1f}" '
                f'text-anchor="middle">{bar.count:,}</text>'
            )
        if bar.below is not None:
            words = f"{1000 * bar.below:g} ms" if bar.below < 0.1 else f"{bar.below:g} s"
            parts.append(
                f'<line class="edge" x1="{x + step:.1f}" x2="{x + step:.1f}" y1="{_BASE}" y2="{_BASE + 4}"/>'
                f'<text class="small" x="{x + step:.1f}" y="{_BASE + 17}" text-anchor="middle">{words}</text>'
            )
    edges = [bar.below for bar in bars]
    if target is not None:
        x = _LEFT + step * _place(edges, target)
        parts.append(
            f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="14" y2="{_BASE}"/>'
            f'<text class="small" x="{x + 6:.1f}" y="18">target {seconds(target)}</text>'
        )
    label = f"Stops by how long they took. Median {seconds(p50)}, 99th percentile {seconds(p99)}."
    axis = f'<line class="edge" x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{_BASE}" y2="{_BASE}"/>'
    return _svg(_WIDTH, _BASE + 24, label, axis + "".join(parts))


def _place(edges: Sequence[float | None], value: float) -> float:
    """Return the position of a value between the bars, in bars."""
    before = 0.0
    for place, edge in enumerate(edges):
        if edge is None or value <= edge:
            return place + (0.5 if edge is None else min(1.0, (value - before) / (edge - before)))
        before = edge
    return float(len(edges))


def range_bar(rate: Proportion, *, least: float = 0.0, most: float = 1.0, kind: str = "", width: int = 150) -> str:
    """Draw a rate between ``least`` and ``most``: its target as a band, its interval as a line, itself as a mark."""
    if rate.share is None:
        return ""

    def place(share: float) -> float:
        return min(1.0, max(0.0, (share - least) / (most - least))) * width

    band = None
    if rate.target is not None:
        low, high = (place(one) for one in rate.target)
        low, high = (low - 1.5, high + 1.5) if high - low < 3 else (low, high)
        band = max(0.0, min(low, width - 3.0)), high
    at, left, right = (place(one) for one in (rate.share, rate.low, rate.high))
    aim = f"; target {span_of_target(rate.target)}" if rate.target is not None else ""
    label = f"{percent(rate.share)}, between {percent(rate.low)} and {percent(rate.high)}{aim}"
    mark = min(max(at, 3.0), width - 3.0)
    return _bar(width, label, band=band, whisker=(left, right), mark=mark, kind=kind or _KINDS[rate.verdict])


def time_bar(took: Durations, *, most: float, width: int = 200) -> str:
    """Return how long runs took on a line from 1 s to ``most``: the range as a band, p50 as a mark, p99 as an end."""
    if took.worked.p50 is None or took.worked.p99 is None:
        return ""

    def place(value: float) -> float:
        return min(1.0, max(0.0, log(max(value, 1.0)) / log(most))) * width

    band = None
    if took.range is not None:
        band = place(took.range[0]), width if took.range[1] is None else place(took.range[1])
    middle, slow = place(took.worked.p50), place(took.worked.p99)
    aim = f"; range {span_of_range(took.range)}" if took.range is not None else ""
    label = f"p50 {seconds(took.worked.p50)}, p99 {seconds(took.worked.p99)}{aim}"
    mark = min(max(middle, 5.0), width - 5.0)
    return _bar(width, label, band=band, whisker=(middle, slow), mark=mark, kind=_KINDS[took.verdict])


def _bar(width: int, label: str, *, band: Range | None, whisker: Range, mark: float, kind: str) -> str:
    parts = [f'<line class="edge" x1="0" x2="{width}" y1="9" y2="9"/>']
    if band is not None:
        low, high = band
        parts.append(f'<rect class="band" x="{low:.1f}" y="2" width="{max(3.0, high - low):.1f}" height="14"/>')
    parts.append(f'<line class="whisker" x1="{whisker[0]:.1f}" x2="{whisker[1]:.1f}" y1="9" y2="9"/>')
    parts.append(f'<circle class="{kind}" cx="{mark:.1f}" cy="9" r="4.5"/>')
    return _svg(width, 18, label, "".join(parts), scale=False)


def scale_of(rates: Sequence[Proportion]) -> float:
    """Up to where a column of such lines reaches: what there is to see, and no more."""
    tops = [max(one.share or 0.0, one.high, *(one.target or ())) for one in rates if one.share is not None]
    return min(1.0, max([0.05, *tops]) * 1.05)


def bottom_of(rates: Sequence[Proportion]) -> float:
    """Return the lower end of the scale, for rates that are near 1."""
    ends = [min(one.low, *(one.target or ())) for one in rates if one.share is not None]
    return max(0.0, min([0.95, *ends]) - 0.02)


def _svg(width: float, height: float, label: str, body: str, *, scale: bool = True) -> str:
    size = "" if scale else f' width="{width:g}" height="{height:g}"'
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}"{size} role="img" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>{body}</svg>"
    )
