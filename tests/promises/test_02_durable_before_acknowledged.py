"""Promise 2: durable before acknowledged. The stop does not wait for the disk; its answer does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

import midcourse
from midcourse.core.events import decode_record, event_type
from midcourse.core.replies import Reply
from midcourse.core.switches import Scope
from midcourse.errors import Damaged, Refused, StoreUnavailable
from midcourse.ports.store import Append, Store
from midcourse.runtime.settings import Settings
from midcourse.testing.wrapped_store import WrappedStore
from tests.promises.faults import Faulty, Hanging
from tests.promises.harness import Place, Tool, history, resumable, turns, types, until_status, until_true

pytestmark = pytest.mark.fake_time
T = TypeVar("T")


async def test_the_gate_is_shut_before_the_stop_is_written(place: Place) -> None:
    """While the command is on its way to the disk nothing begins, and nothing is answered yet."""
    first, second = Tool(holds=True), Tool()

    async def agent(run: midcourse.Run) -> None:
        await run.step("first", first.run)
        await run.step("second", second.run)

    store = Faulty(await place.store())
    async with place.open(resumable(agent), store=store) as mc:
        session = await mc.start(resumable(agent))
        await first.entered.wait()
        store.holds = lambda write: write == "put"
        pausing = asyncio.create_task(session.pause())
        await until_true(lambda: "put" in store.held)
        first.may_end.set()
        await until_true(lambda: bool(first.ended))
        await turns(50)
        assert second.begun == []
        assert not pausing.done()
        store.let_through()
        assert (await pausing).level in ("stopping", "stopped")
        assert (await session.pause(until="stopped")).level == "stopped"
        assert second.begun == []


async def test_the_answer_waits_for_the_commit_of_the_decision(place: Place) -> None:
    """Everything that ran has ended, and still nothing is answered until the decision is durable."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.holds = lambda write: write == "decide"
        pausing = asyncio.create_task(session.pause(grace=0))
        await until_true(lambda: "decide" in store.held)
        await turns(50)
        assert not pausing.done()
        # What was not written does not exist for anybody who looks.
        assert "session.pause_requested" not in types(await history(session))
        assert await session.status() == "running"
        store.let_through()
        assert (await pausing).level in ("stopping", "stopped")
        assert "session.pause_requested" in types(await history(session))


async def test_the_abort_does_not_wait_for_the_commit_of_the_decision(place: Place) -> None:
    """Abort and write go on side by side."""
    entered, torn = asyncio.Event(), asyncio.Event()

    @midcourse.tool(effect="read")
    async def body() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            torn.set()

    one = resumable(lambda run: run.step("slow", body))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await entered.wait()
        store.holds = lambda write: write == "decide"
        pausing = asyncio.create_task(session.pause(grace=0, until="stopped"))
        await torn.wait()
        assert not pausing.done()
        store.let_through()
        assert (await pausing).level == "stopped"


class Aborted:
    """A tool that never ends by itself, and keeps how often it began and was aborted."""

    def __init__(self) -> None:
        self.begun = self.aborted = 0
        self.entered = asyncio.Event()

    async def run(self) -> None:
        self.begun += 1
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.aborted += 1


@pytest.mark.parametrize("verb", ["pause", "cancel"])
async def test_a_stop_aborts_in_the_turn_in_which_it_is_called(place: Place, verb: str) -> None:
    """Nothing is written yet, and the call in flight has ended one turn of the loop later."""
    tool = Aborted()
    body = midcourse.tool(effect="idempotent")(tool.run)
    one = resumable(lambda run: run.step("slow", body))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.holds = lambda write: write == "put"
        stop = session.pause(grace=0, until="stopped") if verb == "pause" else session.cancel(grace=0, until="stopped")
        stopping = asyncio.create_task(stop)
        await turns(2)  # in the first one the stop is called, in the second the call is thrown out of its wait
        assert (tool.aborted, store.held) == (1, ["put"])
        await turns(50)
        assert not stopping.done()
        store.let_through()
        assert (await stopping).level == "stopped"
        told = types(await history(session))
        decided = told.index("session.pause_requested" if verb == "pause" else "session.cancel_requested")
        assert "step.aborted" not in told[:decided]
        assert "step.aborted" in told[decided:]


