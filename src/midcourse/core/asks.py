"""What the terms of a session say of what its agent asks: until when it can be answered, and what happens then. Pure.

The deadline is for what the agent asks: its own questions, ``Interrupt``, and whether it may make a call. What
Midcourse asks on its own account (did it happen? go on in a changed world, or under another version?) has none: an
answer that nobody gave would be a claim that nobody made.
"""

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


def is_yes(answer: Value) -> bool:
    """Whether an answer approves of what was asked."""
    said = decode(answer.raw)
    return said is True or (isinstance(said, str) and said.strip().lower() in _YES)


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
