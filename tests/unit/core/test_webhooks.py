"""What webhooks are told: ids that stay the same, bodies that do not change, and when it is sent again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.errors import InvalidInput
from midcourse.people.webhooks import (
    ALL,
    BACKOFF,
    KINDS,
    Delivery,
    DeliveryOutcome,
    Webhook,
    check_kinds,
    delivery,
    delivery_id,
    delivery_view,
    tried,
    webhook_view,
)

HOOK = Webhook(
    id="wh_1", tenant=None, url="https://a.example/x", kinds=(ALL,), by="ann", added_at=0.0, secret="whsec_c2VjcmV0"
)
words = st.text(alphabet="abc_~.", max_size=6)


def row() -> Delivery:
    return delivery(HOOK, "ask.opened", ("sess_1", "ask_1"), {"session": "sess_1"}, now=100.0, session="sess_1")


@given(st.tuples(words, words, words), st.tuples(words, words, words))
def test_the_same_thing_has_the_same_id_and_another_thing_another(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (delivery_id("wh", "ask.opened", *one) == delivery_id("wh", "ask.opened", *other)) == (one == other)


def test_an_id_is_made_of_whom_is_told_and_what_and_never_of_when() -> None:
    later = delivery(HOOK, "ask.opened", ("sess_1", "ask_1"), {}, now=999.0)
    assert later.id == row().id
    assert delivery_id("wh_2", "ask.opened", "sess_1", "ask_1") != row().id
    assert delivery_id("wh_1", "ask.closed", "sess_1", "ask_1") != row().id


@given(
    st.lists(st.sampled_from([None, 200, 204, 301, 400, 404, 409, 410, 429, 500, 503]), max_size=20), st.floats(0, 1)
)
def test_it_is_tried_for_about_a_day_and_ends_in_one_of_two_ways(statuses: list[int | None], chance: float) -> None:
    one, now = row(), 100.0
    body = one.body
    for status in statuses:
        if one.ended_at is not None:
            break
        now = max(now, one.next_at)
        one = tried(one, DeliveryOutcome(status=status, problem="" if status else "nobody answers"), now, chance)
        assert one.body == body
        assert one.ended_at is not None or one.next_at > now
    assert one.tries <= len(BACKOFF) + 1
    assert now - 100.0 <= 1.1 * 86_400
    assert (one.state == "waiting") == (one.ended_at is None)
    if one.state == "delivered":
        assert one.status in (200, 204)
    if one.state == "given_up":
        assert one.status == 410 or one.tries == len(BACKOFF) + 1


def test_the_first_retry_comes_within_seconds_and_the_last_within_a_day() -> None:
    assert BACKOFF[0] < 10
    assert list(BACKOFF) == sorted(BACKOFF)
    assert 0.7 * 86_400 < sum(BACKOFF) <= 86_400


@pytest.mark.parametrize(
    ("tenant", "about", "wanted"),
    [(None, "", True), (None, "acme", True), ("acme", "acme", True), ("acme", "", False), ("", "acme", False)],
)
def test_a_tenants_webhook_is_told_of_that_tenant_alone(tenant: str | None, about: str, wanted: bool) -> None:
    hook = Webhook(id="w", tenant=tenant, url="", kinds=("ask.opened",), by="", added_at=0.0)
    assert hook.wants("ask.opened", about) is wanted
    assert not hook.wants("ask.closed", about)


def test_nothing_that_is_shown_of_a_webhook_holds_its_secret() -> None:
    assert "c2VjcmV0" not in repr(HOOK)
    assert "c2VjcmV0" not in repr(webhook_view(HOOK))


def test_a_webhook_fails_since_the_first_try_after_the_last_that_arrived() -> None:
    bad = tried(row(), DeliveryOutcome(problem="nobody answers"), 200.0)
    worse = tried(bad, DeliveryOutcome(status=500), 300.0)
    assert webhook_view(HOOK, [worse]).failing_since == 300.0
    good = tried(row(), DeliveryOutcome(status=200), 400.0)
    view = webhook_view(HOOK, [worse, good])
    assert (view.failing_since, view.waiting, view.given_up) == (None, 1, 0)


def test_what_ended_is_not_said_to_be_tried_again() -> None:
    assert delivery_view(row()).next_at == 100.0
    assert delivery_view(tried(row(), DeliveryOutcome(status=200), 101.0)).next_at is None
    assert json.loads(row().body) == {"type": "ask.opened", "version": 1, "at": 100.0, "data": {"session": "sess_1"}}


def test_kinds_are_known_ones_each_once_and_a_star_is_all() -> None:
    assert check_kinds(["ask.opened", "ask.opened"]) == ("ask.opened",)
    assert check_kinds([*KINDS, ALL]) == (ALL,)
    for kinds in ([], ["ask.open"]):
        with pytest.raises(InvalidInput, match="The kinds are"):
            check_kinds(kinds)
