"""The outcome of each effect of a session, from its journal and never beyond it. Pure.

``EffectLedger`` folds a whole journal; ``changed_receipt`` keeps the lines of the cancel or undo that is under way,
from record to record, so that a provisional receipt is always at hand.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from midcourse.core import calls
from midcourse.core import events as ev
from midcourse.core.codec import NOTHING, Value
from midcourse.core.effects import UndoChoice
from midcourse.core.ids import StepId
from midcourse.core.session import Hold, OpenCall, Session, StandingCancel, StandingUndo

replace = msgspec.structs.replace
COLUMNS: Final = ("what", "effect", "outcome", "detail")
UNENCODABLE: Final = "Unencodable"
"""The kind of the error an agent sees when a call's result cannot be journaled."""
SHOWN: Final = 40
"""Characters of a call's arguments that a receipt's table shows."""
NAMED: Final = 3
"""So many effects that may happen a second time are named."""


_ORDER: Final[Sequence[ev.ReceiptOutcome]] = (
    *("undone", "kept", "cannot be undone", "undo failed", "undo ran with unknown result", "unknown", "still running"),
)
_HELD: Final = {"undone": "released", "kept": "still held", "undo failed": "not released"}
"""The words for a hold, which is no effect: it is released, or not."""


def tally(lines: Sequence[ev.ReceiptLine]) -> str:
    """Return what the lines come to: ``2 undone, 1 kept, 1 hold released``. Empty: there is none."""
    effects = Counter(line.outcome for line in lines if line.effect != "hold")
    holds = Counter(line.outcome for line in lines if line.effect == "hold")
    told = [f"{effects[outcome]} {outcome}" for outcome in _ORDER if effects[outcome]]
    held = [
        f"{holds[outcome]} {'hold' if holds[outcome] == 1 else 'holds'} {_HELD.get(outcome, outcome)}"
        for outcome in _ORDER
        if holds[outcome]
    ]
    return ", ".join(told + held)


