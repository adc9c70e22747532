"""The class ``protected``: a person's stop waits for the end of the turn; an operator alone forces it half-way."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

import midcourse
from midcourse.api import Midcourse, SessionHandle
from midcourse.core import commands as cmd
from midcourse.core.ids import CommandId
from tests.promises.harness import Place, Tool, history, resumable, types, until, until_status

PROTECTED = midcourse.Terms(task_class="protected")


def _trader(*tools: Tool) -> midcourse.Agent[Any]:
    async def trade(run: midcourse.Run) -> list[object]:
        return [await run.step(f"part {number}", tool.run, run.goal) for number, tool in enumerate(tools)]

    return resumable(trade, name="trader")


async def _begun(mc: Midcourse, agent: midcourse.Agent[Any], tool: Tool) -> SessionHandle[Any]:
    session = await mc.start(agent, "buy", session_id="desk", terms=PROTECTED)
    await tool.entered.wait()
    return session


async def _deferred(session: SessionHandle[Any]) -> Sequence[str]:
    standing = (await session.state()).deferred
    return () if standing is None else (standing.stop, standing.by, standing.reason)


@pytest.mark.parametrize("stop", ["pause", "cancel"])
async def test_a_stop_finishes_first_and_nothing_of_it_is_interrupted(place: Place, stop: str) -> None:
    """Both parts are done, the second begun after the stop; the answer says so, and the session ends as completed."""
    first, second = Tool(holds=True), Tool()
    async with place.open(agent := _trader(first, second)) as mc:
        session = await _begun(mc, agent, first)
        reply = await (session.pause("wait") if stop == "pause" else session.cancel("enough", grace=0))
        assert (reply.level, reply.status, reply.finishes_first) == ("decided", "running", True)
        assert str(reply) == "decided, finishes first"
        assert await _deferred(session) == (stop, "local", "wait" if stop == "pause" else "enough")
        [head] = await mc.list()
        assert (head.status, head.finishes_first) == ("running", stop)
        first.may_end.set()
        assert await session.result() == ["buy", "buy"]
        assert await _deferred(session) == ()
        assert "step.aborted" not in types(await history(session))
        assert (await mc.list())[0].finishes_first == ""


async def test_waiting_for_the_stop_waits_for_the_end(place: Place) -> None:
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        waiting = asyncio.create_task(session.pause(until="stopped", wait=30))
        await until(session, "stop.deferred")
        tool.may_end.set()
        reply = await waiting
        assert (reply.level, reply.status, reply.finishes_first) == ("stopped", "completed", False)


async def test_a_pause_that_has_waited_holds_the_next_turn(place: Place) -> None:
    """What was queued is not begun at the end of the turn; it is once somebody resumes."""
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        await session.message("sell")
        await session.pause("lunch")
        tool.may_end.set()
        await until_status(session, "paused")
        assert tool.begun == [("buy",)]
        assert (await session.state()).pause is not None
        await session.resume()
        assert await session.result() == ["sell"]
        assert tool.begun == [("buy",), ("sell",)]


async def test_a_cancel_that_has_waited_ends_it_there(place: Place) -> None:
    """What was queued is withdrawn."""
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        await session.message("sell")
        await session.cancel()
        tool.may_end.set()
        assert await session.result() == ["buy"]
        state = await session.state()
        assert (state.status, state.queue) == ("completed", ())
        assert tool.begun == [("buy",)]


async def test_a_cancel_that_rolls_everything_back_does_so_at_the_end(place: Place) -> None:
    undone: list[str] = []

    async def take_back(args: Any, result: object, key: str) -> None:
        undone.append(key)

    tool = Tool(holds=True, effect="write", undo=take_back)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        await session.cancel(undo="all")
        assert undone == []
        tool.may_end.set()
        assert await session.result() == ["buy"]
        await until(session, "undo.finished")
        assert len(undone) == 1
        [line] = (await session.receipt()).lines
        assert line.outcome == "undone"


async def test_a_stop_that_waits_can_be_taken_back(place: Place) -> None:
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        with pytest.raises(midcourse.Refused, match="already_resumed"):
            await session.resume()
        await session.pause()
        await session.resume()
        assert await _deferred(session) == ()
        await session.cancel()
        await session.pause()  # a cancel that waits is firmer
        assert (await _deferred(session))[0] == "cancel"
        await session.message("sell")
        await session.resume()
        tool.may_end.set()
        await until_status(session, "completed")
        assert tool.begun == [("buy",), ("sell",)]


async def test_a_stop_that_waits_survives_the_owner(place: Place) -> None:
    """Whoever takes the session finishes the turn, and stops then."""
    tool = Tool(holds=True)
    store = await place.store()
    async with place.open(agent := _trader(tool), store=store) as mc:
        session = await _begun(mc, agent, tool)
        await session.message("sell")
        await session.pause("lunch")
        tool.entered.clear()
        store.abandon()
        async with place.open(agent) as other:
            again = await other.get("desk")
            await tool.entered.wait()
            tool.may_end.set()
            await until_status(again, "paused")
            assert ("sell",) not in tool.begun


async def test_before_it_begins_a_protected_session_is_stopped_at_once(place: Place) -> None:
    async with place.open(agent := _trader(Tool()), drive=False) as mc:
        session = await mc.start(agent, "buy", terms=PROTECTED)
        assert (await session.pause()).status == "paused"
        assert (await session.cancel(until="stopped")).status == "cancelled"


async def test_only_an_operator_forces_it_half_way(place: Place) -> None:
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        control = mc._control  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the role is the server's to give
        wish = cmd.Cancel(id=CommandId("f"), role="approve", force=True)
        with pytest.raises(midcourse.Refused, match="operator's") as refused:
            await control.send(session.id, wish, until="stopping", wait=10)
        assert refused.value.code == "operator_only"
        assert tool.begun == [("buy",)]
        tool.may_end.set()
        assert await session.result() == ["buy"]


async def test_what_is_forced_is_discarded_and_begun_anew(place: Place) -> None:
    """Its journal is kept and nothing goes on in it; a new session has the same agent, goal and terms."""
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        await session.redirect("buy less", level="goal")
        tool.entered.clear()
        reply = await session.cancel("stuck", force=True, grace=0, until="stopped")
        assert (reply.level, reply.status, reply.restarted_as) == ("stopped", "cancelled", "desk-again")
        state = await session.state()
        assert (state.discarded, state.restarted_as) == (True, "desk-again")
        again = await mc.get("desk-again")
        anew = await again.state()
        assert (anew.agent, anew.goal, anew.terms, anew.forked_from) == ("trader", "buy less", state.terms, "desk@1")
        tool.may_end.set()
        assert await again.result() == ["buy less"]
        for wish in (session.redirect("go on"), session.message("go on")):
            with pytest.raises(midcourse.Refused, match="go on in 'desk-again'") as refused:
                await wish
            assert refused.value.code == "session_discarded"
        assert "session.created" in types(await history(session))


async def test_forced_twice_the_second_is_begun_anew_under_the_next_name(place: Place) -> None:
    """A name that somebody else has is left alone."""
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        await (await mc.start(agent, "not mine", session_id="desk-again", terms=PROTECTED)).cancel(force=True, grace=0)
        await until_status(await mc.get("desk-again"), "cancelled")
        tool.entered.clear()
        session = await _begun(mc, agent, tool)
        reply = await session.cancel(force=True, grace=0, until="stopped")
        assert reply.restarted_as == "desk-again-3"
        assert (await (await mc.get("desk-again-2")).state()).forked_from == "desk-again@1"
        await (await mc.get("desk-again-3")).cancel(force=True, grace=0, until="stopped")
        assert (await (await mc.get("desk-again-4")).state()).goal == "buy"
        tool.may_end.set()


async def test_force_means_nothing_to_a_session_that_is_not_protected(place: Place) -> None:
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await mc.start(agent, "buy")
        await tool.entered.wait()
        reply = await session.cancel(force=True, grace=0, until="stopped")
        assert (reply.status, reply.restarted_as) == ("cancelled", None)
        assert not (await session.state()).discarded


async def test_a_policy_that_protects_every_class_protects_what_declares_none(place: Place) -> None:
    """The preset ``trading``; and ``standard`` protects nothing by itself."""
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await mc.start(agent, "buy", terms=midcourse.Terms(policy="trading"))
        await tool.entered.wait()
        assert (await session.state()).terms.task_class == "protected"
        assert (await session.pause()).finishes_first
        plain = await mc.start(agent, "buy", terms=midcourse.Terms(policy="standard"))
        assert not (await plain.pause()).finishes_first
        tool.may_end.set()


async def test_a_redirect_is_seen_at_the_next_step_and_interrupts_nothing(place: Place) -> None:
    """The stream is not cut, and the call is not aborted, whatever grace was given."""
    tool, may_end = Tool(holds=True), asyncio.Event()
    streaming = asyncio.Event()

    async def words() -> AsyncIterator[str]:
        yield "one "
        streaming.set()
        await may_end.wait()
        yield "two"

    async def trade(run: midcourse.Run) -> list[object]:
        said = await run.stream("think", words)
        await run.step("act", tool.run, said)
        return [said, *(message.text for message in run.messages)]

    async with place.open(agent := resumable(trade, name="trader")) as mc:
        session = await mc.start(agent, "buy", terms=PROTECTED)
        await streaming.wait()
        await session.redirect("gently", grace=0)
        may_end.set()
        await tool.entered.wait()
        await session.redirect("at once", grace=0)
        tool.may_end.set()
        assert await session.result() == ["one two", "buy", "gently", "at once"]
        assert not {"step.cut", "step.aborted", "step.closed"} & set(types(await history(session)))


async def test_the_kill_switch_stops_a_protected_session_too(place: Place) -> None:
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        await mc.kill_switch.throw(midcourse.Scope("all"), "fire")
        assert await session.status() == "halted"
        tool.may_end.set()


async def test_a_parent_waits_for_a_protected_child(place: Place) -> None:
    """The stop has reached the child, which finishes first; until then the parent counts as pausing."""
    tool = Tool(holds=True)
    kid = midcourse.Agent(
        name="kid",
        function=_trader(tool).function,
        version="1",
        mode="replay",
        origin="tests:kid",
        resumable=True,
        terms=PROTECTED,
    )
    parent = resumable(lambda run: run.spawn(kid, "buy"), name="parent")
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        reply = await session.pause()
        assert (reply.level, reply.status) == ("stopping", "pausing")
        [child] = (await session.state()).children.values()
        await until(await mc.get(child), "stop.deferred")
        tool.may_end.set()
        await until_status(session, "paused")
        assert await (await mc.get(child)).result() == ["buy"]
        await session.resume()
        assert await session.result() == ["buy"]
