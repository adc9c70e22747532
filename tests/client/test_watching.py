"""Every event once and in order, whatever happens to the connection, and wherever its bytes are torn apart."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import midcourse
from midcourse.clock import SystemClock
from midcourse.core import events as ev
from midcourse.core.events import Recorded
from midcourse.core.ids import Position, StepId
from midcourse.core.session import Status
from midcourse.errors import InvalidInput
from tests.client.scripted_server import (
    LINGER,
    SESSION,
    Answer,
    Scripted,
    frame,
    problem,
    said,
    scripted,
    session,
    stream,
)

TEXTS = ("plain", "täglich 日本 🚲", "two\nlines\r\nand\u2028more", 'quoted "x" \\ :id: 7', "")


def segment(position: int, text: str = "x") -> Recorded:
    event = ev.SegmentWritten(step=StepId("1/say#0"), attempt=1, offset=position, text=text)
    return Recorded(Position(position), 1.0 + position, event)


ALL = tuple(segment(number, TEXTS[number % len(TEXTS)]) for number in range(1, 8))
DELTA = 'event: delta\ndata: {"step":"1/say#0","attempt":1,"offset":3,"text":"hé"}\n\n'


class Ahead(SystemClock):
    """A clock that the test puts forward, and that counts who looks at it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + self.seconds


async def watched(server: Scripted, after: int = 0, **options: bool) -> list[object]:
    async with midcourse.connect(server.url, patience=60.0) as remote:
        handle = await remote.get(SESSION)
        return [event async for event in handle.watch(after, **options)]


def over(position: int) -> bytes:
    return session(Status.COMPLETED, position)


async def test_it_ends_with_the_session() -> None:
    async with scripted(session(), stream(*map(frame, ALL)), over(7)) as server:
        assert await watched(server) == list(ALL)
    assert server.asked[1].query == {"after": ["0"], "deltas": ["false"], "follow": ["false"]}
    assert "last-event-id" not in server.asked[1].headers
    assert server.asked[1].headers["accept"] == "text/event-stream"


async def test_a_stream_that_breaks_goes_on_behind_the_last_event_seen() -> None:
    answers: tuple[Answer, ...] = (
        session(),
        stream(*map(frame, ALL[:2]), frame(ALL[2])[:-9], cut=True),
        stream(cut=True),
        stream(*map(frame, ALL[1:5]), cut=True),  # a server that says again what was seen
        stream(*map(frame, ALL[5:])),
        over(7),
    )
    async with scripted(*answers) as server:
        assert await watched(server) == list(ALL)
    assert [one.headers.get("last-event-id") for one in server.asked[1:5]] == [None, "2", "2", "5"]


async def test_a_journal_that_ends_before_what_was_seen_is_an_error_and_no_silence() -> None:
    """The store was restored from a backup meanwhile; the same is said where the store is open in this program."""
    data = f'{{"session":"{SESSION}","last_event_id":"3","position":2,"detail":"x"}}'
    reset = f"id: 0\nevent: reset\ndata: {data}\n\n"
    async with scripted(
        session(), stream(*map(frame, ALL[:3]), cut=True), stream(reset, *map(frame, ALL[:2]))
    ) as server:
        with pytest.raises(InvalidInput, match="has no event 3: its journal ends at 2") as refused:
            await watched(server)
    assert (refused.value.code, refused.value.fields["position"]) == ("unknown_position", 2)

    @midcourse.agent
    async def quick(run: midcourse.Run) -> None:
        pass

    async with midcourse.open("memory://") as mc:
        handle = await mc.start(quick)
        await handle.result()
        end = (await handle.state()).position
        with pytest.raises(InvalidInput, match=f"has no event {end + 1}: its journal ends at {end}") as refused:
            await anext(handle.watch(end + 1))
    assert refused.value.code == "unknown_position"


async def test_a_stream_that_is_closed_politely_before_the_end_is_opened_again() -> None:
    answers = (
        session(),
        stream(*map(frame, ALL[:3])),
        session(Status.RUNNING, 3),
        stream(*map(frame, ALL[3:])),
        over(7),
    )
    async with scripted(*answers) as server:
        assert await watched(server) == list(ALL)


async def test_an_end_that_was_not_read_to_its_last_event_is_not_the_end() -> None:
    answers = (session(), stream(*map(frame, ALL[:3])), over(7), stream(*map(frame, ALL[3:])), over(7))
    async with scripted(*answers) as server:
        assert await watched(server) == list(ALL)


async def test_it_goes_on_across_a_restart_of_the_server() -> None:
    seen: list[object] = []
    async with scripted(session(), stream(*map(frame, ALL[:3]), cut=True)) as first:
        port = first.port
        remote = midcourse.connect(first.url)
        opened = await remote.__aenter__()
        watching = (await opened.get(SESSION)).watch()
        for _ in range(3):
            seen.append(await anext(watching))
    waiting = asyncio.ensure_future(rest_of(watching))
    await asyncio.sleep(0.4)  # nobody listens there meanwhile
    async with scripted(stream(*map(frame, ALL[3:])), over(7), port=port) as second:
        seen += await waiting
        await remote.__aexit__(None, None, None)
    assert seen == list(ALL)
    assert second.asked[0].headers["last-event-id"] == "3"


async def rest_of(watching: AsyncIterator[object]) -> list[object]:
    return [event async for event in watching]


