"""Promise 2: what was answered "not durable" is carried out once the store works, in the order it was sent."""

import asyncio
import sys
from itertools import count
from pathlib import Path

import pytest

import midcourse
from midcourse.core.ids import Epoch, SessionId
from midcourse.errors import StoreUnavailable
from midcourse.handle import Midcourse, SessionHandle
from midcourse.ports.store import Owned
from tests.promises.faults import Faulty
from tests.promises.harness import Place, Tool, history, resumable, silence, turns, types, until_status, until_true

pytestmark = pytest.mark.fake_time
STOPS = ("session.pause_requested", "session.cancel_requested")


async def stops(session: SessionHandle[object]) -> list[str]:
    """The stops that the journal knows, in its order."""
    return [kind for kind in types(await history(session)) if kind in STOPS]


async def lose_owner(mc: Midcourse, store: Faulty, session: SessionHandle[object], tool: Tool) -> None:
    """Let the owner's next write fail, so that this process takes the session again."""
    worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    before = worker.driver(SessionId(session.id))
    store.fails = lambda write: write in ("append", "release")
    tool.may_end.set()
    await until_true(lambda: worker.driver(SessionId(session.id)) is not before)
    store.work_again()


@pytest.mark.parametrize("ends", ["late", "never"])
@pytest.mark.parametrize("stop", ["pause", "cancel"])
async def test_a_session_taken_again_while_its_stop_is_on_its_way_begins_nothing(
    place: Place, stop: str, ends: str
) -> None:
    """The file is held: the stop is answered, the owner gives up, and the next one waits for the stop's write."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.holds = lambda write: write == "put"
        reply = await (session.pause if stop == "pause" else session.cancel)("stop", wait=0.0)
        assert not reply.durable
        await lose_owner(mc, store, session, tool)
        await until_true(lambda: store.held.count("put") > 1)  # the next owner writes it first
        await turns(50)
        if ends == "late":
            store.let_through()
        else:
            store.fail_what_waits()
        wanted = "paused" if stop == "pause" else "cancelled"
        assert await until_status(session, wanted, "completed") == wanted
        assert len(tool.begun) == 1


async def test_owed_stops_are_carried_out_in_the_order_they_were_sent(place: Place) -> None:
    """A pause whose write hangs comes before a cancel whose write fails at once."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.holds = lambda write: write == "put"
        assert not (await session.pause(wait=0.0)).durable
        store.fails = lambda write: write == "put"
        assert not (await session.cancel(wait=0.0)).durable
        store.work_again()
        store.let_through()
        assert await until_status(session, "cancelled") == "cancelled"
        assert await stops(session) == list(STOPS)
        assert len(tool.begun) == 1


async def test_a_stop_that_is_owed_while_another_is_being_written_is_not_forgotten(place: Place) -> None:
    """What is written is struck off, and nothing else."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.fails = lambda _: True
        assert not (await session.pause()).durable
        store.fails = lambda _: False
        store.holds = lambda write: write == "put"
        await until_true(lambda: "put" in store.held)  # the pause is being written
        assert not (await session.cancel(wait=0.0)).durable
        store.let_through()
        assert await until_status(session, "cancelled") == "cancelled"
        assert await stops(session) == list(STOPS)


async def test_a_resume_sent_after_an_owed_pause_lifts_it(place: Place) -> None:
    """The pause is put into the inbox first, and then the resume."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run, "page"))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.fails = lambda _: True
        assert not (await session.pause()).durable
        store.work_again()
        tool.may_end.set()
        await session.resume()
        assert await session.result() == "page"
        told = types(await history(session))
        assert told.index("session.pause_requested") < told.index("session.resumed")


class LateHead(Faulty):
    """A store whose next read of a head hangs until it may end."""

    hangs = False
    may_read = False

    async def head(self, session_id: SessionId) -> Owned:
        if self.hangs:
            self.hangs = False
            while not self.may_read:  # on whichever loop
                await asyncio.sleep(0.002)
        return await super().head(session_id)


@pytest.mark.parametrize("late", ["resume", "redirect"])
@pytest.mark.parametrize("stop", ["pause", "cancel"])
async def test_nothing_sent_before_an_owed_stop_sets_the_session_going_after_it(
    place: Place, stop: str, late: str
) -> None:
    """It had hung before the store could take it: it is told so, and is not stored."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    store = LateHead(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.hangs = True
        earlier = asyncio.create_task(session.resume() if late == "resume" else session.redirect("left", resume=True))
        await until_true(lambda: not store.hangs)
        store.fails = lambda _: True
        assert not (await (session.pause if stop == "pause" else session.cancel)("stop")).durable
        store.work_again()
        wanted = "paused" if stop == "pause" else "cancelled"
        assert await until_status(session, wanted) == wanted
        store.may_read = True
        with pytest.raises(StoreUnavailable, match="stopped after this was sent"):
            await earlier
        await turns(50)
        assert await session.status() == wanted
        assert len(tool.begun) == 1


async def test_a_stop_of_a_session_that_another_process_has_taken_since_is_written_too(place: Place) -> None:
    """It was answered here, and goes into the inbox of whoever owns the session now."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    inner = await place.store()
    store = Faulty(inner)
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        silence(mc, session.id)
        inner.abandon()
        async with place.open(one, drive=True) as other:
            theirs = await other.get(session.id)
            await until_true(lambda: len(tool.begun) == 2)
            store.fails = lambda write: write == "put"
            assert not (await session.pause(grace=0)).durable
            store.work_again()
            assert await until_status(theirs, "paused") == "paused"
            assert await stops(theirs) == ["session.pause_requested"]


