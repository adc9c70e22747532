"""Our own journal: events as ``midcourse events --json`` and the HTTP API print them, or as a store gives them.

A session is a recording; its rows are its calls and what people said. A session that completed counts as a success and
one that failed as a failure, unless whoever knows better says so: that an agent returned does not mean that it was
right. A session that was cancelled, or has not ended, is unknown.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec

from midcourse.backtest.importers.jsonl import Lines
from midcourse.backtest.recordings import Outcome, Recorder, Recording, backwards
from midcourse.core import events as ev
from midcourse.core.events import Recorded, decode_record
from midcourse.core.ids import Position
from midcourse.core.policy.acts import Begun, SteppedIn
from midcourse.core.policy.decisions import INTERRUPTS
from midcourse.errors import MidcourseError
from midcourse.monitors.journal import JournalReader

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


def is_event(line: dict[str, Any]) -> bool:
    """Whether a line is an event."""
    return "position" in line and "at" in line and ("event" in line or ("type" in line and "data" in line))


def read(lines: Lines) -> Iterator[Recording]:
    """Every session of a file: a new one begins where the positions do."""
    session: list[Recorded] = []
    number_of = 0
    for number, line in lines:
        event = _event(lines, number, line)
        if event is None:
            continue
        if event.position == _FIRST and session:
            number_of += 1
            yield from _kept(lines, session, number_of)
            session = []
        session.append(event)
    if session:
        yield from _kept(lines, session, number_of + 1)


def _event(lines: Lines, number: int, line: bytes) -> Recorded | None:
    try:
        sent = _decoder.decode(line)
        if sent.type == "delta":  # a preview, which the event that follows holds as a whole
            return None
        event: object = sent.event if bytes(sent.event) else {"type": f"{sent.type}@{sent.version}", **sent.data}
        record = decode_record(msgspec.json.encode({"at": sent.at, "event": event}))
        return Recorded(Position(sent.position), record.at, record.event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MidcourseError) as error:
        if b'"type":"delta"' not in line:
            lines.left_out(number, error, "an event of a journal")
        return None


def _kept(lines: Lines, events: list[Recorded], number: int) -> Iterator[Recording]:
    gaps = sum(one.position != before.position + 1 for before, one in pairwise(events))
    run_id = lines.name if number == 1 else f"{lines.name}#{number}"
    if gaps:
        lines.tell(f"Session '{run_id}' misses events at {gaps} places: what it did there is not seen.")
    recording = recording_of(events, run_id=run_id, tell=lines)
    if recording is None:
        lines.tell(f"Session '{run_id}' called no model and no tool. It is left out.", None, len(events))
    else:
        yield recording


def recording_of(
    events: Iterable[Recorded], *, run_id: str, outcome: Outcome | None = None, tell: Lines | None = None
) -> Recording | None:
    """One session's events as a recording; None if it never called anything. ``outcome`` is what is known better."""
    reader = JournalReader()
    recorder: Recorder | None = None
    ended: Outcome = "unknown"
    agent = goal = ""
    task_class = None
    for event in events:
        ended = _ended(event, ended)
        if isinstance(event.event, ev.SessionCreated):
            agent, goal = event.event.agent, event.event.goal
            task_class = event.event.terms.task_class
        for act in reader.read(event):
            if recorder is None:
                recorder = Recorder(act.goal if isinstance(act, Begun) else goal)
            if not isinstance(act, SteppedIn):
                recorder.told(act)
            elif act.level in INTERRUPTS:
                # What the policy of that day did is not for the one that is tried now to know.
                recorder.interrupted()
    if recorder is None or not recorder.count:
        return None
    if tell is not None:
        tell.add(backwards(recorder, tell.file, run_id))
    return recorder.done(
        source=agent or SOURCE, run_id=run_id, outcome=outcome or ended, task_class=task_class, domain=agent
    )


def _ended(event: Recorded, before: Outcome) -> Outcome:
    match event.event:
        case ev.SessionCompleted():
            return "success"
        case ev.SessionFailed():
            return "failure"
        case ev.SessionCancelled() | ev.SessionHalted() | ev.SessionResumed() | ev.TurnOpened():
            return "unknown"
        case _:
            return before
