"""One process's share of a store: the sessions it owns, those it takes over, and the thread that hears commands.

Control runs on a loop of its own, in a thread of its own: a command from another process is decided, and the gate shut,
even while an agent blocks the loop it runs on.
"""

import asyncio
import logging
import threading
from collections.abc import Coroutine, Mapping
from itertools import groupby
from typing import Any, Final

from msgspec.structs import replace

from midcourse.core import events as ev
from midcourse.core.commands import AnyCommand, encode_command
from midcourse.core.events import Record, Recorded, SessionCreated, encode_record
from midcourse.core.fold import first
from midcourse.core.ids import CommandId, Epoch, Position, SessionId, WorkerId, depth_of
from midcourse.core.session import NEEDS_DRIVING, Session, Status
from midcourse.core.tenants import DEFAULT, tenant_of
from midcourse.core.terms import NO_TERMS, Terms
from midcourse.errors import (
    AgentUnavailable,
    Damaged,
    MidcourseError,
    OwnerAlive,
    Refused,
    SessionNotFound,
    StaleEpoch,
    StoreError,
    spelled_out,
)
from midcourse.ports.bus import Bus, Delta, Grown, Note, Wake, Watch
from midcourse.ports.clock import Clock
from midcourse.ports.meter import UNMETERED, Meter
from midcourse.ports.projection import Projection
from midcourse.ports.store import Deciding, Head, Owned, Store
from midcourse.runtime.admission import Admission
from midcourse.runtime.agents import Agent
from midcourse.runtime.auditing import entry_of
from midcourse.runtime.calls import enter_process
from midcourse.runtime.children import STOPS_CHILDREN, parent_name, passed_on
from midcourse.runtime.driver import Driver
from midcourse.runtime.fanout import Fanout
from midcourse.runtime.journal import TURNS, Journal, head_of
from midcourse.runtime.loading import Loaded, load
from midcourse.runtime.minding import the_minder
from midcourse.runtime.outcomes import encode_outcome, refusal
from midcourse.runtime.processes import Processes
from midcourse.runtime.settings import Settings
from midcourse.runtime.signals import SignalReader
from midcourse.runtime.standing import Standing, halt_of, must_halt
from midcourse.runtime.supervision import UNWATCHED, Supervisor, Watched
from midcourse.runtime.surroundings import Surroundings, Tree
from midcourse.runtime.threads import Threads
from midcourse.runtime.turns import Turns
from midcourse.runtime.watchdog import Watchdog

log = logging.getLogger("midcourse")

THREADS: Final = 64
"""Plain functions that may run as steps at the same time."""
_MOST_PATIENT: Final = 60.0
"""The longest wait, in seconds, before a session whose journal could not be written is tried again."""
_SWEEP: Final = 1000
AT_WORK: Final = frozenset({Status.RUNNING, Status.PAUSING, Status.CANCELLING})
"""Where a session stands that works, or finishes a stop."""
_GOES_ON: Final = frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING, Status.PAUSED})
"""Where a session stands that may begin calls once it is taken; elsewhere it only finishes a stop or an undo."""
_AT_ONCE: Final = 32
"""Sessions taken at the same time by a sweep: enough to share commits, few enough to hear commands in between."""


