"""Promise 16: a cut text continues, and a budget is exceeded by no more than the call that was priced when it began."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

import midcourse
from midcourse.core import events as ev
from midcourse.errors import Refused
from midcourse.handle import SessionHandle
from midcourse.policy import versions
from midcourse.policy.document import Policy
from midcourse.policy.profiles import STANDARD
from midcourse.runtime.supervisor import Supervisor
from tests.policy.watched_programs import no_drift, opened, under
from tests.promises.faults import Faulty
from tests.promises.harness import Place, Tool, history, resumable, types, until, until_status, until_true

CAP = midcourse.Terms(budget=0.30)


def capped(
    function: Callable[[midcourse.Run], Awaitable[Any]], *, name: str = "agent", terms: midcourse.Terms = CAP
) -> midcourse.Agent[Any]:
    """An agent whose sessions may cost so much."""
    return replace(resumable(function, name=name), terms=terms)


async def dear(dollars: float = 0.1) -> AsyncIterator[str | midcourse.StreamEnd]:
    """A model that tells what it cost when it has ended."""
    yield "word "
    yield midcourse.StreamEnd(cost=dollars, tokens=1)


async def counting(pieces: int, dollars: float) -> AsyncIterator[str | midcourse.StreamEnd]:
    """A model whose price is known while it speaks: so many dollars a word."""
    call = midcourse.current_call()
    for said in range(1, pieces + 1):
        call.spend(said * dollars, said)
        yield f"{said} "
        await asyncio.sleep(0)
    yield midcourse.StreamEnd(cost=pieces * dollars, tokens=pieces)


async def refusal(answer: Awaitable[object]) -> Refused:
    """What a command was refused with."""
    with pytest.raises(Refused) as error:
        await answer
    return error.value


async def spent(session: SessionHandle[Any]) -> float:
    """Dollars."""
    return round((await session.state()).cost, 6)


# ---- the cap holds


async def test_a_request_is_not_begun_when_what_the_last_ones_cost_exceeds_what_is_left(place: Place) -> None:
    async def work(run: midcourse.Run) -> None:
        for _ in range(9):
            await run.stream("think", dear, 0.12)

    agent = capped(work)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal")
        await until_status(session, "paused")
        state = await session.state()
        assert await spent(session) == 0.24
        assert state.pause is not None
        assert state.pause.by == "budget"
        assert state.pause.reason == (
            "It has spent $0.24 of its budget of $0.30, and its next call would cost about $0.12."
        )
        [ask] = state.asks
        assert ask.reason == "review"
        assert ask.prompt.endswith("Raise the budget to $0.37 or more, or cancel.")


async def test_a_stream_that_reaches_the_cap_is_cut_there(place: Place) -> None:
    agent = capped(lambda run: run.stream("think", counting, 10, 0.1))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal")
        await until_status(session, "paused")
        events = await history(session)
        assert await spent(session) == 0.3
        assert "".join(one.event.text for one in events if isinstance(one.event, ev.SegmentWritten)) == "1 2 3 "
        [cut] = [one.event for one in events if isinstance(one.event, ev.StepCut)]
        assert (round(cut.cost, 6), cut.tokens) == (0.3, 3)


async def test_what_a_running_stream_costs_is_journaled_as_it_comes(place: Place) -> None:
    """So that a process that dies with it does not make it free."""
    held = Tool(holds=True)

    async def model() -> AsyncIterator[str]:
        midcourse.current_call().spend(0.2, 1)
        yield "word "
        await held.run()

    agent = capped(lambda run: run.stream("think", model))
    settings = midcourse.Settings(segment_tokens=1, poll=0.05, unreachable_after=30.0)
    async with place.open(agent, settings=settings) as mc:
        session = await mc.start(agent, "a goal")
        await until(session, "segment.written")
        assert await spent(session) == 0.2
        assert (await session.state()).running
        await session.pause(until="stopped", grace=0)
        assert await spent(session) == 0.2  # and not twice


async def test_a_resume_at_the_cap_is_refused_and_says_to_what_it_must_be_raised(place: Place) -> None:
    async def work(run: midcourse.Run) -> int:
        for _ in range(4):
            await run.stream("think", dear, 0.1)
        return 4

    agent = capped(work)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal")
        await until_status(session, "paused")
        before = len(await history(session))
        error = await refusal(session.resume())
        assert error.code == "budget_spent"
        assert "has spent $0.30 of its budget of $0.30. Raise the budget to $0.41 or more" in error.message
        assert "resume" not in error.allowed
        for answer in (session.redirect("Shorter.", resume=True), session.answer("go on"), session.raise_budget(0.35)):
            assert (await refusal(answer)).code == "budget_spent"
        assert len(await history(session)) == before, "a refusal writes nothing"
        await session.raise_budget(0.41)
        assert await session.result() == 4
        assert await spent(session) == 0.4


async def test_at_the_cap_nothing_begins_and_a_pause_that_lapses_stays(place: Place) -> None:
    held, after = Tool(holds=True, cost=0.3), Tool()

    async def work(run: midcourse.Run) -> None:
        await run.step("wait", held.run)
        await run.step("after", after.run)

    agent = capped(work)
    async with place.open(agent, settings=midcourse.Settings(approve_paid=False, poll=0.05)) as mc:
        session = await mc.start(agent, "a goal")
        await held.entered.wait()
        await session.pause(lapses=0.02)
        held.may_end.set()
        again = await until(session, "session.pause_requested", times=2)
        assert isinstance(again.event, ev.PauseRequested)
        assert again.event.by == "budget"
        await until_status(session, "paused")
        assert not after.begun
        await session.raise_budget(1.0)
        await session.result()


async def test_a_raise_that_is_not_to_resume_leaves_it_paused(place: Place) -> None:
    agent = capped(lambda run: run.stream("think", counting, 10, 0.1))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal")
        await until_status(session, "paused")
        await session.raise_budget(2.0, resume=False)
        assert await session.status() == "paused"
        await session.resume()
        await session.result()
        assert await spent(session) <= 1.4


async def test_calls_side_by_side_share_what_is_left(place: Place) -> None:
    async def work(run: midcourse.Run) -> None:
        await asyncio.gather(*(run.stream("think", counting, 10, 0.05, key=str(one)) for one in range(4)))

    agent = capped(work)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal")
        await until_status(session, "paused")
        # Each of the others may have had a word on its lips, which is paid.
        assert 0.3 <= await spent(session) <= 0.45
        assert types(await history(session)).count("step.cut") == 4


async def test_what_children_spend_counts_while_they_run(place: Place) -> None:
    held = Tool(holds=True)

    async def model() -> AsyncIterator[str]:
        midcourse.current_call().spend(0.4, 1)
        yield "word "
        await held.run()

    child = resumable(lambda run: run.stream("think", model), name="child")
    parent = capped(lambda run: run.spawn(child, "a part"), name="parent")
    settings = midcourse.Settings(segment_tokens=1, poll=0.05, unreachable_after=30.0)
    async with place.open(parent, child, settings=settings) as mc:
        session = await mc.start(parent, "a goal")
        await until_status(session, "paused")
        [name] = [one.id for one in await mc.list() if one.parent is not None]
        assert await (await mc.get(name)).status() == "paused"
        assert (await refusal(session.resume())).code == "budget_spent"
        held.may_end.set()
        await session.raise_budget(1.0)
        await session.result()
        assert await spent(session) == 0.8, "the child's first try is paid, too"


@pytest.mark.parametrize("kind", ["tool", "model"])
@pytest.mark.parametrize("depth", [1, 2])
async def test_what_a_child_wants_is_priced_against_its_parents_budget(kind: str, depth: int, place: Place) -> None:
    """What a parent cannot pay is not begun by its child, nor by the child of that: all of them pause instead."""
    costly, asked = Tool(cost=0.2), 0

    async def model() -> AsyncIterator[str]:
        nonlocal asked
        midcourse.current_call().foresee(0.2)
        asked += 1
        midcourse.current_call().spend(0.2, 1)
        yield "word "

    async def work(run: midcourse.Run) -> None:
        for _ in range(2):
            await (run.stream("think", model) if kind == "model" else run.step("costly", costly.run))

    def done() -> int:
        return asked if kind == "model" else len(costly.begun)

    worker = resumable(work, name="worker")
    middle = resumable(lambda run: run.spawn(worker, "a part"), name="middle")
    below = worker if depth == 1 else middle
    parent = capped(lambda run: run.spawn(below, "a part"), name="parent")
    settings = midcourse.Settings(approve_paid=False, poll=0.05, unreachable_after=30.0)
    async with place.open(parent, middle, worker, settings=settings) as mc:
        session = await mc.start(parent, "a goal")
        await until_status(session, "paused")
        assert done() == 1
        family = [await mc.get(one.id) for one in await mc.list()]
        assert len(family) == depth + 1
        for one in family:
            await until_status(one, "paused")
            # Its own, and its parent's on top if that came later.
            assert types(await history(one)).count("session.pause_requested") in (1, 2)
        assert "its next call would cost about $0.20" in (
            pause.reason if (pause := (await session.state()).pause) else ""
        )
        assert (await refusal(session.resume())).code == "budget_spent"
        await session.raise_budget(0.5)
        await session.result()
        assert done() == 2
        assert await spent(session) == 0.4


async def test_a_child_that_outlives_its_parent_spends_from_that_budget_which_can_still_be_raised(place: Place) -> None:
    """Its pause names the budget to raise; raised, a resume of the child brings it to its end."""
    costly, held, held_below = Tool(cost=0.2), Tool(holds=True), Tool(holds=True)

    async def work(run: midcourse.Run) -> None:
        await run.step("held", held_below.run)
        for _ in range(2):
            await run.step("costly", costly.run)

    async def leave(run: midcourse.Run) -> str:
        spawned = asyncio.ensure_future(run.spawn(child, "a part"))
        await run.step("held", held.run)
        spawned.cancel()
        return "left"

    child = resumable(work, name="child")
    parent = capped(leave, name="parent")
    settings = midcourse.Settings(approve_paid=False, poll=0.05, unreachable_after=30.0)
    async with place.open(parent, child, settings=settings) as mc:
        session = await mc.start(parent, "a goal")
        await until_true(lambda: bool(held.begun and held_below.begun))
        await session.pause()
        held.may_end.set()
        held_below.may_end.set()
        await until_status(session, "paused")
        await session.resume()
        assert await session.result() == "left"
        [below] = [await mc.get(one.id) for one in await mc.list() if one.parent is not None]
        await until_status(below, "paused")
        await below.resume()
        await until_true(lambda: len(costly.begun) == 1)
        await until_status(below, "paused")
        pause = (await below.state()).pause
        assert pause is not None
        assert session.id in pause.reason
        assert "Raise that by $0.11 or more, then resume." in pause.reason
        await session.raise_budget(0.30 + 0.11)
        await below.resume()
        await below.result()
        assert len(costly.begun) == 2


@pytest.mark.parametrize("is_protected", [True, False])
async def test_what_is_protected_finishes_with_its_children_wherever_they_run(is_protected: bool, place: Place) -> None:
    """A process that drives a child alone asks how much is left above it: of a protected parent, any sum."""
    held = Tool(holds=True)
    child = resumable(lambda run: run.step("held", held.run), name="child")
    terms = midcourse.Terms(budget=0.30, task_class="protected") if is_protected else CAP
    parent = capped(lambda run: run.spawn(child, "a part"), name="parent", terms=terms)
    async with place.open(parent, child) as mc, place.open(parent, child, drive=False) as elsewhere:
        session = await mc.start(parent, "a goal")
        await until_true(lambda: bool(held.begun))
        await until(session, "step.begun")
        [below] = [await elsewhere.get(one.id) for one in await mc.list() if one.parent is not None]
        transport: Any = elsewhere._transport  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        left = await transport.control.left_above(await below.state())
        assert left == (None if is_protected else 0.30)
        held.may_end.set()
        await session.result()


async def test_a_protected_parent_whose_agent_has_returned_lets_its_child_finish_beyond_the_cap(place: Place) -> None:
    """No call of the agent can begin any more, and yet it is no stop that holds the child."""
    costly, held = Tool(cost=0.2), Tool(holds=True)

    async def work(run: midcourse.Run) -> None:
        await run.step("held", held.run)
        for _ in range(3):
            await run.step("costly", costly.run)

    async def leave(run: midcourse.Run) -> str:
        spawned = asyncio.ensure_future(run.spawn(child, "a part"))
        await until_true(lambda: bool(held.begun))
        assert not spawned.done()
        return "left"

    child = resumable(work, name="child")
    parent = capped(leave, name="parent", terms=midcourse.Terms(budget=0.30, task_class="protected"))
    async with place.open(parent, child, settings=midcourse.Settings(approve_paid=False, poll=0.05)) as mc:
        session = await mc.start(parent, "a goal")
        await until_true(lambda: bool(held.begun))
        held.may_end.set()
        assert await session.result() == "left"
        assert len(costly.begun) == 3


async def test_what_a_tool_declares_or_tells_counts_and_one_too_dear_is_not_begun(place: Place) -> None:
    cheap, costly = Tool(cost=0.1), Tool(cost=0.15)

    async def work(run: midcourse.Run) -> None:
        await run.step("cheap", cheap.run)
        await run.step("cheap", cheap.run)
        await run.step("costly", costly.run)

    agent = capped(work)
    async with place.open(agent, settings=midcourse.Settings(approve_paid=False, poll=0.05)) as mc:
        session = await mc.start(agent, "a goal")
        await until_status(session, "paused")
        assert await spent(session) == 0.2
        assert costly.begun == []
        await session.raise_budget(0.36)
        await session.result()
        assert await spent(session) == 0.35


async def test_a_protected_session_finishes_its_turn_first(place: Place) -> None:
    async def work(run: midcourse.Run) -> str:
        for _ in range(5):
            await run.stream("think", dear, 0.1)
        return "done"

    agent = capped(work, terms=midcourse.Terms(budget=0.30, task_class="protected"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal")
        assert await session.result() == "done"
        [deferred] = [one.event for one in await history(session) if isinstance(one.event, ev.StopDeferred)]
        assert (deferred.stop, deferred.by) == ("pause", "budget")


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this is about drift, and an encoder takes half a second to load."""
    monkeypatch.setattr(Supervisor, "drift", no_drift)


