"""Watches the sessions of this process under their policies, and carries out what the policies decide.

Monitors measure, a policy decides, and this acts: the session's owner journals what a decision makes of it, in
order with what people want; it changes nothing if it comes too late.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from midcourse.clock import wait
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.events import Recorded
from midcourse.core.ids import CommandId, Position, SessionId
from midcourse.core.policy_decision import COSTS_ATTENTION, Alarm, Decision, Unseen
from midcourse.core.session import ENDED, LIVE, Session, Status
from midcourse.core.tenants import MARK, tenant_of
from midcourse.core.terms import UNWATCHED, TaskClass, Terms
from midcourse.errors import Damaged, InvalidInput, MidcourseError, StoreError
from midcourse.policy.document import CLASSES, Environments, Policy
from midcourse.policy.intervention_shelf import (
    LabelRecord,
    alarm_of,
    judged_by_agent,
    label_of,
    read_alarms,
    read_labels,
)
from midcourse.policy.pace import Pace, pace_of
from midcourse.policy.profiles import STANDARD
from midcourse.policy.restraint import (
    HOUR,
    NOTHING_SO_FAR,
    InterventionLedger,
    JudgedIntervention,
    counted,
    may_stop,
    restrain,
    wrong_lately,
)
from midcourse.policy.run_activity import Begun
from midcourse.policy.signals.calls_left import CallHistory
from midcourse.policy.signals.drift import Drift
from midcourse.policy.signals.encoders import Encoder, find_encoder, why_none
from midcourse.policy.signals.journal_reader import JournalReader
from midcourse.policy.signals.risk import Risk
from midcourse.policy.signals.risk import load as load_risk
from midcourse.policy.signals.run_monitor import RunMonitor
from midcourse.policy.versions import HOW_TO_SAVE
from midcourse.policy.versions import load as load_policy
from midcourse.ports.clock import Clock, Timer
from midcourse.ports.store import Store
from midcourse.runtime.past_runs import PastRuns
from midcourse.runtime.session_loader import read_events
from midcourse.runtime.settings import Settings

log = logging.getLogger("midcourse")

_DELAYS: Final = (0.05, 0.25, 1.0)
"""Seconds before an interruption that failed is tried again; then as many as the last time."""
_SLOWLY: Final = 10.0
"""Seconds between tries to begin watching, when the first few have failed."""
_STALE: Final = 60.0
"""Seconds after which what is known of other sessions is looked up again."""
_PAGE: Final = 200
"""Events of the past that are read before others have their turn."""
_SOON: Final = 0.01
"""Seconds between two checks whether an acquired session has decided its inbox."""


class InterventionTarget(Protocol):
    """The part of a watched session that the supervisor needs: its driver."""

    @property
    def now(self) -> float:
        """The session's time, which no step of the wall clock moves."""
        ...

    @property
    def id(self) -> SessionId:
        """Its id."""
        ...

    @property
    def session(self) -> Session:
        """The session as it is."""
        ...

    @property
    def may_ask(self) -> bool:
        """True if its agent may ask people."""
        ...

    @property
    def is_recovering(self) -> bool:
        """True if commands that it found in its inbox are still to be decided."""
        ...

    def show_risk(self, risk: float | None) -> None:
        """Tell lists of the risk that was measured last, with the next append."""
        ...

    def keep_pace(self, pace: Pace) -> None:
        """Journal the session this often from now on."""
        ...

    async def step_in(self, command: cmd.Intervene) -> None:
        """Put a decision into its inbox, and have it decided. What stops shuts the gate before it is written.

        Raises:
            StoreError: it could not be written.
        """
        ...


