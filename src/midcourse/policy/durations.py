"""Spans of time as people write them in a policy: ``500ms``, ``30s``, ``15m``, ``1h``, ``7d``. In seconds inside."""

import re
from typing import Final

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


class Span(float):
    """Seconds."""

    __slots__ = ()

    def __str__(self) -> str:
        for unit in ("d", "h", "m", "s"):
            count = self / _UNITS[unit]
            if count >= 1 and round(count, 3) == int(count):
                return f"{int(count)}{unit}"
        return f"{self:g}s" if self >= 1 else f"{self * 1000:g}ms"

    def __repr__(self) -> str:
        return f"Span('{self}')"


def parse_duration(written: object) -> Span:
    """Read a span from ``15m``, or from a number of seconds.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(written, str):
        found = _WRITTEN.fullmatch(written.strip())
        if found:
            return Span(float(found[1]) * _UNITS[found[2]])
    elif isinstance(written, int | float) and not isinstance(written, bool):
        return Span(written)
    raise ValueError(f"{written!r} is not a duration; write 500ms, 30s, 15m, 1h or 7d")