@pytest.mark.usefixtures("no_encoder")
async def test_a_call_that_declares_more_than_the_policy_allows_for_one_is_asked_about_before(place: Place) -> None:
    unpaid: Policy = changed(
        STANDARD,
        name="unpaid",
        extends="standard",
        environments=changed(STANDARD.environments, approve_paid=False),
    )
    cheap, costly = Tool(cost=0.5), Tool(cost=1.5)

    async def work(run: midcourse.Run) -> None:
        await asyncio.gather(
            run.step("cheap", cheap.run), *(run.step("costly", costly.run, key=str(one)) for one in range(2))
        )

    store = await place.store()
    await versions.save(store, unpaid, by="ada", why="a test", now=1.0)
    agent = under(work, "unpaid")
    async with opened(place, agent, store=store, settings=midcourse.Settings(approve_paid=False, poll=0.05)) as mc:
        session = await mc.start(agent, "a goal")
        await until_status(session, "waiting")
        assert cheap.begun
        assert not costly.begun
        asks = (await session.state()).asks
        assert len(asks) == 2, "each of those side by side"
        for number, ask in enumerate(asks, start=1):
            assert "It costs about $1.50, more than the $1.00 that one call may cost" in ask.prompt
            await session.answer("approve", ask=ask.id)
            await until_true(lambda number=number: len(costly.begun) == number)
        await session.result()


