"""Streams of events: each event once and in order, whatever happens to the connection, the reader or the server."""

import asyncio
import contextlib
import json
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Self

import httpx2
import pytest

import midcourse
from midcourse.clock import SystemClock
from midcourse.core.events import Recorded, StepFinished
from midcourse.core.ids import Position, SessionId
from midcourse.runtime.fanout import Watcher
from midcourse.server import CallerLimits, stream
from midcourse.server.http_protocol import PatientProtocol
from tests.promises.harness import NEVER, Place, resumable
from tests.server.live_server import TOKEN, Running
from tests.server.server_process import Alone, alone
from tests.server.stream_reader import Data, Frame, Latch, Stream, events_of, eventually, opened, served, until_status
from tests.server.test_document import check

SSE = {"Accept": "text/event-stream"}
STALLED = 500
WORDS = 150


def watching(client: httpx2.AsyncClient, session: str, last: str | None = None, **query: Any) -> Any:
    """A stream of a session's events, from the start or from the last id seen."""
    headers = SSE if last is None else {**SSE, "Last-Event-ID": last}
    return opened(client, "GET", f"/sessions/{session}/events", headers=headers, params=query)


@midcourse.tool(effect="read")
async def look(number: int) -> int:
    """A look at a number."""
    return number


@midcourse.tool(effect="read")
async def read(page: int) -> str:
    """A page of a book: more than a socket's buffers hold, in the end."""
    return f"{page:03}" * 10_000


async def say(count: int) -> AsyncIterator[str]:
    """So many words."""
    for number in range(count):
        yield f"{number} "
        if number % 20 == 0:
            await asyncio.sleep(0)


async def worker(run: midcourse.Run) -> str:
    """Looks and talks."""
    text = ""
    for number in range(12):
        await run.step("look", look, number)
        text += await run.stream("say", say, 3)
    return text


WORKER = resumable(worker)


async def started(client: httpx2.AsyncClient, agent: str = "agent", goal: str = "") -> str:
    """A new session."""
    response = await client.post("/sessions", json={"agent": agent, "goal": goal})
    assert response.status_code == 201, response.text
    return response.json()["id"]


def in_order(frames: list[Frame]) -> bool:
    """Whether each event is there once, in order, from the first on."""
    return [frame.id for frame in frames] == [str(number + 1) for number in range(len(frames))]


# ---- lost connections


async def test_a_client_that_drops_its_connection_at_every_event_sees_each_once(place: Place) -> None:
    """One event for each connection, then gone; the last id seen is all it brings back. Also to another server."""
    seen: list[Frame] = []
    whole: list[Data] = []
    session = ""
    while not seen or seen[-1].event != "session.completed":
        with served(place, WORKER) as server:
            async with server.client() as client:
                session = session or await started(client)
                for _ in range(20):
                    async with watching(client, session, seen[-1].id if seen else None) as events:
                        seen.append(await events.next())
                    if seen[-1].event == "session.completed":
                        whole = await events_of(client, session)
                        break
    assert in_order(seen)
    assert [frame.data for frame in seen] == whole
    assert all(frame.event == frame.data["type"] for frame in seen)
    assert all(frame.id == str(frame.data["position"]) for frame in seen)


async def test_each_event_comes_once_although_the_server_is_killed_again_and_again(memory: Place) -> None:
    """kill -9 while the client reads; the next server goes on with the session, the client with its last id."""
    seen: list[Frame] = []
    session, port = "", 0
    for _ in range(2):
        with alone(memory.path, port) as server:
            port = server.port
            async with server.client() as client:
                goal = json.dumps({"steps": 100_000, "pace": 0.02, "words": 5})
                session = session or await started(client, "counter", goal)
                before = len(seen)
                while len(seen) < before + 20:
                    async with watching(client, session, seen[-1].id if seen else None) as events:
                        seen += [await events.next(), await events.next()]
                async with watching(client, session, seen[-1].id) as events:
                    seen.append(await events.next())
                    server.kill()
                    seen += await _what_was_under_way(events)
    with alone(memory.path, port) as server:
        async with server.client() as client:
            await client.post(f"/sessions/{session}/cancel", json={"grace": 0, "until": "stopped"})
            async with watching(client, session, seen[-1].id, follow=False) as events:
                seen += await events.rest()
            whole = await events_of(client, session)
    assert in_order(seen)
    assert [frame.data for frame in seen] == whole
    assert seen[-1].event == "session.cancelled"
    assert sum(frame.event == "session.taken" for frame in seen) >= 2


