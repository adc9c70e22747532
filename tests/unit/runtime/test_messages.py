"""What is said to a session that works: queued, edited, withdrawn; and when it is too late for that."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any, Literal

import pytest

import midcourse
from midcourse.core import commands as cmd
from midcourse.core.events import AskOpened, MessagesSeen, StepBegun
from midcourse.core.ids import CommandId, MessageId, SessionId
from midcourse.handle import LocalTransport, SessionHandle
from midcourse.runtime.settings import Settings
from midcourse.wiring import open_control
from tests.promises.harness import (
    NEVER,
    QUICK,
    Place,
    Tool,
    history,
    resumable,
    turns,
    types,
    until,
    until_status,
    until_true,
)

COLD = Settings(poll=0.05, unreachable_after=30.0, park_after=0)
WARM = Settings(poll=0.05, unreachable_after=30.0, park_after=NEVER)
_ids = count(1)


async def refused(command: Awaitable[object]) -> str:
    with pytest.raises(midcourse.Refused) as caught:
        await command
    return caught.value.code


def texts(run: midcourse.Run) -> list[str]:
    return [one.text for one in run.messages]


class Working:
    """An agent whose every turn calls a tool with its goal, and returns what it has read by then."""

    def __init__(self, *, on_redirect: Literal["again", "raise"] = "again", **declared: Any) -> None:
        self.tool = Tool(holds=True, **declared)
        self.agent = resumable(self._work)
        self.told: list[str] = []
        self._on_redirect: Literal["again", "raise"] = on_redirect

    async def _work(self, run: midcourse.Run) -> list[str]:
        goal = run.goal
        try:
            await run.step("work", self.tool.run, goal, on_redirect=self._on_redirect)
        except midcourse.Redirected as redirected:
            self.told.append(redirected.instruction)
        return texts(run)

    @property
    def goals(self) -> list[object]:
        return [one[0] for one in self.tool.begun]


# ---- the queue


async def test_what_is_queued_is_done_turn_after_turn_in_its_order(place: Place) -> None:
    """Each completed turn is followed by the next in one append: the session is never seen completed in between."""
    working = Working()
    async with place.open(working.agent) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        replies = [await session.message(text, by=by) for text, by in (("two", "ada"), ("three", "bob"))]
        assert [(one.level, one.status, one.message) for one in replies] == [
            ("decided", "running", "queued_1"),
            ("decided", "running", "queued_2"),
        ]
        working.tool.may_end.set()
        assert await session.result() == ["one", "two", "three"]
        assert working.goals == ["one", "two", "three"]
        happened = types(await history(session))
        assert happened.count("session.completed") == 3
        ends = [at for at, kind in enumerate(happened) if kind == "session.completed"]
        assert [happened[at + 1] for at in ends[:2]] == ["session.turn_opened"] * 2
        assert (await session.state()).queue == ()


async def test_a_message_to_a_session_that_has_ended_is_its_next_turn_at_once(place: Place) -> None:
    """Whatever it would do to one that works."""
    working = Working()
    working.tool.may_end.set()
    async with place.open(working.agent) as mc:
        session = await mc.start(working.agent, "one")
        await session.result()
        said = (("enqueue", "two", "msg_2"), ("redirect", "three", "msg_3"), ("reject", "four", "msg_4"))
        for behaviour, text, name in said:
            reply = await session.message(text, behaviour=behaviour)  # pyright: ignore[reportArgumentType]
            assert reply.message == name
            await session.result()
        assert working.goals == ["one", "two", "three", "four"]


async def test_a_message_that_would_disturb_is_refused_and_nothing_is_kept(place: Place) -> None:
    """``reject``: for a client that rather comes again."""
    working = Working()
    async with place.open(working.agent) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        assert await refused(session.message("two", behaviour="reject")) == "busy"
        working.tool.may_end.set()
        assert await session.result() == ["one"]


async def test_a_message_that_redirects_is_seen_by_the_turn_that_runs(place: Place) -> None:
    """And is named so that it can be taken back."""
    working = Working()
    async with place.open(working.agent) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        assert (await session.message("and hurry", behaviour="redirect")).message == "msg_2"
        working.tool.may_end.set()
        assert await session.result() == ["one", "and hurry"]
        assert working.goals == ["one"]


async def test_a_message_does_not_disturb_an_ask_and_waits_behind_it(place: Place) -> None:
    """The ask stays open, and is answered as if nothing had been said."""

    async def agent(run: midcourse.Run) -> object:
        return [run.goal, await run.ask("Red?")]

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one, "one")
        await until_status(session, "waiting")
        assert (await session.message("two")).status == "waiting"
        assert [ask.id for ask in (await session.state()).asks] == ["ask_1"]
        await session.answer("yes", ask="ask_1")
        await until(session, "ask.opened", times=2)
        assert (await session.state()).goal == "two"
        await session.answer("no", ask="ask_2")
        assert await session.result() == ["two", "no"]


@pytest.mark.parametrize("settings", [WARM, COLD], ids=["warm", "cold"])
async def test_a_message_to_a_paused_session_is_kept_for_after_its_turn(place: Place, settings: Settings) -> None:
    """It resumes nothing."""
    working = Working()
    async with place.open(working.agent, settings=settings) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        await session.pause(grace=0, until="stopped")
        assert (await session.message("two")).status == "paused"
        working.tool.may_end.set()
        await turns(20)
        assert working.goals == ["one"]
        await session.resume()
        assert await session.result() == ["one", "two"]
        assert working.goals == ["one", "one", "two"]


async def test_the_queue_is_there_after_a_program_was_let_go_of_and_another_opened(place: Place) -> None:
    """Leaving the block drains; the next program works it off."""
    working = Working()
    async with place.open(working.agent, grace=0) as mc:
        session = await mc.start(working.agent, "one", session_id="s")
        await working.tool.entered.wait()
        await session.message("two")
        await session.message("three")
    working.tool.may_end.set()
    async with place.open(working.agent) as mc:
        session = await mc.get("s")
        assert await session.result() == ["one", "two", "three"]
    assert working.goals == ["one", "one", "two", "three"]


async def test_a_queued_message_is_done_as_it_was_edited_and_not_at_all_if_it_was_withdrawn(place: Place) -> None:
    """Until its turn has come; then it stands."""
    working = Working()
    async with place.open(working.agent) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        for text in ("two", "three", "four"):
            await session.message(text)
        assert (await session.edit("queued_1", "zwei")).message == "queued_1"
        await session.withdraw("queued_2")
        assert await refused(session.edit("queued_2", "drei")) == "message_seen"
        assert await refused(session.withdraw("queued_9")) == "message_not_found"
        working.tool.may_end.set()
        assert await session.result() == ["one", "zwei", "four"]
        assert await refused(session.edit("queued_1", "x")) == "message_seen"
        assert await refused(session.withdraw("queued_3")) == "message_seen"


async def test_a_cancel_withdraws_what_is_queued(place: Place) -> None:
    """A later message is a turn of its own, and what was withdrawn does not come back."""
    working = Working()
    async with place.open(working.agent) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        await session.message("two")
        await session.cancel(grace=0, until="stopped")
        assert (await session.state()).queue == ()
        working.tool.may_end.set()
        await session.message("three")
        assert await session.result() == ["one", "three"]


async def test_a_failure_keeps_the_queue_for_whoever_goes_on(place: Place) -> None:
    """Nothing of it is begun: whoever queued it counted on the turn before."""
    may_end, mended = asyncio.Event(), False

    async def agent(run: midcourse.Run) -> list[str]:
        await may_end.wait()
        if not mended:
            raise OSError("down")
        return texts(run)

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one, "one")
        await until(session, "session.started")
        await session.message("two")
        may_end.set()
        assert await until_status(session, "failed") == "failed"
        assert [message.text for message in (await session.state()).queue] == ["two"]
        mended = True
        await session.resume()
        assert await session.result() == ["one", "two"]
        assert (await session.state()).turn == 2


@pytest.mark.parametrize("attempt", range(10))
async def test_a_queued_message_that_is_withdrawn_as_the_turn_ends_is_done_or_withdrawn(
    place: Place, attempt: int
) -> None:
    """Never both, and the session never breaks."""
    working = Working()
    async with place.open(working.agent) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        await session.message("two")
        working.tool.may_end.set()
        await turns(attempt)
        try:
            await session.withdraw("queued_1")
        except midcourse.Refused as error:
            assert error.code == "message_seen"
            assert await session.result() == ["one", "two"]
        else:
            assert await session.result() == ["one"]


# ---- redirects that are taken back


@pytest.mark.parametrize("on_redirect", ["again", "raise"])
async def test_a_call_that_a_withdrawn_redirect_waited_for_goes_on_as_if_nothing_had_been_said(
    place: Place, on_redirect: Literal["again", "raise"]
) -> None:
    """The call is neither closed nor done again."""
    working = Working(on_redirect=on_redirect)
    async with place.open(working.agent) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        reply = await session.redirect("elsewhere", grace=NEVER)
        assert reply.message is not None
        await session.withdraw(reply.message)
        working.tool.may_end.set()
        assert await session.result() == ["one"]
        assert (working.goals, working.told) == (["one"], [])
        assert not {"step.closed", "step.aborted"} & set(types(await history(session)))


async def test_a_call_that_a_withdrawn_redirect_has_already_aborted_is_done_again(place: Place) -> None:
    """As after a pause: whoever has been stopped for nothing goes on."""
    working = Working(on_redirect="raise", settle=0.0)
    async with place.open(working.agent, settings=WARM) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        await session.pause()
        await session.redirect("elsewhere", grace=0)
        await session.pause(grace=0, until="stopped")
        await session.withdraw("msg_2")
        working.tool.may_end.set()
        await session.resume()
        assert await session.result() == ["one"]
        assert (working.goals, working.told) == (["one", "one"], [])


async def test_of_two_redirects_the_one_that_stands_closes_the_call(place: Place) -> None:
    """The agent is told of that one, although it is not the last."""
    working = Working(on_redirect="raise", settle=0.0)
    async with place.open(working.agent, settings=WARM) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        await session.pause(grace=0, until="stopped")
        await session.redirect("elsewhere")
        await session.redirect("nowhere")
        await session.withdraw("msg_3")
        await session.resume()
        assert await session.result() == ["one", "elsewhere"]
        assert (working.goals, working.told) == (["one"], ["elsewhere"])


async def test_a_redirect_after_one_that_was_withdrawn_is_told_although_another_step_has_read_it(place: Place) -> None:
    """What somebody else has seen is no reason not to tell this one."""
    working, reader = Working(on_redirect="raise"), Tool(holds=True)
    read: list[list[str]] = []

    async def look(run: midcourse.Run) -> None:
        await reader.may_end.wait()
        read.append(texts(run))

    async def agent(run: midcourse.Run) -> list[str]:
        looking = asyncio.ensure_future(run.step("look", look, run))
        found = await working.agent.function(run)
        await looking
        return found

    one = resumable(agent)
    async with place.open(one, settings=WARM) as mc:
        session = await mc.start(one, "one")
        await working.tool.entered.wait()
        await session.redirect("nowhere")
        await session.withdraw("msg_2")
        await session.redirect("elsewhere", grace=0.2)
        reader.may_end.set()
        await until_true(lambda: bool(read))
        assert await session.result() == ["one", "elsewhere"]
        assert (read, working.told) == ([["one", "elsewhere"]], ["elsewhere"])


async def test_an_ask_that_a_withdrawn_redirect_superseded_is_asked_again(place: Place) -> None:
    """Also for an agent that wants to be told of redirects: there is none."""
    told: list[str] = []

    async def agent(run: midcourse.Run) -> object:
        try:
            return [await run.ask("Red?", on_redirect="raise"), *texts(run)]
        except midcourse.Redirected as redirected:
            told.append(redirected.instruction)
            return texts(run)

    one = resumable(agent)
    async with place.open(one, settings=WARM) as mc:
        session = await mc.start(one, "one")
        await until_status(session, "waiting")
        await session.pause(until="stopped")
        await session.redirect("elsewhere")
        assert (await session.state()).asks == ()
        await session.withdraw("msg_2")
        await session.resume()
        asked = (await until(session, "ask.opened", times=2)).event
        assert isinstance(asked, AskOpened)
        await session.answer("yes", ask=asked.ask)
        assert await session.result() == ["yes", "one"]
        assert told == []


async def test_an_approval_that_a_withdrawn_redirect_superseded_is_asked_for_again(place: Place) -> None:
    """The call has not begun, and begins once somebody approves."""
    tool = Tool()

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.call(tool.run, {}, needs_approval="matters", on_redirect="raise")
        except midcourse.Redirected as redirected:
            return redirected.instruction

    one = resumable(agent)
    async with place.open(one, settings=WARM) as mc:
        session = await mc.start(one, "one")
        await until_status(session, "waiting")
        await session.pause(until="stopped")
        await session.redirect("elsewhere")
        await session.withdraw("msg_2")
        await session.resume()
        await until(session, "ask.opened", times=2)
        assert tool.begun == []
        await session.answer("approve")
        assert await session.result() is None
        assert len(tool.begun) == 1


async def test_what_an_approval_was_superseded_by_stands_once_the_agent_was_told(place: Place) -> None:
    """Nobody edits what it has acted on."""
    gate = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.call(gate.run, {}, needs_approval="matters", on_redirect="raise")
        except midcourse.Redirected as redirected:
            return await run.step("instead", gate.run, redirected.instruction)

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one, "one")
        await until_status(session, "waiting")
        await session.redirect("elsewhere")
        await gate.entered.wait()
        assert await refused(session.edit("msg_2", "nowhere")) == "message_seen"
        gate.may_end.set()
        assert await session.result() == "elsewhere"


@pytest.mark.parametrize("settings", [WARM, COLD], ids=["warm", "cold"])
async def test_a_redirect_that_is_edited_while_paused_is_seen_as_it_is_then(place: Place, settings: Settings) -> None:
    """As often as anybody likes, until the agent has read it."""
    working = Working()
    async with place.open(working.agent, settings=settings) as mc:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()
        await session.pause(grace=0, until="stopped")
        await session.redirect("elsewhere")
        for text in ("to the left", "to the right"):
            await session.edit("msg_2", text)
        working.tool.may_end.set()
        await session.resume()
        assert await session.result() == ["one", "to the right"]
        edited = [one.event for one in await history(session) if one.type == "message.edited"]
        assert len(edited) == 2


async def test_what_was_said_after_the_agent_had_returned_is_never_confused_with_what_is_said_later(
    place: Place,
) -> None:
    """Two redirects become one turn; both names stay theirs, so that nobody takes another's message back by them."""
    working = Working()

    async def agent(run: midcourse.Run) -> list[str]:
        found = await working.agent.function(run)
        await run.hold("lock", release_slowly)
        return found

    one = resumable(agent)
    async with place.open(one, settings=WARM) as mc:
        RELEASE["may_end"], RELEASE["entered"] = asyncio.Event(), asyncio.Event()
        session = await mc.start(one, "one")
        working.tool.may_end.set()
        await RELEASE["entered"].wait()
        first = [(await session.redirect(text)).message for text in ("two", "three")]
        working.tool.may_end.clear()
        working.tool.entered.clear()
        RELEASE["may_end"].set()
        await working.tool.entered.wait()
        assert first == ["msg_2", "msg_3"]
        assert (await session.state()).said[-1].text == "two\nthree"
        later = await session.redirect("four")
        assert later.message == "msg_4"
        for name in first:
            assert await refused(session.withdraw(str(name))) == "message_seen"
        working.tool.may_end.set()
        assert await session.result() == ["one", "two\nthree", "four"]


