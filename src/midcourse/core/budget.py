"""The rest of a session's budget, and the budget that the session needs to continue. Pure."""

from math import floor, log10
from typing import Final, NamedTuple

from midcourse.core import events as ev
from midcourse.core.rules import Changes
from midcourse.core.session import OpenCall, Session

BUDGET: Final = "budget"
"""The name in ``by`` for a pause at the session's cap."""
LAST_ANSWERS: Final = 5
"""Answers of models that the next one is priced by."""
_HAIR: Final = 1e-9
"""Dollars that rounding may make of nothing."""


class Outlay(NamedTuple):
    """Dollars of a session: ``spent``, and ``kept`` for calls that run and may cost so much more."""

    spent: float
    kept: float = 0.0


def remaining(session: Session, spent: float) -> float | None:
    """Dollars that may still be spent, of which ``spent`` are gone; None: it has no budget."""
    return None if session.terms.budget is None else session.terms.budget - spent


def affords(session: Session, so_far: Outlay, price: float) -> bool:
    """Return whether a call of this ``price`` may begin beside those that run. One without may, below the cap."""
    return is_within(session.terms.budget, so_far, price)


def is_within(cap: float | None, so_far: Outlay, price: float) -> bool:
    """As ``affords``, for any ``cap``."""
    rest = None if cap is None else cap - so_far.spent
    return rest is None or (rest > _HAIR and (price <= 0 or price <= rest - so_far.kept + _HAIR))


def is_spent(session: Session, spent: float) -> bool:
    """Return True if the cap is reached."""
    rest = remaining(session, spent)
    return rest is not None and rest <= _HAIR


def usual_output(session: Session, at_most: int | None = None) -> int:
    """Tokens that an answer of a model has in this session, on average of the last; at most what was asked for."""
    outputs = session.outputs
    usual = round(sum(outputs) / len(outputs)) if outputs else 0
    return usual if at_most is None else min(usual, at_most)


def usual_price(session: Session) -> float:
    """Dollars that an answer of a model cost in this session, on average of the last; 0 if that is not known."""
    return sum(session.prices) / len(session.prices) if session.prices else 0.0


def wanted(session: Session, so_far: Outlay, price: float) -> float:
    """Return what the budget must be for a call of this ``price``, else for the usual one: more than is spent."""
    return so_far.spent + so_far.kept + max(price or usual_price(session), 2 * _HAIR)


def needed(session: Session) -> float | None:
    """Return the budget that the session needs to continue, as a sum to raise it to; None: it is enough."""
    budget = session.terms.budget
    if budget is None:
        return None
    asked = session.pause.budget if session.pause is not None else None
    if asked is not None and asked > budget + _HAIR:
        return above(max(asked, session.cost))
    next_one = max(usual_price(session), 2 * _HAIR)
    return above(session.cost + next_one) if is_spent(session, session.cost) else None


def above(dollars: float) -> float:
    """Return the next round sum: in cents, or in two digits below them."""
    digits = 2 if dollars >= 0.01 else 1 - floor(log10(max(dollars, 1e-12)))
    return round((floor(dollars * 10**digits + _HAIR) + 1) / 10**digits, digits)


# ---- what the end of an attempt changes

Priced = ev.StepFinished | ev.StepFailed | ev.StepRetrying | ev.StepCut
"""The events that have the cost of an attempt."""


def spent(session: Session, call: OpenCall, event: Priced) -> Changes:
    """Return the session's cost with an ended attempt at ``call``."""
    is_known = event.cost or event.free
    # What its segments reported is counted already; the end knows better.
    added = event.cost - call.spent if is_known else 0.0
    changes: Changes = {"cost": max(0.0, session.cost + added), "tokens": session.tokens + event.tokens}
    if not is_known and not call.spent and _has_a_price(call, event):
        changes["unpriced"] = session.unpriced + 1
    return changes


def usual(session: Session, event: ev.StepFinished) -> Changes:
    """Return the averages of models' last answers, with one more: they price the next one."""
    changes: Changes = {}
    if event.tokens:
        changes["outputs"] = (*session.outputs, event.tokens)[-LAST_ANSWERS:]
    if event.cost or event.free:
        changes["prices"] = (*session.prices, event.cost)[-LAST_ANSWERS:]
    return changes


def _has_a_price(call: OpenCall, event: Priced) -> bool:
    """Return True if a cost of nothing is only an unknown price: of a model's request. A failure may be free."""
    return event.tokens > 0 or (call.kind == "model" and not isinstance(event, ev.StepFailed | ev.StepRetrying))
