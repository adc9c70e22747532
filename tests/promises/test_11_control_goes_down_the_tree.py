"""Promise 11: control goes down the tree. Children are reached or listed, asks come up, cost adds up."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from msgspec.structs import replace

import midcourse
from midcourse.core import commands as cmd
from midcourse.core.ids import CommandId, SessionId, child_id
from midcourse.core.steps import step_id
from midcourse.errors import SessionNotFound
from midcourse.handle import Midcourse, SessionHandle
from midcourse.ports.store import Append
from midcourse.runtime.control import Control
from midcourse.testing.wrapped_store import WrappedStore
from tests.promises.faults import Faulty, Hanging
from tests.promises.harness import Place, Tool, history, resumable, silence, types, until, until_status

pytestmark = pytest.mark.fake_time


def _family(tool: Tool, *, goals: tuple[str, ...] = ("one",)) -> tuple[midcourse.Agent[Any], midcourse.Agent[Any]]:
    async def child(run: midcourse.Run) -> object:
        if run.goal == "ask":
            return await run.ask("May I?")
        return await run.step("work", tool.run, run.goal)

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> object:
        return await asyncio.gather(*(run.spawn(kid, goal, key=goal) for goal in goals))

    return resumable(parent, name="parent"), kid


async def _children(mc: Midcourse, parent: SessionHandle[Any]) -> list[SessionHandle[Any]]:
    return [await _arrived(mc, child) for child in (await parent.state()).children.values()]


async def _arrived(mc: Midcourse, child: SessionId) -> SessionHandle[Any]:
    """The child, which its parent names one commit before it is there."""
    while True:
        with contextlib.suppress(SessionNotFound):
            return await mc.get(child)
        await asyncio.sleep(0.01)


async def test_a_child_returns_its_result_to_the_step_that_spawned_it(place: Place) -> None:
    """It is a session of its own, with its parent's name and an id made of parent and step."""
    tool = Tool()
    parent, kid = _family(tool, goals=("one", "two"))
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        assert await session.result() == ["one", "two"]
        heads = [head for head in await mc.list() if head.parent == session.id]
        assert {head.id for head in heads} == {
            child_id(session.id, step_id("1", "spawn kid", f"={goal}")) for goal in ("one", "two")
        }
        assert {head.status for head in heads} == {"completed"}


async def test_a_pause_reaches_the_children_before_it_counts_as_paused(place: Place) -> None:
    """While a child's call runs on, the parent is pausing; resume lifts the pause it caused."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        [child] = await _children(mc, session)
        assert (await session.pause()).level == "stopping"
        await until_status(child, "pausing")
        assert await session.status() == "pausing"
        tool.may_end.set()
        await until_status(session, "paused")
        assert await child.status() == "paused"
        await session.resume()
        assert await session.result() == ["one"]
        assert len(tool.begun) == 1


@pytest.mark.real_time  # a thread of the child's outlasts the waits
async def test_a_stop_that_cannot_be_written_is_not_called_stopped_while_a_child_works(place: Place) -> None:
    """It reaches the child at once; a thread of the child's, which cannot be aborted, is listed until it ends."""
    entered, may_end = threading.Event(), threading.Event()

    @midcourse.tool(effect="write", local=True)
    def write(text: str) -> None:
        entered.set()
        may_end.wait()
        del text

    kid = resumable(lambda run: run.step("write", write, run.goal), name="kid")
    parent = resumable(lambda run: run.spawn(kid, "one"), name="parent")
    store = Faulty(await place.store())
    async with place.open(parent, kid, store=store) as mc:
        session = await mc.start(parent)
        await asyncio.to_thread(entered.wait)
        store.fails = lambda name: name == "put"
        reply = await session.pause()
        may_end.set()
        store.work_again()
        assert (reply.level, reply.durable, [call.name for call in reply.running]) == ("stopping", False, ["write"])
        await until_status(session, "paused")


