"""The rules of the inbox: whose an ask is, when it is due, who is told how often, and how quickly people say yes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midcourse.core.ids import AskId, SessionId, StepId, is_review_step
from midcourse.errors import InvalidInput
from midcourse.people.inbox_rules import (
    LATELY,
    LONGEST_HAND_OVER,
    Answered,
    HandOver,
    InboxAsk,
    Taken,
    answer_seconds,
    approvals,
    by_deadline,
    check_hand_over,
    check_name,
    notification_due,
    owner_of,
)

NAMES = ("ann", "bob", "cleo", "dan")
times = st.floats(min_value=0, max_value=1000, allow_nan=False)
names = st.sampled_from(NAMES)
spans = st.tuples(names, times, st.floats(0.1, 500))


def standing(given: dict[str, tuple[str, float, float]]) -> dict[str, HandOver]:
    return {who: HandOver(name=who, to=to, at=at, until=at + lasts) for who, (to, at, lasts) in given.items()}


def ask(
    opened_at: float = 100.0, target: float = 300.0, deadline: float | None = None, name: str = "ask_1"
) -> InboxAsk:
    return InboxAsk(
        session=SessionId("sess_1"),
        ask=AskId(name),
        agent="cleaner",
        goal="",
        tenant="",
        reason="need_approval",
        prompt="May I?",
        tool="",
        step=StepId("1/ask#1"),
        opened_at=opened_at,
        deadline=deadline,
        respond_by=opened_at + target,
        owner="ann",
    )


# ---- whose it is


def test_an_ask_belongs_to_whoever_began_the_session_until_somebody_takes_it() -> None:
    assert owner_of("ann", None, {}, 10) == ("ann", None)
    assert owner_of("ann", Taken(owner="bob", at=5, by="bob"), {}, 10) == ("bob", 5)


def test_a_hand_over_holds_until_its_end_and_then_it_is_as_before() -> None:
    over = {"ann": HandOver(name="ann", to="bob", at=100, until=3700)}
    assert owner_of("ann", None, over, 99) == ("ann", None)
    assert owner_of("ann", None, over, 100) == ("bob", 100)
    assert owner_of("ann", None, over, 3699) == ("bob", 100)
    assert owner_of("ann", None, over, 3700) == ("ann", None)
    assert owner_of("cleo", None, over, 200) == ("cleo", None)


def test_what_was_taken_before_a_hand_over_goes_along_and_what_is_taken_after_it_stays() -> None:
    over = {"ann": HandOver(name="ann", to="bob", at=100, until=3700)}
    assert owner_of("cleo", Taken(owner="ann", at=50, by="ann"), over, 200) == ("bob", 100)
    assert owner_of("cleo", Taken(owner="ann", at=150, by="ann"), over, 200) == ("ann", 150)


def test_whoever_stands_in_may_be_stood_in_for() -> None:
    over = {
        "ann": HandOver(name="ann", to="bob", at=100, until=3700),
        "bob": HandOver(name="bob", to="cleo", at=200, until=3800),
    }
    assert owner_of("ann", None, over, 250) == ("cleo", 200)


@given(names, st.none() | st.tuples(names, times), st.dictionaries(names, spans, max_size=4), times)
def test_somebody_always_owns_an_ask_and_without_a_standing_hand_over_it_is_the_last_who_took_it(
    began: str, took_it: tuple[str, float] | None, given: dict[str, tuple[str, float, float]], now: float
) -> None:
    taken = None if took_it is None else Taken(owner=took_it[0], at=took_it[1], by="eve")
    overs = standing(given)
    owner, since = owner_of(began, taken, overs, now)
    first = began if taken is None else taken.owner
    assert owner in NAMES
    assert since is None or since <= max(now, taken.at if taken else 0)
    now_standing = [one for one in overs.values() if one.at <= now < one.until]
    if all(one.name != first for one in now_standing):
        assert (owner, since) == (first, None if taken is None else taken.at)
    if owner != first:
        assert any(one.to == owner for one in now_standing)


# ---- when it is due


def test_it_is_due_at_its_deadline_or_at_the_target_whichever_is_sooner() -> None:
    assert ask(deadline=150).due_at == 150
    assert ask(deadline=900).due_at == 400
    assert ask().due_at == 400


@given(st.lists(st.tuples(times, st.floats(1, 900), st.none() | times), max_size=8))
def test_the_most_urgent_stands_first_and_none_is_lost(given: list[tuple[float, float, float | None]]) -> None:
    asks = [ask(at, target, end, f"ask_{number}") for number, (at, target, end) in enumerate(given)]
    found = by_deadline(asks)
    assert [one.due_at for one in found] == sorted(one.due_at for one in asks)
    assert {one.ask for one in found} == {one.ask for one in asks}


# ---- who is told


@given(st.lists(st.floats(min_value=0, max_value=900), min_size=1, max_size=20))
def test_however_often_somebody_looks_people_are_reminded_and_told_of_an_escalation_once(looks: list[float]) -> None:
    one = ask(opened_at=0, target=300)
    told: list[tuple[str, float]] = []
    for now in sorted(looks):
        match notification_due(one, now):
            case "ask.reminder":
                told.append(("reminder", now))
                one = replace(one, reminded_at=now)
            case "ask.escalated":
                told.append(("escalation", now))
                one = replace(one, escalated_at=now)
            case None:
                pass
    kinds = [kind for kind, _ in told]
    assert kinds in ([], ["reminder"], ["escalation"], ["reminder", "escalation"])
    assert all(now >= (150 if kind == "reminder" else 300) for kind, now in told)
    assert ("escalation" in kinds) == (max(looks) >= 300)
    assert ("reminder" in kinds) == any(150 <= now < 300 for now in looks)


# ---- how quickly people say yes


def answers(*said: tuple[float, float, bool]) -> list[Answered]:
    return [Answered(at=at, took=seconds, approved=yes) for at, seconds, yes in said]


def test_a_refusal_ends_the_row_and_only_the_last_six_are_looked_at_for_haste() -> None:
    said = answers((1, 9, True), (2, 9, False), *((10.0 + one, 1.0, True) for one in range(8)))
    assert approvals(said, 30) == (8, 6)
    assert approvals(answers((1, 1, True), (2, 1, False)), 30) == (0, 0)
    assert approvals(answers((1, 2.9, True), (5, 3.0, True)), 30) == (2, 1)


def test_what_was_long_ago_counts_no_more() -> None:
    assert approvals(answers((0, 1, True), (LATELY, 1, True)), LATELY + 1) == (1, 1)


def test_an_answer_took_at_most_the_time_since_it_was_asked_or_since_the_one_before_it() -> None:
    assert answer_seconds(100, [], 160) == 60
    assert answer_seconds(100, answers((150, 1, True)), 152) == 2
    assert answer_seconds(100, answers((50, 1, True)), 160) == 60
    assert answer_seconds(100, [], 90) == 0  # clocks may go back


# ---- what is taken


@pytest.mark.parametrize("name", ["", " ann", "ann ", "a\nb", "x" * 129, 7, None])
def test_a_name_that_no_list_could_show_is_refused(name: object) -> None:
    with pytest.raises(InvalidInput, match="a person's name"):
        check_name(name, "owner")


def test_nobody_hands_over_to_themselves_or_for_longer_than_a_week() -> None:
    assert check_hand_over("bob", 60, "ann") == ("bob", 60.0)
    assert check_hand_over("ann", 0, "ann") == ("ann", 0.0)
    with pytest.raises(InvalidInput, match="yourself"):
        check_hand_over("ann", 60, "ann")
    for seconds in (-1, LONGEST_HAND_OVER + 1, float("nan"), True, "60"):
        with pytest.raises(InvalidInput, match="a week"):
            check_hand_over("bob", seconds, "ann")


def test_what_a_policy_opened_with_its_pause_is_known_by_its_step() -> None:
    assert is_review_step("1/review#2")
    assert not is_review_step("1/ask#1")
