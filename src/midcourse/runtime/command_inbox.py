"""Decides the commands to one session, in the order they were put, each in the append that makes its facts durable."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.asks import NEED_APPROVAL, is_yes
from midcourse.core.audit import AuditEntry, decided
from midcourse.core.budget import BUDGET, Outlay, is_spent
from midcourse.core.caps import at_cap, pause_with_parent
from midcourse.core.deadlines import DEADLINE, expire
from midcourse.core.decisions import decide
from midcourse.core.evolution import evolve
from midcourse.core.ids import CommandId, MessageId, Position, message_id
from midcourse.core.pauses import finishes_first, paused_by_others
from midcourse.core.rates import Stopper, stopper_of
from midcourse.core.replies import Counted, RunningCall
from midcourse.core.session import Session, Status
from midcourse.errors import AgentUnavailable, Damaged, InvalidInput, Refused
from midcourse.ports.meter import StopVerb
from midcourse.ports.store import Deciding, InboxRow, Store
from midcourse.runtime.audit_entry import entry_of, is_of_erased
from midcourse.runtime.command_outcome import CommandOutcome, encode_outcome, refusal
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal

CUTS_STREAMS: Final = (ev.PauseRequested, ev.CancelRequested, ev.SessionHalted, ev.SessionRedirected)
_STOPS: Final[Mapping[type[ev.AnyEvent], StopVerb]] = {
    ev.PauseRequested: "pause",
    ev.CancelRequested: "cancel",
    ev.SessionHalted: "halt",
}
_STOPPING: Final = frozenset({Status.PAUSING, Status.CANCELLING, Status.HALTED})


class _Stop(NamedTuple):
    verb: StopVerb
    by: Stopper
    wished_at: float


class CommandInbox:
    """The owner's view of a session's inbox. On any thread."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        store: Store,
        *,
        running: Callable[[], tuple[RunningCall, ...]],
        decided: Callable[[], None],
        unavailable: AgentUnavailable | None,
        longest_correction: Callable[[str], int | None],
        lets_priced_end: Callable[[Session, cmd.AnyCommand], bool],
    ) -> None:
        self._journal = journal
        self._gate = gate
        self._store = store
        self._running = running
        self._decided = decided
        self._unavailable = unavailable
        self._longest_correction = longest_correction
        self._lets_priced_end = lets_priced_end
        self._decided_through = 0
        self._stop: _Stop | None = None
        self._stopped_by: set[CommandId] = set()

    async def settle(self, put: InboxRow | None = None) -> dict[CommandId, CommandOutcome]:
        """Decide every undecided command, in inbox order; return what was decided here, once it is durable.

        A row that has just been ``put``, right behind the last one decided here, is all there is: none is read.
        """
        outcomes: dict[CommandId, CommandOutcome] = {}
        written: list[Awaitable[None]] = []
        stops: list[_Stop] = []
        is_next = put is not None and put.seq == self._decided_through + 1
        for row in (put,) if put is not None and is_next else await self._store.undecided(self._journal.session.id):
            with self._journal.lock:
                if self._journal.leaving or self._journal.broken or row.seq <= self._decided_through:
                    continue
                outcome, append = self._decide(row)
                if self._stop is not None:
                    stops.append(self._stop)
                    self._stop = None
                self._decided_through = row.seq
            outcomes[row.id] = outcome
            written.append(append)
        if written:
            self._decided()
            # A caller that is cancelled leaves the writes alone: the journal hears how each of them ended.
            await asyncio.gather(*map(asyncio.shield, written))
            for stop in stops:
                self._answered(stop)
        return outcomes

    def _decide(self, row: InboxRow) -> tuple[CommandOutcome, Awaitable[None]]:
        """Decide one row and append what it makes. Under the lock, so that the calls it lists are all there are."""
        # Whatever was put after a deadline comes too late, whenever it is read. By the wall clock it may have
        # been put in the future.
        expired, entries = self._expired(min(row.put_at, self._journal.now))
        session = self._journal.add(*expired)
        events: tuple[ev.AnyEvent, ...] = ()
        command: cmd.AnyCommand | None = None
        try:
            command = cmd.decode_command(row.content)
            events = self._decided_events(session, command, row.put_at)
        except (Refused, InvalidInput, Damaged, AgentUnavailable) as error:
            outcome = refusal(error, session.status.value, session.position)
        else:
            ahead = self._journal.add(*events)
            outcome = CommandOutcome(
                status=ahead.status.value,
                position=ahead.position,
                pause=ahead.pause.id if ahead.pause else None,
                about=_message_of(events, ahead),
                running=self._running(),
                unknown=ahead.lost,
                deferred=ahead.finishing is not None and isinstance(command, cmd.Pause | cmd.Cancel),
                counted=_counted(session, events),
                paused_by=paused_by_others(session, command, events),
            )
            self._stop = self._stopping(session, events, command, row.put_at)
            if isinstance(command, cmd.Pause | cmd.Cancel | cmd.Halt):
                self._stopped_by.add(row.id)
        return outcome, self._journal.append(
            deciding=Deciding(row.id, encode_outcome(outcome), forgets=is_of_erased(outcome)),
            audit=(*entries, entry_of(session.id, row, outcome, events, command)),
        )

    def _decided_events(self, session: Session, command: cmd.AnyCommand, put_at: float) -> tuple[ev.AnyEvent, ...]:
        """Return the events of ``command``, with the tails of the streams that it cuts."""
        if self._unavailable is not None and (isinstance(command, cmd.Resume) or getattr(command, "resume", False)):
            raise self._unavailable
        wanted = decide(session, command, longest_correction=self._longest_correction(session.terms.policy))
        # An answer to a review resumes, too.
        if self._unavailable is not None and any(isinstance(event, ev.SessionResumed) for event in wanted):
            raise self._unavailable
        events = tuple(_timed(event, _wished_at(command, put_at)) for event in wanted)
        # Protected work is notified at its next step, and not interrupted for it.
        cutting = [event for event in events if isinstance(event, CUTS_STREAMS)]
        gentle = finishes_first(session) and all(isinstance(event, ev.SessionRedirected) for event in cutting)
        if self._lets_priced_end(session, command):
            self._keep_priced(events)
            return events
        # A pause of what pauses already may say nothing new, and yet cut what the price of a call lets end.
        stops = bool(cutting) or (isinstance(command, cmd.Pause) and session.status is Status.PAUSING)
        return (*self._cut_streams(), *events) if stops and not gentle else events

    def _stopping(
        self, before: Session, events: tuple[ev.AnyEvent, ...], command: cmd.AnyCommand, put_at: float
    ) -> _Stop | None:
        """Return the stop that ``command`` has become, and report it to the meter."""
        verb: StopVerb | None = next((_STOPS[type(event)] for event in events if type(event) in _STOPS), None)
        if verb is None or self._journal.session.status is before.status:
            return None
        stop = _Stop(verb, stopper_of(command.by, halts=verb == "halt"), _wished_at(command, put_at))
        self._journal.meter.stopping(self._journal.session, *stop, self._journal.now)
        return stop

    async def step_in(self, command: cmd.Intervene) -> bool:
        """Journal what the session's own policy has decided. False: nothing can be journaled here now.

        Raises:
            StoreError: it could not be written.
        """
        with self._journal.lock:
            if self._journal.leaving or self._journal.broken:
                return False
            now = self._journal.now
            expired, entries = self._expired(now)
            session = self._journal.add(*expired)
            events = self._decided_events(session, command, now)
            self._journal.add(*events)
            stop = self._stopping(session, events, command, now)
            written = self._journal.append(audit=(*entries, decided(session.id, command, "ok", events)))
        self._decided()
        await asyncio.shield(written)
        if stop is not None:
            self._answered(stop)
        return True

    def _answered(self, stop: _Stop) -> None:
        verb, by, wished_at = stop
        self._journal.meter.stop_answered(verb, by, max(0.0, self._journal.now - wished_at))

    def expire(self, now: float) -> None:
        """Journal what deadlines make of the session. Under the lock."""
        events, entries = self._expired(now)
        if events:
            self._journal.append(*events, audit=entries)

    def stop_at_cap(self, so_far: Outlay, price: float = 0.0) -> None:
        """Journal what the session's budget makes of what it has spent ``so_far``, or of a call of this ``price``.

        At the cap the streams are cut; for a call that does not fit, those that were priced before it end first.
        Under the lock, on the agent's loop.
        """
        session, cuts = self._journal.session, is_spent(self._journal.session, so_far.spent)
        if self._journal.broken or self._journal.leaving:
            return
        if cuts and self._gate.lets_priced_end and session.pause is not None:  # it costs more than was foreseen
            again = (ev.PauseRenewed(pause=session.pause.id, by=BUDGET),) if session.may_have_children else ()
            self._journal.append(*self._cut_streams(), *again)
            self._decided()
        events = at_cap(session, so_far, price)
        if not events:
            return
        pause = self._keep_priced(events)
        cut = self._cut_streams() if cuts and pause is not None else ()
        detail = "" if pause is None else pause.reason
        entry = AuditEntry(session=session.id, by=BUDGET, role="", action="pause", detail=detail)
        self._journal.append(*cut, *events, audit=(entry,))
        self._decided()

    def stop_with_parent(self, parent: str, reason: str, wants: float) -> None:
        """Journal the pause that the parent is about to pass on: until it arrives nothing more may begin.

        Under the lock, on the agent's loop.
        """
        events = pause_with_parent(self._journal.session, parent, reason, wants)
        if events and not self._journal.broken and not self._journal.leaving:
            self._keep_priced(events)
            self._journal.append(*events)
            self._decided()

    def _keep_priced(self, events: Sequence[ev.AnyEvent]) -> ev.PauseRequested | None:
        """Have what was priced before end normally under the pause in ``events``, and return that pause."""
        pause = next((event for event in events if isinstance(event, ev.PauseRequested)), None)
        if pause is not None:
            self._gate.too_dear = pause.pause
        return pause

    def _expired(self, now: float) -> tuple[tuple[ev.AnyEvent, ...], tuple[AuditEntry, ...]]:
        session = self._journal.session
        events = expire(session, now) if session.deadlines else ()
        requested = next((event for event in events if isinstance(event, ev.CancelRequested)), None)
        if requested is None:
            return events, ()
        entry = AuditEntry(session=session.id, by=DEADLINE, role="", action="cancel", detail=requested.reason)
        return (*self._cut_streams(), *events), (entry,)

    def _cut_streams(self) -> tuple[ev.AnyEvent, ...]:
        """Cut the streams: each tail becomes a segment, in the append that decides the stop."""
        tails: list[ev.AnyEvent] = []
        self._gate.too_dear = None
        for call in self._gate.begun.values():
            if call.kind == "model" and not call.cut:
                call.cut = True
                tails.extend(call.take_tail())
        return tuple(tails)

    def shut(self) -> None:
        """Shut the gate before a stop is written: nothing begins until it is decided. On any thread."""
        with self._journal.lock:
            self._gate.stops_on_the_way += 1

    def foresee(self, stop: cmd.AnyCommand) -> Session | None:
        """Return the session as a stop will make it; None: it is refused, or was decided. Under the lock.

        What it aborts may be aborted now. What became of that is journaled behind the decision.
        """
        session, at = self._journal.session, self._journal.now
        if stop.id in self._stopped_by or self._journal.broken or self._journal.leaving:
            return None  # a retry aborts nothing of what was resumed since
        try:
            for event in decide(session, stop):
                session = evolve(session, ev.Recorded(Position(session.position + 1), at, event))
        except (Refused, InvalidInput):
            return None
        return session if session.status in _STOPPING else None

    def unshut(self) -> None:
        """Undo ``shut``: the stop was decided or refused, and the status alone counts again. On any thread."""
        with self._journal.lock:
            self._gate.stops_on_the_way -= 1
        self._decided()


