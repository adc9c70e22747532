"""Login codes and browser sessions: used once, valid for a while, worth nothing by halves, gone when they are ended."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midcourse.core.audit import decode_entry
from midcourse.core.ids import SessionId
from midcourse.errors import AccessDenied, MidcourseError
from midcourse.ports.store import Creation, Store
from midcourse.server.browser_sessions import CODE_SECONDS, SESSION_SECONDS, Login, Logins
from midcourse.server.tokens import HOST, Principal, TokenStore, expiry
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.testing.store_promises.fixtures import head, rows
from midcourse.wiring import open_store
from tests.server.manual_clock import StillClock

LOCAL = "mct_" + "l" * 43
HERE = "http://127.0.0.1:8420"
ADA = Principal("ada", "approve")


class Process:
    """One of the processes that serve a store."""

    def __init__(self, store: Store, clock: StillClock) -> None:
        self.tokens = TokenStore(store, clock, local=LOCAL)
        self.logins = Logins(store, clock, self.tokens)

    async def entered(self, token: str = LOCAL, place: str = HERE) -> Login:
        """Log in with a fresh code."""
        code, _ = await self.logins.code_for(token)
        return await self.logins.log_in(code, place)

    async def who(self, made: Login, place: str = HERE) -> Principal | None:
        """Whom a browser with that session is taken for."""
        return await self.logins.principal_of(made.cookie, made.page, place)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = await open_store("memory://")
    yield store
    await store.close()


@pytest.fixture
def here(store: Store, clock: StillClock) -> Process:
    return Process(store, clock)


async def refused(work: Awaitable[object]) -> str:
    """The code with which it was refused."""
    with pytest.raises(MidcourseError) as error:
        await work
    return error.value.code


async def test_a_code_lets_one_browser_in_as_the_holder_of_the_token(here: Process) -> None:
    ada = await here.tokens.add("ada", "approve")
    assert await here.who(await here.entered()) == HOST
    assert await here.who(await here.entered(ada)) == ADA


class TakingTurns(MemoryStore):
    """Lets others in between a read and what follows from it."""

    async def shelved(
        self, shelf: str, *, first: str = "", last: str = "", newest: bool = False, limit: int | None = None
    ) -> Sequence[tuple[str, bytes]]:
        """As the store does, and then it is somebody else's turn."""
        found = await super().shelved(shelf, first=first, last=last, newest=newest, limit=limit)
        await asyncio.sleep(0)
        return found


