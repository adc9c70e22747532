"""What must be true after the soak: every journal folds from its start, nothing ran twice, no answer was a lie."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from midcourse.core import events as ev
from midcourse.core.events import Recorded, decode_record
from midcourse.core.fold import Row, fold
from midcourse.core.ids import CommandId, Position, SessionId
from midcourse.core.session import ENDED
from midcourse.errors import MidcourseError
from midcourse.ports.store import Head, Store, every_head
from midcourse.runtime.command_outcome import decode_outcome
from midcourse.runtime.session_loader import load

_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Sent:
    """A command that was answered: ``code`` is ``ok``, ``accepted`` (the owner was silent) or why it was refused.

    ``mark`` stands in the journal if, and only if, the command changed something.
    """

    session: SessionId
    id: CommandId
    verb: str
    mark: str
    code: str


@dataclass(frozen=True, slots=True)
class Ran:
    """A call that ran, as its own body told the ledger."""

    session: SessionId
    step: str
    attempt: int
    at: float


@dataclass(slots=True)
class Verdict:
    """What was looked at, and everything that is wrong."""

    looked_at: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])

    def check(self, what: str, good: bool, complaint: str) -> None:
        """Count one look."""
        self.looked_at[what] += 1
        if not good:
            self.wrong.append(complaint)


def read_ledger(folder: Path) -> list[Ran]:
    """All that ran, in any process."""
    ran: list[Ran] = []
    for file in folder.glob("ledger-*"):
        for line in file.read_text().splitlines():
            session, rest = line.split(" ", 1)  # a step's name may have spaces
            step, attempt, at, _pid = rest.rsplit(" ", 3)
            ran.append(Ran(SessionId(session), step, int(attempt), float(at)))
    return ran


async def judge(store: Store, sent: Sequence[Sent], ran: Sequence[Ran]) -> Verdict:
    """Everything that can be told from the store, the answers and the ledger."""
    verdict = Verdict()
    by_session: defaultdict[SessionId, list[Ran]] = defaultdict(list)
    for one in ran:
        by_session[one.session].append(one)
    commands: defaultdict[SessionId, list[Sent]] = defaultdict(list)
    for command in sent:
        commands[command.session].append(command)
    async for head in every_head(store):
        try:
            records = await _journal(store, head, verdict)
        except MidcourseError as error:
            verdict.check("journals", False, f"{head.id}: {error}")
            continue
        verdict.check("sessions ended", head.status in ENDED, f"{head.id} is {head.status}")
        left = await store.undecided(head.id)
        verdict.check("inboxes empty", not left, f"{head.id}: undecided {[row.id for row in left]}")
        _judge_steps(head.id, records, by_session[head.id], verdict)
        await _judge_commands(store, head.id, records, commands[head.id], verdict)
    return verdict


async def _journal(store: Store, head: Head, verdict: Verdict) -> list[Recorded]:
    """The whole journal, folded from its first row; what a snapshot says must be the same."""
    rows: list[Row] = []
    while page := await store.read(head.id, Position(len(rows)), _PAGE):
        rows += page
    folded = fold(head.id, None, rows, ends=(head.position, head.digest))
    loaded = (await load(store, head)).state
    same = folded.session == loaded.session and folded.digest == loaded.digest and folded.log == loaded.log
    verdict.check("journals", same, f"{head.id}: its snapshot and its journal disagree")
    records = [(position, decode_record(content)) for position, content, _ in rows]
    verdict.looked_at["events"] += len(records)
    return [Recorded(position, record.at, record.event) for position, record in records]


def _judge_steps(session: SessionId, records: Sequence[Recorded], ran: Sequence[Ran], verdict: Verdict) -> None:
    """No attempt runs twice, none runs after its step has finished, no tool runs without its start in the journal."""
    begun: dict[tuple[str, int], ev.StepKind] = {}
    finished: dict[str, float] = {}
    for record in records:
        match record.event:
            case ev.StepBegun(step=step, attempt=attempt, kind=kind):
                begun[step, attempt] = kind
            case ev.StepFinished(step=step):
                finished[step] = record.at
                verdict.looked_at["steps finished"] += 1
            case _:
                pass
    for step, times in Counter((one.step, one.attempt) for one in ran).items():
        # A model's start need not be durable before it runs: after a crash the same attempt may be made again.
        is_tool = begun.get(step, "tool") == "tool"
        verdict.check("attempts", times == 1 or not is_tool, f"{session}: attempt {step} ran {times} times")
        verdict.check("starts journaled", step in begun or "/talk#" in step[0], f"{session}: {step} ran unannounced")
    for one in ran:
        late = one.step in finished and one.at > finished[one.step]
        verdict.check("runs", not late, f"{session}: {one.step} ran again after it had finished")


async def _judge_commands(
    store: Store, session: SessionId, records: Sequence[Recorded], sent: Sequence[Sent], verdict: Verdict
) -> None:
    """What was answered is in the store, decided as it was answered, and happened once or, if refused, never."""
    marks = _marks(records)
    for one in sent:
        row = await store.row(session, one.id)
        decided = decode_outcome(row.outcome).code if row is not None and row.outcome is not None else None
        agrees = decided is not None and one.code in (decided, "accepted")
        verdict.check("commands", agrees, f"{session}: {one.verb} {one.id} was answered {one.code}, and is {decided}")
        times = marks[one.mark]
        must_happen = decided == "ok" and one.verb in ("redirect", "answer")
        right = times == 1 if must_happen else times <= int(decided == "ok")
        verdict.check(
            "effects", right, f"{session}: {one.verb} {one.id} ({decided}) stands {times} times in the journal"
        )


def _marks(records: Sequence[Recorded]) -> Mapping[str, int]:
    marks: Counter[str] = Counter()
    for record in records:
        match record.event:
            case ev.PauseRequested(reason=mark) | ev.CancelRequested(reason=mark):
                marks[mark] += 1
            case ev.SessionRedirected(text=mark) | ev.TurnOpened(text=mark):
                marks[mark] += 1
            case ev.AskAnswered(value=value):
                marks[bytes(value.raw).decode().strip('"')] += 1
            case _:
                pass
    return marks
