"""The kill switch: a standing record. While it stands nothing in its scope begins; lifting it resumes nothing."""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

import midcourse
from midcourse.core.commands import Cancel
from midcourse.core.ids import CommandId
from midcourse.core.switches import Scope, check_scope
from midcourse.core.terms import NO_TERMS, Terms
from midcourse.errors import InvalidInput, Refused, StoreUnavailable
from midcourse.runtime import active_switches
from tests.promises.faults import Faulty
from tests.promises.harness import Place, Tool, history, resumable, types, until_status, until_true

ALL = Scope()


def _worker(tool: Tool, name: str = "worker", terms: Terms = NO_TERMS) -> midcourse.Agent[Any]:
    async def agent(run: midcourse.Run) -> object:
        for number in range(10_000):
            await run.step("work", tool.run, number)
        return "done"

    return dataclasses.replace(resumable(agent, name=name), terms=terms)


async def test_everything_in_scope_stops_and_the_rest_goes_on(place: Place) -> None:
    """By agent, by label; each session is named in the report, with what it was doing."""
    tool = Tool()
    one, other = _worker(tool, "one"), _worker(tool, "other", Terms(labels=("night",)))
    async with place.open(one, other) as mc:
        ours = [await mc.start(one) for _ in range(5)]
        theirs = await mc.start(other)
        await until_true(lambda: len(tool.begun) > 20)
        report = await mc.kill_switch.throw(check_scope("agent", "one"), "it sends mail", by="ada")
        assert {line.session for line in report.sessions} == {session.id for session in ours}
        assert {(line.state, line.was) for line in report.sessions} == {("stopped", "running")}
        assert [await session.status() for session in ours] == ["halted"] * 5
        assert await theirs.status() == "running"
        state = await ours[0].state()
        assert (state.halted_by, state.halt_reason, state.switch) == ("ada", "it sends mail", report.switch.id)
        second = await mc.kill_switch.throw(check_scope("label", "night"), "quiet")
        assert [line.session for line in second.sessions] == [theirs.id]
        begun = len(tool.begun)
        await asyncio.sleep(0.05)
        assert len(tool.begun) == begun


async def test_what_starts_in_its_scope_begins_halted_also_after_a_restart(place: Place) -> None:
    """A new session, a new turn of one that had ended, a resume of a paused one: not a line of any runs."""
    tool, quick = Tool(), resumable(lambda run: run.step("say", Tool().run, run.goal), name="quick")
    worker = _worker(tool)
    async with place.open(worker, quick) as mc:
        ended = await mc.start(quick, "one")
        await ended.result()
        paused = await mc.start(worker)
        await until_true(lambda: bool(tool.begun))
        await paused.pause(until="stopped")
        switch = (await mc.kill_switch.throw(ALL, "freeze")).switch
    begun = len(tool.begun)
    async with place.open(worker, quick) as mc:
        new = await mc.start(worker)
        assert await until_status(new, "halted") == "halted"
        again = await mc.get(ended.id)
        await again.message("two")
        assert await until_status(again, "halted") == "halted"
        assert "session.started" not in types(await history(new))
        assert await (await mc.get(paused.id)).status() == "halted"
        assert len(tool.begun) == begun
        lifted = await mc.kill_switch.lift(switch.id, "thawed")
        assert {line.session for line in lifted.sessions} == {new.id, again.id, paused.id}
        await asyncio.sleep(0.05)
        assert [await one.status() for one in (new, again)] == ["halted", "halted"]  # it resumes nothing by itself
        assert len(tool.begun) == begun
        outcomes = await mc.kill_switch.release(switch.id)
        assert all(one.ok for one in outcomes)
        assert await again.result() == "two"
        assert await (await mc.get(paused.id)).status() == "paused"  # back where it was
        await until_true(lambda: len(tool.begun) > begun)
        await new.cancel(grace=0)


