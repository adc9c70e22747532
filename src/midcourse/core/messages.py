"""Messages: what people say to a session that works, how they change it, and what the model has seen. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.ids import message_id, queued_id, was_given
from midcourse.core.pauses import finishes_first, lifted
from midcourse.core.rules import Arm, Changes, Events, Table, ended, not_while, offered_if
from midcourse.core.session import ENDED, LIVE, Message, OpenCall, Session, Status
from midcourse.core.turns import closed, message_ended, new_turn, queued
from midcourse.errors import ImpossibleEvent, Refused

# ---- rules


def redirect(session: Session, command: cmd.Redirect) -> Events:
    """Change the course; with ``resume``, lift the pause as well."""
    redirected = ev.SessionRedirected(
        text=command.text,
        level=command.level,
        by=command.by,
        grace=None if finishes_first(session) else command.grace,
    )
    resumes = lifted(session, command.by) if command.resume and session.pause is not None else ()
    return (redirected, *_superseded(session), *resumes)


def _superseded(session: Session) -> Events:
    """Close the asks whose reasons have just changed. A review stays as long as the policy's pause does."""
    return closed((ask for ask in session.asks if not ask.is_review), "superseded")


def _message(session: Session, command: cmd.Message) -> Events:
    if command.behaviour == "reject":
        raise Refused(f"it is {session.status}, and this message is only for one that has ended", code="busy")
    if command.behaviour == "enqueue":
        return (queued(session, command),)
    return redirect(session, cmd.Redirect(id=command.id, by=command.by, role=command.role, text=command.text))


@offered_if(lambda session, _role: bool(session.amendable))
def _amend(session: Session, command: cmd.Edit | cmd.Withdraw) -> Events:
    name = command.message
    if name not in session.amendable:
        if was_given(name, message_id, len(session.messages)) or was_given(name, queued_id, session.queued):
            why = f"'{name}' was withdrawn, or the model has seen it. Redirect it to say something else"
            raise Refused(why, code="message_seen")
        raise Refused(f"there was never a message '{name}'", code="message_not_found")
    if isinstance(command, cmd.Withdraw):
        return (ev.MessageWithdrawn(message=name, by=command.by),)
    return (ev.MessageEdited(message=name, text=command.text, by=command.by),)


def _happened(session: Session, command: cmd.OutsideEvent) -> Events:
    """Note that an assumption may be wrong: the model's answer, and the asks based on it, are given up."""
    source = f" ({command.source})" if command.source else ""
    text = f"An event outside{source}: {command.text}\nWhat was assumed before may no longer hold."
    return (ev.SessionRedirected(text=text, level="event", by=command.by), *_superseded(session))


_STOPPED: Final = dict.fromkeys((Status.CANCELLING, Status.HALTED), not_while)
TABLE: Final[Table] = {
    cmd.Redirect: {**dict.fromkeys(LIVE, redirect), **_STOPPED, **dict.fromkeys(ENDED, new_turn)},
    cmd.Message: {**dict.fromkeys(LIVE, _message), **_STOPPED, **dict.fromkeys(ENDED, message_ended)},
    cmd.Edit: dict.fromkeys(Status, _amend),
    cmd.Withdraw: dict.fromkeys(Status, _amend),
    cmd.OutsideEvent: {**dict.fromkeys(LIVE, _happened), **_STOPPED, **dict.fromkeys(ENDED, ended)},
}


# ---- what an event changes


def _redirected(session: Session, event: ev.SessionRedirected, at: float) -> Changes:
    index = len(session.messages)
    said = Message(event.text, event.level, session.turn, event.by, at, event.grace)
    return {
        "messages": (*session.messages, said),
        "calls": {step: replace(call, redirected=index) for step, call in session.calls.items()},
        "cuts": dict.fromkeys(session.cuts, ""),  # to what is asked now it was no answer
    }


def _amended(session: Session, event: ev.MessageEdited | ev.MessageWithdrawn, _at: float) -> Changes:
    """Change or withdraw a message that has not been used yet."""
    if event.message not in session.amendable:
        raise ImpossibleEvent(f"'{event.message}' cannot be changed any more")
    changes: Changes = {"amended": session.amended + 1}
    text = None if isinstance(event, ev.MessageWithdrawn) else event.text
    if any(one.id == event.message for one in session.queue):
        queue = (replace(one, text=text or "") if one.id == event.message else one for one in session.queue)
        return {**changes, "queue": tuple(one for one in queue if text is not None or one.id != event.message)}
    index = next(one for one in range(len(session.messages)) if message_id(one + 1) == event.message)
    before = session.messages[index]
    after = replace(before, withdrawn=True) if text is None else replace(before, text=text)
    messages = (*session.messages[:index], after, *session.messages[index + 1 :])
    changes["messages"] = messages
    if text is None:
        changes["withdrawn"] = session.withdrawn + 1
        changes["calls"] = {step: _unredirected(call, index, messages) for step, call in session.calls.items()}
    return changes


def _unredirected(call: OpenCall, index: int, messages: tuple[Message, ...]) -> OpenCall:
    """Continue a call that a withdrawn redirect would have closed, unless another redirect remains."""
    before = None if call.before is None else _unredirected(call.before, index, messages)
    if call.redirected != index:
        return call if before is call.before else replace(call, before=before)
    others = (place for place in range(index - 1, call.said - 1, -1) if not messages[place].withdrawn)
    return replace(call, redirected=next(others, None), before=before)


def _seen(session: Session, event: ev.MessagesSeen, _at: float) -> Changes:
    before, known = session.seen, len(session.messages)
    if not before < event.count <= known:
        raise ImpossibleEvent(f"{before} of {known} messages had been seen, not {event.count}")
    return {"seen": event.count}


ARMS: Final[Mapping[type[ev.Event], Arm]] = {
    ev.SessionRedirected: _redirected,
    ev.MessageEdited: _amended,
    ev.MessageWithdrawn: _amended,
    ev.MessagesSeen: _seen,
}