RELEASE: dict[str, asyncio.Event] = {}


async def release_slowly() -> None:
    """What lets go of the lock: it takes as long as the test likes."""
    RELEASE["entered"].set()
    await RELEASE["may_end"].wait()


# ---- too late


async def test_an_edit_before_the_model_reads_is_what_it_reads_and_one_after_it_is_refused(place: Place) -> None:
    """The two orders, one after the other."""
    may_read, has_read, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def model(run: midcourse.Run) -> AsyncIterator[str]:
        await may_read.wait()
        text = run.messages[-1].text
        has_read.set()
        await may_end.wait()
        yield text

    one = resumable(lambda run: run.stream("speak", model, run))
    async with place.open(one) as mc:
        session = await mc.start(one, "roses")
        await until(session, "step.begun")
        await session.redirect("tulips")
        await until(session, "step.begun", times=2)
        await session.edit("msg_2", "lilies")
        may_read.set()
        await has_read.wait()
        assert await refused(session.edit("msg_2", "daisies")) == "message_seen"
        assert await refused(session.withdraw("msg_2")) == "message_seen"
        may_end.set()
        assert await session.result() == "lilies"
        seen = [one.event for one in await history(session) if isinstance(one.event, MessagesSeen)]
        assert seen == [MessagesSeen(count=2)]


