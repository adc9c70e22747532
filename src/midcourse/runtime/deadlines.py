"""Deadlines: when something of a session happens by itself, and the timers that have its driver look then."""

from collections.abc import Callable, Iterable
from typing import Final

from midcourse.core.ids import StepId
from midcourse.core.interrupted_calls import may_abort
from midcourse.core.session import Session, Status
from midcourse.ports.clock import Clock, Timer
from midcourse.runtime.calls import CallInFlight
from midcourse.runtime.children import Children
from midcourse.runtime.command_inbox import CommandInbox
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal

AHEAD: Final = 1.0
"""Seconds that a journal may be ahead of the wall clock; more, and the wall clock was set back."""


class Deadlines:
    """The graces of one session's calls, what expires, and every timer of its driver. On the agent's loop."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        inbox: CommandInbox,
        children: Children,
        clock: Clock,
        *,
        react: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._gate = gate
        self._inbox = inbox
        self._children = children
        self._clock = clock
        self._react = react
        self._timers: dict[str, Timer] = {}

    def meet(self) -> None:
        """Journal what has expired; look again when the next deadline is over."""
        if not self._journal.session.deadlines:
            return
        now = self._journal.now
        with self._journal.lock:
            self._inbox.expire(now)
            deadlines = self._journal.session.deadlines
        if deadlines:
            self.look_again("deadline", min(deadlines) - now)

    def stop_ahead(self, calls: Iterable[CallInFlight], foreseen: Session) -> None:
        """Abort the calls that have no grace in the session that a stop on its way is going to make."""
        for call in calls:
            deadline = self._deadline(call.step, foreseen) if may_abort(call.effect) and call.kind != "child" else None
            if call.kind == "model" or (deadline is not None and deadline <= foreseen.at):
                call.stop()

    def stop_calls(self) -> None:
        """Abort the calls whose grace is over; look again when the next one's will be."""
        if not self._gate.begun:
            return
        now = self._journal.now
        later: list[float] = []
        for call in list(self._gate.begun.values()):
            deadline = self._deadline_of(call)
            if deadline is not None and deadline <= now:
                call.stop()
            elif deadline is not None:
                later.append(deadline)
        if later:
            self.look_again("grace", min(later) - now)

    def _deadline_of(self, call: CallInFlight) -> float | None:
        if call.cut:
            return 0.0
        if call.kind == "child":
            return self._child_deadline()
        if not may_abort(call.effect):  # it finishes, whatever the grace, unless this process ends
            return self._gate.drain_until if self._gate.draining else None
        return self._deadline(call.step, self._journal.session)

    def _deadline(self, step: StepId, session: Session) -> float | None:
        """Return when a call in flight must end; None if it may finish."""
        if session.status is Status.HALTED or self._gate.draining:
            return self._gate.drain_until if self._gate.draining else 0.0
        if session.status is Status.PAUSING and session.pause is not None:
            return None if session.pause.grace is None else session.pause.since + session.pause.grace
        if session.status is Status.CANCELLING and session.cancel is not None:
            return session.cancel.since + session.cancel.grace
        call = session.calls.get(step)
        if call is None or call.redirected is None:
            return None
        message = session.messages[call.redirected]
        return None if message.grace is None else message.at + message.grace

    def _child_deadline(self) -> float | None:
        """End a call that waits for a child once the child has stopped too, never by a grace of its own."""
        if self._gate.draining:
            return 0.0
        stops = self._journal.session.status in (Status.PAUSING, Status.CANCELLING, Status.HALTED)
        return 0.0 if stops and self._children.have_stopped() else None

    def look_again(self, why: str, delay: float) -> None:
        """Have the driver look in ``delay`` seconds; once for each ``why``."""
        if why in self._timers:
            self._timers[why].cancel()
        self._timers[why] = self._clock.call_later(delay, self._react)

    @property
    def is_ahead(self) -> bool:
        """True if the wall clock was set back behind a session with a deadline, which a sweep would wake too late."""
        ahead = self._journal.now - self._clock.now()
        return bool(self._journal.session.deadlines) and ahead > AHEAD and not self._gate.draining

    def forget(self) -> None:
        """Cancel every timer: nothing of the session is left here."""
        for timer in self._timers.values():
            timer.cancel()
