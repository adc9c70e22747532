"""A session that has rested long enough lies in the store alone, and goes on from there with nothing done twice."""

from copy import deepcopy
from dataclasses import replace

import midcourse
from midcourse.core.ids import SessionId
from midcourse.runtime.settings import Settings
from tests.promises.harness import Place, Tool, history, resumable, types, until

AT_ONCE = Settings(poll=0.05, unreachable_after=30.0, park_after=0)


async def _is_owned(place: Place, session_id: SessionId) -> bool:
    store = await place.store()
    try:
        return (await store.head(session_id)).owner is not None
    finally:
        await store.close()


async def test_a_paused_replay_agent_is_parked_and_goes_on_cold_with_nothing_redone(place: Place) -> None:
    """It starts at its top again, and finds every step done."""
    first, second = Tool(), Tool(holds=True)
    starts: list[str] = []

    async def agent(run: midcourse.Run) -> list[object]:
        starts.append(run.goal)
        return [await run.step("first", first.run, "a"), await run.step("second", second.run, "b")]

    async with place.open(resumable(agent), settings=AT_ONCE) as mc:
        session = await mc.start(resumable(agent), "go")
        await second.entered.wait()
        await session.pause()
        assert not {"session.parked"} & set(types(await history(session)))  # a call is in flight
        second.may_end.set()
        await until(session, "session.parked")
        assert await session.status() == "paused"
        assert not await _is_owned(place, session.id)

        await session.resume()
        assert await session.result() == ["a", "b"]
        assert (first.begun, second.begun) == ([("a",)], [("b",)])
        assert starts == ["go", "go"]


async def test_a_paused_state_agent_is_parked_and_goes_on_from_its_last_checkpoint(place: Place) -> None:
    """What the checkpoint covers is not even asked for again; what finished after it is not done again."""
    tool, last = Tool(), Tool(holds=True)
    starts: list[object] = []

    async def agent(run: midcourse.Run) -> list[object]:
        starts.append(deepcopy(run.state))
        done = run.state.setdefault("done", [])
        if not done:
            done.append(await run.step("work", tool.run, 0))
            await run.checkpoint()
        done.append(await run.step("work", tool.run, 1))
        done.append(await run.step("last", last.run, 2))
        return done

    one = resumable(agent, mode="state")
    async with place.open(one, settings=AT_ONCE) as mc:
        session = await mc.start(one)
        await last.entered.wait()
        await session.pause()
        last.may_end.set()
        await until(session, "session.parked")
        await session.resume()
        assert await session.result() == [0, 1, 2]
        assert starts == [{}, {"done": [0]}]
        assert (tool.begun, last.begun) == ([(0,), (1,)], [(2,)])


async def test_a_session_that_waits_for_a_person_is_parked_until_somebody_answers(place: Place) -> None:
    """The answer alone wakes it, and the ask is not made twice."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> object:
        await run.step("look", tool.run)
        return await run.ask("Which one?")

    async with place.open(resumable(agent), settings=AT_ONCE) as mc:
        session = await mc.start(resumable(agent))
        await until(session, "session.parked")
        assert await session.status() == "waiting"
        assert [ask.prompt for ask in (await session.state()).asks] == ["Which one?"]
        await session.answer("this")
        assert await session.result() == "this"
        assert len(tool.begun) == 1
        assert types(await history(session)).count("ask.opened") == 1


async def test_a_parked_session_is_redirected_and_cancelled_without_its_agent_being_started(place: Place) -> None:
    """Both are decided by whoever is there."""
    starts = 0

    async def agent(run: midcourse.Run) -> object:
        nonlocal starts
        starts += 1
        return await run.ask("Go on?", on_redirect="raise")

    async with place.open(resumable(agent), settings=AT_ONCE) as mc:
        session = await mc.start(resumable(agent))
        await until(session, "session.parked")
        await session.pause()
        await session.redirect("another way")
        assert [message.text for message in (await session.state()).messages][1:] == ["another way"]
        reply = await session.cancel(until="stopped")
        assert (reply.status, reply.receipt) == ("cancelled", ())
        assert starts == 1


async def test_a_closure_is_not_parked_because_nobody_could_start_it_again(place: Place) -> None:
    """It stays in memory, warm; a resumable session that rested after it is parked."""
    tools = {"closure": Tool(holds=True), "resumable": Tool(holds=True)}
    starts: list[str] = []

    async def agent(run: midcourse.Run) -> object:
        goal = run.goal
        starts.append(goal)
        await run.step("work", tools[goal].run, goal)
        return await run.step("end", Tool().run, goal)

    one = resumable(agent)
    async with place.open(one, settings=AT_ONCE) as mc:
        closure = await mc.start(replace(one, resumable=False), "closure")
        other = await mc.start(one, "resumable")
        for session, tool in ((closure, tools["closure"]), (other, tools["resumable"])):
            await tool.entered.wait()
            await session.pause()
            tool.may_end.set()
            assert (await session.pause(until="stopped")).level == "stopped"
        await until(other, "session.parked")
        assert "session.parked" not in types(await history(closure))
        assert await _is_owned(place, closure.id)
        for session in (closure, other):
            await session.resume()
            await session.result()
        assert starts == ["closure", "resumable", "resumable"]
