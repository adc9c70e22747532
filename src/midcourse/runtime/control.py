"""Commands to any session: put into its inbox, decided by its owner, answered with what is known."""

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from itertools import count
from math import inf
from typing import get_args

from midcourse.clock import wait as wait_for
from midcourse.core import commands as cmd
from midcourse.core.audit import made
from midcourse.core.budget import Outlay, remaining
from midcourse.core.commands import AnyCommand, check_command, decode_command, is_below
from midcourse.core.events import (
    Record,
    SessionCreated,
    encode_record,
)
from midcourse.core.fold import first
from midcourse.core.ids import Position, SessionId, again_id
from midcourse.core.pauses import finishes_first
from midcourse.core.replies import Level, Reply
from midcourse.core.session import ENDED, LIVE, Session, Status
from midcourse.errors import (
    Damaged,
    InvalidInput,
    MidcourseError,
    Refused,
    SessionNotFound,
    StoreError,
    StoreUnavailable,
)
from midcourse.ports.active_switches import halt_of
from midcourse.ports.bus import Wake, Watch
from midcourse.ports.store import Creation, InboxRow
from midcourse.runtime.agents import Agent
from midcourse.runtime.children import foreseen, parent_name, passed_on_id
from midcourse.runtime.command_outcome import CommandOutcome, decode_outcome, raise_if_refused
from midcourse.runtime.driver import Driver
from midcourse.runtime.fanout import Watcher
from midcourse.runtime.journal import head_of
from midcourse.runtime.session_loader import load
from midcourse.runtime.worker import Worker

_LEAST_WAIT = 1.0
_LATE = 0.5
"""Seconds that an answer may come late. At least one is waited for the store, however impatient the caller is."""
_SLOW = 0.25
"""Seconds after which a stop that is not written yet is sent to the children in this process beforehand."""
STOP_COMMANDS = (cmd.Pause, cmd.Cancel, cmd.Halt)
STOPPING = frozenset({Status.PAUSING, Status.CANCELLING, Status.HALTED})
STOPPED = frozenset({Status.PAUSED}) | ENDED


