"""The effect of deadlines on a session: an ask that was not answered, a pause that lapses. Pure."""

from typing import Final

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.budget import BUDGET, Outlay, needed
from midcourse.core.cancels import cancel
from midcourse.core.ids import CommandId
from midcourse.core.pauses import finishes_first, spending, without_pause
from midcourse.core.rules import Events
from midcourse.core.session import ENDED, OpenAsk, Session, Status

DEADLINE: Final = "deadline"
"""The name in ``by`` for an answer, or a cancel, at an ask's deadline."""
LAPSE: Final = "lapse"
"""The name in ``by`` for a resume after a pause has lapsed."""


def expire(session: Session, now: float) -> Events:
    """Return the facts that deadlines make: asks are answered by their default, or closed; a pause lapses."""
    if session.status in ENDED or session.status is Status.CANCELLING:
        return ()
    over = [ask for ask in session.asks if ask.expires_at is not None and ask.expires_at <= now]
    events = tuple(_expired(session, ask) for ask in over)
    unanswered = [ask for ask in over if ask.default is None and _cancels(session, ask)]
    if unanswered:
        names = ", ".join(f"'{ask.id}'" for ask in unanswered)
        command = cmd.Cancel(id=CommandId(DEADLINE), by=DEADLINE, reason=f"no answer in time: {names}")
        still_open = tuple(ask for ask in session.asks if ask not in over)
        return (*events, *cancel(replace(session, asks=still_open), command))
    return (*events, *_lapsed(session, now))


def _cancels(session: Session, ask: OpenAsk) -> bool:
    """Return whether an expired ask cancels. Halted, nothing is undone: the agent gets the error instead."""
    return ask.on_expiry == "cancel" and session.status is not Status.HALTED


def _expired(session: Session, ask: OpenAsk) -> ev.AskAnswered | ev.AskClosed:
    if ask.default is not None:
        return ev.AskAnswered(ask=ask.id, step=ask.step, value=ask.default, by=DEADLINE)
    then = "cancel" if _cancels(session, ask) and not finishes_first(session) else "fail"
    return ev.AskClosed(ask=ask.id, step=ask.step, end="expired", then=then)


def _lapsed(session: Session, now: float) -> Events:
    pause = session.pause
    if pause is None or pause.lapses_at is None or pause.lapses_at > now:
        return ()
    if session.status not in (Status.PAUSING, Status.PAUSED):
        return ()
    if needed(session) is None:
        return (without_pause(pause, LAPSE),)
    # At its cap it stays paused, now for that: a person raises the budget.
    return (
        ev.PauseRequested(pause=pause.id, by=BUDGET, reason=spending(session, Outlay(session.cost)), grace=pause.grace),
    )
