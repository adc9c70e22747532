"""Throws the kill switch over a scope, tells what came of it for every session, lifts it, and lets sessions go back."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from math import inf
from typing import Any, Final, TypeVar

import msgspec

from midcourse.clock import wait as wait_for
from midcourse.core import commands as cmd
from midcourse.core.audit import AuditEntry
from midcourse.core.commands import Role
from midcourse.core.ids import CommandId, SessionId, SwitchId
from midcourse.core.replies import Level, Reply
from midcourse.core.session import LIVE, WORKS, Status
from midcourse.core.switches import (
    Reach,
    Reached,
    Released,
    Scope,
    Switch,
    SwitchPreview,
    SwitchReport,
    check_reason,
    halt_id,
    name_hint,
    worst_first,
)
from midcourse.core.tenants import tenant_of
from midcourse.errors import Damaged, InvalidInput, MidcourseError, Refused, StoreError, StoreUnavailable, without_path
from midcourse.handle.verb import Verbs, served
from midcourse.ports.active_switches import ActiveSwitches, covers, halt_of, switch_id
from midcourse.ports.sender import check_people_send
from midcourse.ports.store import Head, HeadQuery, every_head
from midcourse.runtime.driver import Driver
from midcourse.runtime.journal import head_of

T = TypeVar("T")

log = logging.getLogger("midcourse")

_LEAST_PATIENCE: Final = 1.0
"""Seconds that the store has to answer, however impatient the caller is."""
_AGAIN: Final = 0.05
"""Seconds between two checks of children that still run."""
_AT_ONCE: Final = 64
"""Sessions that are being halted, or released, at the same time."""
_LOOKED_AT: Final = 5000
"""The number of sessions, the newest, whose names are searched for a hint."""
_LIVE: Final = tuple(sorted(status.value for status in LIVE))


_UNSENT: Final = ("by", "role", "tenant")


class _Shown(Switch, frozen=True, kw_only=True):
    """A switch as a server shows it."""

    durable: bool = True
    report: tuple[Reached, ...] = ()
    hint: str = ""


def _report_of(content: bytes) -> SwitchReport:
    shown = msgspec.json.decode(content, type=_Shown)
    switch = Switch(**{name: getattr(shown, name) for name in Switch.__struct_fields__})
    return SwitchReport(switch, worst_first(shown.report), shown.durable, shown.hint)


def _check_why(why: str) -> str:
    return check_reason(why, "why")


def _scoped(given: dict[str, Any]) -> dict[str, Any]:
    scope: Scope = given["scope"]
    return {**given, "switch": None, "scope": {"kind": scope.kind, "value": scope.value}}


class KillSwitch(Verbs):
    """The switches of an open store or of a server, thrown by an operator. A server knows its caller by the token."""

    @property
    def _standing(self) -> ActiveSwitches:
        return self._worker.standing

    @served("kill-switches/preview", SwitchPreview, method="POST", sends=_scoped)
    async def preview(self, scope: Scope) -> SwitchPreview:
        """Return how many sessions a switch would halt now, by status, and whether its name is known here."""
        counts: dict[str, int] = {}
        async for head in self._covered(scope):
            if head.status != Status.HALTED:
                counts[head.status] = counts.get(head.status, 0) + 1
        return SwitchPreview(counts, "" if counts else await self._hint(scope))

    async def _hint(self, scope: Scope) -> str:
        """Return a hint for a scope whose name neither a session has, ended or not, nor an agent that is registered."""
        whose, agents = scope.value if scope.kind == "tenant" else scope.tenant, self._worker.agents
        known: set[str] = set()
        match scope.kind:
            case "all":
                return ""
            case "agent":
                known |= agents.keys()
                found = await self._worker.store.heads(HeadQuery(agent=scope.value, tenant=whose, limit=1))
            case "label":
                known |= {label for agent in agents.values() for label in agent.terms.labels}
                found = await self._worker.store.heads(HeadQuery(label=scope.value, tenant=whose, limit=1))
            case "tenant":
                found = await self._worker.store.heads(HeadQuery(tenant=whose, limit=1))
        if found or scope.value in known or (scope.kind == "tenant" and scope.tenant is not None):
            return ""
        for head in await self._worker.store.heads(HeadQuery(tenant=scope.tenant, limit=_LOOKED_AT)):
            match scope.kind:
                case "agent":
                    known.add(head.agent)
                case "label":
                    known |= set(head.labels)
                case "tenant":
                    known.add(tenant_of(head.id))
        return name_hint(scope, known - {""})

    @served(
        "kill-switches",
        method="POST",
        once="throw",
        check=check_reason,
        sends=_scoped,
        reads=_report_of,
        unsent=_UNSENT,
    )
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
        await check_people_send(self._worker.store, "throw the kill switch")
        clock = self._worker.clock
        thrown = Switch(
            id=switch_id(clock.fresh_id()) if switch is None else SwitchId(switch),
            scope=scope,
            reason=check_reason(reason),
            by=by,
            at=clock.now(),
        )
        shut = [driver for driver in self._worker.drivers() if covers(scope, driver.session)]
        for driver in shut:
            driver.shut()  # before the store is read or written, which may fail

        def unshut(_thrown: "asyncio.Future[SwitchReport]") -> None:
            for driver in shut:
                driver.unshut()

        # In a task of its own: the gates stay shut until every session has its halt, also if the caller gives up.
        throwing = asyncio.ensure_future(self._throw(thrown, shut, role, wait, is_named=switch is not None))
        throwing.add_done_callback(unshut)
        report = await asyncio.shield(throwing)
        log.info("kill switch %s thrown by %s: %s; %s", report.switch.id, by, report, report.switch.reason)
        return report

    async def _throw(
        self, wanted: Switch, shut: Sequence[Driver], role: Role, wait: float, *, is_named: bool
    ) -> SwitchReport:
        clock, scope, patience = self._worker.clock, wanted.scope, max(wait, _LEAST_PATIENCE)
        until = clock.monotonic() + patience
        known = await self._known(wanted.id, until) if is_named else None
        if known is not None and (known.scope, known.reason) != (scope, wanted.reason):
            raise Refused(
                f"Kill switch '{known.id}' was thrown before, over {known.scope} ({known.reason}). Use a fresh key.",
                code="idempotency_key_reused",
                switch=known.id,
            )
        if known is not None and not known.stands:
            return await self.report(known.id)
        switch = known or wanted
        for driver in shut:
            driver.stop_ahead(halt_of(switch, driver.session))
        if known is None or not self._standing.is_durable(known.id):
            await self._keep(switch, "kill_switch.throw", wanted.by, role, until)
        try:
            heads = await self._in_time(self._list(scope), until)
        except (StoreError, Damaged):
            await self._halt_all(switch, _heads_of(shut), clock.monotonic() + wait)
            return _local_report(switch, shut)
        if known is not None:  # what an operator cancelled since is being undone
            heads = [head for head in heads if head.status != Status.CANCELLING]
        deadline = clock.monotonic() + wait
        replies = await self._halt_all(switch, heads, deadline)
        until = clock.monotonic() + patience
        try:
            report = await self._in_time(self._list_reached(switch, replies), until)
            while clock.monotonic() < deadline and _waits_for_children(report, replies):
                await clock.sleep(_AGAIN)
                report = await self._in_time(self._list_reached(switch, replies), deadline + patience)
        except (StoreError, Damaged):
            return _local_report(switch, shut)
        hint = ""
        with contextlib.suppress(MidcourseError):  # the switch is thrown, also if its name cannot be looked up
            hint = "" if report.sessions else await self._in_time(self._hint(scope), until)
        return msgspec.structs.replace(report, hint=hint)

    async def _in_time(self, asking: Coroutine[Any, Any, T], until: float) -> T:
        """Return what the store answers, if it does so by then.

        Raises:
            StoreUnavailable: it has not answered. It is not interrupted: what is written may still be written.
        """
        clock, asked = self._worker.clock, asyncio.ensure_future(asking)
        asked.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may fail unheard
        if await wait_for(clock, {asked}, max(0.0, until - clock.monotonic())):
            return asked.result()
        raise StoreUnavailable("The store has not answered in time.")

    async def _known(self, switch: SwitchId, until: float) -> Switch | None:
        with contextlib.suppress(InvalidInput, StoreError, Damaged):
            return await self._in_time(self._standing.find(switch), until)
        return None

    async def _keep(self, switch: Switch, action: str, by: str, role: Role, until: float = inf) -> None:
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
            await self._in_time(self._standing.keep(switch, entry), until)
        except (StoreError, Damaged):
            if not switch.stands:
                raise
            self._standing.hold_unwritten(switch, entry)

    async def _halt_all(self, switch: Switch, heads: Sequence[Head], deadline: float) -> Mapping[SessionId, Reply]:
        """Halt them all, then wait for those that have not stopped; what is known of each."""
        places = asyncio.Semaphore(_AT_ONCE)
        clock = self._worker.clock

        async def halt(head: Head, until: Level) -> tuple[SessionId, Reply] | None:
            left = max(0.0, deadline - clock.monotonic())
            # A session that has ended since, or whose journal is damaged, does nothing.
            with contextlib.suppress(MidcourseError):
                return head.id, await self._control.send(head.id, halt_of(switch, head), until=until, wait=left)
            return None

        async def begin(head: Head) -> tuple[SessionId, Reply] | None:
            async with places:
                return await halt(head, "stopping")

        replies = dict(filter(None, await asyncio.gather(*map(begin, heads))))
        late = [head for head in heads if (said := replies.get(head.id)) and said.durable and said.level == "stopping"]
        replies.update(filter(None, await asyncio.gather(*(halt(head, "stopped") for head in late))))
        return replies

    def _covered(self, scope: Scope) -> AsyncIterator[Head]:
        """Yield every session in ``scope`` that has not ended, from a list that was begun after the call."""
        tenant = scope.value if scope.kind == "tenant" else scope.tenant
        agent = scope.value if scope.kind == "agent" else None
        label = scope.value if scope.kind == "label" else None
        return every_head(self._worker.store, HeadQuery(statuses=_LIVE, agent=agent, label=label, tenant=tenant))

    async def _list(self, scope: Scope) -> list[Head]:
        return [head async for head in self._covered(scope)]

    async def _list_reached(self, switch: Switch, replies: Mapping[SessionId, Reply] | None = None) -> SwitchReport:
        scope = switch.scope  # what it reaches below its sessions may be of another agent, or have other labels
        is_whole = scope.kind in ("all", "tenant")
        heads = await self._list(scope if is_whole else Scope("all", tenant=scope.tenant))
        return await self._report(switch, heads, replies)

    async def reports(self, *, tenant: str | None = None, limit: int | None = 20) -> Sequence[SwitchReport]:
        """List the switches that concern a tenant (None: all), first those that stand, with the sessions they hold."""
        found = await self._listed(tenant=tenant, limit=limit)
        return [one if isinstance(one, SwitchReport) else await self.report(one.id) for one in found]

    @served("kill-switches", item=Switch, within="switches", unsent=_UNSENT)
    async def _listed(self, *, tenant: str | None, limit: int | None) -> Sequence[SwitchReport | Switch]:
        """List them; a server does so without their sessions."""
        switches = [*(await self._standing.recent())[::-1], *await self._standing.lifted()]
        found = [one for one in switches if one.scope.concerns(tenant)][:limit]
        heads = await self._list(Scope("all", tenant=tenant)) if found else []
        return [await self._report(one, heads) for one in found]

    @served("kill-switches/{switch}", reads=_report_of, unsent=_UNSENT)
    async def report(self, switch: str, *, tenant: str | None = None) -> SwitchReport:
        """Return a switch, and what is known now of every session that it holds, or should.

        Raises:
            InvalidInput: there is no such switch, or none that concerns ``tenant``.
        """
        return await self._list_reached(await self._standing.find(switch, tenant))

    async def _report(
        self, switch: Switch, heads: Sequence[Head], replies: Mapping[SessionId, Reply] | None = None
    ) -> SwitchReport:
        """Return what lists know, what this process knows of its own sessions, and the newest replies."""
        reached: list[Reached] = []
        below = self._running_below(switch.scope, heads)
        for head in heads:
            is_halted = head.status == Status.HALTED
            reply = (replies or {}).get(head.id)
            if is_halted and (head.switch == switch.id or (switch.stands and covers_head(switch.scope, head))):
                running = self._running(head, reply) or below.get(head.id, "")
                reached.append(_reached(head, "still_running" if running else "stopped", running))
            elif not is_halted and switch.stands and covers_head(switch.scope, head):
                if self._worker.has_given_up(head.id) or (reply is not None and reply.level == "stopped"):
                    reached.append(_reached(head, "stopped", ""))  # its halt could not be written
                else:
                    reached.append(await self._unheard(head, switch))
        return SwitchReport(switch, worst_first(reached), durable=self._standing.is_durable(switch.id))

    def _running(self, head: Head, reply: Reply | None) -> str:
        """Return what still runs of a halted session, by name."""
        driver = self._worker.driver(head.id)
        if driver is not None:  # it knows of undos and of the agent's own code, too
            return ", ".join(call.name for call in driver.running())
        if reply is not None:
            return "" if reply.level == "stopped" else ", ".join(call.name for call in reply.running) or head.busy
        return head.busy

    def _running_below(self, scope: Scope, heads: Sequence[Head]) -> Mapping[str, str]:
        """Return what runs below sessions, by their ids, in children that have no line of their own."""
        found: dict[str, str] = {}
        for head in heads:
            if covers_head(scope, head) or (head.status != Status.HALTED and head.status not in WORKS):
                continue
            running = self._running(head, None) or (head.agent if head.status in WORKS else "")
            above = head.id.rpartition(".")[0] if running else ""
            while above:
                found[above] = f"{found[above]}, {running}" if above in found else running
                above = above.rpartition(".")[0]
        return found

    async def _unheard(self, head: Head, switch: Switch) -> Reached:
        """Return a session that has not decided its halt: it is about to, or its owner does not answer."""
        now, patience = self._worker.clock.now(), self._worker.settings.unreachable_after
        try:
            row = await self._worker.store.row(head.id, halt_id(switch.id, head.position))
        except MidcourseError:
            row = None
        put_at = switch.at if row is None else row.put_at
        is_late = now - put_at >= patience
        return _reached(head, "not_reachable" if is_late else "still_running", head.busy, put_at if is_late else None)

    @served(
        "kill-switches/{switch}/lift",
        method="POST",
        check=_check_why,
        reads=_report_of,
        unsent=_UNSENT,
    )
    async def lift(self, switch: str, why: str, *, by: str = "local", role: Role = "operate") -> SwitchReport:
        """End a switch: what is started from here on runs. The sessions that it halted stay halted.

        Raises:
            Refused: ``role`` is not an operator's; code ``already_lifted`` if it does not stand.
            InvalidInput: there is no such switch, or no reason.
        """
        check_operator(role, "lift the kill switch")
        await check_people_send(self._worker.store, "lift the kill switch")
        found = await self._standing.find(switch)
        if not found.stands:
            raise Refused(
                f"Kill switch '{found.id}' was lifted before, by {found.lifted_by}.",
                code="already_lifted",
                switch=found.id,
            )
        lifted = msgspec.structs.replace(
            found, lifted_at=self._worker.clock.now(), lifted_by=by, lifted_why=_check_why(why)
        )
        await self._keep(lifted, "kill_switch.lift", by, role)
        heads = await self._list(lifted.scope)
        await self._take_back(lifted, heads, by, role)
        log.info("kill switch %s lifted by %s: %s", lifted.id, by, why)
        return await self._report(lifted, heads)

    async def _take_back(self, switch: Switch, heads: Sequence[Head], by: str, role: Role) -> None:
        """Follow undecided halts, in the inbox of a silent process, with their lifting."""
        for head in heads:
            with contextlib.suppress(MidcourseError):
                rows = await self._worker.store.undecided(head.id) if head.status != Status.HALTED else ()
                if any(row.id.startswith(f"{switch.id}/halt/") for row in rows):
                    await self._control.send(head.id, _lift(switch, by, role), until="accepted", wait=0.0)

    @served("kill-switches/{switch}/release", tuple[Released, ...], within="outcomes", method="POST", unsent=_UNSENT)
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
        check_operator(role, "resume sessions")
        await check_people_send(self._worker.store, "resume sessions")
        found = await self._standing.find(switch)
        if found.stands:
            raise Refused(
                f"Kill switch '{found.id}' is in force: lift it first, then release its sessions.",
                code="kill_switch_stands",
                switch=found.id,
            )
        held = [head.id async for head in self._covered(found.scope) if head.switch == found.id]
        wanted = held if sessions is None else [SessionId(one) for one in sessions]
        places = asyncio.Semaphore(_AT_ONCE)
        known = frozenset(held)
        done = await asyncio.gather(
            *(self._release(found, one, one in known, places, by=by, role=role, wait=wait) for one in wanted)
        )
        log.info(
            "kill switch %s: %d of %d sessions released by %s", found.id, sum(one.ok for one in done), len(done), by
        )
        return done

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
        async with places:
            try:
                reply = await self._control.send(session, _lift(switch, by, role), until="decided", wait=wait)
            except MidcourseError as error:
                return Released(session=session, ok=False, code=error.code, problem=without_path(error))
        if reply.level == "accepted":
            problem = f"Stored; the process of session '{session}' has not answered yet."
            return Released(session=session, ok=False, status=reply.status, code="not_reachable", problem=problem)
        if reply.status == Status.HALTED:
            problem = f"Another kill switch has halted session '{session}' again."
            return Released(session=session, ok=False, status=reply.status, code="kill_switch_stands", problem=problem)
        return Released(session=session, ok=True, status=reply.status)


def _lift(switch: Switch, by: str, role: Role) -> cmd.Lift:
    return cmd.Lift(id=CommandId(f"{switch.id}/lift/{by}"), by=by, role=role)


def covers_head(scope: Scope, head: Head) -> bool:
    """Return True if a scope covers a session in a list."""
    return scope.covers(head.id, head.agent, head.labels)


def _waits_for_children(report: SwitchReport, replies: Mapping[SessionId, Reply]) -> bool:
    """Return True if a session has stopped, and what it had begun has not."""
    running = (replies.get(line.session) for line in report.sessions if line.state == "still_running")
    return any(reply is not None and reply.level == "stopped" for reply in running)


def _heads_of(drivers: Sequence[Driver]) -> list[Head]:
    return [head_of(driver.session, b"") for driver in drivers if driver.session.status in LIVE]


def _local_report(switch: Switch, shut: Sequence[Driver]) -> SwitchReport:
    """Return what this process knows of its own sessions, without the store."""
    running = {driver.id: ", ".join(call.name for call in driver.running()) for driver in shut}
    reached = [
        _reached(head, "still_running" if running[head.id] else "stopped", running[head.id]) for head in _heads_of(shut)
    ]
    return SwitchReport(switch, worst_first(reached), durable=False)


def check_operator(role: Role, what: str) -> None:
    """Refuse any role below an operator's.

    Raises:
        Refused: the role is another.
    """
    if role != "operate":
        raise Refused(f"Only an operator may {what}; your role is {role}.", code="operator_only")


def _reached(head: Head, state: Reach, running: str, since: float | None = None) -> Reached:
    return Reached(
        session=head.id,
        agent=head.agent,
        goal=head.goal,
        state=state,
        was=head.was or head.status,
        since=since if since is not None else head.busy_since if running else 0.0,
        running=running,
    )
