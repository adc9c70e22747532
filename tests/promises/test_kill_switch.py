"""The kill switch: a standing record. While it stands nothing in its scope begins; lifting it resumes nothing."""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

import midcourse
from midcourse.core.commands import Cancel
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.switches import Scope, check_scope
from midcourse.core.terms import NO_TERMS, Terms
from midcourse.errors import InvalidInput, Refused, StoreUnavailable
from midcourse.ports import active_switches
from tests.promises.faults import Faulty, Hanging
from tests.promises.harness import Place, Tool, history, resumable, turns, types, until_asks, until_status, until_true
from tests.promises.test_02_durable_before_acknowledged import Unreadable

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
    settings = midcourse.Settings(poll=30)  # no sweep looks at the switches meanwhile
    async with place.open(worker, settings=settings) as mc, place.open(drive=False) as other:
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
        assert after[0] == "session.halt_lifted"
        assert "session.halted" in after  # a step may follow that did not begin
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
        assert str(report).endswith("It is on in this process, which writes it when it can.")
        begun = len(tool.begun)
        for found in (report, await mc.kill_switch.report(report.switch.id), *await mc.kill_switch.reports()):
            assert [line.state for line in found.sessions] == ["stopped"]  # also to whoever asks later
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


@pytest.mark.parametrize("switch", [None, "ks_one"])
async def test_a_switch_halts_this_process_although_the_store_cannot_be_read(place: Place, switch: str | None) -> None:
    """With an id or without: the gates shut before anything is read, and the report is of what is known here."""
    tool = Tool()
    worker, other = _worker(tool), _worker(Tool(), "other")
    store = Unreadable(await place.store())
    async with place.open(worker, other, store=store) as mc:
        session, spared = await mc.start(worker), await mc.start(other)
        await until_true(lambda: len(tool.begun) > 3)
        store.is_damaged = True
        for _ in range(2):  # a retry, too
            report = await mc.kill_switch.throw(check_scope("agent", "worker"), "freeze", wait=0.1, switch=switch)
            assert {line.state for line in report.sessions} <= {"stopped"}
            assert not report.durable
        begun = len(tool.begun)
        await turns(200)
        assert len(tool.begun) == begun
        store.is_damaged = False
        assert await until_status(session, "halted") == "halted"
        assert await until_status(spared, "running") == "running"
        assert len(tool.begun) == begun


async def test_a_switch_that_is_not_stored_says_so_whenever_it_is_asked_until_it_is(place: Place) -> None:
    """A list, a report and a retry know no more than the answer to the throw did."""
    store = Faulty(await place.store())
    async with place.open(store=store) as mc:
        store.error = lambda: StoreUnavailable("The disk is away.")
        store.fails = lambda write: write == "shelve"
        thrown = await mc.kill_switch.throw(ALL, "freeze", switch="ks_mine")
        again = await mc.kill_switch.throw(ALL, "freeze", switch="ks_mine")
        assert [one.durable for one in (thrown, again, *await mc.kill_switch.reports())] == [False] * 3
        assert not (await mc.kill_switch.report("ks_mine")).durable
        store.work_again()
        async with asyncio.timeout(10):
            while not (await mc.kill_switch.report("ks_mine")).durable:
                await asyncio.sleep(0.01)


