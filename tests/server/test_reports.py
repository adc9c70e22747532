"""Reports, the checklist and proposals over HTTP; and the review that a server makes by itself."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from midcourse.analysis.reports.html import POLICY
from midcourse.analysis.reports.report import Report
from midcourse.analysis.reports.review import last_review, review
from midcourse.clock import SystemClock
from midcourse.errors import InvalidInput, StoreUnavailable
from midcourse.policy.versions import history
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store
from midcourse.server import Server, review_schedule
from midcourse.server.host_threads import ReadingThread
from midcourse.wiring import open_store
from tests.promises.harness import until_true
from tests.reports.stores import keep
from tests.reports.test_review import labelled
from tests.server.live_server import TOKEN, Running, serving

SINCE = {"since": 0}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store of sessions with labels, and what a review proposes from them."""
    where = f"sqlite:///{tmp_path}/runs.db"

    async def fill() -> None:
        store = await open_store(where)
        await keep(store, *labelled(20))
        await review(store, since=0.0, now=5000.0)
        await store.close()

    asyncio.run(fill())
    return where


@pytest.fixture
def running(url: str) -> Iterator[Running]:
    with serving(url) as found:
        yield found


@pytest.fixture
def client(running: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=running.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as one:
        yield one


def test_a_report_is_the_one_that_a_store_gives(client: httpx2.Client) -> None:
    content = client.get("/reports", params=SINCE).content
    report = msgspec.json.decode(content, type=Report)
    assert (report.sessions, report.interventions) == (20, 0)
    drift = next(row for row in report.signals if row.agent == "worker")
    assert (drift.signal, drift.wrong, drift.right) == ("scope_drift", 10, 10)
    assert [one.what for one in report.alerts] == ["False positives"]


def test_without_a_time_it_is_the_last_week_s(client: httpx2.Client) -> None:
    assert client.get("/reports").json()["sessions"] == 0


def test_the_page_comes_with_a_policy_under_which_nothing_in_it_runs(client: httpx2.Client) -> None:
    page = client.get("/reports", params={**SINCE, "format": "html"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == POLICY
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "False positives, scope_drift of worker" in page.text
    assert "Before it goes live" in page.text


@pytest.mark.parametrize(
    "parameters", [{"since": "x"}, {"since": -1}, {"since": "nan"}, {"since": "1e999"}, {"format": "pdf"}, {"sice": 1}]
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(client: httpx2.Client, parameters: dict[str, Any]) -> None:
    response = client.get("/reports", params=parameters)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")


def test_the_checklist_is_computed(client: httpx2.Client) -> None:
    items = {one["id"]: one for one in client.get("/checklist", params=SINCE).json()["items"]}
    assert items["durability"]["answer"] == "holds"
    assert items["false-positives"]["answer"] == "does not"
    assert items["budget"]["number"] == "0 of 20 sessions"


def test_a_proposal_is_accepted_once_and_its_policy_is_there(client: httpx2.Client) -> None:
    [found] = client.get("/proposals", params={"state": "open"}).json()["proposals"]
    address = f"/proposals/{found['id']}"
    done = client.post(f"{address}/accept", json={"why": "too eager"})
    assert (done.status_code, done.json()["state"], done.json()["by"]) == (200, "accepted", "local")
    assert done.json()["kept_as"] == "standard--worker@1"
    assert client.post(f"{address}/accept", json={"why": "too eager"}).json() == done.json()
    refused = client.post(f"{address}/refuse", json={"why": "no"})
    assert (refused.status_code, refused.json()["code"]) == (409, "proposal_settled")
    policy = client.get("/policies/standard--worker").json()
    assert (policy["document"]["signals"]["scope_drift"]["intervene"], policy["why"]) == (0.9, "too eager")
    assert client.get("/proposals", params={"state": "open"}).json() == {"proposals": [], "next": None}


def test_a_proposal_is_refused_with_a_reason_and_by_an_operator(client: httpx2.Client, running: Running) -> None:
    [found] = client.get("/proposals").json()["proposals"]
    token = client.post("/tokens", json={"name": "ann", "role": "approve"}).json()["token"]
    theirs = {"Authorization": f"Bearer {token}"}
    assert client.get("/proposals", headers=theirs).status_code == 200
    for body, headers, status in (({"why": "no"}, theirs, 403), ({"why": ""}, {}, 422), ({}, {}, 422)):
        response = client.post(f"/proposals/{found['id']}/refuse", json=body, headers=headers)
        assert response.status_code == status
    done = client.post(f"/proposals/{found['id']}/refuse", json={"why": "a bad week"}).json()
    assert (done["state"], done["why"]) == ("refused", "a bad week")


def test_a_stop_is_answered_while_a_long_report_is_read(client: httpx2.Client, running: Running) -> None:
    """The reading is a thread of its own: other requests do not wait for it."""
    control = running.server.control
    assert control is not None
    store = control.worker.store
    heads = store.heads

    entered, may_go_on = threading.Event(), threading.Event()

    async def slow(*given: Any) -> Any:
        if threading.current_thread().name == "midcourse-reading":  # others of the server look at sessions as well
            entered.set()
            may_go_on.wait()  # work that holds its loop
        return await heads(*given)

    setattr(store, "heads", slow)  # noqa: B010 - the store's own method
    try:
        with httpx2.Client(base_url=running.api, headers=client.headers, timeout=30) as other:
            reading = threading.Thread(target=lambda: other.get("/reports", params=SINCE))
            reading.start()
            assert entered.wait(30), "reports are read in the reading thread"
            assert client.get(f"{running.url}/healthz").status_code == 200
            assert reading.is_alive()
            may_go_on.set()
            reading.join()
    finally:
        may_go_on.set()
        setattr(store, "heads", heads)  # noqa: B010


# ---- the server's own review


class Watch(SystemClock):
    """A clock that the test sets, and that counts who looks at it."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.looks = 0

    def now(self) -> float:
        self.looks += 1
        return self.at


@asynccontextmanager
async def reviews(store: Store, clock: Clock) -> AsyncGenerator[None]:
    """The server's loop, every ten minutes."""
    reading = ReadingThread()
    task = asyncio.create_task(review_schedule.keep_reviewing(store, clock, reading, every=600.0, policy="standard"))
    yield
    task.cancel()
    reading.close()


async def until_last_is(store: Store, wanted: float) -> None:
    """Until the last review is of that time; the test's own timeout is the guard."""
    while await last_review(store) != wanted:
        await asyncio.sleep(0.01)


async def test_the_first_server_counts_from_its_start_and_the_next_one_goes_on_counting(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/runs.db")
    clock = Watch()
    await keep(store, *labelled(20))
    async with reviews(store, clock):
        await until_last_is(store, 1000.0)
    clock.at, clock.looks = 1500.0, 0
    async with reviews(store, clock):
        await until_true(lambda: clock.looks >= 2)  # what the time is, and how much is left; a third is a review's
        assert clock.looks == 2
    assert await last_review(store) == 1000.0  # not yet
    clock.at = 1601.0
    async with reviews(store, clock):
        await until_last_is(store, 1601.0)
    from midcourse.analysis.reports.review import proposals

    assert [one.agent for one in await proposals(store)] == ["worker"]
    assert await history(store, "standard--worker") == ()  # a person accepts it, or nobody
    await store.close()


async def test_a_review_that_fails_is_tried_again_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store("memory://")
    monkeypatch.setattr(review_schedule, "AGAIN", 0.01)
    tries = 0
    begin = review_schedule.begin_counting

    async def failing(store: Store, now: float) -> float:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise StoreUnavailable("The disk is away. Try again.")
        return await begin(store, now)

    monkeypatch.setattr(review_schedule, "begin_counting", failing)
    async with reviews(store, Watch()):
        await until_last_is(store, 1000.0)
    assert tries == 3
    assert "tried again later: The disk is away" in caplog.text
    await store.close()


def test_a_server_makes_reviews_unless_it_is_told_not_to(url: str) -> None:
    with serving(url, review_every=None) as running:
        assert running.server.review_every is None
    with pytest.raises(InvalidInput, match="A review every 1 s cannot be"):
        Server(store="memory://", token=TOKEN, review_every=1.0)
