"""Shares and times as people read them."""

from midcourse.analysis.reports.intervals import Proportion, Range
from midcourse.core.money import money


def percent(share: float | None) -> str:
    """Format a share: ``7.4 %``; a dash if unknown."""
    if share is None:
        return "–"
    shown = f"{100 * share:.1f}".removesuffix(".0")
    return f"{shown} %"


def span_of_target(target: Range) -> str:
    """Format a target: ``10–20 %``, ``0 %``, ``at least 80 %``."""
    low, high = target
    if low == high:
        return percent(low)
    if high >= 1:
        return f"at least {percent(low)}"
    return f"at most {percent(high)}" if low <= 0 else f"{percent(low).removesuffix(' %')}–{percent(high)}"


def seconds(value: float | None) -> str:
    """Format a time: ``3.1 ms``, ``1.9 s``, ``3:10 min``, ``2.5 h``; a dash if unknown."""
    if value is None:
        return "–"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    if value < 60:
        return f"{value:.3g} s"
    if value < 5400:
        return f"{int(value // 60)}:{int(value % 60):02d} min"
    return f"{value / 3600:.1f} h" if value < 172_800 else f"{value / 86_400:.1f} d"


def span_of_range(allowed: tuple[float, float | None]) -> str:
    """Format a range: ``up to 30 s``, ``30 s–5 min``, ``over 5 min``."""
    low, high = (
        None if one is None else f"{one / 60:g} min" if one and not one % 60 else seconds(one) for one in allowed
    )
    return f"over {low}" if high is None else f"{low}–{high}" if allowed[0] else f"up to {high}"


def amount(dollars: float | None, *, is_estimate: bool = False) -> str:
    """Format an amount: ``$0.31``, ``~$0.0050``; a dash if unknown."""
    return "–" if dollars is None else f"{'~' if is_estimate else ''}{money(dollars)}"


def signed(share: float | None, unit: str = "%") -> str:
    """Format a change: ``+240 %``, ``-3.1 pp``; a dash if unknown."""
    if share is None:
        return "–"
    shown = f"{100 * share:+.1f}" if abs(share) < 1 else f"{100 * share:+,.0f}"
    return f"{shown.removesuffix('.0')} {unit}"


def tokens(rate: float | None) -> str:
    """Format a speed: ``41 tok/s``, ``3.5 tok/s``; a dash if unknown."""
    return "–" if rate is None else f"{rate:.2g} tok/s" if rate < 10 else f"{rate:,.0f} tok/s"


def estimated(rate: Proportion) -> str:
    """Format a count: ``2 of 13 runs had an estimate``."""
    return f"{rate.part:,} of {rate.of:,} runs had an estimate"
