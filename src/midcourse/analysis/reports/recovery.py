"""The times that a session was to continue, and whether it did. Pure."""

from typing import Final

from midcourse.analysis.reports.facts import Recovery
from midcourse.core import events as ev

_FURTHER: Final = (ev.StepFinished, ev.AskOpened, ev.SessionWaiting, ev.CheckpointTaken, ev.SessionCompleted)
"""The events that show that a session has continued."""
_ANOTHER_STOP: Final = (ev.PauseRequested, ev.CancelRequested, ev.SessionHalted)


class RecoveryReader:
    """Reads them in one journal, event by event. The last one found may not be known yet."""

    def __init__(self) -> None:
        self.found: list[Recovery] = []

    def read(self, event: ev.AnyEvent, *, at_work: bool) -> None:
        """Take an event in, of a session that was ``at_work`` before it."""
        is_open = bool(self.found) and self.found[-1].worked is None
        match event:
            case ev.SessionTaken() if at_work:  # its owner is gone
                if is_open:
                    self._end(worked=False)
                self.found.append(Recovery("loss"))
            case ev.SessionResumed(pause=str()) | ev.HaltLifted():
                if is_open:
                    self.found.pop()
                self.found.append(Recovery("stop"))
            case _ if not is_open:
                pass
            case ev.SessionFailed():
                self._end(worked=False)
            case ev.SessionPaused() | ev.SessionCancelled():  # the stop that it was at when its process was lost
                self._end(worked=True)
            case _ if isinstance(event, _FURTHER):
                self._end(worked=True)
            case _ if isinstance(event, _ANOTHER_STOP):
                self.found.pop()
            case _:
                pass

    def _end(self, *, worked: bool) -> None:
        self.found[-1] = Recovery(self.found[-1].after, worked)
