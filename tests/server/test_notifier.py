"""Who is told what, and when, with a clock that the test sets: once each, whoever dies and however many look."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncGenerator, Set
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from standardwebhooks import Webhook as Verifier

import midcourse
from midcourse.clock import SystemClock
from midcourse.core.codec import ERASED
from midcourse.core.ids import SessionId, SwitchId, WorkerId
from midcourse.core.policy_decision import Alarm
from midcourse.core.switches import Scope, Switch
from midcourse.errors import StoreUnavailable
from midcourse.people import inbox, leader_lease, notifier, webhook_sender
from midcourse.people.inbox import PeopleInbox
from midcourse.people.leader_lease import LeaderLease
from midcourse.people.notifier import Notifier
from midcourse.people.outbox import KEPT_FOR, Outbox, forget_session
from midcourse.people.webhook_sender import Sender
from midcourse.people.webhook_signature import encode_secret, signed
from midcourse.people.webhooks import ALL, Delivery, DeliveryOutcome, Webhook, delivery, tried
from midcourse.policy.document import Policy
from midcourse.policy.intervention_shelf import INTERVENTIONS, alarm_items
from midcourse.policy.profiles import BUILT_IN
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store
from midcourse.stores.sqlite.memory import MemoryStore
from tests.promises.harness import Place, resumable
from tests.server.manual_clock import StillClock

HOOK = Webhook(id="wh_1", tenant=None, url="http://127.0.0.1:1/", kinds=(ALL,), by="ann", added_at=0.0, secret="")
TARGET = 300.0
"""Of the policy standard."""


class World:
    """A store in which a session asks, and tellers over it that send nothing."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.clock = StillClock()
        self.outbox = Outbox(store)
        self.desk = PeopleInbox(store, self.clock)
        self.switches: list[Switch] = []

    def teller(self, name: str = "worker_1", escalate_to: str = "operate", root_path: str = "") -> Notifier:
        async def switches() -> list[Switch]:
            return self.switches

        turn = LeaderLease(self.store, self.clock, WorkerId(name))
        made = Notifier(self.store, self.clock, turn, escalate_to=escalate_to, switches=switches, root_path=root_path)
        made.sender.send_due = lambda rows, webhooks: None
        return made

    async def told(self) -> list[str]:
        rows = sorted(await self.outbox.deliveries("wh_1", 1000), key=lambda row: row.made_at)
        return [row.kind for row in rows]


@asynccontextmanager
async def asking(memory: Place) -> AsyncGenerator[World]:
    async def agent(run: midcourse.Run) -> object:
        return await run.ask("May I delete 40 rows?", reason="need_approval")

    store = await memory.store()
    assert isinstance(store, MemoryStore)
    async with memory.open(resumable(agent)) as mc:
        world = World(store)
        session = await mc.start("agent", "clean up", session_id="sess_1", by="ann")
        opened = await session.next_ask()
        world.clock.seconds = opened.since
        yield world


