"""``/healthz`` and ``/readyz``: told to everybody, and nothing but whether to send work here."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from midcourse.errors import StoreFull, StoreUnavailable
from midcourse.server import Server, health
from midcourse.server.health import SECONDS
from midcourse.stores.sqlite.memory import MemoryStore
from tests.promises.harness import Place
from tests.server.live_server import TOKEN, Running, serving
from tests.server.stream_reader import eventually, served

SECRET = "hunter2"


class Unwritable(MemoryStore):
    """Cannot be written to while it has an ``error``; while it is ``stuck``, it does not even say so."""

    error: Exception | None = None
    stuck = False

    async def shelve(self, *arguments: Any, **more: Any) -> None:
        """Perhaps."""
        if self.stuck:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        await super().shelve(*arguments, **more)


async def asked(running: Running, path: str) -> httpx2.Response:
    """What anybody is told."""
    async with running.client() as client:
        client.headers.pop("Authorization")
        return await client.get(f"{running.url}{path}")


async def test_a_server_that_works_says_so_to_everybody(place: Place) -> None:
    with served(place) as running:
        alive, ready = await asked(running, "/healthz"), await asked(running, "/readyz")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
    assert ready.status_code == 200
    assert ready.json() == {"status": "ready", "checks": {"store": "ok", "control": "ok"}}
    assert alive.headers["cache-control"] == ready.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StoreUnavailable(f"disk I/O error at /srv/{SECRET}"), "cannot be written to (store_unavailable)"),
        (StoreFull(f"no space at /srv/{SECRET}"), "no space is left"),
        (OSError(f"/srv/{SECRET}"), "cannot be written to"),
    ],
    ids=["unavailable", "full", "unforeseen"],
)
async def test_a_store_that_cannot_be_written_to_makes_it_unready_and_not_dead(error: Exception, words: str) -> None:
    """What is wrong is said, and where the store lies is not; once it works again, so does the server."""
    store = Unwritable()
    store.error = error
    with serving(store, review_every=None) as running:  # pyright: ignore[reportArgumentType]
        response = await asked(running, "/readyz")
        assert (response.status_code, response.json()["code"]) == (503, "not_ready")
        assert response.json()["checks"] == {"store": words, "control": "ok"}
        assert words in response.json()["detail"].lower()
        assert int(response.headers["retry-after"]) > 0
        assert SECRET not in response.text
        assert (await asked(running, "/healthz")).status_code == 200
        store.error = None
        await eventually(lambda: asked(running, "/readyz"), lambda found: found.status_code == 200)


async def test_a_store_that_does_not_answer_is_not_waited_for() -> None:
    store = Unwritable()
    store.stuck = True
    with serving(store, review_every=None) as running:  # pyright: ignore[reportArgumentType]
        response = await asked(running, "/readyz")
    assert response.json()["checks"]["store"] == f"does not answer within {SECONDS:g} s"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_control_thread_that_has_ended_makes_it_unready(memory: Place) -> None:
    with served(memory) as running:
        control = running.server.local
        assert control is not None
        background = control.worker._listener._control  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        background.call_soon(lambda: asyncio.get_running_loop().stop())
        found = await eventually(lambda: asked(running, "/readyz"), lambda found: found.status_code == 503)
    assert found.json()["checks"]["control"] == "the thread that hears commands is late, or has ended"


async def test_however_often_it_is_asked_the_store_is_written_to_now_and_then(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody needs a token to ask: that must not keep a disk busy."""
    monkeypatch.setattr(health, "HOLDS", 3600.0)
    writes = 0

    class Counting(MemoryStore):
        async def shelve(self, shelf: str, *arguments: Any, **more: Any) -> None:
            nonlocal writes
            writes += shelf == "readiness"
            await super().shelve(shelf, *arguments, **more)

    with serving(Counting(memory.memory), review_every=None) as running:  # pyright: ignore[reportArgumentType]
        async with running.client() as client:
            found = [await client.get(f"{running.url}/readyz") for _ in range(3)]
            found += await asyncio.gather(*(client.get(f"{running.url}/readyz") for _ in range(20)))
    assert {one.status_code for one in found} == {200}
    assert writes == 1


async def test_mounted_without_its_lifespan_it_lives_and_is_not_ready(tmp_path: Path) -> None:
    server = Server(store=f"sqlite:///{tmp_path}/x.db", token=TOKEN, agents={})
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(server.app), base_url="http://localhost") as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).json()["code"] == "not_ready"
        assert (await client.get("/metrics")).json()["code"] == "not_started"