@pytest.mark.parametrize("where", ["thread", "task", "agent"])
@pytest.mark.parametrize("change", ["edit", "withdraw"])
async def test_a_change_that_races_with_the_reading_is_refused_or_read_and_never_both_or_neither(
    each_place: Place, where: str, change: str
) -> None:
    """Many sessions, each with a reader that reads as soon as it may."""
    place, tries = each_place, 15 if each_place.kind == "sqlite" else 40

    async def agent(run: midcourse.Run) -> list[str]:
        go = GO[run.session_id]

        def read() -> list[str]:
            go.wait(30)
            return texts(run)

        async def read_in_task() -> list[str]:
            while not go.is_set():
                await asyncio.sleep(0)
            return texts(run)

        if where == "agent":
            return await read_in_task()
        return await run.step("read", read if where == "thread" else read_in_task)

    one = resumable(agent)
    async with place.open(one) as mc:

        async def race(number: int) -> None:
            identity = f"s{number}"
            GO[identity] = threading.Event()
            session = await mc.start(one, "one", session_id=identity)
            await until(session, "session.started" if where == "agent" else "step.begun")
            await session.redirect("two", grace=None)
            act = session.edit("msg_2", "zwei") if change == "edit" else session.withdraw("msg_2")
            asyncio.get_running_loop().call_later(0.0004 * (number % 12), GO[identity].set)
            try:
                await act
                expected = ["one", "zwei"] if change == "edit" else ["one"]
            except midcourse.Refused as error:
                assert error.code in ("message_seen", "session_ended")
                expected = ["one", "two"]
            found = await session.result()
            if where == "agent" and found == ["one"]:  # it had returned before it was told: that is another turn
                found = await session.result()
            assert found == expected, (number, found, expected)

        for first in range(0, tries, 5):
            await asyncio.gather(*(race(number) for number in range(first, first + 5)))