async def _what_was_under_way(events: Stream) -> list[Frame]:
    """What a killed server had sent and nobody had read."""
    frames: list[Frame] = []
    with contextlib.suppress(httpx2.TransportError, StopAsyncIteration):
        while True:
            frames.append(await events.next())
    return frames


async def test_after_in_the_query_is_what_a_header_overrides(memory: Place) -> None:
    """A browser that comes back keeps the address it was opened with."""
    with served(memory, WORKER) as server:
        async with server.client() as client:
            session = await started(client)
            await until_status(client, session, "completed")
            async with watching(client, session, after=3) as events:
                assert (await events.next()).id == "4"
            async with watching(client, session, "7", after=3) as events:
                assert (await events.next()).id == "8"


@pytest.mark.parametrize(
    "last", ["99999", "{end}1", "x", "-1", "1e3", "9" * 30, "sess_other@1", "{id}@99999"], ids=lambda one: one[:12]
)
async def test_an_id_that_the_journal_has_never_given_begins_anew_and_says_so(memory: Place, last: str) -> None:
    """Of a store that was restored since, of another session, or nonsense: nobody loses what comes now in silence."""
    with served(memory, WORKER) as server:
        async with server.client() as client:
            session = await started(client)
            await until_status(client, session, "completed")
            whole = await events_of(client, session)
            named = last.format(id=session, end=len(whole))
            async with watching(client, session, named, follow=False) as events:
                reset, *seen = await events.rest()
            assert (reset.event, reset.id, reset.data["position"]) == ("reset", "0", len(whole))
            assert (reset.data["session"], reset.data["last_event_id"]) == (session, named)
            assert [frame.data for frame in seen] == whole
            # And so is one that is only in the address, and one of a chat.
            if named.isdigit() and len(named) < 16:
                async with watching(client, session, after=int(named), follow=False) as events:
                    assert [frame.event for frame in await events.rest()][:2] == ["reset", "session.created"]
                page = await client.get(f"/sessions/{session}/events", params={"after": named})
                assert (page.status_code, page.json()["field"]) == (422, "after")
            headers = {"Last-Event-ID": named}
            page = await client.get(f"/sessions/{session}/events", headers=headers)
            assert (page.status_code, page.json()["field"]) == (422, "Last-Event-ID")
            async with opened(client, "GET", f"/chat/{session}") as chat:
                frames = [frame.data for frame in await chat.rest()]
            async with opened(client, "GET", f"/chat/{session}", headers=headers) as chat:
                first, *rest = await chat.rest()
            assert (first.data["type"], first.id, first.data["session_id"]) == ("reset", "0", session)
            check(first.data, {"$ref": "#/components/schemas/Frame"})
            assert [frame.data for frame in rest] == frames


async def test_the_last_id_of_a_journal_is_its_own_and_resets_nothing(memory: Place) -> None:
    with served(memory, WORKER) as server:
        async with server.client() as client:
            session = await started(client)
            await until_status(client, session, "completed")
            end = len(await events_of(client, session))
            for last in (str(end), f"{session}@{end}", "0"):
                async with watching(client, session, last, follow=False) as events:
                    seen = await events.rest()
                assert [frame.event for frame in seen[:1]] == ([] if last != "0" else ["session.created"])
            page = await client.get(f"/sessions/{session}/events", params={"after": end})
            assert page.json() == {"events": [], "next": None}


async def test_a_stream_goes_on_into_later_turns_unless_it_is_told_not_to(memory: Place) -> None:
    """``follow=false`` ends with the session; the default is there for the next turn."""
    with served(memory, WORKER) as server:
        async with server.client() as client:
            session = await started(client)
            async with watching(client, session) as following, watching(client, session, follow=False) as ending:
                assert (await ending.rest())[-1].event == "session.completed"
                while (await following.next()).event != "session.completed":
                    pass
                await client.post(f"/sessions/{session}/message", json={"text": "again"})
                assert [(await following.next()).event for _ in range(2)][-1] in (
                    "session.taken",
                    "session.turn_opened",
                )