def _wished_at(command: cmd.AnyCommand, put_at: float) -> float:
    """Return when it was wanted: a policy may have decided long before its command was stored."""
    at = command.decision.at if isinstance(command, cmd.Intervene) else None
    return put_at if at is None else min(at, put_at)


def _timed(event: ev.AnyEvent, wished_at: float) -> ev.AnyEvent:
    """Return a stop with the time of its request, so that the journal alone shows how long it took."""
    if isinstance(event, ev.PauseRequested | ev.CancelRequested | ev.SessionHalted):
        return replace(event, wished_at=wished_at)
    return event


def _counted(session: Session, events: tuple[ev.AnyEvent, ...]) -> Counted:
    """Return how an answer counts, where an approval was asked for."""
    for event in events:
        asked = session.ask(event.ask) if isinstance(event, ev.AskAnswered) else None
        if asked is not None and isinstance(event, ev.AskAnswered) and asked.reason == NEED_APPROVAL:
            return "approved" if is_yes(event.value) else "refused"
    return ""


def _message_of(events: tuple[ev.AnyEvent, ...], ahead: Session) -> MessageId | None:
    """Return the message the command made, by which it can be edited or withdrawn."""
    for event in events:
        match event:
            case ev.MessageQueued(message=message) | ev.MessageEdited(message=message):
                return message
            case ev.SessionRedirected() | ev.TurnOpened():
                return message_id(len(ahead.messages))
            case _:
                pass
    return None