async def test_a_kill_switch_aborts_before_it_is_written(place: Place) -> None:
    tools = [Aborted() for _ in range(5)]
    bodies = [midcourse.tool(effect="read")(tool.run) for tool in tools]
    agents = [resumable(lambda run, body=body: run.step("slow", body), name=f"a{k}") for k, body in enumerate(bodies)]
    store = Faulty(await place.store())
    async with place.open(*agents, store=store) as mc:
        for agent, tool in zip(agents, tools, strict=True):
            await mc.start(agent)
            await tool.entered.wait()
        store.holds = lambda _write: True
        throwing = asyncio.create_task(mc.kill_switch.throw(Scope(), "enough"))
        await until_true(lambda: all(tool.aborted for tool in tools))
        assert not throwing.done()
        store.let_through()
        assert (await throwing).count("stopped") == len(tools)


async def test_a_retried_pause_aborts_nothing_of_what_was_resumed_since(place: Place) -> None:
    tool = Aborted()
    body = midcourse.tool(effect="idempotent")(tool.run)
    one = resumable(lambda run: run.step("slow", body))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped", command_id="cmd_once")
        tool.entered.clear()
        await session.resume()
        await tool.entered.wait()
        await session.pause(grace=0, command_id="cmd_once")
        await turns(50)
        assert (tool.begun, tool.aborted) == (2, 1)
        assert await session.status() == "running"


async def test_a_stop_that_is_refused_when_it_is_decided_costs_a_call_its_attempt_and_no_more(place: Place) -> None:
    """Its id was used before, by another program, for something else: the call begins anew under the same key."""
    tool = Aborted()
    body = midcourse.tool(effect="idempotent", settle=0.0)(tool.run)
    one = resumable(lambda run: run.step("slow", body))
    async with place.open(one) as mc, place.open(drive=False) as elsewhere:
        session = await mc.start(one)
        await tool.entered.wait()
        await (await elsewhere.get(session.id)).message("hello", command_id="cmd_taken")
        tool.entered.clear()
        with pytest.raises(Refused, match="command_id_taken"):
            await session.pause(grace=0, command_id="cmd_taken")
        await tool.entered.wait()
        assert (tool.begun, tool.aborted) == (2, 1)
        [call] = (await session.state()).calls.values()
        assert call.attempt == 2


class Recording(Faulty):
    """Keeps what it was given to append."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.given: list[str] = []

    def append(self, append: Append) -> Awaitable[None]:
        self.given += [event_type(decode_record(content).event) for _, content, _ in append.rows]
        return super().append(append)


@pytest.mark.parametrize("is_declared", [False, True])
async def test_only_the_end_of_what_cannot_be_done_again_waits_for_no_other_write(
    place: Place, is_declared: bool
) -> None:
    """It is on its way to the disk before the agent has its result; any other end shares the next start's commit."""

    async def send() -> str:
        return "sent"

    body = midcourse.tool(effect="idempotent")(send) if is_declared else send
    store = Recording(await place.store())
    on_its_way: list[bool] = []

    async def agent(run: midcourse.Run) -> None:
        await run.step("send", body)
        on_its_way.append("step.finished" in store.given)

    async with place.open(resumable(agent), store=store) as mc:
        await (await mc.start(resumable(agent))).result()
        assert on_its_way == [not is_declared]


async def test_no_watcher_sees_an_event_before_it_is_durable(place: Place) -> None:
    """What was shown is in the journal, whatever dies."""
    first, second = Tool(), Tool()

    async def agent(run: midcourse.Run) -> None:
        await run.step("first", first.run)
        await run.step("second", second.run)

    store = Faulty(await place.store())
    async with place.open(resumable(agent), store=store) as mc:
        session = await mc.start(resumable(agent))
        store.holds = lambda write: write == "append"
        seen: list[str] = []

        async def watch() -> None:
            async for event in session.watch():
                seen.append(event.type)

        watching = asyncio.create_task(watch())
        await until_true(lambda: "append" in store.held)
        await turns(50)
        durable = types(await history(session))
        assert "step.finished" not in durable
        assert seen == durable[: len(seen)]
        store.let_through()
        await watching
        assert seen[-1] == "session.completed"


