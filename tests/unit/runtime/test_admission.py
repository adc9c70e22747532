"""Who runs, who waits, whose turn is next."""

import asyncio

import midcourse
from midcourse.core.ids import SessionId
from midcourse.runtime.admission import Admission
from tests.promises.harness import Place, Tool, resumable, until_status


class Somebody:
    """An applicant that notes when it is called."""

    def __init__(self, name: str, called: list[str]) -> None:
        self.id = SessionId(name)
        self._called = called

    def wake(self) -> None:
        """Its turn has come."""
        self._called.append(self.id)


def test_without_a_limit_everybody_is_let_in() -> None:
    """And nobody is ever called."""
    admission = Admission(None)
    assert all(admission.let_in(Somebody(str(number), []), "agent") for number in range(100))


def test_agents_take_turns_and_each_serves_its_own_in_order() -> None:
    """A flood of one agent's sessions does not keep another agent's waiting."""
    called: list[str] = []
    admission = Admission(1)
    first = Somebody("first", called)
    assert admission.let_in(first, "a")
    queue = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")]
    for name, agent in queue:
        assert not admission.let_in(Somebody(name, called), agent)
    leaving = first.id
    for _ in queue:
        admission.left(leaving)
        leaving = SessionId(called[-1])
        assert admission.let_in(Somebody(leaving, called), "whatever")
    assert called == ["a1", "b1", "a2", "b2", "a3"]


def test_whoever_gives_up_in_the_queue_loses_no_place_for_the_others() -> None:
    """A queued session that is cancelled leaves the queue; the next is called when there is room."""
    called: list[str] = []
    admission = Admission(1)
    assert admission.let_in(Somebody("runs", called), "a")
    for name in ("waits", "gives up", "waits too"):
        assert not admission.let_in(Somebody(name, called), "a")
    admission.left(SessionId("gives up"))
    assert called == []
    admission.left(SessionId("runs"))
    assert called == ["waits"]
    admission.left(SessionId("waits"))
    assert called == ["waits", "waits too"]


async def test_sessions_beyond_the_limit_stay_queued_until_one_rests_or_ends(place: Place) -> None:
    """A paused session gives its place to the next, and its resume does not wait in the queue."""
    tool = Tool(holds=True)
    agent = resumable(lambda run: run.step("work", tool.run, run.goal))
    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0, max_running=1)
    async with place.open(agent, settings=settings) as mc:
        first = await mc.start(agent, "first")
        await tool.entered.wait()
        second = await mc.start(agent, "second")
        third = await mc.start(agent, "third")
        await third.pause()
        assert [await one.status() for one in (first, second, third)] == ["running", "queued", "paused"]
        await first.pause(grace=0, until="stopped")
        await until_status(second, "running")
        await first.resume()
        tool.may_end.set()
        assert await asyncio.gather(first.result(), second.result()) == ["first", "second"]
        await third.resume()
        assert await third.result() == "third"


async def test_a_queued_session_can_be_redirected_and_cancelled(place: Place) -> None:
    """Its goal is amended, its receipt is empty, and nothing of it ever ran."""
    tool = Tool(holds=True)
    agent = resumable(lambda run: run.step("work", tool.run, run.goal))
    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0, max_running=1)
    async with place.open(agent, settings=settings) as mc:
        first = await mc.start(agent, "first")
        await tool.entered.wait()
        second, third = await mc.start(agent, "second"), await mc.start(agent, "third")
        await second.redirect("better", level="goal")
        reply = await third.cancel(until="stopped")
        assert (reply.status, reply.receipt) == ("cancelled", ())
        tool.may_end.set()
        assert await asyncio.gather(first.result(), second.result()) == ["first", "better"]
