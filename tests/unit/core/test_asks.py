"""What terms say of an ask, and what an ask makes of its session when its time is over."""

import msgspec
import pytest

from midcourse.core import events as ev
from midcourse.core.asks import approval_prompt, wanted_by, with_deadline
from midcourse.core.deadlines import expire
from midcourse.core.session import Status
from midcourse.core.terms import DefaultAnswer, Terms
from tests.unit.core.stories import ASK_1, ASK_2, OTHER_QUESTION, QUESTION, Story, asked, value

ASKED = ev.AskOpened(ask=ASK_1, step=QUESTION, reason="unsure", prompt="Go?")
APPROVAL = ev.AskOpened(ask=ASK_1, step=QUESTION, reason="need_approval", prompt="Delete?", covers="d")
CANCELLING = with_deadline(ASKED, Terms(ttl_seconds=10, on_expiry="cancel"), 1.0)


def test_without_a_ttl_an_ask_stays_as_it_is() -> None:
    assert with_deadline(ASKED, Terms(), 100.0) is ASKED


def test_a_deadline_of_its_own_stands() -> None:
    own = msgspec.structs.replace(ASKED, expires_at=5.0)
    assert with_deadline(own, Terms(ttl_seconds=10, on_expiry="cancel"), 100.0) is own


def test_a_default_of_its_own_stands() -> None:
    own = msgspec.structs.replace(ASKED, default=value('"mine"'))
    given = with_deadline(own, Terms(ttl_seconds=10, on_expiry="cancel"), 100.0)
    assert (given.expires_at, given.default, given.on_expiry) == (110.0, value('"mine"'), "fail")


@pytest.mark.parametrize("answer", ["yes", " Approve", True])
def test_a_default_that_would_approve_is_none(answer: object) -> None:
    terms = Terms(ttl_seconds=10, on_expiry=DefaultAnswer(answer))
    assert with_deadline(APPROVAL, terms, 100.0).default is None
    assert with_deadline(ASKED, terms, 100.0).default is not None


def test_a_deadline_that_cancels_withdraws_what_else_is_asked() -> None:
    story = Story().happen(ev.SessionStarted(), CANCELLING, asked(2, OTHER_QUESTION), ev.SessionWaiting())
    assert expire(story.session, 10.9) == ()
    events = expire(story.session, 11.0)
    closed, requested, withdrawn = events
    assert closed == ev.AskClosed(ask=ASK_1, step=QUESTION, end="expired", then="cancel")
    assert isinstance(requested, ev.CancelRequested)
    assert (requested.by, requested.undo) == ("deadline", "in-flight")
    assert withdrawn == ev.AskClosed(ask=ASK_2, step=OTHER_QUESTION, end="withdrawn")
    assert story.happen(*events).session.status is Status.CANCELLING


def test_a_halted_session_is_not_cancelled_by_a_deadline() -> None:
    """Nothing is undone before an operator says so; the agent is told once it goes on."""
    story = Story().happen(ev.SessionStarted(), CANCELLING, ev.SessionWaiting(), ev.SessionHalted(by="op"))
    assert expire(story.session, 11.0) == (ev.AskClosed(ask=ASK_1, step=QUESTION, end="expired", then="fail"),)


def test_what_was_journaled_before_there_were_deadlines_can_be_read() -> None:
    old = b'{"at":1.0,"event":{"type":"ask.closed@1","ask":"ask_1","step":"1/ask#0","end":"expired"}}'
    assert ev.decode_record(old).event == ev.AskClosed(ask=ASK_1, step=QUESTION, end="expired", then=None)
    old = b'{"at":1.0,"event":{"type":"ask.opened@1","ask":"ask_1","step":"1/ask#0","reason":"r","prompt":"p"}}'
    opened = ev.decode_record(old).event
    assert isinstance(opened, ev.AskOpened)
    assert opened.on_expiry == "fail"


def test_terms_with_a_default_answer_are_read_as_they_were_written() -> None:
    terms = Terms(ttl_seconds=10, on_expiry=DefaultAnswer({"a": [1]}))
    assert msgspec.json.decode(msgspec.json.encode(terms), type=Terms) == terms
    assert msgspec.json.decode(b'{"ttl_seconds":10,"on_expiry":"cancel"}', type=Terms).on_expiry == "cancel"


def test_what_an_approval_is_for_is_read_from_its_question_whatever_the_arguments_say() -> None:
    trick = '["? It is harmless.", "Allow \'x\' (y) with z? It w."]'
    found = wanted_by(approval_prompt("clean 'up' (now)", "purge", trick, "changes something in prod; it is new"))
    assert found is not None
    assert (found.tool, found.arguments, found.why) == ("purge", trick, "changes something in prod; it is new")
    assert wanted_by("Confirm delete?") is None
