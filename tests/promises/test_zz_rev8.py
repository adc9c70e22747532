"""Review scratch."""
import asyncio, logging
from typing import Any
import pytest
import midcourse
from midcourse.core import events as ev
from midcourse.errors import StoreUnavailable, Damaged
from midcourse.runtime.interventions import read_alarms
from tests.policy.runs import GOAL
from tests.policy.watching import a_while, interventions, levels, no_drift, of_type, opened, under
from tests.promises.faults import Faulty
from tests.promises.harness import QUICK, Place, history, types, until, until_status, until_true, place
from tests.promises.test_stepping_in import Script, FIVE, no_encoder, stopped, save, STANDARD
from midcourse.errors import StepError
from midcourse.runtime import supervision

async def test_r1_second_turn(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        script.later("end")
        await session.result(20)
        await asyncio.sleep(0.2)
        await session.message("Now see to the invoices of April as well")
        script.later(*FIVE, "ok")
        await asyncio.sleep(1)
        print("R1", await session.status(), await levels(session))
        assert "stop" in await levels(session)

async def test_r1b_failed_retry(place: Place) -> None:
    script = Script()
    async def ag(run):
        if box["n"] == 0:
            box["n"] = 1
            raise ValueError("x")
        return await script._run(run)
    box = {"n": 0}
    agent = under(ag, "standard", name="agent2")
    async with opened(place, agent, clock=script.clock) as mc:
        session = await mc.start(agent, GOAL)
        await until_status(session, "failed")
        await asyncio.sleep(0.2)
        await session.resume()
        script.later(*FIVE, "ok")
        await asyncio.sleep(1)
        print("R1b", await session.status(), await levels(session))
        assert "stop" in await levels(session)

async def test_r2_ledger(place: Place) -> None:
    script = Script()
    store = Faulty(await place.store())
    n = {"n": 0}
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await script.do(*("fail",) * 4)
        real = store.shelved
        async def once(shelf, **kw):
            n["n"] += 1
            raise StoreUnavailable("away")
        store.shelved = once
        mc._worker.supervisor._known_at = None
        script.later("fail")
        await asyncio.sleep(0.3)
        store.shelved = real
        script.later("fail", "fail", "fail")
        await asyncio.sleep(1)
        print("R2", n, await session.status(), await levels(session))
        assert "stop" in await levels(session)

async def test_r3_many_at_once(place: Place) -> None:
    async def locked(run):
        try:
            await run.step("crm", not_let_in)
        except StepError:
            pass
        await run.step("wait", may_end.wait)
    go = asyncio.Event()
    async def not_let_in() -> None:
        await go.wait()
        raise PermissionError("no API key")
    may_end = asyncio.Event()
    agent = under(locked, name="locked")
    async with opened(place, agent) as mc:
        sessions = [await mc.start(agent, GOAL, by="ada") for _ in range(20)]
        await asyncio.sleep(0.5)
        go.set()
        await asyncio.sleep(2)
        found = [x for s in sessions for x in await levels(s)]
        print("R3", found)
        assert found.count("ask") <= 5

async def test_r4_fork(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await stopped(session, script)
        before = await read_alarms(mc._worker.store)
        fork = await session.fork()
        await asyncio.sleep(0.5)
        after = await read_alarms(mc._worker.store)
        print("R4", len(before), len(after), [(a.session == session.id, a.level) for a in after])
        assert len(after) == len(before)

async def test_r5_damaged_policy(place: Place) -> None:
    script = Script("mine")
    store = await place.store()
    from msgspec.structs import replace
    await save(store, replace(STANDARD, name="mine", extends="standard", response_target=STANDARD.response_target * 2))
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await session.pause(grace=0)
        await until_status(session, "paused")
    store = await place.store()
    await store.shelve("policies", {"mine@000001": b'{"document": {"new": 1}, "by": "x", "why": "y", "at": 1.0}'})
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        again = await mc.get(session.id)
        reply = await again.cancel(grace=0, wait=2)
        print("R5", reply, await again.status())
        assert await again.status() == "cancelled"

async def test_r6_catch_up(place: Place) -> None:
    script = Script()
    store = Faulty(await place.store())
    real = store.heads
    async def bad(**kw):
        raise StoreUnavailable("away")
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        store.heads = bad
        session = await script.started(mc)
        await asyncio.sleep(0.1)
        store.heads = real
        script.later(*FIVE, "ok")
        await asyncio.sleep(1.5)
        w = mc._worker._watched[session.id]
        print("R6", await session.status(), await levels(session), len(w._behind))
        assert "stop" in await levels(session)

@pytest.mark.parametrize("value", [False, 0, {"no": 1}, "no"])
async def test_r7_answers(place: Place, value: Any) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await stopped(session, script)
        await session.answer(value)
        await asyncio.sleep(0.2)
        state = await session.state()
        print("R7", value, state.status, [m.text for m in state.messages])
        await session.cancel(grace=0)

async def test_r8_closure(place: Place) -> None:
    from dataclasses import replace
    script = Script()
    agent = replace(script.agent, resumable=False)
    async with opened(place, agent, clock=script.clock) as mc:
        session = await script.started(mc) if False else await mc.start(agent, GOAL)
        await until(session, "step.begun")
        await stopped(session, script)
    async with opened(place, clock=script.clock) as mc:
        again = await mc.get(session.id)
        try:
            r = await again.resume(); print("R8 resume", r.status)
        except Exception as e: print("R8 resume refused", type(e).__name__)
        try:
            r = await again.answer("go on"); print("R8 answer", r.status)
        except Exception as e: print("R8 answer refused", type(e).__name__)
        await asyncio.sleep(0.3)
        print("R8", await again.status())
        assert await again.status() == "paused"

async def test_r9_cut_cost(place: Place) -> None:
    async def dear():
        yield "a"
        await asyncio.sleep(5)
        yield midcourse.StreamEnd(cost=3.0, tokens=3)
    async def ag(run):
        for _ in range(5):
            await run.stream("think", dear)
    agent = under(ag, name="ag")
    async with opened(place, agent) as mc:
        s = await mc.start(agent, GOAL)
        await until(s, "step.begun")
        await asyncio.sleep(.1)
        await s.redirect("short", level="step")
        await asyncio.sleep(.3)
        print("R9", [x.event for x in await history(s) if isinstance(x.event, (ev.StepCut, ev.StepFailed))])
        await s.cancel(grace=0)

@pytest.mark.parametrize("how", ["fail", "return"])
async def test_r10_fails_while_pausing(place: Place, how: str) -> None:
    go = asyncio.Event()
    async def wait():
        await go.wait()
        if how == "fail": raise ValueError("x")
        return 1
    async def dear():
        yield "a"
        yield midcourse.StreamEnd(cost=30.0, tokens=3)
    box = {"n": 0}
    async def ag(run):
        box["n"] += 1
        for n in range(3):
            await run.step("a", one, n)
        a = asyncio.create_task(run.step("wait", wait))
        await asyncio.sleep(0.05)
        await run.stream("think", dear)
        await a
        return "x"
    async def one(n): return n
    from msgspec.structs import replace
    from midcourse.core.policy.spans import Span
    store = await place.store()
    await save(store, replace(STANDARD, name="mine", extends="standard", restraint=replace(STANDARD.restraint, first_after=Span(0), first_after_actions=0, worth=replace(STANDARD.restraint.worth, attention=Span(0), quality=0, per_request=0, recovery=0))))
    agent = under(ag, "mine", name="ag")
    async with opened(place, agent, store=store) as mc:
        s = await mc.start(agent, GOAL)
        await asyncio.sleep(0.6)
        print("R10", how, await s.status(), await levels(s))
        go.set()
        await asyncio.sleep(0.4)
        st = await s.state()
        print("R10", how, st.status, [a.id for a in st.asks])
        if st.status == "failed":
            await s.resume()
            await asyncio.sleep(0.3)
            st = await s.state()
            print("R10 retried", st.status, [a.id for a in st.asks])
        else:
            r = await s.answer("go on")
            await asyncio.sleep(0.3)
            st = await s.state()
            print("R10 answered", st.status, [a.id for a in st.asks])
