"""``midcourse ps`` and ``midcourse show``: which sessions there are, and all that is known of one."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from midcourse.cli.ask_details import details, how_to_answer, last_words, title
from midcourse.cli.command import Call, command
from midcourse.cli.printer import plain, print_json, print_lines, print_wrapped, shortened, show_table, width_beside
from midcourse.cli.receipts import show_receipt
from midcourse.cli.status_text import (
    ago,
    clock_time,
    intervention_words,
    left_alone,
    situation,
    span,
    spent,
    status_text,
    stored_words,
)
from midcourse.cli.target import SessionArgument, find, flag, opened, option
from midcourse.clock import SystemClock
from midcourse.core.choices import did_you_mean
from midcourse.core.contact import Contact
from midcourse.core.inspection import Inspection, StepView
from midcourse.core.session import LIVE, Session, Status
from midcourse.core.to_json import to_json
from midcourse.handle import SessionHandle, Sessions
from midcourse.ports.store import Head

_GOAL = 30
"""Columns that are left for the goal, or a session takes two lines."""
_MOST = 1000
_ANSWERS = Contact()


@command("ps", "List sessions.")
async def ps(
    call: Call,
    status: Annotated[
        list[str] | None, option("--status", "STATUS", "Only sessions in this status; may be repeated.")
    ] = None,
    agent: Annotated[str | None, option("--agent", "NAME", "Only sessions of this agent.")] = None,
    search: Annotated[str, option("--search", "TEXT", "Only sessions with this text in id, agent or goal.")] = "",
    everything: Annotated[bool, flag("--all/-a", "Also sessions that have ended.")] = False,
    limit: Annotated[int, option("--limit", "NUMBER", "List at most so many.", min=1, max=_MOST)] = 50,
) -> None:
    """List the sessions that have not ended, newest first; --all and --status choose others.

    Changes nothing.

    \b
    Examples:
      midcourse ps
      midcourse ps --status waiting --status paused
      midcourse ps --all --agent researcher --search invoice
      midcourse ps --json | jq -r '.sessions[].id'
    """
    unknown = [one for one in status or () if one not in set(Status)]
    if unknown:
        near = did_you_mean(unknown[0], Status)
        raise typer.BadParameter(f"There is no status {unknown[0]!r}. There are: {', '.join(Status)}.{near}")
    wanted = list(status or ([] if everything else sorted(LIVE)))

    async with opened(call) as sessions:
        heads = await sessions.list(status=wanted, agent=agent, search=search, limit=limit)
    if call.as_json:
        print_json({"sessions": [_head(head) for head in heads]})
    elif heads:
        _list(heads)
        if len(heads) == limit:
            print_lines(
                f"The newest {limit}. More: --limit, up to {_MOST}; or narrow it with --search, --agent, --status."
            )
    else:
        is_filtered = bool(status or agent or search)
        print_lines(
            "No session matches." if is_filtered or everything else "No session is under way. With --all: ended ones."
        )


def _head(head: Head) -> dict[str, Any]:
    told: dict[str, Any] = to_json(head)
    return {name: value for name, value in told.items() if name not in ("digest", "wake_at")}


def _list(heads: Sequence[Head]) -> None:
    now = SystemClock().now()
    header = ("session", "status", "agent", "steps", "cost", "asks", "begun")
    rows = [
        (
            head.id,
            status_text(head.status, head.finishes_first, unattended=head.unattended, stored=head.pending),
            head.agent,
            str(head.finished_steps),
            spent(head.cost, head.unpriced, head.budget, estimated=head.estimated),
            str(head.asks or ""),
            ago(head.created_at, now),
        )
        for head in heads
    ]
    if width_beside(header, rows) >= _GOAL:
        goals = (_short(head.goal) for head in heads)
        show_table((*header, "goal"), [(*row, goal) for row, goal in zip(rows, goals, strict=True)], whole=header)
        return
    for head, row in zip(heads, rows, strict=True):
        asks = f", {head.asks} asked" if head.asks else ""
        cost = "cost " * (head.unpriced > 0 and not head.cost) + spent(
            head.cost, head.unpriced, head.budget, estimated=head.estimated
        )
        told = f"   {head.agent}, {row[-1]}, {cost}{asks}: {plain(head.goal, lines=False)}"
        print_lines(f"{row[1]}  {head.id}", shortened(told.rstrip(": ")))


def _result(result: object) -> str:
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return _short(text, 4000)


def _short(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


@command("show", "Show everything about a session.")
async def show(
    call: Call,
    session: SessionArgument,
    at: Annotated[int | None, option("--at", "POSITION", "Show it as it was at this position of its journal.")] = None,
) -> None:
    """Show everything about a session: running calls, questions, plan, messages, receipt and result.

    Changes nothing.

    \b
    Examples:
      midcourse show sess_0198f2
      midcourse show sess_0198f2 --at 12
      midcourse show sess_0198f2 --json | jq .status
    """

    async with opened(call) as sessions:
        handle = await find(sessions, session)
        if at is not None:
            looked = await handle.inspect(at)
            _show_past(looked, as_json=call.as_json)
            return
        state = await handle.state()
        is_there = state.status is Status.COMPLETED and state.erased_at is None
        result = await handle.result() if is_there else None
        contact = await _contact(sessions, state)
        if call.as_json:
            ended = {"result": result} if state.status is Status.COMPLETED else {}
            print_json({**to_json(state), "goal": state.goal, **_json_of(contact), **ended})
            return
        await _show(handle, state, result, contact)


def _show_past(looked: Inspection, *, as_json: bool) -> None:
    if as_json:
        print_json(looked)
        return
    _describe(looked.session, looked.steps)
    if looked.steps:
        print_lines("", "Steps:")
        rows = ((one.id, one.name, one.outcome, str(one.attempt), one.arguments, one.text) for one in looked.steps)
        show_table(("step", "name", "outcome", "attempt", "arguments", "text"), rows, whole=("outcome",))


def _json_of(contact: Contact) -> dict[str, Any]:
    """Return the fields that ``ps`` shows of a session."""
    told: dict[str, Any] = to_json(contact)
    return {name: value for name, value in told.items() if name != "unwritten"}


async def _contact(sessions: Sessions, state: Session) -> Contact:
    """Return what is known of the session's worker: its journal does not tell, the list does."""
    heads = await sessions.list(search=state.id, limit=_MOST)
    head = next((one for one in heads if one.id == state.id), None)
    if head is None:
        return Contact()
    return Contact(
        pending=head.pending,
        unreachable_since=head.unreachable_since,
        silent_since=head.silent_since,
        unattended=head.unattended,
    )


