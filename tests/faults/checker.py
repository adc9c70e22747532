"""What the promises say of a run, whatever went wrong in it: pure, so that every fault tester can use it.

It is given what was seen (:class:`Evidence`): the journals, the commands with their answers, what the remote saw of the
effects, and when something was done to a process. :func:`violations` says which promises were broken, and
:func:`stuck` which sessions stand still or spin. All times are those of one clock, in seconds.

What the tools of a tester owe the remote: ``begun`` as the first thing their body does, ``done`` once the effect is in
the world, ``undone`` once an undo has taken it back. Each tells its own time, before it tells the remote.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Final, Literal

import msgspec

from midcourse.core import events as ev
from midcourse.core.events import Recorded, encode_record
from midcourse.core.fold import Fold, first
from midcourse.core.ids import SessionId
from midcourse.core.replies import Reply
from midcourse.core.session import ENDED, Session, Status
from midcourse.errors import MidcourseError

What = Literal["begun", "done", "undone"]
Stop = Literal["pause", "cancel", "halt"]

NO_FACT: Final = (ev.SessionTaken, ev.SessionParked, ev.AgentSilent, ev.LoopBlocked)
"""What is written about the driving of a session: it brings the session no further."""
IDLE_RUN: Final = 4
"""So many of those may follow each other although nothing was done to any process."""
PER_FAULT: Final = 4
"""So many more for each process that was killed, stopped or started meanwhile: it may take, and park, and die."""
NEAR: Final = 3.0
"""Seconds for which what was done to a process may still lead to a takeover."""
LEAST_WAIT: Final = 1.0
"""Seconds that the store is waited for, however impatient the caller is."""
EXCERPT: Final = 12
"""Events on either side of what an excerpt is about."""

_STANDS: Final[Mapping[str, Stop]] = {
    "pausing": "pause",
    "paused": "pause",
    "cancelling": "cancel",
    "cancelled": "cancel",
    "halted": "halt",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something the remote saw: a call's body began, its effect is there, or was taken back."""

    at: float
    what: What
    session: str
    step: str
    effect: str
    key: str = ""
    attempt: int = 1
    """An undo does not know whose attempt it takes back: there the key counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A command and what came of it. Write it down before it is sent: one without an answer may have worked.

    ``level`` is empty for a refusal (then ``refused`` is its code) and for none. ``opens``: it may set a session going
    that had stopped, by what it asks for (a redirect with ``resume``).
    """

    session: str
    verb: str
    sent_at: float
    answered_at: float = inf
    by: str = ""
    level: str = ""
    status: str = ""
    refused: str = ""
    position: int = 0
    pause: str = ""
    """The pause that a resume names, or that a pause made."""
    running: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    opens: bool = False
    lapses: float | None = None
    durable: bool = True
    """Whether the answer claims that the command survives the end of its process."""
    wait: float = inf
    """Seconds that its caller waits."""
    took: float | None = None
    """Seconds after which the caller had anything back, without those in which its process stood still."""
    failed: str = ""
    """The code of an error that is no refusal."""
    at_owner: bool = False
    """Whether it was sent in the process that drove the session, then and when it was answered."""


