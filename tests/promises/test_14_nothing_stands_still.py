"""Promise 14: nothing stands still, and nothing spins. Every session ends, waits for a named person, or progresses."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

import midcourse
from midcourse.core.events import StepSettled
from midcourse.core.fold import Row
from midcourse.core.ids import CommandId, Position, SessionId, WorkerId
from midcourse.core.session import Hold
from midcourse.errors import Damaged, MidcourseError, StoreUnavailable
from midcourse.ports.store import Owned, Store
from midcourse.runtime.call_recovery import DID_NOT, HAPPENED, CallRecovery
from midcourse.runtime.command_outcome import decode_outcome
from midcourse.runtime.undo import UndoRunner
from midcourse.testing.wrapped_store import WrappedStore
from tests.promises.faults import Faulty
from tests.promises.harness import Place, Tool, history, resumable, turns, types, until_status, until_true


@pytest.mark.parametrize(("answer", "attempts"), [(DID_NOT, 2), (HAPPENED, 1)])
async def test_an_answer_about_a_lost_call_after_a_redirect_is_used_once(
    place: Place, answer: str, attempts: int
) -> None:
    """The step is wanted again: a "no" lets it begin, and is no reason to ask or to journal anything again."""
    pay = Tool(holds=True, effect="write")

    async def payer(run: midcourse.Run) -> object:
        return await run.step("pay", pay.run, 7)

    agent = resumable(payer)
    async with place.open(agent, grace=0) as mc:
        session = await mc.start(agent)
        await pay.entered.wait()
    pay.may_end.set()
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.next_ask()
        await session.redirect("use the other account")
        await session.answer(answer, ask=(await session.next_ask()).id)
        await session.result()
        assert len(pay.begun) == attempts
        settled = [one for one in await history(session) if isinstance(one.event, StepSettled)]
        assert len(settled) == attempts - 1


@pytest.mark.parametrize("ends", ["raises", "returns"])
async def test_a_parent_whose_agent_ends_while_its_child_is_queued_ends_after_it(place: Place, ends: str) -> None:
    """What was spawned is in flight: it starts once, does its work, and its parent ends after it."""
    work, over = Tool(), asyncio.Event()

    async def child(run: midcourse.Run) -> object:
        return await run.step("work", work.run, run.goal)

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> str:
        spawned = asyncio.ensure_future(run.spawn(kid, "one", key="one"))
        await over.wait()
        spawned.cancel()
        if ends == "raises":
            raise ValueError("no such row")
        return "done"

    store = Faulty(await place.store())
    async with place.open(agent := resumable(parent, name="parent"), kid, store=store) as mc:
        session = await mc.start(agent)
        store.holds = lambda call: call == "create"
        await until_true(lambda: "create" in store.held)
        over.set()
        await turns(20)
        assert await session.status() == "running"
        store.let_through()
        assert await until_status(session, "failed", "completed") == ("failed" if ends == "raises" else "completed")
        [head] = [head for head in await mc.list() if head.parent == session.id]
        assert (head.status, work.ended) == ("completed", [("one",)])
        happened = types(await history(await mc.get(head.id)))
        assert happened.count("session.taken") == 1


@pytest.mark.parametrize("drive", [True, False])
async def test_a_refused_command_leaves_the_journal_as_it_is(place: Place, drive: bool) -> None:
    """An ended session has no owner: who decides the row takes it, and writes nothing that is not a new fact."""

    async def nothing(_run: midcourse.Run) -> str:
        return "done"

    async with place.open(agent := resumable(nothing)) as mc:
        session = await mc.start(agent)
        await session.result()
    async with place.open(agent, drive=drive) as mc:
        session = await mc.get(session.id)
        before = (await session.state()).position
        for number in range(3):
            with pytest.raises(midcourse.Refused) as refused:
                await session.resume(command_id=f"r{number}")
            row = await (await place.store()).row(SessionId(session.id), CommandId(f"r{number}"))
            assert row is not None
            assert row.outcome is not None
            assert decode_outcome(row.outcome).code == refused.value.code == "session_ended"
        assert (await session.state()).position == before
        await session.redirect("once more")
        assert (await session.state()).position > before


async def test_a_take_without_a_fact_is_journaled_with_the_first_fact(place: Place) -> None:
    """Who took a paused session is known as soon as it matters: before the first event that the new owner appends."""
    tool = Tool(holds=True)

    async def worker(run: midcourse.Run) -> object:
        return await run.step("work", tool.run, 1)

    async with place.open(agent := resumable(worker)) as mc:
        session = await mc.start(agent)
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped")
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        before = (await session.state()).position
        tool.may_end.set()
        await session.resume()
        await session.result()
        assert types(await history(session))[before : before + 2] == ["session.taken", "session.resumed"]


async def test_a_child_whose_parent_cannot_be_read_is_paused_and_says_why(place: Place) -> None:
    """A stop of the parent's may be on its way, and nothing can tell: a person decides whether the child continues."""
    tool = Tool(holds=True)

    async def child(run: midcourse.Run) -> object:
        return await run.step("work", tool.run, run.goal)

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> object:
        return await run.spawn(kid, "one", key="one")

    store = await place.store()
    async with place.open(agent := resumable(parent, name="parent"), kid, store=store) as mc:
        session = await mc.start(agent)
        await tool.entered.wait()
        [child_id] = (await session.state()).children.values()
        store.abandon()
        async with place.open(agent, kid, store=_WithoutHead(await place.store(), session.id)) as other:
            orphan = await other.get(child_id)
            await until_status(orphan, "paused")
            state = await orphan.state()
            assert state.pause is not None
            assert "a session above it cannot be read" in state.pause.reason
            tool.may_end.set()
            await orphan.resume()
            assert await orphan.result() == "one"


