"""The class ``protected``: a person's stop waits for the end of the turn; an operator alone forces it half-way."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

import midcourse
from midcourse.core import commands as cmd
from midcourse.core.decisions import allowed
from midcourse.core.ids import CommandId, SessionId
from midcourse.handle import Midcourse, SessionHandle
from midcourse.runtime.control import Control
from tests.promises.faults import Faulty
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
        preview = await session.preview()
        assert {choice: preview[choice].lines[0].outcome for choice in ("none", "in-flight", "all")} == {
            "none": "kept",
            "in-flight": "kept",
            "all": "undone",
        }
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


async def test_what_is_forced_is_discarded_and_begins_anew_only_if_that_is_asked_for(place: Place) -> None:
    """Whoever ends a trade that hangs does not mean to place it again."""
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        assert not any(one.begins_anew for one in (await session.preview(force=True)).values())
        with pytest.raises(midcourse.InvalidInput, match="restart goes with force"):
            await session.cancel(restart=True)
        reply = await session.cancel("stuck", force=True, grace=0, until="stopped")
        assert (reply.level, reply.status, reply.restarted_as) == ("stopped", "cancelled", None)
        assert ((await session.state()).discarded, (await session.receipt()).begins_anew) == (True, False)
        assert [head.id for head in await mc.list()] == ["desk"]
        assert tool.begun == [("buy",)]


async def test_what_is_forced_with_restart_is_discarded_and_begun_anew(place: Place) -> None:
    """Its journal is kept and nothing goes on in it; a new session has the same agent, goal and terms."""
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        await session.redirect("buy less", level="goal")
        tool.entered.clear()
        reply = await session.cancel("stuck", force=True, restart=True, grace=0, until="stopped")
        assert (reply.level, reply.status, reply.restarted_as) == ("stopped", "cancelled", "desk-again")
        state = await session.state()
        assert (state.discarded, state.restarted_as) == (True, "desk-again")
        again = await mc.get("desk-again")
        anew = await again.state()
        assert (anew.agent, anew.goal, anew.terms, anew.restarts) == ("trader", "buy less", state.terms, "desk")
        tool.may_end.set()
        assert await again.result() == ["buy less"]
        for wish in (session.redirect("go on"), session.message("go on")):
            with pytest.raises(midcourse.Refused, match="continue in 'desk-again'") as refused:
                await wish
            assert refused.value.code == "session_discarded"
        assert "session.created" in types(await history(session))


async def test_the_preview_of_a_force_is_what_the_force_comes_to(place: Place) -> None:
    """The call is aborted, and nobody knows whether it happened: it may a second time in the session that begins."""
    tool = Tool(holds=True, effect="idempotent")
    async with place.open(agent := _trader(tool)) as mc:
        session = await _begun(mc, agent, tool)
        waits, forced = await session.preview(), await session.preview(force=True, restart=True)
        assert (waits["none"].begins_anew, waits["none"].lines[0].detail) == (False, "it finishes first")
        assert {one.begins_anew for one in forced.values()} == {True}
        assert {one.lines[0].outcome for one in forced.values()} == {"unknown"}
        assert "session.cancel_requested" not in types(await history(session)), "nothing is changed"
        tool.entered.clear()
        await session.cancel(force=True, restart=True, grace=0, until="stopped")
        receipt = await session.receipt()
        assert [line.outcome for line in receipt.twice] == ["unknown"]
        assert receipt.twice_words == forced["in-flight"].twice_words != ""
        tool.may_end.set()
        await (await mc.get("desk-again")).result()
        assert tool.begun == [("buy",), ("buy",)], "and so it does"


async def test_forced_twice_the_second_is_begun_anew_under_the_next_name(place: Place) -> None:
    """A name that somebody else has is left alone."""
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        await (await mc.start(agent, "not mine", session_id="desk-again", terms=PROTECTED)).cancel(
            force=True, restart=True, grace=0
        )
        await until_status(await mc.get("desk-again"), "cancelled")
        tool.entered.clear()
        session = await _begun(mc, agent, tool)
        reply = await session.cancel(force=True, restart=True, grace=0, until="stopped")
        assert reply.restarted_as == "desk-again-3"
        assert (await (await mc.get("desk-again-2")).state()).restarts == "desk-again"
        await (await mc.get("desk-again-3")).cancel(force=True, restart=True, grace=0, until="stopped")
        assert (await (await mc.get("desk-again-4")).state()).goal == "buy"
        tool.may_end.set()


async def test_force_means_nothing_to_a_session_that_is_not_protected(place: Place) -> None:
    tool = Tool(holds=True)
    async with place.open(agent := _trader(tool)) as mc:
        session = await mc.start(agent, "buy")
        await tool.entered.wait()
        assert await session.preview(force=True) == await session.preview()
        reply = await session.cancel(force=True, grace=0, until="stopped")
        assert (reply.status, reply.restarted_as) == ("cancelled", None)
        assert not (await session.state()).discarded
        assert not (await session.receipt()).begins_anew


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
    parent, kid = _family(tool)
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


# ---- beside other stops


def _family(*tools: Tool, terms: midcourse.Terms = PROTECTED) -> tuple[midcourse.Agent[Any], midcourse.Agent[Any]]:
    kid = midcourse.Agent(
        name="kid",
        function=_trader(*tools).function,
        version="1",
        mode="replay",
        origin="tests:kid",
        resumable=True,
        terms=terms,
    )
    return resumable(lambda run: run.spawn(kid, "buy"), name="parent"), kid


async def _child(mc: Midcourse, parent: SessionHandle[Any]) -> SessionHandle[Any]:
    [child] = (await parent.state()).children.values()
    return await mc.get(child)


@pytest.mark.parametrize("stop", ["force", "halt"])
async def test_what_does_not_wait_stops_it_also_when_nothing_can_be_written(place: Place, stop: str) -> None:
    """As for every session (promise 2): the gate is shut before the disk is asked, and stays so."""
    first, second = Tool(holds=True), Tool()
    store = Faulty(await place.store())
    async with place.open(agent := _trader(first, second), store=store) as mc:
        session = await _begun(mc, agent, first)
        store.fails = lambda name: name in ("put", "shelve")
        if stop == "force":
            assert not (await session.cancel(force=True, grace=0)).durable
        else:
            assert not (await mc.kill_switch.throw(midcourse.Scope("all"), "fire")).durable
        first.may_end.set()
        await asyncio.sleep(0)
        assert second.begun == []
        store.work_again()


async def test_a_halt_cuts_its_stream_and_hides_the_stop_that_waited(place: Place) -> None:
    """Halted it does not finish: no token comes after the answer, and the answer is the halt's."""
    streaming, may_end = asyncio.Event(), asyncio.Event()

    async def words() -> AsyncIterator[str]:
        yield "one "
        streaming.set()
        await may_end.wait()
        yield "late"

    async with place.open(agent := resumable(lambda run: run.stream("think", words), name="trader")) as mc:
        session = await mc.start(agent, "buy", terms=PROTECTED)
        await streaming.wait()
        await session.pause()
        await mc.kill_switch.throw(midcourse.Scope("all"), "fire")
        may_end.set()
        await until_status(session, "halted")
        assert (await mc.list())[0].finishes_first == ""
        events = [one.event for one in await history(session)]
        assert "late" not in "".join(one.text for one in events if isinstance(one, midcourse.events.SegmentWritten))