GO: dict[str, threading.Event] = {}


async def test_a_tool_in_a_thread_reads_while_the_loop_is_busy_and_what_it_read_stands(place: Place) -> None:
    """A thread has no loop of its own; that it has read is journaled all the same, before its result."""

    def read(run: midcourse.Run) -> list[str]:
        while len(run.messages) < 2:
            time.sleep(0.001)
        return texts(run)

    one = resumable(lambda run: run.step("read", read, run))
    async with place.open(one) as mc:
        session = await mc.start(one, "one")
        await until(session, "step.begun")
        await session.redirect("two")
        assert await session.result() == ["one", "two"]
        happened = types(await history(session))
        assert happened.index("session.redirected") < happened.index("message.seen") < happened.index("step.finished")


# ---- replay


@pytest.mark.parametrize("take_back", ["before it is read", "never"])
async def test_a_replay_after_withdrawals_sees_what_was_seen_then(place: Place, take_back: str) -> None:
    """What was withdrawn is in no reading, and what was read before is there in the same words."""
    gates = [Tool(holds=True) for _ in range(3)]
    lives: list[list[list[str]]] = []

    async def agent(run: midcourse.Run) -> list[list[str]]:
        lives.append([])
        for number, gate in enumerate(gates):
            lives[-1].append(texts(run))
            await run.step(f"work {number}", gate.run)
        return [*lives[-1], texts(run)]

    one = resumable(agent)
    async with place.open(one, settings=COLD, grace=0) as mc:
        session = await mc.start(one, "goal", session_id="s")
        await gates[0].entered.wait()
        for text in ("a", "b", "c"):
            await session.redirect(text)
        if take_back == "before it is read":
            await session.withdraw("msg_3")
        await session.edit("msg_4", "C")
        gates[0].may_end.set()
        await gates[1].entered.wait()
        read = ["goal", "a", "C"] if take_back == "before it is read" else ["goal", "a", "b", "C"]
        assert lives == [[["goal"], read]]
        assert await refused(session.withdraw("msg_2")) == "message_seen"
        await session.redirect("d")
        await session.redirect("e")
    # Nobody has read these two: another program takes one back, before the session is replayed.
    async with place.open(drive=False) as mc:
        session = await mc.get("s")
        assert await refused(session.edit("msg_4", "x")) == "message_seen"
        await session.withdraw("msg_5")
    for gate in gates:
        gate.may_end.set()
    async with place.open(one, settings=COLD) as mc:
        found = await (await mc.get("s")).result()
    assert found == [["goal"], read, [*read, "e"], [*read, "e"]]
    assert lives[1][:2] == lives[0]