async def test_the_owner_is_reminded_at_half_of_the_target_and_operators_are_told_at_it(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        teller = world.teller()
        began = world.clock.seconds
        for seconds, wanted in (
            (0.0, ["ask.opened"]),
            (TARGET / 2 - 1, ["ask.opened"]),
            (TARGET / 2, ["ask.opened", "ask.reminder"]),
            (TARGET - 1, ["ask.opened", "ask.reminder"]),
            (TARGET, ["ask.opened", "ask.reminder", "ask.escalated"]),
            (TARGET * 9, ["ask.opened", "ask.reminder", "ask.escalated"]),
        ):
            world.clock.seconds = began + seconds
            await teller.run_once()
            await teller.run_once()
            assert await world.told() == wanted
        [ask] = await world.desk.asks()
        assert (ask.reminded_at, ask.escalated_at) == (began + TARGET / 2, began + TARGET)
        assert (ask.escalated_to, ask.owner) == ("operate", "ann")


async def test_below_a_root_path_what_is_told_links_there(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        await world.teller(root_path="/tools/midcourse").run_once()
        [row] = await world.outbox.deliveries("wh_1")
        assert '"link":"/tools/midcourse/?run=sess_1"' in row.body


async def test_without_any_webhook_people_are_reminded_all_the_same(memory: Place) -> None:
    async with asking(memory) as world:
        world.clock.seconds += TARGET / 2
        await world.teller().run_once()
        [ask] = await world.desk.asks()
        assert ask.reminded_at == world.clock.seconds
        world.clock.seconds += TARGET
        await world.teller("worker_2", "zoe").run_once()
        [ask] = await world.desk.asks()
        assert (ask.escalated_at, ask.escalated_to) == (world.clock.seconds, "zoe")


async def test_a_server_that_comes_too_late_for_a_reminder_escalates_and_does_no_more(memory: Place) -> None:
    async with asking(memory) as world:
        world.clock.seconds += TARGET
        await world.teller().run_once()
        [ask] = await world.desk.asks()
        assert (ask.reminded_at, ask.escalated_at) == (None, world.clock.seconds)


async def test_whoever_has_not_the_turn_tells_nothing(memory: Place) -> None:
    async with asking(memory) as world:
        world.clock.seconds += TARGET / 2 - 1
        assert await LeaderLease(world.store, world.clock, WorkerId("worker_1")).acquire()
        world.clock.seconds += 1
        await world.teller("worker_2").run_once()
        [ask] = await world.desk.asks()
        assert ask.reminded_at is None


async def test_a_server_that_begins_anew_tells_nothing_a_second_time(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        world.clock.seconds += TARGET / 2
        first = world.teller()
        await first.run_once()
        [opened, reminded] = [row.id for row in await world.outbox.deliveries("wh_1")]
        await first.end()
        world.clock.seconds += 60
        await world.teller("worker_2").run_once()
        assert [row.id for row in await world.outbox.deliveries("wh_1")] == [opened, reminded]


async def test_what_was_delivered_is_not_put_into_the_outbox_again_by_whoever_did_not_know(memory: Place) -> None:
    """As if two servers had looked at the same moment, and one of them had been quick."""
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        await world.teller().run_once()
        [row] = await world.outbox.deliveries("wh_1")
        await world.outbox.settle(row, tried(row, DeliveryOutcome(status=200), world.clock.now()))
        assert await world.outbox.put([row]) == 0
        assert [one.state for one in await world.outbox.deliveries("wh_1")] == ["delivered"]


async def test_what_was_read_before_its_last_try_was_written_down_is_not_sent_again(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        await world.teller().run_once()
        [stale] = await world.outbox.waiting()
        done = tried(stale, DeliveryOutcome(status=200), world.clock.now())
        await world.outbox.settle(stale, done)
        tries = _sent(Sender(world.outbox, world.clock), [stale], [HOOK])
        assert len(tries) == 1
        await asyncio.gather(*tries)
        assert await world.outbox.deliveries("wh_1") == [done]


async def test_what_an_erased_session_was_to_tell_is_given_up(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        await world.teller().run_once()
        [row] = await world.outbox.waiting()
        erased = replace(row, body=ERASED)
        await world.outbox.settle(row, erased)
        before = asyncio.all_tasks()
        Sender(world.outbox, world.clock).send_due([erased], [HOOK])
        await asyncio.gather(*(asyncio.all_tasks() - before))
        [ended] = await world.outbox.deliveries("wh_1")
        assert (ended.state, ended.problem) == ("given_up", "the session was erased")


@pytest.mark.parametrize("meanwhile", ["the session is erased", "the webhook is removed", "another server sent it"])
async def test_what_is_gone_or_changed_when_a_try_ends_is_not_written_back(memory: Place, meanwhile: str) -> None:
    async with asking(memory) as world:
        asked, answers = asyncio.Event(), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            asked.set()
            await answers.wait()
            writer.write(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            hook = replace(HOOK, url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
            await world.outbox.add(hook)
            await world.teller().run_once()
            [row] = await world.outbox.waiting()
            tries = _sent(Sender(world.outbox, world.clock), [row], [hook])
            await asked.wait()
            match meanwhile:
                case "the session is erased":
                    await forget_session(world.store, "sess_1")
                case "the webhook is removed":
                    await world.outbox.remove(hook, by="ann", now=world.clock.now())
                case _:
                    [held] = await world.outbox.waiting()
                    await world.outbox.settle(held, tried(held, DeliveryOutcome(status=200), world.clock.now()))
            left = await world.outbox.deliveries("wh_1")
            answers.set()
            await asyncio.gather(*tries)
        assert await world.outbox.deliveries("wh_1") == left
        assert [one.state for one in left] == (["delivered"] if meanwhile.startswith("another") else [])


def _sent(sender: Sender, rows: list[Delivery], webhooks: list[Webhook]) -> set[asyncio.Task[None]]:
    """The tries that were begun."""
    before = asyncio.all_tasks()
    sender.send_due(rows, webhooks)
    return asyncio.all_tasks() - before


class Tarpit:
    """In the place of what goes over the network: some receivers hang, some fail, and the others have it at once."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, hang: Set[str] = frozenset(), fail: Set[str] = frozenset()
    ) -> None:
        self.begun: list[str] = []
        self._hang, self._fail = hang, fail
        monkeypatch.setattr(webhook_sender, "attempt", self._attempt)

    async def _attempt(self, webhook: Webhook, row: Delivery, clock: Clock) -> DeliveryOutcome:
        self.begun.append(webhook.id)
        if webhook.id in self._hang:
            await asyncio.Event().wait()
        return DeliveryOutcome(status=500 if webhook.id in self._fail else 200)

    async def run(self, sender: Sender, rows: list[Delivery], webhooks: list[Webhook]) -> Counter[str]:
        """How many tries begin for whom."""
        self.begun.clear()
        begun = _sent(sender, rows, webhooks)
        if not self._hang:
            await asyncio.gather(*begun)
        while len(self.begun) < len(begun):
            await asyncio.sleep(0)
        return Counter(self.begun)


def _hooks(tenant: str | None, count: int) -> list[Webhook]:
    before = f"{tenant}~" if tenant else ""
    return [replace(HOOK, id=f"{before}wh_{one:03}", tenant=tenant) for one in range(count)]


async def _rows(world: World, hooks: list[Webhook], count: int) -> list[Delivery]:
    now = world.clock.now()
    made = [delivery(hook, "ask.opened", (str(one),), {}, now=now) for hook in hooks for one in range(count)]
    await world.outbox.put(made)
    return made


async def test_receivers_of_one_tenant_that_hang_leave_places_for_everybody_else(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(memory) as world:
        sender = Sender(world.outbox, world.clock)
        hooks = [hook for tenant in ("acme", "other") for hook in _hooks(tenant, 100)]
        tarpit = Tarpit(monkeypatch, hang={hook.id for hook in hooks})
        older = await _rows(world, hooks[:100], 4)
        begun = await tarpit.run(sender, older, hooks)
        assert sum(begun.values()) == webhook_sender.IN_ALL // 2
        assert set(begun.values()) == {1}, "each of them has a turn before one has a second one"
        older += await _rows(world, hooks[100:], 4)
        assert 0 < sum((await tarpit.run(sender, older, hooks)).values()) < webhook_sender.IN_ALL // 2
        [good] = _hooks(None, 1)
        world.clock.seconds += 1
        late = await _rows(world, [good], 4)
        assert await tarpit.run(sender, [*older, *late], [*hooks, good]) == {good.id: webhook_sender.AT_ONCE}
        await sender.end()


async def test_webhooks_take_turns_so_that_the_youngest_delivery_does_not_wait_for_those_that_hang(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(memory) as world:
        sender = Sender(world.outbox, world.clock)
        hooks = _hooks(None, 51)
        tarpit = Tarpit(monkeypatch, hang={hook.id for hook in hooks})
        rows = await _rows(world, hooks[:50], 12)
        world.clock.seconds += 1
        rows += await _rows(world, hooks[50:], 1)
        assert (await tarpit.run(sender, rows, hooks))["wh_050"] == 1
        await sender.end()


async def test_a_webhook_that_fails_has_one_place_until_something_arrives(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(memory) as world:
        sender = Sender(world.outbox, world.clock)
        hooks = _hooks(None, 2)
        rows = await _rows(world, hooks, 12)
        fail = {"wh_000"}
        tarpit = Tarpit(monkeypatch, fail=fail)
        begun: list[Counter[str]] = []
        for _ in range(4):
            begun.append(await tarpit.run(sender, await world.outbox.waiting(), hooks))
            if len(begun) == 2:
                fail.clear()
        assert [one["wh_000"] for one in begun] == [webhook_sender.AT_ONCE, 1, 1, webhook_sender.AT_ONCE]
        assert [one["wh_001"] for one in begun] == [webhook_sender.AT_ONCE] * 3 + [0]
        assert len(rows) == 24


async def test_a_webhook_is_told_of_asks_that_were_opened_after_it_was_added(memory: Place) -> None:
    async with asking(memory) as world:
        opened = world.clock.seconds
        teller = world.teller()
        await world.outbox.add(replace(HOOK, added_at=opened + 1))
        await world.outbox.add(replace(HOOK, id="wh_2", added_at=opened))
        await teller.run_once()
        assert await world.told() == []
        assert [row.kind for row in await world.outbox.deliveries("wh_2")] == ["ask.opened"]
        world.clock.seconds = opened + TARGET / 2
        await teller.run_once()
        assert await world.told() == ["ask.reminder"], "that happens after it was added"


async def test_an_ask_that_was_answered_is_told_to_be_closed_once_and_nothing_of_it_is_kept(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        teller = world.teller()
        await teller.run_once()
        async with memory.open(drive=False) as mc:
            await mc.own("sess_1", "ask_1", "bob", by="bob")
            session = await mc.get("sess_1")
            await session.answer("yes")
        for _ in range(2):
            world.clock.seconds += TARGET
            await teller.run_once()
        assert await world.told() == ["ask.opened", "ask.closed"]
        assert not await world.desk.notified()
        assert not [key for key in await world.store.shelf_keys("inbox") if key.startswith("taken/")]


async def test_of_two_servers_one_tells_and_the_other_goes_on_when_it_is_gone(memory: Place) -> None:
    clock = StillClock()
    store = await memory.store()
    one, two = (LeaderLease(store, clock, WorkerId(name)) for name in ("worker_1", "worker_2"))
    assert await one.acquire()
    assert not await two.acquire()
    clock.seconds += leader_lease.RENEWED
    assert await one.acquire()
    clock.seconds += leader_lease.SILENT
    assert not await two.acquire()
    clock.seconds += 1
    assert await two.acquire(), "worker_1 said nothing for so long that it must be gone"
    assert not await one.acquire(), "it comes back, and another one has the turn"
    await two.end()
    assert await one.acquire()


async def test_of_two_servers_that_find_the_turn_free_at_once_one_has_it(memory: Place) -> None:
    clock = StillClock()
    store = await memory.store()
    assert isinstance(store, MemoryStore)
    turns = [LeaderLease(Unhurried(store.memory), clock, WorkerId(f"worker_{number}")) for number in range(5)]
    assert sum(await asyncio.gather(*(turn.acquire() for turn in turns))) == 1


async def test_a_process_number_says_nothing_of_a_server_in_another_container(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them may have one host name. What has that number here is not what has it there."""
    clock = StillClock()
    store = await memory.store()
    one = LeaderLease(store, clock, WorkerId("worker_1"))
    assert await one.acquire()
    leader_lease._here.discard("worker_1")  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(leader_lease, "_machine", lambda: "the same host name, other processes")
    two = LeaderLease(store, clock, WorkerId("worker_2"))
    assert not await two.acquire()
    clock.seconds += leader_lease.SILENT + 1
    assert await two.acquire()


async def test_a_turn_that_cannot_be_read_is_nobodys(memory: Place) -> None:
    clock = StillClock()
    store = await memory.store()
    for content in (b"not JSON", b"{}", b"\xff"):
        await store.shelve(leader_lease.SHELF, {leader_lease.TURN: content})
        assert await LeaderLease(store, clock, WorkerId("worker_1")).acquire()
    assert isinstance(store, MemoryStore)
    spoiled(store, leader_lease.SHELF, leader_lease.TURN)
    assert await LeaderLease(store, clock, WorkerId("worker_2")).acquire()


class Unhurried(MemoryStore):
    """Lets others come in between what is read and what is made of it."""

    async def shelved(self, shelf: str, **given: Any) -> Any:
        found = await super().shelved(shelf, **given)
        await asyncio.sleep(0)
        return found

    async def shelf_keys(self, shelf: str, **given: Any) -> Any:
        found = await super().shelf_keys(shelf, **given)
        await asyncio.sleep(0)
        return found


def spoiled(store: MemoryStore, shelf: str, *keys: str) -> None:
    """What lies there does not match its checksum any more."""
    for key in keys:
        store.memory.connection.execute("UPDATE shelves SET seal = x'00' WHERE shelf = ? AND key = ?", (shelf, key))


async def test_what_cannot_be_read_is_named_once_and_keeps_nothing_else_from_being_told(
    memory: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        await world.outbox.add(replace(HOOK, id="wh_0"))
        await world.outbox.add(replace(HOOK, id="wh_2"))
        began = world.clock.seconds
        gone = [delivery(HOOK, "ask.opened", (name,), {}, now=began) for name in ("a", "b", "c", "d")]
        await world.outbox.put(gone)
        strange = {f"due/wh_1/{name}": content for name, content in (("json", b"?"), ("kind", b"{}"))}
        # As a row would be that somebody has copied: it could never be settled.
        strange["due/wh_1/copied"] = msgspec.json.encode(gone[3])
        await world.store.shelve("telling", strange)
        await world.store.shelve("interventions", {"000000000000001/s/i": b"?"})
        await world.store.shelve("proposals", {"prop_1": b"?"})
        await world.store.shelve("telling", {"told/sess_1/ask_1": b"?", "told/other/ask_1": b"?"})
        await world.store.shelve("inbox", {"taken/sess_1/ask_1": b"?", "over/x": b"?"})
        spoiled(world.store, "telling", *(row.key for row in gone[:3]), "told/other/ask_1")
        spoiled(world.store, "inbox", "over/x")
        spoiled(world.store, "webhooks", "wh_0")
        sent: list[tuple[str, str]] = []
        teller = world.teller()
        teller.sender.send_due = lambda rows, webhooks: sent.extend((row.webhook, row.kind) for row in rows)
        for seconds in (0.0, TARGET / 2, TARGET):
            world.clock.seconds = began + seconds
            await teller.run_once()
        assert await world.told() == ["ask.opened", "ask.opened", "ask.reminder", "ask.escalated"]
        assert set(sent) == {(hook, kind) for hook in ("wh_1", "wh_2") for kind in ALL_OF_ASK}
        for name in (*(row.key for row in gone[:3]), *strange, "over/x", "wh_0", "told/other/ask_1"):
            assert len([one for one in caplog.messages if f"'{name}' on the shelf" in one]) == 1, name
        [ask] = await world.desk.asks()
        assert ask.escalated_at == world.clock.seconds


ALL_OF_ASK = ("ask.opened", "ask.reminder", "ask.escalated")


async def test_what_is_to_be_told_by_a_webhook_that_cannot_be_read_waits_and_the_webhook_can_be_removed(
    memory: Place,
) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        teller = world.teller()
        await teller.run_once()
        spoiled(world.store, "webhooks", "wh_1")
        sent: list[Delivery] = []
        teller.sender.send_due = lambda rows, webhooks: sent.extend(rows)
        await teller.run_once()
        assert (sent, await world.told()) == ([], ["ask.opened"])
        await world.outbox.remove(await world.outbox.webhook("wh_1"), by="ann", now=world.clock.now())
        assert (await world.outbox.webhooks(), await world.told()) == ([], [])


async def test_what_was_erased_between_a_look_and_what_was_written_of_it_is_not_kept(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        teller = world.teller()
        put = Outbox.put

        async def slowly(self: Outbox, rows: Any, facts: Any = None) -> int:
            async with memory.open(drive=False) as mc:
                session = await mc.get("sess_1")
                await session.cancel(until="stopped")
                await session.erase()
            return await put(self, rows, facts)

        monkeypatch.setattr(Outbox, "put", slowly)
        await teller.run_once()
        assert [row for row in await world.store.shelved("telling") if b"May I delete" in row[1]] == []


async def test_of_several_who_read_the_same_delivery_one_claims_it_until_its_time_is_over(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        await world.teller().run_once()
        [row] = await world.outbox.waiting()
        until = world.clock.now() + 15
        several = [Outbox(Unhurried(world.store.memory)) for _ in range(5)]
        claims = await asyncio.gather(*(one.claim(row, until) for one in several))
        [held] = [one for one in claims if one is not None]
        assert await world.outbox.waiting() == [held]
        assert (held.tries, held.next_at >= until) == (0, True)
        assert not await world.outbox.settle(row, tried(row, DeliveryOutcome(status=200), until)), (
            "it was not its to send"
        )
        assert await world.outbox.settle(held, tried(held, DeliveryOutcome(status=200), until))


async def test_what_several_servers_put_into_the_outbox_at_once_is_there_once(memory: Place) -> None:
    async with asking(memory) as world:
        rows = [delivery(HOOK, "ask.opened", (str(one),), {}, now=1.0) for one in range(3)]
        several = [Outbox(Unhurried(world.store.memory)) for _ in range(4)]
        put = await asyncio.gather(*(one.put(rows, {f"seen/{at}": b"1"}) for at, one in enumerate(several)))
        assert sorted(put) == [0, 0, 0, 3]
        await world.outbox.settle(rows[0], tried(rows[0], DeliveryOutcome(status=200), 2.0))
        assert len(await world.outbox.deliveries("wh_1")) == 3
        assert len(await world.store.shelf_keys("telling", first="seen/", last="seen/~")) == 4


async def test_a_claim_of_a_process_of_this_machine_that_died_is_nobodys(memory: Place) -> None:
    clock = StillClock()
    store = await memory.store()
    gone = LeaderLease(store, clock, WorkerId("worker_1"))
    assert await gone.acquire()
    leader_lease._here.discard("worker_1")  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    assert await LeaderLease(store, clock, WorkerId("worker_2")).acquire()


async def test_alarms_that_do_not_interrupt_are_told_together_when_their_hour_is_over(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        began = world.clock.seconds
        alarms = [
            Alarm(at=began + one, session=f"sess_{one % 2}", intervention=f"int_{one}", person="ann", sentence="Slow.")
            for one in range(3)
        ]
        await world.store.shelve(
            INTERVENTIONS, alarm_items([*alarms, Alarm(at=began, session="s", intervention="i", level="pause")])
        )
        teller = world.teller()
        await teller.run_once()
        assert "alarms.batched" not in await world.told()
        for _ in range(2):
            world.clock.seconds += 3600.0
            await teller.run_once()
        rows = [row for row in await world.outbox.deliveries("wh_1") if row.kind == "alarms.batched"]
        assert len(rows) == 1
        told = json.loads(rows[0].body)["data"]
        assert (told["person"], told["count"], told["sessions"]) == ("ann", 3, ["sess_0", "sess_1"])
        assert "Slow." not in rows[0].body


async def test_a_thrown_and_a_lifted_kill_switch_are_told_once_to_whom_they_concern(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        for tenant in ("acme", "other"):
            await world.outbox.add(
                Webhook(id=f"{tenant}~wh", tenant=tenant, url="x", kinds=(ALL,), by="", added_at=0.0, secret="")
            )
        now = world.clock.seconds
        scope = Scope("tenant", "acme")
        switch = Switch(id=SwitchId("switch_1"), scope=scope, reason="r" * 900, by="ann", at=now)
        world.switches = [switch]
        teller = world.teller()
        await teller.run_once()
        lifted = Switch(id=switch.id, scope=scope, reason="r", by="ann", at=now, lifted_at=now, lifted_by="ann")
        world.switches = [lifted]
        await teller.run_once()
        await teller.run_once()
        switched = ["kill_switch.thrown", "kill_switch.lifted"]
        assert sorted(await world.told()) == sorted(["ask.opened", *switched])
        theirs = await world.outbox.deliveries("acme~wh")
        assert sorted(row.kind for row in theirs) == sorted(switched)
        assert not await world.outbox.deliveries("other~wh")
        assert all(len(json.loads(row.body)["data"]["reason"]) <= 200 for row in theirs)


async def test_what_ended_a_week_ago_is_forgotten_and_what_waits_is_not(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        await world.teller().run_once()
        [row] = await world.outbox.deliveries("wh_1")
        await world.outbox.prune(row.made_at + 2 * KEPT_FOR)
        assert await world.outbox.deliveries("wh_1") == [row]
        await world.outbox.settle(row, tried(row, DeliveryOutcome(status=200), row.made_at))
        await world.outbox.prune(row.made_at + KEPT_FOR)
        assert await world.outbox.deliveries("wh_1")
        await world.outbox.prune(row.made_at + KEPT_FOR + 1)
        assert not await world.outbox.deliveries("wh_1")


async def test_nothing_of_a_session_is_left_beside_it_once_it_is_forgotten(memory: Place) -> None:
    async with asking(memory) as world:
        await world.outbox.add(HOOK)
        await world.teller().run_once()
        await world.desk.own(*(await _only_ask(world)), "bob", by="bob")
        await forget_session(world.store, "sess_1")
        for shelf in ("telling", "inbox"):
            assert not [key for key, content in await world.store.shelved(shelf) if b"sess_1" in key.encode() + content]


async def _only_ask(world: World) -> tuple[SessionId, str]:
    [ask] = await world.desk.asks()
    return ask.session, ask.ask


async def test_a_policys_own_target_is_taken(memory: Place) -> None:
    async with asking(memory) as world:
        for policy, target in (
            ("conservative", 120.0),
            ("permissive", 900.0),
            ("no-such-policy", TARGET),
            ("", TARGET),
        ):
            [ask] = await PeopleInbox(world.store, world.clock, policy=policy).asks()
            assert ask.respond_by - ask.opened_at == target


async def test_a_policy_that_could_not_be_read_once_is_read_again(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(memory) as world:
        own = replace(BUILT_IN["permissive"], name="own", response_target=77)

        async def away(store: Store, name: str) -> Policy:
            raise StoreUnavailable("The store is away.")

        async def here(store: Store, name: str) -> Policy:
            return own

        one = PeopleInbox(world.store, world.clock, policy="own")
        for load, target in ((away, TARGET), (here, 77.0), (away, 77.0)):
            monkeypatch.setattr(inbox, "load_policy", load)
            [ask] = await one.asks()
            assert ask.respond_by - ask.opened_at == target


def test_a_library_of_the_scheme_verifies_what_is_signed_and_refuses_what_was_changed() -> None:
    secret = encode_secret(b"k" * 32)
    assert base64.b64decode(secret.removeprefix("whsec_")) == b"k" * 32
    headers = signed(secret, "msg_1", int(SystemClock().now()), b'{"a": "\xc3\xa4"}')
    assert Verifier(secret).verify(b'{"a": "\xc3\xa4"}', headers) == {"a": "ä"}
    for forged in ({**headers, "webhook-id": "msg_2"}, {**headers, "webhook-signature": "v1,AAAA"}):
        with pytest.raises(Exception, match="No matching signature"):
            Verifier(secret).verify(b'{"a": "\xc3\xa4"}', forged)


def test_the_loop_looks_often_enough_for_a_target_of_two_minutes() -> None:
    assert notifier.EVERY <= 2
