"""The cap of a budget: what is stopped there, in a parent too, and how it is raised. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.asks import CANCEL
from midcourse.core.budget import BUDGET, Outlay, above, wanted
from midcourse.core.ids import REVIEW, CommandId, ask_id, review_id
from midcourse.core.money import exact_money, money
from midcourse.core.pauses import finishes_first, lifted, pause, pause_now, spending
from midcourse.core.rules import Arm, Changes, Events, Table, not_while, offered_if
from midcourse.core.session import ENDED, LIVE, Session, Status
from midcourse.errors import Refused


def at_cap(session: Session, so_far: Outlay, price: float = 0.0) -> Events:
    """The facts that a cap makes which is reached, or which a call of this ``price`` would pass.

    Protected work finishes its turn first; an idle session needs no stop.
    """
    if session.status not in (Status.RUNNING, Status.WAITING):
        return ()
    reason = spending(session, so_far, price)
    if finishes_first(session):
        waits = session.deferred is not None
        return () if waits else (ev.StopDeferred(stop="pause", by=BUDGET, reason=reason),)
    enough = wanted(session, so_far, price)
    ask = ev.AskOpened(
        ask=ask_id(session.asks_opened + 1),
        step=review_id(session.scope, f"{BUDGET}{session.pauses + 1}"),
        reason=REVIEW,
        prompt=f"{reason} Raise the budget to {money(above(enough))} or more, or cancel.",
        options=(CANCEL,),
    )
    stop, *rest = pause_now(session, cmd.Pause(id=CommandId(BUDGET), by=BUDGET, reason=reason, grace=None))
    assert isinstance(stop, ev.PauseRequested)
    return (ask, replace(stop, budget=enough), *rest)


def pause_with_parent(session: Session, parent: str, reason: str, wants: float) -> Events:
    """The pause of a parent at its cap, as it comes down to a child that ``wants`` to have spent so much in all."""
    if session.status not in (Status.RUNNING, Status.WAITING):
        return ()
    events = pause(session, cmd.Pause(id=CommandId(BUDGET), by=parent, reason=reason, grace=None))
    return tuple(replace(event, wants=wants) if isinstance(event, ev.PauseRequested) else event for event in events)


def _raise_budget(session: Session, command: cmd.Budget) -> Events:
    standing = session.terms.budget
    if standing is not None and command.budget < standing:
        raise Refused(f"its budget is {exact_money(standing)}, and can only be raised", code="not_raised")
    raised = () if command.budget == standing else (ev.BudgetRaised(budget=command.budget, by=command.by),)
    if not command.resume or session.pause is None:
        return raised
    after = replace(session, terms=replace(session.terms, budget=command.budget))
    return (*raised, *lifted(after, command.by))


@offered_if(lambda session, _role: session.terms.budget is not None and bool(session.children))
def _raise_after_end(session: Session, command: cmd.Budget) -> Events:
    """Raise the budget that children which outlive the session spend from."""
    return _raise_budget(session, command)


def _raised(session: Session, event: ev.BudgetRaised, _at: float) -> Changes:
    return {"terms": replace(session.terms, budget=event.budget)}


TABLE: Final[Table] = {
    cmd.Budget: {
        **dict.fromkeys(LIVE, _raise_budget),
        **dict.fromkeys((Status.CANCELLING, Status.HALTED), not_while),
        **dict.fromkeys(ENDED, _raise_after_end),
    },
}
ARMS: Final[Mapping[type[ev.Event], Arm]] = {ev.BudgetRaised: _raised}
