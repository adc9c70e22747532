"""Settle calls that are open in the journal and not alive: wait, undo, probe or ask, by the effects' table.

``core.effects.next_act`` returns the one thing to do now; it is done and journaled, and the question is asked again. So
a settling that is interrupted by a crash, a pause or a cancel continues from the journal, in any process.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Literal, cast

from midcourse.core import events as ev
from midcourse.core.calls import GIVEN_UP
from midcourse.core.codec import NOTHING, decode, encode, value_of
from midcourse.core.ids import StepId, ask_id
from midcourse.core.interrupted_calls import DID_IT_HAPPEN, RecoveryAction, next_act
from midcourse.core.replies import RunningCall
from midcourse.core.session import OpenCall
from midcourse.errors import MidcourseError, Unencodable
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.tools import Happened
from midcourse.runtime.undo import UndoRunner, pause_before

HAPPENED: Final = "it happened"
DID_NOT: Final = "it did not happen"
Outcome = Literal["settled", "asking"]


class CallRecovery:
    """The calls of one session whose fate is open, on the agent's loop."""

    def __init__(
        self, journal: Journal, gate: Gate, ctx: RuntimeContext, undoing: UndoRunner, *, moved: Callable[[], None]
    ) -> None:
        self.active = gate.settling
        self._journal = journal
        self._gate = gate
        self._ctx = ctx
        self._undo_runner = undoing
        self._moved = moved
        self._stirred = asyncio.Event()

    @property
    def is_draining(self) -> bool:
        """True if this process releases its sessions, so that nothing is waited for."""
        return self._gate.draining

    def remember(self, step: StepId, given: bytes) -> None:
        """Keep the arguments of a call that the journal does not hold in full."""
        self._undo_runner.remember(step, given)

    def check_again(self) -> None:
        """Wake the waiting tasks after a decision, to check if they should still wait."""
        self._stirred.set()

    def open_calls(self) -> Iterable[OpenCall]:
        """Yield the calls that are not alive and about which something is to be done now."""
        session, now = self._journal.session, self._journal.now
        for call in session.calls.values():
            if call.end and next_act(session, call, now).do in ("wait", "undo", "probe", "ask", "give_up"):
                yield call

    def running(self) -> Iterable[RunningCall]:
        """Yield them for a command's reply: not alive, and not settled."""
        for step, doing in self.active.items():
            call = self._journal.session.calls.get(step)
            if call is not None:
                seconds = round(max(0.0, self._journal.now - call.since), 3)
                yield RunningCall(step, call.name, call.kind, call.attempt, seconds, call.effect, doing)

    def expect(self, step: StepId) -> None:
        """Note that a call was aborted, and ``settle`` is about to be called: no stop is complete in between."""
        if step in self._journal.session.calls:
            self.active[step] = "to be settled"

    async def settle(self, step: StepId, *, asks: bool = True) -> Outcome:
        """Settle the call as far as possible now; ``asking``: a person has to answer first."""
        self.active[step] = "to be settled"
        acted: tuple[OpenCall, RecoveryAction] | None = None
        try:
            while True:
                with self._journal.lock:
                    call = self._journal.session.calls.get(step)
                    if call is None or not call.end:
                        return "settled"
                    act = next_act(self._journal.session, call, self._journal.now)
                if act.do == "close" and asks and call.effect == "irreversible" and call.told != "no":
                    act = RecoveryAction("ask")  # the step is wanted again, and it is unknown whether it may be done
                elif act.do == "close" and asks and call.effect == "reversible" and call.undo != "done":
                    act = RecoveryAction("give_up")  # it is wanted again, and may exist
                # One act on one state of the call: without a new fact, or a wait, it would be repeated for ever.
                if act.do != "wait" and (call, act) == acted:
                    raise _no_progress(call, act)
                acted = (call, act)
                match act.do:
                    case "wait" | "probe" if self._gate.draining:
                        return "settled"  # the next owner of the session settles it
                    case "wait" | "undo" | "probe" if call.told != "no" and self._undo_runner.must_wait(call.tool):
                        return "settled"  # a process that has the tool settles it
                    case "wait":
                        await self._wait(act.until)
                    case "undo":
                        self.active[step] = "to be undone"
                        await self._undo(call)
                    case "probe":
                        await self._probe(call)
                    case "ask":
                        if not self._ask(call):
                            return "asking"
                    case "give_up":
                        self._give_up(call)
                    case "leave" | "again" | "close" | "unknown":
                        return "settled"
        finally:
            self.active.pop(step, None)
            self._moved()

    async def _wait(self, until: float) -> None:
        """Wait until it is settled, or something was decided."""
        self._stirred.clear()
        timer = self._ctx.clock.call_later(until - self._journal.now, self._stirred.set)
        try:
            await self._stirred.wait()
        finally:
            timer.cancel()

    async def _undo(self, call: OpenCall) -> None:
        tried = await self._undo_runner.undo_once(call)
        if tried.error:
            await self._ctx.clock.sleep(pause_before(call.undos + 1))

    async def _probe(self, call: OpenCall) -> None:
        tried = await self._undo_runner.probe(call)
        with self._journal.lock:
            match tried.value:
                case Happened(result=result):
                    self._finish(call, result, told_by="probe")
                case True:
                    self._finish(call, None, told_by="probe")
                case False:
                    self._journal.note(ev.StepSettled(step=call.step, attempt=call.attempt, by="probe", happened=False))
                case _:
                    by = f"probe: {tried.error}" if tried.error else "probe"
                    self._journal.note(ev.StepSettled(step=call.step, attempt=call.attempt, by=by))

    def _finish(self, call: OpenCall, result: object, *, told_by: str) -> None:
        try:
            value, blob = value_of(encode(result, what=f"What was reported of step '{call.name}'"))
        except Unencodable:  # that it happened is what counts
            value, blob = NOTHING, None
        finished = ev.StepFinished(step=call.step, attempt=call.attempt, value=value, told_by=told_by)
        self._journal.note(finished, *((blob,) if blob else ()))

    def _ask(self, call: OpenCall) -> bool:
        """Ask a person, once, whether it happened. True: the answer is there, and was used."""
        identity = did_it_happen_id(call)
        with self._journal.lock:
            known = self._journal.log.asks.get(identity)
            if known is None or known.end not in ("", "answered"):  # superseded by a redirect, it is still open
                self._journal.note(self._question(call, identity))
                return False
            if known.end != "answered":
                return False
            answer = decode(known.value.raw)
            happened, result = _parsed_answer(answer)
            if happened is None:
                self._journal.note(self._question(call, identity, f"{answer!r} was not understood. "))
                return False
            if happened:
                self._finish(call, result, told_by="a person")
            else:
                settled = ev.StepSettled(step=call.step, attempt=call.attempt, by="a person", happened=False)
                self._journal.note(settled)
            return True

    def _question(self, call: OpenCall, identity: StepId, before: str = "") -> ev.AskOpened:
        session = self._journal.session
        record = self._journal.log.steps.get(call.step)
        given = f" with {record.arguments}" if record and record.arguments else ""
        return ev.AskOpened(
            ask=ask_id(session.asks_opened + 1),
            step=identity,
            reason=DID_IT_HAPPEN,
            prompt=(
                f"{before}Did '{call.name}'{given} happen? It was cut off before it ended, it cannot be undone, "
                "and nothing can tell whether it was done."
            ),
            options=(HAPPENED, DID_NOT),
        )

    def _give_up(self, call: OpenCall) -> None:
        with self._journal.lock:
            how = f"it raised {call.raised}" if call.end == "failed" else "it was interrupted"
            detail = f"{how}, and its undo failed: it may have happened"
            self._journal.note(ev.StepFailed(step=call.step, attempt=call.attempt, kind=GIVEN_UP, detail=detail))


def _no_progress(call: OpenCall, act: RecoveryAction) -> MidcourseError:
    return MidcourseError(
        f"Step '{call.name}' cannot be settled: '{act.do}' changed nothing. This is a fault of Midcourse; report it "
        "with the session's journal. Cancel the session, or redirect it.",
        code="no_progress",
        step=call.step,
    )


def did_it_happen_id(call: OpenCall) -> StepId:
    """Return the identity of the question whether an attempt happened."""
    return StepId(f"{call.step}!{call.attempt}")


def _parsed_answer(answer: object) -> tuple[bool | None, object]:
    """Return whether it happened, and with what result, from a person's answer."""
    match answer:
        case {"happened": bool(happened)}:
            return happened, cast("dict[str, object]", answer).get("result")
        case bool():
            return answer, None
        case str() if answer.strip().lower() in (HAPPENED, "yes", "y", "happened"):
            return True, None
        case str() if answer.strip().lower() in (DID_NOT, "no", "n", "did not happen"):
            return False, None
        case _:
            return None, None
