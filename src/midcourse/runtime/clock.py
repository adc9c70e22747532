"""The real clock: the one module that asks the machine for time, chance and fresh ids."""

import random
import secrets
import time


class SystemClock:
    """Time, chance and ids as this machine gives them."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back. It goes on while the process is stopped, so a stall shows."""
        return time.monotonic()

    def random(self) -> float:
        """A number from 0 up to, and not including, 1."""
        return random.random()

    def fresh_id(self) -> str:
        """Twenty hexadecimal digits, time first, so that ids of one process sort roughly by age."""
        return f"{int(time.time() * 1000):011x}{secrets.token_hex(5)[:9]}"
