"""Proposals in a store: made once, accepted or refused by a person, and the policy is saved."""

from collections.abc import AsyncIterator

import pytest

from midcourse.analysis.reports.proposals import Proposal
from midcourse.analysis.reports.review import (
    SHELF,
    accept,
    begin_counting,
    last_review,
    proposal,
    proposals,
    refuse,
    review,
)
from midcourse.errors import Damaged, InvalidInput, Refused
from midcourse.policy.versions import history, load
from midcourse.ports.store import Store
from midcourse.wiring import open_store
from tests.reports.journals import Journal
from tests.reports.stores import keep


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = await open_store("memory://")
    yield opened
    await opened.close()


def labelled(count: int, right: float = 0.9, first: int = 0, agent: str = "worker") -> list[Journal]:
    """Sessions in which drift would have paused each, and was held back; every second of them wrong."""
    found: list[Journal] = []
    for number in range(first, first + count):
        is_right = number % 2 == 0
        journal = Journal(f"sess_{agent}_{number}", agent=agent, began=1000.0 + number).started()
        value = right if is_right else 0.72
        journal.stepped_in("notify", 5.0, signal="scope_drift", value=value, threshold=0.7, wanted="pause")
        found.append(journal.labelled("int_1", "right" if is_right else "wrong"))
    return found


async def proposed(store: Store) -> Proposal:
    await keep(store, *labelled(20))
    [found] = (await review(store, since=0.0, now=5000.0)).proposals
    return found


async def test_a_review_keeps_what_it_proposes_and_puts_nothing_into_force(store: Store) -> None:
    found = await proposed(store)
    assert await proposals(store) == [found]
    assert await proposal(store, found.id) == found
    assert await last_review(store) == 5000.0
    assert await history(store, found.name) == ()


async def test_the_same_is_proposed_once(store: Store) -> None:
    first = await proposed(store)
    again = await review(store, since=0.0, now=6000.0)
    assert [one.id for one in again.proposals] == [first.id]
    assert [one.made_at for one in await proposals(store)] == [5000.0]


async def test_another_one_for_the_same_agent_takes_its_place(store: Store) -> None:
    first = await proposed(store)
    await keep(store, *labelled(10, right=0.8, first=100))
    await review(store, since=0.0, now=6000.0)
    newer, older = await proposals(store)
    assert (newer.state, older.id, older.state) == ("open", first.id, "superseded")
    with pytest.raises(Refused, match="superseded before") as refused:
        await accept(store, first.id, by="ada", why="late", now=7000.0)
    assert refused.value.code == "proposal_settled"


async def test_accepting_saves_the_policy_with_who_and_why(store: Store) -> None:
    found = await proposed(store)
    done = await accept(store, found.id, by="ada", why=" too eager ", now=7000.0)
    assert (done.state, done.by, done.why, done.kept_as) == ("accepted", "ada", "too eager", "standard--worker@1")
    kept = (await history(store, "standard--worker"))[0]
    assert (kept.by, kept.why, kept.at) == ("ada", "too eager", 7000.0)
    policy = await load(store, "standard--worker")
    assert (policy.signals.scope_drift.intervene, policy.extends) == (0.9, "standard@1")
    assert await proposals(store, state="open") == []


async def test_accepting_twice_is_accepting_once_and_nobody_else_can_refuse_it_then(store: Store) -> None:
    found = await proposed(store)
    first = await accept(store, found.id, by="ada", why="yes", now=7000.0)
    assert await accept(store, found.id, by="ada", why="yes", now=7001.0) == first
    assert len(await history(store, found.name)) == 1
    with pytest.raises(Refused, match="was accepted before by ada"):
        await refuse(store, found.id, by="bob", why="no", now=7002.0)


async def test_a_crash_between_saving_and_saying_so_saves_nothing_twice(store: Store) -> None:
    found = await proposed(store)
    content = dict(await store.shelved(SHELF))
    await accept(store, found.id, by="ada", why="yes", now=7000.0)
    await store.shelve(SHELF, content)  # as if the second write had never come
    await accept(store, found.id, by="ada", why="yes", now=7010.0)
    assert len(await history(store, found.name)) == 1


async def test_what_was_refused_is_not_proposed_again(store: Store) -> None:
    found = await proposed(store)
    done = await refuse(store, found.id, by="bob", why="a bad week", now=7000.0)
    assert (done.state, done.by, done.why) == ("refused", "bob", "a bad week")
    await review(store, since=0.0, now=8000.0)
    assert [one.state for one in await proposals(store)] == ["refused"]
    assert await history(store, found.name) == ()


@pytest.mark.parametrize("why", ["", "   ", "x" * 2001])
async def test_without_a_reason_nothing_is_settled(store: Store, why: str) -> None:
    found = await proposed(store)
    for settle in (accept, refuse):
        with pytest.raises(InvalidInput):
            await settle(store, found.id, by="ada", why=why, now=7000.0)
    assert (await proposal(store, found.id)).state == "open"


@pytest.mark.parametrize("name", ["", "prop_unknown", "../x", "p" * 1000])
async def test_a_proposal_that_is_not_there_is_said_to_be_none(store: Store, name: str) -> None:
    await proposed(store)
    with pytest.raises(InvalidInput) as refused:
        await accept(store, name, by="ada", why="yes", now=1.0)
    assert refused.value.code == "proposal_not_found"


async def test_one_that_cannot_be_read_is_named(store: Store) -> None:
    await store.shelve(SHELF, {"prop_x": b"{}"})
    with pytest.raises(Damaged, match="prop_x"):
        await proposals(store)


async def test_the_time_until_the_next_review_counts_from_the_last_one_or_from_now(store: Store) -> None:
    assert await begin_counting(store, 10.0) == 10.0
    assert await begin_counting(store, 20.0) == 10.0
    await review(store, since=0.0, now=30.0)
    assert await begin_counting(store, 40.0) == 30.0