async def test_previews_are_deltas_and_only_come_when_wanted() -> None:
    said_then = stream(frame(ALL[0]), DELTA, ": still here\n\n", frame(ALL[1]))
    async with scripted(session(), said_then, over(2)) as server:
        seen = await watched(server, deltas=True)
    assert seen == [ALL[0], midcourse.Delta(SESSION, "1/say#0", 1, 3, "hé"), ALL[1]]
    assert server.asked[1].query["deltas"] == ["true"]
    async with scripted(session(), said_then, over(2)) as server:
        assert await watched(server) == [ALL[0], ALL[1]]


async def test_who_follows_is_not_sent_away_at_the_end() -> None:
    answers = (session(), stream(*map(frame, ALL[:3])), stream(*map(frame, ALL[3:])), problem(401, "unauthorized"))
    seen: list[object] = []
    async with scripted(*answers) as server, midcourse.connect(server.url) as remote:
        handle = await remote.get(SESSION)
        watching = handle.watch(follow=True)
        seen += [await anext(watching) for _ in ALL]
        with pytest.raises(midcourse.MidcourseError):  # the token was taken back: that ends it
            await anext(watching)
    assert seen == list(ALL)
    assert [one.query["follow"] for one in server.asked[1:]] == [["true"]] * 3


async def test_a_server_that_is_too_busy_is_asked_again() -> None:
    busy = problem(503, "store_unavailable")
    async with scripted(session(), busy, said(b"", 502), stream(*map(frame, ALL)), over(7)) as server:
        assert await watched(server) == list(ALL)


async def test_a_server_that_stays_away_ends_it_with_a_sentence() -> None:
    async with (
        scripted(session(), stream(frame(ALL[0]), cut=True), problem(503, "store_unavailable")) as server,
        midcourse.connect(server.url, patience=0.3) as remote,
    ):
        watching = (await remote.get(SESSION)).watch()
        assert await anext(watching) == ALL[0]
        with pytest.raises(midcourse.StoreError):
            await anext(watching)


async def test_a_stream_on_which_nothing_happens_may_break_as_often_as_it_likes() -> None:
    idle = [*stream(cut=True), LINGER]
    answers = (session(), idle, idle, idle, stream(*map(frame, ALL)), over(7))
    clock = Ahead()
    async with scripted(*answers) as server, midcourse.connect(server.url, patience=60.0) as remote:
        remote._wire.clock = clock  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

        async def linger() -> None:
            looks = clock.looks
            while clock.looks == looks:  # when the stream was opened is looked up as soon as it is
                await asyncio.sleep(0)
            clock.seconds += 100.0

        server.linger = linger
        assert [event async for event in (await remote.get(SESSION)).watch()] == list(ALL)


async def test_a_server_that_closes_every_stream_at_once_is_given_up() -> None:
    async with scripted(session(), stream()) as server, midcourse.connect(server.url, patience=0.3) as remote:
        watching = (await remote.get(SESSION)).watch(follow=True)
        with pytest.raises(midcourse.ServerUnreachable, match="again and again"):
            await anext(watching)


async def test_a_session_that_does_not_exist_is_not_waited_for() -> None:
    async with scripted(session(), problem(404, "session_not_found")) as server:
        with pytest.raises(midcourse.SessionNotFound):
            await watched(server)


async def test_an_event_of_a_newer_version_says_to_upgrade() -> None:
    newer = frame(ALL[0]).replace("segment.written", "segment.sung")
    async with scripted(session(), stream(newer)) as server:
        with pytest.raises(midcourse.Damaged, match="upgrade this program"):
            await watched(server)


async def test_the_next_ask_is_waited_for() -> None:
    opened = ev.AskOpened(ask=midcourse.events.AskId("ask_1"), step=StepId("s"), reason="r", prompt="Go on?")
    asking = {"id": "ask_1", "step": "s", "reason": "r", "prompt": "Go on?", "since": 1.0}
    answers = (
        session(),
        session(),
        stream(frame(segment(2)), frame(Recorded(Position(3), 1.0, opened))),
        session(Status.WAITING, 3, asks=[asking]),
    )
    async with scripted(*answers) as server, midcourse.connect(server.url) as remote:
        ask = await (await remote.get(SESSION)).next_ask(timeout=30)
    assert (ask.id, ask.prompt) == ("ask_1", "Go on?")
    async with scripted(session(), over(3)) as server, midcourse.connect(server.url) as remote:
        with pytest.raises(midcourse.SessionEnded, match="asks nothing"):
            await (await remote.get(SESSION)).next_ask()


async def test_a_result_is_waited_for_as_long_as_the_caller_likes() -> None:
    pending = said({"status": "running", "ended": False, "result": None, "failure": None})
    done = said({"status": "completed", "ended": True, "result": {"rows": 3}, "failure": None})
    async with scripted(session(), pending, pending, done) as server, midcourse.connect(server.url) as remote:
        assert await (await remote.get(SESSION)).result() == {"rows": 3}

    async with scripted(session(), pending) as server, midcourse.connect(server.url) as remote:
        handle = await remote.get(SESSION)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.2)


@st.composite
def torn(draw: st.DrawFn) -> Sequence[bytes]:
    """All events and some noise as bytes, with any line ends, torn apart anywhere."""
    noise = st.sampled_from(["", ": still here\n\n", DELTA, "retry: 1000\n\n", "id\n\n", "\n"])
    text = "".join(draw(noise) + frame(one) for one in ALL) + draw(noise)
    content = text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"]))).encode()
    cuts = sorted(draw(st.sets(st.integers(1, len(content) - 1), max_size=40)))
    return [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(torn())
def test_wherever_the_bytes_are_torn_apart_the_events_are_the_same(pieces: Sequence[bytes]) -> None:
    async def play() -> None:
        head, *_ = stream()
        async with scripted(session(), [head, *pieces], over(7)) as server:
            assert await watched(server) == list(ALL)

    asyncio.run(play())
