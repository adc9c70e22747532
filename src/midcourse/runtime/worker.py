"""One process's share of a store: the sessions it owns, makes, acquires and releases."""

import asyncio
import logging
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from msgspec.structs import replace

from midcourse.clock import wait
from midcourse.core import events as ev
from midcourse.core.audit import made
from midcourse.core.commands import Role, encode_command
from midcourse.core.contact import AT_WORK
from midcourse.core.events import Record, Recorded, SessionCreated, encode_record
from midcourse.core.fold import first
from midcourse.core.ids import Epoch, Position, SessionId, WorkerId, root_of
from midcourse.core.session import WORKS, Session, Status
from midcourse.core.tenants import DEFAULT, tenant_of
from midcourse.core.terms import NO_TERMS, UNWATCHED, Terms
from midcourse.errors import (
    AgentUnavailable,
    Damaged,
    MidcourseError,
    OwnerAlive,
    Refused,
    SessionNotFound,
    StaleEpoch,
    StoreError,
    encodable_text,
)
from midcourse.ports.active_switches import ActiveSwitches
from midcourse.ports.bus import Bus
from midcourse.ports.clock import Clock
from midcourse.ports.meter import UNMETERED, Meter
from midcourse.ports.projection import Projection
from midcourse.ports.store import Append, Creation, Deciding, Head, Owned, Store
from midcourse.runtime.admission import Admission
from midcourse.runtime.agents import Agent
from midcourse.runtime.audit_entry import entry_of
from midcourse.runtime.calls import enter_process
from midcourse.runtime.children import is_orphaned, parent_name, passed_on_id
from midcourse.runtime.command_listener import CommandListener
from midcourse.runtime.command_outcome import encode_outcome, refusal
from midcourse.runtime.context import RuntimeContext, SessionTree
from midcourse.runtime.deferred_calls import DeferredCalls
from midcourse.runtime.driver import Driver
from midcourse.runtime.failed_writes import FailedWrites
from midcourse.runtime.fanout import Fanout
from midcourse.runtime.group_reaper import process_group_reaper
from midcourse.runtime.journal import TURNS, Journal, head_of
from midcourse.runtime.process_pool import ProcessPool
from midcourse.runtime.session_loader import LoadedSession, load
from midcourse.runtime.settings import Settings
from midcourse.runtime.signal_reader import SignalReader
from midcourse.runtime.supervisor import Supervisor, WatchedSession
from midcourse.runtime.sweeper import Sweeper
from midcourse.runtime.thread_pool import ThreadPool
from midcourse.runtime.tools import AgentPlace, known_tool

log = logging.getLogger("midcourse")

THREADS: Final = 64
"""Plain functions that may run as steps at the same time."""


_SAYS_AGAIN: Final = 5.0
"""Seconds between two sentences about what the end of this process waits for."""