async def test_a_fork_that_is_to_be_paused_is_paused_before_it_begins(place: Place) -> None:
    """A stop that waited was its source's."""
    first, second = Tool(), Tool(holds=True)
    async with place.open(agent := _trader(first, second)) as mc:
        session = await _begun(mc, agent, second)
        await session.cancel()
        fork = await session.fork(session_id="fork", paused=True)
        assert await fork.status() == "paused"
        assert (await fork.state()).deferred is None
        assert len(second.begun) == 1
        second.may_end.set()


async def test_a_child_that_waits_for_its_end_is_not_taken_out_of_its_parents_cancel(place: Place) -> None:
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        child = await _child(mc, session)
        await session.cancel()
        await until(child, "stop.deferred")
        assert "resume" not in allowed(await child.state())
        with pytest.raises(midcourse.Refused, match="its parent is being cancelled"):
            await child.resume()
        tool.may_end.set()
        await until_status(session, "cancelled")
        assert await child.status() == "completed"


async def test_an_operators_force_of_a_parent_reaches_its_protected_children(place: Place) -> None:
    """The parent is not protected, and not begun anew."""
    tool = Tool(holds=True)
    parent, kid = _family(tool)
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        child = await _child(mc, session)
        reply = await session.cancel(force=True, grace=0, until="stopped")
        assert (reply.status, reply.restarted_as) == ("cancelled", None)
        state = await child.state()
        assert (state.status, state.discarded, state.restarted_as) == ("cancelled", True, None)
        assert len(await mc.list()) == 2