class Receipt(msgspec.Struct, frozen=True):
    """One line per effect, in the order they began; ``final`` once the session has ended and no undo is under way.

    ``begins_anew``: it was forced to end half-way with ``restart``, or would be; a new session begins the same anew.
    ``children``: so many sessions that it spawned, whose effects are in receipts of their own.
    """

    lines: tuple[ev.ReceiptLine, ...]
    final: bool
    is_preview: bool = False
    begins_anew: bool = False
    children: int = 0

    @property
    def unknown(self) -> tuple[ev.ReceiptLine, ...]:
        """The effects with an unknown end."""
        return tuple(line for line in self.lines if line.outcome in ("unknown", "undo ran with unknown result"))

    @property
    def twice(self) -> tuple[ev.ReceiptLine, ...]:
        """The effects that may happen again in the session that begins anew: they stay, or may have happened."""
        if not self.begins_anew:
            return ()
        return tuple(line for line in self.lines if line.effect != "hold" and line.outcome != "undone")

    @property
    def twice_words(self) -> str:
        """The effects that may happen a second time, in a sentence. Empty: none."""
        names = list(dict.fromkeys(line.name for line in self.twice))
        if not names:
            return ""
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return f"{', '.join(names[:NAMED])}{more} may happen a second time in the session that begins anew."

    @property
    def children_words(self) -> str:
        """The sessions whose effects are not in this receipt, in a sentence. Empty: none."""
        if not self.children:
            return ""
        if self.children == 1:
            return "Its child has a receipt of its own."
        return f"Its {self.children} children have receipts of their own."

    def __str__(self) -> str:
        """Return a table a person can read, and the effects that may happen a second time."""
        return "\n".join(filter(None, (self._table, self.twice_words, self.children_words)))

    @property
    def _table(self) -> str:
        if not self.lines:
            what = "no call of the session itself" if self.children else "nothing was changed: no call"
            return f"{what} that could have an effect had begun"
        rows = [COLUMNS, *((_what(line), line.effect, line.outcome, line.detail) for line in self.lines)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
        table = "\n".join(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        )
        if self.final:
            return table
        title = "what it would come to" if self.is_preview else "provisional: this is not the end yet"
        return f"{title}\n{table}"


def _what(line: ev.ReceiptLine) -> str:
    given = line.arguments if len(line.arguments) <= SHOWN else f"{line.arguments[: SHOWN - 1]}…"
    return f"{line.name} {given}".rstrip()


def begins_anew(session: Session) -> bool:
    """Return True if it is ended by force half-way, and a new session begins the same work.

    A child is begun anew by its parent, if at all.
    """
    restarts = session.cancel is not None and session.cancel.force and session.cancel.restart
    return session.is_protected and session.parent is None and restarts


# ---- lines


ROLLBACK: Final = StepId("#rollback")
"""The step of the line that says that the rollback itself has failed. No step has this identity."""


def failed_rollback(problem: str) -> ev.ReceiptLine:
    """Return the line of a rollback that ended early."""
    detail = f"it ended early with {problem}; what it had not reached is as it was"
    return ev.ReceiptLine(ROLLBACK, "the rollback", "undo failed", "reversible", detail=detail)


def line_of(call: OpenCall) -> ev.ReceiptLine:
    """Return the line of a call that has no outcome of its own."""
    match call.undo:
        case "done" if not call.careful:
            return _line(call, "undone")
        case "done" | "lost":
            return _line(call, "undo ran with unknown result")
        case "failed":
            return _line(call, "undo failed", f"tried {call.undos} times" if call.undos > 1 else "tried once")
        case "running":
            return _line(call, "still running", "its undo")
        case _:
            pass
    if not call.end:
        return _line(call, "still running")
    if call.end == "failed":
        return _line(call, "unknown", f"it raised {call.raised}, and was to be tried again; it may have happened")
    how = "it was aborted" if call.end == "aborted" else "its process is gone"
    return _line(call, "unknown", f"{how}; it may have happened")


def finished_line(call: OpenCall) -> ev.ReceiptLine:
    return _line(call, "kept" if call.can_undo else "cannot be undone")


def attested_words(told_by: str) -> str:
    """Return that a call's end was not seen, and who confirmed that it had happened."""
    return f"{told_by} said that it happened"


def failed_line(call: OpenCall, event: ev.StepFailed) -> ev.ReceiptLine:
    """Return the line of a call that raised; of one whose undo was given up, its known state."""
    if event.kind == UNENCODABLE:  # it returned; only what it returned cannot be written down
        return finished_line(call)
    return line_of(call) if call.end else _line(call, "unknown", f"it raised {event.kind}")


def held_line(hold: Hold) -> ev.ReceiptLine:
    """Return the line of something that is held."""
    outcome = "undo failed" if hold.error else "kept"
    return ev.ReceiptLine(StepId(f"hold {hold.name}"), hold.name, outcome, "hold", max(1, hold.tries), hold.error)


def _line(call: OpenCall, outcome: ev.ReceiptOutcome, detail: str = "") -> ev.ReceiptLine:
    return ev.ReceiptLine(call.step, call.name, outcome, call.effect, call.attempt, detail)


def line_key(step: StepId, key: str) -> str:
    """Return the key of a line: one effect has one line for all of its attempts, in any step."""
    return key or step


# ---- the receipt of the cancel or undo under way


def changed_receipt(before: Session, after: Session, event: ev.AnyEvent) -> Session:
    """Return ``after`` with the lines of its cancel or undo brought up to date with ``event``."""
    standing: StandingCancel | StandingUndo | None = after.undo or after.cancel
    assert standing is not None
    lines = dict(standing.receipt)
    match event:
        case ev.StepFinished() | ev.StepFailed():
            call = before.calls[event.step]
            if call.effect != "read":
                _end_line(lines, call, event)
        case ev.StepNotBegun() | ev.StepAborted() | ev.StepSettled() | ev.StepRetrying() | ev.StepClosed():
            call = before.calls.get(event.step)
            if call is not None:
                _update(lines, call, after.calls.get(event.step))
        case ev.SessionTaken():
            for call in after.calls.values():
                _update(lines, call, call)
            known = {line_key(call.step, call.key) for call in after.calls.values()}
            for where, line in lines.items():
                if line.outcome == "still running" and where not in known:  # an undo of what had ended before
                    lines[where] = replace(line, outcome="undo ran with unknown result", detail="")
        case ev.UndoBegun() | ev.UndoEnded():
            call = after.calls.get(event.step)
            where = line_key(event.step, event.key)
            if call is not None and call.key == event.key:
                _update(lines, call, call)
                if isinstance(event, ev.UndoEnded) and event.error:
                    lines[where] = replace(lines[where], detail=event.error)
            elif isinstance(event, ev.UndoBegun):
                lines[where] = ev.ReceiptLine(
                    event.step, event.name, "still running", event.effect, event.attempt, "its undo"
                )
            elif where in lines:
                lines[where] = _undo_ended(lines[where], event)
        case ev.HoldReleased(name=name):
            was = held_line(before.holds[name])
            lines[f"hold {name}"] = (
                held_line(after.holds[name]) if event.error else replace(was, outcome="undone", detail="")
            )
        case _:
            return after
    changed = replace(standing, receipt=lines)
    return replace(after, undo=changed) if isinstance(changed, StandingUndo) else replace(after, cancel=changed)


def _end_line(lines: dict[str, ev.ReceiptLine], call: OpenCall, event: ev.StepFinished | ev.StepFailed) -> None:
    where = line_key(call.step, call.key)
    if event.nothing_done:
        lines.pop(where, None)
    elif isinstance(event, ev.StepFinished):
        detail = attested_words(event.told_by) if event.told_by else ""
        lines[where] = replace(finished_line(call), detail=detail)
    else:
        lines[where] = failed_line(call, event)


def _update(lines: dict[str, ev.ReceiptLine], was: OpenCall, call: OpenCall | None) -> None:
    where = line_key(was.step, was.key)
    if was.effect == "read":
        return
    if call is None or (call.told == "no" and not call.undos):
        if call is None and was.end:
            lines[where] = line_of(was)  # closed, as what it was known to be
        else:
            lines.pop(where, None)  # it did not happen
    else:
        lines[line_key(call.step, call.key)] = line_of(call)


def _undo_ended(line: ev.ReceiptLine, event: ev.UndoEnded) -> ev.ReceiptLine:
    if event.lost:
        return replace(line, outcome="undo ran with unknown result", detail=event.error)
    if event.error:
        return replace(line, outcome="undo failed", detail=event.error)
    return replace(line, outcome="undone", detail="")


# ---- the ledger of a whole journal


class EffectEntry(msgspec.Struct, gc=False):
    """One effect: the call that had it, how that ended, and what an undo would be given."""

    call: OpenCall
    ended: str = ""
    result: Value = NOTHING
    detail: str = ""
    arguments: str = ""
    ended_at: float = 0.0

    @property
    def line(self) -> ev.ReceiptLine:
        return replace(self._line, arguments=self.arguments)

    @property
    def _line(self) -> ev.ReceiptLine:
        if self.call.undo or not self.ended:
            line = line_of(self.call)
            return replace(line, detail=self.detail) if self.detail else line
        if self.ended == "finished":
            return replace(finished_line(self.call), detail=self.detail)
        return _line(self.call, "unknown", self.detail)

    @property
    def may_be_undone(self) -> bool:
        """True if an undo is worth trying: it has one, may have happened, and was not undone."""
        return self.call.can_undo and self.call.undo != "done" and bool(self.ended or self.call.end)


class EffectLedger:
    """Every effect a session ever had, in the order they began."""

    def __init__(self) -> None:
        self.entries: dict[str, EffectEntry] = {}
        self.holds: dict[str, ev.ReceiptLine] = {}
        self.children: list[StepId] = []
        self.failures: tuple[ev.ReceiptLine, ...] = ()
        self.is_final = False
        self._last: dict[StepId, str] = {}
        self._arguments: dict[StepId, str] = {}

    def apply(self, record: ev.Recorded) -> None:
        """Fold one record in."""
        event, at = record.event, record.at
        match event:
            case ev.SessionForked():
                self.entries, self.holds, self.children, self._last = {}, {}, [], {}
            case ev.StepBegun(kind="child", step=step):
                if step not in self.children:
                    self.children.append(step)
            case ev.StepBegun() if event.effect != "read":
                self._begin(event, at)
            case ev.StepNotBegun():
                self._take_back(event)
            case ev.StepFinished(nothing_done=True) | ev.StepFailed(nothing_done=True):
                if self._of(event.step) is not None:
                    self._becomes(event.step, None)
            case ev.StepFinished(value=value):
                entry = self._of(event.step)
                if entry is not None and event.told_by:
                    entry.detail = attested_words(event.told_by)
                self._end(event.step, "finished", value, at)
            case ev.StepFailed(kind=kind) if kind == UNENCODABLE:
                self._end(event.step, "finished", NOTHING, at)
            case ev.StepFailed():
                entry = self._of(event.step)
                if entry is not None:
                    said = entry.detail or event.detail
                    entry.detail = said if entry.call.end else f"it raised {event.kind}"
                    if event.cut:
                        entry.call = replace(entry.call, end="aborted", ended_at=at)
                self._end(event.step, "failed", NOTHING, at)
            case ev.StepRetrying():
                entry = self._of(event.step)
                if entry is not None:
                    self._becomes(event.step, calls.failed(entry.call, event, at))
            case ev.StepAborted():
                entry = self._of(event.step)
                if entry is not None:
                    self._becomes(event.step, calls.aborted(entry.call, event, at))
            case ev.StepSettled():
                entry = self._of(event.step)
                if entry is not None:
                    self._becomes(event.step, None if event.happened is False else calls.settled(entry.call, event))
            case ev.SessionTaken(lost=lost, silent=silent):
                for step in lost:
                    entry = self._of(step)
                    if entry is not None and not entry.ended:
                        entry.call = calls.lost(entry.call, at, silent=silent)
                for entry in self.entries.values():
                    if entry.call.undo == "running":  # of a call that had ended: its undo must settle, too
                        entry.call = calls.lost(entry.call, at, silent=silent)
            case ev.UndoBegun() | ev.UndoEnded():
                self._undo(event, at)
            case ev.HoldTaken(name=name):
                self.holds[name] = held_line(Hold(name, event.release))
            case ev.HoldReleased(name=name):
                line = self.holds[name]
                outcome: ev.ReceiptOutcome = "undo failed" if event.error else "undone"
                self.holds[name] = replace(line, outcome=outcome, attempt=event.number, detail=event.error)
            case _:
                self._look_at_the_end(event)

    def _look_at_the_end(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.SessionCancelled(receipt=lines) | ev.UndoFinished(receipt=lines):
                self.is_final = True
                self.failures = tuple(line for line in lines if line.step == ROLLBACK)
            case ev.SessionCompleted() | ev.SessionFailed():
                self.is_final = True
            case ev.UndoRequested():
                self.is_final, self.failures = False, ()
                for entry in self.entries.values():  # asked for again, what failed before is tried again
                    entry.call = replace(entry.call, undos=0)
            case ev.TurnOpened() | ev.SessionResumed():
                self.is_final = False
            case _:
                pass

    def _begin(self, event: ev.StepBegun, at: float) -> None:
        where = line_key(event.step, event.key)
        known = self.entries.get(where)
        call = calls.begun(event, at, before=known.call if known else None)
        arguments = event.arguments or (known.arguments if known else self._arguments.get(event.step, ""))
        self._arguments[event.step] = arguments
        self.entries[where] = EffectEntry(call, arguments=arguments)
        self._last[event.step] = where

    def _take_back(self, event: ev.StepNotBegun) -> None:
        where = self._last.get(event.step)
        if where is None:
            return
        before = self.entries[where].call.before
        if before is None:
            del self.entries[where], self._last[event.step]
        else:
            self.entries[where] = EffectEntry(before, arguments=self.entries[where].arguments)

    def _of(self, step: StepId) -> EffectEntry | None:
        where = self._last.get(step)
        return None if where is None else self.entries[where]

    def _becomes(self, step: StepId, call: OpenCall | None) -> None:
        where = self._last[step]
        if call is None:
            del self.entries[where], self._last[step]
        else:
            self.entries[where].call = call

    def _end(self, step: StepId, how: str, value: Value, at: float) -> None:
        entry = self._of(step)
        if entry is not None:
            entry.ended, entry.result, entry.ended_at = how, value, at

    def _undo(self, event: ev.UndoBegun | ev.UndoEnded, at: float) -> None:
        entry = self.entries.get(line_key(event.step, event.key))
        if entry is None:
            return
        entry.call = calls.undoing(entry.call, event, at)
        entry.detail = event.error if isinstance(event, ev.UndoEnded) else ""

    @property
    def receipt(self) -> Receipt:
        """The receipt as far as the journal goes."""
        lines = (entry.line for entry in self.entries.values())
        lines = (*lines, *self.holds.values(), *self.failures)
        return Receipt(lines, self.is_final, children=len(self.children))

    def ended_too_late(self, cancel: StandingCancel) -> list[EffectEntry]:
        """Return what was in flight when the cancel came and ended by itself after its grace, or raised: newest first.

        A thread cannot be aborted, so that its effect is there although the cancel was to undo it.
        """
        late = cancel.since + cancel.grace
        return [
            entry
            for entry in self.to_undo()
            if line_key(entry.call.step, entry.call.key) in cancel.receipt
            and (entry.ended == "failed" or (entry.ended == "finished" and entry.ended_at > late))
        ]

    def to_undo(self) -> list[EffectEntry]:
        """Return what ``undo="all"`` rolls back, newest first."""
        return [entry for entry in reversed(self.entries.values()) if entry.may_be_undone]

    def preview(self, choice: UndoChoice, *, finishes_first: bool = False, begins_anew: bool = False) -> Receipt:
        """Return the receipt that a cancel with ``choice`` would have, if all goes well; now, or after the turn."""
        lines = (_expected(entry, choice, finishes_first=finishes_first) for entry in self.entries.values())
        holds = (
            line if line.outcome == "undone" or choice == "none" else replace(line, outcome="undone")
            for line in self.holds.values()
        )
        return Receipt(
            (*lines, *holds), final=False, is_preview=True, begins_anew=begins_anew, children=len(self.children)
        )


def _expected(entry: EffectEntry, choice: UndoChoice, *, finishes_first: bool) -> ev.ReceiptLine:
    line = _expected_line(entry, choice, finishes_first=finishes_first)
    return replace(line, arguments=entry.arguments)


def _expected_line(entry: EffectEntry, choice: UndoChoice, *, finishes_first: bool) -> ev.ReceiptLine:
    call = entry.call
    if call.undo == "done":
        return entry.line
    in_flight = not entry.ended
    if in_flight and finishes_first and not call.end:
        if choice == "all" and call.can_undo:
            return _line(call, "undone")
        return _line(call, "kept" if call.can_undo else "cannot be undone", "it finishes first")
    if in_flight and call.effect == "irreversible":
        alive = not call.end
        return (
            _line(call, "cannot be undone", "it will finish")
            if alive
            else _line(call, "unknown", "its process is gone")
        )
    rolls_back = choice == "all" or (choice == "in-flight" and in_flight)
    if rolls_back and call.can_undo:
        return _line(call, "undone")
    if in_flight and call.end == "failed":
        return line_of(call)
    if in_flight:
        return _line(call, "unknown", "it will be aborted and may have happened")
    return entry.line


def ledger_of(records: Iterable[ev.Recorded]) -> EffectLedger:
    """Return the ledger of a whole journal."""
    ledger = EffectLedger()
    for record in records:
        ledger.apply(record)
    return ledger
