"""Later, by turns of the event loop and not by time: one handle a turn, however many sessions wait."""

import asyncio
from collections import deque
from collections.abc import Callable


class DeferredCalls:
    """Runs what it is given after ``count`` turns of the loop. On the agents' loop."""

    def __init__(self, count: int) -> None:
        self._waiting: deque[list[Callable[[], None]]] = deque([] for _ in range(count))
        self._is_turning = False

    def after(self, act: Callable[[], None]) -> None:
        """Run ``act`` once all ready callbacks, and those they wake, have run."""
        self._waiting[-1].append(act)
        if not self._is_turning:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        due = self._waiting.popleft()
        self._waiting.append([])
        loop = asyncio.get_running_loop()
        for act in due:
            loop.call_soon(act)  # each on its own: one that raises takes no other along
        self._is_turning = any(self._waiting)
        if self._is_turning:
            loop.call_soon(self._turn)
