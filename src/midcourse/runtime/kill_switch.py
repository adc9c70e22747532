"""Throws the kill switch over a scope, tells what came of it for every session, lifts it, and lets sessions go back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Final

import msgspec

from midcourse.core import commands as cmd
from midcourse.core.audit import AuditEntry
from midcourse.core.commands import Role
from midcourse.core.ids import CommandId, SessionId, SwitchId
from midcourse.core.session import LIVE, Status
from midcourse.core.switches import (
    Reach,
    Reached,
    Released,
    Scope,
    Switch,
    SwitchReport,
    check_reason,
    halt_id,
    worst_first,
)
from midcourse.errors import InvalidInput, MidcourseError, Refused, SessionNotFound, StoreError
from midcourse.ports.store import Head
from midcourse.runtime.control import Control
from midcourse.runtime.standing import covers, halt_of, switch_id

_PAGE: Final = 500
_AT_ONCE: Final = 64
"""Sessions that are being halted, or let go back, at the same time."""
_LIVE: Final = tuple(sorted(status.value for status in LIVE))


class KillSwitch:
    """The switches of a store, thrown by somebody with the role ``operate``."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._worker = control.worker
        self._standing = control.worker.standing

    async def preview(self, scope: Scope) -> Mapping[str, int]:
        """How many sessions a switch would halt now, by their status."""
        counts: dict[str, int] = {}
        async for head in self._covered(scope):
            if head.status != Status.HALTED:
                counts[head.status] = counts.get(head.status, 0) + 1
        return counts

    async def throw(
        self,
        scope: Scope,
        reason: str,
        *,
        by: str = "local",
        role: Role = "operate",
        wait: float = 5.0,
        switch: str | None = None,
    ) -> SwitchReport:
        """Halt everything in ``scope``, and keep it halted. Answers when all have stopped, or after ``wait`` seconds.

        The gates of this process shut before anything is written. If the record cannot be written, they stay shut and
        the report says so. ``switch`` is an id for it: a retry under the same one finds what was done.

        Raises:
            Refused: ``role`` is not an operator's.
            InvalidInput: there is no reason.
        """
        check_operator(role, "throw the kill switch")
        clock = self._worker.clock
        thrown = Switch(
            id=switch_id(clock.fresh_id()) if switch is None else SwitchId(switch),
            scope=scope,
            reason=check_reason(reason),
            by=by,
            at=clock.now(),
        )
        known = None if switch is None else await self._known(switch)
        if known is not None and not known.stands:
            return await self.report(known.id)
        shut = [driver for driver in self._worker.drivers() if covers(scope, driver.session)]
        for driver in shut:
            driver.shut()
        try:
            durable = known is not None or await self._keep(thrown, "kill_switch.throw", by, role)
            deadline = clock.monotonic() + wait
            places = asyncio.Semaphore(_AT_ONCE)
            heads = [head async for head in self._covered(scope)]
            halted = await asyncio.gather(*(self._halt(thrown, head, places, deadline) for head in heads))
        finally:
            for driver in shut:
                driver.unshut()
        stopped = frozenset(session for session in halted if session is not None)
        report = await self._report(thrown, [head async for head in self._covered(scope)], stopped)
        return msgspec.structs.replace(report, durable=durable)

    async def _known(self, switch: str) -> Switch | None:
        with contextlib.suppress(InvalidInput):
            return await self._standing.find(switch)
        return None

    async def _keep(self, switch: Switch, action: str, by: str, role: Role) -> bool:
        now, scope = self._worker.clock.now(), switch.scope
        whose = scope.value if scope.kind == "tenant" else scope.tenant or ""
        why = switch.reason if switch.stands else switch.lifted_why
        entry = AuditEntry(
            session=SessionId(""),
            tenant=whose,
            by=by,
            role=role,
            action=action,
            detail=f"{switch.id}; {scope}; {why}",
            at=now,
        )
        try:
            await self._standing.keep(switch, entry)
        except StoreError:
            if not switch.stands:
                raise
            return False
        return True

    async def _halt(self, switch: Switch, head: Head, places: asyncio.Semaphore, deadline: float) -> SessionId | None:
        """Halt a session; its id if nothing of it runs any more."""
        async with places:
            command = halt_of(switch, head)
            left = max(0.0, deadline - self._worker.clock.monotonic())
            # A session that has ended since, or whose journal is damaged, does nothing.
            with contextlib.suppress(MidcourseError):
                reply = await self._control.send(head.id, command, until="stopped", wait=left)
                return head.id if reply.level == "stopped" else None
        return None

    async def _covered(self, scope: Scope) -> AsyncIterator[Head]:
        """Every session in ``scope`` that has not ended, from a list that was begun after the call."""
        tenant = scope.value if scope.kind == "tenant" else scope.tenant
        agent = scope.value if scope.kind == "agent" else None
        label = scope.value if scope.kind == "label" else None
        before: SessionId | None = None
        while True:
            page = await self._worker.store.heads(
                statuses=_LIVE, agent=agent, label=label, tenant=tenant, limit=_PAGE, before=before
            )
            for head in page:
                yield head
            if len(page) < _PAGE:
                return
            before = page[-1].id

    async def reports(self, *, tenant: str | None = None, limit: int = 20) -> Sequence[SwitchReport]:
        """The switches that concern a tenant (None: all), and what they hold: first those that stand."""
        switches = [*(await self._standing.switches())[::-1], *await self._standing.lifted(limit)]
        found = [one for one in switches if concerns(one.scope, tenant)][:limit]
        heads = [head async for head in self._covered(Scope("all", tenant=tenant))] if found else []
        return [await self._report(one, heads) for one in found]

    async def report(self, switch: str) -> SwitchReport:
        """A switch, and what is known now of every session that it holds, or should.

        Raises:
            InvalidInput: there is no such switch.
        """
        found = await self._standing.find(switch)
        return await self._report(found, [head async for head in self._covered(found.scope)])

    async def _report(self, switch: Switch, heads: Sequence[Head], stopped: Collection[SessionId] = ()) -> SwitchReport:
        """What lists know; of those in ``stopped`` it is known that nothing runs, whatever their heads say yet."""
        reached: list[Reached] = []
        for head in heads:
            is_halted = head.status == Status.HALTED
            if is_halted and (head.switch == switch.id or (switch.stands and covers_head(switch.scope, head))):
                is_busy = bool(head.busy) and head.id not in stopped
                reached.append(_reached(head, "still_running" if is_busy else "stopped"))
            elif not is_halted and switch.stands and covers_head(switch.scope, head):
                reached.append(await self._unheard(head, switch))
        return SwitchReport(switch, worst_first(reached))

    async def _unheard(self, head: Head, switch: Switch) -> Reached:
        """A session that has not decided its halt: it is about to, or its owner does not answer."""
        now, patience = self._worker.clock.now(), self._worker.settings.unreachable_after
        try:
            row = await self._worker.store.row(head.id, halt_id(switch.id, head.position))
        except MidcourseError:
            row = None
        put_at = switch.at if row is None else row.put_at
        is_late = now - put_at >= patience
        return _reached(head, "not_reachable" if is_late else "still_running", since=put_at if is_late else None)

    async def lift(self, switch: str, why: str, *, by: str = "local", role: Role = "operate") -> SwitchReport:
        """End a switch: what is started from here on runs. The sessions that it halted stay halted.

        Raises:
            Refused: ``role`` is not an operator's; code ``already_lifted`` if it does not stand.
            InvalidInput: there is no such switch, or no reason.
        """
        check_operator(role, "lift the kill switch")
        found = await self._standing.find(switch)
        if not found.stands:
            raise Refused(
                f"Kill switch '{found.id}' was lifted before, by {found.lifted_by}.",
                code="already_lifted",
                switch=found.id,
            )
        lifted = msgspec.structs.replace(
            found, lifted_at=self._worker.clock.now(), lifted_by=by, lifted_why=check_reason(why, "why")
        )
        await self._keep(lifted, "kill_switch.lift", by, role)
        return await self._report(lifted, [head async for head in self._covered(lifted.scope)])

    async def release(
        self,
        switch: str,
        sessions: Sequence[str] | None = None,
        *,
        by: str = "local",
        role: Role = "operate",
        wait: float = 5.0,
    ) -> Sequence[Released]:
        """Let the sessions that a lifted switch had halted go back to where they were: those, or all of them.

        Raises:
            Refused: ``role`` is not an operator's; code ``kill_switch_stands`` if it has not been lifted.
            InvalidInput: there is no such switch.
        """
        check_operator(role, "let sessions go on")
        found = await self._standing.find(switch)
        if found.stands:
            raise Refused(
                f"Kill switch '{found.id}' stands: lift it first, then let its sessions go back.",
                code="kill_switch_stands",
                switch=found.id,
            )
        held = [head.id async for head in self._covered(found.scope) if head.switch == found.id]
        wanted = held if sessions is None else [SessionId(one) for one in sessions]
        places = asyncio.Semaphore(_AT_ONCE)
        known = frozenset(held)
        return await asyncio.gather(
            *(self._release(found, one, one in known, places, by=by, role=role, wait=wait) for one in wanted)
        )

    async def _release(
        self,
        switch: Switch,
        session: SessionId,
        is_held: bool,
        places: asyncio.Semaphore,
        *,
        by: str,
        role: Role,
        wait: float,
    ) -> Released:
        if not is_held:
            problem = f"Session '{session}' is not halted by this switch."
            return Released(session=session, ok=False, code="not_halted", problem=problem)
        command = cmd.Lift(id=CommandId(f"{switch.id}/lift"), by=by, role=role)
        async with places:
            try:
                reply = await self._control.send(session, command, until="decided", wait=wait)
            except (Refused, SessionNotFound, StoreError) as error:
                return Released(session=session, ok=False, code=error.code, problem=error.message)
        return Released(session=session, ok=True, status=reply.status)


def concerns(scope: Scope, tenant: str | None) -> bool:
    """Whether a tenant is to know of a switch: it may halt sessions of theirs. None: everybody's."""
    if tenant is None:
        return True
    whose = scope.value if scope.kind == "tenant" else scope.tenant
    return whose is None or whose == tenant


def covers_head(scope: Scope, head: Head) -> bool:
    """Whether a scope covers a session in a list."""
    return scope.covers(head.id, head.agent, head.labels)


def check_operator(role: Role, what: str) -> None:
    """Refuse whoever is no operator.

    Raises:
        Refused: the role is another.
    """
    if role != "operate":
        raise Refused(f"Only an operator may {what}; your role is {role}.", code="operator_only")


def _reached(head: Head, state: Reach, since: float | None = None) -> Reached:
    return Reached(
        session=head.id,
        agent=head.agent,
        goal=head.goal,
        state=state,
        was=head.was or head.status,
        since=since if since is not None else 0.0 if state == "stopped" else head.busy_since,
        running="" if state == "stopped" else head.busy,
    )
