"""Kill, recover, and judge: what one kill point shows.

Whether a step ran again, or an acknowledged command was lost, is told by the ledger, a file outside the store that the
processes wrote line by line until they died. Whether the end is the same is told by the store, when all are gone.
"""

import asyncio
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from midcourse.core.codec import decode
from midcourse.core.events import SessionCancelled, StepFinished, UndoFinished, decode_record
from midcourse.core.fold import Fold, Row, fold
from midcourse.core.ids import CommandId, Position, SessionId
from midcourse.core.receipt import ledger_of as receipts_of
from midcourse.core.session import ENDED
from midcourse.errors import MidcourseError
from midcourse.ports.store import HeadQuery, Store
from midcourse.runtime.command_outcome import decode_outcome
from midcourse.runtime.session_loader import content_of, read_events
from midcourse.wiring import open_store
from tests.crash.child import store_of
from tests.crash.deeds import Claim, Finding, claims_of
from tests.crash.nursery import live
from tests.crash.scenarios import CANCEL, SCENARIOS, SCOPES, SESSION, TURN, Scenario, ledger_of
from tests.crash.within import Moment

MISSING: Final = "(not in the inbox)"
UNDECIDED: Final = "(undecided)"
ATTEMPTS: Final = 3
"""How often a point is tried that is not reached."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a life ends: at its ``at``-th call, which was a call of ``call`` when it was counted."""

    at: int
    when: Moment
    call: str

    def __str__(self) -> str:
        return f"{self.when} call {self.at} ({self.call})"


@dataclass(frozen=True, slots=True)
class Point:
    """A scenario and the deaths it must survive, one life after the other; the last life is left alone."""

    scenario: str
    kills: tuple[Kill, ...]

    def __str__(self) -> str:
        if not self.kills:
            return f"{self.scenario}, not killed"
        return f"{self.scenario}, killed {', then '.join(map(str, self.kills))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What the store holds when everybody is gone."""

    status: str
    result: object
    state: object
    messages: tuple[str, ...]
    plan: tuple[tuple[str, str], ...]
    pauses: int
    finished: tuple[str, ...]
    receipt: tuple[str, ...]
    left_behind: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A run that nobody killed: its calls, and its end."""

    calls: tuple[str, ...]
    end: End


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found at a point; four empty lists are what is promised.

    A point that was never reached shows nothing: the threads of its child met in another order, and it made fewer calls
    than when they were counted.
    """

    point: Point
    was_reached: bool = True
    lost: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    different: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.repeated or self.claimed or self.different)

    def __str__(self) -> str:
        found = [f"lost: {one}" for one in self.lost]
        found += [f"repeated: {one}" for one in self.repeated]
        found += [f"false claim: {one}" for one in self.claimed]
        found += [f"different: {one}" for one in self.different]
        return "\n    ".join([str(self.point), *found])


class Failed(Exception):
    """A life did not end as it should: it hung, it raised, or it was not killed."""


# ---- lives


def _live(scenario: str, folder: Path, kill: Kill | None = None) -> None:
    """One life of a scenario, in a process of its own.

    Raises:
        Failed: it was to be killed and was not, or the other way round.
    """
    at, when = (kill.at, kill.when) if kill else (0, "before")
    life = live(scenario, folder, at, when)
    if life.returncode == (-signal.SIGKILL if at else 0):
        return
    wanted = "killed" if at else "left alone"
    raise Failed(f"a life that was to be {wanted} ended with {life.returncode}:\n{life.tail}")


def rehearse(scenario: str, *kills: Kill) -> Rehearsal:
    """The scenario's last life after ``kills`` (none: its only one), unharmed: the calls it makes, and its end."""
    with tempfile.TemporaryDirectory(prefix="midcourse-crash-") as name:
        folder = Path(name)
        for kill in kills:
            _live(scenario, folder, kill)
        _live(scenario, folder)
        counted = [line for line in _lines(folder) if line[0] == "calls"][-1]
        return Rehearsal(tuple(counted[2:]), asyncio.run(_left(folder, ())).end)


def attempt(point: Point, expected: End) -> Verdict:
    """Kill and recover at ``point``, and judge what is left."""
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="midcourse-crash-") as name:
            folder = Path(name)
            lost: list[str] = []
            different: list[str] = []
            findings: list[Finding] = []
            try:
                for kill in point.kills:
                    _live(point.scenario, folder, kill)
                    lost += _lost_at_death(folder)
                    findings += _told_at_death(point.scenario, folder)
                _live(point.scenario, folder)
            except Failed as failed:
                different.append(str(failed))
            verdict = _judge(point, folder, expected, lost, different, findings)
            if not _was_not_reached(folder, point):
                return verdict
    return Verdict(point=point, was_reached=False)


