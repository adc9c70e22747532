"""Time, chance and fresh ids: the only way to any of them."""

from typing import Protocol


class Clock(Protocol):
    """Where time, chance and ids come from, so that tests take no real time and a replay is exact."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring."""
        ...

    def random(self) -> float:
        """A number from 0 up to, and not including, 1."""
        ...

    def fresh_id(self) -> str:
        """A string no other call has ever returned: letters and digits."""
        ...