async def test_a_switch_whose_sessions_cannot_be_listed_halts_those_of_this_process_and_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written; that all were reached is not claimed."""
    tool = Tool()
    worker = _worker(tool)
    store = Faulty(await place.store())
    async with place.open(worker, store=store) as mc:
        session = await mc.start(worker)
        await until_true(lambda: len(tool.begun) > 3)
        monkeypatch.setattr(store.inner, "heads", _unreadable)
        report = await mc.kill_switch.throw(ALL, "freeze", wait=1.0)
        assert [(line.session, line.state) for line in report.sessions] == [(session.id, "stopped")]
        assert "sessions of other processes may not be listed" in str(report)
        monkeypatch.undo()
        assert await session.status() == "halted"
        [again] = await mc.kill_switch.reports()
        assert again.durable


async def _unreadable(*_: object) -> list[Any]:
    raise StoreUnavailable("It cannot be read just now.")


@pytest.mark.parametrize("switch", [None, "ks_one"])
@pytest.mark.parametrize("gives_up", [True, False])
async def test_a_switch_is_answered_in_time_although_the_store_hangs(
    place: Place, switch: str | None, gives_up: bool
) -> None:
    """Nothing begins meanwhile, also if whoever threw it gives up waiting; the halt comes when the store answers."""
    tool = Tool()
    worker = _worker(tool)
    store = Hanging(await place.store())
    async with place.open(worker, store=store) as mc:
        session = await mc.start(worker)
        await until_true(lambda: len(tool.begun) > 3)
        store.hangs = lambda _: True
        throwing = asyncio.ensure_future(mc.kill_switch.throw(ALL, "freeze", wait=0.0, switch=switch))
        if gives_up:
            await turns(5)
            throwing.cancel()
            await asyncio.wait({throwing})
        else:
            report = await throwing
            assert ([line.session for line in report.sessions], report.durable) == ([session.id], False)
        begun = len(tool.begun)
        await turns(200)
        assert len(tool.begun) == begun
        store.hangs = lambda _: False
        assert await until_status(session, "halted") == "halted"
        assert len(tool.begun) == begun


async def test_a_switch_thrown_again_unseen_after_it_was_lifted_does_not_stand_again(place: Place) -> None:
    """A retry that could not read the record halts what is here, and the record in the store stays as it is."""
    tool = Tool()
    worker = _worker(tool)
    store = Unreadable(await place.store())
    async with place.open(worker, store=store) as mc:
        await mc.kill_switch.throw(ALL, "freeze", switch="ks_one")
        await mc.kill_switch.lift("ks_one", "thawed")
        session = await mc.start(worker)
        await until_true(lambda: bool(tool.begun))
        store.is_damaged = True
        assert not (await mc.kill_switch.throw(ALL, "freeze", wait=0.1, switch="ks_one")).durable
        store.is_damaged = False
        assert await until_status(session, "halted") == "halted"
        async with asyncio.timeout(10):
            while (await mc.kill_switch.report("ks_one")).switch.stands:
                await asyncio.sleep(0.01)
        await session.lift()
        assert await until_status(session, "running") == "running"


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


@pytest.mark.parametrize("wait", [0.3, 10.0])
async def test_a_session_is_not_reported_as_stopped_while_its_child_of_another_agent_still_runs(
    wait: float, place: Place
) -> None:
    """The child is not in the switch's scope and has no line of its own; the parent's process had died before."""
    tool = Tool(holds=True)

    @midcourse.tool(effect="write", local=True)
    async def send(number: int) -> object:
        return await tool.run(number)

    child = resumable(lambda run: run.step("send", send, 1), name="child")
    parent = resumable(lambda run: run.spawn(child, "a part"), name="parent")
    async with place.open(child) as elsewhere:
        async with place.open(parent) as mc:
            session = await mc.start(parent, "a goal")
            await tool.entered.wait()
        [below] = [await elsewhere.get(one.id) for one in await elsewhere.list() if one.parent is not None]
        await until_asks(below)
        await below.answer("it did not happen")
        await until_true(lambda: len(tool.begun) == 2)
        async with place.open(drive=False) as mc:
            throwing = asyncio.ensure_future(mc.kill_switch.throw(Scope("agent", "parent"), "mail goes out", wait=wait))
            if wait < 1:
                [line] = (await throwing).sessions
                assert (line.session, line.state, line.running) == (session.id, "still_running", "send")
            await until_status(await mc.get(session.id), "halted")
            assert wait < 1 or not (await asyncio.wait({throwing}, timeout=0.2))[0], "answered before all had stopped"
            tool.may_end.set()
            report = await throwing
            while report.count("stopped") == 0:
                await turns(1)
                report = await mc.kill_switch.report(report.switch.id)


async def test_a_session_outside_the_scope_is_not_listed_although_its_journal_cannot_be_written(place: Place) -> None:
    """Nothing of it runs here, and yet no switch holds it: it continues once the store takes writes again."""
    tool = Tool(holds=True)
    worker = resumable(lambda run: run.step("work", tool.run), name="worker")
    store = Faulty(await place.store())
    async with place.open(worker, store=store) as mc:
        session = await mc.start(worker)
        await tool.entered.wait()
        store.fails = lambda write: write == "append"
        tool.may_end.set()
        control = mc._control  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        await until_true(lambda: control.worker.has_given_up(SessionId(session.id)))
        report = await mc.kill_switch.throw(Scope("agent", "other"), "not this one", wait=0.1)
        assert report.sessions == ()
        store.work_again()
        await session.result()
