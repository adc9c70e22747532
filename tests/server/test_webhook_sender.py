"""What comes of what receivers answer, over real connections; and two processes that send the same outbox."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midcourse.clock import SystemClock
from midcourse.core.audit import AuditEntry, decode_entry
from midcourse.errors import InvalidInput
from midcourse.people import webhook_sender
from midcourse.people.outbox import Outbox
from midcourse.people.webhook_sender import READ, Sender, attempt, made_webhook, try_out
from midcourse.people.webhook_signature import encode_secret
from midcourse.people.webhooks import ALL, LONGEST_WAIT, Delivery, Webhook, delivery
from midcourse.stores.sqlite.memory import MemoryStore
from midcourse.tools import http_request
from midcourse.wiring import open_store
from tests.server.manual_clock import StillClock

SECRET = encode_secret(b"k" * 32)
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """Answers as it is told, and notes the ids that came."""

    def __init__(self) -> None:
        self.port = 0
        self.came: list[str] = []
        self.told = asyncio.Event()
        self.over = asyncio.Event()
        self.lines: set[asyncio.Task[None] | None] = set()
        self.answer: Answer = plain("200 OK")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines.add(asyncio.current_task())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            await reader.readexactly(int(fields["content-length"]))
            self.came.append(fields["webhook-id"])
            self.told.set()
            await self.answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def hook(self, name: str = "wh_1") -> Webhook:
        url = f"http://127.0.0.1:{self.port}/in?key=theirs"
        return Webhook(id=name, tenant=None, url=url, kinds=(ALL,), by="ann", added_at=0.0, secret=SECRET)


def plain(status: str, *headers: str, body: bytes = b"") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()

    return answer


@asynccontextmanager
async def receiving() -> AsyncGenerator[Receiver]:
    receiver = Receiver()
    async with await asyncio.start_server(receiver.serve, "127.0.0.1", 0) as server:
        receiver.port = server.sockets[0].getsockname()[1]
        try:
            yield receiver
        finally:
            receiver.over.set()
            await asyncio.gather(*filter(None, receiver.lines))


def row(hook: Webhook, name: str = "a") -> Delivery:
    return delivery(hook, "ask.opened", (name,), {"session": "sess_1"}, now=1000.0)


class World:
    """An outbox in memory, a receiver, and a sender whose clock the test sets."""

    def __init__(self, receiver: Receiver) -> None:
        self.clock = StillClock()
        self.store = MemoryStore()
        self.outbox = Outbox(self.store)
        self.sender = Sender(self.outbox, self.clock)
        self.receiver = receiver

    async def put(self, *names: str) -> None:
        hook = self.receiver.hook()
        if not await self.outbox.webhooks():
            await self.outbox.add(hook)
        await self.outbox.put([row(hook, name) for name in names])

    async def send(self) -> list[Delivery]:
        """Send what is due now, and wait for what comes of it."""
        before = asyncio.all_tasks()
        self.sender.send_due(await self.outbox.waiting(), await self.outbox.webhooks())
        begun = [one for one in asyncio.all_tasks() - before if "Sender._try" in str(one.get_coro())]
        await asyncio.gather(*begun)
        return await self.outbox.deliveries("wh_1")


@asynccontextmanager
async def sending_to() -> AsyncGenerator[World]:
    async with receiving() as receiver:
        yield World(receiver)


ADDRESSES = st.tuples(
    st.sampled_from(["http", "https", "HTTP", "ftp", "", "http:"]),
    st.sampled_from(
        ["127.0.0.1", "[::1]", "[::1", "a.invalid", "a..b", "", ".", "xn--", "a" * 64, "ann:pw@b", "%", "*"]
    )
    | st.text(max_size=12),
    st.sampled_from(["", ":", ":0", ":-1", ":99999", ":65536", ":1:2", ":x", ":0x1", ":\u0663", f":{10**30}"])
    | st.integers(-(2**40), 2**40).map(lambda port: f":{port}"),
    st.text(max_size=12).map(lambda text: f"/{text}"),
).map(lambda parts: f"{parts[0]}://{parts[1]}{parts[2]}{parts[3]}")
"""Addresses of which few are any. No request is made: their hosts lead nowhere."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(url=ADDRESSES | st.text(max_size=40))
async def test_any_text_is_an_address_or_refused_with_a_code_and_kept_by_an_older_version_hurts_nobody(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """What a store holds from before it was refused is a delivery that fails, with words."""

    async def nowhere(host: str, port: int, _url: str, *, allow_private: bool) -> tuple[str, ...]:
        assert 0 < port < 65536, host
        return ()

    monkeypatch.setattr(http_request, "addresses_of", nowhere)
    clock = SystemClock()
    try:
        made = await made_webhook(clock, url=url, kinds=[ALL], about="", tenant=None, by="ann")
    except InvalidInput as error:
        assert (error.code in ("address_refused", "invalid_input"), error.fields["field"]) == (True, "url")
    else:
        assert made.url == url
    kept = Webhook(id="wh_1", tenant=None, url=url, kinds=(ALL,), by="ann", added_at=0.0, secret=SECRET)
    outcome = await attempt(kept, row(kept), clock)
    assert outcome.problem
    assert not outcome.is_good


async def test_a_kept_webhook_whose_port_is_none_is_tried_out_and_fails_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And so does one where something happens that nobody foresaw."""
    outbox = Outbox(MemoryStore())
    kept = Webhook(
        id="wh_1", tenant=None, url="http://127.0.0.1:99999/", kinds=(ALL,), by="ann", added_at=0.0, secret=SECRET
    )
    await outbox.add(kept)
    tried = await try_out(outbox, kept, SystemClock(), by="ann")
    refused = "The request to http://127.0.0.1:99999 is refused: its port is 99999, and ports are 1 to 65535."
    assert (tried.state, tried.problem) == ("given_up", refused)

    async def fails(*_: object, **__: object) -> None:
        raise OverflowError

    monkeypatch.setattr(webhook_sender, "request", fails)
    tried = await try_out(outbox, kept, SystemClock(), by="ann")
    assert (tried.state, tried.problem) == ("given_up", "It could not be sent; the server's log says more.")


async def test_a_receiver_that_says_it_is_gone_is_told_nothing_more_until_a_trial_arrives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with sending_to() as world:
        world.receiver.answer = plain("410 Gone")
        await world.put("a")
        [gone] = await world.send()
        assert (gone.state, gone.status, gone.tries) == ("given_up", 410, 1)
        [hook] = await world.outbox.webhooks()
        assert hook.gone_at == world.clock.now()
        assert [one for one in caplog.messages if "webhook wh_1 gets nothing more" in one and "key=" not in one]
        await world.put("b")
        ended = {one.id: one for one in await world.send()}
        assert len(world.receiver.came) == 1, "what was there already is given up without asking again"
        later = ended[row(hook, "b").id]
        assert (later.state, later.status, "gone" in later.problem) == ("given_up", None, True)
        assert (await try_out(world.outbox, hook, world.clock, by="ann")).status == 410
        world.receiver.answer = plain("204 No Content")
        assert (await try_out(world.outbox, hook, world.clock, by="ann")).state == "delivered"
        assert [one.gone_at for one in await world.outbox.webhooks()] == [None]
        await world.put("c")
        assert {one.id: one.state for one in await world.send()}[row(hook, "c").id] == "delivered"
        said = [(entry.action, entry.by) for entry in await audit(world.store)]
        assert ("webhook.stop", "receiver") in said
        assert ("webhook.go_on", "ann") in said


async def audit(store: MemoryStore) -> list[AuditEntry]:
    return [decode_entry(one.content) for one in await store.audit()]


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_a_receiver_that_asks_to_be_left_alone_is_with_all_that_waits_for_it(status: str) -> None:
    async with sending_to() as world:
        world.receiver.answer = plain(status, "retry-after: 90")
        await world.put("a")
        [tried] = await world.send()
        assert 1090.0 <= tried.next_at <= 1100.0
        await world.put("b")
        world.clock.seconds += 89
        await world.send()
        assert len(world.receiver.came) == 1, "the second one is not sent in between, although it is new"
        world.receiver.answer = plain("200 OK")
        world.clock.seconds += 11
        await world.send()
        assert {one.state for one in await world.send()} == {"delivered"}


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("9" * 400, LONGEST_WAIT),
        (format_datetime(datetime.fromtimestamp(1060, UTC), usegmt=True), 60.0),
        (format_datetime(datetime.fromtimestamp(10, UTC), usegmt=True), 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT),
        ("soon", 0.0),
        ("-5", 0.0),
        ("1e9", 0.0),
        ("\u0663", 0.0),
    ],
)
async def test_what_stands_in_retry_after_is_read_whatever_it_is(written: str, seconds: float) -> None:
    async with receiving() as receiver:
        receiver.answer = plain("429 Slow", f"retry-after: {written}")
        hook = receiver.hook()
        assert (await attempt(hook, row(hook), StillClock())).wait == seconds


async def test_a_redirect_is_not_followed_and_said() -> None:
    async with receiving() as elsewhere, receiving() as receiver:
        hook = receiver.hook()
        for location, said in (
            (f"http://localhost:{elsewhere.port}/x?key=1", "redirects to localhost, which is not followed"),
            ("/other", "another address of the same host"),
            ("http://[", "what is no address"),
        ):
            receiver.answer = plain("307 Temporary Redirect", f"location: {location}")
            outcome = await attempt(hook, row(hook), SystemClock())
            assert (outcome.status, outcome.is_final, said in outcome.problem) == (307, False, True), outcome
            assert "key" not in outcome.problem
        assert elsewhere.came == []


async def test_an_answer_counts_when_its_status_is_there_however_its_body_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_request, "_DROPS", 0.2)
    ended = asyncio.Event()

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000000\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
        finally:
            ended.set()

    async def drop_by_drop(writer: asyncio.StreamWriter) -> None:
        await broken(writer)
        await receiver.over.wait()

    async def broken(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nno")
        await writer.drain()

    strange = plain("200 OK", "content-encoding: br", body=b"???")
    spoiled = plain("200 OK", "content-encoding: gzip", body=b"???")
    async with receiving() as receiver:
        hook = receiver.hook()
        for answer, said in ((endless, "x" * 200), (drop_by_drop, "no"), (broken, "no"), (strange, ""), (spoiled, "")):
            receiver.answer = answer
            outcome = await attempt(hook, row(hook), SystemClock())
            assert (outcome.status, outcome.problem, outcome.answer) == (200, "", said), answer
        assert READ < 65_536
        await ended.wait()  # the line was closed: nobody reads the rest


async def test_a_receiver_that_does_not_answer_in_time_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_sender, "PATIENCE", 0.1)

    async def silent(writer: asyncio.StreamWriter) -> None:
        await receiver.over.wait()

    async with receiving() as receiver:
        receiver.answer = silent
        hook = receiver.hook()
        outcome = await attempt(hook, row(hook), SystemClock())
        assert (outcome.status, outcome.is_final, "0.1 s" in outcome.problem) == (None, False, True)
        assert "key=theirs" not in outcome.problem


async def test_what_fails_in_a_way_nobody_foresaw_is_tried_again_like_anything_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with sending_to() as world:
        await world.outbox.add(replace(world.receiver.hook(), secret="whsec_a"))  # not even base64
        await world.put("a")
        [failed] = await world.send()
        assert (failed.state, failed.tries, "log" in failed.problem) == ("waiting", 1, True)
        assert failed.next_at > world.clock.now()
        assert "could not be sent: unexpected" in caplog.text


@asynccontextmanager
async def rivals(store: str, lease: float) -> AsyncGenerator[list[asyncio.subprocess.Process]]:
    """Two processes that send, and begin when they are told."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "tests.server.rival", store, str(lease))
    both = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(2)]
    try:
        for one in both:
            assert one.stdout is not None
            assert await one.stdout.readline() == b"ready\n"
        yield both
    finally:
        for one in both:
            if one.returncode is None:
                one.kill()
            await one.wait()


