"""The fleet's stream: everything once, then what changed, from one look at the store for all who follow."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from msgspec.structs import replace

from midcourse.core.ids import SessionId
from midcourse.ports.store import NEWEST, Head, HeadQuery
from midcourse.server import stream as streams
from midcourse.server.fleet_changes import MOST, FleetBoard
from midcourse.server.stream import LIST_PIECE, list_frames
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.testing.store_promises.fixtures import head
from tests.promises.harness import Place, resumable
from tests.server.manual_clock import StillClock
from tests.server.stream_reader import opened, served
from tests.server.test_bulk import begun, sent, waits


class Counted(MemoryStore):
    """A store whose heads are these, and which counts how often it is asked for them."""

    def __init__(self, *heads: Head) -> None:
        super().__init__()
        self.shown = {one.id: one for one in heads}
        self.looks = 0

    async def heads(self, query: HeadQuery = NEWEST) -> Sequence[Head]:
        """Newest first."""
        self.looks += 1
        return sorted(self.shown.values(), key=lambda one: -one.created_at)[: query.limit]


def numbered(number: int, **changes: Any) -> Head:
    """A head that is as new as its number is high."""
    return head(SessionId(changes.pop("id", f"sess_{number:04}")), created_at=float(number), **changes)


async def told(frames: AsyncIterator[bytes]) -> dict[str, Any]:
    """What the next frame says."""
    text = (await anext(frames)).decode()
    return json.loads(text.partition("data: ")[2])


def ids(frame: dict[str, Any]) -> list[str]:
    """Which sessions it tells of."""
    return [one["id"] for one in frame["sessions"]]


async def test_all_are_sent_once_in_pieces_and_then_what_changed(monkeypatch: Any) -> None:
    """A frame that would say nothing is not sent."""
    monkeypatch.setattr(streams, "LIST_EVERY", 0)
    clock = StillClock()
    store = Counted(*(numbered(number) for number in range(LIST_PIECE + 20)))
    frames = list_frames(FleetBoard(store, clock, 1.0), HeadQuery(limit=MOST))
    first, second = await told(frames), await told(frames)
    assert (len(first["sessions"]), len(second["sessions"])) == (LIST_PIECE, 20)
    assert (first["all"], first["counts"]) == (True, {"running": LIST_PIECE + 20})
    assert second.keys() == {"sessions", "gone"}

    clock.seconds += 1
    store.shown[SessionId("sess_0007")] = numbered(7, status="paused")
    changed = await told(frames)
    assert (ids(changed), changed["gone"]) == (["sess_0007"], [])
    assert changed["counts"] == {"running": LIST_PIECE + 19, "paused": 1}

    clock.seconds += 1
    store.shown[SessionId("sess_0008")] = numbered(8, finished_steps=3)
    changed = await told(frames)
    assert (ids(changed), "counts" in changed, "all" in changed) == (["sess_0008"], False, False)

    clock.seconds += 1
    del store.shown[SessionId("sess_0009")]
    assert (await told(frames))["gone"] == ["sess_0009"]


async def test_however_many_follow_the_store_is_looked_at_once() -> None:
    """And again only after a while, less often when a look takes long."""
    clock = StillClock()
    store = Counted(numbered(1))
    board = FleetBoard(store, clock, 1.0)
    for _ in range(5):
        assert ids(await told(list_frames(board, HeadQuery(limit=MOST)))) == ["sess_0001"]
    assert store.looks == 1
    same = (await board.look())[0]
    clock.seconds += 1
    store.shown = {one.id: replace(one) for one in store.shown.values()}
    assert (await board.look())[0] is same  # equal, so that nobody is told of it
    assert store.looks == 2


async def test_each_follows_what_it_wants_and_its_tenants_own() -> None:
    """The counts are of the filter, in every status: they say what another status would show."""
    store = Counted(
        numbered(1, agent="memo", task_class="long", labels=("repo:api",)),
        numbered(2, agent="memo", status="paused", goal="Late invoices"),
        numbered(3, agent="other", task_class="long"),
        numbered(4, id="acme~sess_0004", agent="memo"),
    )
    board = FleetBoard(store, StillClock(), 1.0)

    async def found(*, limit: int = MOST, **wanted: Any) -> tuple[list[str], dict[str, int]]:
        frame = await told(list_frames(board, HeadQuery(limit=limit, **wanted)))
        return ids(frame), frame["counts"]

    assert (await found(tenant="acme"))[0] == ["acme~sess_0004"]
    assert (await found(tenant=""))[0] == ["sess_0003", "sess_0002", "sess_0001"]
    assert (await found(agent="memo", tenant=""))[0] == ["sess_0002", "sess_0001"]
    assert (await found(task_class="long"))[0] == ["sess_0003", "sess_0001"]
    assert (await found(label="repo:api"))[0] == ["sess_0001"]
    assert (await found(search="LATE"))[0] == ["sess_0002"]
    assert await found(statuses=frozenset({"paused"}), tenant="") == (["sess_0002"], {"running": 2, "paused": 1})
    assert (await found(limit=1))[0] == ["acme~sess_0004"]


async def test_the_list_can_be_followed_over_http(memory: Place) -> None:
    """What happens to a session is in the next frame; pages take the same filters."""
    with served(memory, resumable(waits)) as server:
        async with server.client() as client:
            session = await begun(client, "Follow me")
            other = await begun(client, "Not me")
            query = {"search": "follow", "limit": 10_000}
            headers = {"Accept": "text/event-stream"}
            async with opened(client, "GET", "/sessions", params=query, headers=headers) as stream:
                first = (await stream.next()).data
                assert ids(first) == [session]
                assert first["counts"] == {"waiting": 1}
                assert first["sessions"][0]["open_asks"][0]["prompt"] == "Well?"
                await sent(client, "pause", [session, other])
                while (frame := (await stream.next()).data)["sessions"][0]["status"] != "paused":
                    assert frame["sessions"][0]["status"] == "pausing"
                assert frame["counts"] == {"paused": 1}
            page = (await client.get("/sessions", params=query)).json()
            assert [one["id"] for one in page["sessions"]] == [session]
            assert (await client.get("/sessions", params={"label": "none"})).json()["sessions"] == []
            assert (await client.get("/sessions", params={"task_class": "endless"})).status_code == 422