def _was_not_reached(folder: Path, point: Point) -> bool:
    """Whether a life ended before the call it was to be killed at."""
    lines = _lines(folder)
    return any(line[0] == "calls" for line in lines) and sum(line[0] == "killed" for line in lines) < len(point.kills)


# ---- judging


@dataclass(frozen=True, slots=True)
class _Left:
    end: End
    outcomes: Mapping[str, str]


def _judge(
    point: Point, folder: Path, expected: End, lost: list[str], different: list[str], findings: list[Finding]
) -> Verdict:
    lines, scenario = _lines(folder), SCENARIOS[point.scenario]
    try:
        left = asyncio.run(_left(folder, _commands(lines)))
        if scenario.judge is not None and not different:
            findings += scenario.judge.at_the_end(lines, asyncio.run(_claims(folder)))
    except MidcourseError as error:
        different.append(f"the store cannot be read back: {error}")
    else:
        lost += _lost(lines, left.outcomes)
        lost += [f"{command} was never decided" for command, code in sorted(left.outcomes.items()) if code == UNDECIDED]
        lost += _never_kept(lines, left.end, scenario)
        different += [" ".join(line[1:]) for line in lines if line[0] == "wrong"]
        different += _differences(left.end, expected, scenario.varies)
    lost += [found for kind, found in findings if kind == "lost"]
    repeated = [*_repeated(lines, scenario), *(found for kind, found in findings if kind == "repeated")]
    claimed = [found for kind, found in findings if kind == "claimed"]
    return Verdict(
        point=point, lost=tuple(lost), repeated=tuple(repeated), claimed=tuple(claimed), different=tuple(different)
    )


def _lost_at_death(folder: Path) -> Iterator[str]:
    """What a dead process had answered, or made durable, and did not leave behind. Looked up in a copy of the store."""
    lines = _lines(folder)
    if not _commands(lines):
        return
    with _copied(folder) as copy:
        outcomes = asyncio.run(_outcomes(copy, _commands(lines)))
    for one in _lost(lines, outcomes):
        yield f"at its death: {one}"


def _told_at_death(scenario: str, folder: Path) -> Iterator[Finding]:
    """What the journals of a dead process claim of the world, and is not so."""
    judge = SCENARIOS[scenario].judge
    if judge is None:
        return
    with _copied(folder) as copy:
        claims = asyncio.run(_claims(copy))
    for kind, found in judge.at_death(_lines(folder), claims):
        yield kind, f"at its death: {found}"


@contextmanager
def _copied(folder: Path) -> Generator[Path]:
    """A copy of the store in ``folder``: to open it would mend it."""
    with tempfile.TemporaryDirectory(prefix="midcourse-crash-") as name:
        for file in folder.glob("store.db*"):
            if file.is_file():
                shutil.copy(file, name)
        yield Path(name)


def _commands(lines: list[list[str]]) -> set[str]:
    return {line[1] for line in lines if line[0] in ("acked", "put", "decided")}


def _lost(lines: list[list[str]], outcomes: Mapping[str, str]) -> Iterator[str]:
    """Commands that were durable, decided or answered, and of which the store knows nothing, or something else."""
    for command, code in sorted(outcomes.items()):
        answers = {line[2] for line in lines if line[:2] == ["acked", command]} - {"accepted"}
        if code == MISSING:
            yield f"{command} was durable, and is not in the inbox"
        elif code == UNDECIDED and (answers or ["decided", command] in lines):
            yield f"{command} was decided, and the store does not know how"
        elif code != UNDECIDED and answers - {code}:
            yield f"{command} was answered {', '.join(sorted(answers))}, and the store says {code}"


def _never_kept(lines: list[list[str]], end: End, scenario: Scenario) -> Iterator[str]:
    """Steps of a completed session that ran, and whose result neither the ledger nor the journal ever had."""
    finished = {line[1] for line in lines if line[0] == "finished"} | set(end.finished)
    kept = {_named(step, scenario.varies) for step in finished}
    for step in sorted({_named(line[1], scenario.varies) for line in lines if line[0] == "ran"} - kept):
        if end.status == "completed" and re.split(r"[/#]", step)[1] not in scenario.aborted:
            yield f"{step} ran, and its result was never durable"