def begin(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"go\n")


async def test_two_processes_that_send_at_once_send_each_thing_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/midcourse.db"
    store = await open_store(url)
    async with receiving() as receiver:
        hooks = [receiver.hook(f"wh_{number}") for number in range(5)]
        for hook in hooks:
            await Outbox(store).add(hook)
        rows = [row(hook, str(number)) for hook in hooks for number in range(6)]
        await Outbox(store).put(rows)
        async with rivals(url, lease=60.0) as both:
            for one in both:
                begin(one)
            assert [await one.wait() for one in both] == [0, 0]
        assert Counter(receiver.came) == Counter(one.id for one in rows)
        states = [one.state for hook in hooks for one in await Outbox(store).deliveries(hook.id)]
        assert Counter(states) == {"delivered": len(rows)}
    await store.close()


async def test_what_a_killed_process_had_claimed_another_sends_after_the_lease_under_the_same_id(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/midcourse.db"
    store = await open_store(url)
    answers = asyncio.Event()

    async def when_allowed(writer: asyncio.StreamWriter) -> None:
        await answers.wait()
        await plain("200 OK")(writer)

    async with receiving() as receiver:
        receiver.answer = when_allowed
        hook = receiver.hook()
        await Outbox(store).add(hook)
        await Outbox(store).put([row(hook)])
        async with rivals(url, lease=1.5) as (one, two):
            begin(one)
            await receiver.told.wait()
            one.send_signal(signal.SIGKILL)
            await one.wait()
            [held] = await Outbox(store).waiting()
            answers.set()
            begin(two)
            assert await two.wait() == 0
        [done] = await Outbox(store).deliveries("wh_1")
        assert receiver.came == [done.id] * 2
        assert (done.state, done.tries) == ("delivered", 1)
        assert done.tried_at is not None
        assert done.tried_at >= held.next_at > held.made_at
    await store.close()


async def test_a_reply_that_comes_after_the_lease_changes_nothing_of_what_another_server_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with sending_to() as world:
        await world.put("a")

        async def much_later(webhook: Webhook, row: Delivery, clock: object) -> webhook_sender.DeliveryOutcome:
            world.clock.seconds += webhook_sender.LEASE
            [late] = await world.outbox.waiting()
            assert await world.outbox.claim(late, world.clock.now() + webhook_sender.LEASE) is not None
            return webhook_sender.DeliveryOutcome(status=500)

        monkeypatch.setattr(webhook_sender, "attempt", much_later)
        [held] = await world.send()
        assert (held.state, held.tries, held.next_at) == ("waiting", 0, world.clock.now() + webhook_sender.LEASE)
        assert replace(held, next_at=1000.0) == row(world.receiver.hook())
