"""The public handle: open a store, start an agent, and pause, resume, redirect, cancel, answer or watch any session."""

import asyncio
import math
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import Any, Generic, Literal, TypeVar, get_args, overload

from midcourse.client import RemoteMidcourse
from midcourse.core import commands as cmd
from midcourse.core.audit import Audited
from midcourse.core.audit_export import Title
from midcourse.core.bulk import BulkOutcome, BulkVerb, check_bulk
from midcourse.core.codec import JSON, decode
from midcourse.core.commands import Behaviour
from midcourse.core.effects import UndoChoice
from midcourse.core.endings import asks_nothing, without_result
from midcourse.core.events import AskOpened, Recorded, Verdict
from midcourse.core.events import Level as RedirectLevel
from midcourse.core.ids import AskId, CommandId, MessageId, PauseId, Position, SessionId
from midcourse.core.inbox import HandOver, Inbox, InboxAsk, check_hand_over, check_name
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import (
    Intervention,
    Interventions,
    LabelFilter,
    LabelledAlarm,
    check_alarms,
    check_interventions,
    with_labels,
)
from midcourse.core.policy.profiles import STANDARD
from midcourse.core.policy.restraint import Batch, batches
from midcourse.core.receipt import Ledger, Receipt
from midcourse.core.replies import Durability, Level, Reply
from midcourse.core.requests import (
    answer_value,
    check_audit,
    check_command_id,
    check_days,
    check_goal,
    check_listing,
    check_new_id,
    check_reason,
    check_text,
)
from midcourse.core.session import ENDED, OpenAsk, Session, Status
from midcourse.core.signals import Signals
from midcourse.core.tenants import DEFAULT, check_tenant, in_tenant, tenant_of
from midcourse.core.terms import Terms, check_terms
from midcourse.errors import AgentUnavailable, Damaged, InvalidInput, Refused
from midcourse.policies import load as load_policy
from midcourse.ports.bus import Delta
from midcourse.ports.clock import Clock
from midcourse.ports.meter import UNMETERED, Meter
from midcourse.ports.store import Head, Store
from midcourse.runtime.agents import Agent
from midcourse.runtime.artifacts import due, read_artifacts
from midcourse.runtime.auditing import audit_filter, audit_page, export_audit, prune_audit
from midcourse.runtime.bulk import bulk_command, send_to_each
from midcourse.runtime.control import Control
from midcourse.runtime.desk import Desk
from midcourse.runtime.erasing import children_of, ended_before, erase
from midcourse.runtime.interventions import MOST, read_alarms, read_labels
from midcourse.runtime.kill_switch import KillSwitch
from midcourse.runtime.loading import content_of
from midcourse.runtime.settings import Settings
from midcourse.runtime.supervision import UNWATCHED
from midcourse.runtime.worker import Worker
from midcourse.wiring import open_control, open_remote

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_FOREVER = 1e9