# ---- a cut text goes on


WORDS = [f"word{number} " for number in range(30)]


class Speaker:
    """A model that says thirty words, ten dollars a hundred, and goes on from what it has said."""

    def __init__(self, *, can: bool = True) -> None:
        self.can = can
        self.asked: list[str] = []
        self.paid = 0
        self.stops_at = 11
        self.stands = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def speak(self) -> AsyncIterator[str | midcourse.StreamEnd]:
        """Stand still after twelve words, the first time."""
        call = midcourse.current_call()
        self.asked.append(call.prefix)
        call.can_continue("prefix" if self.can else "")
        begun = len(call.prefix.split())
        said = 0
        for number in range(begun, len(WORDS)):
            said += 1
            self.paid += 1
            call.spend(said * 0.1, said)
            yield WORDS[number]
            if number == self.stops_at:
                self.stands.set()
                await self.may_go_on.wait()
        yield midcourse.StreamEnd(cost=said * 0.1, tokens=said)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_a_text_that_was_cut_goes_on_from_the_cut_and_is_paid_once(place: Place, *, is_cold: bool) -> None:
    model = Speaker()
    agent = resumable(lambda run: run.stream("tell", model.speak))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal", session_id="s")
        await model.stands.wait()
        await session.pause(until="stopped")
        state = await session.state()
        assert list(state.cuts.values()) == ["prefix"], "what a resume would do is known before it"
        model.may_go_on.set()
        if not is_cold:
            await session.resume()
            assert await session.result() == "".join(WORDS)
    if is_cold:
        async with place.open(agent) as mc:
            session = await mc.get("s")
            await session.resume()
            assert await session.result() == "".join(WORDS)
            assert await spent(session) == 3.0
    assert model.asked == ["", "".join(WORDS[:12])]
    assert model.paid == len(WORDS)