@pytest.mark.parametrize("write", ["put", "decide"])
async def test_a_stop_that_cannot_be_written_is_answered_stopped_not_durable(place: Place, write: str) -> None:
    """The gate stays shut, what ran was stopped, and the answer says that it will not survive."""
    first, second = Tool(holds=True), Tool()

    async def agent(run: midcourse.Run) -> str:
        await run.step("first", first.run)
        await run.step("second", second.run)
        return "done"

    store = Faulty(await place.store())
    async with place.open(resumable(agent), store=store) as mc:
        session = await mc.start(resumable(agent))
        await first.entered.wait()
        store.fails = lambda name: name in (write, "append", "release", "take")
        reply = await session.pause()
        assert (reply.level, reply.durable, reply.running) == ("stopped", False, ())
        assert str(reply) == "stopped, not durable"
        first.may_end.set()
        await turns(50)
        assert first.ended == []  # it was aborted
        assert second.begun == []

        # The store works again: the pause is written and carried out first. Resumed, it goes on, and only once.
        store.work_again()
        assert await until_status(session, "paused") == "paused"
        assert second.begun == []
        await session.resume()
        assert await session.result() == "done"
        assert len(first.ended) == len(second.ended) == 1


@pytest.mark.parametrize("stop", ["pause", "cancel"])
async def test_a_stop_in_the_owners_process_holds_although_the_store_cannot_be_read(place: Place, stop: str) -> None:
    """Reading says "damaged": the gate is shut before anything is read, and the answer says how far it counts."""
    first, second = Tool(holds=True), Tool()

    async def agent(run: midcourse.Run) -> None:
        await run.step("first", first.run)
        await run.step("second", second.run)

    store = Unreadable(await place.store())
    async with place.open(resumable(agent), store=store) as mc:
        session = await mc.start(resumable(agent))
        await first.entered.wait()
        store.is_damaged = True
        found = await mc.get(session.id)
        verb = found.pause if stop == "pause" else found.cancel
        reply = await verb("stop", grace=0, until="stopped")
        assert (reply.level, reply.durable) == ("stopped", False)
        first.may_end.set()
        await turns(50)
        assert second.begun == []
        store.is_damaged = False


@pytest.mark.parametrize("fault", ["fails", "hangs"])
@pytest.mark.real_time
async def test_an_agents_stop_of_its_child_holds_although_the_store_does_not_answer(place: Place, fault: str) -> None:
    """That it is an agent's is known here: the store is not asked before the gate is shut."""
    work, replies = Tool(effect="read"), list[Reply]()

    async def child(run: midcourse.Run) -> None:
        for number in range(10_000):
            await run.step("work", work.run, number)

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> None:
        spawned = asyncio.ensure_future(run.spawn(kid, "one"))
        await until_true(lambda: len(work.begun) > 3)
        [child_id] = (await (await mc.get(run.session_id)).state()).children.values()
        handle = await mc.get(child_id)
        store.fails = lambda _: fault == "fails"
        store.hangs = lambda _: fault == "hangs"
        replies.append(await handle.pause(wait=0.0))
        await spawned

    store = Silent(await place.store())
    async with place.open(agent := resumable(parent, name="parent"), kid, store=store) as mc:
        session = await mc.start(agent)
        await until_true(lambda: bool(replies))
        begun = len(work.begun)
        await turns(200)
        assert (replies[0].durable, len(work.begun)) == (False, begun)
        store.fails = store.hangs = lambda _: False
        await session.cancel(grace=0)


