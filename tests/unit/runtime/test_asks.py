"""A question to a person: answered once, by its deadline, or told that it never will be."""

import asyncio

import pytest

import midcourse
from midcourse.core.codec import JSON
from midcourse.runtime.settings import Settings
from tests.checkpoints.programs import Skipping, opened
from tests.promises.harness import Place, Tool, history, resumable, turns, types, until, until_status


async def test_an_ask_shows_what_it_is_about_and_gives_the_answer_as_it_was_given(place: Place) -> None:
    """Reason, prompt and options are there for whoever looks; the session waits meanwhile."""
    agent = resumable(lambda run: run.ask("Which?", reason="choice", options=("a", "b")))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
        [ask] = (await session.state()).asks
        assert (ask.reason, ask.prompt, ask.options) == ("choice", "Which?", ("a", "b"))
        await session.answer({"pick": ["a", 1, None]}, by="ann")
        assert await session.result() == {"pick": ["a", 1, None]}
        answered = (await until(session, "ask.answered")).event
        assert isinstance(answered, midcourse.events.AskAnswered)
        assert answered.by == "ann"


@pytest.mark.parametrize("default", ["no", None, {"a": 1}])
async def test_an_ask_that_nobody_answers_in_time_is_answered_by_its_default(
    place: Place, default: str | dict[str, JSON] | None
) -> None:
    """None is a good default too."""
    agent = resumable(lambda run: run.ask("Go?", expires=0.02, default=default))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        assert await session.result() == default
        answered = (await until(session, "ask.answered")).event
        assert isinstance(answered, midcourse.events.AskAnswered)
        assert answered.by == "deadline"


async def test_without_a_default_the_agent_is_told_that_nobody_answered(place: Place) -> None:
    """It may go on; a replay is told the same."""
    last = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.ask("Go?", expires=0.02)
        except midcourse.AskExpired as error:
            return await run.step("last", last.run, str(error))

    one = resumable(agent)
    async with place.open(one) as mc:
        await mc.start(one, session_id="s")
        await last.entered.wait()
        last.may_end.set()
    async with place.open(one) as mc:
        session = await mc.get("s")
        assert await session.result() == "'Go?' was not answered before its deadline."
        assert types(await history(session)).count("ask.opened") == 1


async def test_a_session_that_failed_because_nobody_answered_asks_again_when_it_is_resumed(place: Place) -> None:
    """As its sentence says: resume it to try again."""
    patience = 0.02

    async def agent(run: midcourse.Run) -> object:
        return await run.ask("Go?", expires=patience)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        with pytest.raises(midcourse.SessionEnded, match="Resume it to try again") as ended:
            await session.result()
        assert ended.value.code == "ask_expired"
        patience = 3600.0
        await session.resume()
        await until_status(session, "waiting")
        await session.answer("go")
        assert await session.result() == "go"


async def test_a_deadline_passes_for_a_parked_session_too(place: Place) -> None:
    """Nobody had it in memory; it is woken by its deadline."""
    agent = resumable(lambda run: run.ask("Go?", expires=60, default="late"))
    settings, clock = Settings(poll=0.05, unreachable_after=30.0, park_after=0), Skipping()
    async with opened(place, agent, settings=settings, clock=clock) as mc:
        session = await mc.start(agent)
        await until(session, "session.parked")
        clock.skipped = 60
        assert await session.result() == "late"


