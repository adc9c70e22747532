"""The rules of people's inbox: open asks of all sessions, their owners, deadlines and notifications. Pure.

Rules, all of them here:

* An ask belongs to the person who began its session, until another person takes it or it is given away.
* During a hand-over the substitute owns a person's asks; an ask that the person takes later stays theirs.
* It is to be answered by its deadline, or within the policy's response target, whichever is sooner.
* At half of the target its owner is reminded, at the target it is escalated: once each, and never both at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from midcourse.core.ids import AskId, SessionId, StepId
from midcourse.errors import InvalidInput
from midcourse.policy.alarm_batches import Batch
from midcourse.policy.artifacts import Artifact

News = Literal["ask.reminder", "ask.escalated"]
OPERATORS: Final = "operate"
"""The role that gets an escalated ask, if no person is named: everybody with this role."""
REMIND_AT: Final = 0.5
"""The share of the response target after which an ask's owner is reminded."""
QUICK: Final = 3.0
"""Seconds: an approval that took less was hardly read."""
LOOKED_AT: Final = 6
"""The number of last approvals in a row whose speed is checked."""
LATELY: Final = 3600.0
"""Seconds after which an answer no longer counts for a row."""
MOST_KEPT: Final = 100
"""Answers of a person that are kept: the newest."""
LONGEST_HAND_OVER: Final = 7 * 86_400.0
NAME_LIMIT: Final = 128
"""Characters of the longest name of a person."""


class Taken(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A person took an ask, or ``by`` gave it to ``owner``."""

    owner: str
    at: float
    by: str


class HandOver(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The asks of ``name`` go to ``to`` until a time, then to ``name`` again.

    ``warning`` is shown after a hand-over to an unknown name.
    """

    name: str
    to: str
    at: float
    until: float
    warning: str = ""


class Notified(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """The notifications about an open ask."""

    opened_at: float
    reminded_at: float | None = None
    escalated_at: float | None = None
    escalated_to: str = ""


class Answered(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A person's answer to an ask that wants a yes or a no. ``answer_seconds``: seconds, as far as anybody can know."""

    at: float
    took: float
    approved: bool


class InboxAsk(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """An open ask as the inbox has it.

    ``respond_by`` is when it is escalated, ``deadline`` when it can no longer be answered. ``owned_since`` is null
    while its owner is still the person who began the session. ``escalated_to`` is a name, or the role ``operate``. An
    approval names the ``tool``, its ``arguments`` (JSON, cut after 1,000 characters: the session has all of it), and
    ``why`` a person is asked. ``tired_after`` is after how many approvals in a row its policy wants the reader to be
    warned.
    """

    session: SessionId
    ask: AskId
    agent: str
    goal: str
    tenant: str
    reason: str
    prompt: str
    tool: str
    step: StepId
    opened_at: float
    deadline: float | None
    respond_by: float
    owner: str
    owned_since: float | None = None
    reminded_at: float | None = None
    escalated_at: float | None = None
    escalated_to: str = ""
    is_review: bool = False
    session_status: str = ""
    arguments: str = ""
    why: str = ""
    tired_after: int = 20

    @property
    def key(self) -> str:
        """Its name over all sessions."""
        return f"{self.session}/{self.ask}"

    @property
    def due_at(self) -> float:
        """When it must be answered at the latest."""
        return self.respond_by if self.deadline is None else min(self.respond_by, self.deadline)


class Inbox(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """The work that waits for people: asks by deadline, alarms in batches, and how the reader has answered lately.

    ``approvals_in_a_row`` are the reader's of the last hour, up to the last refusal; ``quick`` is how many of the last
    six of them took under three seconds. ``running`` counts the sessions that run by themselves. ``you`` is the reader,
    by the name of owners. ``artifacts`` are the most urgent artifacts of agents that are due for review.
    """

    asks: tuple[InboxAsk, ...] = ()
    alarms: tuple[Batch, ...] = ()
    approvals_in_a_row: int = 0
    quick: int = 0
    running: int = 0
    you: str = ""
    artifacts: tuple[Artifact, ...] = ()


def owner_of(
    began: str, taken: Taken | None, hand_overs: Mapping[str, HandOver], now: float
) -> tuple[str, float | None]:
    """Whose an ask is, and since when; None: ever since it was opened."""
    owner, since = (began, None) if taken is None else (taken.owner, taken.at)
    passed = {owner}
    while (over := hand_overs.get(owner)) is not None and over.at <= now < over.until:
        if over.to in passed or (taken is not None and owner == taken.owner and taken.at > over.at):
            break  # a circle; or it was taken by a person who knew of the hand-over
        owner, since = over.to, max(over.at, since or 0.0)
        passed.add(owner)
    return owner, since


def by_deadline(asks: Iterable[InboxAsk]) -> list[InboxAsk]:
    """The most urgent first."""
    return sorted(asks, key=ask_order)


def ask_order(ask: InboxAsk) -> tuple[float, float, str, str]:
    """Return how urgent an ask is, to sort by."""
    return (ask.due_at, ask.opened_at, ask.session, ask.ask)


def notification_due(ask: InboxAsk, now: float) -> News | None:
    """Return the notification that is due for an open ask. After the target it is an escalation without a reminder."""
    if ask.escalated_at is not None:
        return None
    if now >= ask.respond_by:
        return "ask.escalated"
    is_half_over = now >= ask.opened_at + REMIND_AT * (ask.respond_by - ask.opened_at)
    return "ask.reminder" if is_half_over and ask.reminded_at is None else None


def answer_seconds(opened_at: float, earlier: Sequence[Answered], now: float) -> float:
    """Return the most that an answer can have taken: since it was asked, or since this person's answer before it."""
    since = max((opened_at, *(one.at for one in earlier)))
    return max(0.0, now - since)


def approvals(answers: Iterable[Answered], now: float) -> tuple[int, int]:
    """Count the approvals in a row at the end of a person's answers, and the quick ones among them.

    ``answers`` are given in the order of their time.
    """
    row: list[Answered] = []
    for one in answers:
        if now - one.at > LATELY:
            continue
        row = [*row, one] if one.approved else []
    return len(row), sum(one.took < QUICK for one in row[-LOOKED_AT:])


def check_name(name: object, field: str) -> str:
    """Check a person's name, as tokens have it.

    Raises:
        InvalidInput: it is empty, too long, or cannot be shown in a list.
    """
    if not (isinstance(name, str) and 0 < len(name) <= NAME_LIMIT and name.isprintable() and name.strip() == name):
        raise InvalidInput(
            f"'{field}' is a person's name: 1 to {NAME_LIMIT} letters, digits and signs, no space at its ends.",
            field=field,
        )
    return name


def check_hand_over(to: object, seconds: object, name: str) -> tuple[str, float]:
    """Check to whom, and for how long; 0 seconds ends a hand-over.

    Raises:
        InvalidInput: it is the same person, or no such length of time.
    """
    wanted = check_name(to, "to")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_HAND_OVER:
        raise InvalidInput(
            f"A hand-over lasts from 0 (it ends) to {LONGEST_HAND_OVER:.0f} seconds, a week.", field="seconds"
        )
    if wanted == name and seconds:
        raise InvalidInput(f"You are '{name}' yourself. Name another person.", field="to")
    return wanted, float(seconds)