@pytest.mark.parametrize("often", [1, 2])
@pytest.mark.parametrize("can", [True, False], ids=["can", "cannot"])
async def test_a_text_whose_process_died_continues_from_its_last_durable_segment(
    place: Place, *, can: bool, often: int
) -> None:
    """Nobody cut it: what was durable is said and paid once, where the provider allows that."""
    model = Speaker(can=can)
    agent = resumable(lambda run: run.stream("tell", model.speak))
    fine = midcourse.Settings(segment_tokens=1, poll=0.05, unreachable_after=30.0)
    async with AsyncExitStack() as dead:
        for _ in range(often):
            dying = await place.store()
            cut_off = Faulty(dying)
            mc = await dead.enter_async_context(place.open(agent, store=cut_off, settings=fine))
            dead.callback(cut_off.let_through)
            if not model.asked:
                await mc.start(agent, "a goal", session_id="s")
            await model.stands.wait()
            words = model.stops_at + 1 if can or len(model.asked) == 1 else 12 + model.stops_at + 1
            await until(await mc.get("s"), "segment.written", times=words)
            cut_off.holds = lambda _: True
            dying.abandon()
            if often == 2 and len(model.asked) == 1:
                model.stands.clear()
                model.stops_at = 20
        model.may_go_on.set()
        async with place.open(agent, settings=fine) as heir:
            assert await (await heir.get("s")).result() == "".join(WORDS)
    stood = ["", "".join(WORDS[:12]), "".join(WORDS[:21])] if can else [""] * 3
    assert model.asked == stood[: often + 1]