async def test_a_deadline_that_passes_during_a_pause_is_kept_and_the_pause_too(place: Place) -> None:
    """The default is taken at its time, and used after the resume."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> object:
        return await run.step("use", tool.run, await run.ask("Go?", expires=60, default="late"))

    one, clock = resumable(agent), Skipping()
    async with opened(place, one, clock=clock) as mc:
        session = await mc.start(one)
        await until_status(session, "waiting")
        await session.pause()
        clock.skipped = 60
        await session.pause("still")  # whoever decides something looks at the clock
        await until(session, "ask.answered")
        await turns(50)
        assert (await session.status(), tool.begun) == ("paused", [])
        await session.resume()
        assert await session.result() == "late"


async def test_with_several_open_asks_an_answer_must_say_which_it_is_for(place: Place) -> None:
    """The refusal names them all, and each answer goes where it belongs."""

    async def agent(run: midcourse.Run) -> list[object]:
        return list(await asyncio.gather(run.ask("Left?", key="left"), run.ask("Right?", key="right")))

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await until_status(session, "waiting")
        with pytest.raises(midcourse.Refused, match=r"2 asks are open.*ask_1 \(Left\?\), ask_2 \(Right\?\)") as refused:
            await session.answer("yes")
        assert refused.value.code == "ask_id_required"
        by_prompt = {ask.prompt: ask.id for ask in (await session.state()).asks}
        await session.answer("right", ask=by_prompt["Right?"])
        assert [ask.prompt for ask in (await session.state()).asks] == ["Left?"]
        await session.answer("left")
        assert await session.result() == ["left", "right"]


async def test_an_answer_given_during_a_pause_is_used_after_the_resume(place: Place) -> None:
    """It is durable at once, and nothing begins before the pause is lifted."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> object:
        return await run.step("use", tool.run, await run.ask("Which?"))

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await until_status(session, "waiting")
        await session.pause()
        reply = await session.answer("this")
        assert reply.status == "paused"
        await turns(50)
        assert tool.begun == []
        await session.resume()
        assert await session.result() == "this"


async def test_one_of_many_simultaneous_answers_wins_and_the_others_are_told(place: Place) -> None:
    """An ask is answered once."""
    last = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        return await run.step("last", last.run, await run.ask("Which?"))

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await until_status(session, "waiting")
        [ask] = (await session.state()).asks
        replies = await asyncio.gather(*(session.answer(n, ask=ask.id) for n in range(10)), return_exceptions=True)
        refused = [reply for reply in replies if isinstance(reply, midcourse.Refused)]
        assert [error.code for error in refused] == ["already_answered"] * 9
        [winner] = [number for number, reply in enumerate(replies) if isinstance(reply, midcourse.Reply)]
        last.may_end.set()
        assert await session.result() == winner


async def test_a_retry_of_an_answer_under_its_command_id_is_the_same_answer(place: Place) -> None:
    """It is not refused as a second one."""
    last = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        return await run.step("last", last.run, await run.ask("Which?"))

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await until_status(session, "waiting")
        first = await session.answer("this", command_id="mine")
        again = await session.answer("this", command_id="mine")
        assert first.position == again.position
        last.may_end.set()
        assert await session.result() == "this"


async def test_a_cancel_withdraws_the_open_asks(place: Place) -> None:
    """They cannot be answered any more, and are not shown as open."""
    agent = resumable(lambda run: run.ask("Which?"))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_status(session, "waiting")
        await session.cancel(until="stopped")
        closed = (await until(session, "ask.closed")).event
        assert isinstance(closed, midcourse.events.AskClosed)
        assert closed.end == "withdrawn"
        assert (await session.state()).asks == ()
        with pytest.raises(midcourse.Refused) as refused:
            await session.answer("this")
        assert refused.value.code == "session_ended"


async def test_another_path_goes_on_while_one_waits_for_a_person(place: Place) -> None:
    """The session waits only when every path does."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> list[object]:
        return list(await asyncio.gather(run.ask("Which?"), run.step("work", tool.run, "done")))

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        await until(session, "ask.opened")
        assert await session.status() == "running"
        tool.may_end.set()
        await until_status(session, "waiting")
        await session.answer("this")
        assert await session.result() == ["this", "done"]


async def test_an_ask_is_still_open_when_the_store_is_opened_again(place: Place) -> None:
    """Under the same id; the answer may come before or after."""
    agent = resumable(lambda run: run.ask("Which?"))
    async with place.open(agent) as mc:
        await until_status(await mc.start(agent, session_id="s"), "waiting")
    async with place.open(drive=False) as mc:
        session = await mc.get("s")
        assert [ask.id for ask in (await session.state()).asks] == ["ask_1"]
        await session.answer("this", ask="ask_1")
    async with place.open(agent) as mc:
        assert await (await mc.get("s")).result() == "this"