class Worker:
    """Owns sessions of one store in this process. Without ``drives`` it sends commands and decides what nobody owns."""

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
        self.standing = Standing(store)
        self._lock = threading.Lock()
        self._drivers: dict[SessionId, Driver] = {}
        self._watched: dict[SessionId, Watched] = {}
        self._attending: set[SessionId] = set()
        self._given: dict[SessionId, Agent[object]] = {}
        self._broken: dict[SessionId, Epoch] = {}
        self._owed: dict[SessionId, dict[CommandId, AnyCommand]] = {}
        self._patience: dict[SessionId, float] = {}
        self._missed: set[str] = set()
        self._left_to_others: dict[SessionId, Position] = {}
        self._try_again_at: dict[SessionId, float] = {}
        self._woken: set[SessionId] = set()
        self._unbroken: set[asyncio.Task[None]] = set()
        self._looked_at = clock.monotonic()
        self._draining = self._closing = False
        self._threads = Threads(THREADS)
        self._processes = Processes(the_minder(), prepare=enter_process)

    # ---- life

    async def open(self, tree: Tree) -> None:
        """Become a worker of the store, and begin to listen and to sweep."""
        self._turns = Turns(TURNS)
        self._watchdog = Watchdog(self.clock, self.settings.blocked_after)
        loop = asyncio.get_running_loop()
        self.supervisor = Supervisor(self.store, self.clock, loop, self.settings)
        self.signals = SignalReader(self.supervisor)
        self._around = Surroundings(
            store=self.store,
            clock=self.clock,
            fanout=self.fanout,
            settings=self.settings,
            threads=self._threads,
            processes=self._processes,
            loop=loop,
            is_fresh=self._is_fresh,
            admission=Admission(self.settings.max_running),
            environments=self.supervisor.environments,
            tree=tree,
            standing=self.standing,
        )
        self._control = asyncio.new_event_loop()
        self._noted = asyncio.Event()
        self._thread = threading.Thread(target=self._run_control, name="midcourse-control", daemon=True)
        try:
            await self.store.enlist(self.id, self.bus.address)
            await self.supervisor.pinned(NO_TERMS, DEFAULT)  # a default that nobody knows is better told now
            self._thread.start()
            self.bus.listen(self._hear)
        except BaseException:
            await self.close(0.0)  # nobody else will close what could not be opened
            raise

    async def drain(self, grace: float) -> int:
        """Take and begin nothing more, and let every session go; return how many there were. Commands are still heard.

        A session goes at its next safe point. Calls in flight may go on for ``grace`` seconds; then they are stopped.
        """
        self._draining = True
        until = self.clock.now() + grace
        patience = self.clock.monotonic() + grace + self.settings.cleanup
        # Those that are just being taken or made are among the drivers then.
        while (self._attending or self._unbroken) and self.clock.monotonic() < patience:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        leaving = self.drivers()
        for driver in leaving:
            driver.drain(until)
        # Looked at, not waited for: drivers end by themselves, each in its own time.
        while any(not driver.is_over for driver in leaving) and self.clock.monotonic() < patience:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        return len(leaving)

    @property
    def is_draining(self) -> bool:
        """Whether it takes and begins nothing more."""
        return self._draining

    @property
    def is_listening(self) -> bool:
        """Whether the thread that hears commands lives, and has looked at the inbox lately."""
        return self._thread.is_alive() and self._is_fresh()

    @property
    def control_age(self) -> float | None:
        """Seconds since the thread that hears commands looked at the inbox; None: it does not live."""
        return self.clock.monotonic() - self._looked_at if self._thread.is_alive() else None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the agents run on."""
        return self._around.loop

    def take_nothing_more(self) -> None:
        """Begin to drain: nothing is taken or made from now on. On any thread."""
        self._draining = True

    async def close(self, grace: float) -> None:
        """Let every session go at its next safe point, calls in flight within ``grace`` seconds; stop listening."""
        if self._closing:
            return
        self._draining = self._closing = True
        # The listener first: a session that it is just taking is among the drivers then.
        self._nudge()
        if self._thread.ident is None:  # it was never opened
            self._control.close()
        else:
            # Looked at, not waited for in a thread: agents may have taken all threads that the loop lends.
            while self._thread.is_alive():  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        await self.drain(grace)
        for driver in self.drivers():
            log.error("session %s: still running: %s", driver.id, ", ".join(call.name for call in driver.running()))
        await self.supervisor.finish(self.settings.cleanup)
        await self._processes.close()
        await self._checkpoints.close()
        self.bus.close()
        await self.store.close()

    def driver(self, session_id: SessionId) -> Driver | None:
        """The driver of a session this process owns."""
        return self._drivers.get(session_id)

    def has_given_up(self, session_id: SessionId) -> bool:
        """Whether a write failed for a session of this process, so that nothing of it lives until writes work again."""
        return session_id in self._broken and session_id not in self._drivers

    def owe(self, session_id: SessionId, stop: AnyCommand) -> None:
        """A stop was answered and could not be written: it goes into the inbox before anything of the session begins.

        Kept in memory: if this process ends before it can write again, the stop is lost, as its answer had said.
        """
        with self._lock:
            self._owed.setdefault(session_id, {})[stop.id] = stop

    async def _pay(self, session_id: SessionId) -> None:
        """Put what is owed into the inbox.

        Raises:
            StoreError: that still cannot be written.
        """
        for stop in list(self._owed.get(session_id, {}).values()):
            await self.store.put(session_id, stop.id, encode_command(stop), self.clock.now())
        with self._lock:
            self._owed.pop(session_id, None)

    def drivers(self) -> list[Driver]:
        """All of them."""
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
    ) -> None:
        """Store a new session and, in a process that drives, begin it. A child is begun by its parent, later.

        Raises:
            Refused: ``draining``: this process is about to end, and begins nothing.
        """
        if self._draining and parent is None:
            raise Refused(
                "This process is about to end and starts no new sessions. Try again in a moment: another one goes on.",
                code="draining",
            )
        await self._whole(self._create(session_id, agent, goal, parent=parent, terms=terms, by=by))

    async def _create(
        self,
        session_id: SessionId,
        agent: Agent[object],
        goal: str,
        *,
        parent: SessionId | None,
        terms: Terms | None,
        by: str,
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
        if parent is not None:  # also if it exists: a parent that goes on elsewhere makes the closures it spawned anew
            self._remember(session_id, agent)
        epoch = await self.store.create(head_of(state.session, state.digest), rows, worker=worker)
        self._remember(session_id, agent)
        question = self.supervisor.about_goal(state.session, asks=agent.asks)
        if question is not None:  # decided before anything of it begins, whoever drives it
            try:
                await self.store.put(session_id, question.id, encode_command(question), at)
            except StoreError as error:  # it exists and is ours: better begun without its question than never
                log.warning("session %s begins without asking what it is to do: %s", session_id, error)
                question = None
        if worker is not None:
            is_clear = await self._is_clear(state.session)
            driver = self._drive(Loaded(state, 0), epoch, decides_first=question is not None, is_clear=is_clear)
            if question is not None:
                await driver.recover()

    async def _is_clear(self, session: Session) -> bool:
        """Whether no kill switch stands over a session that is durable. If nobody can tell, whoever begins it looks."""
        try:
            return await self.standing.over(session) is None
        except MidcourseError:
            return False

    async def attend(self, session_id: SessionId, sponsor: Driver | None = None) -> None:
        """Take a session nobody alive owns, decide its inbox, and drive it on or let it go again.

        ``sponsor`` is the parent of a child that has not begun: only its parent begins it.

        Raises:
            Damaged: its journal is damaged; it is marked as failed.
            SessionNotFound: no such session.
        """
        with self._lock:
            if self._draining or session_id in self._drivers or session_id in self._attending:
                return
            self._attending.add(session_id)
        await self._whole(self._attend(session_id, sponsor))

    async def _attend(self, session_id: SessionId, sponsor: Driver | None) -> None:
        try:
            driver = await self._take(session_id, sponsor)
        except OwnerAlive:
            return
        finally:
            with self._lock:
                self._attending.discard(session_id)
        await driver.recover()

    async def _whole(self, doing: Coroutine[Any, Any, None]) -> None:
        """Do it to its end, also if whoever waits is cancelled: what is ours and not driven, nobody else takes."""
        task = asyncio.get_running_loop().create_task(doing)
        self._unbroken.add(task)
        task.add_done_callback(self._unbroken.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_tell_of_failure)  # nobody waits for it any more
            raise

    def _remember(self, session_id: SessionId, agent: Agent[object]) -> None:
        """Keep an agent that could not be found again by its name: a closure, or one this worker was not given."""
        if not agent.resumable or self.agents.get(agent.name) is not agent:
            self._given[session_id] = agent

    def adopt(self, new: SessionId, source: SessionId) -> None:
        """A fork can go on wherever its source could: a closure in the process that has it."""
        if source in self._given:
            self._given[new] = self._given[source]

    async def _take(self, session_id: SessionId, sponsor: Driver | None) -> Driver:
        began = self.clock.monotonic()
        epoch = self._broken.get(session_id)
        if epoch is None:
            owned = await self.store.take(session_id, self.id)
        else:  # still ours: a write had failed, and it goes on from what is durable
            await self._pay(session_id)
            owned = await self.store.head(session_id)
            if owned.owner != self.id or owned.epoch != epoch:
                raise OwnerAlive(f"Session '{session_id}' has another owner by now.")
        try:
            loaded = await load(self.store, owned.head)
        except Damaged as error:
            await self._bury(owned, error)
            raise
        await self.supervisor.learn(loaded.state.session)
        driver = self._drive(loaded, owned.epoch, taken=True, sponsor=sponsor)
        with driver.journal.lock:
            if loaded.state.session.status in AT_WORK:
                self.meter.taking(loaded.state.session, self.clock.monotonic() - began)
            calls = driver.journal.session.calls.values()
            lost = tuple(call.step for call in calls if not call.end or call.undo == "running")
            driver.journal.append(ev.SessionTaken(epoch=owned.epoch, worker=self.id, lost=lost))
        self._broken.pop(session_id, None)
        return driver

    def _drive(
        self,
        loaded: Loaded,
        epoch: Epoch,
        *,
        taken: bool = False,
        decides_first: bool = False,
        is_clear: bool = False,
        sponsor: Driver | None = None,
    ) -> Driver:
        session = loaded.state.session
        journal = Journal(
            self.store,
            self.clock,
            loaded.state,
            epoch,
            turns=self._turns,
            grown=lambda: self._grown(session),
            broke=lambda error: self._broke(session.id, epoch, error),
            added=lambda record: self._added(session.id, record),
            snapshot_size=loaded.snapshot_size,
            meter=self.meter,
        )
        agent = self._given.get(session.id, self.agents.get(session.agent)) if self.drives else None
        unavailable = None
        if not session.resumable and session.id not in self._given:
            agent = None
            unavailable = AgentUnavailable(
                f"Session '{session.id}' cannot go on in this process: its agent '{session.agent}' ({session.origin}) "
                "is a closure, which lived only in the process that started it. Nothing is lost; define the agent at "
                "the top level of a module and start a new session.",
                session_id=session.id,
            )
        driver = Driver(
            journal,
            agent,
            self._around,
            gone=self._forget,
            unavailable=unavailable,
            sponsor=sponsor,
            is_recovering=taken or decides_first,
            is_clear=is_clear,
        )
        watched = None
        if agent is not None and session.terms.policy not in ("", UNWATCHED):
            watched = Watched(driver, self.supervisor)
        with self._lock:
            self._drivers[session.id] = driver
            if watched is not None:
                self._watched[session.id] = watched
        if _is_readable(session):
            self._checkpoints.moved(session.id)
        driver.wake()
        return driver

    def _grown(self, session: Session) -> None:
        self.fanout.grown(session.id)
        if _is_readable(session):
            self._checkpoints.moved(session.id)

    def _added(self, session_id: SessionId, record: Recorded) -> None:
        watched = self._watched.get(session_id)
        if watched is not None:
            watched.saw(record)
        if isinstance(record.event, ev.InterventionMade | ev.InterventionLabelled | ev.ReportMade):
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
            self._patience.pop(driver.id, None)
        session = driver.journal.session
        if session.status is Status.CANCELLING or (session.undo is not None and not session.undo.done):
            self._left_to_others[session.id] = session.position  # what is left needs the agent's tools
        else:
            self._left_to_others.pop(session.id, None)
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
            self._broken[session_id] = epoch
            # Longer each time: what cannot be written may be a step's result, and to try again runs the step again.
            wait = self._patience[session_id] = min(_MOST_PATIENT, 2 * self._patience.get(session_id, 0.25))
            self._try_again_at[session_id] = self.clock.monotonic() + wait
        if driver is not None:
            driver.wake()

    async def _bury(self, owned: Owned, error: Damaged) -> None:
        """A damaged journal is never continued: its commands are refused, and lists show the session as failed."""
        head = owned.head
        outcome = refusal(error, "failed", head.position)
        for row in await self.store.undecided(head.id):
            entry = replace(entry_of(head.id, row, outcome), at=self.clock.now())
            deciding = Deciding(row.id, encode_outcome(outcome))
            await self.store.append(head, (), epoch=owned.epoch, deciding=deciding, audit=(entry,))
        buried = replace(head, status=Status.FAILED.value, wake_at=None)
        await self.store.append(buried, (), epoch=owned.epoch, release=True)
        log.error("session %s: %s", head.id, error)

    # ---- listening and sweeping, on the control loop

    def _is_fresh(self) -> bool:
        """Whether the inbox has been looked at since this process last stood still.

        Shorter than the time after which others call it unreachable: who was told so finds its command carried out
        first.
        """
        return self.clock.monotonic() - self._looked_at < 0.8 * self.settings.unreachable_after

    def _hear(self, note: Note) -> None:
        match note:
            case Wake(session=session, reply_to=reply_to):
                if reply_to:
                    self.fanout.tell(session, reply_to, deltas=False)
                self._woken.add(session)
                self._nudge()
            case Watch(session=session, reply_to=reply_to, deltas=deltas):
                self.fanout.tell(session, reply_to, deltas=deltas)
            case Grown(session=session):
                self.fanout.grown(session)
            case Delta():
                self.fanout.preview(note)

    def _nudge(self) -> None:
        try:
            self._control.call_soon_threadsafe(self._noted.set)
        except RuntimeError:  # closed while a note was on its way
            return

    def _run_control(self) -> None:
        asyncio.set_event_loop(self._control)
        try:
            self._control.run_until_complete(self._listen())
        finally:
            self._control.close()

    async def _listen(self) -> None:
        polled = self.clock.monotonic()
        swept = polled - 2 * self.settings.poll  # at once: what a dead process left behind goes on now
        self._noted.set()
        while not self._closing:
            try:
                async with asyncio.timeout(max(0.0, polled + self.settings.poll - self.clock.monotonic())):
                    await self._noted.wait()
            except TimeoutError:
                pass
            self._noted.clear()
            woken, self._woken = self._woken, set()
            await asyncio.gather(*(self._carefully(self._settle(session_id)) for session_id in woken))
            now = self.clock.monotonic()
            if now - polled >= self.settings.poll:
                polled = now
                await self._carefully(self._poll(now))
            if self.drives and not self._draining and now - swept >= 2 * self.settings.poll:
                swept = now
                await self._carefully(self._sweep())
                await self._carefully(self._enforce())

    async def _carefully(self, act: Coroutine[Any, Any, None]) -> None:
        """The control loop outlives whatever goes wrong with one session or one read."""
        try:
            await act
        except MidcourseError as error:
            log.warning("control: %s", error)
        except Exception:
            log.exception("control: unexpected")

    async def _settle(self, session_id: SessionId) -> None:
        driver = self._drivers.get(session_id)
        if driver is not None:
            await driver.settle()

    async def _poll(self, now: float) -> None:
        """What a lost wake-up would have told, and who has been silent."""
        mail: list[Driver] = []
        if self._drivers and await self.store.changed():
            pending = await self.store.pending(self.id)
            mail = [driver for driver in map(self._drivers.get, pending) if driver is not None]
        for driver in mail:
            driver.shut()
        # From here it is known who has mail, and they wait for it to be read; everybody else may begin calls again.
        was_fresh, self._looked_at = self._is_fresh(), now
        if not was_fresh:
            for driver in self.drivers():
                driver.wake()
        await asyncio.gather(*(self._carefully(self._read_mail(driver)) for driver in mail))
        for driver in self.drivers():
            driver.name_if_silent()
        self._name_who_blocks()
        for session_id in list(self._broken):
            if session_id not in self._drivers and self._try_again_at[session_id] <= now:
                await self._carefully(self.attend(session_id))

    def _name_who_blocks(self) -> None:
        blocked = self._watchdog.look()
        if blocked is None:
            return
        driver = self._drivers.get(blocked.session) if blocked.session else None
        whose = f"session {blocked.session}" if driver else "code outside any session"
        log.warning("%s has held its event loop for %.1f s: %s", whose, blocked.seconds, blocked.where)
        if driver is not None:
            driver.name_as_blocking(blocked)

    async def _read_mail(self, driver: Driver) -> None:
        try:
            await driver.settle()
        finally:
            driver.unshut()

    async def _sweep(self) -> None:
        """Take every session that nobody alive owns and that needs somebody."""
        statuses = [status.value for status in NEEDS_DRIVING]
        found = await self.store.unattended(statuses, self.clock.now(), limit=_SWEEP)
        needy = [owned for owned in found if self._can_help(owned)]
        for owned in found:
            self._name_missing_agent(owned.head)
        # Parents first: what lies in their inbox may stop their children.
        needy.sort(key=_depth)
        for _, generation in groupby(needy, key=_depth):
            alike = list(generation)
            for start in range(0, len(alike), _AT_ONCE):
                batch = alike[start : start + _AT_ONCE]
                await asyncio.gather(*(self._carefully(self._adopt(owned)) for owned in batch))

    async def _enforce(self) -> None:
        """Halt what a kill switch stands over and still runs here: whoever threw it may have died before telling."""
        await self.standing.write_what_is_held()
        for switch in await self.standing.glance():
            for driver in self.drivers():
                if must_halt(switch, driver.session):
                    await self._carefully(driver.obey(halt_of(switch, driver.session)))

    async def _adopt(self, owned: Owned) -> None:
        """Take a session that nobody owns; but not a child that a stop of its parent's is still to reach."""
        if not owned.pending and owned.head.status in _GOES_ON and await self._waits_for_a_stop(owned.head):
            return
        await self.attend(owned.head.id)

    async def _waits_for_a_stop(self, child: Head) -> bool:
        if child.parent is None:
            return False
        above = await self.store.head(child.parent)
        if await self.store.undecided(child.parent):
            return True
        if above.head.status not in STOPS_CHILDREN:
            return False
        stop = passed_on((await load(self.store, above.head)).state.session, child.id)
        # A stop that has reached it is behind it: whoever lifted that since wants it to go on.
        return stop is not None and await self.store.row(child.id, stop.id) is None

    def _name_missing_agent(self, head: Head) -> None:
        """Say once which agent is missing here, and nobody else drives it: a forgotten import would hang in silence."""
        if head.agent in self.agents or head.id in self._given or head.agent in self._missed or head.parent:
            return
        if head.status in (Status.RUNNING, Status.QUEUED, Status.CANCELLING):
            self._missed.add(head.agent)
            log.warning(
                "session %s is %s and nobody drives it: agent '%s' is not registered in this process. "
                "Import the module that defines it (for an agent file: load_agents), or start a program that does.",
                head.id,
                head.status,
                head.agent,
            )

    def _can_help(self, owned: Owned) -> bool:
        """A session that only needs its agent is left to a process that has it."""
        head = owned.head
        if owned.pending:
            return True
        if head.status not in (Status.RUNNING, Status.QUEUED):
            has_its_tools = head.agent in self.agents or head.id in self._given
            return has_its_tools or self._left_to_others.get(head.id) != head.position
        waits_for_its_parent = head.parent is not None and head.status == Status.QUEUED
        return (head.agent in self.agents or head.id in self._given) and not waits_for_its_parent

    async def must_exist(self, session_id: SessionId) -> Owned:
        """The session's head and owner.

        Raises:
            SessionNotFound: no such session.
        """
        try:
            return await self.store.head(session_id)
        except (SessionNotFound, UnicodeEncodeError):  # no id that was ever given holds half a surrogate pair
            raise SessionNotFound(
                f"There is no session '{spelled_out(session_id)}' in {self.store.name}. "
                "List them, or check the store's URL.",
                session_id=session_id,
            ) from None


def _tell_of_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a session could not be taken: %s", error)


def _depth(owned: Owned) -> int:
    return depth_of(owned.head.id)


def _is_readable(session: Session) -> bool:
    """Whether people want to read the session's checkpoint elsewhere. What its terms say of that never changes."""
    return session.terms.backend == "redis"
