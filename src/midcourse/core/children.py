"""A parent's facts about its children: which it has, and what they ask. Pure."""

from collections.abc import Mapping
from typing import Final

from midcourse.core import events as ev
from midcourse.core.ids import StepId
from midcourse.core.rules import Arm, Changes
from midcourse.core.session import ChildAsk, Session


def childless(session: Session, step: StepId) -> Changes:
    """Forget an ended child of ``step``: it asks nothing any more, nor do its own children."""
    if step not in session.children:
        return {}
    gone = session.children[step]
    return {
        "children": {one: child for one, child in session.children.items() if one != step},
        "child_asks": tuple(ask for ask in session.child_asks if not f"{ask.child}.".startswith(f"{gone}.")),
    }


def _asked(session: Session, event: ev.ChildAsked, at: float) -> Changes:
    asked = ChildAsk(event.child, event.ask, event.reason, event.prompt, at)
    return {"child_asks": (*session.child_asks, asked)}


def _ask_closed(session: Session, event: ev.ChildAskClosed, _at: float) -> Changes:
    which = (event.child, event.ask)
    return {"child_asks": tuple(one for one in session.child_asks if (one.child, one.ask) != which)}


ARMS: Final[Mapping[type[ev.Event], Arm]] = {ev.ChildAsked: _asked, ev.ChildAskClosed: _ask_closed}
