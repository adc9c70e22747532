"""Promise 9: damage is noticed. A damaged snapshot is done without; a damaged journal is never continued."""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import midcourse
from midcourse.core.codec import encode
from midcourse.core.commands import Pause, encode_command
from midcourse.core.ids import CommandId, SessionId
from tests.promises import damage
from tests.promises.faults import Faulty
from tests.promises.harness import Place, Tool, history, resumable, turns, types, until_status


class Worker:
    """An agent of many small steps that is stopped in the middle, and counts what it does."""

    def __init__(self, steps: int = 12, size: int = 10) -> None:
        self.tool = Tool()
        self.barrier = Tool(holds=True)
        self.steps = steps
        self.size = size
        self.agent = resumable(self.work, name="worker")

    async def work(self, run: midcourse.Run) -> list[object]:
        """Half of the steps, a barrier, the other half."""
        done: list[object] = []
        for number in range(self.steps):
            if number == self.steps // 2:
                await run.step("barrier", self.barrier.run)
            done.append(await run.step("work", self.tool.run, f"{number}".ljust(self.size)))
        return done

    async def leave_half_done(self, place: Place, *, pause: bool = False) -> list[midcourse.Recorded]:
        """A session ``s`` that stands at the barrier, in a closed store, and its history."""
        async with place.open(self.agent, grace=0) as mc:
            session = await mc.start(self.agent, session_id="s")
            await self.barrier.entered.wait()
            if pause:
                await session.pause(grace=0, until="stopped")
        self.barrier.may_end.set()
        async with place.open(drive=False) as mc:
            return await history(await mc.get("s"))


@pytest.mark.parametrize("kind", damage.KINDS)
@pytest.mark.parametrize("paused", [True, False])
async def test_a_damaged_journal_stops_the_session_with_a_clear_error_and_never_continues(
    place: Place, kind: damage.Kind, *, paused: bool
) -> None:
    """A record that was changed, removed or exchanged, or an end that is missing: whoever asks is told."""
    worker = Worker()
    written = await worker.leave_half_done(place, pause=paused)
    done = list(worker.tool.begun)
    step = next(event.position for event in written[4:] if event.type == "step.begun")
    damage.damage_journal(place, "s", kind, len(written) - 1 if kind == "truncate" else step)
    _without_snapshots(place)

    async with place.open(worker.agent) as mc:
        session = await mc.get("s")
        if paused:
            with pytest.raises(midcourse.Damaged):
                await session.resume()
        assert await _until_head(mc, "failed")
        for ask in (session.state(), session.result(), session.resume(), session.pause(), _watched(session)):
            with pytest.raises(midcourse.Damaged, match="damaged at position .* restore the store") as told:
                await ask
            assert told.value.code == "damaged"
            assert told.value.fields["session_id"] == "s"
        assert [(head.id, head.status) for head in await mc.list()] == [("s", "failed")]
        await turns(50)
    assert worker.tool.begun == done


def _without_snapshots(place: Place) -> None:
    """So that nothing bridges the damage; with a good snapshot behind it, rows before it are not read."""
    damage.damage_snapshots(place, "s", damage.emptied)


async def _until_head(mc: midcourse.Midcourse, status: str) -> bool:
    while [head.status for head in await mc.list()] != [status]:
        await asyncio.sleep(0.005)
    return True


async def _watched(session: "midcourse.SessionHandle[object]") -> list[midcourse.Recorded]:
    return [event async for event in session.watch()]


@pytest.mark.parametrize("kind", damage.KINDS)
async def test_damage_behind_a_snapshot_is_noticed_although_the_snapshot_is_good(
    place: Place, kind: damage.Kind
) -> None:
    """A snapshot saves reading; what comes after it is still read, and checked."""
    worker = Worker()
    written = await worker.leave_half_done(place)
    # The last rows lie behind the snapshot that parking wrote, or are the ones it was taken at.
    damage.damage_journal(place, "s", kind, len(written) - (kind == "swap"))
    async with place.open(worker.agent, drive=False) as mc:
        session = await mc.get("s")
        with pytest.raises(midcourse.Damaged):
            await session.state()


async def test_a_changed_result_is_noticed_although_a_good_snapshot_lies_behind_it(place: Place) -> None:
    """A snapshot leaves long results to the journal: one that is not what it was is not followed."""
    worker = Worker(size=500)
    written = await worker.leave_half_done(place, pause=True)
    result = next(one.position for one in written if one.type == "step.finished")
    damage.damage_journal(place, "s", "flip", result)
    async with place.open(worker.agent, drive=False) as mc:
        with pytest.raises(midcourse.Damaged, match="damaged at position"):
            await (await mc.get("s")).state()


