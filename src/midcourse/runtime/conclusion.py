"""Conclusion: what is journaled once nothing runs any more. A pause, a receipt, a failure, the end of a turn."""

from collections.abc import Callable

from msgspec.structs import replace

from midcourse.core import events as ev
from midcourse.core.codec import NOTHING, Blob, value_of
from midcourse.core.effects import UndoChoice
from midcourse.core.ids import Position, pause_id
from midcourse.core.receipt import begins_anew
from midcourse.core.session import Message, Status
from midcourse.core.turns import closed, next_turn
from midcourse.errors import MidcourseError
from midcourse.runtime.agent_task import AgentFailed, AgentReturned, AgentTask
from midcourse.runtime.children import Children
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.deadlines import Deadlines
from midcourse.runtime.gate import LETS_RUN, Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.parking import Parking
from midcourse.runtime.rollback import Rollback


class Conclusion:
    """The end of one session's stops, rollbacks and turns. On the agent's loop."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        task: AgentTask,
        ctx: RuntimeContext,
        *,
        children: Children,
        rollback: Rollback,
        deadlines: Deadlines,
        parking: Parking,
        has_agent: bool,
        react: Callable[[], None],
        react_soon: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._gate = gate
        self._task = task
        self._ctx = ctx
        self._children = children
        self._rollback = rollback
        self._deadlines = deadlines
        self._parking = parking
        self._has_agent = has_agent
        self._react = react
        self._react_soon = react_soon
        self._heard: int | None = None

    def note_return(self) -> None:
        """Note that later messages come after the agent's end."""
        if self._heard is None and isinstance(self._task.ending, AgentReturned):
            self._heard = len(self._journal.session.messages)

    def finish_pause(self) -> None:
        """Complete the pause: nothing runs, and the agent is idle."""
        if not self._children.have_stopped() or self._gate.has_calls or self._task.is_in_its_own_code:
            return
        if self._rollback.is_running:
            return
        with self._journal.lock:
            session = self._journal.session
            if session.status is Status.PAUSING:
                unreached = tuple(sorted(self._children.unreached))
                self._journal.append(ev.SessionPaused(unknown=session.lost, unreached=unreached))

    def finish_cancel(self) -> None:
        """Calls first, then the agent, then what is rolled back, then the receipt."""
        cancel = self._journal.session.cancel
        if not self._children.have_stopped() or self._gate.has_calls or cancel is None:
            return
        if self._task.is_alive:
            left = cancel.since + cancel.grace - self._journal.now
            if self._task.is_in_its_own_code and left > 0:
                self._deadlines.look_again("cancel", left)
            else:
                self._task.take_down()
            return
        if self._rolls_back(cancel.undo):
            return
        unreached = tuple(sorted(self._children.unreached))
        receipt = self._rollback.receipt_lines(cancel.receipt.values())
        ended = ev.SessionCancelled(receipt=receipt, unreached=unreached)
        if begins_anew(self._journal.session):
            self._parking.leaving = self._ctx.loop.create_task(self._restart(ended, self._journal.session.position))
        else:
            self._parking.let_go(ended)

    async def _restart(self, ended: ev.SessionCancelled, seen: Position) -> None:
        """Begin the work of a session anew that was ended by force, and then end it. Again after a crash."""
        try:
            new = await self._ctx.tree.restart(self._journal.session)
        except MidcourseError as error:
            self._parking.leaving = None
            self._journal.fail(error)  # it is acquired again, and tries again
            self._react()
        else:
            self._parking.let_go(replace(ended, restarted_as=new), seen=seen)  # unless something was decided meanwhile

    def finish_undo(self) -> None:
        """Complete the rollback of a session that had ended."""
        undo = self._journal.session.undo
        if undo is not None and not undo.done and not self._rolls_back("all"):
            self._parking.let_go(ev.UndoFinished(receipt=self._rollback.receipt_lines(undo.receipt.values())))

    def _rolls_back(self, choice: UndoChoice) -> bool:
        """Return True if a rollback is under way, here or (after a release) by a process that has the tools."""
        if self._rollback.is_done(choice):
            return False
        if self._rollback.is_running:
            return True
        # The next owner of the session continues it.
        if self._rollback.lacks_tools or (self._gate.draining and self._rollback.is_needed(choice)):
            self._parking.let_go()
            return True
        if not self._has_agent and self._rollback.is_needed(choice):
            self._parking.let_go()
        else:
            self._rollback.start(choice)
        return True

    def fail(self, failure: AgentFailed) -> None:
        """Journal the failure, once nothing of the session runs."""
        if self._gate.has_calls or self._task.is_alive:  # what is in flight ends by itself; its result is kept
            return
        failed = ev.SessionFailed(code=failure.code, message=failure.message, step=failure.step)
        with self._journal.lock:
            self._end_turn((*closed(self._journal.session.asks, "withdrawn"), failed))

    def _end_turn(self, ended: tuple[ev.AnyEvent, ...], blobs: tuple[Blob, ...] = ()) -> None:
        """End the last turn. A cancel that has waited for it rolls back. Under the journal's lock."""
        session = self._journal.session
        stop = session.deferred
        if stop is not None and stop.stop == "cancel":
            ended = (*(ev.MessageWithdrawn(message=one.id, by=stop.by) for one in session.queue), *ended)
            if stop.undo == "all":
                self._journal.append(*ended, ev.UndoRequested(by=stop.by, reason=stop.reason), blobs=blobs)
                self._react_soon()
                return
        self._parking.let_go(*ended, blobs=blobs)

    def complete(self, returned: AgentReturned) -> None:
        """End the turn with the agent's result, once what it held has been released."""
        if self._rollback.problem:
            words = f"What the session holds could not be released: {self._rollback.problem}"
            self._task.ending = AgentFailed("release_failed", words)
            self._react_soon()
        elif self._rollback.has_released():
            self._complete(returned)

    def _complete(self, returned: AgentReturned) -> None:
        result, blob = value_of(returned.result)
        state, another = value_of(returned.state)
        history, third = (NOTHING, None) if returned.grown is None else value_of(returned.grown)
        blobs = tuple(one for one in (blob, another, third) if one is not None)
        with self._journal.lock:  # what is decided meanwhile, on another thread, is for this end or for the next turn
            session = self._journal.session
            if session.status not in LETS_RUN:  # stopped since: the one who decided that wakes this driver
                return
            woken = (ev.SessionWoken(),) if session.status is Status.WAITING else ()
            ended = (
                *woken,
                *closed(self._journal.session.asks, "withdrawn"),
                ev.SessionCompleted(result=result, state=state, history=history),
            )
            late = () if self._heard is None else session.messages[self._heard :]
            if session.deferred is not None and session.deferred.stop == "cancel":
                self._end_turn(ended, blobs)
            elif any(not message.withdrawn for message in late):
                self._open_turn(_turn_of(late), ended, blobs)
            elif session.queue:
                self._open_turn(next_turn(session), ended, blobs)
            else:
                self._end_turn(ended, blobs)

    def _open_turn(self, opened: ev.TurnOpened, ended: tuple[ev.AnyEvent, ...], blobs: tuple[Blob, ...]) -> None:
        """Open the next turn: the agent is done, and there is more to do. Under the journal's lock."""
        session = self._journal.session
        waits: tuple[ev.AnyEvent, ...] = ()
        if session.deferred is not None:  # a pause that has waited for this end: the next turn waits for its resume
            deferred = session.deferred
            ordinal = pause_id(session.pauses + 1)
            pause = ev.PauseRequested(pause=ordinal, by=deferred.by, reason=deferred.reason, lapses=deferred.lapses)
            waits = (pause, ev.SessionPaused())
        self._journal.append(*ended, opened, *waits, blobs=blobs)
        self._heard = self._task.ending = None
        self._react_soon()


def _turn_of(late: tuple[Message, ...]) -> ev.TurnOpened:
    """Return the turn that is opened by a message that came after the agent had returned."""
    said = [message for message in late if not message.withdrawn]
    text = "\n".join(message.text for message in said)
    return ev.TurnOpened(text=text, level=said[-1].level, by=said[-1].by, repeats=len(late))