async def test_a_stream_says_when_it_has_caught_up_and_why_it_ends(memory: Place) -> None:
    latch = Latch()

    async def agent(run: midcourse.Run) -> None:
        await run.step("wait", latch.wait)

    with served(memory, resumable(agent)) as server:
        async with server.client() as client:
            session = await started(client)
            await until_status(client, session, "running")
            before = len(await events_of(client, session))
            async with watching(client, session, follow=False) as events:
                latch.set()
                seen = await events.rest()
            (caught_at, caught), (ended_at, end) = events.marks
            assert before <= caught_at < len(seen)
            assert caught == Frame({"type": "caught_up", "position": caught_at}, "caught_up")
            assert (ended_at, end) == (len(seen), Frame({"type": "end", "reason": "session_ended"}, "end"))
            async with watching(client, session, seen[-1].id, follow=False) as again:
                assert await again.rest() == []
            assert [mark.event for _, mark in again.marks] == ["caught_up", "end"]


async def test_deltas_are_previews_without_an_id(place: Place) -> None:
    """They come only if they are wanted, carry their place, and are all in the durable segments."""
    latch = Latch()

    async def speak() -> AsyncIterator[str]:
        await latch.wait()
        for word in ("a ", "b ", "c"):
            yield word

    async def agent(run: midcourse.Run) -> str:
        return await run.stream("speak", speak)

    with served(place, resumable(agent)) as server:
        async with server.client() as client:
            session = await started(client)
            async with (
                watching(client, session, deltas=True, follow=False) as previews,
                watching(client, session, follow=False) as plain,
            ):
                await previews.next()
                await plain.next()
                latch.set()
                await previews.rest()
                await plain.rest()
    deltas = [frame for frame in previews.seen if frame.event == "delta"]
    assert "".join(frame.data["text"] for frame in deltas) == "a b c"
    assert all(frame.id == "" for frame in deltas)
    assert {frozenset(frame.data) for frame in deltas} == {frozenset({"step", "attempt", "offset", "text"})}
    assert [frame for frame in previews.seen if frame.event != "delta"] == plain.seen
    assert "".join(frame.data["data"]["text"] for frame in plain.seen if frame.event == "segment.written") == "a b c"


# ---- slow readers


async def test_a_slow_reader_misses_nothing(place: Place) -> None:
    """It reads when the agent has long ended, far behind, and finds every event."""

    async def agent(run: midcourse.Run) -> int:
        for number in range(1500):
            await run.step("look", look, number)
        return 1500

    with served(place, resumable(agent)) as server:
        async with server.client() as client:
            session = await started(client)
            async with watching(client, session, follow=False) as slow:
                await slow.next()
                await until_status(client, session, "completed")
                seen = await slow.rest()
    assert len(seen) > 3000
    assert in_order(seen)
    assert seen[-1].event == "session.completed"


class Readers(list[socket.socket]):
    """Open connections, closed at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self:
            one.close()


async def test_a_watcher_is_told_once_until_it_looks_and_then_again() -> None:
    """What tells a stalled reader costs nothing, and one that reads is woken each time."""
    watcher = Watcher(deltas=False, only_ends=False, clock=SystemClock())
    for _ in range(3):
        for _ in range(5):
            await asyncio.to_thread(watcher.poke)
        async with asyncio.timeout(20):
            await watcher.wait(NEVER)
        watcher.poke()
        async with asyncio.timeout(20):
            await watcher.wait(NEVER)


def stalled(port: int, session: str) -> socket.socket:
    """A reader that asks for everything and reads nothing, with as little room in between as there can be."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(("127.0.0.1", port))
    lines = (
        f"GET /api/v1/sessions/{session}/events?deltas=true HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {TOKEN}",
        "Accept: text/event-stream",
    )
    reader.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
    return reader


def memory_of(server: Alone) -> int:
    """Bytes of the process that are in memory."""
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as numbers:
        return int(numbers.read().split()[1]) * 4096


async def test_500_stalled_readers_hurt_nobody(memory: Place) -> None:
    """Agents at full speed end, controls are answered, and what a stalled reader costs has a bound."""
    with alone(memory.path) as server, Readers() as readers:
        async with server.client() as client:
            goal = json.dumps({"steps": 20, "words": WORDS})
            warm = await started(client, "counter", goal)
            await until_status(client, warm, "completed")
            before = memory_of(server)
            sessions = [await started(client, "counter", goal) for _ in range(4)]
            paused = await started(client, "counter", json.dumps({"steps": 100_000, "pace": 0.001}))
            watched = [*sessions, paused]
            for number in range(STALLED):
                readers.append(stalled(server.port, watched[number % len(watched)]))
            reply = await client.post(f"/sessions/{paused}/pause", json={"until": "stopped", "wait": 30})
            assert reply.json()["level"] == "stopped"
            for session in sessions:
                found = (await client.get(f"/sessions/{session}/result", params={"wait": 25})).json()
                while not found["ended"]:
                    found = (await client.get(f"/sessions/{session}/result", params={"wait": 25})).json()
                assert found["result"] == 20
            assert (await client.post(f"/sessions/{paused}/cancel", json={"grace": 0})).status_code == 200
            each = (memory_of(server) - before) / STALLED
            assert each < 600_000, f"{each:,.0f} bytes for each stalled reader"
            # And somebody who does read sees all of it.
            async with watching(client, sessions[0], follow=False) as reading:
                assert in_order(await reading.rest())


