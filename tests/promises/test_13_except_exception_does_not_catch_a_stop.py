"""Promise 13: `except Exception` does not catch a stop. Cleanup runs shielded, with a deadline."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import midcourse
from midcourse.errors import InterruptRequested
from midcourse.runtime.settings import Settings
from tests.promises.harness import Place, Tool, history, resumable, turns, types, until, until_status, until_true

pytestmark = pytest.mark.fake_time
SHORT = Settings(poll=0.05, unreachable_after=30.0, cleanup=0.2, park_after=0.0)
"""Little patience with cleanup, and a paused agent is taken out of memory at once."""


async def test_except_exception_does_not_catch_a_stop(place: Place) -> None:
    """An agent full of `except Exception` is stopped all the same, wherever it stands."""
    tool, caught = Tool(holds=True), list[BaseException]()

    async def agent(run: midcourse.Run) -> None:
        while True:
            try:
                await run.step("work", tool.run)
            except Exception as error:  # noqa: BLE001 - what such agents do
                caught.append(error)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        reply = await session.cancel(grace=0, until="stopped")
        assert (reply.level, reply.status) == ("stopped", "cancelled")
        assert caught == []


async def test_the_agents_own_code_is_stopped_past_its_except_exception(place: Place) -> None:
    """Between two steps as well: the stop that reaches it there is not an Exception either."""
    entered, caught = asyncio.Event(), list[BaseException]()

    async def agent(run: midcourse.Run) -> None:
        del run
        while True:
            try:
                entered.set()
                await asyncio.sleep(3600)
            except Exception as error:  # noqa: BLE001 - what such agents do
                caught.append(error)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await entered.wait()
        reply = await session.cancel(grace=0, until="stopped")
        assert (reply.level, reply.status) == ("stopped", "cancelled")
        assert caught == []


async def test_code_that_catches_everything_gets_the_stop_again_at_its_next_run_call(place: Place) -> None:
    """`except BaseException` buys no further step."""
    tool, late, caught = Tool(holds=True), Tool(), list[BaseException]()

    async def agent(run: midcourse.Run) -> str:
        for _ in range(3):
            try:
                await run.step("work", tool.run)
            except BaseException as error:  # noqa: BLE001 - the worst an agent can do
                caught.append(error)
        for call in (run.now, run.random, run.uuid, run.report):
            with pytest.raises(InterruptRequested):
                call()
        with pytest.raises(InterruptRequested):
            await run.ask("May I?")
        with pytest.raises(InterruptRequested):
            await run.checkpoint()
        with pytest.raises(InterruptRequested):
            await run.stream("write", late.run)  # pyright: ignore[reportArgumentType] - it never gets that far
        return "I am done"

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        reply = await session.cancel(grace=0, until="stopped")
        assert (reply.level, reply.status) == ("stopped", "cancelled")
        assert [type(error) for error in caught] == [InterruptRequested] * 3
        assert (len(tool.begun), len(late.begun)) == (1, 0)


async def test_an_agent_that_catches_everything_for_ever_is_reported_as_still_running(place: Place) -> None:
    """It is named in the answer after the deadline, others are not held up, and `cancelled` is not said."""
    entered, rounds, give_up = asyncio.Event(), 0, False
    tool = Tool()

    async def agent(run: midcourse.Run) -> None:
        nonlocal rounds
        while not give_up:
            rounds += 1
            try:
                entered.set()
                await run.step("work", tool.run, rounds)
            except BaseException:  # noqa: BLE001 - the worst an agent can do
                continue

    async def other(run: midcourse.Run) -> str:
        return str(await run.step("work", Tool().run, "unharmed"))

    stubborn, harmless = resumable(agent, name="stubborn"), resumable(other, name="harmless")
    async with place.open(stubborn, harmless, settings=SHORT) as mc:
        session = await mc.start(stubborn)
        await entered.wait()
        try:
            reply = await session.cancel(grace=0)
            while [call.name for call in reply.running] != ["the agent's own code"]:
                reply = await session.cancel(grace=0, until="stopped", wait=0.05)
            reply = await session.cancel(grace=0, until="stopped", wait=0.4)  # longer than its cleanup may take
            assert (reply.level, reply.status) == ("stopping", "cancelling")
            assert [call.name for call in reply.running] == ["the agent's own code"]
            begun = len(tool.begun)
            assert await (await mc.start(harmless)).result() == "unharmed"
            assert await session.status() == "cancelling"
            assert len(tool.begun) == begun
        finally:
            give_up = True  # or it would outlive this test
        assert await until_status(session, "cancelled") == "cancelled"


Stopping = Callable[[midcourse.Run, Tool], Awaitable[object]]


async def _in_task_group(run: midcourse.Run, tool: Tool) -> object:
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(run.step("work", tool.run, name, key=name))
    return "not stopped"


async def _in_gather(run: midcourse.Run, tool: Tool) -> object:
    return await asyncio.gather(*(run.step("work", tool.run, name, key=name) for name in "abc"))


async def _in_nested_groups(run: midcourse.Run, tool: Tool) -> object:
    async with asyncio.TaskGroup() as outer:
        outer.create_task(_in_task_group(run, tool))
        outer.create_task(run.step("other", tool.run))
    return "not stopped"


async def _in_wait_for(run: midcourse.Run, tool: Tool) -> object:
    return await asyncio.wait_for(run.step("work", tool.run), 3600)


async def _with_except_star(run: midcourse.Run, tool: Tool) -> object:
    try:
        await _in_task_group(run, tool)
    except* Exception as group:
        raise AssertionError("a stop is not an Exception, in a group neither") from group
    return "not stopped"


@pytest.mark.parametrize("stopping", [_in_task_group, _in_gather, _in_nested_groups, _in_wait_for, _with_except_star])
async def test_a_stop_is_recognised_inside_exception_groups(place: Place, stopping: Stopping) -> None:
    """Parked from a task group and started again elsewhere: the session is stopped, not failed, and goes on."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> str:
        await stopping(run, tool)
        return "gone on"

    async with place.open(resumable(agent), settings=SHORT) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        await turns(10)
        await session.pause(grace=0, until="stopped")
        assert (await until(session, "session.parked")).type == "session.parked"
        tool.may_end.set()
        await session.resume()
        assert await session.result() == "gone on"
        assert "session.failed" not in types(await history(session))
        tool.may_end.clear()

        session = await mc.start(resumable(agent))
        await until(session, "step.begun")
        reply = await session.cancel(grace=0, until="stopped")
        assert (reply.level, reply.status) == ("stopped", "cancelled")
        tool.may_end.set()


