"""``midcourse inbox list``: what people are asked over all sessions, whose it is, and who stands in for whom."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec.structs import replace
from rich.text import Text

from midcourse.cli.ask_details import is_at_cap, summary
from midcourse.cli.command import Call, command
from midcourse.cli.printer import console, plain, print_json, print_lines, shortened, show_table, width_beside
from midcourse.cli.status_text import ago, clock_time, span
from midcourse.cli.target import argument, find, flag, opened, option, span_option
from midcourse.clock import SystemClock
from midcourse.core.session import Session
from midcourse.errors import InvalidInput
from midcourse.people.inbox_rules import Inbox, InboxAsk

LOOK_EVERY: Final = 2.0
"""Seconds between two looks with --watch."""
MOST_ALARMS: Final = 10
DUE: Final = {True: ("answer within", "its time is over since"), False: ("escalated in", "answer late by")}
"""The words before and after a time: by whether it is the deadline. The console uses the same."""
_WANTS: Final = 60
"""Columns that are left for what is wanted, or an ask takes two lines."""
_LINES: Final = 5
"""Lines that a question may take then."""


@command("inbox list", "List what people are asked, by deadline.", until_interrupted="watch")
async def show(
    call: Call,
    mine: Annotated[bool, flag("--mine", "Only what you are asked.")] = False,
    watch: Annotated[bool, flag("--watch", "Show it again when it changes, until Ctrl-C.")] = False,
) -> None:
    """List what people are asked over all sessions, the most urgent first, and the alarms.

    "due" shows when an ask is escalated or expires, whichever is sooner; ! marks an escalated one. Changes nothing.

    \b
    Examples:
      midcourse inbox list
      midcourse inbox list --watch
      midcourse inbox take sess_0198f2
      midcourse inbox hand-over bob --for 1h
    """

    shown: Inbox | None = None
    async with opened(call) as sessions:
        while True:
            found = await sessions.inbox()
            if mine:
                asks = tuple(one for one in found.asks if one.owner == found.you)
                found = replace(found, asks=asks, alarms=(), artifacts=())
            if found != shown:
                _show(found, is_mine=mine, as_json=call.as_json, clears=watch)
            shown = found
            if not watch:
                return
            await asyncio.sleep(LOOK_EVERY)


def _show(inbox: Inbox, *, is_mine: bool, as_json: bool, clears: bool) -> None:
    if as_json:
        print_json(inbox)
        return
    if clears:
        console().clear()
    now = SystemClock().now()
    if inbox.asks:
        _list(inbox.asks, now)
        first = inbox.asks[0]
        if is_at_cap(first.step):
            print_lines(f"See how to raise it: midcourse show {first.session}")
        else:
            print_lines(f"Answer with: midcourse answer {first.session} --ask {first.ask} TEXT")
    else:
        nothing = "No session asks you anything." if is_mine else "No session asks anything."
        runs = "1 session runs." if inbox.running == 1 else f"{inbox.running} sessions run."
        print_lines(f"{nothing} {runs}" if inbox.running else nothing)
    if inbox.asks and inbox.approvals_in_a_row >= inbox.asks[0].tired_after:
        print_lines(
            f"You have approved {inbox.approvals_in_a_row} in a row, {inbox.quick} of the last six in under three "
            "seconds. Check the next one twice."
        )
    for batch in inbox.alarms[:MOST_ALARMS]:
        told = "" if batch.ready_at <= now else f", sent at {clock_time(batch.ready_at, now)}"
        alarms = "1 alarm" if len(batch.alarms) == 1 else f"{len(batch.alarms)} alarms"
        print_lines(f"{ago(batch.since, now)}: {alarms} for {batch.person or 'no one in particular'}{told}")
    if inbox.artifacts:
        print_lines(
            f"Made by agents and due for review: {len(inbox.artifacts)}. List them with: midcourse artifact list --due"
        )


def _list(asks: Sequence[InboxAsk], now: float) -> None:
    header = ("due", "session", "ask", "agent", "owner")
    rows = [_row(ask, now) for ask in asks]
    if (room := width_beside(header, rows)) >= _WANTS:
        wants = [shortened(plain(summary(ask), lines=False), room) for ask in asks]
        show_table((*header, "it wants"), [(*row, want) for row, want in zip(rows, wants, strict=True)], whole=header)
        return
    for ask, row in zip(asks, rows, strict=True):
        print_lines(f"{row[0]}  {ask.session}  {ask.ask}, of {ask.agent}, {ask.owner}'s", hang=3)
        # A question is read here, a call's arguments where it is answered.
        most = console().width * (1 if ask.arguments else _LINES)
        print_lines(shortened(f"   {plain(summary(ask), lines=False)}", most))


def _row(ask: InboxAsk, now: float) -> tuple[Text | str, ...]:
    left = ask.due_at - now
    is_deadline = ask.due_at == ask.deadline
    words = f"{DUE[is_deadline][left <= 0]} {span(abs(left))}"
    urgent = Text(f"! {words}" if ask.escalated_at is not None else words, style="red" if left <= 0 else "")
    return urgent, ask.session, ask.ask, ask.agent, ask.owner


@command("inbox take", "Take an ask, or give it to another person.")
async def take(
    call: Call,
    session: Annotated[str, argument("SESSION", "A session's id, or the beginning of it.")],
    ask: Annotated[str | None, argument("ASK", "Which ask, if several are open.")] = None,
    owner: Annotated[str | None, option("--for", "NAME", "Give it to this person.")] = None,
) -> None:
    """Take an ask, so that others see who answers it; or give it to another person. The last change counts.

    \b
    Examples:
      midcourse inbox take sess_0198f2
      midcourse inbox take sess_0198f2 ask_2 --for bob
    """

    async with opened(call) as sessions:
        handle = await find(sessions, session)
        named = ask or _only(await handle.state())
        taken = await sessions.own(handle.id, named, owner)
    if call.as_json:
        print_json(taken)
    else:
        print_lines(f"{taken.ask} of {taken.session} is {taken.owner}'s: {taken.prompt}")


def _only(state: Session) -> str:
    if len(state.asks) != 1:
        names = ", ".join(one.id for one in state.asks) or "none"
        raise InvalidInput(f"{state.id} asks {len(state.asks)} things ({names}). Name the one you mean.", field="ask")
    return str(state.asks[0].id)


@command("inbox hand-over", "Hand your asks over for a while.")
async def hand_over(
    call: Call,
    to: Annotated[str, argument("NAME", "Who is asked instead of you.")],
    lasts: Annotated[str, option("--for", "SPAN", "How long: 1h, 30m, 2d; 0 ends it.")] = "1h",
) -> None:
    """Hand your asks over to another person for a while. Afterwards you are asked again.

    \b
    Examples:
      midcourse inbox hand-over bob
      midcourse inbox hand-over bob --for 30m
      midcourse inbox hand-over bob --for 0
    """
    seconds = 0.0 if lasts.strip() == "0" else span_option(lasts, "--for")
    async with opened(call) as sessions:
        made = await sessions.hand_over(to, seconds)
    if call.as_json:
        print_json(made)
    elif not seconds:
        print_lines(f"{made.name} is asked again.")
    else:
        print_lines(f"{made.to} is asked in place of {made.name} until {clock_time(made.until, made.at)}.")
        if made.warning:
            print_lines(made.warning)