class Worker:
    """Own sessions of one store in this process. Without ``drives`` it sends and decides commands only."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        clock: Clock,
        settings: Settings,
        agents: Mapping[str, Agent[object]],
        *,
        drives: bool,
        checkpoints: Projection,
        meter: Meter = UNMETERED,
        recovers: bool = True,
    ) -> None:
        self.store = store
        self.bus = bus
        self.clock = clock
        self.settings = settings
        self.agents = agents
        self.drives = drives
        self.meter = meter
        self._checkpoints = checkpoints
        self.id = WorkerId(f"worker_{clock.fresh_id()}")
        self.fanout = Fanout(bus, clock)
        self.standing = ActiveSwitches(store)
        self.failed_writes = FailedWrites(store, clock)
        self._driven: set[str] | None = None if recovers else set()
        self.sweeper = Sweeper(
            store,
            clock,
            has_agent=self._has_agent,
            has_tools=self._has_tools,
            attend=self.attend,
            is_own=None if recovers else self._is_own,
        )
        self._lock = threading.Lock()
        self._drivers: dict[SessionId, Driver] = {}
        self._watched: dict[SessionId, WatchedSession] = {}
        self._attending: set[SessionId] = set()
        self._given: dict[SessionId, Agent[object]] = {}
        self._unbroken: set[asyncio.Task[None]] = set()
        self._draining = self._closing = False
        self._last: asyncio.Task[None] | None = None
        self._threads = ThreadPool(THREADS)
        self._processes = ProcessPool(process_group_reaper(), prepare=enter_process)

    # ---- life

    async def open(self, tree: SessionTree) -> None:
        """Become a worker of the store, and begin to listen and to sweep."""
        self._turns = DeferredCalls(TURNS)
        self._listener = CommandListener(self)
        loop = asyncio.get_running_loop()
        self.supervisor = Supervisor(self.store, self.clock, loop, self.settings)
        self.signals = SignalReader(self.supervisor)
        self._ctx = RuntimeContext(
            store=self.store,
            clock=self.clock,
            fanout=self.fanout,
            settings=self.settings,
            threads=self._threads,
            processes=self._processes,
            loop=loop,
            is_fresh=self._listener.is_fresh,
            owes=self.failed_writes.has_deferred,
            admission=Admission(self.settings.max_running),
            environments=self.supervisor.environments,
            most_for_a_call=self.supervisor.most_for_a_call,
            longest_correction=self.supervisor.longest_correction,
            requires_hypothesis=self.supervisor.requires_hypothesis,
            tree=tree,
            standing=self.standing,
        )
        try:
            await self.store.enlist(self.id, self.bus.address)
            await self.supervisor.pinned(NO_TERMS, DEFAULT)  # an unknown default is better reported now
            self._listener.start()
            self.bus.listen(self._listener.hear)
        except BaseException:
            await self.close(0.0)  # no other code will close what could not be opened
            raise

    async def drain(self, grace: float) -> int:
        """Take and begin nothing more, and release every session; return how many there were. Commands still arrive.

        A session is released at its next safe point. Calls in flight may run for ``grace`` seconds; then they are
        stopped.
        """
        self._draining = True
        until = self.clock.now() + grace
        patience = self.clock.monotonic() + grace + self.settings.cleanup
        # Those that are just being taken or made are among the drivers then.
        while (self._attending or self._unbroken) and self.clock.monotonic() < patience:
            await self.clock.sleep(0.002)
        await self._write_owed_stops()
        leaving = self.drivers()
        for driver in leaving:
            driver.drain(until)
        # Polled, not waited for: drivers end by themselves, each in its own time.
        while any(not driver.is_over for driver in leaving) and self.clock.monotonic() < patience:
            await self.clock.sleep(0.002)
        return len(leaving)

    async def _write_owed_stops(self) -> None:
        """Write the stops that were answered as not durable, before another process takes what they stopped."""
        try:
            async with self.clock.timeout(self.settings.cleanup):
                await self.standing.flush()
                await self.failed_writes.pay_all()
        except (MidcourseError, TimeoutError) as error:
            log.error("stops that were answered as not durable end with this process: %s", error)

    @property
    def is_draining(self) -> bool:
        """True if it takes and begins nothing more."""
        return self._draining

    @property
    def is_listening(self) -> bool:
        """True if the thread that receives commands lives, and has recently polled the inbox."""
        return self._listener.is_listening

    @property
    def control_age(self) -> float | None:
        """Seconds since the thread that receives commands polled the inbox; None: it does not live."""
        return self._listener.age

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the agents run on."""
        return self._ctx.loop

    def take_nothing_more(self) -> None:
        """Begin to drain: nothing is acquired or made from now on. On any thread."""
        self._draining = True

    async def close(self, grace: float) -> None:
        """Let every session go at its next safe point, calls in flight within ``grace`` seconds; stop listening."""
        if self._closing:
            return
        self._closing = True
        await self.drain(grace)
        for driver in self.drivers():
            log.error("session %s: still running: %s", driver.id, ", ".join(call.name for call in driver.running()))
        if self.living():  # still owned here: another worker would undo and repeat what has not ended
            self._last = asyncio.get_running_loop().create_task(self._close_after_calls())
        else:
            await self._close()

    def living(self) -> list[str]:
        """Name the calls that have begun and not ended. On any thread."""
        return [f"'{call.name}' of session {driver.id}" for driver in self.drivers() for call in driver.calls()]

    @property
    def is_closing_after_calls(self) -> bool:
        """True if it only waits for calls to end."""
        return self._last is not None and not self._last.done()

    async def closed(self) -> None:
        """Wait until the last call has ended and the store is closed. Says now and then what it waits for."""
        while self._last is not None and self.is_closing_after_calls:
            log.warning("waiting for %s. A second signal ends this process and leaves them as lost", self._names())
            await wait(self.clock, {self._last}, _SAYS_AGAIN)

    def _names(self) -> str:
        return ", ".join(self.living()) or "the end of its last call"

    async def _close_after_calls(self) -> None:
        while self.living():
            await self.clock.sleep(0.02)
        await self.drain(0.0)
        await self._close()

    async def _close(self) -> None:
        await self._write_owed_stops()  # those that came since, or could not be written yet
        # Only now: until nothing lives, a stop is heard, and undos need to know that none was missed.
        await self._listener.close()
        await self.supervisor.finish(self.settings.cleanup)
        await self._processes.close()
        await self._checkpoints.close()
        self.bus.close()
        await self.store.close()

    def driver(self, session_id: SessionId) -> Driver | None:
        """Return the driver of a session this process owns."""
        return self._drivers.get(session_id)

    def has_given_up(self, session_id: SessionId) -> bool:
        """Return True if a write failed for a session of this process: nothing of it lives until writes work again."""
        return session_id in self.failed_writes and session_id not in self._drivers

    def drivers(self) -> list[Driver]:
        with self._lock:
            return list(self._drivers.values())

    # ---- sessions

    async def create(
        self,
        session_id: SessionId,
        agent: Agent[object],
        goal: str,
        *,
        parent: SessionId | None = None,
        terms: Terms | None = None,
        by: str = "local",
        role: Role = "operate",
    ) -> None:
        """Store a new session and, in a process that drives, begin it. A child is begun by its parent, later.

        Who started it is in the audit log, unless its parent did.

        Raises:
            Refused: ``draining``: this process is about to end, and begins nothing.
        """
        if self._draining and parent is None:
            raise Refused(
                "This process is about to end and starts no new sessions. Try again in a moment: another one takes "
                "over.",
                code="draining",
            )
        await self._shielded(self._create(session_id, agent, goal, parent=parent, terms=terms, by=by, role=role))

    async def _create(
        self,
        session_id: SessionId,
        agent: Agent[object],
        goal: str,
        *,
        parent: SessionId | None,
        terms: Terms | None,
        by: str,
        role: Role,
    ) -> None:
        terms = await self.supervisor.pinned(terms or agent.terms, tenant_of(session_id))
        event = SessionCreated(
            agent=agent.name,
            agent_version=agent.version,
            mode=agent.mode,
            origin=agent.origin,
            resumable=agent.resumable,
            goal=goal,
            parent=parent,
            terms=terms,
            by=by if parent is None else parent_name(parent),
        )
        at = self.clock.now()
        content = encode_record(Record(at, event))
        state = first(session_id, at, event, content)
        rows = [(Position(1), content, state.digest)]
        worker = self.id if self.drives and parent is None else None
        if (
            parent is not None
        ):  # also if it exists: a parent that continues elsewhere makes the closures it spawned anew
            self._remember(session_id, agent)
        audit = (
            (made(session_id, by, role, "session.start", f"{agent.name}: {goal}" if goal else agent.name, at),)
            if parent is None
            else ()
        )
        epoch = await self.store.create(
            Creation(head_of(state.session, state.digest), rows, worker=worker, audit=audit)
        )
        self._remember(session_id, agent)
        question = self.supervisor.about_goal(state.session, asks=agent.asks)
        if question is not None:  # decided before anything of it begins, under any owner
            try:
                await self.store.put(session_id, question.id, encode_command(question), at)
            except StoreError as error:  # it exists and is ours: better begun without its question than never
                log.warning("session %s begins without asking what it is to do: %s", session_id, error)
                question = None
        if worker is not None:
            is_clear = await self._is_clear(state.session)
            driver = self._drive(LoadedSession(state, 0), epoch, decides_first=question is not None, is_clear=is_clear)
            if question is not None:
                await driver.recover()

    async def _is_clear(self, session: Session) -> bool:
        """Return True if no kill switch covers a session that is durable. If that is unknown, its starter checks."""
        try:
            return await self.standing.switch_over(session) is None
        except MidcourseError:
            return False

    async def attend(self, session_id: SessionId, sponsor: Driver | None = None) -> None:
        """Acquire a session without a live owner, decide its inbox, and drive it or release it again.

        ``sponsor`` is the parent of a child that has not begun: only its parent begins it.

        Raises:
            Damaged: its journal is damaged; it is marked as failed.
            SessionNotFound: no such session.
        """
        with self._lock:
            if self._draining or session_id in self._drivers or session_id in self._attending:
                return
            if self.failed_writes.waits(session_id):
                return
            self._attending.add(session_id)
        await self._shielded(self._attend(session_id, sponsor))

    async def _attend(self, session_id: SessionId, sponsor: Driver | None) -> None:
        try:
            driver = await self._take(session_id, sponsor)
        except OwnerAlive:
            return
        finally:
            with self._lock:
                self._attending.discard(session_id)
        await driver.recover()

    async def _shielded(self, doing: Coroutine[Any, Any, None]) -> None:
        """Run it to its end, also if the caller is cancelled: a session that is owned and not driven would stay so."""
        task = asyncio.get_running_loop().create_task(doing)
        self._unbroken.add(task)
        task.add_done_callback(self._unbroken.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)  # it is no longer waited for
            raise

    def _remember(self, session_id: SessionId, agent: Agent[object]) -> None:
        """Keep an agent that could not be found again by its name: a closure, or one this worker was not given."""
        if not agent.resumable or self.agents.get(agent.name) is not agent:
            self._given[session_id] = agent

    def _has_agent(self, head: Head) -> bool:
        return head.agent in self.agents or head.id in self._given

    def _is_own(self, session_id: SessionId) -> bool:
        """Return True if this process has driven it, or its parent, before."""
        return self._driven is not None and root_of(session_id) in self._driven

    def _has_tools(self, session: Session) -> bool:
        """Return True if this process has declared the tools that the session's cancel waits for."""
        agent = self._given.get(session.id, self.agents.get(session.agent))
        moved = AgentPlace(session.origin, agent.origin if agent is not None else "")
        return all(known_tool(origin, moved) is not None for origin in session.needs)

    def adopt(self, new: SessionId, source: SessionId) -> None:
        """Let a fork continue wherever its source could: a closure in the process that has it."""
        if source in self._given:
            self._given[new] = self._given[source]

    async def _take(self, session_id: SessionId, sponsor: Driver | None) -> Driver:
        began = self.clock.monotonic()
        epoch = self.failed_writes.epoch(session_id)
        if epoch is None:
            try:
                owned = await self.store.take(session_id, self.id)
            except StoreError as error:
                self.failed_writes.note(error)
                raise
        else:  # still ours: a write had failed, and it continues from its durable state
            owned = await self._take_again(session_id, epoch)
        try:
            loaded, orphaned = await self._load(owned, sponsor)
        except StoreError as error:  # ours, and driven by nothing: it is tried again
            self.failed_writes.add(session_id, owned.epoch, error)
            raise
        driver = self._drive(loaded, owned.epoch, taken=True, sponsor=sponsor, orphaned=orphaned)
        with driver.journal.lock:
            if loaded.state.session.status in AT_WORK:
                self.meter.taking(loaded.state.session, self.clock.monotonic() - began)
            calls = driver.journal.session.calls.values()
            lost = tuple(call.step for call in calls if not call.end or call.undo == "running")
            taken = ev.SessionTaken(epoch=owned.epoch, worker=self.id, lost=lost)
            if lost or (driver.has_agent and loaded.state.session.status in AT_WORK):
                driver.journal.append(taken)  # calls were lost, or work is continued here: that is a fact
            else:
                driver.journal.take(taken)
        self.failed_writes.taken(session_id)
        return driver

    async def _load(self, owned: Owned, sponsor: Driver | None) -> tuple[LoadedSession, bool]:
        """Read what was taken, and whether no parent will begin it.

        Raises:
            Damaged: its journal is damaged; it is marked as failed.
            StoreError: it cannot be read now.
        """
        try:
            loaded = await load(self.store, owned.head)
        except Damaged as error:
            await self._mark_damaged(owned, error)
            raise
        await self.supervisor.learn(loaded.state.session)
        if sponsor is not None or loaded.state.session.status in WORKS:
            return loaded, False
        child = owned.head.id
        try:
            return loaded, await is_orphaned(self.store, owned.head)
        except (Damaged, SessionNotFound):
            # The sweep pauses a child of such a parent, once. If that was lifted, it begins.
            return loaded, await self.store.row(child, passed_on_id(child, "orphaned")) is not None

    async def _take_again(self, session_id: SessionId, epoch: Epoch) -> Owned:
        """Return the head of a session that is still ours, once the store takes writes for it again."""
        try:
            await self.failed_writes.flush(session_id)
            owned = await self.store.head(session_id)
            if owned.owner == self.id:  # under a later epoch, if it was an earlier driver's write that failed last
                epoch = owned.epoch
                await self.store.append(Append(owned.head, epoch=epoch))  # or a step runs whose result cannot be kept
                self.failed_writes.written()
                return owned
        except StaleEpoch:
            pass
        except (StoreError, Damaged) as error:
            self.failed_writes.add(session_id, epoch, error)
            raise
        self.failed_writes.taken(session_id)
        raise OwnerAlive(f"Session '{session_id}' has another owner by now.")

    def _drive(
        self,
        loaded: LoadedSession,
        epoch: Epoch,
        *,
        taken: bool = False,
        decides_first: bool = False,
        is_clear: bool = False,
        sponsor: Driver | None = None,
        orphaned: bool = False,
    ) -> Driver:
        session = loaded.state.session
        journal = Journal(
            self.store,
            self.clock,
            loaded.state,
            epoch,
            turns=self._turns,
            grown=lambda holds_end: self._grown(session, holds_end),
            broke=lambda error: self._broke(session.id, epoch, error),
            added=lambda record: self._added(session.id, record),
            snapshot_size=loaded.snapshot_size,
            since=loaded.since,
            pace=self.supervisor.pace(session.terms),
            meter=self.meter,
        )
        agent = self._given.get(session.id, self.agents.get(session.agent)) if self.drives else None
        unavailable = None
        if not session.resumable and session.id not in self._given:
            agent = None
            unavailable = AgentUnavailable(
                f"Session '{session.id}' cannot continue in this process: its agent '{session.agent}' "
                f"({session.origin}) is a closure, which lived only in the process that started it. Nothing is lost; "
                "define the agent at the top level of a module and start a new session.",
                session_id=session.id,
            )
        driver = Driver(
            journal,
            agent,
            self._ctx,
            gone=self._forget,
            unavailable=unavailable,
            sponsor=sponsor,
            orphaned=orphaned,
            is_recovering=taken or decides_first,
            is_clear=is_clear,
        )
        watched = None
        if agent is not None and session.terms.policy not in ("", UNWATCHED):
            watched = WatchedSession(driver, self.supervisor)
        with self._lock:
            if self._driven is not None:
                self._driven.add(root_of(session.id))
            self._drivers[session.id] = driver
            if watched is not None:
                self._watched[session.id] = watched
        if _is_readable(session):
            self._checkpoints.moved(session.id)
        driver.wake()
        return driver

    def _grown(self, session: Session, holds_end: bool) -> None:
        if holds_end:
            self.failed_writes.kept(session.id)
        else:
            self.failed_writes.written()
        self.fanout.grown(session.id)
        if _is_readable(session):
            self._checkpoints.moved(session.id)

    def _added(self, session_id: SessionId, record: Recorded) -> None:
        watched = self._watched.get(session_id)
        if watched is not None:
            watched.saw(record)
        if isinstance(record.event, ev.InterventionMade | ev.InterventionLabelled):
            self.supervisor.note(self._drivers[session_id].session, record)

    def erased(self, session: Session) -> None:
        """Tell those who show the session that what was said in it is gone."""
        self.fanout.grown(session.id)
        if _is_readable(session):
            self._checkpoints.erased(session.id)

    def _forget(self, driver: Driver) -> None:
        with self._lock:
            if self._drivers.get(driver.id) is driver:
                del self._drivers[driver.id]
                watched = self._watched.pop(driver.id, None)
                if watched is not None:
                    watched.stop()
        if driver.journal.broken is None:
            self.failed_writes.kept(driver.id)
        session = driver.journal.session
        self.sweeper.left(session)
        self.fanout.left(driver.id)
        self.meter.left(driver.id)
        if _is_readable(session):
            self._checkpoints.left(session.id)

    def _broke(self, session_id: SessionId, epoch: Epoch, error: MidcourseError) -> None:
        driver = self._drivers.get(session_id)
        if isinstance(error, StaleEpoch):
            log.warning("session %s: %s", session_id, error)
        else:
            log.error("session %s: stopped, because its journal cannot be written: %s", session_id, error)
            self.failed_writes.add(session_id, epoch, error)
        if driver is not None:
            driver.wake()

    async def _mark_damaged(self, owned: Owned, error: Damaged) -> None:
        """Mark a session with a damaged journal as failed: its commands are refused, and nothing of it continues."""
        head = owned.head
        outcome = refusal(error, "failed", head.position)
        for row in await self.store.undecided(head.id):
            entry = replace(entry_of(head.id, row, outcome), at=self.clock.now())
            deciding = Deciding(row.id, encode_outcome(outcome))
            await self.store.append(Append(head, epoch=owned.epoch, deciding=deciding, audit=(entry,)))
        buried = replace(head, status=Status.FAILED.value, wake_at=None)
        await self.store.append(Append(buried, epoch=owned.epoch, release=True))
        log.error("session %s: %s", head.id, error)

    async def must_exist(self, session_id: SessionId) -> Owned:
        """Return the session's head and owner.

        Raises:
            SessionNotFound: no such session.
        """
        try:
            return await self.store.head(session_id)
        except (SessionNotFound, UnicodeEncodeError):  # no id that was ever given holds half a surrogate pair
            raise SessionNotFound(
                f"There is no session '{encodable_text(session_id)}' in {self.store.name}. "
                "List them, or check the store's URL.",
                session_id=session_id,
            ) from None


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a session could not be acquired: %s", error)


def _is_readable(session: Session) -> bool:
    """Return True if the session's checkpoint is also kept elsewhere for people. Its terms never change."""
    return session.terms.backend == "redis"