class Silent(Hanging):
    """A store whose every call hangs, or fails."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.fails: Callable[[str], bool] = lambda _: False

    def _write(self, call: str, make: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        return self._call(call, make) if self.fails(call) else super()._write(call, make)

    async def _call(self, call: str, make: Callable[[], Awaitable[T]]) -> T:
        if self.fails(call):
            raise Damaged("The file is damaged. Restore it from a backup.")
        return await super()._call(call, make)


class Unreadable(WrappedStore):
    """A store that fails every call as a damaged file does, once it is damaged."""

    is_damaged = False

    def _write(self, call: str, make: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        return self._call(call, make) if self.is_damaged else make()

    async def _call(self, call: str, make: Callable[[], Awaitable[T]]) -> T:
        if self.is_damaged:
            raise Damaged("The file is damaged. Restore it from a backup.")
        return await make()


@pytest.mark.parametrize("held", ["put", "decide"])
async def test_the_answer_to_a_stop_comes_in_time_although_the_store_does_not(place: Place, held: str) -> None:
    """Another program holds the file: what is known by then is that nothing runs, and that it is not durable."""
    first, second = Tool(holds=True), Tool()

    async def agent(run: midcourse.Run) -> None:
        await run.step("first", first.run)
        await run.step("second", second.run)

    store = Faulty(await place.store())
    async with place.open(resumable(agent), store=store) as mc:
        session = await mc.start(resumable(agent))
        await first.entered.wait()
        store.holds = lambda write: write == held
        reply = await session.pause(until="stopped", wait=0.0)
        assert (reply.level, reply.durable, [call.name for call in reply.running]) == ("stopping", False, ["first"])
        first.may_end.set()
        await turns(50)
        assert second.begun == []
        store.let_through()
        assert (await session.pause(until="stopped")).durable
        assert second.begun == []


async def test_a_command_that_the_store_does_not_take_in_time_says_so(place: Place) -> None:
    """It may still be carried out: the same id says what became of it."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.holds = lambda write: write == "put"
        with pytest.raises(StoreUnavailable, match="may still do so") as busy:
            await session.redirect("the other one", wait=0.0, command_id="r")
        assert busy.value.code == "store_unavailable"
        store.let_through()
        assert (await session.redirect("the other one", command_id="r")).level == "decided"
        assert [message.text for message in (await session.state()).messages] == ["", "the other one"]
        tool.may_end.set()


async def test_nothing_begins_while_the_store_fails_and_the_session_goes_on_when_it_works_again(place: Place) -> None:
    """A step whose start cannot be written does not run; the agent cannot catch that."""
    first, second = Tool(holds=True), Tool()
    caught: list[BaseException] = []

    async def agent(run: midcourse.Run) -> str:
        await run.step("first", first.run)
        try:
            await run.step("second", second.run)
        except Exception as error:
            caught.append(error)
            raise
        return "done"

    store = Faulty(await place.store())
    async with place.open(resumable(agent), store=store) as mc:
        session = await mc.start(resumable(agent))
        await first.entered.wait()
        attempts = 0

        def fails(write: str) -> bool:
            nonlocal attempts
            attempts += write in ("append", "release")
            return write in ("append", "release", "put")

        store.fails = fails
        first.may_end.set()
        await until_true(lambda: attempts > 1)  # it has tried, in vain
        assert second.begun == []
        assert await session.status() == "running"
        store.work_again()
        assert await session.result() == "done"
        # The first step's result could not be written: nobody knows it, so it was done again. The second ran once.
        assert (len(first.ended), len(second.begun)) == (2, 1)
        assert caught == []


async def test_a_session_whose_write_failed_is_tried_again_at_the_next_command_and_not_sooner_than_it_is_due(
    place: Place,
) -> None:
    """A command that waits does not try at every look; one that was written says that the store works."""
    one = resumable(lambda run: run.step("work", Tool(holds=True).run))
    store = Faulty(await place.store())
    attempts = 0

    def fails(write: str) -> bool:
        nonlocal attempts
        attempts += write in ("append", "release")
        return write in ("append", "release")

    settings = Settings(poll=0.01, unreachable_after=0.5)
    async with place.open(one, store=store, settings=settings) as mc:
        session = await mc.start(one)
        await until_status(session, "running")
        store.fails = fails
        for _ in range(3):
            with contextlib.suppress(midcourse.MidcourseError):
                await session.redirect("faster", wait=0.3)
        assert attempts < 15
        store.work_again()
        assert (await session.pause("enough", grace=0)).status == "pausing"


