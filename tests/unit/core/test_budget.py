"""What is left of a budget, what a running stream adds to what was spent, and what the cap refuses."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

import midcourse
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.budget import Outlay, above, affords, is_spent, needed, usual_output, usual_price
from midcourse.core.caps import at_cap
from midcourse.core.deadlines import expire
from midcourse.core.decisions import allowed, decide
from midcourse.core.ids import Epoch, StepId
from midcourse.core.money import exact_money, money
from midcourse.core.session import Session, Status
from midcourse.errors import Refused
from tests.unit.core.stories import FETCH, ID, PAUSE_1, Story, begun, finished, in_status

S = Status
SOURCE = Path(midcourse.__file__).parent


def with_budget(session: Session, budget: float, cost: float) -> Session:
    """The session with this budget, of which this much is spent."""
    return replace(session, terms=replace(session.terms, budget=budget), cost=cost)


def segment(offset: int, text: str, cost: float, tokens: int = 0, *, free: bool = False) -> ev.SegmentWritten:
    """A piece of an answer, after which the answer has cost so much."""
    return ev.SegmentWritten(step=FETCH, attempt=1, offset=offset, text=text, cost=cost, tokens=tokens, free=free)


def test_a_running_stream_is_counted_as_it_comes_and_once() -> None:
    story = Story().happen(ev.SessionStarted()).happen(begun(kind="model"), segment(0, "one ", 0.1))
    assert story.session.cost == pytest.approx(0.1)
    story.happen(segment(4, "two ", 0.2))
    assert story.session.cost == pytest.approx(0.2)
    story.happen(ev.StepFinished(step=FETCH, attempt=1, streamed=True, cost=0.25, tokens=3))
    assert story.session.cost == pytest.approx(0.25), "its end knows better, and is not added to its pieces"
    assert story.session.unpriced == 0


def test_what_an_answer_has_written_so_far_is_an_estimate_until_it_ends() -> None:
    """The console folds the same: console/tests/fold.test.ts."""
    story = Story().happen(ev.SessionStarted()).happen(begun(kind="model"), segment(0, "one ", 0.1, tokens=40))
    session = story.happen(segment(4, "two ", 0.2, tokens=80)).session
    assert (session.written, session.tokens, session.estimated, session.unpriced_so_far) == (80, 0, True, 0)
    story.happen(ev.StepFinished(step=FETCH, attempt=1, streamed=True, cost=0.25, tokens=90))
    session = story.session
    assert (session.written, session.tokens, session.estimated, session.unpriced_so_far) == (0, 90, False, 0)


@pytest.mark.parametrize(("free", "unpriced"), [(False, 1), (True, 0)])
def test_an_answer_without_a_price_is_unknown_while_it_is_written_and_a_free_one_is_not(
    free: bool, unpriced: int
) -> None:
    story = Story().happen(ev.SessionStarted()).happen(begun(kind="model"))
    assert story.session.unpriced_so_far == 0, "it has said nothing yet"
    session = story.happen(segment(0, "one ", 0.0, tokens=40, free=free)).session
    assert (session.written, session.estimated, session.unpriced_so_far) == (40, False, unpriced)
    story.happen(ev.StepFinished(step=FETCH, attempt=1, streamed=True, tokens=41, free=free))
    assert story.session.unpriced == story.session.unpriced_so_far == unpriced


def test_the_end_of_a_stream_may_know_that_it_cost_less() -> None:
    story = Story().happen(ev.SessionStarted()).happen(begun(kind="model"), segment(0, "one ", 0.2))
    story.happen(ev.StepCut(step=FETCH, attempt=1, length=4, cost=0.15, tokens=1))
    assert story.session.cost == pytest.approx(0.15)


def test_a_stream_that_is_lost_with_its_process_stays_counted() -> None:
    story = Story().happen(ev.SessionStarted()).happen(begun(kind="model"), segment(0, "one ", 0.2))
    story.happen(ev.SessionTaken(epoch=Epoch(2), worker="w", lost=(FETCH,)), begun(attempt=2, kind="model"))
    story.happen(ev.StepFinished(step=FETCH, attempt=2, streamed=True, cost=0.3, tokens=3))
    assert story.session.cost == pytest.approx(0.5)


def test_an_end_without_a_price_keeps_what_its_pieces_told() -> None:
    story = Story().happen(ev.SessionStarted()).happen(begun(kind="model"), segment(0, "one ", 0.2))
    story.happen(ev.StepFailed(step=FETCH, attempt=1, kind="E", detail="d"))
    assert story.session.cost == pytest.approx(0.2)


def test_the_usual_answer_is_the_average_of_the_last_five_and_at_most_what_was_asked_for() -> None:
    story = Story().happen(ev.SessionStarted())
    for number in range(1, 8):
        step = replace(begun(kind="model"), step=StepId(f"1/fetch#{number}"))
        end = replace(finished(cost=number / 10), step=StepId(f"1/fetch#{number}"), tokens=number * 100)
        story.happen(step, end)
    assert usual_output(story.session) == 500
    assert usual_output(story.session, 50) == 50
    assert usual_price(story.session) == pytest.approx(0.5)


def test_a_tool_call_is_no_answer() -> None:
    session = Story().happen(ev.SessionStarted(), begun(), finished(cost=3.0)).session
    assert (usual_output(session), usual_price(session)) == (0, 0.0)


@pytest.mark.parametrize(
    ("cost", "kept", "price", "may"),
    [
        (0.1, 0.0, 0.2, True),
        (0.1, 0.0, 0.3, False),
        (0.3, 0.0, 0.0, False),
        (0.1 + 0.1, 0.0, 0.1, True),
        (0.4, 0.0, 0.0, False),
        (0.1, 0.1, 0.1, True),
        (0.1, 0.1, 0.2, False),
        (0.1, 0.2, 0.0, True),
        (0.1, 0.3, 0.0, True),
        (0.3, 0.1, 0.0, False),
    ],
)
def test_a_call_begins_while_its_price_is_left_beside_what_running_calls_keep(
    cost: float, kept: float, price: float, *, may: bool
) -> None:
    session = with_budget(in_status(S.RUNNING).session, 0.3, cost)
    assert affords(session, Outlay(cost, kept), price) is may
    assert is_spent(session, cost) is (cost >= 0.3)
    assert affords(in_status(S.RUNNING).session, Outlay(cost, kept), price), "without a budget any does"


def test_a_lapse_at_the_cap_leaves_it_paused_and_does_not_come_again() -> None:
    paused = in_status(S.PAUSED).session
    assert paused.pause is not None
    lapsed = with_budget(replace(paused, pause=replace(paused.pause, lapses_at=5.0)), 0.3, 0.3)
    (stays,) = expire(lapsed, 6.0)
    assert isinstance(stays, ev.PauseRequested)
    assert (stays.pause, stays.by, stays.lapses) == (PAUSE_1, "budget", None)
    assert expire(replace(lapsed, cost=0.1), 6.0) == (ev.SessionResumed(by="lapse", pause=PAUSE_1),)


@pytest.mark.parametrize("command", [cmd.Resume(id=ID), cmd.Redirect(id=ID, text="x", resume=True)])
def test_what_would_go_on_at_the_cap_is_refused_with_the_sum(command: cmd.AnyCommand) -> None:
    session = with_budget(in_status(S.PAUSED).session, 0.3, 0.4)
    with pytest.raises(Refused, match=r"spent \$0.40 of its budget of \$0.30. Raise the budget to \$0.41") as error:
        decide(session, command)
    assert error.value.code == "budget_spent"
    assert error.value.fields["raise_to"] == 0.41
    assert ("resume" in allowed(session), "budget" in error.value.allowed) == (False, True)
    below = allowed(replace(session, cost=0.1))
    assert ("resume" in below, "budget" in below) == (True, False)


def test_an_agent_is_offered_no_budget_of_its_own_to_raise() -> None:
    session = with_budget(in_status(S.PAUSED).session, 0.3, 0.4)
    assert "budget" not in allowed(session, by=f"session:{session.id}")


def test_the_review_at_the_cap_offers_nothing_that_the_cap_refuses() -> None:
    session = with_budget(in_status(S.RUNNING).session, 0.3, 0.2)
    ask, *_ = at_cap(session, Outlay(0.2), 0.25)
    assert isinstance(ask, ev.AskOpened)
    assert ask.options == ("cancel",)


def test_a_redirect_that_does_not_resume_is_kept_at_the_cap() -> None:
    session = with_budget(in_status(S.PAUSED).session, 0.3, 0.4)
    assert decide(session, cmd.Redirect(id=ID, text="x"))


def test_a_pause_for_a_call_beside_others_tells_what_they_keep_and_wants_the_sum() -> None:
    session = with_budget(in_status(S.RUNNING).session, 0.3, 0.1)
    _, pause, *_ = at_cap(session, Outlay(0.1, 0.2), 0.15)
    assert isinstance(pause, ev.PauseRequested)
    assert pause.budget == pytest.approx(0.45)
    assert pause.reason == (
        "It has spent $0.10 of its budget of $0.30, keeps $0.20 for calls that run, "
        "and its next call would cost about $0.15."
    )


def test_a_pause_for_a_call_that_was_too_dear_wants_that_much() -> None:
    session = with_budget(in_status(S.RUNNING).session, 0.3, 0.2)
    _, pause, *_ = at_cap(session, Outlay(0.2), 0.25)
    assert isinstance(pause, ev.PauseRequested)
    assert pause.budget == pytest.approx(0.45)
    paused = in_status(S.PAUSED).session
    assert paused.pause is not None
    short = with_budget(replace(paused, pause=replace(paused.pause, budget=0.45)), 0.44, 0.2)
    assert needed(short) == 0.46
    assert needed(with_budget(short, 0.45, 0.2)) is None


@pytest.mark.parametrize("status", [S.PAUSED, S.PAUSING, S.CANCELLING, S.HALTED, S.COMPLETED])
def test_what_is_stopped_needs_no_cap(status: Status) -> None:
    assert at_cap(with_budget(in_status(status).session, 0.3, 0.4), Outlay(0.4)) == ()


@pytest.mark.parametrize(
    ("dollars", "sum_", "words"),
    [(0.4, 0.41, "$0.40"), (12.999, 13.0, "$13.00"), (0.00123, 0.0013, "$0.0012"), (0.0, 1e-11, "$0.00")],
)
def test_a_sum_is_said_as_people_say_it(dollars: float, sum_: float, words: str) -> None:
    assert above(dollars) > dollars
    assert dollars == 0 or above(dollars) == sum_
    assert money(dollars) == words


@pytest.mark.parametrize(
    ("dollars", "words"),
    [
        (0.3, "$0.30"),
        (0.305, "$0.305"),
        (1234.5, "$1234.50"),
        (25, "$25.00"),
        (0.0013, "$0.0013"),
    ],
)
def test_a_sum_that_is_compared_or_typed_again_is_written_with_all_its_digits(dollars: float, words: str) -> None:
    assert exact_money(dollars) == words
    assert float(words[1:]) == dollars


def test_nothing_but_the_printers_of_money_puts_a_dollar_before_a_number() -> None:
    """The sample agents are programs of their own."""
    sources = (one for one in SOURCE.rglob("*.py") if "samples" not in one.parts and one.name != "money.py")
    by_hand = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr)
        for before, value in pairwise(node.values)
        if isinstance(value, ast.FormattedValue)
        and isinstance(before, ast.Constant)
        and str(before.value).endswith("$")
    ]
    assert by_hand == []