async def test_a_child_that_never_began_begins_once_a_person_resumes_it_without_its_parent(place: Place) -> None:
    """Nothing else would begin it: its parent cannot be read any more."""

    async def child(run: midcourse.Run) -> str:
        return run.goal

    kid = resumable(child, name="kid")
    agent = resumable(lambda run: run.spawn(kid, "one"), name="parent")
    async with place.open(agent, kid, drive=False) as mc:
        session = await mc.start(agent)
        transport: Any = mc._transport  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        await transport.control.create_child(name := SessionId(f"{session.id}.kid"), kid, "one", session.id)
    async with place.open(agent, kid, store=_WithoutHead(await place.store(), session.id)) as other:
        orphan = await other.get(name)
        await until_status(orphan, "paused")
        await orphan.resume()
        assert await orphan.result() == "one"


class _WithoutHead(WrappedStore):
    """A store in which the head of one session is damaged."""

    def __init__(self, inner: Store, damaged: str) -> None:
        super().__init__(inner)
        self._damaged = damaged

    async def head(self, session_id: SessionId) -> Owned:
        self._check(session_id)
        return await self.inner.head(session_id)

    async def take(self, session_id: SessionId, worker: WorkerId) -> Owned:
        self._check(session_id)
        return await self.inner.take(session_id, worker)

    def _check(self, session_id: SessionId) -> None:
        if session_id == self._damaged:
            raise Damaged(f"The head of session '{session_id}' is damaged. Restore the store from a backup.")


async def test_a_session_that_cannot_be_read_when_it_is_taken_continues_once_it_can(place: Place) -> None:
    """Its owner lives, so that no other process takes it: this one tries it again."""
    tool = Tool(holds=True)

    async def worker(run: midcourse.Run) -> object:
        return await run.step("work", tool.run, 1)

    async with place.open(agent := resumable(worker), grace=0) as mc:
        session = await mc.start(agent)
        await tool.entered.wait()
    tool.may_end.set()
    store = _Unreadable(await place.store())
    async with place.open(agent, store=store) as mc:
        await until_true(lambda: store.refused > 0)
        store.is_readable = True
        assert await (await mc.get(session.id)).result() == 1


class _Unreadable(WrappedStore):
    """A store that cannot be read from the moment a session was taken until ``is_readable``."""

    is_readable = False
    refused = 0

    async def snapshots(self, session_id: SessionId) -> Sequence[bytes]:
        if not self.is_readable:
            self.refused += 1
            raise StoreUnavailable("The disk does not answer. Try again.")
        return await self.inner.snapshots(session_id)


