"""An agent that gives up waiting, or races with a stop: what it began is under way all the same."""

import asyncio

import midcourse
from midcourse.core.ids import SessionId
from midcourse.runtime.settings import Settings
from tests.promises.faults import Faulty
from tests.promises.harness import Place, Tool, history, resumable, turns, types, until_status, until_true

PARKS_AT_ONCE = Settings(park_after=0.0, poll=0.05, unreachable_after=30.0)


async def test_a_checkpoint_while_an_abandoned_ask_is_open_says_so(place: Place) -> None:
    """An agent that gave up waiting for a person has still asked."""
    codes: list[str] = []

    async def agent(run: midcourse.Run) -> None:
        try:
            async with asyncio.timeout(0.01):
                await run.ask("Anybody there?")
        except TimeoutError:
            pass
        try:
            await run.checkpoint()
        except midcourse.MisusedRun as error:
            codes.append(error.code)

    async with place.open(resumable(agent, mode="state")) as mc:
        await (await mc.start(resumable(agent, mode="state"))).result()
    assert codes == ["steps_in_flight"]


async def test_an_agent_that_ends_with_an_open_ask_closes_it(place: Place) -> None:
    """Nobody is asked for something that will not be used."""

    async def agent(run: midcourse.Run) -> str:
        try:
            async with asyncio.timeout(0.02):
                await run.ask("Anybody?")
        except TimeoutError:
            pass
        return "alone"

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == "alone"
        assert (await session.state()).asks == ()


async def test_an_agent_that_ends_before_its_steps_do_completes_when_they_have(place: Place) -> None:
    """Their results are journaled: completed is not said while something runs."""
    tool, returned = Tool(holds=True), asyncio.Event()

    async def agent(run: midcourse.Run) -> str:
        waiting = asyncio.create_task(run.step("slow", tool.run))
        await tool.entered.wait()
        waiting.cancel()
        returned.set()
        return "off"

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await returned.wait()
        await turns(30)
        assert await session.status() == "running"
        tool.may_end.set()
        assert await session.result() == "off"
        assert types(await history(session))[-2:] == ["step.finished", "session.completed"]


async def test_an_agent_that_returned_while_it_was_being_paused_completes_after_the_resume(place: Place) -> None:
    """Its last step ends during the pause; nothing of it is lost, and it is not done again."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        waiting = asyncio.create_task(run.step("last", tool.run, "done"))
        await tool.entered.wait()
        waiting.cancel()
        return "off"

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        await session.pause()
        tool.may_end.set()
        assert await until_status(session, "paused") == "paused"
        await session.resume()
        assert await session.result() == "off"
        assert len(tool.begun) == 1


async def test_a_resume_that_comes_while_the_session_is_being_parked_is_not_lost(place: Place) -> None:
    """Letting go is refused while a row is undecided: whenever the resume comes, the session goes on."""
    tools: list[Tool] = []

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.step("work", tools[-1].run, "done")
        finally:
            await asyncio.sleep(0)  # a little cleanup, so that the taking down takes some turns

    async with place.open(resumable(agent), settings=PARKS_AT_ONCE) as mc:
        for moment in range(30):
            tools.append(Tool(holds=True))
            session = await mc.start(resumable(agent))
            await tools[-1].entered.wait()
            await session.pause(grace=0, until="stopped")
            await turns(moment)
            tools[-1].may_end.set()
            await session.resume()
            assert await session.result() == "done"


async def test_a_session_is_not_let_go_while_a_command_of_another_program_is_undecided(place: Place) -> None:
    """The parking was on its way when the resume came: it is taken back, and the resume is decided."""
    tool = Tool(holds=True)
    one = resumable(lambda run: run.step("work", tool.run, "done"))
    store = Faulty(await place.store())
    async with place.open(one, store=store, settings=PARKS_AT_ONCE) as mc, place.open(drive=False) as other:
        session = await mc.start(one, session_id="s")
        await tool.entered.wait()
        store.holds = lambda write: write == "release"
        await session.pause(grace=0)
        await until_true(lambda: "release" in store.held)
        tool.may_end.set()
        resuming = asyncio.create_task((await other.get("s")).resume())
        while not await store.undecided(SessionId("s")):
            await asyncio.sleep(0.002)
        store.let_through()
        assert (await resuming).level == "decided"
        assert await session.result() == "done"
        assert "session.parked" not in types(await history(session))


async def test_a_cancel_that_comes_while_the_session_ends_is_answered_with_what_became_of_it(place: Place) -> None:
    """Completed or cancelled, never both, and never neither."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> object:
        return await run.step("work", tool.run, "done")

    async with place.open(resumable(agent)) as mc:
        for moment in range(30):
            session = await mc.start(resumable(agent))
            await turns(moment)
            reply = await session.cancel(until="stopped")
            assert reply.level == "stopped"
            story = [event for event in types(await history(session)) if event != "session.taken"]
            assert (story.count("session.completed") + story.count("session.cancelled")) == 1
            assert story[-1] in ("session.completed", "session.cancelled")


async def test_words_that_cannot_be_journaled_are_spelled_out_wherever_they_come_from(place: Place) -> None:
    """Half a surrogate pair in an error or a prompt: the session fails or asks as it should, and does not hang."""

    async def broken() -> None:
        raise FileNotFoundError("no file 'caf\udce9'")

    async def agent(run: midcourse.Run) -> object:
        if run.answer is None:
            raise midcourse.Interrupt("need_input", "Open 'caf\udce9'?")
        try:
            await run.step("open", broken)
        except midcourse.StepError as error:
            raise RuntimeError(f"gave up: {error.detail} \udce9") from error

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await until_status(session, "waiting")
        assert (await session.state()).asks[0].prompt == "Open 'caf\\udce9'?"
        await session.answer("yes")
        assert await until_status(session, "failed") == "failed"
        failure = (await session.state()).failure
        assert failure is not None
        assert failure.message.startswith("Agent 'agent' raised RuntimeError: gave up: no file 'caf\\udce9' \\udce9")


async def test_an_error_that_cannot_even_be_printed_fails_its_step(place: Place) -> None:
    """A user's exception may break while it is being read."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    async def broken() -> None:
        raise Unspeakable

    one = resumable(lambda run: run.step("work", broken))
    async with place.open(one) as mc:
        session = await mc.start(one)
        assert await until_status(session, "failed") == "failed"
        failure = (await session.state()).failure
        assert failure is not None
        assert "Unspeakable" in failure.message