async def test_a_failure_beside_a_stop_in_a_group_is_a_failure(place: Place) -> None:
    """A group is a stop only if everything in it is one."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> None:
        async def path() -> None:
            try:
                await run.step("work", tool.run)
            finally:
                raise ValueError("the cleanup broke")

        async with asyncio.TaskGroup() as group:
            group.create_task(path())

    async with place.open(resumable(agent), settings=SHORT) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        await session.pause(grace=0, until="stopped")
        assert await until_status(session, "failed") == "failed"
        failure = (await session.state()).failure
        assert failure is not None
        assert (failure.code, "the cleanup broke" in failure.message) == ("agent_error", True)


async def test_cleanup_in_a_finally_runs_to_its_end_before_the_stop_is_complete(place: Place) -> None:
    """It may await, and is not cancelled while its time lasts."""
    tool, steps = Tool(holds=True), list[str]()

    async def agent(run: midcourse.Run) -> None:
        try:
            await run.step("work", tool.run)
        finally:
            steps.append("cleaning")
            await asyncio.sleep(0.05)
            steps.append("cleaned")

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        reply = await session.cancel(grace=0, until="stopped")
        assert (reply.level, steps) == ("stopped", ["cleaning", "cleaned"])


async def test_cleanup_beyond_its_deadline_is_cancelled(place: Place) -> None:
    """Shielded does not mean for ever."""
    tool, steps = Tool(holds=True), list[str]()

    async def agent(run: midcourse.Run) -> None:
        try:
            await run.step("work", tool.run)
        finally:
            steps.append("cleaning")
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                steps.append("cancelled")
                raise

    async with place.open(resumable(agent), settings=SHORT) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        reply = await session.cancel(grace=0, until="stopped")
        assert (reply.level, steps) == ("stopped", ["cleaning", "cancelled"])


async def test_cleanup_that_does_not_end_is_reported_as_still_running_until_it_does(place: Place) -> None:
    """`cancelling`, with the agent's own code listed, and nothing is said that is not so."""
    tool, may_end = Tool(holds=True), asyncio.Event()

    async def agent(run: midcourse.Run) -> None:
        try:
            await run.step("work", tool.run)
        finally:
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue

    async with place.open(resumable(agent), settings=SHORT) as mc:
        session = await mc.start(resumable(agent))
        await tool.entered.wait()
        reply = await session.cancel(grace=0)
        while [(call.name, call.kind) for call in reply.running] != [("the agent's own code", "agent")]:
            reply = await session.cancel(grace=0, until="stopped", wait=0.05)
        reply = await session.cancel(grace=0, until="stopped", wait=0.4)  # longer than its cleanup may take
        assert (reply.level, reply.status) == ("stopping", "cancelling")
        assert [(call.name, call.kind) for call in reply.running] == [("the agent's own code", "agent")]
        may_end.set()
        assert (await session.cancel(until="stopped")).level == "stopped"


async def test_a_stop_inside_a_steps_body_is_an_ordinary_cancellation_there(place: Place) -> None:
    """A body that turns its abort into an error of its own has been stopped, and is done again on resume."""
    entered, runs = asyncio.Event(), 0

    @midcourse.tool(effect="read")
    async def body() -> str:
        nonlocal runs
        runs += 1
        if runs == 1:
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise RuntimeError("connection lost") from None
        return "done"

    one = resumable(lambda run: run.step("work", body))
    async with place.open(one) as mc:
        session = await mc.start(one)
        await entered.wait()
        await session.pause(grace=0, until="stopped")
        assert "step.aborted" in types(await history(session))
        await session.resume()
        assert await session.result() == "done"


async def test_an_agent_that_cancels_itself_has_failed_and_was_not_stopped(place: Place) -> None:
    """A CancelledError that nobody of Midcourse sent is the agent's own."""

    async def agent(run: midcourse.Run) -> None:
        del run
        raise asyncio.CancelledError

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        with pytest.raises(midcourse.SessionEnded) as ended:
            await session.result()
        assert ended.value.code == "agent_cancelled"


async def test_tasks_an_agent_left_behind_begin_nothing_after_it_ended(place: Place) -> None:
    """A path that outlives its agent gets the stop at its next `run.*`."""
    tool, ended, told = Tool(), asyncio.Event(), list[BaseException]()
    left: list[asyncio.Task[None]] = []

    async def agent(run: midcourse.Run) -> str:
        async def straggler() -> None:
            await ended.wait()
            try:
                await run.step("late", tool.run)
            except BaseException as error:  # noqa: BLE001 - to see what it is given
                told.append(error)

        left.append(asyncio.create_task(straggler()))
        return "ended"

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == "ended"
        ended.set()
        await until_true(lambda: bool(told))
        assert [type(error) for error in told] == [InterruptRequested]
        assert tool.begun == []
