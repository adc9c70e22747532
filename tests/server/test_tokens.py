"""Tokens: made once, kept as hashes, gone soon after they were revoked anywhere."""

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.core.ids import SessionId
from midcourse.errors import InvalidInput, StoreUnavailable
from midcourse.ports.store import Creation, Store
from midcourse.server.roles import LADDER, includes, role_named
from midcourse.server.tokens import Principal, TokenStore, check_given_token, local_token, new_token
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.testing.store_promises.fixtures import head, rows
from midcourse.wiring import open_store
from tests.server.manual_clock import StillClock


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = await open_store("memory://")
    yield store
    await store.close()


def test_each_role_may_what_the_ones_before_may() -> None:
    assert LADDER == ("watch", "steer", "approve", "operate")
    for index, role in enumerate(LADDER):
        assert [includes(role, needed) for needed in LADDER] == [True] * (index + 1) + [False] * (3 - index)
    assert role_named("approve") == "approve"
    with pytest.raises(InvalidInput, match="There is no role 'root'. The roles are watch, steer, approve, operate."):
        role_named("root")


async def test_a_token_is_whose_it_was_made_for(store: Store, clock: StillClock) -> None:
    tokens = TokenStore(store, clock)
    ada = await tokens.add("ada@example.org", "approve")
    await store.create(Creation(head(SessionId("sess_1")), rows(1, 1), worker=None))
    child = await tokens.add("child", "steer", SessionId("sess_1"))
    assert await tokens.principal_of(ada) == Principal("ada@example.org", "approve")
    known = await tokens.principal_of(child)
    assert known == Principal("child", "agent", SessionId("sess_1"), "")
    assert known is not None
    assert known.by == "session:sess_1"
    assert Principal("ada", "watch").by == "ada"


async def test_the_token_itself_is_kept_nowhere(store: Store, clock: StillClock) -> None:
    token = await TokenStore(store, clock).add("ada", "watch")
    assert token.startswith("mct_")
    assert len(token) == 47
    for _, content in await store.shelved("tokens"):
        assert token[4:].encode() not in content


async def test_the_list_tells_all_but_the_token(store: Store, clock: StillClock) -> None:
    tokens = TokenStore(store, clock)
    await tokens.add("bob", "watch")
    await tokens.add("ada", "operate")
    assert [(kept.name, kept.role, kept.created_at) for kept in await tokens.list()] == [
        ("ada", "operate", 1000.0),
        ("bob", "watch", 1000.0),
    ]


