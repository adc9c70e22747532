"""What the terms of a session say of what its agent asks: until when it can be answered, and what happens then. Pure.

The deadline is for what the agent asks: its own questions, ``Interrupt``, and whether it may make a call. What
Midcourse asks on its own account (did it happen? go on in a changed world, or under another version?) has none: an
answer that nobody gave would be a claim that nobody made.
"""

import re
from typing import Final

import msgspec

from midcourse.core.codec import Value, decode, encode, inline
from midcourse.core.events import AskOpened
from midcourse.core.terms import DefaultAnswer, Terms

NEED_APPROVAL: Final = "need_approval"
"""The reason of an ask whether something may be done: only somebody with the role ``approve`` may answer it."""
REVIEW: Final = "review"
"""The reason of an ask that a policy opened with its pause: who answers it decides whether the agent goes on.

It is also the name of the step that it stands at, which no agent waits for.
"""
AMBIGUOUS: Final = "ambiguous_instructions"
"""The reason of an ask what the goal means: the answer is the goal."""
GO_ON: Final = "go on"
CANCEL: Final = "cancel"
"""What can be answered to a review, beside an instruction."""
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


class Wanted(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The call that an approval is asked for: the tool, its arguments as JSON, and why a person is asked."""

    tool: str = ""
    arguments: str = ""
    why: str = ""


def approval_prompt(step: str, tool: str, arguments: str, why: str) -> str:
    """The question whether a call may be made. :func:`wanted_by` reads it, and so does the console."""
    return f"Allow '{step}' ({tool}) with {arguments}{_BECAUSE}{why}."


def wanted_by(prompt: str) -> Wanted | None:
    """The call that a question in full asks about. None: it asks about none.

    What comes last is why: arguments may hold whatever looks like it.
    """
    found = _APPROVAL.fullmatch(prompt)
    arguments, because, why = found["rest"].rpartition(_BECAUSE) if found else ("", "", "")
    return Wanted(found["tool"], arguments, why.removesuffix(".")) if found and because else None


def is_review_step(step: str) -> bool:
    """Return whether an ask stands at a policy's pause, so that no path of the agent waits for it."""
    return step.partition("/")[2].startswith(f"{REVIEW}#")


def is_no(answer: Value) -> bool:
    """Whether an answer refuses and says no more than that."""
    said = decode(answer.raw)
    return said is False or said is None or (isinstance(said, str) and said.strip().lower() in _NO)


def is_yes(answer: Value) -> bool:
    """Whether an answer approves of what was asked."""
    said = decode(answer.raw)
    return said is True or (isinstance(said, str) and said.strip().lower() in _YES)


def is_unclear(answer: Value, options: tuple[str, ...] = ()) -> bool:
    """Whether an answer to an approval may be meant as a yes and is none, so that it counts neither way."""
    said = decode(answer.raw)
    if not isinstance(said, str) or is_yes(answer) or is_no(answer) or said in options:
        return False
    words = [one.strip(".,!") for one in said.lower().split()]
    # Two words that begin so are hardly an objection; a sentence may be ("yes, but only the old ones").
    begins_so = len(words) == 2 and words[0] in ("yes", "ok", "okay")
    return begins_so or any(" ".join(words) in meant for meant in (_NEARLY_YES, _YES))


def with_deadline(asked: AskOpened, terms: Terms, now: float) -> AskOpened:
    """What an agent asks, with the deadline that ``terms`` give it. One that has a deadline of its own keeps that.

    Only a person approves: a default answer that would is not taken for one, and the ask then fails.
    """
    if terms.ttl_seconds is None or asked.expires_at is not None:
        return asked
    until = now + terms.ttl_seconds
    if asked.default is not None:
        return msgspec.structs.replace(asked, expires_at=until)
    match terms.on_expiry:
        case DefaultAnswer(answer=answer):
            default = inline(encode(answer, what="The default answer"))
            approves = asked.reason == NEED_APPROVAL and is_yes(default)
            return msgspec.structs.replace(asked, expires_at=until, default=None if approves else default)
        case then:
            return msgspec.structs.replace(asked, expires_at=until, on_expiry=then)