async def test_a_resume_lifts_only_the_pauses_it_caused(place: Place) -> None:
    """A child that a person had paused stays paused when its parent goes on."""
    tool = Tool(holds=True)
    parent, kid = _family(tool, goals=("one", "two"))
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await until(session, "step.begun", times=2)
        await tool.entered.wait()
        held, free = await _children(mc, session)
        for child in (held, free):
            await until(child, "step.begun")
        await held.pause("I look at this one")
        await session.pause()
        tool.may_end.set()
        await until_status(session, "paused")
        await session.resume()
        await until_status(free, "completed")
        assert await held.status() == "paused"
        assert await session.status() == "running"
        await held.resume()
        assert await session.result() == ["one", "two"]


async def test_a_second_pause_reaches_a_child_that_was_resumed_by_itself(place: Place) -> None:
    """``stopped`` is said only once nothing of the tree runs, whatever a person resumed since the first pause."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        [child] = await _children(mc, session)
        await session.pause(grace=0, until="stopped")
        for number in range(2):
            tool.entered.clear()
            await child.resume()
            await tool.entered.wait()
            reply = await session.pause("stop it all", grace=0, until="stopped")
            assert (reply.level, reply.running) == ("stopped", ())
            assert await child.status() == "paused"
            assert len(tool.begun) == 2 + number
        tool.may_end.set()
        await session.resume()
        assert await session.result() == ["one"]


async def test_a_stop_reaches_a_child_that_an_earlier_turn_of_its_parent_left_running(place: Place) -> None:
    """The parent's first turn failed when its process ended; its child is still the parent's in the next turn."""
    tool, waits, failing = Tool(holds=True), Tool(holds=True), asyncio.Event()

    async def child(run: midcourse.Run) -> object:
        return await run.step("work", tool.run, run.goal)

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> object:
        if run.turn > 1:
            return await run.step("wait", waits.run)
        born = asyncio.ensure_future(run.spawn(kid, "one"))
        await tool.entered.wait()
        born.cancel()
        failing.set()
        raise RuntimeError("as planned")

    one = resumable(parent, name="parent")
    async with place.open(one, kid, grace=0) as mc:
        session = await mc.start(one)
        await failing.wait()
    tool.entered.clear()
    async with place.open(one, kid) as mc:
        session = await mc.get(session.id)
        assert await session.status() == "failed"
        await tool.entered.wait()
        [head] = [head for head in await mc.list() if head.parent == session.id]
        working = await mc.get(head.id)
        await session.redirect("the other way")
        await waits.entered.wait()
        reply = await session.pause(grace=0, until="stopped")
        assert (str(reply), await working.status()) == ("stopped, paused", "paused")
        tool.may_end.set()
        waits.may_end.set()
        await session.resume()
        await session.result()
        assert await working.result() == "one"


@pytest.mark.parametrize("first", ["parent", "child"])
async def test_the_parents_pause_and_a_persons_are_lifted_by_their_own_resumes(place: Place, first: str) -> None:
    """Whichever came first: the child continues once both are lifted."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        [child] = await _children(mc, session)
        if first == "parent":
            await session.pause(grace=0, until="stopped", by="bob")
        own = await child.pause("wrong account", grace=0, until="stopped", by="ann")
        if first == "child":
            await session.pause(grace=0, until="stopped", by="bob")
        await session.resume(by="bob")
        await until(child, "session.pause_lifted")
        state = await child.state()
        assert (state.status, state.pause and state.pause.by, len(tool.begun)) == ("paused", "ann", 1)
        await session.pause(grace=0, until="stopped", by="bob")
        assert (await child.resume(own.pause, by="ann")).status == "paused"
        state = await child.state()
        assert (state.pause and state.pause.by, len(tool.begun)) == (f"parent {session.id}", 1)
        tool.may_end.set()
        await session.resume(by="bob")
        assert await session.result() == ["one"]


async def test_a_cancel_reaches_the_children_too(place: Place) -> None:
    """Running or paused, each child is cancelled before its parent is."""
    tool = Tool(holds=True)
    parent, kid = _family(tool, goals=("one", "two"))
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await until(session, "step.begun", times=2)
        children = await _children(mc, session)
        for child in children:
            await until(child, "step.begun")
        await children[0].pause(grace=0, until="stopped")
        reply = await session.cancel(grace=0, until="stopped")
        assert reply.status == "cancelled"
        assert [await child.status() for child in children] == ["cancelled", "cancelled"]
        assert tool.ended == []


