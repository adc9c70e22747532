"""Roll back for a cancel or an undo: calls in flight, then children, then finished effects, then holds.

Every act is journaled as it is done, so that it continues there after a crash; finished ones are skipped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.codec import without_secrets
from midcourse.core.effects import UndoChoice
from midcourse.core.ids import Position, SessionId, child_id
from midcourse.core.interrupted_calls import UNDO_TRIES
from midcourse.core.receipt import EffectLedger, failed_rollback
from midcourse.core.session import ENDED, StandingCancel, Status
from midcourse.errors import Damaged, MidcourseError, Refused, SessionNotFound, StoreError, describe
from midcourse.runtime.call_recovery import CallRecovery
from midcourse.runtime.children import parent_name, passed_on_id
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.journal import Journal
from midcourse.runtime.session_loader import read_events
from midcourse.runtime.undo import UndoRunner

log = logging.getLogger("midcourse")

_HOLDS_BACK: Final = frozenset({Status.HALTED, Status.PAUSING, Status.PAUSED})
"""The statuses in which nothing is rolled back or released."""


class Rollback:
    """One session's, on the agent's loop."""

    def __init__(
        self,
        journal: Journal,
        ctx: RuntimeContext,
        undoing: UndoRunner,
        settling: CallRecovery,
        *,
        moved: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._ctx = ctx
        self._undo_runner = undoing
        self._call_recovery = settling
        self._moved = moved
        self.problem = ""
        """The unexpected error that ended it; empty: none."""
        self._done: set[UndoChoice] = set()
        self._task: asyncio.Task[None] | None = None
        self._was_cut_short = False

    @property
    def lacks_tools(self) -> bool:
        """True if it needs tools that this process does not have, and must wait for one that does."""
        return bool(self._undo_runner.missing) and bool(self._journal.session.needs)

    @property
    def is_running(self) -> bool:
        """True while it runs."""
        return self._task is not None

    def is_done(self, choice: UndoChoice) -> bool:
        """Return True if everything that ``choice`` asks for was tried."""
        return choice in self._done

    def is_needed(self, choice: UndoChoice) -> bool:
        """Return True if there is anything to do for ``choice`` that needs the tools."""
        session = self._journal.session
        return choice == "all" or bool(session.holds) or any(True for _ in self._call_recovery.open_calls())

    def receipt_lines(self, receipt: Iterable[ev.ReceiptLine]) -> tuple[ev.ReceiptLine, ...]:
        """Return the receipt; if the rollback itself has failed, its last line says so."""
        return (*receipt, failed_rollback(self.problem)) if self.problem else tuple(receipt)

    def start(self, choice: UndoChoice) -> None:
        """Begin, unless it is under way."""
        if self._task is None:
            self._undo_runner.missing.clear()
            self._task = self._ctx.loop.create_task(self._run(self._roll_back(choice), choice))

    def has_released(self) -> bool:
        """Return True if every hold is released or has failed to; else begin to release."""
        if self.problem or all(hold.tries >= UNDO_TRIES for hold in self._journal.session.holds.values()):
            return True
        if self._task is None:
            self._task = self._ctx.loop.create_task(self._run(self._release(), None))
        return False

    async def _run(self, work: Awaitable[None], choice: UndoChoice | None) -> None:
        halts = self._journal.session.halts
        self._was_cut_short = False
        try:
            await work
            self._journal_missing_tools()
            # Cut short by a halt, a pause or a drain, it continues later, here or elsewhere.
            if choice is not None and not self._was_cut_short and halts == self._journal.session.halts:
                self._done.add(choice)
        except StoreError as error:  # the journal cannot be written: its next owner continues from there
            self._journal.fail(error)
        except Exception as error:  # noqa: BLE001 - begun again at once, it would fail again, without end
            self._note_problem(error)
            if choice is not None:
                self._done.add(choice)
        finally:
            self._task = None
            self._moved()

    def _note_problem(self, error: Exception) -> None:
        is_ours = isinstance(error, MidcourseError)  # says itself what happened
        log.error("session %s: its rollback failed: %s", self._journal.session.id, error, exc_info=not is_ours)
        told = without_secrets(f"{type(error).__name__}: {describe(error)}")
        self.problem = f"{self.problem}; {told}" if self.problem else told

    def _journal_missing_tools(self) -> None:
        """Journal the tools that it waits for. Said once: who takes the session later may lack them as well."""
        missing = tuple(sorted(self._undo_runner.missing))
        if not missing:
            return
        self._was_cut_short = True
        with self._journal.lock:
            session = self._journal.session
            if session.waits_for_tools and session.needs != missing:
                self._journal.note(ev.ToolsNeeded(tools=missing))
                log.warning(
                    "session %s is not rolled back yet: what it undoes needs %s, which this process does not have. It "
                    "continues in a process that imports it. To give it up: midcourse cancel %s --force",
                    session.id,
                    ", ".join(missing),
                    session.id,
                )

    def _must_stop(self) -> bool:
        """Return True if nothing more may be begun now. The rest is left for later."""
        self._was_cut_short = self._was_cut_short or self._journal.session.status in _HOLDS_BACK
        return self._was_cut_short

    async def _roll_back(self, choice: UndoChoice) -> None:
        # What an ended session left open is an effect like any other: there is no ask about it any more.
        open_calls = tuple(self._journal.session.calls) if self._journal.session.status is Status.CANCELLING else ()
        for step in reversed(open_calls):
            await self._call_recovery.settle(step, asks=False)
        if self._call_recovery.is_draining and any(True for _ in self._call_recovery.open_calls()):
            self._was_cut_short = True
            return
        cancel = self._journal.session.cancel
        if choice == "in-flight" and cancel is not None and _has_ended_since(cancel):
            for entry in (await self._ledger()).ended_too_late(cancel):
                await self._undo_runner.undo_entry(entry)
        if choice == "all":
            ledger = await self._ledger()
            for child in reversed(ledger.children):
                if not self._must_stop():
                    try:
                        await self._undo_child(child_id(self._journal.session.id, child))
                    except Damaged as error:  # what else there is can still be undone
                        self._note_problem(error)
            in_flight = {call.key for call in self._journal.session.calls.values() if call.step in open_calls}
            for entry in ledger.to_undo():
                if entry.call.key not in in_flight and not self._must_stop():
                    await self._undo_runner.undo_entry(entry)
        if choice != "none":
            await self._release()

    async def _release(self) -> None:
        for hold in reversed(tuple(self._journal.session.holds.values())):
            if not self._must_stop():
                await self._undo_runner.release(hold)

    async def _ledger(self) -> EffectLedger:
        with self._journal.lock:
            written = self._journal.append()  # what was noted is read back below
        await written
        ledger, after = EffectLedger(), Position(0)
        while records := await read_events(self._ctx.store, self._journal.session.id, after):
            for record in records:
                ledger.apply(record)
            after = records[-1].position
        return ledger

    async def _undo_child(self, child: SessionId) -> None:
        """Roll a child back that had ended before its parent. One that is live was cancelled with its parent."""
        parent = self._journal.session.id
        turn, gives_up = self._journal.session.turn, not self._journal.session.waits_for_tools
        identity = passed_on_id(child, f"undo/{turn}")
        command = cmd.Undo(id=identity, by=parent_name(parent), role="operate")
        try:
            await self._ctx.tree.send(child, command, until="decided", wait=60.0)
        except (Refused, SessionNotFound):
            return
        with self._ctx.fanout.watching(child) as watcher:
            while True:
                session = await self._ctx.tree.look_up(child)
                if session.status not in ENDED or not session.is_being_undone:
                    return
                if session.needs and not gives_up:
                    self._undo_runner.missing.update(session.needs)
                    self._was_cut_short = True  # children are rolled back before their parent
                    return
                if session.needs:
                    given_up = cmd.Cancel(
                        id=passed_on_id(child, f"give-up/{turn}/{session.position}"),
                        by=parent_name(parent),
                        role="operate",
                        force=True,
                    )
                    await self._ctx.tree.send(child, given_up, until="decided", wait=60.0)
                await watcher.wait(1.0)


def _has_ended_since(cancel: StandingCancel) -> bool:
    """Return True if a call that was in flight when the cancel came has ended by itself."""
    return any(line.outcome in ("kept", "unknown") and line.effect != "hold" for line in cancel.receipt.values())
