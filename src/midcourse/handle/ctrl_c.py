"""Ctrl-C in a program of a user: it ends without a long traceback, and says what became of the sessions."""

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Self

from midcourse.core.replies import Durability


class CtrlC:
    """Notice Ctrl-C while a store is open. Other handlers (asyncio, uvicorn) get it all the same."""

    def __init__(self) -> None:
        self._before: object = None
        self._came = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A handler that was set since is kept.
        if callable(self._before) and signal.getsignal(signal.SIGINT) == self._hear:
            signal.signal(signal.SIGINT, self._before)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        if callable(self._before):
            self._before(number, frame)

    def tell(self, kept: int, store: str, durability: Durability) -> None:
        """Report on stderr what became of the sessions, if Ctrl-C came, and leave out the traceback."""
        if not self._came:
            return
        if durability == "nothing":
            words = "The store was in memory: its sessions are gone with this process."
        elif kept:
            words = (
                f"{kept} session{'s are' if kept != 1 else ' is'} kept in {store}, none cancelled. To continue: start "
                "this program again, or midcourse serve with its agents."
            )
        else:
            words = f"No session was running in {store}."
        sys.stderr.write(f"\nInterrupted. {words}\n")
        hook = sys.excepthook

        def quiet(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            if not issubclass(kind, KeyboardInterrupt):
                hook(kind, error, trace)

        sys.excepthook = quiet