async def test_a_cancel_of_a_paused_parent_cancels_its_paused_children(place: Place) -> None:
    """A child that was stopped with its parent is not forgotten."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        [child] = await _children(mc, session)
        await session.pause(grace=0, until="stopped")
        assert (await session.cancel(until="stopped")).status == "cancelled"
        assert await child.status() == "cancelled"


async def test_a_halt_goes_down_the_tree_and_its_lift_lets_it_go_on(place: Place) -> None:
    """The kill switch stops a child at once, and only what it halted is lifted."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        [child] = await _children(mc, session)
        control = _control(mc)
        await control.send(session.id, cmd.Halt(id=CommandId("h"), role="operate"), until="stopped", wait=10)
        assert [await session.status(), await child.status()] == ["halted", "halted"]
        tool.may_end.set()
        await control.send(session.id, cmd.Lift(id=CommandId("l"), role="operate"), until="decided", wait=10)
        assert await session.result() == ["one"]


async def test_a_halt_of_a_paused_parent_reaches_a_child_that_a_person_had_resumed(place: Place) -> None:
    """The parent has nothing in flight that would have to be stopped; what it had paused may work again."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        [child] = await _children(mc, session)
        await session.pause(grace=0, until="stopped")
        await child.resume()
        assert [await session.status(), await child.status()] == ["paused", "running"]
        halt = cmd.Halt(id=CommandId("h"), role="operate")
        await _control(mc).send(session.id, halt, until="stopped", wait=10)
        assert await until_status(child, "halted") == "halted"


async def test_a_child_that_is_created_while_its_parent_is_being_stopped_never_starts(place: Place) -> None:
    """It may exist, queued; not a line of it runs until its parent goes on."""
    tool = Tool()
    parent, kid = _family(tool)
    async with place.open(parent, kid) as mc:
        for stop in range(8):  # at another moment of the start each time
            session = await mc.start(parent, session_id=f"s{stop}")
            for _ in range(stop):
                await asyncio.sleep(0)
            begun = len(tool.begun)
            reply = await session.pause(until="stopped")
            assert reply.status in ("paused", "completed") or reply.level == "stopped"
            stopped_at = len(tool.begun)
            for head in await mc.list(limit=100):
                if head.parent == session.id and head.status == "queued":
                    assert stopped_at == begun
            if await session.status() == "paused":
                assert len(tool.begun) == stopped_at
                await session.resume()
            assert await session.result() == ["one"]
            assert len(tool.begun) == begun + 1


async def test_a_queued_child_is_not_started_by_a_sweep(place: Place) -> None:
    """Its parent was stopped before it began; another program that has the agent leaves it alone."""
    tool = Tool()
    parent, kid = _family(tool)
    async with place.open(parent, kid, drive=False) as mc:
        session = await mc.start(parent, session_id="p")
        await session.pause()
        control = _control(mc)
        orphan = child_id(session.id, step_id("1", "spawn kid", "=one"))
        await control.create_child(orphan, kid, "one", session.id)
    async with place.open(parent, kid) as mc:
        looked = await mc.start(kid, "two")  # by its end the sweep has been round
        await looked.result()
        assert await (await mc.get(orphan)).status() == "queued"
        assert tool.begun == [("two",)]
        await (await mc.get("p")).resume()
        assert await (await mc.get("p")).result() == ["one"]


async def test_children_that_cannot_be_reached_are_listed(place: Place) -> None:
    """The owner of the child is silent: the parent stops, and says whom it did not reach."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    settings = midcourse.Settings(poll=0.05, unreachable_after=1.0)
    async with place.open(parent, kid, settings=settings) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        [child] = await _children(mc, session)
        wake_up = silence(mc, child.id)
        reply = await session.cancel(grace=0, until="stopped")
        assert reply.status == "cancelled"
        assert (await session.state()).unreached == (child.id,)
        wake_up()
        # The parent's command was durable, and is carried out before this one, which changes nothing.
        assert (await child.cancel(grace=0, until="stopped")).status == "cancelled"


