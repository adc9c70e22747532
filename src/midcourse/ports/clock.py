"""Time, chance and fresh ids: the only way to any of them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Do not call it."""
        ...


class Background(Protocol):
    """A loop beside the agents' loop, which runs one coroutine."""

    @property
    def is_alive(self) -> bool:
        """True if the coroutine has started and has not ended."""
        ...

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``main()`` to its end, then end."""
        ...

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` on that loop, from any thread. Nothing happens once it has ended."""
        ...

    def close(self) -> None:
        """Give up what was never started."""
        ...


class Clock(Protocol):
    """The source of time, chance and ids, so that tests take no real time and a replay is exact."""

    def now(self) -> float:
        """Seconds since 1970. It may step in either direction: do not measure with it."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait. With 0, let others have their turn."""
        ...

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: object) -> Timer:
        """Call ``callback`` on the running loop after so many seconds."""
        ...

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> Timer:
        """Call ``callback`` on the running loop when ``monotonic()`` is ``when``."""
        ...

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """Cancel a block that takes longer; it raises ``TimeoutError`` then. None: it may take for ever."""
        ...

    def background(self, name: str) -> Background:
        """Return a loop beside the running one: a thread, or, in a test, a part of the same thread."""
        ...

    def random(self) -> float:
        """Return a number from 0 up to, and not including, 1."""
        ...

    def fresh_id(self) -> str:
        """Return a string no other call has ever returned: letters and digits."""
        ...