async def test_a_state_agent_that_catches_up_has_read_what_it_is_shown(place: Place) -> None:
    """What was said before its checkpoint counts as read from then on."""
    before, after = Tool(holds=True), Tool(holds=True)
    reading: list[list[str]] = []

    async def agent(run: midcourse.Run) -> list[str]:
        if not run.state:
            await run.step("before", before.run)
            run.state = {"is": "there"}
            await run.checkpoint()
        if run.catching_up:
            reading.append(texts(run))
        await run.step("after", after.run)
        return texts(run)

    one = resumable(agent, mode="state")
    async with place.open(one, settings=COLD, grace=0) as mc:
        session = await mc.start(one, "goal", session_id="s")
        await before.entered.wait()
        await session.redirect("hurry")
        before.may_end.set()
        await after.entered.wait()
    async with place.open(one, settings=COLD) as mc:
        session = await mc.get("s")
        await until_true(lambda: bool(reading))
        assert await refused(session.edit("msg_2", "x")) == "message_seen"
        after.may_end.set()
        assert await session.result() == ["goal", "hurry"]


# ---- events outside


async def test_an_event_outside_cuts_the_stream_and_is_what_the_model_is_told_next(place: Place) -> None:
    """With who says so, and that what was assumed may no longer hold."""
    calls: list[list[str]] = []
    may_end = asyncio.Event()

    async def model(run: midcourse.Run) -> AsyncIterator[str]:
        calls.append(texts(run))
        yield "All is well"
        await may_end.wait()

    one = resumable(lambda run: run.stream("speak", model, run))
    async with place.open(one) as mc:
        session = await mc.start(one, "watch the build")
        await until_true(lambda: bool(calls))
        reply = await session.event("it broke", source="ci", by="jenkins")
        assert (reply.status, reply.message) == ("running", "msg_2")
        await until(session, "step.cut")
        may_end.set()
        await session.result()
        said = "An event outside (ci): it broke\nWhat was assumed before may no longer hold."
        assert calls == [["watch the build"], ["watch the build", said]]
        state = await session.state()
        assert (state.messages[-1].level, state.messages[-1].by, state.goal) == ("event", "jenkins", "watch the build")


