"""Shares and times as people read them."""

from midcourse.reports.intervals import Range


def percent(share: float | None) -> str:
    """``7.4 %``; a dash where nothing is known."""
    if share is None:
        return "–"
    shown = f"{100 * share:.1f}".removesuffix(".0")
    return f"{shown} %"


def span_of_target(target: Range) -> str:
    """``10–20 %``, ``0 %``, ``at least 80 %``."""
    low, high = target
    if low == high:
        return percent(low)
    if high >= 1:
        return f"at least {percent(low)}"
    return f"at most {percent(high)}" if low <= 0 else f"{percent(low).removesuffix(' %')}–{percent(high)}"


def seconds(value: float | None) -> str:
    """``3.1 ms``, ``1.9 s``, ``3:10 min``, ``2.5 h``; a dash where nothing is known."""
    if value is None:
        return "–"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    if value < 60:
        return f"{value:.3g} s"
    if value < 5400:
        return f"{int(value // 60)}:{int(value % 60):02d} min"
    return f"{value / 3600:.1f} h" if value < 172_800 else f"{value / 86_400:.1f} d"


def money(dollars: float | None, *, is_estimate: bool = False) -> str:
    """``$0.31``, ``~$0.005``; a dash where nothing is known."""
    if dollars is None:
        return "–"
    shown = f"${dollars:,.2f}" if dollars >= 0.1 or dollars == 0 else f"${dollars:.2g}"
    return f"~{shown}" if is_estimate else shown
