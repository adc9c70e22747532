"""Our own journal: events as ``midcourse events --json`` and the HTTP API print them, or as a store returns them.

A session is a recording; its rows are its calls and people's messages. Its outcome follows from people's ratings and
labels: rated 4 or 5 it is a success and 1 or 2 a failure; an intervention labelled right met a failing run, one
labelled wrong a good one. Without these, one that completed undisturbed counts as a success and one that failed as a
failure; one that was stopped or corrected on its way, cancelled, or has not ended, is unknown.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec

from midcourse.analysis.backtest.importers.jsonl import Kind, Lines
from midcourse.analysis.backtest.recordings import Outcome, Recorder, Recording, backwards
from midcourse.core import events as ev
from midcourse.core.events import Recorded, decode_record
from midcourse.core.ids import Position
from midcourse.core.policy_decision import INTERRUPTS
from midcourse.policy.run_activity import Begun, SteppedIn
from midcourse.policy.signals.journal_reader import JournalReader

SOURCE: Final = "midcourse"
_FIRST: Final = 1


class Sent(msgspec.Struct, gc=False):
    """An event on the wire (``type``, ``version``, ``data``), or as a journal keeps it (``event``)."""

    position: int
    at: float
    type: str = ""
    version: int = 1
    data: dict[str, msgspec.Raw] = {}
    event: msgspec.Raw = msgspec.Raw(b"")


_decoder = msgspec.json.Decoder(Sent)
_kinds = msgspec.json.Decoder(Kind)


def is_event(line: dict[str, Any]) -> bool:
    return "position" in line and "at" in line and ("event" in line or ("type" in line and "data" in line))


def read(lines: Lines) -> Iterator[Recording]:
    """Yield every session of a file: a new one begins where the positions do."""
    session: list[Recorded] = []
    number_of = 0
    for _, event in lines.decoded(_event, "an event of a journal"):
        if event is None:
            continue
        if event.position == _FIRST and session:
            number_of += 1
            yield from _kept(lines, session, number_of)
            session = []
        session.append(event)
    if session:
        yield from _kept(lines, session, number_of + 1)


def _event(line: bytes) -> Recorded | None:
    if _kinds.decode(line).type == "delta":  # a preview, which the event that follows holds as a whole
        return None
    sent = _decoder.decode(line)
    event: object = sent.event if bytes(sent.event) else {"type": f"{sent.type}@{sent.version}", **sent.data}
    record = decode_record(msgspec.json.encode({"at": sent.at, "event": event}))
    return Recorded(Position(sent.position), record.at, record.event)


def _kept(lines: Lines, events: list[Recorded], number: int) -> Iterator[Recording]:
    gaps = sum(one.position != before.position + 1 for before, one in pairwise(events))
    run_id = lines.name if number == 1 else f"{lines.name}#{number}"
    if gaps:
        lines.tell(f"Session '{run_id}' misses events at {gaps} places: what it did there is not seen.")
    recording = recording_of(events, run_id=run_id, tell=lines)
    if recording is None:
        lines.tell(
            f"Session '{run_id}' has no call that has ended, of a model or a tool. It is left out.", None, len(events)
        )
    else:
        yield recording


def recording_of(events: Iterable[Recorded], *, run_id: str, tell: Lines | None = None) -> Recording | None:
    """Return one session's events as a recording; None without a finished call."""
    reader = JournalReader()
    recorder: Recorder | None = None
    end = _End()
    agent = goal = ""
    task_class = None
    for event in events:
        end.see(event.event)
        if isinstance(event.event, ev.SessionCreated):
            agent, goal = event.event.agent, event.event.goal
            task_class = event.event.terms.task_class
        for act in reader.read(event):
            if recorder is None:
                recorder = Recorder(act.goal if isinstance(act, Begun) else goal)
            if not isinstance(act, SteppedIn):  # the policy that is tried now is not to know what that one did
                recorder.told(act)
    if recorder is None or not recorder.count:
        return None
    if tell is not None:
        tell.add(backwards(recorder, tell.file, run_id))
    return recorder.done(
        source=agent or SOURCE,
        run_id=run_id,
        task_key=goal,  # the same goal again, and a fork, are no other task
        outcome=end.outcome,
        task_class=task_class,
    )


class _End:
    """The end of a session, as far as it is known."""

    def __init__(self) -> None:
        self._ended: Outcome = "unknown"
        self._said: Outcome = "unknown"
        self._is_disturbed = False

    @property
    def outcome(self) -> Outcome:
        """The outcome by people's labels; without any, by its end if nothing had disturbed it."""
        if self._said != "unknown":
            return self._said
        return "unknown" if self._is_disturbed and self._ended == "success" else self._ended

    def see(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.SessionCompleted():
                self._ended = "success"
            case ev.SessionFailed():
                self._ended = "failure"
            case ev.SessionCancelled() | ev.SessionHalted() | ev.SessionResumed() | ev.TurnOpened():
                self._ended = "unknown"
            case ev.SessionRedirected():
                self._is_disturbed = True
            case ev.InterventionMade(decision=decision) if decision.level in INTERRUPTS:
                self._is_disturbed = True
            case ev.InterventionLabelled(verdict=verdict) if verdict != "unsure":
                self._said = "failure" if verdict == "right" else "success"
            case ev.SessionRated(score=score) if score != 3:
                self._said = "success" if score > 3 else "failure"
            case _:
                pass
