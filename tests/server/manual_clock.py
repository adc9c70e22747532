"""A clock that stands still until it is moved."""

from midcourse.clock import SystemClock


class StillClock(SystemClock):
    """Measures the time it is told."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        """Seconds since 1970, as they were set."""
        return self.seconds

    def monotonic(self) -> float:
        """The same."""
        return self.seconds
