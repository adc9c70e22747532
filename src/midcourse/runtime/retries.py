"""Tries a step again that raised what may pass: says when, and waits until then.

The wait is journaled before it begins, so that the next owner of the session waits for the rest of it. A step that
waits stands at the gate: a pause, a cancel and the end of the process find nothing that runs.
"""

import logging

from midcourse.core import events as ev
from midcourse.core.retries import MODEL_RETRY, Retry, retry_after, was_answered
from midcourse.core.session import Session, Status
from midcourse.runtime.asks import last_redirect
from midcourse.runtime.calls import CallEnd, CallInFlight
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.process_pool import ProcessDied
from midcourse.runtime.step_request import StepRequest

log = logging.getLogger("midcourse")


class Retries:
    """The second attempts of one session, on the agent's loop."""

    def __init__(self, journal: Journal, gate: Gate, ctx: RuntimeContext) -> None:
        self._journal = journal
        self._gate = gate
        self._ctx = ctx

    def planned(self, step: StepRequest, call: CallInFlight, ended: CallEnd, detail: str) -> ev.StepRetrying | None:
        """Return the event that it is retried, and when; None: it has failed. Under the journal's lock."""
        error, retry = ended.error, _retry_of(step)
        if error is None or ended.returned or call.timed_out or call.effect == "irreversible":
            return None
        if _is_cancelled(self._journal.session) or not _tries_again(retry, error):
            return None
        clock, record = self._ctx.clock, self._journal.log.steps[step.id]
        now = clock.now()
        told = retry_after(error, now)
        wait = retry.wait(record.failures + 1, clock.random(), told)
        if wait is None:
            return None
        left = self.limit(step)
        if left is not None:
            left -= clock.monotonic() - call.since + wait
            if left <= 0:  # the timeout is for all attempts
                return None
        cost = call.spent.cost if ended.cost is None else ended.cost
        return ev.StepRetrying(
            step=step.id,
            attempt=call.attempt,
            kind=type(error).__name__,
            detail=detail,
            wait=wait,
            again_at=round(now + wait, 3),
            attempts=retry.attempts,
            retry_after=told,
            unanswered=isinstance(error, ProcessDied) or not was_answered(error),
            left=left,
            cost=cost or 0.0,
            tokens=call.tokens if call.spent.tokens is None else call.spent.tokens,
            free=cost == 0,
        )

    def limit(self, step: StepRequest) -> float | None:
        """Seconds that the next attempt may take: what is left of the timeout, which is for all of them."""
        record = self._journal.log.steps.get(step.id)
        if step.tool.timeout is None or record is None or record.left is None:
            return step.tool.timeout
        return record.left

    async def wait(self, step: StepRequest) -> None:
        """Wait until the next attempt is due and the gate is open. A redirect ends the wait of the steps it concerns.

        Raises:
            InterruptRequested: the agent is being interrupted.
        """
        record = self._journal.log.steps.get(step.id)
        if record is None or not record.again_at:
            return
        clock = self._ctx.clock
        # By a clock that never goes back, and never longer than was planned: the other one may have been set.
        seconds = min(record.wait, max(0.0, record.again_at - clock.now()))
        await self._gate.wait_for(seconds, unless=lambda: self._is_redirected(step, record.redirects))
        await self._gate.wait()

    def _is_redirected(self, step: StepRequest, since: int) -> bool:
        """Return True if a redirect closes the step, or is for its model: at once, even if a provider asked to wait."""
        concerns = step.kind == "model" or step.on_redirect == "raise"
        return concerns and last_redirect(self._journal, since=since) is not None


def _retry_of(step: StepRequest) -> Retry:
    if step.retry is not None:
        return step.retry
    if step.kind == "model":
        return MODEL_RETRY
    return step.tool.retry or NEVER


NEVER = Retry(1)
"""The retry of a tool that declares none."""


def _is_cancelled(session: Session) -> bool:
    """Return True if nothing of it is done again."""
    return Status.CANCELLING in (session.status, session.halted_from)


def _tries_again(retry: Retry, error: BaseException) -> bool:
    try:
        return retry.attempts > 1 and retry.tries_again(error)
    except BaseException:  # it is the user's function; what the step raised is what counts
        log.exception("what says which errors are tried again raised an error itself: the step counts as failed")
        return False
