"""Asks: the agent's questions to people, their deadlines, their answers, and what these lead to. Pure.

The deadline is for the agent's asks: its own questions, ``Interrupt``, and the approval of a call. Midcourse's own
questions (did it happen? continue in a changed world, or under another version?) have none: a default answer would be a
false claim.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

import msgspec
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.cancels import cancel
from midcourse.core.codec import Value, decode, encode, inline
from midcourse.core.ids import REVIEW, ask_id, was_given
from midcourse.core.messages import redirect
from midcourse.core.pauses import lifted
from midcourse.core.rules import Arm, Changes, Events, Table, ended, not_while, offered_if
from midcourse.core.session import ENDED, OpenAsk, Session, Status
from midcourse.core.terms import DefaultAnswer, Terms
from midcourse.errors import ImpossibleEvent, Refused

NEED_APPROVAL: Final = "need_approval"
"""The reason of an ask for approval: only a person with the role ``approve`` may answer it."""
AMBIGUOUS: Final = "ambiguous_instructions"
"""The reason of an ask what the goal means: the answer is the goal."""
GO_ON: Final = "go on"
CANCEL: Final = "cancel"
"""The answers to a review, beside an instruction."""
_YES: Final = ("yes", "approve", "true")
_NO: Final = ("", "no", "n", "refuse", "refused", "false")
_NEARLY_YES: Final = frozenset(
    {
        *("y", "ye", "yep", "yeah", "yup", "ya", "ja", "si", "oui", "k", "kk", "ok", "okay", "okey", "sure", "fine"),
        *("go", "go on", "go ahead", "do it", "do so", "proceed", "continue", "allow", "allowed", "confirm", "agree"),
        *("confirmed", "accept", "accepted", "approved", "agreed", "permit", "grant", "granted", "right", "correct"),
        *("alright", "all right", "please", "please do", "of course", "certainly", "absolutely", "definitely", "good"),
        *("sounds good", "looks good", "lgtm", "ack", "roger", "affirmative", "1", "t", "on", "👍", "✓", "✅"),
    }
)
"""Words that may be meant to approve, and do not: who says one of them is asked again."""
_APPROVAL: Final = re.compile(r"Allow '(?P<step>.+?)' \((?P<tool>[^()']+)\) with (?P<rest>.*)", re.DOTALL)
_BECAUSE: Final = "? It "


class CallForApproval(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The call that an approval is asked for: the tool, its arguments as JSON, and why a person is asked."""

    tool: str = ""
    arguments: str = ""
    why: str = ""


def approval_prompt(step: str, tool: str, arguments: str, why: str) -> str:
    """Return the question that asks for approval of a call. :func:`wanted_by` reads it, and so does the console."""
    return f"Allow '{step}' ({tool}) with {arguments}{_BECAUSE}{why}."


def wanted_by(prompt: str) -> CallForApproval | None:
    """Return the call that a full question asks about; None: it asks about none.

    The reason comes last: arguments may hold text that looks like it.
    """
    found = _APPROVAL.fullmatch(prompt)
    arguments, because, why = found["rest"].rpartition(_BECAUSE) if found else ("", "", "")
    return CallForApproval(found["tool"], arguments, why.removesuffix(".")) if found and because else None


def is_no(answer: Value) -> bool:
    """Return True if an answer only refuses."""
    said = decode(answer.raw)
    return said is False or said is None or (isinstance(said, str) and said.strip().lower() in _NO)


def is_yes(answer: Value) -> bool:
    said = decode(answer.raw)
    return said is True or (isinstance(said, str) and said.strip().lower() in _YES)


def is_unclear(answer: Value, options: tuple[str, ...] = ()) -> bool:
    """Return True if an answer to an approval may be meant as a yes and is none, so that it counts neither way."""
    said = decode(answer.raw)
    if not isinstance(said, str) or is_yes(answer) or is_no(answer) or said in options:
        return False
    words = [one.strip(".,!") for one in said.lower().split()]
    # Two words that begin so are hardly an objection; a sentence may be ("yes, but only the old ones").
    begins_so = len(words) == 2 and words[0] in ("yes", "ok", "okay")
    return begins_so or any(" ".join(words) in meant for meant in (_NEARLY_YES, _YES))


def with_deadline(asked: ev.AskOpened, terms: Terms, now: float) -> ev.AskOpened:
    """Return an agent's ask with the deadline of ``terms``. One that has a deadline of its own keeps that.

    Only a person approves: a default answer that would approve is ignored, and the ask then fails.
    """
    if terms.ttl_seconds is None or asked.expires_at is not None:
        return asked
    until = now + terms.ttl_seconds
    if asked.default is not None:
        return replace(asked, expires_at=until)
    match terms.on_expiry:
        case DefaultAnswer(answer=answer):
            default = inline(encode(answer, what="The default answer"))
            approves = asked.reason == NEED_APPROVAL and is_yes(default)
            return replace(asked, expires_at=until, default=None if approves else default)
        case then:
            return replace(asked, expires_at=until, on_expiry=then)


# ---- rules


def may_answer(ask: OpenAsk, role: cmd.Role) -> bool:
    """Return whether a person with ``role`` may answer an ask."""
    return ask.reason != NEED_APPROVAL or role in ("approve", "operate")