async def test_a_rollback_that_fails_unforeseen_ends_and_its_receipt_says_so(place: Place) -> None:
    """It is not begun again at once: that would fail again, without end."""
    first, second = Tool(), Tool(holds=True)

    async def agent(run: midcourse.Run) -> None:
        await run.step("first", first.run)
        await run.step("second", second.run)

    store = _FailingReads(await place.store())
    async with place.open(one := resumable(agent), store=store) as mc:
        session = await mc.start(one)
        await second.entered.wait()
        store.fails = True
        await session.cancel(undo="all", grace=0, until="decided")
        worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        await until_true(
            lambda: store.failed > 20 or (store.failed > 0 and worker.driver(SessionId(session.id)) is None)
        )
        store.fails = False
        assert store.failed <= 20
        assert await until_status(session, "cancelled") == "cancelled"
        lines = {line.name: line for line in (await session.receipt()).lines}
        assert lines["the rollback"].outcome == "undo failed"
        assert "RuntimeError: the reader broke" in lines["the rollback"].detail


class _FailingReads(WrappedStore):
    """A store whose reads of a journal raise what no store should."""

    fails = False
    failed = 0

    async def read(self, session_id: SessionId, after: Position, limit: int = 1000) -> Sequence[Row]:
        if self.fails:
            self.failed += 1
            raise RuntimeError("the reader broke")
        return await self.inner.read(session_id, after, limit)


async def test_a_session_whose_holds_cannot_even_be_tried_fails_and_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not try without end, and it is not completed as if nothing were held."""
    tries = 0

    async def broken(self: UndoRunner, hold: Hold) -> None:
        nonlocal tries
        tries += 1
        raise RuntimeError("nobody had foreseen this")

    monkeypatch.setattr(UndoRunner, "release", broken)

    async def agent(run: midcourse.Run) -> None:
        await run.hold("lock", let_go)

    async with place.open(one := resumable(agent)) as mc:
        session = await mc.start(one)
        assert await until_status(session, "failed") == "failed"
        assert tries == 1
        state = await session.state()
        assert state.failure is not None
        assert state.failure.code == "release_failed"


def let_go() -> None:
    """Let go of nothing."""


@pytest.mark.parametrize(
    "error",
    [
        Damaged("The file is damaged. Restore it from a backup."),
        StoreUnavailable("The file is not the one that was opened. Stop this program.", code="store_replaced"),
    ],
)
async def test_waiting_for_a_session_whose_end_cannot_be_written_ends_with_the_reason(
    place: Place, error: MidcourseError
) -> None:
    """Such a file takes no writes: who waits for the result gets the sentence, and does not wait for ever."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    store = Faulty(await place.store())
    store.error = lambda: error
    async with place.open(one, store=store) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
        store.fails = lambda _: True
        tool.may_end.set()
        with pytest.raises(type(error), match="The file is"):
            await session.result()
        store.work_again()


async def test_an_act_that_changes_nothing_about_a_lost_call_is_told_and_not_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a fault is ours: the log names the session and the step, and the other sessions of the process continue."""

    async def undo(_arguments: object, _result: object, _key: str) -> None: ...

    make, acts = Tool(holds=True, effect="write", undo=undo), 0
    agent = resumable(lambda run: run.step("make", make.run, 1))
    quick = resumable(lambda run: run.step("say", Tool().run, "said"), name="quick")

    async def nothing(_recovery: CallRecovery, _call: object) -> None:
        nonlocal acts
        acts += 1

    store = await place.store()
    async with place.open(agent, store=store) as mc:
        session = await mc.start(agent)
        await make.entered.wait()
        store.abandon()
        with monkeypatch.context() as patched:
            patched.setattr(CallRecovery, "_undo", nothing)
            async with place.open(agent, quick) as other:
                told = f"session {session.id}: stopped, because.* Step 'make' cannot be settled: 'undo' changed nothing"
                await until_true(lambda: re.search(told, caplog.text) is not None)
                assert acts <= caplog.text.count("changed nothing") + 1  # each is told, none is repeated in silence
                assert await (await other.start(quick)).result() == "said"
        make.may_end.set()


async def test_waiting_for_a_session_that_cannot_be_taken_from_a_replaced_store_ends_with_the_reason(
    place: Place,
) -> None:
    """What a dead process left behind is taken by nobody then: who waits for its result is told."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("fetch", tool.run))
    async with place.open(one, grace=0) as mc:
        session = await mc.start(one)
        await tool.entered.wait()
    tool.may_end.set()
    store = Faulty(await place.store())
    store.error = lambda: StoreUnavailable("The file was replaced. Stop this program.", code="store_replaced")
    store.fails = lambda name: name == "take"
    async with place.open(one, store=store) as mc:
        with pytest.raises(StoreUnavailable, match="was replaced"):
            await (await mc.get(session.id)).result()