@pytest.mark.parametrize("newest", [1, 2])
@pytest.mark.parametrize("change", [damage.flipped, damage.shortened, damage.emptied])
async def test_a_damaged_snapshot_falls_back_and_is_rebuilt_from_the_journal(
    place: Place, newest: int, change: Callable[[bytes], bytes]
) -> None:
    """One or both: the session is the same as before, goes on, and soon has good snapshots again."""
    worker = Worker(steps=240, size=500)
    await worker.leave_half_done(place, pause=True)
    async with place.open(drive=False) as mc:
        before = await (await mc.get("s")).state()
    assert damage.damage_snapshots(place, "s", change, newest=newest) == 2
    store = Faulty(await place.store())
    async with place.open(worker.agent, store=store) as mc:
        session = await mc.get("s")
        assert await session.state() == before
        # With the older one what comes after it was read; with neither, everything.
        assert (store.reads[0] == 0) == (newest == 2)
        await session.resume()
        assert len(await session.result()) == 240
        assert len(worker.tool.begun) == 240
        assert store.snapshots_saved > 0
    async with place.open(store=(after := Faulty(await place.store())), drive=False) as mc:
        assert (await (await mc.get("s")).state()).finished_steps == 241
        assert after.reads[0] > 0


@pytest.mark.parametrize("change", [damage.flipped, None])
async def test_a_damaged_or_missing_blob_stops_the_session_and_is_not_followed(
    place: Place, change: Callable[[bytes], bytes] | None
) -> None:
    """Large values are addressed by their content: what does not match its address is not used."""
    worker = Worker(size=40_000)
    await worker.leave_half_done(place, pause=True)
    assert damage.damage_blobs(place, change) == 6
    async with place.open(worker.agent) as mc:
        session = await mc.get("s")
        await session.resume()
        with pytest.raises(midcourse.SessionEnded, match=r"Blob [0-9a-f]+ .*Restore the store from a backup") as ended:
            await session.result()
        assert ended.value.code == "damaged"
        with pytest.raises(midcourse.Refused) as refused:
            await session.resume()
        assert refused.value.code == "session_damaged"
    assert len(worker.tool.begun) == 6


async def test_a_damaged_head_is_left_out_of_lists_and_named_to_whoever_asks_for_it(place: Place) -> None:
    """The other sessions of the store are not disturbed."""
    worker = Worker()
    await worker.leave_half_done(place, pause=True)
    tool = Tool()
    one = resumable(lambda run: run.step("fetch", tool.run, "page"))
    async with place.open(one) as mc:
        await (await mc.start(one, session_id="other")).result()
    damage.damage_head(place, "s")
    async with place.open(worker.agent) as mc:
        assert [head.id for head in await mc.list()] == ["other"]
        with pytest.raises(midcourse.Damaged, match="'s'"):
            await mc.get("s")
        assert await (await mc.get("other")).result() == "page"
    assert len(worker.tool.begun) == 6


async def test_a_damaged_command_is_refused_and_the_session_goes_on(place: Place) -> None:
    """Nobody can say what it wanted, so it does nothing; whoever sent it is told to send it again."""
    worker = Worker()
    await worker.leave_half_done(place)
    store = await place.store()
    await store.put(SessionId("s"), CommandId("c"), encode_command(Pause(id=CommandId("c"))), 1.0)
    await store.close()
    damage.damage_command(place, "s", "c")
    async with place.open(worker.agent) as mc:
        session = await mc.get("s")
        assert len(await session.result()) == 12
        assert "session.pause_requested" not in types(await history(session))
        with pytest.raises(midcourse.Damaged, match="Send it again under a new id"):
            await session.pause(command_id="c")


async def test_a_cancel_of_a_parent_ends_although_a_child_is_damaged_and_its_receipt_says_so(place: Place) -> None:
    """What can be undone is undone, and the child that cannot be read is named: nobody tries it without end."""
    undone: list[object] = []

    def undo(arguments: Mapping[str, Any], result: object, key: str) -> None:
        del result, key
        undone.extend(arguments["arguments"])

    work = Tool(undo=undo)
    barrier = Tool(holds=True)

    async def child(run: midcourse.Run) -> object:
        return await run.step("work", work.run, run.goal)

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> None:
        await run.step("work", work.run, "own")
        await run.spawn(kid, "child", key="child")
        await run.step("barrier", barrier.run)

    async with place.open(agent := resumable(parent, name="parent"), kid, grace=0) as mc:
        session = await mc.start(agent)
        await barrier.entered.wait()
        await session.pause(grace=0, until="stopped")
        [name] = [head.id for head in await mc.list() if head.parent]
    barrier.may_end.set()
    damage.damage_journal(place, name, "flip", 3)
    damage.damage_snapshots(place, name, damage.emptied)
    async with place.open(agent, kid) as mc:
        session = await mc.get(session.id)
        await session.cancel(undo="all", grace=0)
        assert await until_status(session, "cancelled") == "cancelled"
        lines = {line.name: line for line in (await session.receipt()).lines}
        assert lines["work"].outcome == "undone"
        assert lines["the rollback"].outcome == "undo failed"
        assert name in lines["the rollback"].detail
    assert undone == ["own"]


