"""Measure how long a turn has worked. Paused and waiting time is not counted; a clock that goes back adds nothing."""

from midcourse.policy.run_activity import AnyAct, Begun, Rested, WentOn


class Stopwatch:
    """Active seconds of the turn."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._at: float | None = None
        self._rests = False
        self.went_back = 0.0

    def feed(self, act: AnyAct) -> None:
        """Advance to the time of this act."""
        kind = type(act)
        if kind is Begun:
            self._sum = 0.0
            self._at = act.at
            self._rests = False
            return
        self.advance(act.at)
        if kind is Rested:
            self._rests = True
        elif kind is WentOn:
            self._rests = False

    def advance(self, now: float | None) -> None:
        if now is None:
            return
        if self._at is not None:
            passed = now - self._at
            if passed < 0:
                self.went_back -= passed
            elif not self._rests:
                self._sum += passed
        self._at = now

    @property
    def now(self) -> float | None:
        """The time of the last act."""
        return self._at

    @property
    def seconds(self) -> float | None:
        """None if nothing has had a time yet."""
        return None if self._at is None else self._sum

    def seconds_at(self, now: float) -> float | None:
        """Return the seconds at that time, if nothing happens before."""
        if self._at is None or self._rests:
            return self.seconds
        return self._sum + max(0.0, now - self._at)

    def when(self, seconds: float) -> float | None:
        """Return when the turn will have worked for so long, if it continues working; None while it rests."""
        return None if self._at is None or self._rests else self._at + seconds - self._sum