async def test_an_event_outside_supersedes_what_was_asked_on_that_ground(place: Place) -> None:
    """An answer to the old question comes too late; the agent may ask again, knowing it."""
    one = resumable(lambda run: run.ask("Deploy?"))
    async with place.open(one) as mc:
        session = await mc.start(one, "ship it")
        await until_status(session, "waiting")
        await session.event("it broke")
        await until(session, "ask.opened", times=2)
        assert await refused(session.answer("yes", ask="ask_1")) == "already_answered"
        await session.answer("no", ask="ask_2")
        assert await session.result() == "no"


# ---- budgets


async def test_a_raised_budget_lifts_the_pause_that_stands_and_no_later_one(place: Place) -> None:
    """Sent again, with the same id, it is the same command: a pause since then stays."""
    working = Working()
    async with place.open(working.agent, settings=WARM) as mc:
        session = await mc.start(working.agent, "one", terms=midcourse.Terms(budget=1.0))
        await working.tool.entered.wait()
        await session.pause(grace=0, until="stopped")
        assert (await session.raise_budget(2.0, resume=False)).status == "paused"
        assert (await session.raise_budget(5.0, command_id="more")).status == "running"
        await session.pause(grace=0, until="stopped")
        await session.raise_budget(5.0, command_id="more")
        assert await session.status() == "paused"
        assert await refused(session.raise_budget(4.0)) == "not_raised"
        working.tool.may_end.set()
        assert (await session.raise_budget(5.0)).status == "running"
        await session.result()
        assert (await session.state()).terms.budget == 5.0