@pytest.mark.parametrize("name", ["", "local", "session:x", "a b", "-a", "a" * 65, "a\n", "ä", "a/b"])
async def test_a_name_that_could_be_mistaken_is_refused(store: Store, clock: StillClock, name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await TokenStore(store, clock).add(name, "watch")
    assert refused.value.fields["field"] == "name"


async def test_a_name_is_given_once(store: Store, clock: StillClock) -> None:
    tokens = TokenStore(store, clock)
    answers = await asyncio.gather(*(tokens.add("ada", "watch") for _ in range(5)), return_exceptions=True)
    made = [answer for answer in answers if isinstance(answer, str)]
    assert len(made) == 1
    assert all(error.code == "token_exists" for error in answers if isinstance(error, InvalidInput))
    assert await tokens.principal_of(made[0]) == Principal("ada", "watch")


async def test_a_revoked_token_is_nobodys_at_once(store: Store, clock: StillClock) -> None:
    tokens = TokenStore(store, clock)
    token = await tokens.add("ada", "watch")
    assert await tokens.principal_of(token) is not None
    assert await tokens.revoke("ada")
    assert await tokens.principal_of(token) is None
    assert not await tokens.revoke("ada")
    assert not await tokens.revoke("")


async def test_a_revocation_by_another_process_holds_after_a_second(tmp_path: Path, clock: StillClock) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    here, there = await open_store(url), await open_store(url)
    ours, theirs = TokenStore(here, clock), TokenStore(there, clock)
    token = await ours.add("ada", "watch")
    assert await theirs.principal_of(token) == Principal("ada", "watch")
    await ours.revoke("ada")
    clock.seconds += 1.0
    assert await theirs.principal_of(token) is None
    another = await ours.add("ada", "operate")
    clock.seconds += 0.1
    assert await theirs.principal_of(another) == Principal("ada", "operate")
    await here.close()
    await there.close()


class CountingStore(MemoryStore):
    """Counts how often a shelf is read, and may be out of reach."""

    reads = 0
    is_gone = False

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        """As the store does, counted."""
        if self.is_gone:
            raise StoreUnavailable("The store is away.")
        self.reads += 1
        await asyncio.sleep(0)
        return await super().shelved(shelf, first=first, last=last, newest=newest, limit=limit)


async def test_wrong_tokens_cost_no_storm_of_reads(clock: StillClock) -> None:
    store = CountingStore()
    tokens = TokenStore(store, clock)
    token = await tokens.add("ada", "watch")
    for _ in range(500):
        clock.seconds += 0.0001
        assert await tokens.principal_of(new_token()) is None
    answers = await asyncio.gather(*(tokens.principal_of(new_token()) for _ in range(500)), tokens.principal_of(token))
    assert answers == [None] * 500 + [Principal("ada", "watch")]
    assert store.reads <= 2


async def test_nobody_is_turned_away_while_the_table_is_read_for_the_first_time(clock: StillClock) -> None:
    store = CountingStore()
    token = await TokenStore(store, clock).add("ada", "watch")
    tokens = TokenStore(store, clock)
    answers = await asyncio.gather(*(tokens.principal_of(token) for _ in range(20)))
    assert answers == [Principal("ada", "watch")] * 20


async def test_while_the_store_is_away_only_the_local_token_is_known(clock: StillClock) -> None:
    store = CountingStore()
    tokens = TokenStore(store, clock, local="x" * 20)
    token = await tokens.add("ada", "watch")
    store.is_gone = True
    assert await tokens.principal_of("x" * 20) == Principal("local", "operate")
    with pytest.raises(StoreUnavailable):
        await tokens.principal_of(token)
    store.is_gone = False
    assert await tokens.principal_of(token) == Principal("ada", "watch")


async def test_one_row_that_cannot_be_read_shuts_out_nobody_else(store: Store, clock: StillClock) -> None:
    tokens = TokenStore(store, clock)
    token = await tokens.add("ada", "watch")
    await store.shelve("tokens", {"bob": b"\xff{", "eve": (await store.shelved("tokens"))[0][1]})
    clock.seconds += 1
    assert await tokens.principal_of(token) == Principal("ada", "watch")
    assert [kept.name for kept in await tokens.list()] == ["ada"]


async def test_a_damaged_row_shuts_out_its_owner_only(clock: StillClock) -> None:
    store = MemoryStore()
    tokens = TokenStore(store, clock)
    ada, bob, eve = [await tokens.add(name, "watch") for name in ("ada", "bob", "eve")]
    store.memory.connection.execute("UPDATE shelves SET seal = x'00' WHERE shelf = 'tokens' AND key = 'bob'")
    assert [await tokens.principal_of(token) is not None for token in (ada, bob, eve)] == [True, False, True]
    assert await tokens.revoke("bob")


async def test_of_two_servers_that_give_a_name_at_once_one_does(clock: StillClock) -> None:
    """Else the first one's token would be shown, and be nobody's."""
    store = MemoryStore()
    adding = (TokenStore(store.peer(), clock).add("ada", "watch") for _ in range(2))
    given = await asyncio.gather(*adding, return_exceptions=True)
    [token] = [one for one in given if isinstance(one, str)]
    assert await TokenStore(store, clock).principal_of(token) == Principal("ada", "watch")


async def test_strange_tokens_are_nobodys(store: Store, clock: StillClock) -> None:
    tokens = TokenStore(store, clock, local="x" * 20)
    for strange in ("", "x" * 19, "x" * 10_000, "\udcff", "\x00", "mct_"):
        assert await tokens.principal_of(strange) is None


def test_the_local_token_is_made_once_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    token = local_token(folder)
    assert local_token(folder) == token
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["token"]


def test_an_open_token_file_is_tightened(tmp_path: Path) -> None:
    token = local_token(tmp_path)
    (tmp_path / "token").chmod(0o644)
    assert local_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_an_open_token_file_that_cannot_be_tightened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_token(tmp_path)
    (tmp_path / "token").chmod(0o644)

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refused)
    with pytest.raises(InvalidInput, match="can be read by others"):
        local_token(tmp_path)


def test_somebody_elses_token_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_token(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(InvalidInput, match="is not yours"):
        local_token(tmp_path)


def test_a_token_file_that_is_no_token_or_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").touch(mode=0o600)
    with pytest.raises(InvalidInput, match="holds no token. Delete it"):
        local_token(tmp_path)
    (tmp_path / "token").unlink()
    local_token(tmp_path / "elsewhere")
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere" / "token")
    with pytest.raises(InvalidInput, match="cannot be used"):
        local_token(tmp_path)
    (tmp_path / "a file").touch()
    with pytest.raises(InvalidInput, match="cannot be used"):
        local_token(tmp_path / "a file")


def test_processes_that_start_at_once_agree_on_the_token(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)
    tokens: set[str] = set()

    def start() -> None:
        barrier.wait(30)
        tokens.add(local_token(tmp_path / "shared"))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) == 1
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["token"]


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=256))
def test_a_given_token_of_printable_characters_will_do(token: str) -> None:
    assert check_given_token(token) == token


@pytest.mark.parametrize("token", ["", "short", "x" * 15, "x" * 257, "x" * 20 + " ", "x" * 20 + "\n", "ä" * 20])
def test_another_given_token_will_not_do(token: str) -> None:
    with pytest.raises(InvalidInput, match="A token has 16 to 256 printable ASCII characters"):
        check_given_token(token)