@pytest.mark.parametrize("byte", [0x72, 0xF3])
async def test_a_child_whose_id_is_damaged_is_found_and_not_begun_a_second_time(tmp_path: Path, byte: int) -> None:
    """One byte of its row: what it has done is in its journal, and its parent waits for it."""
    place, pay, barrier = Place("sqlite", tmp_path), Tool(effect="write"), Tool(holds=True)

    async def child(run: midcourse.Run) -> object:
        await run.step("pay", pay.run, 7)
        return await run.step("barrier", barrier.run, "done")

    kid = resumable(child, name="kid")
    parent = resumable(lambda run: run.spawn(kid, "child", key="child"), name="parent")
    async with place.open(parent, kid, grace=0) as mc:
        session = await mc.start(parent)
        await barrier.entered.wait()
        [name] = (await session.state()).children.values()
    barrier.may_end.set()
    damage.damage_id(place.path, name, byte)
    async with place.open(parent, kid) as mc:
        assert await (await mc.get(session.id)).result() == "done"
    assert len(pay.begun) == 1


# ---- any byte of the file

_STEPS = 6
_STILL = 60.0
"""Seconds that no machine is too busy for: what has not ended by then never will."""


async def _agent(run: midcourse.Run) -> str:
    words = [await run.step("work", _work, number) for number in range(_STEPS)]
    answer = await run.ask("Go on?")
    return f"{' '.join(words)} {answer}"


async def _work(number: int) -> str:
    return f"result {number}"


_any_agent = resumable(_agent, name="any")
_RESULT = " ".join(f"result {number}" for number in range(_STEPS))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[bytes]]]:
    """A closed store with an ended session and a waiting one, and what their journals say."""
    place = Place("sqlite", tmp_path_factory.mktemp("written"))

    async def write() -> dict[str, list[bytes]]:
        async with place.open(_any_agent) as mc:
            for name in ("ended", "waiting"):
                session = await mc.start(_any_agent, "a goal", session_id=name)
                await until_status(session, "waiting")
            await (ended := await mc.get("ended")).answer("yes")
            assert await ended.result() == f"{_RESULT} yes"
        return await _histories(place)

    histories = asyncio.run(write())
    assert not place.path.with_name("sessions.db-wal").exists()
    return place.path, histories


async def _histories(place: Place) -> dict[str, list[bytes]]:
    """Every session's history; one that is damaged is left out, after it was told by a MidcourseError."""
    found: dict[str, list[bytes]] = {}
    async with place.open(_any_agent, drive=False) as mc:
        await mc.list()
        for name in ("ended", "waiting"):
            try:
                session = await mc.get(name)
                state = await session.state()
                found[name] = [encode(event, what=name) for event in await history(session)]
                found[name].append(encode(state, what=name))
            except midcourse.MidcourseError as error:
                assert error.code != "error"
    return found


async def _gone_on_with(place: Place) -> str | None:
    """How the waiting session ends if it is answered; None: the damage was noticed."""
    async with place.open(_any_agent) as mc:
        try:
            session = await mc.get("waiting")
            await session.answer("yes", wait=_STILL)
            return await session.result(timeout=_STILL)
        except midcourse.MidcourseError as error:
            assert error.code != "error"
            return None
        except TimeoutError:
            pytest.fail("it stands still: it neither ends nor says that it is damaged")


Flips = list[tuple[float, int]]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flips=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)),
        min_size=1,
        max_size=4,
    ),
    go_on=st.booleans(),
)
@example(flips=[(0.0, 255)], go_on=False)
@example(flips=[(0.999999, 1)], go_on=True)
def test_bytes_of_the_file_flipped_at_random_are_noticed_or_do_not_matter_and_never_make_another_history(
    written: tuple[Path, dict[str, list[bytes]]], flips: Flips, *, go_on: bool
) -> None:
    """The same history, or an error with a code. Never a history that nobody wrote."""
    source, histories = written
    with TemporaryDirectory() as folder:
        place = Place("sqlite", Path(folder))
        shutil.copy(source, place.path)
        content = bytearray(place.path.read_bytes())
        for where, mask in flips:
            content[int(where * len(content))] ^= mask
        place.path.write_bytes(content)
        try:
            found = asyncio.run(_histories(place))
            for name, story in found.items():
                assert story == histories[name]
            if go_on:
                assert asyncio.run(_gone_on_with(place)) in (None, f"{_RESULT} yes")
        except midcourse.MidcourseError as error:
            assert error.code != "error"
