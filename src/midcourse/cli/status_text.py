"""Describe a session: its status with a shape, how long ago, how far a stop has got."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from rich.text import Text

from midcourse.core.budget import needed
from midcourse.core.contact import PendingCommand
from midcourse.core.interventions import Intervention
from midcourse.core.missing_results import without_result
from midcourse.core.money import exact_money, money
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Reply, RunningCall
from midcourse.core.session import OpenCall, Session, Status

SHAPES: Final[Mapping[str, str]] = {
    # Hollow is not there yet, solid is so.
    Status.QUEUED: "▷",
    Status.RUNNING: "▶",
    Status.WAITING: "◆",
    Status.PAUSING: "▯▯",
    Status.PAUSED: "▮▮",
    Status.CANCELLING: "□",
    Status.CANCELLED: "■",
    Status.HALTED: "⊖",
    Status.COMPLETED: "✓",
    Status.FAILED: "✕",
}
DID: Final[Mapping[str, str]] = {
    "notify": "notified people",
    "ask_plan": "asked for the plan",
    "ask": "asked a person",
    "pause": "paused it",
    "stop": "stopped it",
}
"""The effect of an intervention of each level."""
_COLOURS: Final[Mapping[str, str]] = {Status.WAITING: "yellow", Status.HALTED: "red", Status.FAILED: "red"}
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


_DEFERRED: Final = {"pause": Status.PAUSING, "cancel": Status.CANCELLING}


LEFT_ALONE: Final = (
    "No process drives it: its process has ended. It continues as soon as another process with its agent opens "
    "the store: midcourse serve, or a program of yours."
)
"""The first thing to know of a session that is at work by its status, and is not."""


def needed_words(session: Session) -> str:
    """Return which tools a cancel or an undo waits for, and how it ends."""
    tools = ", ".join(f"'{one}'" for one in session.needs)
    return (
        f"Its undo needs {tools}, which no process that drives it has. It continues once one imports that: midcourse "
        f"serve --agents FILE, or a program that opens the store. To give it up: midcourse cancel {session.id} --force"
    )


def left_alone(session: Session) -> str:
    """Return that no process drives a session, and what was lost with its process."""
    lost = [call.name for call in session.calls.values() if not call.end]
    return f"{LEFT_ALONE} Lost with that process: {', '.join(lost)}." if lost else LEFT_ALONE


def stored_verbs(stored: Sequence[PendingCommand]) -> str:
    """List the undecided commands in their order: ``pause, resume and pause``."""
    names = [name for name, _ in groupby(one.command for one in stored)]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def stored_words(stored: Sequence[PendingCommand], since: float | None, now: float) -> str:
    """Return that commands are stored, and that the worker has not answered since then."""
    by = ", ".join(dict.fromkeys(one.by for one in stored if one.by))
    named = f"Stored, not carried out: {stored_verbs(stored)}{f' (by {by})' if by else ''}."
    if since is None:
        return named
    return (
        f"{named} Its worker has not answered since {clock_time(since, now)}; what is in flight is unknown. It is "
        "carried out as soon as a worker answers."
    )


def status_text(
    status: str, finishes_first: str = "", *, unattended: bool = False, stored: Sequence[PendingCommand] = ()
) -> Text:
    """Return a status as a shape and a word; colour only where a person is needed or something went wrong.

    ``finishes_first`` is the stop that waits for the end of its turn; ``unattended``: no process drives it; ``stored``:
    its worker has left these undecided.
    """
    if stored:
        told = status_text(status, finishes_first, unattended=unattended)
        told.append(f", {stored_verbs(stored)} stored")
        told.stylize("yellow")
        return told
    if unattended:
        told = status_text(status, finishes_first).append(", no process drives it")
        told.stylize("yellow")
        return told
    if finishes_first:
        return status_text(_DEFERRED[finishes_first]).append(", finishes first")
    shape = SHAPES.get(status, "?")
    try:
        shape.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return Text(status, style=_COLOURS.get(status, ""))
    return Text(f"{shape:<2} {status}", style=_COLOURS.get(status, ""))


def spent(cost: float, unpriced: int, cap: float | None = None, *, estimated: bool = False) -> str:
    """Return what was spent, and its cap: ``$3.18``, ``$3.18 of $10.00``.

    ``at least $3.18`` where ``unpriced`` model calls have no price; ``≈ $3.18`` where the price of an answer that is
    still being written is in it.
    """
    if unpriced and not cost:
        return "unknown" if cap is None else f"unknown, cap {money(cap)}"
    known = f"{'at least ' if unpriced else '≈ ' if estimated else ''}{money(cost)}"
    return f"{known}{'' if cap is None else f' of {money(cap)}'}"


def span(seconds: float) -> str:
    """Format a length of time: ``3.2 s``, ``4 min``, ``2 h``, ``5 d``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.1f} s"


def ago(at: float, now: float) -> str:
    """Format how long ago; never in the future, even if clocks differ."""
    return f"{span(now - at)} ago" if now - at >= 1 else "now"


def expiry_words(expires_at: float | None, now: float) -> str:
    """Return when something expires, or how long ago it did."""
    if expires_at is None:
        return "never"
    return f"in {span(expires_at - now)}" if expires_at > now else f"expired {ago(expires_at, now)}"


def clock_time(at: float, now: float) -> str:
    """Format the time of day here; with the date if it was another day."""
    when, today = (datetime.fromtimestamp(one, UTC).astimezone() for one in (at, now))
    return f"{when:%H:%M:%S}" if when.date() == today.date() else f"{when:%Y-%m-%d %H:%M:%S}"


