"""The transport to an open store: commands and reads of sessions, whichever process owns them."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, cast, get_args

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core.agent_rights import signed
from midcourse.core.codec import decode
from midcourse.core.commands import AnyCommand, Role
from midcourse.core.decisions import decide
from midcourse.core.effects import UndoChoice
from midcourse.core.events import CancelRequested, Recorded
from midcourse.core.ids import AskId, CommandId, Position, SessionId
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import Intervention, Interventions
from midcourse.core.missing_results import without_result
from midcourse.core.pauses import finishes_first
from midcourse.core.receipt import EffectLedger, Receipt, begins_anew
from midcourse.core.replies import Level, Reply
from midcourse.core.request_checks import check_new_id
from midcourse.core.session import Session, Status
from midcourse.core.signals import Signals
from midcourse.core.tenants import check_tenant, in_tenant, tenant_of
from midcourse.errors import InvalidInput, Refused
from midcourse.ports.bus import Delta
from midcourse.ports.clock import Clock
from midcourse.ports.sender import agent_here, check_people_send, sender
from midcourse.runtime.control import Control
from midcourse.runtime.session_loader import content_of
from midcourse.runtime.worker import Worker
from midcourse.upkeep.bulk_erasure import erase_sessions
from midcourse.upkeep.erasure import children_of


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


def fresh_session_id(wanted: str | None, worker: Worker, tenant: str) -> SessionId:
    """An id for a new session of a tenant. Without one, an id that was given may name it."""
    if tenant:
        check_tenant(tenant)
    named = f"sess_{worker.clock.fresh_id()}" if wanted is None else check_new_id(wanted)
    return SessionId(check_new_id(in_tenant(tenant, named) if tenant else named))


class LocalTransport:
    """The sessions of an open store. ``role`` is what its caller may do with them."""

    def __init__(self, control: Control, role: Role = "operate") -> None:
        self._worker = control.worker
        self._control = control
        self._role: Role = role

    def __str__(self) -> str:
        return "an open store"

    @property
    def clock(self) -> Clock:
        """The clock by which callers wait."""
        return self._worker.clock

    async def send(self, session_id: SessionId, command: AnyCommand, *, until: Level, wait: float) -> Reply:
        """Send a command, with the caller's role; the answer of a child's ask goes to the child."""
        if isinstance(command, cmd.Answer):
            session_id, command = addressed(session_id, command)
        named = agent_here()
        is_driven = named is not None and self._worker.driver(named) is not None  # known without the store
        agent = named if is_driven else await sender(self._worker.store)
        own = signed(replace(command, role=self._role), agent)
        return await self._control.send(session_id, own, until=until, wait=wait)

    async def undo(self, session_id: SessionId, command: cmd.Undo, *, wait: float) -> Receipt:
        """Send an undo and return the receipt once it is done, or after ``wait`` seconds."""
        await self.send(session_id, command, until="decided", wait=wait)
        await self._control.undone(session_id, wait)
        return await self.receipt(session_id)

    async def preview(self, session_id: SessionId, *, force: bool, restart: bool) -> Mapping[UndoChoice, Receipt]:
        """Return what a cancel would make of each effect, by its ``undo``."""
        ledger, state = await self._ledger(session_id), await self.state(session_id)
        wish = cmd.Cancel(id=self._fresh_command_id(), role=self._role, force=force, restart=restart)
        events = decide(state, wish) if force or restart else ()
        is_forced = any(isinstance(one, CancelRequested) and one.force for one in events)
        anew = begins_anew(state) or (restart and is_forced and state.is_protected and state.parent is None)
        waits = finishes_first(state) and not is_forced
        return {
            choice: ledger.preview(choice, finishes_first=waits, begins_anew=anew) for choice in get_args(UndoChoice)
        }

    async def receipt(self, session_id: SessionId) -> Receipt:
        """Return what became of each effect."""
        ledger, state = await self._ledger(session_id), await self.state(session_id)
        return replace(ledger.receipt, begins_anew=begins_anew(state))

    async def state(self, session_id: SessionId) -> Session:
        """Return the session as its journal tells it."""
        return await self._control.session(session_id)

    async def status(self, session_id: SessionId) -> Status:
        """Return the session's status."""
        return Status((await self._worker.must_exist(session_id)).head.status)

    async def inspect(self, session_id: SessionId, at: int | None) -> Inspection:
        """Return the session as it was at a journal position."""
        return await self._control.inspect(session_id, at)

    async def interventions(self, session_id: SessionId) -> Sequence[Intervention]:
        """Return what policies, and the agent itself, have stepped in with."""
        found = Interventions()
        if (await self.state(session_id)).interventions:
            async for record in self._until_now(session_id):
                found.apply(record)
        return found.all

    async def signals(self, session_id: SessionId) -> Signals:
        """Return each signal with its thresholds and its history."""
        return await self._worker.signals.read((await self._worker.must_exist(session_id)).head)

    def watch(
        self, session_id: SessionId, *, after: Position, deltas: bool, follow: bool
    ) -> AsyncGenerator[Recorded | Delta]:
        """Yield every event after a position, once and in order, until the session ends."""
        events = self._control.watch(session_id, after=after, deltas=deltas, follow=follow)
        return cast("AsyncGenerator[Recorded | Delta]", events)

    async def result(self, session_id: SessionId) -> Any:
        """Wait for the session's end and return what its agent returned."""
        session, cause = await self._control.ended(session_id)
        if session.erased_at is not None:
            raise Refused(
                f"What session '{session_id}' returned was erased (session_erased).",
                code="session_erased",
                session_id=session_id,
                status=session.status.value,
            )
        if session.status is Status.COMPLETED and session.result is not None:
            return decode(await content_of(self._worker.store, session.result))
        raise without_result(session) from cause

    async def fork(self, session_id: SessionId, at: int | None, *, new: str | None, paused: bool, by: str) -> SessionId:
        """Begin a new session at a point of this one and return its id."""
        await check_people_send(self._worker.store, "fork a session")
        identity = fresh_session_id(new, self._worker, tenant_of(session_id))
        command_id = self._fresh_command_id()
        pause = cmd.Pause(id=command_id, by=by, role=self._role, reason="forked") if paused else None
        await self._control.fork(session_id, identity, at, pause=pause, by=by, role=self._role)
        return identity

    async def erase(self, session_id: SessionId, reason: str, *, children: bool, by: str) -> Session:
        """Erase what was written in a session that has ended."""
        below = await children_of(self._worker.store, session_id) if children else ()
        erased = await erase_sessions(self._worker, (session_id, *below), by=by, role=self._role, reason=reason)
        return erased[0]

    def _fresh_command_id(self) -> CommandId:
        return CommandId(f"cmd_{self._worker.clock.fresh_id()}")

    async def _ledger(self, session_id: SessionId) -> EffectLedger:
        ledger = EffectLedger()
        async for record in self._until_now(session_id):
            ledger.apply(record)
        return ledger

    async def _until_now(self, session_id: SessionId) -> AsyncIterator[Recorded]:
        position = (await self.state(session_id)).position
        if position == 0:
            return
        async for event in self.watch(session_id, after=Position(0), deltas=False, follow=True):
            if isinstance(event, Recorded):
                yield event
                if event.position >= position:
                    return