async def test_a_stop_sent_while_the_session_is_being_taken_again_keeps_its_gate_shut(place: Place) -> None:
    """The next owner had looked for stops before; it begins nothing until this one is written."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    store = LateHead(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        await lose_owner(mc, store, session, tool)
        store.hangs = True
        await until_true(lambda: not store.hangs)  # the next owner reads the session
        store.fails = lambda write: write == "put"
        reply = await session.pause()
        assert (reply.level, reply.durable) == ("stopped", False)
        store.may_read = True
        worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        await until_true(lambda: worker.driver(SessionId(session.id)) is not None)
        await turns(50)
        assert len(tool.begun) == 1
        store.work_again()
        assert await until_status(session, "paused") == "paused"
        assert len(tool.begun) == 1


@pytest.mark.parametrize("stop", ["pause", "cancel"])
@pytest.mark.parametrize("fault", ["fails", "hangs"])
@pytest.mark.real_time
async def test_a_stop_of_a_parent_that_is_not_written_stops_its_children_here_too(
    place: Place, stop: str, fault: str
) -> None:
    """The store takes their writes, and not the parent's command: they begin nothing until it does, and are listed."""
    tool = Tool(effect="read")

    async def child(run: midcourse.Run) -> None:
        for number in count():
            await run.step("work", tool.run, number)

    kid = resumable(child, name="kid")
    parent = resumable(lambda run: run.spawn(kid, "one"), name="parent")
    store = Faulty(await place.store())
    async with place.open(parent, kid, store=store) as mc:
        session = await mc.start(parent)
        await until_true(lambda: len(tool.begun) > 3)
        [child_id] = (await session.state()).children.values()
        if fault == "fails":
            store.fails = lambda write: write == "put"
        else:
            store.holds = lambda write: write == "put"
        reply = await (session.pause if stop == "pause" else session.cancel)("stop", until="stopped", wait=0.0)
        assert (reply.level, reply.durable) == ("stopped" if fault == "fails" else "stopping", False)
        begun = len(tool.begun)
        await turns(200)
        assert len(tool.begun) == begun
        store.work_again()
        store.let_through()
        wanted = "paused" if stop == "pause" else "cancelled"
        assert await until_status(session, wanted) == wanted
        assert await until_status(await mc.get(child_id), wanted) == wanted
        assert len(tool.begun) == begun


@pytest.mark.real_time
async def test_no_stop_is_durable_after_the_log_of_the_file_was_removed(tmp_path: Path) -> None:
    """What is written then goes into a file without a name: the answer says so, and the session begins nothing."""
    place, tool = Place("sqlite", tmp_path), Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        Path(f"{place.path}-wal").unlink()
        reply = await session.pause(grace=0, until="stopped")
        assert (reply.level, reply.durable) == ("stopped", False)
        assert str(reply) == "stopped, not durable"


HOLDS = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
file.execute("ROLLBACK")
print("free", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("stop", ["pause", "cancel"])
@pytest.mark.real_time
async def test_a_stop_is_answered_while_another_program_holds_the_lock_of_the_file(tmp_path: Path, stop: str) -> None:
    """The answer says what is known by then; the stop is written when the lock is free."""
    place, first, second = Place("sqlite", tmp_path), Tool(holds=True), Tool()

    async def agent(run: midcourse.Run) -> None:
        await run.step("first", first.run)
        await run.step("second", second.run)

    async with place.open(one := resumable(agent)) as mc:
        session = await mc.start(one)
        await first.entered.wait()
        holder = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", HOLDS, str(place.path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert await holder.stdout.readline() == b"held\n"
            reply = await (session.pause if stop == "pause" else session.cancel)("stop", until="stopped", wait=0.0)
            assert (reply.level, reply.durable, [call.name for call in reply.running]) == ("stopping", False, ["first"])
            first.may_end.set()
            await turns(50)
            assert second.begun == []
            holder.stdin.write(b"\n")  # only now: the answer came while it held the lock
            assert await holder.stdout.readline() == b"free\n"
        finally:
            holder.stdin.close()
            await holder.wait()
        wanted = "paused" if stop == "pause" else "cancelled"
        assert await until_status(session, wanted) == wanted
        assert second.begun == []


async def test_a_late_failure_of_an_earlier_driver_does_not_leave_a_session_without_one(place: Place) -> None:
    """It names an epoch that has passed. The session is still this process's own, and no other takes it."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    store = Faulty(await place.store())
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        store.fails = lambda write: write == "append"
        tool.may_end.set()
        await until_true(lambda: worker.driver(SessionId(session.id)) is None)
        worker.failed_writes.add(SessionId(session.id), Epoch(0), StoreUnavailable("It came late."))
        store.work_again()
        await session.result()
