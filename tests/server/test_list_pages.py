"""Every list comes in pages, by one opaque cursor: nothing is repeated or left out while things come and go."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import midcourse
from midcourse.analysis.reports import review
from midcourse.analysis.reports.proposals import Proposal
from midcourse.core import commands as cmd
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.policy_decision import Alarm
from midcourse.errors import InvalidInput
from midcourse.people.outbox import Outbox
from midcourse.people.webhooks import Delivery
from midcourse.policy.artifact_shelf import ARTIFACTS, artifact_items
from midcourse.policy.artifacts import ArtifactReported
from midcourse.policy.intervention_shelf import INTERVENTIONS, alarm_items
from midcourse.ports.store import Store
from midcourse.server.pages import Pages
from tests.promises.harness import Place, resumable
from tests.server.documented import document
from tests.server.stream_reader import served, until_status
from tests.unit.core.stories import STOP

LISTS: Final[Mapping[str, str]] = {
    "/agents": "agents",
    "/alarms": "batches",
    "/artifacts": "artifacts",
    "/audit": "entries",
    "/browser-sessions": "browser_sessions",
    "/inbox": "asks",
    "/interventions": "interventions",
    "/kill-switches": "switches",
    "/policies": "policies",
    "/policies/{name}/history": "versions",
    "/proposals": "proposals",
    "/sessions": "sessions",
    "/sessions/{session_id}/interventions": "interventions",
    "/tokens": "tokens",
    "/webhooks": "webhooks",
    "/webhooks/{webhook}/deliveries": "deliveries",
}
"""Every list, with what an answer calls its items."""
OF_POSITIONS: Final = {"/sessions/{session_id}/events"}
"""A journal's pages go on from a position, which is no cursor: every event has one, and streams go on from it, too."""
NEW: Final = {"scope": {"kind": "label", "value": "none"}, "reason": "drill"}


async def asks(run: midcourse.Run) -> object:
    return await run.ask("Well?", reason="need_input")


@dataclass
class Full:
    """A server that keeps some of everything."""

    client: httpx2.AsyncClient
    store: Store
    control: Any
    made: int = 0

    async def add(self) -> None:
        """One more in each list, behind, before or between those that are there."""
        number, self.made = self.made, self.made + 1
        name, at = f"{'bca'[number % 3]}{number}", 1_000.0 + (7 * number) % 11

        async def post(path: str, body: object) -> dict[str, Any]:
            answer = await self.client.post(path, json=body)
            assert answer.status_code in (200, 201), answer.text
            return dict(answer.json())

        session = (await post("/sessions", {"agent": "agent", "session_id": f"sess_{name}"}))["id"]
        await until_status(self.client, session, "waiting")
        token = (await post("/tokens", {"name": name, "role": "watch"}))["token"]
        await post("/login", {"credential": token, "replace": True})
        self.client.cookies.clear()
        hook = await post("/webhooks", {"url": f"https://8.8.8.8/{name}", "kinds": ["review.proposed"]})
        switch = (await post("/kill-switches", NEW))["id"]
        if number % 2:
            await post(f"/kill-switches/{switch}/lift", {"why": "over"})
        if number == 0:
            self.webhook, self.session = hook["webhook"]["id"], session
        for policy in ("careful", name):
            document = f"policy: {policy}\nabout: version {number}\n"
            saved = await self.client.put(f"/policies/{policy}", json={"document": document, "why": "x"})
            assert saved.status_code == 200, saved.text
        row = Delivery(id=name, webhook=self.webhook, kind="webhook.test", made_at=at, body="{}", next_at=1e12)
        await Outbox(self.store).put([row])
        told = ArtifactReported(name=name, session=session, agent="agent", position=number + 1, made_at=at)
        await self.store.shelve(ARTIFACTS, artifact_items(told))
        alarm = Alarm(at=at, session=session, intervention="int_shelf", agent="agent", level="pause")
        await self.store.shelve(INTERVENTIONS, alarm_items([alarm]))
        made = Proposal(id=name, name=name, policy="", changes=(), evidence=(), document={}, made_at=at)
        await self.store.shelve(review.SHELF, {name: msgspec.json.encode(made)})
        decision = replace(STOP, level="notify", wanted="notify")
        tell = cmd.Intervene(id=CommandId(f"i{number}"), by="policy:standard@1", decision=decision)
        await self.control.send(SessionId(self.session), tell, until="decided", wait=10)

    async def page(self, path: str, **query: object) -> dict[str, Any]:
        whole = path.format(name="careful", session_id=self.session, webhook=self.webhook)
        answer = await self.client.get(whole, params={name: str(value) for name, value in query.items()})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def pages(self, path: str, name: str, **query: object) -> list[Any]:
        """A list by pages of two; ``busy``: with one more in each list after each page."""
        is_busy = query.pop("busy", False)
        found: list[Any] = []
        page = await self.page(path, limit=2, **query)
        while True:
            found += page[name]
            if page["next"] is None:
                return found
            assert len(page[name]) == 2
            if is_busy and len(found) < 6:
                await self.add()
            page = await self.page(path, limit=2, cursor=page["next"], **query)