@pytest.mark.parametrize("terms", [PROTECTED, midcourse.Terms()])
async def test_a_parent_that_is_resumed_while_it_pauses_takes_its_child_along(
    place: Place, terms: midcourse.Terms
) -> None:
    """Its pause had reached the child and stands no more: the child goes on, too."""
    first, second = Tool(holds=True), Tool()
    parent, kid = _family(first, second, terms=terms)
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await first.entered.wait()
        child = await _child(mc, session)
        await child.message("sell")
        await session.pause()
        await until(child, "stop.deferred" if terms is PROTECTED else "session.pause_requested")
        await session.resume()
        first.may_end.set()
        assert await session.result() in (["buy", "buy"], ["sell", "sell"])


async def test_what_a_kill_switch_holds_is_not_ended_by_way_of_its_parent(place: Place) -> None:
    """Whoever may only steer cancels the parent, and the child stays halted, and is listed."""
    tool = Tool(holds=True)
    parent, kid = _family(tool, terms=midcourse.Terms())
    async with place.open(parent, kid) as mc:
        session = await mc.start(parent)
        await tool.entered.wait()
        child = await _child(mc, session)
        await mc.kill_switch.throw(midcourse.Scope("agent", "kid"), "evidence")
        await until_status(child, "halted")
        control = mc._control  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the role is the server's to give
        wish = cmd.Cancel(id=CommandId("x"), role="steer", grace=0, undo="all")
        assert (await control.send(session.id, wish, until="stopped", wait=30)).status == "cancelled"
        assert await child.status() == "halted"
        assert (await session.state()).unreached == (child.id,)
        tool.may_end.set()


async def test_forced_before_it_begins_there_is_nothing_to_begin_anew(place: Place) -> None:
    async with place.open(agent := _trader(Tool()), drive=False) as mc:
        session = await mc.start(agent, "buy", terms=PROTECTED)
        assert (await session.cancel(force=True, restart=True, until="stopped")).restarted_as is None
        assert not (await session.state()).discarded


async def test_a_firmer_cancel_that_comes_while_it_is_begun_anew_is_carried_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []

    async def take_back(args: Any, result: object, key: str) -> None:
        undone.append(key)

    first, second = Tool(effect="write", undo=take_back), Tool(holds=True)
    restarting, may_restart = asyncio.Event(), asyncio.Event()
    restart = Control.restart

    async def held(control: Control, session: midcourse.Session) -> SessionId:
        restarting.set()
        await may_restart.wait()
        return await restart(control, session)

    monkeypatch.setattr(Control, "restart", held)
    async with place.open(agent := _trader(first, second)) as mc:
        session = await _begun(mc, agent, second)
        await session.cancel(force=True, restart=True, grace=0)
        await restarting.wait()
        assert (await session.cancel(undo="all")).level == "stopping"
        may_restart.set()
        await until_status(session, "cancelled")
        assert len(undone) == 1
        second.may_end.set()


async def test_a_deadline_that_cancels_waits_for_the_end_too(place: Place) -> None:
    """The agent is told that nobody answered, and finishes."""

    async def ask(run: midcourse.Run) -> str:
        with pytest.raises(midcourse.AskExpired):
            await run.ask("Buy?")
        return "sold nothing"

    terms = midcourse.Terms(task_class="protected", ttl_seconds=0.05, on_expiry="cancel")
    async with place.open(agent := resumable(ask, name="trader")) as mc:
        session = await mc.start(agent, "buy", terms=terms)
        assert await session.result() == "sold nothing"
        assert "stop.deferred" in types(await history(session))
