"""Policies in a store: each save is a version with who and why; nothing is lost, whoever else saves at that time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from midcourse.core.audit import decode_entry
from midcourse.errors import Damaged, InvalidInput, MidcourseError, Refused, StoreUnavailable
from midcourse.policy import history, load, load_policy, names, save
from midcourse.policy import versions as kept
from midcourse.policy.document import Policy
from midcourse.policy.profiles import BUILT_IN, STANDARD
from midcourse.ports.store import Store
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.wiring import open_store

NOW = 1_763_200_000.0


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"
    opened = await open_store(url, "process")
    yield opened
    await opened.close()


def mine(warn: float = 5, **more: object) -> Policy:
    return replace(load_policy(f"policy: mine\nsignals: {{cost: {{warn: {warn}}}}}"), **more)


async def keep(store: Store, policy: Policy, why: str = "it cried wolf", **more: Any) -> kept.KeptPolicy:
    return await save(store, policy, by="ada", why=why, now=NOW, **more)


async def code_of(work: Awaitable[object]) -> str:
    with pytest.raises(MidcourseError) as refused:
        await work
    return refused.value.code


# ---- looking


async def test_an_empty_store_has_the_built_in_policies(store: Store) -> None:
    assert await names(store) == tuple(BUILT_IN)
    for name, policy in BUILT_IN.items():
        assert await load(store, name) == await load(store, f"{name}@1") == policy
        [only] = await history(store, name)
        assert (only.is_built_in, only.by, only.at) == (True, "", None)
    assert await store.shelf_keys(kept.SHELF) == []


async def test_a_saved_policy_is_found_by_name_and_by_version(store: Store) -> None:
    first = await keep(store, mine(5))
    second = await keep(store, mine(6), why="  still too many \n")

    assert (first.policy.id, second.policy.id) == ("mine@1", "mine@2")
    assert (await load(store, "mine")).signals.cost.warn == 6
    assert (await load(store, "mine@1")).signals.cost.warn == 5
    assert await names(store) == (*BUILT_IN, "mine")
    versions = await history(store, "mine")
    assert [(one.policy.version, one.by, one.why, one.at) for one in versions] == [
        (2, "ada", "still too many", NOW),
        (1, "ada", "it cried wolf", NOW),
    ]
    assert [kept.summary_of(one).version for one in await kept.newest(store)] == [*(1 for _ in BUILT_IN), 2]


async def test_a_built_in_policy_that_is_saved_goes_on_from_version_1(store: Store) -> None:
    saved = await keep(store, replace(STANDARD, correction=300, extends="standard@1"))

    assert saved.policy.id == "standard@2"
    assert (await load(store, "standard")).correction == 300
    assert await load(store, "standard@1") == STANDARD
    assert [one.policy.version for one in await history(store, "standard")] == [2, 1]
    assert await names(store) == tuple(BUILT_IN)


@pytest.mark.parametrize(
    "name", ["nobody", "", "mine@", "mine@x", "mine@0", "mine@99", "standard@2", "@1", "a/b", "mine@1/x"]
)
async def test_what_is_not_there_is_not_found(store: Store, name: str) -> None:
    await keep(store, mine())

    assert await code_of(load(store, name)) == "policy_not_found"


async def test_names_that_begin_alike_are_apart(store: Store) -> None:
    for name in ("a", "a-b", "ab"):
        await keep(store, mine(name=name))

    assert [len(await history(store, name)) for name in ("a", "a-b", "ab")] == [1, 1, 1]


async def test_what_was_saved_is_on_the_shelf_as_it_is_said_to_be(store: Store) -> None:
    await keep(store, mine())

    [(key, content)] = await store.shelved("policies")
    row = msgspec.json.decode(content)
    assert key == "mine@000001"
    assert row.keys() == {"document", "by", "why", "at"}
    assert row["document"]["signals"]["cost"]["warn"] == 5


async def test_a_row_that_nobody_can_read_is_said_to_be_damaged(store: Store) -> None:
    await store.shelve("policies", {"mine@000001": b"{}"})

    assert await code_of(load(store, "mine")) == "damaged"
    with pytest.raises(Damaged, match="mine@000001"):
        await history(store, "mine")


# ---- texts and bases


async def test_a_text_may_extend_what_was_saved(store: Store) -> None:
    await keep(store, mine(5))
    text = "policy: other\nextends: mine\ncorrection: 90"

    policy = await kept.load_text(store, text)
    saved = await keep(store, policy)
    await keep(store, mine(7))

    assert (policy.signals.cost.warn, policy.extends) == (5, "mine")
    # What it was made from does not change when that goes on.
    assert saved.policy.extends == "mine@1"
    assert (await load(store, "other")).signals.cost.warn == 5
    assert "correction: 90  # Characters of a person's correction. In mine: 200." in await kept.yaml_of(
        store, saved.policy
    )
    assert await kept.load_text(store, await kept.yaml_of(store, saved.policy)) == saved.policy


async def test_a_text_whose_base_is_not_there_is_told_what_there_is(store: Store) -> None:
    await keep(store, mine())
    for text in ("policy: other\nextends: mien", "policy: other\nextends: mine@4"):
        with pytest.raises(InvalidInput, match="line 2: there is no policy"):
            await kept.load_text(store, text)


async def test_a_name_or_a_file_is_read(store: Store, tmp_path: Path) -> None:
    await keep(store, mine(5))
    (tmp_path / "x.yaml").write_text("policy: other\nextends: mine\n")

    assert (await kept.read(store, "mine@1")).name == "mine"
    assert (await kept.read(store, f"{tmp_path}/x.yaml")).signals.cost.warn == 5


# ---- what is refused


async def test_what_changes_nothing_is_not_saved(store: Store) -> None:
    await keep(store, mine())

    assert await code_of(keep(store, mine())) == "policy_unchanged"
    assert await code_of(keep(store, mine(extends="standard@1"))) == "policy_unchanged"
    assert await code_of(keep(store, replace(STANDARD, extends="standard@1"))) == "policy_unchanged"
    await keep(store, mine(about="now with a sentence"))
    assert len(await history(store, "mine")) == 2


async def test_who_expects_another_version_is_refused_and_saves_nothing(store: Store) -> None:
    await keep(store, mine(5), expects=0)
    await keep(store, mine(6), expects=1)

    for version in (0, 1, 3):
        with pytest.raises(Refused, match=f"made for version {version} of policy 'mine', and version 2 is the newest"):
            await keep(store, mine(7), expects=version)
    assert await code_of(keep(store, mine(name="new"), expects=4)) == "precondition_failed"
    assert await code_of(keep(store, replace(STANDARD, correction=1), expects=0)) == "precondition_failed"
    assert len(await history(store, "mine")) == 2


async def test_a_save_sent_again_is_the_same_save(store: Store) -> None:
    first = await keep(store, mine(5), command="ada:1")
    await keep(store, mine(6), command="ada:2")

    assert await keep(store, mine(5), command="ada:1", expects=0) == first
    assert await code_of(keep(store, mine(7), command="ada:1")) == "idempotency_key_reused"
    assert await code_of(keep(store, mine(5), why="other words", command="ada:1")) == "idempotency_key_reused"
    assert len(await history(store, "mine")) == 2


@pytest.mark.parametrize("why", ["", "  \n", "x" * 2001])
async def test_why_is_required(store: Store, why: str) -> None:
    with pytest.raises(InvalidInput, match="in 1 to 2,000 characters. Nothing was saved.") as refused:
        await keep(store, mine(), why=why)
    assert refused.value.fields["field"] == "why"
    assert await code_of(save(store, mine(), by="", why="x", now=NOW)) == "invalid_input"
    assert await names(store) == tuple(BUILT_IN)


async def test_the_longest_reason_is_kept(store: Store) -> None:
    assert (await keep(store, mine(), why="x" * 2000)).why == "x" * 2000


async def test_what_cannot_be_meant_is_not_saved(store: Store) -> None:
    assert await code_of(keep(store, mine(correction=0))) == "invalid_input"
    assert await code_of(keep(store, mine(extends="nobody"))) == "policy_not_found"
    assert await code_of(keep(store, mine(name="No Name"))) == "invalid_input"
    assert await store.shelf_keys("policies") == []


# ---- two at once


async def test_many_savers_at_once_each_get_a_version_of_their_own(tmp_path: Path) -> None:
    """Through two stores on one file, as two processes would."""
    url = f"sqlite:///{tmp_path}/runs.db"
    stores = [await open_store(url, "process"), await open_store(url, "process")]

    async def one(number: int) -> float | None:
        return (await keep(stores[number % 2], mine(number))).policy.signals.cost.warn

    saved = await asyncio.gather(*(one(number) for number in range(1, 9)))
    found = await history(stores[0], "mine")
    for store in stores:
        await store.close()

    assert sorted(one.policy.version for one in found) == list(range(1, 9))
    assert sorted(one.policy.signals.cost.warn or 0 for one in found) == sorted(saved) == list(range(1, 9))  # pyright: ignore[reportArgumentType]


class Between:
    """A store beside which something happens right before a certain call of it."""

    def __init__(self, store: Store, happens: Mapping[int, Any]) -> None:
        self._store = store
        self._happens = happens
        self.calls = 0

    async def _call(self, name: str, *arguments: Any, **more: Any) -> Any:
        self.calls += 1
        if self.calls in self._happens:
            await self._happens[self.calls]()
        return await getattr(self._store, name)(*arguments, **more)

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)


async def test_a_second_save_in_between_any_two_calls_of_the_first_loses_nothing() -> None:
    counting = Between(MemoryStore(), {})
    await keep(counting, mine(5))  # pyright: ignore[reportArgumentType]
    assert counting.calls >= 2
    for place in range(1, counting.calls + 1):
        store = MemoryStore()
        outcome: list[object] = []

        async def rival(store: Store = store, outcome: list[object] = outcome) -> None:
            try:
                outcome.append((await keep(store, mine(6))).policy.signals.cost.warn)
            except StoreUnavailable as error:
                outcome.append(error.code)

        first = await keep(Between(store, {place: rival}), mine(5))  # pyright: ignore[reportArgumentType]

        found = [one.policy.signals.cost.warn for one in reversed(await history(store, "mine"))]
        assert sorted(found) == sorted({5.0, *outcome} - {"policy_busy"}), (place, found, outcome)  # pyright: ignore[reportArgumentType]
        assert found[first.policy.version - 1] == 5


async def test_a_save_is_in_the_audit_log_and_one_that_was_refused_is_not(store: Store) -> None:
    await keep(store, mine())
    await keep(store, mine(6, name="acme~mine"))
    with pytest.raises(Refused):
        await keep(store, mine())
    entries = [decode_entry(row.content) for row in await store.audit()]
    told = [(one.session, one.by, one.role, one.action, one.detail, one.tenant, one.at) for one in entries]
    assert told == [
        ("", "ada", "operate", "policy.save", "mine@1: it cried wolf", "", NOW),
        ("", "ada", "operate", "policy.save", "acme~mine@1: it cried wolf", "acme", NOW),
    ]