class Control:
    """The verbs of a session, from this process, whichever process owns it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    async def send(self, session_id: SessionId, command: AnyCommand, *, until: Level, wait: float) -> Reply:
        """Send a command and answer once ``until`` is reached, or after ``wait`` seconds with what is known by then.

        Raises:
            Refused: the command is not allowed now.
            SessionNotFound: no such session.
            InvalidInput: it cannot be carried out.
        """
        content = check_command(command)
        if until not in get_args(Level):
            raise InvalidInput(f"until is {until!r}; it is one of {', '.join(get_args(Level))}.", field="until")
        unwritten = self.worker.failed_writes
        place, earlier = unwritten.place(), unwritten.deferred(session_id)
        driver = self._driver_to_shut(session_id, command)
        # Without a driver because an earlier write failed: nothing of it runs, and nothing begins before this is put.
        holds = driver is not None or (isinstance(command, STOP_COMMANDS) and self.worker.has_given_up(session_id))
        if holds:
            unwritten.defer(session_id, command)  # any owner until this is written
        if driver is not None:
            driver.shut()  # the stop does not wait for the disk, nor does the abort
            driver.stop_ahead(command)
        # In a task of its own: the gate stays shut until the stop is decided, even if the caller gives up waiting.
        sending = asyncio.ensure_future(
            self._send(session_id, command, content, driver, earlier, place, holds=holds, until=until, wait=wait)
        )
        sending.add_done_callback(lambda done: self._after_sending(done, session_id, command, driver, holds=holds))
        if await wait_for(self.worker.clock, {sending}, _SLOW):
            return sending.result()
        if holds and unwritten.has_deferred(session_id):  # the store is slow: its children's gates do not wait for it
            driver = self.worker.driver(session_id) or driver
            if driver is not None:
                self._stop_below(driver, command)
        if await wait_for(self.worker.clock, {sending}, max(wait, _LEAST_WAIT) + _LATE - _SLOW):
            return sending.result()
        if not holds:
            raise StoreUnavailable(
                f"Cannot {cmd.phrase(command)} session '{session_id}': the store has not written it within {wait:g} s, "
                f"and may still do so. Send it again with the same id ('{command.id}') to see its outcome.",
                session_id=session_id,
            )
        return self._not_durable(session_id, self.worker.driver(session_id) or driver)

    def _driver_to_shut(self, session_id: SessionId, command: AnyCommand) -> Driver | None:
        """Return the driver whose gate a stop shuts before anything is written, if there is one in this process."""
        driver = self.worker.driver(session_id) if isinstance(command, STOP_COMMANDS) else None
        waits = isinstance(command, cmd.Pause) or (isinstance(command, cmd.Cancel) and not command.force)
        # What is protected, or was priced before, goes on until its end: nothing is held back on the way there.
        if (
            driver is None
            or (waits and finishes_first(driver.session))
            or self.lets_priced_end(driver.session, command)
        ):
            return None
        return driver

    async def _send(
        self,
        session_id: SessionId,
        command: AnyCommand,
        content: bytes,
        driver: Driver | None,
        earlier: Sequence[AnyCommand],
        place: int,
        *,
        holds: bool,
        until: Level,
        wait: float,
    ) -> Reply:
        """``earlier``: the stops that were owed when it was sent, at that ``place``, which go into the inbox first."""
        worker = self.worker
        status = ""
        deadline = worker.clock.monotonic() + wait
        try:
            if driver is None:
                status = (await worker.must_exist(session_id)).head.status
            lifts = command.role == "operate" and isinstance(command, cmd.Lift | cmd.Resume)
            # Whatever its head says: the halt may lie in the inbox. The record of its switch is older than that.
            if lifts and await worker.standing.recent():
                await self._check_standing(session_id, command)
            await worker.failed_writes.flush(session_id, earlier)
            if not isinstance(command, STOP_COMMANDS) and worker.failed_writes.has_answered_since(session_id, place):
                raise StoreUnavailable(
                    f"Cannot {cmd.phrase(command)} session '{session_id}': it was stopped after this was sent, and "
                    "before the store could take it. Nothing was stored. Send it again if the session is to continue.",
                    session_id=session_id,
                )
            row = await worker.store.put(session_id, command.id, content, worker.clock.now())
            if holds:
                worker.failed_writes.forget_deferred(session_id, command.id)
            worker.failed_writes.written()
            worker.failed_writes.try_soon(session_id)
            # Equal commands may be spelled differently: what is left out as a default is a matter of identity.
            if row.content not in (content, b"") and decode_command(row.content) != command:
                raise Refused(
                    f"Cannot {cmd.phrase(command)} session '{session_id}': the command id '{command.id}' was used "
                    "before, for something else (command_id_taken). Leave it out, or use a fresh one for each command.",
                    code="command_id_taken",
                    session_id=session_id,
                )
            with worker.fanout.watching(session_id) as watcher:
                left = max(0.0, deadline - worker.clock.monotonic())
                outcome = await self._outcome(session_id, row, watcher, min(left, worker.settings.unreachable_after))
                if outcome is None:
                    return await self._unanswered(session_id, row, patient=wait >= worker.settings.unreachable_after)
                raise_if_refused(session_id, outcome)
                # A switch may have been thrown between the look and the decision, which is journaled: no refusal.
                halted = await self._halted_again(session_id) if lifts and await worker.standing.recent() else None
                return halted or await self._reply(session_id, outcome, watcher, until, deadline)
        except (StoreError, Damaged) as error:  # it cannot be written, or not even be read
            if not holds:
                raise
            if worker.failed_writes.has_deferred(session_id):  # another driver may have taken it since
                driver = worker.driver(session_id) or driver
            return await self._stopped_all_the_same(session_id, command, driver, error, status)

    async def _halted_again(self, session_id: SessionId) -> Reply | None:
        """Halt a session that was released under a kill switch, and say how far that has got. None: nothing to halt."""
        session = await self.session(session_id)
        switch = await self.worker.standing.switch_over(session)
        if switch is None:
            return None
        halt = halt_of(switch, session)
        try:
            return await self.send(session_id, halt, until="stopping", wait=self.worker.settings.cleanup)
        except Refused:  # it has ended meanwhile
            return None

    async def _check_standing(self, session_id: SessionId, command: AnyCommand) -> None:
        """Refuse to lift a halt while a kill switch stands over the session."""
        switch = await self.worker.standing.switch_over(await self.session(session_id))
        if switch is None:
            return
        raise Refused(
            f"Cannot {cmd.phrase(command)} session '{session_id}': kill switch '{switch.id}' is in force over "
            f"{switch.scope} ({switch.reason}). Lift the switch first: "
            f"midcourse kill-switch lift {switch.id} --why '…'.",
            code="kill_switch_stands",
            session_id=session_id,
            switch=switch.id,
        )

    async def _outcome(
        self, session_id: SessionId, row: InboxRow, watcher: Watcher, wait: float
    ) -> CommandOutcome | None:
        """Return how the row was decided, by the owner or, without one, here. None: the owner is silent."""
        worker = self.worker
        deadline = worker.clock.monotonic() + wait
        if row.outcome is not None:
            return decode_outcome(row.outcome)
        wake_at = -inf
        while True:
            now = worker.clock.monotonic()
            if now >= wake_at:  # a wake-up from the owner is answered by a look, and not by another one
                wake_at = now + 0.05
                driver = worker.driver(session_id)
                if driver is not None:
                    decided = await driver.settle(row)
                    if row.id in decided:
                        return decided[row.id]
                else:
                    owned = await worker.store.head(session_id)
                    if owned.alive and owned.owner != worker.id:
                        worker.bus.send(owned.address, Wake(session_id, reply_to=worker.bus.address))
                    # An owner that has decided it and released since needs no heir.
                    elif (outcome := await self._known_outcome(session_id, row)) is not None:
                        return outcome
                    else:
                        await worker.attend(session_id)
            if (outcome := await self._known_outcome(session_id, row)) is not None:
                return outcome
            now = worker.clock.monotonic()
            if now >= deadline:
                return None
            if now < wake_at:
                await watcher.wait(min(deadline, wake_at) - now)

    async def _known_outcome(self, session_id: SessionId, row: InboxRow) -> CommandOutcome | None:
        known = await self.worker.store.row(session_id, row.id)
        return decode_outcome(known.outcome) if known is not None and known.outcome is not None else None

    async def _unanswered(self, session_id: SessionId, row: InboxRow, *, patient: bool) -> Reply:
        """Return the reply to a durable, undecided command: the owner is silent, or the caller waited too short."""
        owned = await self.worker.store.head(session_id)
        # One silence has one beginning, whichever command it is asked about.
        oldest = min((one.put_at for one in await self.worker.store.undecided(session_id)), default=row.put_at)
        return Reply(
            level="accepted",
            status=owned.head.status,
            session=session_id,
            durability=self.worker.store.durability,
            position=owned.head.position,
            unreachable_since=oldest if patient else None,
        )

    async def _reply(
        self,
        session_id: SessionId,
        outcome: CommandOutcome,
        watcher: Watcher,
        until: Level,
        deadline: float,
    ) -> Reply:
        worker = self.worker
        status, position = Status(outcome.status), outcome.position
        running, unknown, deferred = outcome.running, outcome.unknown, outcome.deferred
        # The wake-up for another owner's decision may have been the one for the end of the stop, too.
        is_first = worker.driver(session_id) is None
        while until == "stopped" and (deferred or _level(status, running) == "stopping"):
            left = deadline - worker.clock.monotonic()
            if left <= 0:
                break
            await self.listen_to_owner(session_id, deltas=False)
            if not is_first:
                await watcher.wait(min(left, 0.1))
            is_first = False
            owned = await worker.must_exist(session_id)
            driver = worker.driver(session_id)
            if driver is not None:
                # An agent that outlives its deadline may have been in a step when the stop was decided.
                running, session = driver.running(), driver.session
                if session.position > owned.head.position:  # its fold runs ahead of the disk
                    continue
            else:
                session = (await load(worker.store, owned.head)).state.session
                running = tuple(call for call in running if call.step in session.running) if owned.alive else ()
            status, position, unknown = session.status, session.position, session.lost
            deferred = session.finishing is not None
            if driver is None and not owned.alive:  # its process has died, and no process takes what is halted
                unknown = (*unknown, *session.running)
        session = await self.session(session_id) if status in ENDED else None
        return Reply(
            level="decided" if deferred or until == "decided" else _level(status, running),
            status=status.value,
            session=session_id,
            durability=worker.store.durability,
            position=position,
            pause=outcome.pause,
            message=outcome.about,
            running=running,
            unknown=unknown,
            receipt=session.receipt if session else (),
            finishes_first=deferred,
            restarted_as=session.restarted_as if session else None,
            counted=outcome.counted,
            paused_by=outcome.paused_by,
        )

    async def _stopped_all_the_same(
        self,
        session_id: SessionId,
        command: AnyCommand,
        driver: Driver | None,
        error: MidcourseError,
        status: str,
    ) -> Reply:
        """The stop could not be written: the gate stays shut, what runs is stopped, and the answer says so."""
        if driver is None:
            return self._not_durable(session_id, None, status=status)
        worker, below = self.worker, self._stop_below(driver, command)
        driver.journal.fail(error)
        driver.wake()
        deadline = worker.clock.monotonic() + worker.settings.cleanup
        with worker.fanout.watching(session_id) as watcher:
            while not driver.is_over and worker.clock.monotonic() < deadline:
                await watcher.wait(0.02)
        if below:
            await wait_for(worker.clock, below, max(0.0, deadline - worker.clock.monotonic()))
        return self._not_durable(session_id, driver, is_over=driver.is_over)

    def _stop_below(self, driver: Driver, command: AnyCommand) -> list["asyncio.Task[None]"]:
        """Send the children in this process the stop that their parent passes on once it is written: the same one."""

        async def stop(child: SessionId) -> None:
            passed = foreseen(driver.session, command, child, driver.now)
            if passed is not None:
                with contextlib.suppress(Refused):  # it has ended, or an operator holds it
                    await self.send(child, passed, until="stopped", wait=0.0)

        below = [one.id for one in self.worker.drivers() if one.id.rpartition(".")[0] == driver.id]
        return [asyncio.ensure_future(stop(child)) for child in below]

    def _not_durable(
        self, session_id: SessionId, driver: Driver | None, *, is_over: bool = True, status: str = ""
    ) -> Reply:
        self.worker.failed_writes.answered(session_id)
        running = () if driver is None else driver.running()
        running += tuple(
            call for one in self.worker.drivers() if is_below(one.id, session_id) for call in one.running()
        )
        known = status if driver is None else driver.journal.session.status.value
        # A child of another process is reached once the stop is written.
        reached = driver is None or all(
            self.worker.driver(child) is not None or self.worker.has_given_up(child)
            for child in driver.session.children.values()
        )
        return Reply(
            level="stopped" if is_over and reached and not running else "stopping",
            status=known or Status.RUNNING.value,
            session=session_id,
            durability=self.worker.store.durability,
            durable=False,
            running=running,
        )

    def _after_sending(
        self,
        sent: "asyncio.Task[Reply]",
        session_id: SessionId,
        command: AnyCommand,
        driver: Driver | None,
        *,
        holds: bool,
    ) -> None:
        """Undo ``shut``: the stop was decided or refused, and the status alone counts again."""
        is_refused = not sent.cancelled() and sent.exception() is not None  # the caller may have given up waiting
        if holds and is_refused:
            self.worker.failed_writes.forget_deferred(session_id, command.id)
        if driver is not None:
            driver.unshut()
        if holds and (another := self.worker.driver(session_id)) is not None and another is not driver:
            another.wake()

    async def create_child(self, child: SessionId, agent: Agent[object], goal: str, parent: SessionId) -> None:
        """Create a child, queued and unowned, or find it as it is."""
        try:
            await self.worker.create(child, agent, goal, parent=parent)
        except StoreError as error:
            if error.code != "session_exists":
                raise

    async def start_child(self, child: SessionId, parent: SessionId, *, again: bool) -> None:
        """Start a queued child, lift what its parent had stopped it with, and try a failed one ``again``."""
        session = await self.session(child)
        by = parent_name(parent)
        command: AnyCommand | None = None
        if session.status is Status.HALTED and session.halted_by == by and session.pause is not None:
            lift = cmd.Lift(id=passed_on_id(child, f"lift/{session.halts}"), by=by, role="operate")
            with contextlib.suppress(Refused):  # another process was faster
                await self.send(child, lift, until="decided", wait=self.worker.settings.unreachable_after)
            session = await self.session(child)
        if session.finishing is not None and session.finishing.by == by and session.finishing.stop == "pause":
            command = cmd.Resume(id=passed_on_id(child, f"back/{session.position}"), by=by)
        elif session.pause is not None and (held := session.pause.of(by)) is not None:
            command = cmd.Resume(id=passed_on_id(child, f"resume/{held.id}"), by=by, pause=held.id)
        elif session.status is Status.HALTED and session.halted_by == by:
            command = cmd.Lift(id=passed_on_id(child, f"lift/{session.halts}"), by=by, role="operate")
        elif session.status is Status.FAILED and again:
            command = cmd.Resume(id=passed_on_id(child, f"again/{session.position}"), by=by)
        if command is not None:
            with contextlib.suppress(Refused):  # another process was faster
                await self.send(child, command, until="decided", wait=self.worker.settings.unreachable_after)
            session = await self.session(child)
        if session.status is Status.QUEUED:
            await self.worker.attend(child, sponsor=self.worker.driver(parent))

    async def restart(self, session: Session) -> SessionId:
        """Begin anew what was forced to end: the same agent, goal and terms."""
        worker = self.worker
        assert session.cancel is not None
        created = SessionCreated(
            agent=session.agent,
            agent_version=session.agent_version,
            mode=session.mode,
            origin=session.origin,
            resumable=session.resumable,
            goal=session.goal,
            restarts=session.id,
            terms=session.terms,
            by=session.cancel.by,
        )
        at = worker.clock.now()
        content = encode_record(Record(at, created))
        for number in count(1):
            new = again_id(session.id, number)
            try:
                there = await self.session(new)
            except SessionNotFound:
                state = first(new, at, created, content)
                worker.adopt(new, session.id)
                rows = [(Position(1), content, state.digest)]
                by = session.cancel.by
                entry = made(new, by, "operate", "session.start", f"{session.agent}: {session.id} anew", at)
                await worker.store.create(
                    Creation(head_of(state.session, state.digest), rows, worker=None, audit=(entry,))
                )
            except Damaged:  # another owner's, or without one now
                continue
            else:
                if there.restarts != session.id:  # else: begun by a process that died before it could report it
                    continue
            if worker.drives:
                await worker.attend(new)
            return new
        raise AssertionError("numbers do not end")

    async def reopened(self, session: Session) -> Sequence[SessionId]:
        """Return the sessions below this one that had ended and work again, as far as no live one is between."""
        live = {head.id: head for head in await self.worker.store.below(session.id, sorted(LIVE))}
        own = frozenset(session.children.values())
        return [head.id for head in live.values() if head.id not in own and not _is_below(head.id, session.id, live)]

    async def look_up(self, child: SessionId) -> Session:
        """Return a session as it is, from memory if it is driven here."""
        return self.look_up_here(child) or await self.session(child)

    def look_up_here(self, session_id: SessionId) -> Session | None:
        """Return a session as it is, if it is driven here."""
        driver = self.worker.driver(session_id)
        return None if driver is None else driver.journal.session

    def affords(self, session_id: SessionId, price: float) -> bool:
        """Return True if a session and those above it, if driven here, can pay ``price``; else they pause."""
        driver = self.worker.driver(session_id)
        return driver is None or driver.session_budget.affords(price)

    def lets_priced_end(self, child: Session, command: AnyCommand) -> bool:
        """Return whether a command to a child passes on its parent's pause for the price of a call alone."""
        if not isinstance(command, cmd.Pause) or child.parent is None or command.by != parent_name(child.parent):
            return False
        above = self.worker.driver(child.parent)
        return above is not None and above.gate.lets_priced_end

    def count_child(self, parent: SessionId, child: SessionId, dollars: float) -> None:
        """Tell a parent, if it is driven here, what a child has spent in all."""
        driver = self.worker.driver(parent)
        if driver is not None:
            driver.session_budget.count_child(child, dollars)

    async def left_above(self, session: Session) -> float | None:
        """Dollars that those above a session can still pay, if other processes drive them; None: any sum."""
        if session.parent is None:
            return None
        here = self.worker.driver(session.parent)
        if here is not None:
            await here.session_budget.look_above()
            return None
        try:
            above = await self.session(session.parent)
            if session.id not in above.children.values():  # it works again, on its own
                return None
            # What is protected finishes its turn at the cap, and its children with it.
            left = None if finishes_first(above) else remaining(above, await self.cost(above.id))
        except (SessionNotFound, Damaged):
            return None
        further = await self.left_above(above)
        return min((one for one in (left, further) if one is not None), default=None)

    async def cost(self, session_id: SessionId) -> float:
        """Dollars that a session has spent, with what its children have that have not ended.

        Raises:
            SessionNotFound: no such session.
            Damaged: its journal is damaged.
        """
        here = self.outlay(session_id)
        if here is not None:
            return here.spent
        state = (await load(self.worker.store, (await self.worker.must_exist(session_id)).head)).state
        total = state.session.cost
        for step, child in state.session.children.items():
            with contextlib.suppress(SessionNotFound, Damaged):  # it was never born, or cannot be read
                counted = state.log.steps[step].cost if step in state.log.steps else 0.0
                total += max(0.0, await self.cost(child) - counted)
        return total

    def outlay(self, session_id: SessionId) -> Outlay | None:
        """Return the spent and reserved budget of a session that is driven here, running calls included."""
        driver = self.worker.driver(session_id)
        return None if driver is None else driver.session_budget.so_far

    async def session(self, session_id: SessionId) -> Session:
        """Return the session by its journal: only its durable state.

        Raises:
            SessionNotFound: no such session.
            Damaged: its journal is damaged.
        """
        owned = await self.worker.must_exist(session_id)
        driver = self.worker.driver(session_id)
        known = None if driver is None else driver.journal.if_durable(owned.head.digest)
        return known or (await load(self.worker.store, owned.head)).state.session

    async def listen_to_owner(self, session_id: SessionId, *, deltas: bool) -> None:
        """Have a session's owner in another process tell this one when it moves."""
        worker = self.worker
        if worker.driver(session_id) is not None:
            return
        owned = await worker.store.head(session_id)
        if owned.alive and owned.owner != worker.id:
            worker.bus.send(owned.address, Watch(session_id, worker.bus.address, deltas))


def _is_below(session: SessionId, top: SessionId, others: Collection[SessionId]) -> bool:
    """Return True if one of the others is between a session and ``top``, above it."""
    above = session.rpartition(".")[0]
    while len(above) > len(top):
        if above in others:
            return True
        above = above.rpartition(".")[0]
    return False


def _level(status: Status, running: tuple[object, ...]) -> Level:
    if status in STOPPED:
        return "stopped"
    if status is Status.HALTED and not running:
        return "stopped"
    return "stopping" if status in STOPPING else "decided"