async def test_a_session_that_is_starting_while_it_is_thrown_is_halted_by_one_of_the_two(place: Place) -> None:
    """Thrown at every moment of a start: whichever becomes durable later sees the other."""
    tool = Tool()
    worker = _worker(tool)
    async with place.open(worker) as mc:
        for turns in range(12):
            starting = asyncio.ensure_future(mc.start(worker, session_id=f"s{turns}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            report = await mc.kill_switch.throw(ALL, "storm")
            begun = len(tool.begun)
            session = await starting
            assert await until_status(session, "halted") == "halted"
            assert len(tool.begun) == begun
            await mc.kill_switch.lift(report.switch.id, "next")


@pytest.mark.parametrize("verb", ["lift", "resume"])
async def test_what_was_decided_before_a_switch_came_is_no_refusal(verb: str, place: Place) -> None:
    """It comes between the look and the decision: halted again, as the answer says. A refusal writes nothing."""
    tool = Tool()
    worker = _worker(tool)
    async with place.open(worker) as mc, place.open(drive=False) as other:
        session = await mc.start(worker)
        await until_true(lambda: bool(tool.begun))
        first = (await mc.kill_switch.throw(ALL, "freeze")).switch
        await mc.kill_switch.lift(first.id, "thawed")
        standing = mc._control.worker.standing  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        look = standing.recent
        thrown: list[object] = []

        async def glance() -> Any:
            found = await look()
            if not thrown:
                thrown.append(await other.kill_switch.throw(ALL, "again"))
            return found

        standing.recent = glance
        before = (await session.state()).position
        reply = await (session.lift() if verb == "lift" else session.resume())
        assert reply.status == "halted"
        after = types([one for one in await history(session) if one.position > before])
        assert (after[0], after[-1]) == ("session.halt_lifted", "session.halted")
        before = (await session.state()).position
        with pytest.raises(Refused, match="is in force over") as refused:
            await session.lift()
        assert refused.value.code == "kill_switch_stands"
        assert (await session.state()).position == before


async def test_what_was_decided_before_a_switch_came_is_no_refusal_if_the_session_ends_before_the_halt(
    place: Place,
) -> None:
    """There is nothing left to halt; that the halt was refused is no answer to the lift, which was carried out."""
    tool = Tool(holds=True, effect="write")
    worker = resumable(lambda run: run.step("work", tool.run))
    settings = midcourse.Settings(poll=30)  # no sweep enforces the switch meanwhile
    async with place.open(worker, settings=settings) as mc, place.open(drive=False) as other:
        started = await mc.start(worker)
        await until_true(lambda: bool(tool.begun))
        first = (await mc.kill_switch.throw(ALL, "freeze", wait=0.1)).switch
        await mc.kill_switch.lift(first.id, "thawed")
        standing = mc._control.worker.standing  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        look, find = standing.recent, standing.switch_over
        thrown: list[object] = []

        async def glance() -> Any:
            found = await look()
            if not thrown:
                thrown.append(await other.kill_switch.throw(ALL, "again", wait=0.1))
            return found

        async def over(session: Any) -> Any:
            found = await find(session)
            tool.may_end.set()
            await until_status(started, "completed")
            return found

        standing.recent, standing.switch_over = glance, over
        assert (await started.lift()).level == "decided"
        assert "session.halt_lifted" in types(await history(started))


async def test_no_session_goes_on_while_it_stands_and_only_an_operator_throws_or_lifts(place: Place) -> None:
    """Not by a resume of an operator either: the switch is lifted first, with a reason."""
    tool = Tool()
    worker = _worker(tool)
    async with place.open(worker) as mc:
        session = await mc.start(worker)
        switch = (await mc.kill_switch.throw(ALL, "freeze")).switch
        with pytest.raises(Refused, match=f"kill switch '{switch.id}' is in force over all sessions") as stands:
            await session.lift()
        assert stands.value.code == "kill_switch_stands"
        with pytest.raises(Refused) as first:
            await mc.kill_switch.release(switch.id)
        assert first.value.code == "kill_switch_stands"
        for act in (
            lambda: mc.kill_switch.throw(ALL, "why", role="approve"),
            lambda: mc.kill_switch.lift(switch.id, "why", role="steer"),
            lambda: mc.kill_switch.release(switch.id, role="watch"),
        ):
            with pytest.raises(Refused) as refused:
                await act()
            assert refused.value.code == "operator_only"
        with pytest.raises(InvalidInput, match="Say why"):
            await mc.kill_switch.throw(ALL, "  ")
        await mc.kill_switch.lift(switch.id, "over")
        with pytest.raises(Refused) as again:
            await mc.kill_switch.lift(switch.id, "over")
        assert again.value.code == "already_lifted"
        entries = [one.entry for one in await mc.audit() if one.entry.action.startswith("kill_switch.")]
        assert [(one.action, one.by, one.session) for one in entries] == [
            ("kill_switch.throw", "local", ""),
            ("kill_switch.lift", "local", ""),
        ]
        assert "freeze" in entries[0].detail


async def test_a_call_that_cannot_be_aborted_is_named_as_still_running_until_it_ends(place: Place) -> None:
    """The report says never more than is known."""
    tool = Tool(holds=True)

    @midcourse.tool(effect="write", local=True)
    async def send(number: int) -> object:
        return await tool.run(number)

    worker = resumable(lambda run: run.step("send", send, 1))
    async with place.open(worker) as mc:
        session = await mc.start(worker)
        await tool.entered.wait()
        report = await mc.kill_switch.throw(ALL, "mail goes out", wait=0.05)
        assert [(line.state, line.running) for line in report.sessions] == [("still_running", "send")]
        assert str(report).endswith("0 stopped, 1 still running.")
        tool.may_end.set()
        await until_true(lambda: bool(tool.ended))
        async with asyncio.timeout(10):
            while (await mc.kill_switch.report(report.switch.id)).count("stopped") == 0:
                await asyncio.sleep(0.01)
        assert await session.status() == "halted"


async def test_a_switch_that_cannot_be_written_stops_all_the_same_and_says_so(place: Place) -> None:
    """The gates shut before the disk is asked."""
    tool = Tool()
    worker = _worker(tool)
    store = Faulty(await place.store())
    async with place.open(worker, store=store) as mc:
        await mc.start(worker)
        await until_true(lambda: len(tool.begun) > 3)
        store.error = lambda: StoreUnavailable("The disk is away.")
        store.fails = lambda write: write in ("shelve", "put", "decide", "append")
        report = await mc.kill_switch.throw(ALL, "freeze", wait=1.0)
        assert not report.durable
        assert str(report).endswith(
            "It could not be written yet: it is in force in this process, which writes it when it can."
        )
        begun = len(tool.begun)
        await asyncio.sleep(0.1)
        assert len(tool.begun) == begun
        store.work_again()
        late = await mc.start(worker)
        assert await until_status(late, "halted") == "halted"
        assert len(tool.begun) == begun
        async with asyncio.timeout(10):
            while not await store.inner.shelved(active_switches.SHELF):
                await asyncio.sleep(0.01)
    async with place.open(drive=False) as mc:
        [kept] = await mc.kill_switch.reports()
        assert (kept.switch.id, kept.switch.stands) == (report.switch.id, True)


async def test_a_throw_that_fails_half_way_leaves_nothing_running_here(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was reached is not known: the gates that were shut stay shut until the halt is written."""
    tool = Tool()
    worker = _worker(tool)
    store = Faulty(await place.store())
    async with place.open(worker, store=store) as mc:
        session = await mc.start(worker)
        await until_true(lambda: len(tool.begun) > 3)
        monkeypatch.setattr(store.inner, "heads", _unreadable)
        with pytest.raises(StoreUnavailable):
            await mc.kill_switch.throw(ALL, "freeze", wait=1.0)
        begun = len(tool.begun)
        await asyncio.sleep(0.05)
        assert len(tool.begun) == begun
        monkeypatch.undo()
        assert await until_status(session, "halted") == "halted"


async def _unreadable(*_: object) -> list[Any]:
    raise StoreUnavailable("It cannot be read just now.")


async def test_the_agents_own_code_and_undos_count_as_running(place: Place) -> None:
    """A report claims no more than is known: a line of code between two steps is not stopped."""
    entered, may_end = asyncio.Event(), asyncio.Event()

    async def own(_run: midcourse.Run) -> None:
        entered.set()
        await may_end.wait()

    agent = resumable(own)
    async with place.open(agent) as mc:
        await mc.start(agent)
        await entered.wait()
        report = await mc.kill_switch.throw(ALL, "freeze", wait=0.05)
        assert [(line.state, line.running) for line in report.sessions] == [("still_running", "the agent's own code")]
        may_end.set()


async def test_an_operators_cancel_of_a_halted_session_runs_its_undos_while_it_stands(place: Place) -> None:
    """No sweep halts it again."""
    undone: list[object] = []

    async def unbook(arguments: Mapping[str, Any], _result: object, _key: str) -> None:
        await asyncio.sleep(0.1)
        undone.append(arguments["number"])

    @midcourse.tool(effect="write", undo=unbook, local=True)
    async def book(number: int) -> int:
        return number

    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> None:
        for number in range(3):
            await run.step("book", book, number)
        await run.step("wait", tool.run, 1)

    worker = resumable(agent)
    async with place.open(worker) as mc:
        session = await mc.start(worker)
        await tool.entered.wait()
        await mc.kill_switch.throw(ALL, "freeze")
        control = mc._control  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        cancel = Cancel(id=CommandId("c"), by="ada", role="operate", undo="all", grace=0.0)
        await control.send(session.id, cancel, until="decided", wait=10)
        assert await until_status(session, "cancelled") == "cancelled"
        assert undone == [2, 1, 0]


async def test_the_same_id_for_another_switch_is_refused_and_for_the_same_finds_it(place: Place) -> None:
    """A retry is not a second switch, and a mistake is not a switch that nobody threw."""
    async with place.open() as mc:
        first = await mc.kill_switch.throw(check_scope("agent", "one"), "freeze", switch="ks_one")
        again = await mc.kill_switch.throw(check_scope("agent", "one"), "freeze", switch="ks_one")
        assert first.switch == again.switch
        with pytest.raises(Refused) as refused:
            await mc.kill_switch.throw(ALL, "freeze", switch="ks_one")
        assert refused.value.code == "idempotency_key_reused"
