"""Exact (Clopper and Pearson) intervals of rates, and their verdict on a target. Pure.

Exact, because the targets are where approximations fail: 0 % and 99.9 %. They are rather too wide than too narrow.
"""

from functools import lru_cache
from math import exp, lgamma, log, log1p
from typing import Final, Literal

import msgspec

Verdict = Literal["kept", "above", "below", "too few to say"]
Range = tuple[float, float]

CONFIDENCE: Final = 0.95
ENOUGH: Final = 30
"""From so many on, a rate inside its range keeps it, although its interval reaches out of it."""
MANY: Final = 200
"""From so many on, a rate outside its range misses it, although its interval reaches into it. A miss is an alert."""


class Proportion(msgspec.Struct, frozen=True, kw_only=True):
    """``part`` of ``of``; between ``low`` and ``high`` with 95 % confidence; held against ``target``, if there is one.

    ``share`` is None where there was nothing to count.
    """

    part: int
    of: int
    share: float | None
    low: float
    high: float
    target: Range | None = None
    verdict: Verdict = "too few to say"


def rate(part: int, of: int, target: Range | None = None) -> Proportion:
    low, high = exact(part, of)
    share = part / of if of else None
    found: Verdict = "too few to say" if target is None else verdict(part, of, target)
    return Proportion(part=part, of=of, share=share, low=low, high=high, target=target, verdict=found)


def verdict(part: int, of: int, target: Range) -> Verdict:
    """Return if a rate keeps its range; ``too few to say`` where its interval holds an edge of that, and few count."""
    if of == 0:
        return "too few to say"
    share, (least, most) = part / of, target
    low, high = exact(part, of)
    if low > most:
        return "above"
    if high < least:
        return "below"
    if least <= share <= most:
        return "kept" if of >= ENOUGH or (least <= low and high <= most) else "too few to say"
    if of < MANY:
        return "too few to say"
    return "above" if share > most else "below"


@lru_cache(maxsize=1024)  # a millisecond each, and a server asks for the same ones again
def exact(part: int, of: int) -> Range:
    """Return the exact interval of ``part`` of ``of``; all of 0 to 1 if there was nothing to count."""
    if of == 0:
        return 0.0, 1.0
    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if part == 0 else _quantile(tail, part, of - part + 1)
    high = 1.0 if part == of else _quantile(1 - tail, part + 1, of - part)
    return low, high


def _quantile(share: float, a: float, b: float) -> float:
    """Find where the beta distribution has ``share`` of its mass to the left, by halving."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _beta(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - _beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    return front * _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """Return its continued fraction, by the method of Lentz."""
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    found = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            found *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return found
