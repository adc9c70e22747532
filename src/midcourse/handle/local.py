"""The transport to an open store: commands and reads of sessions, whichever process owns them."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, get_args

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core.agent_rights import signed
from midcourse.core.audit import made
from midcourse.core.audit_export import Title
from midcourse.core.codec import Value, decode, digest_of
from midcourse.core.commands import AnyCommand, Role, encode_command
from midcourse.core.contact import Contact
from midcourse.core.decisions import decide
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Recorded
from midcourse.core.evolution import with_events
from midcourse.core.ids import AskId, CommandId, Position, SessionId
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import Intervention, Interventions
from midcourse.core.missing_results import without_result
from midcourse.core.pauses import finishes_first
from midcourse.core.receipt import EffectLedger, Receipt, begins_anew
from midcourse.core.replies import Level, Reply
from midcourse.core.request_checks import check_new_id, check_text
from midcourse.core.session import ENDED, Session, Status
from midcourse.core.signals import Signals
from midcourse.core.tenants import check_tenant, in_tenant, tenant_of
from midcourse.errors import InvalidInput, Refused
from midcourse.handle.contact import contact_of
from midcourse.handle.event_batches import event_batches
from midcourse.handle.transport import Request
from midcourse.ports.audit_log import export_audit
from midcourse.ports.bus import Delta
from midcourse.ports.clock import Clock
from midcourse.ports.sender import agent_here, check_people_send, sender
from midcourse.ports.shelves import goes_with
from midcourse.ports.store import Creation, Store
from midcourse.runtime.control import Control
from midcourse.runtime.session_loader import content_of, every_event, names_blob, read_events
from midcourse.runtime.time_travel import forked, inspect
from midcourse.runtime.worker import Worker
from midcourse.upkeep.erasure import children_of, erase_sessions

T = TypeVar("T")
_TOOL_COMES: Final = 2.0
"""Seconds after which a caller who waits for an undo hears which tool it needs: another process may have it."""


def addressed(session_id: SessionId, answer: cmd.Answer) -> tuple[SessionId, cmd.Answer]:
    """Return the session that decides an answer, and the answer as it takes it: ``child/ask`` is the child's.

    Raises:
        InvalidInput: it names another session that is no child of this one.
    """
    child, _, name = (answer.ask or "").rpartition("/")
    if not child:
        return session_id, answer
    if not child.startswith(f"{session_id}."):
        raise InvalidInput(f"'{child}' is not a child of session '{session_id}'.", field="ask")
    return SessionId(child), replace(answer, ask=AskId(name))


def fresh_session_id(wanted: str | None, clock: Clock, tenant: str) -> SessionId:
    """Return an id for a new session of a tenant. Without one, an id that was given may name it."""
    if tenant:
        check_tenant(tenant)
    named = f"sess_{clock.fresh_id()}" if wanted is None else check_new_id(wanted)
    return SessionId(check_new_id(in_tenant(tenant, named) if tenant else named))


class LocalTransport:
    """The sessions of an open store. ``role`` is what its caller may do with them."""

    def __init__(self, control: Control, role: Role = "operate") -> None:
        self.control = control
        self.worker: Worker = control.worker
        self.store: Store = control.worker.store
        self.clock: Clock = control.worker.clock
        self.role: Role = role
        self._of_role: dict[Role, LocalTransport] = {role: self}

    def __str__(self) -> str:
        return "an open store"

    def for_role(self, role: Role) -> "LocalTransport":
        """Return the same sessions for a caller of another role."""
        if role not in self._of_role:
            self._of_role[role] = LocalTransport(self.control, role)
        return self._of_role[role]

    # ---- commands

    async def send(self, session_id: SessionId, command: AnyCommand, *, until: Level, wait: float) -> Reply:
        """Send a command, with the caller's role; the answer of a child's ask goes to the child."""
        if isinstance(command, cmd.Answer):
            session_id, command = addressed(session_id, command)
        if command.role != self.role:
            command = replace(command, role=self.role)
        if (named := agent_here()) is not None:
            is_driven = self.worker.driver(named) is not None  # known without the store
            command = signed(command, named if is_driven else await sender(self.store))
        return await self.control.send(session_id, command, until=until, wait=wait)

    async def undo(self, session_id: SessionId, command: cmd.Undo, *, wait: float) -> Receipt:
        """Send an undo and return the receipt once it is done, or after ``wait`` seconds."""
        ends = self.clock.monotonic() + wait
        await self.send(session_id, command, until="decided", wait=wait)
        await self.undone(session_id, ends - self.clock.monotonic())
        return await self.receipt(session_id)

    async def undone(self, session_id: SessionId, wait: float) -> None:
        """Wait until the undo of an ended session is done, at most ``wait`` seconds."""
        began = self.clock.monotonic()
        with self.worker.fanout.watching(session_id) as watcher, contextlib.suppress(TimeoutError):
            async with self.clock.timeout(wait):  # a slow store delays no answer
                while (session := await self.state(session_id)).is_being_undone:
                    if session.needs and self.clock.monotonic() - began > _TOOL_COMES:
                        return
                    await self.control.listen_to_owner(session_id, deltas=False)
                    await watcher.wait(0.25)

    async def fork(self, session_id: SessionId, at: int | None, *, new: str | None, paused: bool, by: str) -> SessionId:
        """Begin a new session at a point of this one and return its id; with ``paused`` it is paused before it runs."""
        worker, store = self.worker, self.store
        await check_people_send(store, "fork a session")
        identity = fresh_session_id(new, worker.clock, tenant_of(session_id))
        command_id = self._fresh_command_id()
        pause = cmd.Pause(id=command_id, by=by, role=self.role, reason="forked") if paused else None
        owned = await worker.must_exist(session_id)
        head, rows = await forked(store, owned.head, identity, at, pause, worker.clock.now())
        # With the session, and not before: if there is one of that name, it keeps what it has.
        shelves = await self._forked_shelves(session_id, identity, at)
        where = f"of {session_id}" if at is None else f"of {session_id}, at {at}"
        entry = made(identity, by, self.role, "session.fork", where, worker.clock.now())
        await store.create(Creation(head, rows, worker=None, audit=(entry,), shelves=shelves))
        worker.adopt(identity, session_id)
        if pause is not None:
            # Put before a worker takes it, and sent again to wait for it: the same id is the same command.
            await store.put(identity, pause.id, encode_command(pause), worker.clock.now())
            with contextlib.suppress(Refused):  # forked where it had ended: nothing of it is left to be paused
                wait = worker.settings.unreachable_after
                await self.control.send(identity, pause, until="stopped", wait=wait)
        elif worker.drives:
            await worker.attend(identity)
        return identity

    async def _forked_shelves(
        self, session_id: SessionId, new: SessionId, at: int | None
    ) -> dict[str, dict[str, bytes | None]]:
        """Return what an adapter keeps beside a journal, on shelves that are named after the new session."""
        found: dict[str, dict[str, bytes | None]] = {}
        for shelf in await self.store.shelves():
            items = await self.store.shelved(shelf) if goes_with(session_id, shelf) else ()
            if items and at is not None:
                raise InvalidInput(
                    f"Session '{session_id}' keeps checkpoints of its framework, which are only known as they are now. "
                    "Leave 'at' out to fork it there.",
                    field="at",
                )
            if items:
                found[f"{shelf.partition(':')[0]}:{new}"] = dict(items)
        return found

    async def erase(self, session_id: SessionId, reason: str, *, children: bool, by: str) -> Session:
        """Erase what was written in a session that has ended."""
        below = await children_of(self.store, session_id) if children else ()
        erased = await erase_sessions(self.worker, (session_id, *below), by=by, role=self.role, reason=reason)
        return erased[0]

    # ---- reads

    async def preview(self, session_id: SessionId, *, force: bool, restart: bool) -> Mapping[UndoChoice, Receipt]:
        """Return what a cancel would make of each effect, by its ``undo``."""
        state, ledger = await self._ledger(session_id)
        wish = cmd.Cancel(id=self._fresh_command_id(), role=self.role, force=force, restart=restart)
        ahead = with_events(state, decide(state, wish), self.clock.now()) if force or restart else state
        waits, anew = finishes_first(ahead), begins_anew(ahead)
        return {
            choice: ledger.preview(choice, finishes_first=waits, begins_anew=anew) for choice in get_args(UndoChoice)
        }

    async def receipt(self, session_id: SessionId) -> Receipt:
        """Return what became of each effect."""
        state, ledger = await self._ledger(session_id)
        return replace(ledger.receipt, begins_anew=begins_anew(state))

    async def state(self, session_id: SessionId) -> Session:
        """Return the session as its journal tells it."""
        return await self.control.session(session_id)

    async def status(self, session_id: SessionId) -> Status:
        """Return the session's status."""
        return Status((await self.worker.must_exist(session_id)).head.status)

    async def inspect(self, session_id: SessionId, at: int | None) -> Inspection:
        """Return the session as it was at a journal position."""
        return await inspect(self.store, (await self.worker.must_exist(session_id)).head, at)

    async def interventions(self, session_id: SessionId) -> Sequence[Intervention]:
        """Return what policies, and the agent itself, have stepped in with."""
        found = Interventions()
        if (state := await self.state(session_id)).interventions:
            async for record in self._until(session_id, state.position):
                found.apply(record)
        return found.all

    async def signals(self, session_id: SessionId) -> Signals:
        """Return each signal with its thresholds and its history."""
        return await self.worker.signals.read((await self.worker.must_exist(session_id)).head)

    async def contact(self, session_id: SessionId) -> Contact:
        """Return which commands are not decided, and whether the session's worker answers."""
        return await contact_of(self.worker, session_id)

    async def events(
        self, session_id: SessionId, after: Position, limit: int, *, most_bytes: int | None = None
    ) -> list[Recorded]:
        """Return the events after a position: at most ``limit``, and of those one, or what ``most_bytes`` hold."""
        return await read_events(self.store, session_id, after, limit, most_bytes=most_bytes)

    def every_event(self, session_id: SessionId) -> AsyncIterator[Recorded]:
        """Yield the events of a session as its journal has them now."""
        return every_event(self.store, session_id)

    def batches(
        self,
        session_id: SessionId,
        *,
        after: Position,
        deltas: bool,
        follow: bool,
        limit: int = 1000,
        ends: Callable[[], bool] | None = None,
    ) -> AsyncGenerator[Sequence[Recorded | Delta]]:
        """Yield the events after a position as :func:`event_batches` does."""
        return event_batches(
            self.control, session_id, after=after, deltas=deltas, follow=follow, limit=limit, ends=ends
        )

    async def watch(
        self, session_id: SessionId, *, after: Position, deltas: bool, follow: bool
    ) -> AsyncGenerator[Recorded | Delta]:
        """Yield every event after a position, once and in order, until the session ends."""
        async with contextlib.aclosing(self.batches(session_id, after=after, deltas=deltas, follow=follow)) as batches:
            async for batch in batches:
                for one in batch:
                    yield one

    async def result(self, session_id: SessionId) -> Any:
        """Wait for the session's end and return what its agent returned."""
        session, cause = await self._ended(session_id)
        if session.erased_at is not None:
            raise Refused(
                f"What session '{session_id}' returned was erased (session_erased).",
                code="session_erased",
                session_id=session_id,
                status=session.status.value,
            )
        if session.status is Status.COMPLETED and session.result is not None:
            return decode(await self.content(session.result))
        raise without_result(session) from cause

    async def _ended(self, session_id: SessionId) -> tuple[Session, BaseException | None]:
        """Return the session, once it has ended, and what its agent raised, if it ended in this process."""
        worker = self.worker
        while True:
            driver = worker.driver(session_id)
            if driver is None:
                owned = await worker.must_exist(session_id)
                if owned.head.status in ENDED:
                    return await self.state(session_id), None
                if (error := worker.failed_writes.lasting(session_id)) is not None:
                    raise error  # its end cannot be written, so it would be waited for without end
                with worker.fanout.watching(session_id) as watcher:
                    await self.control.listen_to_owner(session_id, deltas=False)
                    await watcher.wait(0.5)
                continue
            with worker.fanout.watching(session_id, only_ends=True) as watcher:
                while not driver.is_over:
                    await watcher.wait(5.0)
            # What a driver has released is durable as it stands in its fold.
            if driver.journal.broken is None and driver.journal.session.status in ENDED:
                return driver.journal.session, driver.error

    async def content(self, value: Value) -> bytes:
        """Return the bytes of a journaled value, wherever they lie."""
        return await content_of(self.store, value)

    async def blob(self, session_id: SessionId, digest: str) -> bytes | None:
        """Return a value above 32 KB that the journal of a session names; None if it names none of that digest."""
        await self.worker.must_exist(session_id)
        [content] = await self.store.blobs([digest])
        # Blobs are shared by all sessions: a digest of another session's gets nothing.
        is_own = content is not None and digest_of(content) == digest
        return content if is_own and await names_blob(self.store, session_id, digest) else None

    def _fresh_command_id(self) -> CommandId:
        return CommandId(f"cmd_{self.clock.fresh_id()}")

    async def _ledger(self, session_id: SessionId) -> tuple[Session, EffectLedger]:
        state, ledger = await self.state(session_id), EffectLedger()
        async for record in self._until(session_id, state.position):
            ledger.apply(record)
        return state, ledger

    async def _until(self, session_id: SessionId, position: Position) -> AsyncIterator[Recorded]:
        if position == 0:
            return
        async for event in self.watch(session_id, after=Position(0), deltas=False, follow=True):
            if isinstance(event, Recorded):
                yield event
                if event.position >= position:
                    return

    # ---- many sessions

    async def find(self, session_id: str) -> SessionId:
        """Return the id of a session that exists."""
        identity = SessionId(check_text(session_id, "session_id"))
        if self.worker.driver(identity) is None:
            await self.worker.must_exist(identity)
        return identity

    async def do(self, request: Request, given: dict[str, Any], work: Callable[[], Awaitable[T]]) -> T:
        """Do the work; nothing is sent."""
        return await work()

    def audit_export(self, title: Title) -> AsyncIterator[bytes]:
        """Yield the audit log as a file in pieces."""
        return export_audit(self.store, title)