async def _show(handle: SessionHandle[Any], state: Session, result: object, contact: Contact) -> None:
    inspected = await handle.inspect() if state.asks else None
    _describe(state, inspected.steps if inspected is not None else (), contact)
    if state.interventions:
        now = SystemClock().now()
        made = await handle.interventions()
        print_lines("", "Interventions:")
        print_lines(*(f"  {one.id}  {clock_time(one.at, now)}  {intervention_words(one)}" for one in made), hang=5)
    if state.status is Status.COMPLETED:
        print_lines("", f"Result: {_result(result)}")
    receipt = await handle.receipt()
    if receipt.lines or state.status is Status.CANCELLED:
        print_lines("")
        show_receipt(receipt, unattended=contact.unattended)


def _describe(state: Session, steps: Sequence[StepView], contact: Contact = _ANSWERS) -> None:
    now = SystemClock().now()
    deferred = state.finishing.stop if state.finishing is not None else ""
    stored = contact.pending
    title = status_text(state.status, deferred, unattended=contact.unattended, stored=stored).plain
    first = left_alone(state) if contact.unattended and not state.needs else situation(state, now)
    told = (stored_words(stored, contact.unreachable_since, now),) if stored else ()
    if not stored and contact.silent_since is not None:
        told = (f"Its worker does not respond: last heartbeat {ago(contact.silent_since, now)}.",)
    # What the journal says last is not what is known of a worker that does not answer.
    seen = f"Last seen, {ago(state.at, now)}: {first}" if contact.unreachable_since or contact.silent_since else first
    print_lines(f"{title}  {state.id}", state.goal or "(no goal)", *told, seen, "")
    paid = spent(state.cost, state.unpriced_so_far, state.terms.budget, estimated=state.estimated)
    facts = [
        ("agent", f"{state.agent} {state.agent_version}".strip()),
        ("begun", f"{clock_time(state.created_at, now)} ({ago(state.created_at, now)})"),
        ("last event", f"{state.position}, {clock_time(state.at, now)} ({ago(state.at, now)})"),
        ("steps done", str(state.finished_steps)),
        ("turn", str(state.turn)),
        ("cost", f"{paid}, {'≈ ' if state.written else ''}{state.tokens + state.written:,} tokens"),
        ("progress", f"{state.progress:.0%}" if state.progress is not None else ""),
        ("hypothesis", state.hypothesis),
        ("policy", state.terms.policy),
        ("rated", f"{state.score} of 5" if state.score is not None else ""),
        ("parent", state.parent or ""),
        ("forked from", state.forked_from),
        ("begins anew", state.restarts or ""),
    ]
    if state.pause is not None:
        why = f": {state.pause.reason}" if state.pause.reason else ""
        names = " and ".join((state.pause.by, *state.pause.joined))
        facts.append(("pause", f"{state.pause.id} by {names}, {ago(state.pause.since, now)}{why}"))
    if state.cancel is not None:
        why = f": {state.cancel.reason}" if state.cancel.reason else ""
        facts.append(("cancel", f"by {state.cancel.by}, {ago(state.cancel.since, now)}, undo {state.cancel.undo}{why}"))
    width = max(len(name) for name, _ in facts)
    print_lines(*(f"{name:<{width}}  {plain(value, lines=False)}" for name, value in facts if value), hang=width + 2)
    _describe_asks(state, steps, now)
    if state.plan:
        print_lines("", "Plan:")
        print_lines(*(f"  {item.status:<11} {plain(item.title, lines=False)}" for item in state.plan), hang=12)
    told = [message for message in state.messages if message.level != "goal"]
    if told:
        print_lines("", "Told:")
        print_lines(*(f"  {one.level}, by {one.by}: {plain(one.text, lines=False)}" for one in told), hang=3)
    if state.children:
        print_lines("", f"Children: {', '.join(state.children.values())}")


def _describe_asks(state: Session, steps: Sequence[StepView], now: float) -> None:
    calls = {str(step.id): step for step in steps}
    for ask in state.asks:
        left = f"; {span(ask.expires_at - now)} left" if ask.expires_at is not None else ""
        print_lines("", f"Asks ({ask.id}, {ask.reason}, {ago(ask.since, now)}{left}): {title(ask.reason, ask.prompt)}")
        call, said = calls.get(ask.step), last_words(steps)
        print_lines(*details(ask.reason, ask.prompt, call=call, said=said, changes=state.changes))
        if ask.options:
            print_lines(f"  Options: {', '.join(ask.options)}")
        print_wrapped(*how_to_answer(state, ask.id).split("\n"), indent=2)
    for asked in state.child_asks:
        print_lines("", f"A child asks ({asked.reason}, {ago(asked.since, now)}): {title(asked.reason, asked.prompt)}")
        print_lines(*details(asked.reason, asked.prompt))
        print_wrapped(how_to_answer(state, f"{asked.child}/{asked.ask}"), indent=2)
