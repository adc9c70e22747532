"""Dollars, requests, seconds and bytes: what a run uses up."""

from midcourse.policy.run_activity import Called

_SLOW = 0.05
_FAST = 0.34
_ENOUGH = 8
"""Priced requests before a rate can be said to have grown."""


class Spending:
    """Sums of a session, and whether its requests become dearer."""

    def __init__(self) -> None:
        self.cost = 0.0
        self.requests = 0
        self.unpriced = 0
        self.seconds = 0.0
        self.timed = 0
        self.bytes = 0
        self._priced = 0
        self._free = False
        self._recent = 0.0
        self._earlier = 0.0

    def feed(self, call: Called) -> None:
        """Add a call. A number below 0 was not measured."""
        self.requests += 1
        if call.seconds is not None and call.seconds >= 0:
            self.seconds += call.seconds
            self.timed += 1
        if call.bytes is not None and call.bytes >= 0:
            self.bytes += call.bytes
        cost = call.cost
        if cost is None or cost < 0:
            if call.kind == "model":
                self.unpriced += 1
            return
        self.cost += cost
        if cost > 0:
            self._priced += 1
            weight = 1 / self._priced
            self._recent += max(_FAST, weight) * (cost - self._recent)
            self._earlier += max(_SLOW, weight) * (cost - self._earlier)
        elif call.kind == "model":
            self._free = True

    @property
    def is_priced(self) -> bool:
        """True if anything had a price, even 0."""
        return self._priced > 0 or self._free

    @property
    def acceleration(self) -> float | None:
        """The cost of recent requests as a multiple of the long average; None while there are too few."""
        return self._recent / self._earlier if self._priced >= _ENOUGH and self._earlier > 0 else None

    @property
    def per_request(self) -> float | None:
        """The average dollars of a request; None if unknown, which is so where only some are known to be free."""
        is_known = self._priced > 0 or (self._free and not self.unpriced)
        return self.cost / self.requests if is_known else None