def _repeated(lines: list[list[str]], scenario: Scenario) -> Iterator[str]:
    """Steps that ran after they had finished, and whatever a later life ran after a durable cancel, in that turn."""
    varies = scenario.varies
    finished: set[str] = set()
    done: set[str] = set()
    cancelled, forbidden = False, False
    for line in lines:
        match line:
            case ["life", _]:
                forbidden = cancelled
            case ["finished", step]:
                if step in finished:
                    yield f"{step} finished twice"
                finished.add(step)
                done.add(_named(step, varies))
            case [kind, command, *answer] if kind == scenario.stops and command == CANCEL and answer != ["accepted"]:
                cancelled = True
            case ["put", command] if command == TURN:
                cancelled, forbidden = False, False
            case ["ran", step, _]:
                if _named(step, varies) in done:
                    yield f"{step} ran again after it had finished"
                elif forbidden:
                    yield f"{step} ran in a new process after the cancel"
            case _:
                pass


def _differences(end: End, expected: End, varies: Collection[str]) -> Iterator[str]:
    for one in fields(End):
        if one.name in varies:
            continue
        now, then = getattr(end, one.name), getattr(expected, one.name)
        if one.name in ("finished", "receipt"):
            now, then = (tuple(sorted(_named(step, varies) for step in steps)) for steps in (now, then))
        if now != then:
            yield f"{one.name} is {_short(now)}, and without a crash {_short(then)}"


def _named(step: str, varies: Collection[str]) -> str:
    """A step as it is compared. Where scopes vary, without the ordinal of its checkpoint: only its turn stays.

    Nor does the name stay that LangGraph gives to a run of a node, which is another each time.
    """
    if SCOPES not in varies:
        return step
    return re.sub(r"^(\d+)\.\d+/|(?<=\.)[0-9a-f]{12}(?=\.\d+$)", r"\1/", step)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:300]}…"


def _lines(folder: Path) -> list[list[str]]:
    return [_words(line) for line in ledger_of(folder).read_text().splitlines()]


def _words(line: str) -> list[str]:
    """What a line of the ledger says. The names of steps may have spaces."""
    kind, _, rest = line.partition(" ")
    match kind:
        case "finished":
            return [kind, rest]
        case "ran":
            step, _, process = rest.rpartition(" ")
            return [kind, step, process]
        case _:
            return line.split()


async def _left(folder: Path, commands: Iterable[str]) -> _Left:
    """The session as a fold of its whole journal, every digest checked, and how each command was decided."""
    async with _opened(folder) as store:
        rows: list[Row] = []
        folded: dict[SessionId, Fold] = {}
        for head in await store.heads(HeadQuery(limit=1000)):
            own = await store.read(head.id, Position(0), 100_000)
            folded[head.id] = fold(head.id, None, own, ends=(head.position, head.digest))
            rows += own
        session, log = folded[SESSION].session, folded[SESSION].log
        end = End(
            status=session.status.value,
            result=decode(await content_of(store, session.result)) if session.result else None,
            state=decode(await content_of(store, log.state)),
            messages=tuple(message.text for message in session.messages),
            plan=tuple((item.title, item.status) for item in session.plan),
            pauses=session.pauses,
            finished=tuple(sorted(_finished(rows))),
            receipt=tuple(sorted(line.step for line in session.receipt)),
            left_behind=tuple(sorted(_left_behind(folded.values()))),
        )
        return _Left(end, {command: await _outcome(store, command) for command in commands})


async def _claims(folder: Path) -> list[Claim]:
    """What the receipts of all sessions claim."""
    async with _opened(folder) as store:
        claims: list[Claim] = []
        for head in await store.heads(HeadQuery(limit=1000)):
            records = await read_events(store, head.id, Position(0), 100_000)
            ends = [one.event for one in records if isinstance(one.event, SessionCancelled | UndoFinished)]
            claims += claims_of(receipts_of(records), ends[-1].receipt if ends else ())
        return claims


async def _outcomes(folder: Path, commands: Iterable[str]) -> Mapping[str, str]:
    async with _opened(folder) as store:
        return {command: await _outcome(store, command) for command in commands}


@asynccontextmanager
async def _opened(folder: Path) -> AsyncGenerator[Store]:
    store = await open_store(store_of(folder))
    try:
        yield store
    finally:
        await store.close()


def _left_behind(folded: Iterable[Fold]) -> Iterator[str]:
    """Children that have not ended. One that a cancel came before was never born, which is no difference."""
    return (one.session.id for one in folded if one.session.parent is not None and one.session.status not in ENDED)


def _finished(rows: Iterable[Row]) -> Iterator[str]:
    for _, content, _ in rows:
        event = decode_record(content).event
        if isinstance(event, StepFinished):
            yield event.step


async def _outcome(store: Store, command: str) -> str:
    for head in await store.heads(HeadQuery(limit=1000)):  # a parent's commands lie in its children's inboxes
        row = await store.row(head.id, CommandId(command))
        if row is not None:
            return UNDECIDED if row.outcome is None else decode_outcome(row.outcome).code
    return MISSING