def reply_words(reply: Reply, now: float) -> str:
    """Return the reply to a command as a sentence: what is known, and never more."""
    if not reply.durable:
        return f"{reply.level}, not durable: the store refused the write. It stays stopped while its process lives."
    if reply.unreachable_since is not None:
        return (
            f"accepted: it is stored. Its worker has not answered since "
            f"{clock_time(reply.unreachable_since, now)}; what is in flight is unknown."
        )
    if reply.finishes_first:
        return "decided: it is protected, so it finishes its turn first, and stops then. Nothing of it was interrupted."
    if reply.level == "accepted":
        return f"accepted: it is stored and not decided yet; the session is {reply.status}."
    words = [f"{reply.level}; the session is {reply.status}"]
    if reply.running:
        words.append(f"still running: {', '.join(map(call_words, reply.running))}")
    elif reply.level == "stopped":
        words.append("nothing runs")
    if reply.unknown:
        words.append(f"effects in flight unknown: {', '.join(reply.unknown)}")
    if reply.paused_by:
        words.append(f"it had been paused by {' and '.join(reply.paused_by)}")
    if reply.restarted_as:
        words.append(f"its work is discarded, and it started again as {reply.restarted_as}")
    return "; ".join(words) + "."


def call_words(call: RunningCall) -> str:
    """Describe a call that has not ended: ``send_mail (3.2 s, irreversible: it finishes)``."""
    more = [span(call.seconds)]
    if call.effect == "irreversible":
        more.append("irreversible, so it finishes")
    if call.doing:
        more.append(call.doing)
    return f"{call.name} ({', '.join(more)})"


def intervention_words(made: Intervention) -> str:
    """Describe an intervention, a line each: who, why, the arithmetic of it; and its last label."""
    did = DID.get(made.level, made.level)
    wished = f" (wanted: {made.wanted})" if made.wanted != made.level else ""
    led = ", ".join(one for one in (made.pause, made.ask) if one)
    lines = [f"{made.by} {did}{wished}{f' ({led})' if led else ''}: {made.sentence}"]
    lines += [f"       {made.arithmetic}"] if made.arithmetic else []
    if made.label is not None:
        lines.append(f"       labelled {made.label}" + (f": {made.note}" if made.note else ""))
    return "\n".join(lines)


def receipt_title(receipt: Receipt) -> str:
    """Return the title of the receipt's table."""
    if not receipt.lines:
        what = "No call of the session itself" if receipt.children else "Nothing was changed: no call"
        return f"{what} with an effect had started."
    if receipt.final:
        return "Receipt:"
    return "What it would come to:" if receipt.is_preview else "Receipt, provisional (this is not the end yet):"


def situation(session: Session, now: float) -> str:
    """Return the first thing to know of a session in its status."""
    running = [call for call in session.calls.values() if not call.end]
    still = ", ".join(f"{call.name} ({span(now - call.since)})" for call in running)
    retries = " ".join(_retry_words(call, now) for call in session.calls.values() if call.end == "failed")
    match session.status:
        case Status.QUEUED:
            return "Nothing has run yet."
        case Status.RUNNING | Status.WAITING if session.deferred is not None:
            asked = f"{session.deferred.by} wants to {session.deferred.stop} it"
            return f"Protected: it finishes its turn first ({asked}). {f'Running: {still}.' if still else ''}".strip()
        case Status.RUNNING:
            running_words = f"Running: {still}." if still else "" if retries else "Running."
            return f"{running_words} {retries}".strip()
        case Status.CANCELLING | Status.COMPLETED | Status.FAILED | Status.CANCELLED if session.needs:
            return needed_words(session)
        case Status.PAUSING | Status.CANCELLING:
            return f"Nothing new begins. Still running: {still}." if still else "Nothing new begins."
        case Status.PAUSED:
            return f"Nothing runs. {_resuming(session)}"
        case Status.WAITING:
            return "Nothing runs: it waits for an answer."
        case Status.HALTED:
            return f"Halted by {session.halted_by}. {_lifting(session)}"
        case _ if session.erased_at is not None:
            return f"Its texts were erased, {ago(session.erased_at, now)}. It cannot continue."
        case Status.FAILED:
            return str(without_result(session))
        case Status.CANCELLED if session.discarded:
            anew = f" It started again as {session.restarted_as}." if session.restarted_as else ""
            return f"It was forced to end, and its work is discarded.{anew}"
        case _:
            return f"It has ended. A new turn: midcourse message {session.id} TEXT"


def _retry_words(call: OpenCall, now: float) -> str:
    left = call.again_at - now
    when = f"in {span(left)}" if left > 0 else "now"
    return f"{call.name} raised {call.raised} (attempt {call.attempt}) and is tried again {when}."


def _resuming(session: Session) -> str:
    """Return how to resume a paused session, and what happens to an answer that was cut."""
    enough = needed(session)
    if enough is not None:
        raised = f"midcourse resume {session.id} --budget {exact_money(enough)[1:]}"
        return f"It has reached its budget; raise it with: {raised}"
    return f"Resume it with: midcourse resume {session.id}{cut_words(session)}"


def cut_words(session: Session) -> str:
    """Return what a resume does with a cut answer, for the line after the command that resumes."""
    if not session.cuts:
        return ""
    again = any(not way for way in session.cuts.values())
    return " (begins the answer again that was cut)" if again else " (continues the answer that was cut)"


def _lifting(session: Session) -> str:
    """Return how a halt ends, for readers in any role."""
    if session.switch:
        return (
            f"The role operate lifts the kill switch and then releases it: midcourse kill-switch show {session.switch}"
        )
    return f"The role operate lifts this: midcourse session lift {session.id}"