async def test_a_code_works_once_whoever_is_faster(clock: StillClock) -> None:
    store = TakingTurns()
    one, another = Process(store, clock), Process(store, clock)
    code, _ = await one.logins.code_for(LOCAL)
    tries = [process.logins.log_in(code, HERE) for process in (one, another) for _ in range(10)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert len([answer for answer in answers if isinstance(answer, Login)]) == 1
    assert {answer.code for answer in answers if isinstance(answer, AccessDenied)} == {"login_refused"}
    assert await refused(one.logins.log_in(code, HERE)) == "login_refused"


@given(seconds=st.floats(0, 2 * CODE_SECONDS))
@settings(deadline=None)
def test_a_code_is_valid_for_a_minute_and_not_longer(seconds: float) -> None:
    async def run() -> None:
        store, clock = await open_store("memory://"), StillClock()
        here = Process(store, clock)
        code, expires_at = await here.logins.code_for(LOCAL)
        clock.seconds += seconds
        if clock.seconds < expires_at:
            assert await here.who(await here.logins.log_in(code, HERE)) == HOST
        else:
            assert await refused(here.logins.log_in(code, HERE)) == "login_refused"
        await store.close()

    asyncio.run(run())


@given(
    lifetime=st.none() | st.floats(60, 3 * SESSION_SECONDS),
    waits=st.lists(st.floats(0, SESSION_SECONDS / 2), min_size=1, max_size=6),
)
@settings(deadline=None)
def test_a_browser_session_is_valid_for_a_week_and_no_longer_than_its_token(
    lifetime: float | None, waits: list[float]
) -> None:
    async def run() -> None:
        store, clock = await open_store("memory://"), StillClock()
        here = Process(store, clock)
        token_ends = expiry(lifetime, clock.now())
        ada = await here.tokens.add("ada", "approve", expires_at=token_ends)
        made = await here.logins.log_in(ada, HERE)
        assert made.expires_at == min(clock.now() + SESSION_SECONDS, token_ends or float("inf"))
        for wait in waits:
            clock.seconds += wait
            is_valid = clock.seconds < made.expires_at
            assert (await here.who(made) == ADA) is is_valid
            assert (len(await here.logins.list()) == 1) is is_valid
            has_token = token_ends is None or clock.seconds < token_ends
            assert (await here.tokens.principal_of(ada) == ADA) is has_token
        await store.close()

    asyncio.run(run())


async def test_neither_half_of_a_browser_session_is_worth_anything_alone(here: Process) -> None:
    made, other = await here.entered(), await here.entered()
    for cookie, page in [
        (made.cookie, ""),
        ("", made.page),
        (made.cookie, made.cookie),
        (made.page, made.page),
        (made.cookie, other.page),
        (LOCAL, made.page),
    ]:
        assert await here.logins.principal_of(cookie, page, HERE) is None
    for secret in (made.cookie, made.page):
        assert await here.tokens.principal_of(secret) is None
        assert await refused(here.logins.log_in(secret, HERE)) == "login_refused"


async def test_a_browser_session_is_valid_at_the_server_it_was_made_for_alone(here: Process) -> None:
    """Two servers over one store, at two ports of a host: what one of them is sent does not open the other."""
    made = await here.entered()
    for place in ("http://127.0.0.1:8421", "https://127.0.0.1:8420", "http://localhost:8420", f"{HERE}/agents"):
        assert await here.who(made, place) is None
    assert await here.who(made) == HOST


async def test_the_secrets_are_kept_nowhere(here: Process, store: Store) -> None:
    code, _ = await here.logins.code_for(LOCAL)
    made = await here.entered()
    kept = [text for shelf in await store.shelves() for row in await store.shelved(shelf) for text in row]
    audit = [repr(row) for row in await store.audit()]
    for secret in (LOCAL, code, made.cookie, made.page):
        for text in [*kept, *audit]:
            assert secret[4:] not in (text if isinstance(text, str) else text.decode())


async def test_what_is_revoked_ends_its_browser_sessions_in_every_process(tmp_path: Path, clock: StillClock) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    stores = [await open_store(url), await open_store(url)]
    here, there = Process(stores[0], clock), Process(stores[1], clock)
    ada = await here.tokens.add("ada", "approve")
    by_token, by_id = await here.entered(ada), await here.entered()
    code, _ = await here.logins.code_for(ada)
    assert await there.who(by_token) == ADA
    assert await there.who(by_id) == HOST
    await here.tokens.revoke("ada")
    (shown,) = await here.logins.list()
    assert await here.logins.end(shown.id)
    assert not await here.logins.end(shown.id)
    assert await here.who(by_token) is None
    assert await here.who(by_id) is None
    clock.seconds += 1.0
    assert await there.who(by_token) is None
    assert await there.who(by_id) is None
    assert await refused(there.logins.log_in(code, HERE)) == "login_refused"
    await here.tokens.add("ada", "operate")  # of the same name, and not the same token
    assert await here.who(by_token) is None
    for store in stores:
        await store.close()


async def test_another_identity_takes_a_confirmation_and_the_code_is_still_good(here: Process) -> None:
    ada = await here.tokens.add("ada", "approve")
    code, _ = await here.logins.code_for(LOCAL)
    with pytest.raises(AccessDenied) as error:
        await here.logins.log_in(code, HERE, current="ada (approve)")
    assert error.value.code == "identity_would_change"
    assert (error.value.fields["now"], error.value.fields["then"]) == ("ada (approve)", "local (operate)")
    assert await here.who(await here.logins.log_in(code, HERE, current="ada (approve)", replace=True)) == HOST
    assert await here.who(await here.logins.log_in(ada, HERE, current="ada (approve)")) == ADA


async def test_a_sessions_own_token_lets_no_browser_in(here: Process, store: Store) -> None:
    await store.create(Creation(head(SessionId("sess_1")), rows(1, 1), worker=None))
    token = await here.tokens.add("itself", "operate", SessionId("sess_1"))
    assert await refused(here.logins.code_for(token)) == "forbidden"
    assert await refused(here.logins.log_in(token, HERE)) == "forbidden"


async def test_a_tenants_operator_ends_the_browser_sessions_of_that_tenant_alone(here: Process) -> None:
    acme = Principal("boss", "operate", None, "acme")
    ann = await here.tokens.add("ann", "watch", tenant="acme")
    own, others = await here.entered(ann), await here.entered()
    (shown,) = await here.logins.list(tenant="acme")
    assert (shown.name, shown.tenant, shown.place) == ("ann", "acme", HERE)
    foreign = next(one for one in await here.logins.list() if one.tenant is None)
    assert not await here.logins.end(foreign.id, by=acme)
    assert await here.logins.end(shown.id, by=acme)
    assert await here.who(own) is None
    assert await here.who(others) == HOST


async def test_what_has_expired_leaves_the_store_and_one_token_fills_no_shelf(
    here: Process, store: Store, clock: StillClock
) -> None:
    first = last = await here.entered()
    for _ in range(60):
        await here.logins.code_for(LOCAL)
        clock.seconds += 0.1
        last = await here.entered()
    assert len(await store.shelf_keys("login-codes")) <= 50
    assert len(await store.shelf_keys("browser-sessions")) == 50
    assert await here.who(first) is None
    assert await here.who(last) == HOST
    clock.seconds += SESSION_SECONDS
    await here.entered()
    assert len(await store.shelf_keys("login-codes")) == 0
    assert len(await store.shelf_keys("browser-sessions")) == 1


async def test_the_audit_log_says_who_logged_in_and_who_ended_it(here: Process, store: Store) -> None:
    ada = await here.tokens.add("ada", "approve")
    await here.entered(ada)
    (shown,) = await here.logins.list()
    await here.logins.end(shown.id)
    told = [decode_entry(row.content) for row in await store.audit()]
    assert [(one.by, one.action) for one in told][1:] == [
        ("ada", "browser.login"),
        ("local", "browser.revoke"),
    ]


@given(cookie=st.text(max_size=80), page=st.text(max_size=80), place=st.text(max_size=30))
@settings(deadline=None)
def test_no_text_whatever_is_a_browser_session(cookie: str, page: str, place: str) -> None:
    async def run() -> None:
        store = await open_store("memory://")
        here = Process(store, StillClock())
        await here.entered()
        for prefix in ("", "mcb_"):
            assert await here.logins.principal_of(prefix + cookie, f"mcp_{page}", place) is None
        await store.close()

    asyncio.run(run())