async def test_a_grandchild_that_a_stop_did_not_reach_is_listed_at_the_top(place: Place) -> None:
    """A halted session takes no pause: it continues once its kill switch is lifted, and the person is told so."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)

    async def above(run: midcourse.Run) -> object:
        return await run.spawn(parent, "both")

    top = resumable(above, name="top")
    async with place.open(top, parent, kid) as mc:
        session = await mc.start(top)
        await tool.entered.wait()
        [grandchild] = [head.id for head in await mc.list() if head.agent == "kid"]
        await mc.kill_switch.throw(midcourse.Scope("agent", "kid"), "a drill")
        assert str(await session.pause(grace=0, until="stopped")) == "stopped, paused"
        assert (await session.state()).unreached == (grandchild,)
        tool.may_end.set()


async def test_a_childs_ask_reaches_the_parents_people(place: Place) -> None:
    """It stands in the parent's journal and state, a grandchild's too, and can be answered from there."""
    tool = Tool()
    parent, kid = _family(tool, goals=("ask",))

    async def grand(run: midcourse.Run) -> object:
        return await run.spawn(parent, "go")

    elder = resumable(grand, name="elder")
    async with place.open(elder, parent, kid) as mc:
        session = await mc.start(elder)
        asked = (await until(session, "child.asked")).event
        [ask] = (await session.state()).child_asks
        assert isinstance(asked, midcourse.events.ChildAsked)
        assert (ask.prompt, ask.child) == ("May I?", asked.child)
        await session.answer("yes", ask=f"{ask.child}/{ask.ask}")
        assert await session.result() == ["yes"]
        assert (await session.state()).child_asks == ()
        with pytest.raises(midcourse.InvalidInput, match="not a child"):
            await session.answer("yes", ask="somebody/ask_1")


async def test_cost_adds_up_along_the_tree(place: Place) -> None:
    """What a child spent, its parent has spent, whether it ended well or not, and never twice."""
    fails = True

    async def model() -> AsyncIterator[str | midcourse.StreamEnd]:
        yield "text"
        yield midcourse.StreamEnd(cost=0.25, tokens=10)

    async def tool() -> str:
        if fails:
            raise ValueError("not yet")
        return "done"

    async def child(run: midcourse.Run) -> str:
        await run.stream("think", model)
        return await run.step("act", tool)

    kid = resumable(child, name="kid")
    parent = resumable(lambda run: run.spawn(kid, "go"), name="parent")
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        with pytest.raises(midcourse.SessionEnded, match="ChildError"):
            await session.result()
        state = await session.state()
        assert (state.cost, state.tokens) == (0.25, 10)
        fails = False
        await session.resume()
        assert await session.result() == "done"
        state = await session.state()
        assert (state.cost, state.tokens) == (0.25, 10)


async def test_after_a_crash_parent_and_child_go_on_and_no_step_runs_twice(place: Place) -> None:
    """The owner dies with both; whoever comes next finds the same child."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    store = await place.store()
    async with place.open(parent, kid, store=store) as mc:
        session = await mc.start(parent, session_id="p")
        await tool.entered.wait()
        store.abandon()
        tool.may_end.set()
        async with place.open(parent, kid) as other:
            again = await other.get("p")
            assert await again.result() == ["one"]
            assert len([head for head in await other.list() if head.parent == "p"]) == 1
            assert types(await history(again)).count("step.finished") == 1
        del session


async def test_a_stop_that_had_reached_the_child_is_finished_after_a_crash(place: Place) -> None:
    """Parent and child were both being cancelled when their owner died: the parent does not wait for ever."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    store = await place.store()
    async with place.open(parent, kid, store=store) as mc:
        session = await mc.start(parent, session_id="p")
        await tool.entered.wait()
        [child] = await _children(mc, session)
        await session.cancel(grace=60, until="decided")
        await until_status(child, "cancelling")
        store.abandon()
        async with place.open(parent, kid, settings=midcourse.Settings(poll=0.05)) as other:
            await until_status(await other.get("p"), "cancelled")
            assert await (await other.get(child.id)).status() == "cancelled"
            tool.may_end.set()


async def test_a_child_that_was_lifted_by_itself_goes_on_after_a_crash(place: Place) -> None:
    """Its parent is still halted: that halt is behind the child, and nobody passes it on again."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    store = await place.store()
    async with place.open(parent, kid, store=store) as mc:
        session = await mc.start(parent, session_id="p")
        await tool.entered.wait()
        [child] = await _children(mc, session)
        halt = cmd.Halt(id=CommandId("h"), role="operate")
        await _control(mc).send(session.id, halt, until="stopped", wait=10)
        tool.entered.clear()
        await child.lift()
        await tool.entered.wait()
        tool.entered.clear()
        store.abandon()
        async with place.open(parent, kid, settings=midcourse.Settings(poll=0.05)) as other:
            await tool.entered.wait()
            tool.may_end.set()
            assert await (await other.get(child.id)).result() == "one"
            assert await (await other.get("p")).status() == "halted"


