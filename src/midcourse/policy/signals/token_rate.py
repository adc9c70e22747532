"""Tokens a second, against the session's own average."""

from midcourse.policy.run_activity import Called

_ENOUGH = 5
_RECENT = 0.5


class TokenRate:
    """The recent rate and the average of all requests before."""

    def __init__(self) -> None:
        self._count = 0
        self._average = 0.0
        self._recent = 0.0
        self._last = 0.0

    def feed(self, call: Called) -> None:
        """Add a call, if its written tokens and its time were measured."""
        if call.kind != "model" or not call.tokens_out or not call.seconds or call.seconds <= 0:
            return
        rate = call.tokens_out / call.seconds
        self._recent = rate if not self._count else self._recent + _RECENT * (rate - self._recent)
        if self._count:
            self._average += (self._last - self._average) / self._count
        self._count += 1
        self._last = rate

    @property
    def value(self) -> float | None:
        """None while there is no average to compare with."""
        return self._recent / self._average if self._count > _ENOUGH and self._average > 0 else None