class Supervisor:
    """The shared parts of a process's watched sessions: policies, encoder, histories, and people's interruptions."""

    def __init__(self, store: Store, clock: Clock, loop: asyncio.AbstractEventLoop, settings: Settings) -> None:
        self.store = store
        self.clock = clock
        self.loop = loop
        self._default = settings.policy
        self._segment_tokens = settings.segment_tokens
        self._risk_model = load_risk(Path(settings.risk_model)) if settings.risk_model else None
        self._policies: dict[str, Policy] = {}
        self._histories: dict[tuple[str, str], tuple[float, CallHistory]] = {}
        self._alarms: dict[tuple[str, str], Alarm] = {}
        self._said: dict[tuple[str, str], LabelRecord] = {}
        self._on_its_way: dict[SessionId, str] = {}  # the person that something is going to interrupt
        self._looking = asyncio.Lock()
        self._encoder: Encoder | str | None = None
        self._judged: Mapping[tuple[str, str], Sequence[JudgedIntervention]] = {}
        self._known_at: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def pinned(self, terms: Terms, tenant: str) -> Terms:
        """Return the same terms with the policy's version in its name: a session keeps the policy it began with.

        A policy of the session's tenant wins over the host's of the same name.

        Raises:
            InvalidInput: there is no such policy.
        """
        name = terms.policy or self._default
        if not name or name == UNWATCHED:
            return terms
        known = None if MARK in name else self._policies.get(name)  # a version; a mere name is never there
        try:
            known = known or await load_policy(self.store, name, tenant=tenant)
        except InvalidInput as error:
            raise InvalidInput(f"{error.message} {HOW_TO_SAVE}", code=error.code, **error.fields) from error
        self._policies[known.id] = known
        return msgspec.structs.replace(terms, policy=known.id, task_class=_class_under(known, terms.task_class))

    async def _policy(self, name: str) -> Policy:
        known = self._policies.get(name)
        if known is None:
            known = await load_policy(self.store, name)
            self._policies[known.id] = known  # a version never changes; what a mere name means may
        return known

    async def learn(self, session: Session) -> None:
        """Have the policy of a session at hand before anything of it begins."""
        if session.terms.policy not in ("", UNWATCHED) and session.terms.policy not in self._policies:
            with contextlib.suppress(InvalidInput, Damaged):  # it is not watched, which is said when it would be
                await self._policy(session.terms.policy)

    def environments(self, name: str) -> Environments | None:
        """Return where a session's policy asks a person; the usual places, if it cannot be read; None without."""
        policy = self._policies.get(name)
        if policy is None:
            return None if name in ("", UNWATCHED) else Environments()
        return policy.environments

    def most_for_a_call(self, name: str) -> float | None:
        """Return the dollars that one call may cost under a session's policy; None: any sum, or unknown."""
        policy = self._policies.get(name)
        return None if policy is None else policy.signals.cost.per_action

    def longest_correction(self, name: str) -> int | None:
        """Return the characters of a policy's longest correction; None: any length, or an unknown policy."""
        policy = self._policies.get(name)
        return None if policy is None else policy.correction

    def requires_hypothesis(self, terms: Terms) -> bool:
        """Return True if an agent under these terms must state a hypothesis before it acts, and may be paused."""
        policy = self._policies.get(terms.policy)
        if policy is None or not policy.signals.hypothesis.required:
            return False
        return may_stop(policy.classes.of(terms.task_class or "long"), is_declared=terms.task_class is not None)

    def pace(self, terms: Terms, task_class: TaskClass | None = None) -> Pace:
        """Return how often a session is journaled: by its policy for its class, as far as that is known by now."""
        policy = self._policies.get(terms.policy)
        rule = None if policy is None else policy.classes.of(task_class or terms.task_class or "long")
        return pace_of(rule, self._segment_tokens)

    async def oversight(self, session: Session, *, asks: bool) -> RunMonitor | None:
        """Return the monitor of a session; None if it cannot be watched."""
        try:
            policy = await self._policy(session.terms.policy)
        except (InvalidInput, Damaged) as error:
            log.warning("session %s is not watched: %s", session.id, error)
            return None
        return RunMonitor(
            policy,
            task_class=session.terms.task_class,
            budget=session.terms.budget,
            history=await self._history(session.agent, tenant_of(session.id)),
            risk=Risk(self._risk_model, domain=session.agent) if policy.signals.risk.enabled else None,
            asks=asks,
            awaits_drift=True,
        )

    async def measuring(self, agent: str, terms: Terms, tenant: str) -> tuple[RunMonitor, bool]:
        """Return a monitor for display, like the session's own, and whether it has a policy at all."""
        policy, is_watched = STANDARD, terms.policy not in ("", UNWATCHED)
        if is_watched:
            try:
                policy = await self._policy(terms.policy)
            except (InvalidInput, Damaged):  # it is not watched, as the log says
                is_watched = False
        oversight = RunMonitor(
            policy,
            task_class=terms.task_class,
            budget=terms.budget,
            history=await self._history(agent, tenant),
            risk=Risk(self._risk_model, domain=agent) if is_watched and policy.signals.risk.enabled else None,
            asks=False,
        )
        if is_watched:
            oversight.measure_drift(await self.drift(policy))
        return oversight, is_watched

    def about_goal(self, session: Session, *, asks: bool) -> cmd.Intervene | None:
        """Return the question of a new session's agent before it begins, if any."""
        policy = self._policies.get(session.terms.policy)
        if policy is None:
            return None
        oversight = RunMonitor(policy, task_class=session.terms.task_class, asks=asks)
        question = oversight.see(Begun(at=session.created_at, goal=session.goal))
        if question is None:
            return None
        return cmd.Intervene(
            id=_command_id(question, session.position), by=f"{cmd.BY_AGENT}{session.agent}", decision=question
        )

    async def drift(self, policy: Policy) -> Drift | Unseen:
        """Return the measurement of drift under a policy, or why there is none."""
        rule = policy.signals.scope_drift
        if not rule.is_measured:
            return Unseen("scope_drift", "the policy has no threshold for it")
        if self._encoder is None:  # it takes half a second, once
            self._encoder = await asyncio.to_thread(find_encoder) or why_none()
        if isinstance(self._encoder, str):
            return Unseen("scope_drift", self._encoder)
        return Drift(self._encoder, domain=rule.domain)

    async def _history(self, agent: str, tenant: str) -> CallHistory:
        known = self._histories.get((tenant, agent))
        now = self.clock.monotonic()
        if known is None or now - known[0] > _STALE:
            known = self._histories[tenant, agent] = (now, await PastRuns(self.store, agent, tenant).before())
        return known[1]

    # ---- over many sessions

    async def restrained(self, policy: Policy, decision: Decision, session: Session) -> Decision:
        """Return the decision, or what limits over many sessions leave of it. An interruption counts from now on."""
        person = session.messages[0].by if session.messages else ""
        waits = decision.interrupts and decision.level != "stop" and not decision.is_wish
        decision = restrain(policy, decision, await self.ledger(policy, person, session) if waits else NOTHING_SO_FAR)
        if decision.level in COSTS_ATTENTION and not decision.is_wish:
            self._on_its_way[session.id] = person
        return decision

    def arrived(self, session_id: SessionId) -> None:
        """Note that a command on its way to a session has been carried out, or will not be."""
        self._on_its_way.pop(session_id, None)

    async def ledger(self, policy: Policy, person: str, session: Session) -> InterventionLedger:
        """Return the inputs of a policy's decision about this run, for this person.

        Labels of one tenant's people silence nothing of another's.
        """
        async with self._looking:  # who comes meanwhile would know of nothing
            now = self.clock.monotonic()
            if self._known_at is None or now - self._known_at > _STALE:
                try:
                    alarms = await read_alarms(self.store)
                    self._judged = judged_by_agent(alarms, self._labels(await read_labels(self.store)))
                    self._alarms.update({_key(one): one for one in alarms if one.counts})
                except (Damaged, msgspec.MsgspecError) as error:  # who cannot be counted is still to be heard
                    log.warning("interventions cannot be listed, those of other processes do not count: %s", error)
                self._known_at = now
        since = self.clock.now() - HOUR
        for one in list(self._alarms.values()):
            if one.at <= since:
                self._alarms.pop(_key(one), None)
        heard = [(one.person, one.session) for one in list(self._alarms.values())]
        heard += [(who, session_id) for session_id, who in list(self._on_its_way.items())]
        last_hour, of_this_run = counted(heard, person, session.id, policy.restraint.interventions_per_hour)
        wrong = await self._wrong(policy, self._judged.get((tenant_of(session.id), session.agent), ()))
        return InterventionLedger(last_hour=last_hour, of_this_run=of_this_run, wrong=wrong)

    async def _wrong(self, policy: Policy, judged: Sequence[JudgedIntervention]) -> dict[str, tuple[int, int]]:
        """Return people's labels of wrong interventions, as far as they apply to this policy's thresholds now."""
        others: dict[str, Policy] = {}
        for by in {one.by for one in judged if one.by.startswith(cmd.BY_POLICY)}:
            with contextlib.suppress(InvalidInput, Damaged):  # its reasons are gone
                others[by] = await self._policy(by.removeprefix(cmd.BY_POLICY))
        return wrong_lately(policy, judged, others, self.clock.now())

    def note(self, session: Session, record: Recorded) -> None:
        """Note an intervention, or a label: it counts from now on. On any thread."""
        match record.event:
            case ev.InterventionMade():
                alarm = alarm_of(session, record.at, record.event)
                if alarm.counts:
                    self._alarms[_key(alarm)] = alarm
                if alarm.level != "notify":
                    self.arrived(session.id)
            case ev.InterventionLabelled() as said:
                label = label_of(session, record.at, said)
                self._said[label.session, label.about] = label
                self._known_at = None
            case _:
                pass

    def _labels(self, listed: Sequence[LabelRecord]) -> list[LabelRecord]:
        """Return the listed labels, and those on their way there: a label counts at once."""
        found = {(one.session, one.about): one for one in listed}
        since = self.clock.now() - _STALE
        for key, own in list(self._said.items()):
            known = found.get(key)
            if own.at < since or (known is not None and known.at >= own.at):
                self._said.pop(key, None)
            else:
                found[key] = own
        return list(found.values())

    async def finish(self, patience: float) -> None:
        """Wait for what was begun: what policies have decided is carried out before the store closes."""
        if self._tasks:
            tasks = list(self._tasks)
            await wait(self.clock, tasks, patience)
            for task in tasks:
                task.cancel()  # those that are late

    def begin(self, doing: Coroutine[Any, Any, None], session_id: SessionId) -> None:
        """Have it done on the agents' loop; what fails is logged. On any thread."""
        try:
            self.loop.call_soon_threadsafe(self._begin, doing, session_id)
        except RuntimeError:  # the loop is closed: the process is ending, and what is journaled must not fail by that
            doing.close()

    def _begin(self, doing: Coroutine[Any, Any, None], session_id: SessionId) -> None:
        task = self.loop.create_task(_log_errors(doing, session_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _class_under(policy: Policy, declared: TaskClass | None) -> TaskClass | None:
    """Return ``protected``, if the policy protects tasks of this class; without a declared one, if it protects all."""
    classes = CLASSES if declared is None else (declared,)
    return "protected" if all(policy.classes.of(one).strategy == "protect" for one in classes) else declared


def _command_id(decision: Decision, position: Position) -> CommandId:
    """Return an id named for the place of the decision, so that the same decision is made once."""
    return CommandId(f"policy_{position}_{decision.level}")


def _key(alarm: Alarm) -> tuple[str, str]:
    return (alarm.session, alarm.intervention)


async def _log_errors(doing: Coroutine[Any, Any, None], session_id: SessionId) -> None:
    try:
        await doing
    except MidcourseError as error:
        log.warning("session %s: its policy could not act: %s", session_id, error)
    except Exception:
        log.exception("session %s: its policy could not act: unexpected", session_id)


class WatchedSession:
    """One session of this process, watched. ``saw`` may be called on any thread; the rest is on the agents' loop."""

    def __init__(self, driver: InterventionTarget, supervisor: Supervisor) -> None:
        self._driver = driver
        self._supervisor = supervisor
        self._reader = JournalReader()
        self._oversight: RunMonitor | None = None
        self._behind: deque[Recorded] = deque()
        self._is_over = False
        self._is_due = False
        self._timer: Timer | None = None
        self._due = 0.0
        self._until = driver.session.position
        self._is_begun = False
        self._class: TaskClass | None = None
        self._begin_if_live()

    def _begin_if_live(self) -> None:
        """Begin when the session is live. An ended one is watched from its next turn on: a label needs no watch."""
        if not self._is_begun and self._driver.session.status in LIVE:
            self._is_begun = True
            self._supervisor.begin(self._begin(), self._driver.id)

    def stop(self) -> None:
        """Stop: the session has another owner, or none."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def saw(self, record: Recorded) -> None:
        """Note that an event has been journaled."""
        if self._is_over:
            return
        self._behind.append(record)
        self._begin_if_live()
        if self._oversight is not None and not self._is_due:
            self._is_due = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
                self._supervisor.loop.call_soon_threadsafe(self._work)

    async def _begin(self) -> None:
        """Catch up, even if the store fails often: a session that is not watched cannot be stopped."""
        try:
            for delay in chain(_DELAYS, repeat(_SLOWLY)):
                try:
                    return await self._catch_up(self._until)
                except StoreError as error:
                    if self._is_over:
                        return None
                    log.warning("session %s is not watched yet, tries again: %s", self._driver.id, error)
                    await self._supervisor.clock.sleep(delay)
        except Exception:
            self.stop()
            self._behind.clear()
            raise

    async def _catch_up(self, until: Position) -> None:
        """Read what had happened before this process had the session, and decide nothing of that again."""
        oversight = await self._supervisor.oversight(self._driver.session, asks=self._driver.may_ask)
        if oversight is None:
            self.stop()
            self._behind.clear()
            return
        self._supervisor.begin(self._measure_drift(oversight), self._driver.id)
        reader = self._reader = JournalReader()
        position = Position(0)
        while position < until and not self._is_over:
            page = await read_events(self._supervisor.store, self._driver.id, position, _PAGE)
            if not page:
                break
            for record in page:
                if record.position <= until:
                    if isinstance(record.event, ev.BudgetRaised):
                        oversight.budget = record.event.budget
                    for act in reader.read(record):
                        oversight.see(act, past=True)
            position = page[-1].position
        # What the last owner had decided may lie in the inbox: it is not decided a second time.
        while self._driver.is_recovering and not self._is_over:
            await self._supervisor.clock.sleep(_SOON)
        self._oversight = oversight
        decided = [one.position for one in self._behind.copy() if isinstance(one.event, ev.InterventionMade)]
        self._work(past=max(decided, default=0))
        if self._driver.session.status is Status.RUNNING:
            # An agent that only waits writes nothing, and its time counts all the same.
            for act in reader.take(self._driver.now):
                oversight.see(act, past=True)
        # And what was due when it died, and had not come that far, is due now.
        self._check()

    async def _measure_drift(self, monitor: RunMonitor) -> None:
        """Measure drift once the encoder is there: the other signals do not wait for it."""
        monitor.measure_drift(await self._supervisor.drift(monitor.policy))
        self._check()  # what was done meanwhile may be far from the goal already

    def _work(self, *, past: int = 0) -> None:
        """Tell the monitors what has happened, and begin what the policy decides; of what is ``past``, nothing."""
        self._is_due = False
        oversight = self._oversight
        if oversight is None or self._is_over:
            return
        try:
            while self._behind:
                record = self._behind.popleft()
                if isinstance(record.event, ev.BudgetRaised):
                    oversight.budget = record.event.budget
                for act in self._reader.read(record):
                    decision = oversight.see(act, past=record.position <= past)
                    if decision is not None:
                        self._act(decision, record.position)
            self._driver.show_risk(oversight.values.get("risk"))
            self._keep_pace(oversight)
        finally:  # what cannot be read or measured is logged by the loop, and the rest continues
            if self._behind and not self._is_due:
                self._is_due = True
                self._supervisor.loop.call_soon(self._work)
            self._check_later()

    def _keep_pace(self, monitor: RunMonitor) -> None:
        """Update the pace: the predicted class may have changed."""
        task_class = monitor.task_class
        if task_class != self._class:
            self._class = task_class
            self._driver.keep_pace(self._supervisor.pace(self._driver.session.terms, task_class))

    def _check_later(self) -> None:
        due = self._oversight.due() if self._oversight is not None else None
        if due is None or (self._timer is not None and due >= self._due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        delay = max(0.01, due - self._driver.now)
        self._timer = self._supervisor.clock.call_later(delay, self._check)

    def _check(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._oversight is None or self._is_over:
            return
        decision = self._oversight.look(self._driver.now)
        if decision is not None:
            self._act(decision, self._driver.session.position)
        self._check_later()

    def _act(self, decision: Decision, position: Position) -> None:
        self._supervisor.begin(self._execute(decision, position), self._driver.id)

    async def _execute(self, decision: Decision, position: Position) -> None:
        """Carry out the decision, and retry if that fails: an alarm must be heard."""
        oversight, session = self._oversight, self._driver.session
        if oversight is None or session.status in ENDED:
            return
        command: cmd.Intervene | None = None
        retries = oversight.policy.restraint.retries
        delays = [_DELAYS[min(number, len(_DELAYS) - 1)] for number in range(retries)]
        try:
            for delay in (*delays, None):
                try:
                    command = command or await self._command(oversight, decision, position)
                    await self._driver.step_in(command)
                except (StoreError, Damaged) as error:
                    if delay is None:
                        oversight.failed(decision)
                        raise
                    log.warning("session %s: could not %s, tries again: %s", session.id, decision.level, error)
                    await self._supervisor.clock.sleep(delay)
                else:
                    return
        finally:
            self._supervisor.arrived(session.id)

    async def _command(self, monitor: RunMonitor, wanted: Decision, position: Position) -> cmd.Intervene:
        session = self._driver.session
        decision = await self._supervisor.restrained(monitor.policy, wanted, session)
        if decision.level != wanted.level:
            monitor.held(wanted)
        log.info("session %s: %s by %s: %s", session.id, decision.level, decision.policy, decision.arithmetic)
        by = f"{cmd.BY_AGENT}{session.agent}" if decision.level == "ask" else f"{cmd.BY_POLICY}{decision.policy}"
        return cmd.Intervene(id=_command_id(decision, position), by=by, decision=decision)