async def test_a_failing_write_of_the_last_result_loses_nothing_that_was_answered(place: Place) -> None:
    """A session that could not be completed is completed later, without doing a finished step again."""
    tool = Tool()
    one = resumable(lambda run: run.step("fetch", tool.run, "page"))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        failed = 0

        def fails(write: str) -> bool:
            nonlocal failed
            failed += write == "release"
            return write == "release"

        store.fails = fails
        session = await mc.start(one)
        await until_true(lambda: failed > 1)
        assert await session.status() == "running"
        store.work_again()
        assert await session.result() == "page"
        assert len(tool.begun) == 1


@pytest.mark.parametrize("stop", ["pause", "kill switch"])
async def test_a_process_that_ends_first_writes_the_stops_that_it_owes(place: Place, stop: str) -> None:
    """The store works again, and the process ends before it has looked: nobody else goes on with what was stopped."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("work", tool.run))
    store = Faulty(await place.store())
    async with place.open(one, store=store, settings=Settings(poll=30)) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.fails = lambda _: True
        if stop == "pause":
            assert str(await session.pause()) == "stopped, not durable"
        else:
            assert not (await mc.kill_switch.throw(midcourse.Scope("all"), "freeze", wait=0.1)).durable
        store.work_again()
    async with place.open(one) as mc:
        again = await mc.get(session.id)
        await until_status(again, "paused" if stop == "pause" else "halted")
        assert len(tool.begun) == 1


async def test_a_stop_after_the_owner_gave_up_for_want_of_a_disk_is_stopped_not_durable_too(place: Place) -> None:
    """Nothing of the session lives any more; that is what the answer says, and no error of the store."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("work", tool.run))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.fails = lambda write: write != "snapshot"
        first = await session.pause()
        second = await session.pause()
        assert [str(reply) for reply in (first, second)] == ["stopped, not durable"] * 2
        with pytest.raises(midcourse.StoreError):  # what is no stop cannot be answered so
            await session.redirect("left")
        store.work_again()
        assert (await session.cancel(grace=0, until="stopped")).level == "stopped"


async def test_a_stream_whose_segments_cannot_be_written_stops_speaking(place: Place) -> None:
    """Nothing that could not be kept is shown for long: the owner stops."""
    said = 0

    async def model() -> AsyncIterator[str]:
        nonlocal said
        while True:
            said += 1
            yield "word "
            await asyncio.sleep(0.001)

    one = resumable(lambda run: run.stream("write", model))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await until_true(lambda: said > 10)
        store.fails = lambda write: write != "snapshot"
        store.error = lambda: StoreUnavailable("Another program holds the file.", code="store_busy")
        reply = await session.pause()
        assert (reply.level, reply.durable) == ("stopped", False)
        at_answer = said
        await turns(50)
        assert said == at_answer
        store.work_again()
        assert (await session.cancel(until="stopped")).level == "stopped"


async def test_every_answer_says_what_it_survives(place: Place) -> None:
    """`nothing` in memory; what was asked for, and verified, on a disk."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    expected = {"memory": "nothing", "sqlite": "process"}[place.kind]
    async with place.open(one) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        replies = [
            await session.pause(),
            await session.redirect("look elsewhere"),
            await session.resume(),
            await session.cancel(grace=0),
        ]
        assert mc.durability == expected
        assert {reply.durability for reply in replies} == {expected}


async def test_the_same_command_id_is_one_command(place: Place) -> None:
    """A double click and a retry are answered alike and happen once."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        replies = await asyncio.gather(*(session.redirect("left", command_id="click") for _ in range(5)))
        assert {reply.position for reply in replies} == {replies[0].position}
        assert types(await history(session)).count("session.redirected") == 1
        await session.pause(command_id="p")
        await session.resume(command_id="r")
        # A late retry is told what came of the command then, and lifts or sets nothing now.
        assert (await session.pause(command_id="p", until="decided")).pause == "pause_1"
        assert await session.status() == "running"
        tool.may_end.set()
