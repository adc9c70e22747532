"""What became of each call of a session, told from its journal and never beyond it."""

from collections.abc import Iterable

import msgspec

from midcourse.core import events as ev
from midcourse.core.ids import StepId
from midcourse.core.session import OpenCall


class Receipt(msgspec.Struct, frozen=True):
    """One line per call that ever began, in the order they began; ``final`` once the session has ended."""

    lines: tuple[ev.ReceiptLine, ...]
    final: bool

    @property
    def unknown(self) -> tuple[ev.ReceiptLine, ...]:
        """The calls nobody can tell the end of."""
        return tuple(line for line in self.lines if line.outcome == "unknown")

    def __str__(self) -> str:
        if not self.lines:
            return "no call had begun"
        width = max(len(line.name) for line in self.lines)
        title = "" if self.final else "provisional: the session has not ended\n"
        return title + "\n".join(f"{line.name:<{width}}  {line.outcome:<7}  {line.step}" for line in self.lines)


def receipt_lines(calls: Iterable[OpenCall]) -> tuple[ev.ReceiptLine, ...]:
    """The lines for calls that are open when a session is cancelled: their process is gone, so their end is unknown."""
    return tuple(ev.ReceiptLine(call.step, call.name, "unknown") for call in calls)


def receipt_of(events: Iterable[ev.AnyEvent]) -> Receipt:
    """The receipt of a whole journal."""
    begun: dict[StepId, str] = {}
    open_calls: dict[StepId, bool] = {}  # whether an earlier attempt is open as well: lost with its process
    final = False
    for event in events:
        match event:
            case ev.StepBegun():
                begun[event.step] = event.name
                open_calls[event.step] = event.step in open_calls
            case ev.StepNotBegun():
                if not open_calls.get(event.step):
                    open_calls.pop(event.step, None)
                if event.attempt == 1:
                    begun.pop(event.step, None)
            case ev.StepFinished() | ev.StepFailed() | ev.StepAborted() | ev.StepCut() | ev.StepClosed():
                open_calls.pop(event.step, None)
            case ev.SessionCancelled() | ev.SessionCompleted() | ev.SessionFailed():
                final = True
            case ev.TurnOpened() | ev.SessionResumed():
                final = False
            case _:
                pass
    lines = (ev.ReceiptLine(step, name, "unknown" if step in open_calls else "ended") for step, name in begun.items())
    return Receipt(tuple(lines), final)