class SessionHandle(Generic[T_co]):
    """One session, from any process. Nothing here needs the session to be owned by this process."""

    def __init__(self, session_id: SessionId, worker: Worker, control: Control) -> None:
        self.id = session_id
        self._worker = worker
        self._control = control

    async def pause(
        self,
        reason: str = "",
        *,
        grace: float | None = None,
        lapses: float | None = None,
        until: Level = "stopping",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Stop, keeping the context. Tool calls in flight may finish, for ``grace`` seconds if given; streams are cut.

        With ``lapses`` it lifts itself after so many seconds; send it again to have it last longer, or once more
        without it to stay paused.

        The answer comes when the gate is shut (``until="stopped"``: when nothing runs), at the latest after ``wait``
        seconds, with what is known by then. ``command_id`` makes a retry the same command.
        """
        seconds = None if grace == math.inf else grace
        command = cmd.Pause(id=self._command_id(command_id), by=by, reason=reason, grace=seconds, lapses=lapses)
        return await self._control.send(self.id, command, until=until, wait=wait)

    async def resume(
        self,
        pause: str | None = None,
        *,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Go on after a pause, or try a failed session again.

        ``pause`` names the pause to lift, so that a late resume lifts no later one.
        """
        named = PauseId(pause) if pause is not None else None
        command = cmd.Resume(id=self._command_id(command_id), by=by, pause=named)
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def redirect(
        self,
        text: str,
        *,
        level: RedirectLevel = "step",
        grace: float | None = None,
        resume: bool = False,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Change the course. The instruction is durable at once and is what the agent's model sees next.

        A paused session keeps it for later, unless ``resume``; an ended one begins a new turn with it. A policy may
        want corrections (all but another goal) to be short.
        """
        await check_correction(self._control, self.id, text, level)
        seconds = None if grace == math.inf else grace
        command = cmd.Redirect(
            id=self._command_id(command_id),
            by=by,
            text=text,
            level=level,
            grace=seconds,
            resume=resume,
        )
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def cancel(
        self,
        reason: str = "",
        *,
        grace: float = 2.0,
        undo: UndoChoice | None = None,
        until: Level = "stopping",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """End the session. Calls in flight may go on for ``grace`` seconds; the receipt says what became of them.

        ``undo``: roll back what is ``in-flight`` and let go of what is held (the default); ``all`` also what had
        finished, newest first, children first; ``none`` only stops. A second cancel may only be firmer.
        :meth:`preview` tells beforehand what each would do.
        """
        command = cmd.Cancel(
            id=self._command_id(command_id),
            by=by,
            reason=reason,
            grace=_FOREVER if grace == math.inf else grace,
            undo=undo,
        )
        return await self._control.send(self.id, command, until=until, wait=wait)

    async def undo(
        self, reason: str = "", *, wait: float = 60.0, by: str = "local", command_id: str | None = None
    ) -> Receipt:
        """Roll back every effect of a session that has ended, newest first, as far as it can be.

        The receipt is provisional if it takes longer than ``wait`` seconds; it goes on all the same.
        """
        command = cmd.Undo(id=self._command_id(command_id), by=by, reason=reason)
        await self._control.send(self.id, command, until="decided", wait=wait)
        await self._control.undone(self.id, wait)
        return await self.receipt()

    async def preview(self) -> Mapping[UndoChoice, Receipt]:
        """What a cancel would make of each effect, by its ``undo``, if all goes well. Nothing is changed."""
        ledger = await self._ledger()
        return {choice: ledger.preview(choice) for choice in get_args(UndoChoice)}

    async def answer(
        self,
        value: JSON,
        *,
        ask: str | None = None,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Answer an ask; without ``ask`` the only one that is open. A child's is named ``child/ask``."""
        content = answer_value(value)
        child, _, name = (ask or "").rpartition("/")
        if child and not child.startswith(f"{self.id}."):
            raise InvalidInput(f"'{child}' is not a child of session '{self.id}'.", field="ask")
        named = AskId(name) if ask is not None else None
        # Whoever has the store open in a program of their own may approve.
        command = cmd.Answer(id=self._command_id(command_id), by=by, role="approve", value=content, ask=named)
        return await self._control.send(SessionId(child) if child else self.id, command, until="decided", wait=wait)

    async def message(
        self,
        text: str,
        *,
        behaviour: Behaviour = "enqueue",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Say something. A session that has ended begins a new turn with it.

        One that works does what ``behaviour`` says: ``enqueue`` keeps it until this turn has completed, ``redirect``
        changes the course now, ``reject`` refuses it. The answer's ``message`` names it, to edit or withdraw it.
        """
        command = cmd.Message(id=self._command_id(command_id), by=by, text=text, behaviour=behaviour)
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def edit(
        self, message: str, text: str, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Say a redirect or a queued message in other words, as long as the model has not seen it."""
        command = cmd.Edit(id=self._command_id(command_id), by=by, message=MessageId(message), text=text)
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def withdraw(
        self, message: str, *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Take a redirect or a queued message back, as long as the model has not seen it."""
        command = cmd.Withdraw(id=self._command_id(command_id), by=by, message=MessageId(message))
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def event(
        self,
        text: str,
        *,
        source: str = "",
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Tell it of an event outside, so that what it assumes may no longer hold.

        What its model is saying is cut, open asks are superseded, and the event is what the model sees next.
        """
        command = cmd.OutsideEvent(id=self._command_id(command_id), by=by, text=text, source=source)
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def raise_budget(
        self,
        budget: float,
        *,
        resume: bool = True,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Let it cost more, in dollars, and go on with it if it is paused."""
        command = cmd.Budget(id=self._command_id(command_id), by=by, budget=budget, resume=resume)
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def label(
        self,
        about: str,
        verdict: Verdict,
        note: str = "",
        *,
        wait: float = 10.0,
        by: str = "local",
        command_id: str | None = None,
    ) -> Reply:
        """Say whether it was right to step in: ``right``, ``wrong`` or ``unsure``. The last word counts.

        ``about`` names an intervention (``int_3``), or what a person did: a pause or a message. A signal that was wrong
        too often does not interrupt this agent any more.
        """
        command = cmd.Label(id=self._command_id(command_id), by=by, about=about, verdict=verdict, note=note)
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def rate(
        self, score: int, note: str = "", *, wait: float = 10.0, by: str = "local", command_id: str | None = None
    ) -> Reply:
        """Say how content you are with a session that has ended, from 1 to 5. The last word counts."""
        command = cmd.Rate(id=self._command_id(command_id), by=by, score=score, note=note)
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def interventions(self) -> Sequence[Intervention]:
        """What policies, and the agent itself, have stepped in with, oldest first: why, and the arithmetic of it."""
        found = Interventions()
        if (await self.state()).interventions:
            async for record in self._until_now():
                found.apply(record)
        return found.all

    async def signals(self) -> Signals:
        """Each signal with its thresholds and its history, measured from the journal as the session's policy does."""
        return await self._worker.signals.read((await self._worker.must_exist(self.id)).head)

    def _command_id(self, given: str | None) -> CommandId:
        return CommandId(f"cmd_{self._worker.clock.fresh_id()}" if given is None else check_command_id(given))

    async def state(self) -> Session:
        """The session as its journal tells it: status, messages, open calls and asks, plan, cost."""
        return await self._control.session(self.id)

    async def status(self) -> Status:
        """Where it stands."""
        return Status((await self._worker.must_exist(self.id)).head.status)

    @overload
    def watch(
        self,
        after: int = 0,
        *,
        deltas: Literal[False] = False,
        follow: bool = False,
    ) -> AsyncIterator[Recorded]: ...
    @overload
    def watch(self, after: int = 0, *, deltas: bool, follow: bool = False) -> AsyncIterator[Recorded | Delta]: ...
    def watch(self, after: int = 0, *, deltas: bool = False, follow: bool = False) -> AsyncIterator[Any]:
        """Every event after a position, once and in order, as it becomes durable, until the session ends.

        Come back with the last ``position`` seen to miss nothing. ``deltas`` adds previews of streamed text, which
        have no position; ``follow`` goes on into later turns.
        """
        return self._control.watch(self.id, after=Position(after), deltas=deltas, follow=follow)

    async def next_ask(self, timeout: float | None = None) -> OpenAsk:  # noqa: ASYNC109 - the caller's patience, not a cancel scope
        """The ask that has been open for longest, once there is one: its id, reason, prompt and options.

        Raises:
            SessionEnded: the session ended, and asks nothing any more.
            TimeoutError: nothing is asked in time. It goes on.
        """
        async with asyncio.timeout(timeout):
            while True:
                session = await self.state()
                if session.asks:
                    return session.asks[0]
                if session.status in ENDED:
                    raise asks_nothing(session)
                async for event in self.watch(session.position, follow=True):
                    if isinstance(event.event, AskOpened) or (await self.status()) in ENDED:
                        break

    async def result(self, timeout: float | None = None) -> T_co:  # noqa: ASYNC109 - the caller's patience, not a cancel scope
        """What the agent returned, once it has.

        Raises:
            SessionEnded: it was cancelled, or failed; the sentence says why.
            TimeoutError: it has not ended in time. It goes on.
        """
        async with asyncio.timeout(timeout):
            session, cause = await self._control.ended(self.id)
        if session.erased_at is not None:
            raise Refused(
                f"What session '{self.id}' returned was erased (session_erased).",
                code="session_erased",
                session_id=self.id,
                status=session.status.value,
            )
        if session.status is Status.COMPLETED and session.result is not None:
            return decode(await content_of(self._worker.store, session.result))
        raise without_result(session) from cause

    async def inspect(self, at: int | None = None) -> Inspection:
        """The session as it was at a journal position: messages, plan, steps, calls and asks that were open, state."""
        return await self._control.inspect(self.id, at)

    async def fork(
        self, at: int | None = None, *, session_id: str | None = None, paused: bool = False
    ) -> "SessionHandle[T_co]":
        """A new session that goes on from a point of this one: its last checkpoint, or the journal position ``at``.

        What had finished by then is not done again; what was in flight is. ``paused`` lets you redirect it first.
        """
        new = _fresh_session_id(session_id, self._worker, tenant_of(self.id))
        pause = cmd.Pause(id=self._command_id(None), reason="forked") if paused else None
        await self._control.fork(self.id, new, at, pause=pause)
        return SessionHandle(new, self._worker, self._control)

    async def lift(self, *, wait: float = 10.0, by: str = "local", command_id: str | None = None) -> Reply:
        """Lift what halted it (a restore, a kill switch that was lifted): it is back where it was. An operator's."""
        command = cmd.Lift(id=self._command_id(command_id), by=by, role="operate")
        return await self._control.send(self.id, command, until="decided", wait=wait)

    async def erase(self, reason: str = "", *, children: bool = False, by: str = "local") -> Session:
        """Erase what anybody wrote in a session that has ended: goal, messages, arguments, results, answers, …

        Its shape stays: when what happened, states, costs, the names of agents, tools and steps, who did what. With
        ``children`` its children are erased, too. ``reason`` says why, and stays. It cannot be taken back, and nothing
        can be done with the session any more. What lay on the disk is gone after ``midcourse compact``.

        Raises:
            Refused: it, or a child, has not ended; nothing is erased then.
        """
        below = await children_of(self._worker.store, self.id) if children else ()
        erased = await erase_sessions(self._worker, (self.id, *below), by=by, role="operate", reason=reason)
        return erased[0]

    async def receipt(self) -> Receipt:
        """What became of each effect: undone, kept, cannot be undone, …, unknown. Print it for a table."""
        return (await self._ledger()).receipt

    async def _ledger(self) -> Ledger:
        ledger = Ledger()
        async for record in self._until_now():
            ledger.apply(record)
        return ledger

    async def _until_now(self) -> AsyncIterator[Recorded]:
        position = (await self.state()).position
        if position == 0:
            return
        async for event in self.watch(follow=True):
            yield event
            if event.position >= position:
                return


class Midcourse:
    """An open store. Made by :func:`open`."""

    def __init__(self, control: Control) -> None:
        self._worker = control.worker
        self._control = control

    @property
    def durability(self) -> Durability:
        """What an answered control survives: nothing, the process being killed, or the power failing."""
        return self._worker.store.durability

    @property
    def kill_switch(self) -> KillSwitch:
        """The operator's standing halts over all sessions, an agent's, a label's or a tenant's."""
        return KillSwitch(self._control)

    @overload
    async def start(
        self,
        agent: Agent[T],
        goal: str = "",
        *,
        session_id: str | None = None,
        terms: Terms | None = None,
        by: str = "local",
        tenant: str = DEFAULT,
    ) -> SessionHandle[T]: ...
    @overload
    async def start(
        self,
        agent: str,
        goal: str = "",
        *,
        session_id: str | None = None,
        terms: Terms | None = None,
        by: str = "local",
        tenant: str = DEFAULT,
    ) -> SessionHandle[Any]: ...
    async def start(
        self,
        agent: "Agent[Any] | str",
        goal: str = "",
        *,
        session_id: str | None = None,
        terms: Terms | None = None,
        by: str = "local",
        tenant: str = DEFAULT,
    ) -> "SessionHandle[Any]":
        """Give an agent a goal. It runs on the loop the store was opened on; the handle steers it.

        ``terms`` take the place of the agent's own, for this session. ``tenant`` is whose it is, and becomes part of
        its id: ``acme~sess_x``.
        """
        check_goal(goal)
        identity = _fresh_session_id(session_id, self._worker, tenant)
        await self._worker.create(identity, self._resolve(agent), goal, terms=terms and check_terms(terms), by=by)
        return SessionHandle(identity, self._worker, self._control)

    def _resolve(self, agent: "Agent[Any] | str") -> Agent[object]:
        if isinstance(agent, Agent):
            return agent
        if not isinstance(agent, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
            kind = type(agent)
            raise InvalidInput(
                f"A {kind.__name__} of {kind.__module__.partition('.')[0]} is no agent of Midcourse. Wrap it first: "
                "'from midcourse.adapters.… import wrap', with pydantic_ai, langgraph or openai_agents for the dots. "
                "A function is decorated with @midcourse.agent.",
                field="agent",
            )
        known = self._worker.agents
        if agent not in known:
            names = ", ".join(sorted(known)) or "none"
            near = get_close_matches(agent, known, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "A module that defines it must be imported first."
            raise AgentUnavailable(f"No agent '{agent}' is registered here. {hint} Registered: {names}.", agent=agent)
        return known[agent]

    async def get(self, session_id: str) -> SessionHandle[Any]:
        """A session that exists.

        Raises:
            SessionNotFound: it does not.
        """
        identity = SessionId(check_text(session_id, "session_id"))
        await self._worker.must_exist(identity)
        return SessionHandle(identity, self._worker, self._control)

    async def list(
        self,
        *,
        status: Sequence[str] = (),
        agent: str | None = None,
        search: str = "",
        tenant: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> Sequence[Head]:
        """Sessions, newest first; ``search`` looks into id, agent and goal. Page on with ``before``, the last id.

        ``tenant``: those of one; left out, those of all; ``""`` are those of none.
        """
        check_listing(status, limit)
        return await self._worker.store.heads(
            statuses=tuple(status),
            agent=agent,
            search=search,
            tenant=tenant,
            limit=limit,
            before=None if before is None else SessionId(before),
        )

    async def bulk(
        self,
        verb: BulkVerb,
        sessions: Sequence[str],
        *,
        reason: str = "",
        grace: float | None = None,
        by: str = "local",
    ) -> Sequence[BulkOutcome]:
        """Pause, resume or cancel many sessions; what became of each, in their order. One refusal stops no other.

        Raises:
            InvalidInput: none, or more than 1,000 sessions are named.
        """
        names = check_bulk(verb, sessions)
        own = {"id": CommandId(f"cmd_{self._worker.clock.fresh_id()}"), "by": by}
        command = bulk_command(verb, reason, grace, own)

        async def send(session_id: str, wait: float) -> Reply:
            return await self._control.send(SessionId(session_id), command, until="decided", wait=wait)

        return await send_to_each(names, send, self._worker.clock)

    async def audit(
        self,
        after: int = 0,
        limit: int = 100,
        *,
        session: str | None = None,
        since: float | None = None,
        tenant: str | None = None,
    ) -> Sequence[Audited]:
        """Who wished or did what to which session, over all sessions, oldest first. Page on with the last ``seq`` seen.

        Those of one ``session``, ``since`` a time, or that a ``tenant`` may see, if given.

        Raises:
            Damaged: an entry was changed, removed or put in between; the sentence names it.
        """
        check_audit(after, limit)
        wanted = audit_filter(session=session, since=since, tenant=tenant)
        found: list[Audited] = []
        following: int | None = after
        while following is not None and len(found) < limit:
            page, following = await audit_page(self._worker.store, following, limit - len(found), wanted)
            found += page
        return found

    def audit_export(
        self, *, session: str | None = None, since: float | None = None, tenant: str | None = None
    ) -> AsyncIterator[bytes]:
        """The audit log as a file in pieces, JSON lines that prove themselves: ``midcourse audit --verify FILE``.

        Entries that are not of ``session``, or that ``tenant`` may not see, are there as their digests alone. It begins
        with the first ``since`` a time.
        """
        title = Title(made_at=self._worker.clock.now(), by="local", tenant=tenant, session=session, since=since)
        return export_audit(self._worker.store, title)

    async def prune_audit(self, before: float, *, by: str = "local") -> int:
        """Take the entries from before a time away, and write down that it was done. Returns how many it were.

        Raises:
            Damaged: the log is damaged there. Nothing is taken away.
        """
        now = self._worker.clock.now()
        return await prune_audit(self._worker.store, before, by=by, role="operate", now=now)

    async def interventions(
        self,
        *,
        since: float | None = None,
        agent: str | None = None,
        label: LabelFilter | None = None,
        limit: int = 100,
        tenant: str | None = None,
    ) -> Sequence[LabelledAlarm]:
        """Interventions over all sessions, newest first: those ``since`` a time, of an agent, or labelled so.

        ``label="none"`` are those of which nobody has said anything yet. A session's own list says more of each.
        """
        check_interventions(since, label, limit)
        store = self._worker.store
        most = limit if agent is None and label is None else MOST
        alarms = await read_alarms(store, since=since or 0.0, limit=most, tenant=tenant)
        labels: dict[tuple[str, str], Verdict] = {}
        labels |= {(one.session, one.about): one.verdict for one in await read_labels(store)}
        wanted = None if label == "none" else label
        found = [
            one
            for one in with_labels(reversed(alarms), labels)
            if agent in (None, one.agent) and (label is None or one.label == wanted)
        ]
        return found[:limit]

    async def alarms(
        self,
        person: str | None = None,
        *,
        gather: float | None = None,
        limit: int = 100,
        tenant: str | None = None,
    ) -> Sequence[Batch]:
        """Interventions, and artifacts that are due for review, as people are told of them, newest batch first.

        What interrupts comes at once, the rest together.

        A batch is told at its ``ready_at``: ``gather`` seconds after its first alarm, without it as long as the policy
        ``standard`` says (an hour). ``person`` is who began the session.
        """
        check_alarms(gather, limit)
        seconds = float(STANDARD.restraint.batch) if gather is None else gather
        made = await read_artifacts(self._worker.store)
        alarms = await read_alarms(self._worker.store, tenant=tenant)
        alarms += due(made, STANDARD.artifacts, self._worker.clock.now())
        seen = (one for one in alarms if person in (None, one.person) and tenant in (None, tenant_of(one.session)))
        alarms = sorted(seen, key=lambda one: one.at)
        return batches(alarms, seconds)[::-1][:limit]

    async def erase_older(self, days: float, *, by: str = "retention", limit: int = 1000) -> Sequence[Session]:
        """Erase the sessions that ended more than so many days ago, oldest first, at most ``limit`` of them.

        Who has it done leaves it in the journal and the audit log of each.
        """
        check_days(days)
        worker = self._worker
        old = await ended_before(worker.store, worker.clock.now() - days * 86_400, limit=limit)
        why = f"ended more than {days:g} days ago"
        return await erase_sessions(worker, old, by=by, role="operate", reason=why, go_on=True)

    async def inbox(self, *, by: str = "local") -> Inbox:
        """What waits for people: asks by deadline with their owners, alarms in batches, and how ``by`` answered lately.

        How often somebody approved in a row is counted where a server takes the answers.
        """
        desk = self._desk()
        row, quick = await desk.approvals(by)
        return Inbox(
            asks=tuple(await desk.asks()),
            alarms=tuple(await self.alarms(limit=50)),
            approvals_in_a_row=row,
            quick=quick,
            running=await desk.running(),
            you=by,
        )

    async def own(self, session_id: str, ask: str, owner: str | None = None, *, by: str = "local") -> InboxAsk:
        """Take an open ask, or give it to ``owner``. The last word counts.

        Raises:
            SessionNotFound: no such session.
            Refused: it has no such open ask.
        """
        wanted = check_name(by if owner is None else owner, "owner")
        return await self._desk().own(SessionId(check_text(session_id, "session_id")), ask, wanted, by=by)

    async def hand_over(self, to: str, seconds: float = 3600.0, *, by: str = "local") -> HandOver:
        """Let ``to`` stand in: what ``by`` is asked they are asked for so long, and then ``by`` again. 0 ends it."""
        to, seconds = check_hand_over(to, seconds, by)
        return await self._desk().hand_over(to, seconds, by=by)

    def _desk(self) -> Desk:
        return Desk(self._worker.store, self._worker.clock, policy=self._worker.settings.policy)

    async def work(self, grace: float = 10.0) -> None:
        """Drive sessions until SIGTERM or SIGINT, then drain: take nothing new, let each go at its next safe point.

        Calls in flight may go on for ``grace`` seconds. Nothing is cancelled: another process, or this one started
        again, goes on with every session.
        """
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for one in signals:
            loop.add_signal_handler(one, asked.set)
        try:
            await asked.wait()
        finally:
            for one in signals:
                loop.remove_signal_handler(one)
        await self.close(grace)

    async def close(self, grace: float = 2.0) -> None:
        """Let every session go at its next safe point. None is cancelled: who opens the store next goes on with it."""
        await self._worker.close(grace)


async def erase_sessions(
    worker: Worker,
    session_ids: Sequence[SessionId],
    *,
    by: str,
    role: cmd.Role,
    reason: str = "",
    go_on: bool = False,
) -> Sequence[Session]:
    """Erase ended sessions, and what the file tools kept for an undo of theirs. See ``runtime.erasing``.

    Raises:
        Refused: one has not ended. InvalidInput: the reason is too long. SessionNotFound: there is no such session.
    """
    from midcourse.tools.backups import forget_backups

    check_reason(reason)
    erased = await erase(worker, session_ids, by=by, role=role, reason=reason, go_on=go_on)
    await asyncio.to_thread(forget_backups, frozenset[str]().union(*(one.keys for one in erased)))
    return [one.session for one in erased]


async def check_correction(control: Control, session_id: SessionId, text: str, level: str) -> None:
    """Refuse a correction that is longer than the session's policy takes. Another goal, or turn, is none.

    Raises:
        InvalidInput: it is too long.
        SessionNotFound: no such session.
    """
    if level == "goal" or not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
        return
    try:
        session = await control.glance(session_id)
        if session.terms.policy in ("", UNWATCHED) or session.status in ENDED:
            return
        policy = await load_policy(control.worker.store, session.terms.policy)
    except (Damaged, InvalidInput):  # who decides the redirect says more; a policy that nobody knows wants nothing
        return
    if len(text) > policy.correction:
        raise InvalidInput(
            f"The correction has {len(text):,} characters; the policy '{policy.id}' takes at most {policy.correction}. "
            "Say it shorter, or give another goal (level 'goal').",
            field="text",
        )


def _fresh_session_id(wanted: str | None, worker: Worker, tenant: str) -> SessionId:
    """An id for a new session of a tenant. Without one, an id that was given may name it."""
    if tenant:
        check_tenant(tenant)
    named = f"sess_{worker.clock.fresh_id()}" if wanted is None else check_new_id(wanted)
    return SessionId(check_new_id(in_tenant(tenant, named) if tenant else named))


@asynccontextmanager
async def open(
    store: str | Store = "sqlite:///midcourse.db",
    *,
    durability: Durability = "power",
    drive: bool = True,
    settings: Settings | None = None,
    clock: Clock | None = None,
    redis: str | None = None,
    grace: float = 2.0,
    meter: Meter | None = None,
) -> AsyncGenerator[Midcourse]:
    """Open a store, and go on with every session in it that was left running and whose agent is registered here.

    ``drive=False`` opens it to look and to steer only. Leaving the block lets sessions go at their next safe point
    (calls in flight within ``grace`` seconds); it cancels none. ``redis`` is the URL of the Redis in which people can
    read the checkpoints of agents that say ``backend: redis``; without it, what ``MIDCOURSE_REDIS_URL`` names.
    ``meter`` hears what happens: ``midcourse.telemetry.spans.Spans``, say.
    """
    control = await open_control(
        store,
        durability=durability,
        drives=drive,
        settings=settings or Settings(),
        clock=clock,
        redis=redis,
        meter=meter or UNMETERED,
    )
    midcourse = Midcourse(control)
    try:
        yield midcourse
    finally:
        await midcourse.close(grace)


@asynccontextmanager
async def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    patience: float = 30.0,
    clock: Clock | None = None,
) -> AsyncGenerator[RemoteMidcourse]:
    """Steer the sessions of a server, with the verbs of an open store.

    Without ``url`` and ``token`` those in ``MIDCOURSE_URL`` and ``MIDCOURSE_TOKEN`` are taken. ``patience``: how many
    seconds a connection that was lost is tried again. Leaving the block stops nothing on the server.
    """
    remote = open_remote(url, token, patience=patience, clock=clock)
    try:
        yield remote
    finally:
        await remote.close()
