"""Sessions told event by event: what the tests of the core are about."""

from collections.abc import Callable, Mapping
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.codec import Value
from midcourse.core.decisions import decide
from midcourse.core.effects import Effect
from midcourse.core.fold import Fold, Row, first
from midcourse.core.ids import AskId, CommandId, PauseId, Position, SessionId, StepId, ask_id
from midcourse.core.policy_decision import Decision, Reason, Unseen, Worth
from midcourse.core.session import Session, Status
from midcourse.core.snapshot import Snapshot, decode_snapshot, restore_results, rows_outside
from midcourse.core.steps import StepLog

SESSION: Final = SessionId("sess_42")
FETCH: Final = StepId("1/fetch#0")
WRITE: Final = StepId("1/write#0")
QUESTION: Final = StepId("1/ask#0")
OTHER_QUESTION: Final = StepId("1/ask#1")
ASK_1: Final = AskId("ask_1")
ASK_2: Final = AskId("ask_2")
PAUSE_1: Final = PauseId("pause_1")
PAUSE_2: Final = PauseId("pause_2")
ID: Final = CommandId("c")
STOP: Final = Decision(
    level="stop",
    wanted="stop",
    policy="standard@1",
    at=60.0,
    reasons=(Reason("errors.streak", "stop", 5, 5, "5 calls in a row failed."),),
    unseen=(Unseen("scope_drift", "no encoder is installed"),),
    worth=Worth(0.5, 10, 0.01, 1, 0.05, "avoids $1.00, costs $0.06"),
)
"""What a policy decides after five errors in a row."""


def value(json: str) -> Value:
    """A journaled value from its JSON."""
    return Value(raw=msgspec.Raw(json.encode()))


def begun(
    step: StepId = FETCH,
    attempt: int = 1,
    kind: ev.StepKind = "tool",
    digest: str = "d",
    *,
    effect: Effect = "read",
    key: str | None = None,
) -> ev.StepBegun:
    """An attempt at a step. One with an effect is known to the world by its key, the same for every attempt."""
    name = step.partition("/")[2].partition("#")[0]
    event = ev.StepBegun(step=step, name=name, kind=kind, attempt=attempt, digest=digest, arguments='{"url":"x"}')
    if effect == "read":
        return event
    return replace(
        event,
        effect=effect,
        key=f"key of {name}" if key is None else key,
        tool=f"tools:{name}",
        can_undo=effect == "reversible",
    )


def finished(step: StepId = FETCH, attempt: int = 1, json: str = '"ok"', cost: float = 0.0) -> ev.StepFinished:
    """Its result."""
    return ev.StepFinished(step=step, attempt=attempt, value=value(json), cost=cost)


def asked(ordinal: int = 1, step: StepId = QUESTION, expires_at: float | None = None) -> ev.AskOpened:
    """A question to a person, which anybody may answer."""
    return ev.AskOpened(ask=ask_id(ordinal), step=step, reason="need_input", prompt="Delete?", expires_at=expires_at)


class Story:
    """A session's journal as it grows: each event one second after the one before."""

    def __init__(self, *, mode: ev.Mode = "replay", goal: str = "write the report") -> None:
        event = ev.SessionCreated(
            agent="writer", agent_version="1", mode=mode, origin="writers:writer", resumable=True, goal=goal
        )
        content = ev.encode_record(ev.Record(1.0, event))
        self.fold: Fold = first(SESSION, 1.0, event, content)
        self.rows: list[Row] = [(self.fold.session.position, content, self.fold.digest)]
        self.events: list[ev.AnyEvent] = [event]

    @property
    def session(self) -> Session:
        """The session as it stands."""
        return self.fold.session

    @property
    def log(self) -> StepLog:
        """Its step log as it stands."""
        return self.fold.log

    @property
    def records(self) -> list[ev.Recorded]:
        """Its journal, with positions and times."""
        return [
            ev.Recorded(Position(number), float(number), event) for number, event in enumerate(self.events, start=1)
        ]

    def happen(self, *events: ev.AnyEvent) -> Self:
        """Fold ``events`` and journal them."""
        for event in events:
            at = float(self.session.position + 1)
            content = ev.encode_record(ev.Record(at, event))
            position = self.fold.advance(at, event, content)
            self.rows.append((position, content, self.fold.digest))
            self.events.append(event)
        return self

    def read_back(self, content: bytes) -> Snapshot:
        """Return what a store makes of one of its snapshots: with the results that only the journal holds."""
        snapshot = decode_snapshot(content)
        events = {position: ev.decode_record(record).event for position, record, _ in self.rows}
        restore_results(snapshot, {position: events[position] for position in rows_outside(snapshot)})
        return snapshot

    def want(self, command: cmd.AnyCommand) -> Self:
        """Decide ``command`` and let happen what it makes."""
        return self.happen(*decide(self.session, command))


def _halted(story: Story) -> Story:
    return story.want(cmd.Halt(id=ID, role="operate"))


IN: Final[Mapping[Status, Callable[[], Story]]] = {
    Status.QUEUED: Story,
    Status.RUNNING: lambda: Story().happen(ev.SessionStarted(), begun()),
    Status.WAITING: lambda: Story().happen(ev.SessionStarted(), asked(), ev.SessionWaiting()),
    Status.PAUSING: lambda: in_status(Status.RUNNING).want(cmd.Pause(id=ID)),
    Status.PAUSED: lambda: in_status(Status.PAUSING).happen(finished(), ev.SessionPaused()),
    Status.CANCELLING: lambda: in_status(Status.RUNNING).want(cmd.Cancel(id=ID)),
    Status.CANCELLED: lambda: in_status(Status.CANCELLING).happen(finished(), ev.SessionCancelled()),
    Status.HALTED: lambda: _halted(in_status(Status.RUNNING)),
    Status.COMPLETED: lambda: in_status(Status.RUNNING).happen(finished(), ev.SessionCompleted(result=value('"done"'))),
    Status.FAILED: lambda: in_status(Status.RUNNING).happen(
        ev.StepFailed(step=FETCH, attempt=1, kind="OSError", detail="down"),
        ev.SessionFailed(code="agent_failed", message="OSError: down", step=FETCH),
    ),
}
"""How a session gets into each status."""


def in_status(status: Status) -> Story:
    """A session that stands in ``status``."""
    return IN[status]()
