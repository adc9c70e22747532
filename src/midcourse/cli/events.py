"""``midcourse events``: what happened in a session, and what happens."""

from contextlib import aclosing
from typing import Annotated, Any, cast

import msgspec
import typer

from midcourse.cli.command import Call, command
from midcourse.cli.printer import plain, print_json, print_lines
from midcourse.cli.status_text import clock_time, intervention_words
from midcourse.cli.target import SessionArgument, find, flag, opened, option
from midcourse.clock import SystemClock
from midcourse.core.events import InterventionMade, Recorded
from midcourse.core.interventions import interventions_of
from midcourse.handle import SessionHandle
from midcourse.ports.bus import Delta

_LONG = 100
_FOLLOWING = 3600.0
"""Seconds to wait for a server that went away, with --follow."""


@command("events", "Print what happened; --follow prints what happens.", until_interrupted="follow")
async def events(
    call: Call,
    session: SessionArgument,
    after: Annotated[int, option("--after", "POSITION", "Begin after this position.", min=0)] = 0,
    follow: Annotated[
        bool, flag("--follow/-f", "Continue with new events, also of later turns, until Ctrl-C.")
    ] = False,
    deltas: Annotated[bool, flag("--deltas", "With --follow: also preview text while it streams.")] = False,
) -> None:
    """Print a session's events, oldest first: position, time, type and fields.

    To continue later without a gap, give --after the last position you saw. With --json each event is one line.
    Changes nothing.

    \b
    Examples:
      midcourse events sess_0198f2
      midcourse events sess_0198f2 --follow --deltas
      midcourse events sess_0198f2 --after 120 --json
    """
    if deltas and not follow:
        raise typer.BadParameter("--deltas needs --follow: previews are not stored.")

    async with opened(call, patience=_FOLLOWING if follow else 10.0) as sessions:
        handle = await find(sessions, session)
        last = None if follow else (await handle.state()).position
        if last is None or last > after:
            await print_events(handle, after, last, deltas=deltas, as_json=call.as_json)


async def print_events(
    handle: SessionHandle[Any],
    after: int,
    last: int | None,
    *,
    deltas: bool = False,
    follow: bool = True,
    as_json: bool,
) -> None:
    """Print each event up to the one at ``last``; else as they come, with ``follow`` also those of later turns."""
    clock = SystemClock()
    # What watch gives is a generator, which is to be closed when it is left early.
    seen = cast("Any", handle.watch(after, deltas=deltas, follow=follow))
    async with aclosing(seen):
        async for event in seen:
            if isinstance(event, Delta):
                _print_delta(event, as_json=as_json)
                continue
            if as_json:
                print_json(as_sent(event))
            else:
                print_lines(_line(event, clock.now()), hang=7)
            if last is not None and event.position >= last:
                return


def as_sent(event: Recorded) -> dict[str, Any]:
    """Return an event as the HTTP API sends it."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event.event))
    kind, _, version = str(data.pop("type")).partition("@")
    return {"position": event.position, "at": event.at, "type": kind, "version": int(version), "data": data}


def _print_delta(delta: Delta, *, as_json: bool) -> None:
    if as_json:
        fields = {"step": delta.step, "attempt": delta.attempt, "offset": delta.offset, "text": delta.text}
        print_json({"type": "delta", "data": fields})
    else:
        print_lines(f"{'':>5}  {'':8}  {'(preview)':<24}  {plain(delta.text, lines=False)}")


def _line(event: Recorded, now: float) -> str:
    if isinstance(event.event, InterventionMade):  # all that it was decided from would be a screenful
        [made] = interventions_of([event])
        words = f"{made.id} {plain(intervention_words(made))}"
    else:
        data = as_sent(event)["data"]
        words = " ".join(f"{name}={_word(value)}" for name, value in data.items())
    return f"{event.position:>5}  {clock_time(event.at, now)}  {event.type:<24}  {words}".rstrip()


def _word(value: object) -> str:
    if isinstance(value, dict) and set(cast("dict[str, object]", value)) <= {"raw", "blob", "size"}:
        value = cast("dict[str, object]", value).get("raw", "(a blob)")
    text = value if isinstance(value, str) and " " not in value and value else msgspec.json.encode(value).decode()
    shown = plain(text, lines=False)
    return shown if len(shown) <= _LONG else f"{shown[: _LONG - 1]}…"