# ---- what a command was made for


async def test_a_command_for_a_session_that_has_moved_on_changes_nothing(place: Place) -> None:
    """Whoever looked before somebody else acted is told to look again."""
    working = Working()
    control = await open_control(
        await place.store(), durability="process", drives=True, settings=QUICK, agents={"agent": working.agent}
    )
    mc = midcourse.Midcourse(LocalTransport(control))
    try:
        session = await mc.start(working.agent, "one")
        await working.tool.entered.wait()

        async def send(command: cmd.AnyCommand) -> midcourse.Reply:
            return await control.send(session.id, command, until="decided", wait=10)

        def new() -> CommandId:
            return CommandId(f"c{next(_ids)}")

        mark = (await session.state()).mark
        await send(cmd.Redirect(id=new(), text="two", expects=mark))
        looked = await session.state()
        assert looked.mark != mark
        late: list[Callable[[], cmd.AnyCommand]] = [
            lambda: cmd.Pause(id=new(), expects=mark),
            lambda: cmd.Cancel(id=new(), expects=mark),
            lambda: cmd.Message(id=new(), text="three", expects=mark),
            lambda: cmd.Withdraw(id=new(), message=MessageId("msg_2"), expects=mark),
            lambda: cmd.OutsideEvent(id=new(), text="it broke", expects=mark),
            lambda: cmd.Budget(id=new(), budget=7, expects=mark),
        ]
        for make in late:
            assert await refused(send(make())) == "precondition_failed"
        assert await session.state() == looked
        await send(cmd.Withdraw(id=new(), message=MessageId("msg_2"), expects=looked.mark))
        working.tool.may_end.set()
        assert await session.result() == ["one"]
    finally:
        await mc.close(2)


# ---- who may answer


async def test_no_session_answers_for_a_person_in_its_own_tree_and_approvals_are_for_approvers(place: Place) -> None:
    """Neither the parent for its child nor the child for itself; and a child's approval needs the role as well."""
    tool = Tool()

    async def child(run: midcourse.Run) -> object:
        return await run.call(tool.run, {}, needs_approval="matters")

    inner = resumable(child, name="child")
    outer = resumable(lambda run: run.spawn(inner, "do it"), name="outer")
    control = await open_control(
        await place.store(),
        durability="process",
        drives=True,
        settings=QUICK,
        agents={"child": inner, "outer": outer},
    )
    mc = midcourse.Midcourse(LocalTransport(control))
    try:
        session: SessionHandle[Any] = await mc.start(outer, session_id="parent")
        await until(session, "child.asked")
        (asked,) = (await session.state()).child_asks
        own = SessionId(asked.child)

        async def answer(by: str, role: cmd.Role) -> midcourse.Reply:
            command = cmd.Answer(id=CommandId(f"c{next(_ids)}"), by=by, role=role, ask=asked.ask)
            return await control.send(own, command, until="decided", wait=10)

        for by in ("session:parent", f"session:{own}", f"session:{own}.0123456789"):
            assert await refused(answer(by, "operate")) == "own_ask"
        assert await refused(answer("ada", "steer")) == "approver_only"
        assert await refused(answer("ada", "watch")) == "approver_only"
        assert tool.begun == []
        # The handle of whoever has the store open may approve, and names the child's ask by both.
        await session.answer("approve", ask=f"{own}/{asked.ask}", by="ada")
        await session.result()
        assert len(tool.begun) == 1
        begun = [one.event for one in await history(await mc.get(own)) if isinstance(one.event, StepBegun)]
        assert [one.approval for one in begun] == [asked.ask]
    finally:
        await mc.close(2)