def answered(asked: Answer, reply: Reply, at: float) -> Answer:
    """The same command, once its answer is there."""
    return replace(
        asked,
        answered_at=at,
        level=reply.level if reply.unreachable_since is None else "accepted",
        status=reply.status,
        position=reply.position,
        # What a resume is answered with is the pause that still stands, and not the one it lifted.
        pause=asked.pause if asked.verb == "resume" else reply.pause or "",
        running=tuple(call.step for call in reply.running),
        unknown=tuple(reply.unknown),
        durable=reply.durable,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that did not hold. ``position``: where in the session's journal to look, if it shows there."""

    promise: str
    session: str
    what: str
    at: float
    position: int | None = None

    def __str__(self) -> str:
        where = "" if self.position is None else f" (position {self.position})"
        return f"{self.promise}: {self.session}{where}: {self.what}"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was seen of a run. ``faults``: when a process was killed, stopped, continued, ended or started.

    ``lateness``: how many seconds late an answer may be on the machine of this run. ``named``: the sessions that are
    reported as damaged, each with the time from which nothing of it may begin. ``lost``: from when to when what was
    written is lost, because the power failed and the store survives no more than the end of a process.
    """

    journals: Mapping[str, Sequence[Recorded]]
    answers: Sequence[Answer] = ()
    deeds: Sequence[Deed] = ()
    faults: Sequence[float] = ()
    lateness: float = inf
    named: Mapping[str, float] = field(default_factory=dict[str, float])
    lost: Sequence[tuple[float, float]] = ()
    unfolded: dict[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def sessions(self) -> Mapping[str, Session]:
        """Each session as its journal tells it; those whose journal contradicts itself are in ``unfolded``."""
        found: dict[str, Session] = {}
        for name, journal in self.journals.items():
            try:
                found[name] = folded(name, journal).session
            except MidcourseError as error:
                self.unfolded[name] = str(error)
        return found

    @cached_property
    def parents(self) -> Mapping[str, str]:
        """Each child with its parent."""
        return {name: one.parent for name, one in self.sessions.items() if one.parent is not None}

    def above(self, session: str) -> Iterator[str]:
        """The session, its parent, and so on."""
        here: str | None = session
        while here is not None:
            yield here
            here = self.parents.get(here)

    @cached_property
    def ends(self) -> Mapping[str, Sequence[float]]:
        """When each session ended: a turn of it, or all of it."""
        over = (ev.SessionCompleted, ev.SessionFailed, ev.SessionCancelled)
        return {
            name: [record.at for record in journal if isinstance(record.event, over)]
            for name, journal in self.journals.items()
        }

    @cached_property
    def deeds_of(self) -> Mapping[tuple[str, str], Sequence[Deed]]:
        """What the remote saw of each step, in the order of time."""
        found: dict[tuple[str, str], list[Deed]] = defaultdict(list)
        for deed in sorted(self.deeds, key=lambda deed: deed.at):
            found[deed.session, deed.step].append(deed)
        return found

    @cached_property
    def undone_at(self) -> Mapping[tuple[str, str], Sequence[float]]:
        """When what a key stands for was taken back."""
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for deed in self.deeds:
            if deed.what == "undone":
                found[deed.session, deed.key].append(deed.at)
        return {key: sorted(times) for key, times in found.items()}


def folded(session: str, journal: Sequence[Recorded]) -> Fold:
    """The session that a journal tells of.

    Raises:
        MidcourseError: it tells of something that cannot happen.
    """
    state: Fold | None = None
    for record in journal:
        content = encode_record(ev.Record(record.at, record.event))
        if state is None:
            state = first(SessionId(session), record.at, record.event, content)
        else:
            state.advance(record.at, record.event, content)
    assert state is not None, f"the journal of {session} is empty"
    return state


def violations(seen: Evidence) -> list[Violation]:
    """Every promise that was broken, in the order of time; once where several commands show the same."""
    if seen.lost:
        seen = _without_lost(seen)
    found = [*_damage(seen), *_past_damage(seen), *_late(seen), *_failed_stops(seen)]
    for name, journal in seen.journals.items():
        found += _begun_again(name, journal)
        found += _grown_without_facts(seen, name, journal)
        found += _unfinished_truths(seen, name, journal)
        found += _receipts(seen, name, journal)
    found += _twice(seen)
    found += _unknown_to_journal(seen)
    found += _after_a_stop(seen)
    once = {(one.promise, one.session, one.position, one.what if one.position is None else ""): one for one in found}
    return sorted(once.values(), key=lambda one: one.at)


def _without_lost(seen: Evidence) -> Evidence:
    """Return what is left once the power has failed: of calls that begun in vain, and of answers that are forgotten."""

    def is_lost(at: float) -> bool:
        return any(begin <= at <= end for begin, end in seen.lost)

    gone = {
        (one.session, one.step, one.attempt, one.at) for one in seen.deeds if one.what == "begun" and is_lost(one.at)
    }
    deeds: list[Deed] = []
    dropped: set[tuple[str, str, int]] = set()
    for deed in sorted(seen.deeds, key=lambda deed: deed.at):
        call = (deed.session, deed.step, deed.attempt)
        if deed.what == "begun":
            if (*call, deed.at) in gone:
                dropped.add(call)
            else:
                dropped.discard(call)
        if deed.what == "undone" or call not in dropped:
            deeds.append(deed)
    answers = [replace(one, durable=False) if is_lost(one.answered_at) else one for one in seen.answers]
    return replace(seen, deeds=deeds, answers=answers, lost=())


# ---- the journal


def _damage(seen: Evidence) -> Iterator[Violation]:
    """A journal is one story."""
    assert seen.sessions is not None
    for name, why in seen.unfolded.items():
        yield Violation(promise="damage", session=name, what=why, at=seen.journals[name][-1].at)


def _past_damage(seen: Evidence) -> Iterator[Violation]:
    """Promise 9: a damaged session is never continued."""
    for deed in seen.deeds:
        if deed.what == "begun" and deed.at > seen.named.get(deed.session, inf):
            what = f"{deed.step} began {deed.at - seen.named[deed.session]:.3f} s after the damage was reported"
            yield Violation(promise="continues past damage", session=deed.session, what=what, at=deed.at)


def _begun_again(name: str, journal: Sequence[Recorded]) -> Iterator[Violation]:
    """Promise 4: a step whose result is in the journal is never executed again."""
    finished: dict[str, int] = {}
    for record in journal:
        match record.event:
            case ev.StepFinished(step=step):
                finished[step] = record.position
            case ev.StepBegun(step=step, attempt=attempt) if step in finished:
                yield Violation(
                    promise="finished step begun again",
                    session=name,
                    what=f"attempt {attempt} at {step}, which had finished at position {finished[step]}",
                    at=record.at,
                    position=record.position,
                )
            case _:
                pass


def _grown_without_facts(seen: Evidence, name: str, journal: Sequence[Recorded]) -> Iterator[Violation]:
    """Promise 14: no answer, refusal or takeover writes to a journal without a new fact in it."""
    for run in _idle_runs(journal):
        begins, ends = run[0].at - NEAR, run[-1].at
        near = sum(begins <= at <= ends for at in seen.faults)
        allowed = IDLE_RUN + PER_FAULT * near
        if len(run) > allowed:
            seconds = run[-1].at - run[0].at
            kinds = ", ".join(sorted({record.type for record in run}))
            yield Violation(
                promise="journal grows without a fact",
                session=name,
                what=f"{len(run)} events in {seconds:.1f} s that say nothing new ({kinds}); {near} faults then",
                at=run[allowed].at,
                position=run[allowed].position,
            )


def _idle_runs(journal: Sequence[Recorded]) -> Iterator[list[Recorded]]:
    """Events in a row, none of which brings the session further: of its driving, or the same as the one before."""
    run: list[Recorded] = []
    for before, record in pairwise(journal):
        if isinstance(record.event, NO_FACT) or record.event == before.event:
            run.append(record)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _unfinished_truths(seen: Evidence, name: str, journal: Sequence[Recorded]) -> Iterator[Violation]:
    """What the journal says finished by itself, the remote has seen."""
    begun = _begins(journal)
    for record in journal:
        match record.event:
            case ev.StepFinished(step=step, attempt=attempt, told_by="", nothing_done=False):
                start = begun.get((step, attempt))
                if start is None or start.kind != "tool" or start.effect == "read":
                    continue
                if not any(
                    one.what == "done" and one.attempt == attempt for one in seen.deeds_of.get((name, step), ())
                ):
                    yield Violation(
                        promise="finished without an effect",
                        session=name,
                        what=f"attempt {attempt} at {step} has a result, and the remote saw nothing of it",
                        at=record.at,
                        position=record.position,
                    )
            case _:
                pass


def _begins(journal: Sequence[Recorded]) -> dict[tuple[str, int], ev.StepBegun]:
    return {
        (record.event.step, record.event.attempt): record.event
        for record in journal
        if isinstance(record.event, ev.StepBegun)
    }


def _receipts(seen: Evidence, name: str, journal: Sequence[Recorded]) -> Iterator[Violation]:
    """Promise 6: what a receipt calls undone is gone, and what it calls kept is there."""
    begun = _begins(journal)
    for record in journal:
        if not isinstance(record.event, ev.SessionCancelled | ev.UndoFinished):
            continue
        for line in record.event.receipt:
            start = begun.get((line.step, line.attempt))
            if line.outcome != "undone" or start is None or line.effect == "hold":
                continue
            made = [
                deed.at
                for deed in seen.deeds_of.get((name, line.step), ())
                if deed.what == "done" and deed.key == start.key
            ]
            undone = seen.undone_at.get((name, start.key), ())
            if not undone:
                what = f"{line.step} is said to be undone, and no undo reached the remote"
            elif made and max(made) > max(undone):
                what = f"{line.step} is said to be undone, and was done again {max(made) - max(undone):.3f} s later"
            else:
                continue
            yield Violation(
                promise="receipt claims too much", session=name, what=what, at=record.at, position=record.position
            )


# ---- the remote


def _twice(seen: Evidence) -> Iterator[Violation]:
    """Promise 4: an effect is there once, unless the same key makes it one, it was undone, or a person said so."""
    for (name, step), deeds in seen.deeds_of.items():
        done = [deed for deed in deeds if deed.what == "done" and deed.effect != "read"]
        for one, other in pairwise(done):
            if one.attempt != other.attempt and _may_repeat(seen, name, one, other):
                continue
            yield Violation(
                promise="effect twice",
                session=name,
                what=f"{one.effect} {step} was done by attempt {one.attempt} and by attempt {other.attempt}",
                at=other.at,
                position=_begun_at(seen, name, step, other.attempt),
            )


def _begun_at(seen: Evidence, name: str, step: str, attempt: int) -> int | None:
    for record in seen.journals.get(name, ()):
        match record.event:
            case ev.StepBegun(step=begun, attempt=number) if begun == step and number == attempt:
                return record.position
            case _:
                pass
    return None


def _may_repeat(seen: Evidence, name: str, one: Deed, other: Deed) -> bool:
    if one.effect == "idempotent" and one.key == other.key:
        return True
    if any(one.at <= at <= other.at for at in seen.undone_at.get((name, one.key), ())):
        return True
    failed = False
    for record in seen.journals.get(name, ()):
        match record.event:
            case ev.StepSettled(step=one.step, attempt=one.attempt, happened=False, by="a person"):
                return True
            case ev.StepFailed(step=one.step, attempt=one.attempt):
                if one.effect != "irreversible":
                    return True
                failed = True
            case ev.SessionResumed() if failed:  # who resumes a failed session wants its failed step again
                return True
            case _:
                pass
    return False


def _unknown_to_journal(seen: Evidence) -> Iterator[Violation]:
    """The start of every call but a read is in the journal before the call begins."""
    starts = {name: _begins(journal) for name, journal in seen.journals.items()}
    counted: dict[tuple[str, str, int], int] = defaultdict(int)
    for deed in seen.deeds:
        if deed.what != "begun" or deed.effect == "read":
            continue
        counted[deed.session, deed.step, deed.attempt] += 1
        if counted[deed.session, deed.step, deed.attempt] == 2:
            what = f"attempt {deed.attempt} at {deed.step} ran twice"
        elif (deed.step, deed.attempt) not in starts.get(deed.session, {}):
            what = f"attempt {deed.attempt} at {deed.step} ran, and its start is not in the journal"
        else:
            continue
        yield Violation(promise="call unknown to the journal", session=deed.session, what=what, at=deed.at)


# ---- answers


def _late(seen: Evidence) -> Iterator[Violation]:
    """Promise 1: the answer comes in time, with what is known by then."""
    for one in seen.answers:
        if one.took is not None and one.took > max(one.wait, LEAST_WAIT) + seen.lateness:
            said = one.level or one.refused or one.failed or "not yet"
            yield Violation(
                promise="an answer is late",
                session=one.session,
                what=f"{one.verb} of {one.by} waits for {one.wait:.1f} s, answered after {one.took:.1f} s: {said}",
                at=one.sent_at,
            )


def _failed_stops(seen: Evidence) -> Iterator[Violation]:
    """Promise 2: a stop in the owner's process shuts the gate, whatever the store says, and is answered so."""
    for one in seen.answers:
        if one.at_owner and one.failed and one.verb in ("pause", "cancel"):
            what = f"{one.verb} of {one.by} in the process that drives it failed ({one.failed}) and stopped nothing"
            yield Violation(promise="a stop fails", session=one.session, what=what, at=one.sent_at)


# ---- stops


def _after_a_stop(seen: Evidence) -> Iterator[Violation]:
    """Promises 1 and 11: what was answered as stopped stays so until somebody who may lifts it."""
    begins: dict[str, list[Deed]] = defaultdict(list)
    for deed in sorted(seen.deeds, key=lambda deed: deed.at):
        if deed.what == "begun":
            for name in seen.above(deed.session):
                begins[name].append(deed)
    for stop in seen.answers:
        verb = _STANDS.get(stop.status)
        if stop.level not in ("stopping", "stopped") or verb is None or stop.lapses is not None:
            continue
        yield from _begun_after(seen, stop, verb, begins.get(stop.session, ()))
        if verb == "pause":
            yield from _lifted_after(seen, stop)


def _begun_after(seen: Evidence, stop: Answer, verb: Stop, begins: Sequence[Deed]) -> Iterator[Violation]:
    """A call began after the stop was answered. ``stopping`` speaks of the session alone, ``stopped`` of its tree."""
    listed = {*stop.running, *stop.unknown}
    late: dict[str, list[Deed]] = defaultdict(list)
    for deed in begins:
        if deed.at <= stop.answered_at or (deed.session == stop.session and deed.step in listed):
            continue
        if deed.session != stop.session and (
            stop.level != "stopped" or not _was_there(seen, deed.session, stop, deed.at)
        ):
            continue
        if not _was_lost(seen, stop, deed.at) and not _released(seen, stop, verb, deed.session, deed.at):
            late[deed.session].append(deed)
    for name, deeds in late.items():
        effects = sorted({deed.effect for deed in deeds})
        whose = "its own" if name == stop.session else f"of its child {name}"
        yield Violation(
            promise="works after a stop",
            session=name,
            what=(
                f"{stop.verb} of {stop.session} by {stop.by or 'somebody'} was answered '{stop.level}, {stop.status}' "
                f"and {len(deeds)} calls {whose} ({', '.join(effects)}) began later, the first "
                f"{deeds[0].at - stop.answered_at:.3f} s later: {deeds[0].step}"
            ),
            at=deeds[0].at,
            position=_begun_at(seen, name, deeds[0].step, deeds[0].attempt),
        )


def _was_there(seen: Evidence, child: str, stop: Answer, at: float) -> bool:
    """Whether a child had been born when the stop was answered, and the stop reached it.

    A turn that a person opened of it, or of one above it, after the stop came is not what that stop was for. A cancel
    that is said again is the one that stands.
    """
    began = max((turn for turn in _turns(seen, stop.session) if turn <= stop.sent_at), default=0.0)
    cancels = (
        one.at
        for one in seen.journals.get(stop.session, ())
        if isinstance(one.event, ev.CancelRequested) and one.at >= began and stop.status == "cancelled"
    )
    came = min([stop.sent_at, *cancels])
    for name in seen.above(child):
        if name == stop.session:
            break
        if any(came <= turn <= at for turn in _turns(seen, name)):
            return False
    journal = seen.journals.get(child, ())
    unreached = {
        name
        for record in seen.journals.get(stop.session, ())
        if isinstance(record.event, ev.SessionPaused | ev.SessionCancelled) and record.at <= stop.answered_at
        for name in record.event.unreached
    }
    return bool(journal) and journal[0].at <= stop.answered_at and unreached.isdisjoint(seen.above(child))


def _was_lost(seen: Evidence, stop: Answer, at: float) -> bool:
    """Whether a stop that was answered "not durable" is gone: with its process, or since a halt was written first.

    Promise 2 claims no more for it. A process that ends in order writes it first, if the store takes it by then.
    """
    if stop.durable:
        return False
    halts = (record.at for record in seen.journals.get(stop.session, ()) if isinstance(record.event, ev.SessionHalted))
    return any(stop.sent_at <= moment <= at for moment in (*seen.faults, *halts))


def _turns(seen: Evidence, name: str) -> Iterator[float]:
    """When a session that had ended began to work again."""
    for record in seen.journals.get(name, ()):
        if isinstance(record.event, ev.TurnOpened) or (
            isinstance(record.event, ev.SessionResumed) and record.event.pause is None
        ):
            yield record.at


def _lifted_after(seen: Evidence, stop: Answer) -> Iterator[Violation]:
    """A person's pause is lifted by a resume of that session alone, and never by its parent's."""
    for record in seen.journals.get(stop.session, ()):
        if record.position <= stop.position or not isinstance(record.event, ev.SessionResumed):
            continue
        if record.at <= stop.answered_at or _was_lost(seen, stop, record.at):
            return
        if not _released(seen, stop, "pause", stop.session, record.at):
            yield Violation(
                promise="pause lifted by somebody else",
                session=stop.session,
                what=(
                    f"the pause of {stop.by or 'somebody'}, answered '{stop.level}, {stop.status}', was lifted by "
                    f"'{record.event.by}', and no person had resumed the session"
                ),
                at=record.at,
                position=record.position,
            )
        return


def _released(seen: Evidence, stop: Answer, verb: Stop, session: str, at: float) -> bool:
    """Whether, by then, somebody may have set going what the stop had stopped."""
    if verb != "cancel" and any(stop.sent_at <= ended <= at for ended in seen.ends.get(stop.session, ())):
        verb = "cancel"  # it is over since: a new turn takes no resume
    path: list[str] = []
    for name in seen.above(session):
        path.append(name)
        if name == stop.session:
            break
    if verb != "pause":  # a halt came down the tree; a failed parent that is tried again sets a cancelled child going
        path = list(seen.above(session))
    return any(
        other.session in path
        and other.sent_at <= at
        and other.answered_at >= stop.sent_at
        and _opens(other, stop, verb)
        for other in seen.answers
    )


def _opens(other: Answer, stop: Answer, verb: Stop) -> bool:
    if other.refused:
        return False
    match verb:
        case "pause":
            named = other.pause if other.verb == "resume" and other.session == stop.session else ""
            elsewhere = bool(named and stop.pause and named != stop.pause)
            return (other.verb in ("resume", "budget") and not elsewhere) or other.opens
        case "halt":
            return other.verb in ("lift", "resume") or other.opens
        case "cancel":
            return other.verb in ("resume", "redirect", "message", "event", "lift", "budget") or other.opens


# ---- liveness


def stuck(seen: Evidence, *, now: float, patience: float, must_end: bool = False) -> list[Violation]:
    """Promise 14: sessions that neither ended, nor wait for a person, nor are paused, nor made progress of late.

    ``patience``: the longest that a session of this run may rightly take from one fact to the next, once nothing is
    done to its processes any more. ``must_end``: everything was answered and resumed, so that all of them end.
    """
    found = [*_damage(seen)]
    for name, session in seen.sessions.items():
        if session.status in ENDED or name in seen.named or (not must_end and _rests(seen, session)):
            continue
        journal = seen.journals[name]
        fact = max((one.at for one in _facts(journal)), default=0.0)
        if now - max(fact, _progress_below(seen, session)) <= patience:
            continue
        idle = sum(record.at > fact for record in journal)
        spins = idle > IDLE_RUN and now - journal[-1].at <= patience
        what = f"{session.status} without a new fact for {now - fact:.1f} s"
        if spins:
            what += f", and {idle} events meanwhile that say nothing new"
        if session.asks or session.child_asks:
            what += f"; open asks: {len(session.asks)}, of children: {len(session.child_asks)}"
        found.append(
            Violation(
                promise="spins" if spins else "stands still",
                session=name,
                what=what,
                at=fact,
                position=journal[-1].position,
            )
        )
    return found


def _progress_below(seen: Evidence, session: Session) -> float:
    """When a child that a step of this session waits for last made progress, or one of its own children did.

    Promise 14 lets a session wait for a named event, and such a step names one: the child's end. What must not stand
    still is the child, which is looked at by itself. Once it has ended, its parent has to go on in the usual time.
    """
    latest = 0.0
    for name in session.children.values():
        child = seen.sessions.get(name)
        if child is not None:
            latest = max(latest, _progress_below(seen, child), *(one.at for one in _facts(seen.journals[name])))
    return latest


def _facts(journal: Sequence[Recorded]) -> Iterable[Recorded]:
    yield journal[0]
    for before, record in pairwise(journal):
        if not isinstance(record.event, NO_FACT) and record.event != before.event:
            yield record


def _rests(seen: Evidence, session: Session) -> bool:
    """Whether a session waits for a person: itself, by its parent's stop, or because a child of it does."""
    match session.status:
        case Status.PAUSED | Status.HALTED:
            return True
        case Status.WAITING:
            return bool(session.asks or session.child_asks)
        case Status.QUEUED:
            parent = seen.sessions.get(session.parent) if session.parent is not None else None
            if parent is None:
                return False
            asks_first = parent.status is Status.WAITING and bool(parent.asks)
            return asks_first or parent.status in (Status.PAUSED, Status.HALTED)
        case Status.RUNNING:
            if session.asks and not session.running:
                return True
            living = [seen.sessions[one] for one in session.children.values() if one in seen.sessions]
            return any(one.status not in ENDED and _rests(seen, one) for one in living)
        case _:
            return False


def excerpt(journal: Sequence[Recorded], position: int | None = None, around: int = EXCERPT) -> str:
    """The events of a journal on either side of a position, or the last ones, one line each."""
    if position is None:
        shown = journal[-2 * around :]
    else:
        shown = [record for record in journal if abs(record.position - position) <= around]
    begins = journal[0].at if journal else 0.0
    lines = [f"  {record.position:5} {record.at - begins:9.3f} {record.type} {_fields(record)}" for record in shown]
    return "\n".join(lines)


def _fields(record: Recorded) -> str:
    """What the event says, without what it leaves out, and without values."""
    said = msgspec.to_builtins(record.event, enc_hook=lambda _: "…")
    return " ".join(
        f"{name}={str(value)[:60]}" for name, value in said.items() if name not in ("type", "digest", "given")
    )
