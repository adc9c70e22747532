"""Sums of money as people read them. Nothing else in Midcourse writes a dollar before a number."""


def money(dollars: float) -> str:
    """Return a sum in cents, and with two digits where that would be nothing."""
    if not dollars or dollars >= 0.01:
        return f"${dollars:,.2f}"
    return f"${dollars:.2g}" if dollars >= 1e-4 else f"${dollars:.1e}"


def exact_money(dollars: float) -> str:
    """Return a sum with every digit that it has, in cents at least: to compare it, or to type it again."""
    cents, more = f"{dollars:.12f}"[:-10], f"{dollars:.12f}"[-10:].rstrip("0")
    return f"${cents}{more}"