@offered_if(lambda session, role: any(may_answer(ask, role) for ask in session.asks))
def _answer(session: Session, command: cmd.Answer) -> Events:
    ask = _which_ask(session, command)
    if not may_answer(ask, command.role):
        why = f"'{ask.id}' asks for an approval, which needs the role 'approve'; yours is '{command.role}'"
        raise Refused(why, code="approver_only")
    asks_to_approve = ask.reason == NEED_APPROVAL or ask.options == ("approve", "refuse")
    if asks_to_approve and is_unclear(command.value, ask.options):
        why = (
            f"{decode(command.value.raw)!r} is neither yes nor no, and '{ask.id}' is still open. Answer 'yes' to "
            "approve, 'no' to refuse, or say in a sentence what is wrong"
        )
        raise Refused(why, code="unclear_answer")
    answered = ev.AskAnswered(ask=ask.id, step=ask.step, value=command.value, by=command.by)
    return (answered, *_review(session, ask, command)) if ask.is_review else (answered,)


def _which_ask(session: Session, command: cmd.Answer) -> OpenAsk:
    if command.ask is not None:
        ask = session.ask(command.ask)
        if ask is not None:
            return ask
        if was_given(command.ask, ask_id, session.asks_opened):
            raise Refused(f"'{command.ask}' was answered or closed before", code="already_answered")
        raise Refused(f"there was never an ask '{command.ask}'", code="ask_not_found")
    match session.asks:
        case ():
            raise Refused("no ask is open", code="ask_not_found")
        case (only,):
            return only
        case several:
            names = ", ".join(f"{ask.id} ({ask.prompt})" for ask in several)
            raise Refused(f"{len(several)} asks are open, name one: {names}", code="ask_id_required")


def _review(session: Session, ask: OpenAsk, command: cmd.Answer) -> Events:
    """Return the effect of an answer to a review: continue, end, or continue with the instruction."""
    rest = replace(session, asks=tuple(one for one in session.asks if one.id != ask.id))
    if session.pause is None or session.status not in (Status.PAUSING, Status.PAUSED):
        return ()
    said = decode(command.value.raw)
    words = said.strip() if isinstance(said, str) else ""
    if said is not True and words.lower() in _STAYS:  # a no, or nothing that anybody could act on
        return ()
    if words.lower() == CANCEL:
        return cancel(rest, cmd.Cancel(id=command.id, by=command.by, role=command.role, reason=ask.prompt))
    if is_yes(command.value) or words.lower() in (GO_ON, "resume", "continue"):
        return lifted(rest, command.by)
    meant = get_close_matches(words.lower(), _MEANT, n=1, cutoff=0.8) if ask.reason == REVIEW else ()
    if meant:  # a slip must not lift the stop with a word that was not meant as an instruction
        why = f"'{words}' is none of its answers. Did you mean '{meant[0]}'? Say that, or what to do in a sentence"
        raise Refused(why, code="unclear_answer")
    level = _LEVELS.get(ask.reason, "clarify")
    return redirect(rest, cmd.Redirect(id=command.id, by=command.by, text=words, level=level, resume=True))


_MEANT: Final = (GO_ON, CANCEL, "resume", "continue", "stop", "wait", "yes")
"""Answers to a review that a slip may have been meant for."""
_STAYS: Final = frozenset({"", "no", "stop", "wait", "not yet", "false"})
"""Answers to a review that leave it paused: to continue needs a clear answer."""
_LEVELS: Final[Mapping[str, ev.Level]] = {REVIEW: "step", AMBIGUOUS: "goal"}
"""The level of an answer in words: an instruction, or a clearer goal. To any other question, an explanation."""
TABLE: Final[Table] = {
    cmd.Answer: {
        **dict.fromkeys(Status, _answer),
        Status.CANCELLING: not_while,
        **dict.fromkeys(ENDED, ended),
    },
}


# ---- what an event changes


def _opened(session: Session, event: ev.AskOpened, at: float) -> Changes:
    expected = ask_id(session.asks_opened + 1)
    if event.ask != expected:
        raise ImpossibleEvent(f"the next ask is '{expected}', not '{event.ask}'")
    if any(one.step == event.step for one in session.asks):
        raise ImpossibleEvent(f"step '{event.step}' has an open ask")
    opened = OpenAsk(
        event.ask,
        event.step,
        event.reason,
        event.prompt,
        at,
        event.options,
        event.expires_at,
        event.default,
        event.on_expiry,
    )
    return {"asks": (*session.asks, opened), "asks_opened": session.asks_opened + 1}


def _over(session: Session, event: ev.AskAnswered | ev.AskClosed, _at: float) -> Changes:
    """Note that a path continues once the stop is lifted, even if other paths still wait."""
    if not any((one.id, one.step) == (event.ask, event.step) for one in session.asks):
        raise ImpossibleEvent(f"step '{event.step}' has no open ask '{event.ask}'")
    changes: Changes = {"asks": tuple(one for one in session.asks if one.id != event.ask)}
    if session.pause is not None and session.pause.origin is Status.WAITING:
        changes["pause"] = replace(session.pause, origin=Status.RUNNING)
    if session.halted_from is Status.WAITING:
        changes["halted_from"] = Status.RUNNING
    return changes


def _waiting(session: Session, _event: ev.SessionWaiting, _at: float) -> Changes:
    if not session.asks:
        raise ImpossibleEvent("no ask is open")
    return {}


ARMS: Final[Mapping[type[ev.Event], Arm]] = {
    ev.AskOpened: _opened,
    ev.AskAnswered: _over,
    ev.AskClosed: _over,
    ev.SessionWaiting: _waiting,
}