def _id(item: Any, path: str) -> str:
    """What an item is, whatever changes of it."""
    known = ("id", "seq", "intervention", "ask", "version" if path.endswith("/history") else "name")
    parts = [item.get("session"), *(item.get(one) for one in known), str(item.get("alarms", ""))]
    return "|".join(str(one) for one in parts)


def test_every_list_has_pages_of_one_kind() -> None:
    """In the document: ``limit`` and ``cursor``, ``next`` in the answer, and what a wrong cursor is."""
    found: set[str] = set()
    for path, methods in document()["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        name = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        properties: dict[str, Any] = document()["components"]["schemas"].get(name, {}).get("properties", {})
        kinds = [one for one in properties.values() if one.get("type") == "array"]
        if name != "Inbox" and (len(kinds) != 1 or len(properties.keys() - {"next"}) != 1):
            continue
        if name == "Checklist":  # a document: its items are always the same
            continue
        address = path.removeprefix("/api/v1")
        taken = {one["name"] for one in methods["get"]["parameters"]}
        if address in OF_POSITIONS:
            assert {"limit", "after"} <= taken
            continue
        found.add(address)
        assert {"limit", "cursor"} <= taken, address
        assert properties["next"]["type"] == ["string", "null"], address
        assert "invalid_cursor" in str(methods["get"]["responses"]["400"]), address
    assert found == LISTS.keys()


@pytest.mark.timeout(240)
async def test_page_by_page_a_list_is_whole_also_while_others_are_added(memory: Place) -> None:
    with served(memory, *(resumable(asks, name=name) for name in ("agent", "b", "c"))) as server:
        async with server.client() as client:
            control: Any = server.server.local
            full = Full(client, control.worker.store, control)
            for _ in range(5):
                await full.add()
            for path, name in LISTS.items():
                whole = (await full.page(path, limit=1000))[name]
                assert len(whole) >= 3, path
                assert await full.pages(path, name) == whole, path
                before = [_id(one, path) for one in whole]
                assert len(set(before)) == len(before), path
                seen = [_id(one, path) for one in await full.pages(path, name, busy=True)]
                assert len(set(seen)) == len(seen), path
                assert [one for one in seen if one in before] == before, path
            back = await full.pages("/audit", "entries", before=0)
            assert sorted(one["seq"] for one in back) == list(range(1, len(back) + 1))


async def test_what_is_no_cursor_of_a_list_is_refused(memory: Place) -> None:
    with served(memory, resumable(asks)) as server:
        async with server.client() as client:
            full = Full(client, server.server.local.worker.store, server.server.local)  # pyright: ignore[reportOptionalMemberAccess]
            for _ in range(3):
                await full.add()
            cursors = {path: (await full.page(path, limit=1))["next"] for path in LISTS}
            for path in LISTS:
                other = cursors["/tokens" if path != "/tokens" else "/webhooks"]
                for wrong in ("", "sess_b0", "WzFd", "\u00fc", "A" * 5000, f"{cursors[path]}x", other):
                    where = path.format(name="careful", session_id=full.session, webhook=full.webhook)
                    answer = await client.get(where, params={"cursor": wrong})
                    problem = answer.json()
                    assert (answer.status_code, problem["code"]) == (400, "invalid_cursor"), (path, wrong)
                    assert problem["field"] == "cursor"


@given(
    there=st.sets(st.tuples(st.integers(0, 5), st.text("ab", max_size=2))),
    changes=st.lists(st.sets(st.tuples(st.integers(0, 5), st.text("ab", max_size=2)), max_size=3), max_size=8),
    limit=st.integers(1, 4),
)
def test_what_stays_in_a_list_is_on_one_page_of_it(
    there: set[tuple[int, str]], changes: list[set[tuple[int, str]]], limit: int
) -> None:
    """Whatever is added or removed between two pages."""
    pages = Pages[tuple[int, str]]("things", tuple[int, str], lambda one: (-one[0], one[1]))
    now, stays, seen = set(there), set(there), list[tuple[int, str]]()
    cursor: str | None = None
    waiting = list(changes)
    while True:
        page = pages.of(now, limit, cursor)
        seen += page.items
        if (cursor := page.next) is None:
            break
        now ^= waiting.pop() if waiting else set()
        stays &= now
    assert len(set(seen)) == len(seen)
    assert stays <= set(seen)
    assert seen == sorted(seen, key=lambda one: (-one[0], one[1]))


@given(st.text())
def test_no_text_is_taken_for_a_cursor(text: str) -> None:
    pages = Pages[str]("things", str, lambda one: one)
    with pytest.raises(InvalidInput) as refused:
        pages.of(["a", "b"], 1, text)
    assert refused.value.code == "invalid_cursor"
    assert pages.of(["a", "b"], 1, pages.cursor(text)).items in ([], ["a"], ["b"])