async def test_a_halt_whose_owner_died_still_reaches_a_child_in_another_process(place: Place) -> None:
    """It had not been passed on: whoever lives takes the parent, to tell its children."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    store = await place.store()
    only_asked = midcourse.Settings(poll=600.0, park_after=0.0)  # it takes nothing that nobody owns
    async with place.open(parent, kid, store=store, settings=only_asked) as mc:
        session = await mc.start(parent, session_id="p")
        await tool.entered.wait()
        [child] = await _children(mc, session)
        await child.pause(grace=0, until="stopped")
        await until(child, "session.parked")
        tool.entered.clear()
        async with place.open(parent, kid) as other:
            await (await other.get(child.id)).resume()
            await tool.entered.wait()
            assert _control(other).worker.driver(child.id) is not None
            _cut_off_children(mc, session.id)
            await _control(mc).send(session.id, cmd.Halt(id=CommandId("h"), role="operate"), until="decided", wait=10)
            assert await child.status() == "running"
            store.abandon()
            await until_status(await other.get(child.id), "halted")
            await until(await other.get("p"), "session.parked")
            tool.may_end.set()


class _OlderHeads(WrappedStore):
    """A store whose heads do not say that a halt is still to be passed on, as before they did."""

    def append(self, append: Append) -> Awaitable[None]:
        return self.inner.append(replace(append, head=replace(append.head, wake_at=None)))


async def test_a_halt_that_was_written_before_heads_said_so_is_passed_on_too(place: Place) -> None:
    """Its child is taken up by whoever comes, which looks above it first."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    store = await place.store()
    async with place.open(parent, kid, store=_OlderHeads(store)) as mc:
        session = await mc.start(parent, session_id="p")
        await tool.entered.wait()
        [child] = await _children(mc, session)
        _cut_off_children(mc, session.id)
        await _control(mc).send(session.id, cmd.Halt(id=CommandId("h"), role="operate"), until="decided", wait=10)
        store.abandon()
        async with place.open(parent, kid) as other:
            await until_status(await other.get(child.id), "halted")
        tool.may_end.set()


def _cut_off_children(mc: Midcourse, parent: SessionId) -> None:
    """No stop of the parent's reaches anybody from this process, as if it had died on the way."""
    driver = _control(mc).worker.driver(parent)
    assert driver is not None

    async def never(child: SessionId, command: cmd.AnyCommand) -> None:
        await asyncio.Event().wait()

    driver._children._reach = never  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _control(mc: Midcourse) -> Control:
    return mc._control  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the kill switch has no public verb yet


@pytest.mark.parametrize("stop", ["pause", "cancel"])
@pytest.mark.real_time
async def test_children_are_stopped_while_the_search_for_others_hangs(place: Place, stop: str) -> None:
    """Those that had ended and work again have to be looked up in the store; the others are known."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    store = Hanging(await place.store())
    async with place.open(parent, kid, store=store) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        [child] = await _children(mc, session)
        store.hangs = lambda call: call == "below"
        await (session.pause if stop == "pause" else session.cancel)("stop", grace=0)
        wanted = "paused" if stop == "pause" else "cancelled"
        assert await until_status(child, wanted) == wanted
        assert await session.status() == ("pausing" if stop == "pause" else "cancelling")
        store.hangs = lambda _: False
        assert await until_status(session, wanted) == wanted
