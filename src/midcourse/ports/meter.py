"""A listener for measurements: by default nothing is measured."""

from typing import Final, Literal

from midcourse.core.events import Recorded
from midcourse.core.ids import Epoch, SessionId
from midcourse.core.rates import Stopper
from midcourse.core.session import Session

StopVerb = Literal["pause", "cancel", "halt"]
CheckpointKind = Literal["state", "snapshot"]
"""The kinds of checkpoints: a ``state`` agent's starting point, or the fold of a journal, to avoid reading it whole."""


class Meter:
    """Hears what happens to the sessions of one process, on whichever thread that is. It is quick, and never raises.

    Each method does nothing here: override those you measure by. Times are in seconds. What is recorded is told once,
    by the owner, when it is folded: a replay tells nothing.
    """

    def recorded(self, session: Session, epoch: Epoch, record: Recorded) -> None:
        """Note an event added to a journal; ``session`` is its state after it. Under the session's lock."""

    def stopping(self, session: Session, verb: StopVerb, by: Stopper, wished_at: float, at: float) -> None:
        """Note that a stop asked for at ``wished_at`` was decided at ``at``. Its events were recorded before."""

    def stop_answered(self, verb: StopVerb, by: Stopper, seconds: float) -> None:
        """Note that a stop is decided, durably, so long after it was requested: nothing new begins."""

    def taking(self, session: Session, seconds: float) -> None:
        """Note that a working session was acquired, and how long it took to read it. Its first event comes next."""

    def left(self, session_id: SessionId) -> None:
        """Note that nothing of the session is in this process any more."""

    def committed(self, seconds: float) -> None:
        """Events waited so long until they were durable."""

    def saved(self, kind: CheckpointKind, seconds: float, size: int) -> None:
        """Note that a checkpoint of so many bytes was made, durably."""

    def delivered(self, seconds: float) -> None:
        """Note that a piece of streamed text reached a watcher, so long after it was journaled."""


UNMETERED: Final = Meter()


class Meters(Meter):
    """Several of them, each told everything."""

    def __init__(self, *meters: Meter) -> None:
        self._meters = meters

    def recorded(self, session: Session, epoch: Epoch, record: Recorded) -> None:
        for meter in self._meters:
            meter.recorded(session, epoch, record)

    def stopping(self, session: Session, verb: StopVerb, by: Stopper, wished_at: float, at: float) -> None:
        for meter in self._meters:
            meter.stopping(session, verb, by, wished_at, at)

    def stop_answered(self, verb: StopVerb, by: Stopper, seconds: float) -> None:
        for meter in self._meters:
            meter.stop_answered(verb, by, seconds)

    def taking(self, session: Session, seconds: float) -> None:
        for meter in self._meters:
            meter.taking(session, seconds)

    def left(self, session_id: SessionId) -> None:
        for meter in self._meters:
            meter.left(session_id)

    def committed(self, seconds: float) -> None:
        for meter in self._meters:
            meter.committed(seconds)

    def saved(self, kind: CheckpointKind, seconds: float, size: int) -> None:
        for meter in self._meters:
            meter.saved(kind, seconds, size)

    def delivered(self, seconds: float) -> None:
        for meter in self._meters:
            meter.delivered(seconds)
