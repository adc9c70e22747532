"""Notices when an agent's code holds the event loop, and finds out whose code it is."""

import asyncio
import contextlib
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from midcourse.core.ids import SessionId
from midcourse.ports.clock import Clock

_MARK = "midcourse "
_OURS = str(Path(__file__).parents[1])


def task_name(session: SessionId, what: str) -> str:
    """Return the name of a session's task, so that a task that blocks the loop can be named."""
    return f"{_MARK}{session} {what}"


@dataclass(frozen=True, slots=True)
class Blocked:
    """The loop has not turned for ``seconds``; ``session`` is whose code holds it, if that is known.

    ``where``: the place in that code; empty: no code of the user's holds the loop.
    """

    seconds: float
    session: SessionId | None
    where: str


class Watchdog:
    """Watches one loop from another thread. Made on the loop it watches."""

    def __init__(self, clock: Clock, blocked_after: float) -> None:
        self._clock = clock
        self._blocked_after = blocked_after
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._asked_at: float | None = None
        self._told = False

    def check(self) -> Blocked | None:
        """Return what blocks the loop, once for each time. Called now and then, from another thread."""
        now = self._clock.monotonic()
        # Counted from the question, not from the last answer: a rare check reports no less of the truth.
        asked_at = self._asked_at
        if asked_at is None:
            self._asked_at = asked_at = now
            with contextlib.suppress(RuntimeError):  # closed: there is nothing left to watch
                self._loop.call_soon_threadsafe(self._answer)
        silent = now - asked_at
        if silent < self._blocked_after or self._told:
            return None
        where = _where(sys._current_frames().get(self._thread))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the one way to see another thread's stack
        if where is None:
            return None  # it loads what it needs, which no user's code can help
        self._told = True
        task = asyncio.current_task(self._loop)
        words = task.get_name().split(" ") if task else []
        is_marked = bool(where) and len(words) > 1 and task is not None and task.get_name().startswith(_MARK)
        session = SessionId(words[1]) if is_marked else None
        return Blocked(round(silent, 3), session, where)

    def _answer(self) -> None:
        self._asked_at = None
        self._told = False


def _where(frame: FrameType | None) -> str | None:
    """The innermost place in the user's code, else in a library: where the reader should look.

    Empty: there is none; Midcourse works, or the process gets no CPU. None: an import of our own holds the loop.
    """
    library, is_import = "", False
    while frame is not None and not _runs_loop(frame):
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        is_ours = file.startswith(_OURS)
        if is_import and is_ours:
            return None
        is_import = file.startswith("<frozen importlib")
        place = f"{file}:{frame.f_lineno} in {name}"
        if not is_ours and not file.startswith("<"):
            if "/lib/python" not in file:
                return place
            if not library and "/site-packages/" in file:
                library = place
        frame = frame.f_back
    return library


def _runs_loop(frame: FrameType) -> bool:
    """Return whether this frame runs the loop: the frames above it hold the loop, its callers wait for the loop."""
    return frame.f_code.co_name in ("_run", "run_forever", "run") and "/asyncio/" in frame.f_code.co_filename