async def test_a_text_that_cannot_go_on_begins_again_and_that_is_known_before(place: Place) -> None:
    model = Speaker(can=False)
    agent = resumable(lambda run: run.stream("tell", model.speak))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal")
        await model.stands.wait()
        await session.pause(until="stopped")
        assert list((await session.state()).cuts.values()) == [""]
        model.may_go_on.set()
        await session.resume()
        assert await session.result() == "".join(WORDS)
        assert not (await session.state()).cuts
    assert model.asked == ["", ""]


async def test_after_a_change_of_course_nothing_goes_on_with_the_old_answer(place: Place) -> None:
    model = Speaker()
    agent = resumable(lambda run: run.stream("tell", model.speak))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal")
        await model.stands.wait()
        await session.pause(until="stopped")
        model.may_go_on.set()
        await session.redirect("Otherwise.", resume=True)
        await session.result()
    assert model.asked == ["", ""]


@pytest.mark.usefixtures("no_encoder")
async def test_a_very_long_run_is_finished_piece_by_piece(place: Place) -> None:
    """The strategy ``incremental``: what is a durable segment is never said again, however often it is stopped."""
    model = Speaker()

    async def work(run: midcourse.Run) -> str:
        return await run.stream("tell", model.speak)

    agent = under(work, "standard", task_class="very_long")
    async with opened(place, agent) as mc:
        session = await mc.start(agent, "a goal")
        await model.stands.wait()
        await session.pause(until="stopped")
        model.may_go_on.set()
        await session.resume()
        assert await session.result() == "".join(WORDS)
    assert model.paid == len(WORDS)


async def test_a_stream_that_the_cap_has_cut_goes_on_when_the_cap_is_raised(place: Place) -> None:
    model = Speaker()
    model.may_go_on.set()
    agent = capped(lambda run: run.stream("tell", model.speak), terms=midcourse.Terms(budget=2.0))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "a goal")
        await until_status(session, "paused")
        assert await spent(session) == 2.0
        await session.raise_budget(5.0)
        assert await session.result() == "".join(WORDS)
        assert await spent(session) == 3.0
    assert model.asked == ["", "".join(WORDS[:20])]
