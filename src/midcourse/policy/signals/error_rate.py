"""Failures: their share of the recent calls, and how many in a row."""

from collections import deque

from midcourse.policy.run_activity import Called

_WINDOW = 20


class Errors:
    """Tool calls, and model calls that failed, of the last few."""

    def __init__(self) -> None:
        self._recent: deque[bool] = deque(maxlen=_WINDOW)
        self._failed = 0
        self.streak = 0
        self.last = ""
        self.kinds: set[str] = set()

    def feed(self, call: Called) -> None:
        """Add a call. A model call that worked does not show that tools do."""
        failed = bool(call.error)
        if call.kind == "model" and not failed:
            return
        if len(self._recent) == _WINDOW:
            self._failed -= self._recent[0]
        self._recent.append(failed)
        self._failed += failed
        if failed:
            self.streak += 1
            self.last = f"{call.name}: {call.error}"
            if len(self.kinds) < 100:
                self.kinds.add(call.error)
        else:
            self.streak = 0

    def rate(self, at_least: int) -> float | None:
        """None while there were fewer calls than that."""
        return self._failed / len(self._recent) if len(self._recent) >= max(1, at_least) else None
