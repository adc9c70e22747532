"""Where the store lies, and who holds it, is for the host's operators: nobody else finds it in any answer."""

from dataclasses import replace
from pathlib import Path

import pytest

import midcourse
from midcourse.errors import Damaged, MidcourseError, StoreError, StoreFull, StoreUnavailable
from midcourse.stores.sqlite.memory import MemoryStore
from tests.promises.harness import QUICK, resumable
from tests.server.live_server import serving
from tests.server.stream_reader import eventually, opened, until_status
from tests.server.test_access import LADDER
from tests.server.test_codes import Failing
from tests.server.test_tenants import TABLE, UNLIMITED, Fleet, agent, request_of

PLACE = "/srv/secret-place/runs.db"
ERRORS = (
    StoreUnavailable(f"Another program (worker_9, process 4711) has held {PLACE} for 5 s. Wait.", code="store_busy"),
    StoreUnavailable(f"{PLACE} could not be used (disk I/O error).", path=PLACE),
    StoreFull(f"No space is left for {PLACE}.", path=PLACE),
    Damaged(f"{PLACE} is damaged (malformed).", path=PLACE),
    StoreError(f"A value is too big for {PLACE}.", code="too_big", path=PLACE),
)
SECRETS = ("secret-place", "4711", "runs.db")


def told_too_much(text: str) -> list[str]:
    return [one for one in SECRETS if one in text]


@pytest.mark.parametrize("error", ERRORS, ids=lambda one: one.code)
async def test_only_the_hosts_operators_are_told_where_the_store_lies(error: MidcourseError) -> None:
    """Every route × every role × tenant, host and session, while the store fails."""
    store = Failing(MemoryStore())
    settings = replace(QUICK, policy="")
    with serving(store, resumable(agent), limits=UNLIMITED, settings=settings) as server:  # pyright: ignore[reportArgumentType]
        async with server.client() as host:
            fleet = Fleet(server, host)
            async with fleet.client:
                await fleet.set_up()
                for role in LADDER[:-1]:
                    await fleet.add(("host", role), name=role, role=role)
                began = await fleet.ask(("host", "operate"), "POST", "/api/v1/sessions", {"agent": "agent"})
                fleet.sessions["only"] = began.json()["id"]  # what a token in somebody's page reaches
                await fleet.add(("only", "operate"), name="page", role="operate", only=fleet.sessions["only"])
                for who in fleet.tokens:  # known from here on, for a second
                    await fleet.ask(who, "GET", "/api/v1/me")
                answered = 0
                for (method, path), row in TABLE.items():
                    if path in ("/api/v1/policies/backtest", "/api/v1/policies/calibrate") or row.needs == "open":
                        continue
                    for who in fleet.tokens:
                        if who == ("host", "operate"):
                            continue
                        if row.needs not in ("anybody", who[1]) and who[1] != "session":
                            continue
                        address, body = request_of(path, row, fleet.sessions.get(who[0], "none"))
                        store.error = error
                        try:
                            response = await fleet.ask(who, method, address, body)
                        finally:
                            store.error = None
                        assert not told_too_much(response.text), (who, method, path, response.text)
                        answered += response.status_code >= 500
                assert answered > 100
                store.error = error
                try:
                    shown = await host.get("/sessions")
                finally:
                    store.error = None
                assert PLACE in shown.json()["detail"]
                assert shown.json()["code"] == error.code


async def test_a_stream_that_the_store_breaks_off_and_a_bulk_say_no_more() -> None:
    store = Failing(MemoryStore())
    with serving(store, resumable(agent), limits=UNLIMITED) as server:  # pyright: ignore[reportArgumentType]
        async with server.client() as host:
            made = await host.post("/tokens", json={"name": "ann", "role": "operate", "tenant": "acme"})
            for token, sees in ((made.json()["token"], False), (server.token, True)):
                async with server.client(token) as client:
                    name = (await client.post("/sessions", json={"agent": "agent"})).json()["id"]
                    await until_status(client, name, "waiting")
                    async with opened(client, "GET", f"/chat/{name}") as chat:
                        await chat.until("interrupt")
                        store.error = ERRORS[0]
                        try:
                            last = (await chat.rest())[-1].data
                            bulk = await client.post("/sessions/bulk", json={"verb": "pause", "sessions": ["nobody"]})
                        finally:
                            store.error = None
                    assert (last["type"], last["code"]) == ("error", "store_busy")
                    assert bool(told_too_much(last["message"])) is sees
                    assert bool(told_too_much(bulk.text)) is sees


async def test_a_session_that_a_store_fails_is_journaled_without_its_path(tmp_path: Path) -> None:
    async def clumsy(run: midcourse.Run) -> None:
        raise StoreError(f"A value is too big for {PLACE}: keep it elsewhere.", code="too_big", path=PLACE)

    with serving(f"sqlite:///{tmp_path}/runs.db", resumable(clumsy)) as server:
        async with server.client() as host:
            name = (await host.post("/sessions", json={"agent": "agent"})).json()["id"]
            shown = await eventually(lambda: host.get(f"/sessions/{name}"), lambda one: one.json()["failure"])
            assert "A value is too big for the store: keep it elsewhere." in shown.text
            assert not told_too_much(shown.text)
