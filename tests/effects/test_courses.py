"""Odd courses of commands while calls are settled and undone: nothing is forgotten, nothing is done twice."""

import asyncio
import threading
from collections.abc import Mapping

import pytest

import midcourse
from midcourse.core import commands as cmd
from midcourse.core.ids import CommandId
from tests.promises.harness import (
    NEVER,
    QUICK,
    Place,
    Tool,
    history,
    resumable,
    silence,
    types,
    until,
    until_status,
    until_true,
)

pytestmark = pytest.mark.fake_time


class World:
    """What was done and undone, and a lock."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.may_undo = asyncio.Event()
        self.may_undo.set()

    async def put(self, name: str) -> str:
        self.done.append(name)
        if name.startswith("slow"):
            await asyncio.sleep(NEVER)
        return name

    async def take_back(self, arguments: Mapping[str, object], _result: object, _key: str) -> None:
        await self.may_undo.wait()
        self.done.append(f"not {arguments['name']}")


def tool_in(world: World, *, settle: float = 0.0) -> midcourse.Tool[[str], object]:
    """A reversible tool that is found again by its origin."""

    async def put(name: str) -> str:
        return await world.put(name)

    return midcourse.tool(effect="write", undo=world.take_back, settle=settle)(put)


async def test_a_drain_while_a_cancel_waits_to_undo_leaves_the_undo_to_the_next_process(place: Place) -> None:
    world = World()
    put = tool_in(world, settle=0.5)
    agent = resumable(lambda run: run.step("put", put, "slow"))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_true(lambda: world.done == ["slow"])
        await session.cancel(grace=0)
    assert world.done == ["slow"]

    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await until_status(session, "cancelled")
        assert world.done == ["slow", "not slow"]
        assert [line.outcome for line in (await session.receipt()).lines] == ["undone"]


async def test_a_halt_in_a_rollback_only_holds_it_up(place: Place) -> None:
    world = World()
    put = tool_in(world)

    async def puts(run: midcourse.Run) -> None:
        for name in ("a", "b", "c"):
            await run.step(f"put {name}", put, name)
        await run.ask("go on?")

    async with place.open(agent := resumable(puts)) as mc:
        session = await mc.start(agent)
        await until(session, "ask.opened")
        world.may_undo.clear()
        await session.cancel(undo="all")
        await until(session, "undo.begun")
        control = mc._control  # noqa: SLF001 - the kill switch has no public handle yet  # pyright: ignore[reportPrivateUsage]
        await control.send(session.id, cmd.Halt(id=CommandId("h"), role="operate"), until="decided", wait=5)
        world.may_undo.set()
        await until(session, "undo.ended")
        await control.send(session.id, cmd.Lift(id=CommandId("l"), role="operate"), until="decided", wait=5)

        await until_status(session, "cancelled")
        assert world.done == ["a", "b", "c", "not c", "not b", "not a"]


async def test_an_approval_of_the_source_is_none_of_its_fork(place: Place) -> None:
    deploy = Tool(effect="write", environment="prod", local=True)
    agent = resumable(lambda run: run.step("deploy", deploy.run, "x"))
    async with place.open(agent) as mc:
        source = await mc.start(agent)
        await until(source, "ask.opened")
        await source.answer("approve")
        await source.result()
        answered = next(one for one in await history(source) if one.type == "ask.answered")

        fork = await source.fork(answered.position)

        await until(fork, "ask.opened", times=2)
        assert deploy.begun == [("x",)]


async def test_what_an_aborted_attempt_may_have_done_is_not_forgotten_when_the_next_one_asks(place: Place) -> None:
    attempts: list[int] = []

    async def asks_at_last() -> None:
        attempts.append(midcourse.current_call().attempt)
        if len(attempts) == 1:
            await asyncio.sleep(NEVER)
        raise midcourse.Interrupt("unsure", "Go on?")

    put = midcourse.tool(effect="idempotent", settle=0)(asks_at_last)
    agent = resumable(lambda run: run.step("put", put))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await until_true(lambda: attempts == [1])
        reply = await session.pause(grace=0, until="stopped")
        await session.resume(reply.pause)
        await until(session, "ask.opened")

        assert [line.outcome for line in (await session.receipt()).lines] == ["unknown"]
        assert types(await history(session)).count("step.aborted") == 2


@pytest.mark.real_time
async def test_a_redirect_that_comes_when_the_agent_has_just_returned_opens_a_new_turn(place: Place) -> None:
    async def says(run: midcourse.Run) -> str:
        await run.hold(f"lock {len(run.messages)}", let_go_slowly)
        return " then ".join(message.text for message in run.messages)

    releasing.clear()
    may_release.clear()
    async with place.open(agent := resumable(says)) as mc:
        session = await mc.start(agent, "one")
        await until_true(lambda: bool(releasing))
        await session.redirect("two")
        may_release.set()

        assert "two" in await session.result()
        assert (await session.state()).turn == 2
        assert (await session.state()).holds == {}


releasing: list[bool] = []
may_release = threading.Event()


def let_go_slowly() -> None:
    """A release that takes its time."""
    releasing.append(True)
    may_release.wait()


async def test_a_worker_without_the_tools_looks_once_and_leaves_a_cancel_to_one_that_has_them(place: Place) -> None:
    world = World()
    put = tool_in(world)
    agent = resumable(lambda run: run.step("put", put, "slow"))
    async with place.open(agent, store=(store := await place.store())) as mc:
        session = await mc.start(agent)
        await until_true(lambda: world.done == ["slow"])
        await until(session, "step.begun")
        silence(mc, session.id)
        store.abandon()  # as if its process had been killed
        async with place.open() as stranger:
            session = await stranger.get(session.id)
            await session.cancel(grace=0)
            await until_status(session, "cancelling")
            position = (await session.state()).position
            await asyncio.sleep(20 * QUICK.poll)
            assert (await session.state()).position <= position + 2
            assert world.done == ["slow"]


async def test_a_lost_call_that_a_probe_saw_happen_does_not_disturb_the_rollback_of_the_others(place: Place) -> None:
    world = World()
    put = tool_in(world)

    async def mail() -> None:
        world.done.append("mail")
        await asyncio.sleep(NEVER)

    async def was_sent(_arguments: Mapping[str, object], _key: str) -> bool:
        return True

    send = midcourse.tool(effect="write", probe=was_sent, settle=0)(mail)

    async def works(run: midcourse.Run) -> None:
        await run.step("put", put, "a")
        await run.step("mail", send)

    wrong: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: wrong.append(context))
    agent = resumable(works)
    async with place.open(agent, store=(store := await place.store())) as mc:
        session = await mc.start(agent)
        await until_true(lambda: world.done == ["a", "mail"])
        silence(mc, session.id)
        store.abandon()  # as if its process had been killed
        async with place.open(drive=False) as other:
            await (await other.get(session.id)).cancel(undo="all", grace=0)
        async with place.open(agent) as third:
            session = await third.get(session.id)
            await until_status(session, "cancelled")
            outcomes = {line.name: line.outcome for line in (await session.receipt()).lines}

    assert outcomes == {"put": "undone", "mail": "cannot be undone"}
    assert world.done == ["a", "mail", "not a"]
    assert wrong == []
