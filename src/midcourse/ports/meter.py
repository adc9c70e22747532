"""Who hears how long things take: nobody, unless somebody measures."""

from typing import Final, Literal, Protocol

from midcourse.core.events import Recorded
from midcourse.core.ids import Epoch, SessionId
from midcourse.core.rates import Stopper
from midcourse.core.session import Session

StopVerb = Literal["pause", "cancel", "halt"]
CheckpointKind = Literal["state", "snapshot"]
"""What was saved: where a ``state`` agent starts from, or the fold of a journal, so that it need not be read whole."""


class Meter(Protocol):
    """Hears what happens to the sessions of one process, on whichever thread that is. It is quick, and never raises.

    Times are in seconds. What is recorded is told once, by the owner, when it is folded: a replay tells nothing.
    """

    def recorded(self, session: Session, epoch: Epoch, record: Recorded) -> None:
        """An event was added to a journal; ``session`` is as it stands after it. Under the session's lock."""
        ...

    def stopping(self, session: Session, verb: StopVerb, by: Stopper, wished_at: float, at: float) -> None:
        """A stop that was asked for at ``wished_at`` was decided at ``at``. Its events were recorded before."""
        ...

    def stop_answered(self, verb: StopVerb, by: Stopper, seconds: float) -> None:
        """It is decided, durably, so long after it was wished: nothing new begins."""
        ...

    def taking(self, session: Session, seconds: float) -> None:
        """A session that was at work is taken over, and it took so long to read it. Its first event comes next."""
        ...

    def left(self, session_id: SessionId) -> None:
        """Nothing of the session is in this process any more."""
        ...

    def committed(self, seconds: float) -> None:
        """Events waited so long until they were durable."""
        ...

    def saved(self, kind: CheckpointKind, seconds: float, size: int) -> None:
        """A checkpoint of so many bytes was made, durably."""
        ...

    def delivered(self, seconds: float) -> None:
        """A piece of streamed text reached somebody who watches, so long after it was journaled."""
        ...


class Unmetered:
    """Hears everything, and keeps nothing."""

    def recorded(self, session: Session, epoch: Epoch, record: Recorded) -> None:
        """Nothing."""

    def stopping(self, session: Session, verb: StopVerb, by: Stopper, wished_at: float, at: float) -> None:
        """Nothing."""

    def stop_answered(self, verb: StopVerb, by: Stopper, seconds: float) -> None:
        """Nothing."""

    def taking(self, session: Session, seconds: float) -> None:
        """Nothing."""

    def left(self, session_id: SessionId) -> None:
        """Nothing."""

    def committed(self, seconds: float) -> None:
        """Nothing."""

    def saved(self, kind: CheckpointKind, seconds: float, size: int) -> None:
        """Nothing."""

    def delivered(self, seconds: float) -> None:
        """Nothing."""


UNMETERED: Final[Meter] = Unmetered()


class Meters(Unmetered):
    """Several of them, each told everything."""

    def __init__(self, *meters: Meter) -> None:
        self._meters = meters

    def recorded(self, session: Session, epoch: Epoch, record: Recorded) -> None:
        """Told on."""
        for meter in self._meters:
            meter.recorded(session, epoch, record)

    def stopping(self, session: Session, verb: StopVerb, by: Stopper, wished_at: float, at: float) -> None:
        """Told on."""
        for meter in self._meters:
            meter.stopping(session, verb, by, wished_at, at)

    def stop_answered(self, verb: StopVerb, by: Stopper, seconds: float) -> None:
        """Told on."""
        for meter in self._meters:
            meter.stop_answered(verb, by, seconds)

    def taking(self, session: Session, seconds: float) -> None:
        """Told on."""
        for meter in self._meters:
            meter.taking(session, seconds)

    def left(self, session_id: SessionId) -> None:
        """Told on."""
        for meter in self._meters:
            meter.left(session_id)

    def committed(self, seconds: float) -> None:
        """Told on."""
        for meter in self._meters:
            meter.committed(seconds)

    def saved(self, kind: CheckpointKind, seconds: float, size: int) -> None:
        """Told on."""
        for meter in self._meters:
            meter.saved(kind, seconds, size)

    def delivered(self, seconds: float) -> None:
        """Told on."""
        for meter in self._meters:
            meter.delivered(seconds)