async def test_a_reader_that_takes_nothing_for_long_is_let_go(memory: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place, its connection and its buffers are free again; it may come back with its last id."""
    monkeypatch.setattr(PatientProtocol, "stalled_seconds", 0.3)

    async def agent(run: midcourse.Run) -> int:
        for number in range(220):
            await run.step("read", read, number)
        return 0

    with served(memory, resumable(agent)) as server, Readers() as readers:
        async with server.client() as client:
            session = await started(client)
            await client.get(f"/sessions/{session}/result", params={"wait": 30})
            readers.append(stalled(int(server.url.rpartition(":")[2]), session))
            await eventually(lambda: _open_streams(server), lambda count: count == 1)
            await eventually(lambda: _open_streams(server), lambda count: count == 0)

            def drained() -> bytes:
                heard = b""
                try:
                    while piece := readers[0].recv(65536):
                        heard += piece
                except ConnectionResetError:
                    pass
                return heard

            heard = await asyncio.to_thread(drained)
            assert b"session.completed" not in heard


async def _open_streams(server: Running) -> int:
    return len(server.server.app.state.streams)


# ---- ends


async def test_a_revocation_ends_the_streams_of_a_token_and_of_a_browser_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an end, not as a broken connection; others' streams go on. Nothing waits for the next look."""
    monkeypatch.setattr(stream, "RECHECK", 3600.0)
    latch = Latch()

    async def agent(run: midcourse.Run) -> None:
        await run.step("wait", latch.wait)

    with served(place, resumable(agent)) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            token = (await client.post("/tokens", json={"name": "ann", "role": "watch"})).json()["token"]
            ann = await stack.enter_async_context(server.client(token))
            browsers = [await stack.enter_async_context(browser(server, token)) for _ in range(3)]
            session = await started(client)
            hers, first, second, third = [
                await stack.enter_async_context(watching(one, session)) for one in (ann, *browsers)
            ]
            ours = await stack.enter_async_context(watching(client, session))
            for one in (hers, first, second, third):
                await one.next()
            assert (await browsers[0].delete("/login", headers={"Origin": server.url})).status_code == 204
            await first.rest()
            name = (await browsers[1].get("/login")).json()["id"]
            assert (await client.delete(f"/browser-sessions/{name}")).status_code == 204
            await second.rest()
            assert (await browsers[2].get("/me")).status_code == 200
            assert (await client.delete("/tokens/ann")).status_code == 204
            await hers.rest()
            await third.rest()
            for one in (hers, first, second, third):
                assert one.marks[-1][1].data == {"type": "end", "reason": "not_allowed"}
            for one in (ann, *browsers):
                assert (await one.get(f"/sessions/{session}")).status_code == 401
            latch.set()
            while (await ours.next()).event != "session.completed":
                pass


async def test_a_revocation_in_another_process_and_an_expiry_end_the_streams_soon(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process says nothing to this one: each stream asks again now and then."""
    monkeypatch.setattr(stream, "RECHECK", 0.05)

    async def agent(run: midcourse.Run) -> object:
        return await run.ask("Well?", reason="need_input")

    with served(memory, resumable(agent)) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            clock = Ahead()
            access = server.server.app.state.access
            access.tokens._clock = access.logins._clock = clock  # noqa: SLF001 - what an hour does
            made = [
                (await client.post("/tokens", json={"name": name, "role": "watch", "lifetime": 3600})).json()["token"]
                for name in ("ann", "bob")
            ]
            ann, bob = [await stack.enter_async_context(server.client(token)) for token in made]
            session = await started(client)
            hers = await stack.enter_async_context(watching(ann, session))
            his = await stack.enter_async_context(watching(bob, session))
            for one in (hers, his):
                await one.next()
            # As another process does it: the row is gone, and nobody here was told.
            await access.tokens._store.shelve("tokens", {"ann": None})  # noqa: SLF001
            await hers.rest()
            assert (await bob.get("/me")).status_code == 200
            clock.seconds = 3600
            await his.rest()
            assert (await bob.get("/me")).status_code == 401


class Ahead(SystemClock):
    """A clock that can be set forward."""

    seconds = 0.0

    def now(self) -> float:
        """The time, and what was added to it."""
        return super().now() + self.seconds


@contextlib.asynccontextmanager
async def browser(server: Running, token: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """A browser that has logged in with a token."""
    async with httpx2.AsyncClient(base_url=server.api, timeout=30) as one:
        entered = await one.post("/login", json={"credential": token})
        one.headers["Midcourse-Page"] = entered.json()["page_key"]
        yield one


async def test_streams_have_places_and_give_them_back(memory: Place) -> None:
    """Of each token and in all; a place is free when its stream ended or its client has gone."""
    with served(memory, WORKER, limits=CallerLimits(streams_each=2, streams=3)) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            made = await client.post("/tokens", json={"name": "ann", "role": "watch"})
            ann = await stack.enter_async_context(server.client(made.json()["token"]))
            session = await started(client)
            path = f"/sessions/{session}/events"
            async with watching(client, session), watching(client, session):
                response = await client.get(path, headers=SSE)
                assert (response.status_code, response.json()["code"]) == (429, "too_many_streams")
                assert response.headers["retry-after"]
                async with watching(ann, session):
                    response = await ann.get(path, headers=SSE)
                    assert response.json()["code"] == "too_many_streams"
                    assert (await client.get(path)).status_code == 200, "a page is no stream"
            await eventually(lambda: _open_streams(server), lambda count: count == 0)
            for _ in range(5):
                async with watching(client, session, follow=False) as ending:
                    await ending.rest()


async def test_a_server_that_stops_ends_its_streams(memory: Place) -> None:
    """SIGTERM: each stream has an end, the process ends by itself, and another goes on with everything."""
    with alone(memory.path) as server:
        async with server.client() as client:
            session = await started(client, "asker", "Well?")
            await until_status(client, session, "waiting")
            async with (
                watching(client, session) as events,
                opened(client, "GET", f"/chat/{session}") as chat,
            ):
                await events.next()
                await chat.next()
                server.send(signal.SIGTERM)
                await events.rest()
                await chat.rest()
            for one in (events, chat):
                assert one.marks[-1][1].data == {"type": "end", "reason": "server_stopping"}
            assert await asyncio.to_thread(server.process.wait) in (0, -signal.SIGTERM)
            last = events.seen[-1].id
    with alone(memory.path) as server:
        async with server.client() as client:
            async with watching(client, session, last, follow=False) as events:
                await client.post(f"/sessions/{session}/answer", json={"value": "fine"})
                seen = await events.rest()
            assert [frame.id for frame in seen] == [str(int(last) + n + 1) for n in range(len(seen))]
            assert seen[-1].event == "session.completed"


async def test_large_events_come_in_small_pieces(memory: Place) -> None:
    """What a stalled reader holds, and what a page weighs, is bounded in bytes; all of it comes, each event once."""

    async def reader(run: midcourse.Run) -> object:
        for page in range(100):
            await run.step("read", read, page)
        return "read"

    with served(memory, resumable(reader, name="reader")) as server:
        async with server.client() as client:
            made = await client.post("/sessions", json={"agent": "reader", "session_id": "sess_book"})
            assert made.status_code == 201
            await until_status(client, "sess_book", "completed")
            control = server.server.local
            assert control is not None
            seen: list[int] = []
            batches = control.batches(SessionId("sess_book"), after=Position(0), deltas=False, follow=False)
            async for batch in batches:
                seen += [one.position for one in batch if isinstance(one, Recorded)]
                assert sum(isinstance(one, Recorded) and isinstance(one.event, StepFinished) for one in batch) <= 5
            paged: list[int] = []
            after: int | None = 0
            while after is not None:
                page = await client.get("/sessions/sess_book/events", params={"after": after, "limit": 1000})
                assert len(page.content) < 2.5 * 1024 * 1024
                paged += [one["position"] for one in page.json()["events"]]
                after = page.json()["next"]
            assert seen == paged == list(range(1, len(seen) + 1))
            assert len(seen) > 200
