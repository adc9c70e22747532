"""A TTL ends the right to answer what an agent asks: expiry is an event, and says what happens then."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import midcourse
from midcourse.core import events as ev
from midcourse.core.codec import inline
from midcourse.core.commands import Answer, encode_command
from midcourse.core.ids import CommandId, SessionId
from tests.checkpoints.programs import Skipping, held, opened
from tests.promises.harness import Place, Tool, history, types, until, until_status

LONG = 3600.0
SHORT = 0.05


def on(seconds: float = SHORT, then: Any = "fail") -> midcourse.Terms:
    """Terms with a TTL."""
    return midcourse.Terms(ttl_seconds=seconds, on_expiry=then)


async def asks(run: midcourse.Run) -> object:
    """Asks, and tells what came of it."""
    try:
        return await run.ask("Go?", reason="unsure")
    except midcourse.AskExpired as error:
        return f"expired: {error}"


async def ask_events(session: midcourse.SessionHandle[Any]) -> list[ev.AnyEvent]:
    """What became of its asks."""
    kinds = (ev.AskOpened, ev.AskAnswered, ev.AskClosed)
    return [one.event for one in await history(session) if isinstance(one.event, kinds)]


# ---- live


async def test_an_ask_has_the_deadline_of_its_sessions_terms(place: Place) -> None:
    agent = held(asks, on(LONG, "cancel"))
    async with opened(place, agent) as mc:
        session = await mc.start(agent)
        ask = await session.next_ask()
        assert ask.expires_at == pytest.approx(ask.since + LONG, abs=60)
        assert (ask.on_expiry, ask.default) == ("cancel", None)
        await session.answer("go")
        assert await session.result() == "go"


async def test_without_a_ttl_an_ask_has_no_deadline(place: Place) -> None:
    agent = held(asks, midcourse.Terms(backend="store"))
    async with opened(place, agent) as mc:
        assert (await (await mc.start(agent)).next_ask()).expires_at is None


async def test_what_an_ask_says_of_itself_stands(place: Place) -> None:
    """Its own deadline, and its own default, over those of the terms."""

    async def agent(run: midcourse.Run) -> object:
        first = await run.ask("First?", expires=SHORT, default="mine")
        try:
            second = await run.ask("Second?", expires=SHORT)
        except midcourse.AskExpired:
            second = "told"
        return [first, second, await run.ask("Third?", default="also mine")]

    made = held(agent, on(LONG, "cancel"))
    async with opened(place, made) as mc:
        session = await mc.start(made)
        while (ask := await session.next_ask()).prompt != "Third?":
            await asyncio.sleep(0.01)
        assert ask.expires_at == pytest.approx(ask.since + LONG, abs=60)
        opened_asks = [one for one in await ask_events(session) if isinstance(one, ev.AskOpened)]
        assert [one.on_expiry for one in opened_asks] == ["fail"] * 3
        assert opened_asks[2].default is not None


async def test_an_ask_that_expires_fails_and_the_event_says_so(place: Place) -> None:
    agent = held(asks, on())
    async with opened(place, agent) as mc:
        session = await mc.start(agent)
        assert await session.result() == "expired: 'Go?' was not answered before its deadline."
        closed = (await ask_events(session))[-1]
        assert isinstance(closed, ev.AskClosed)
        assert (closed.end, closed.then) == ("expired", "fail")


async def test_an_ask_that_expires_is_answered_with_the_default_of_the_terms(place: Place) -> None:
    agent = held(asks, on(then=midcourse.DefaultAnswer({"choice": [1, None]})))
    async with opened(place, agent) as mc:
        session = await mc.start(agent)
        assert await session.result() == {"choice": [1, None]}
        answered = (await ask_events(session))[-1]
        assert isinstance(answered, ev.AskAnswered)
        assert answered.by == "deadline"


async def test_an_ask_that_expires_cancels_its_session(place: Place) -> None:
    """The agent is stopped, as by a person, and is not told anything else."""
    told: list[str] = []

    async def agent(run: midcourse.Run) -> None:
        try:
            await asyncio.gather(run.ask("Go?", key="ttl"), run.ask("Well?", key="own", expires=LONG))
        except Exception as error:
            told.append(repr(error))
            raise

    made = held(agent, on(then="cancel"))
    async with opened(place, made) as mc:
        session = await mc.start(made)
        with pytest.raises(midcourse.SessionEnded, match="was cancelled"):
            await session.result()
        events = [one.event for one in await history(session)]
        closed = [one for one in events if isinstance(one, ev.AskClosed)]
        assert [(one.end, one.then) for one in closed] == [("expired", "cancel"), ("withdrawn", None)]
        [requested] = [one for one in events if isinstance(one, ev.CancelRequested)]
        assert (requested.by, requested.reason) == ("deadline", "no answer in time: 'ask_1'")
        entries = [one.entry for one in await mc.audit()]
        assert ("deadline", "cancel") in [(entry.by, entry.action) for entry in entries]
    assert not told


async def test_a_stream_beside_the_ask_is_cut_when_its_deadline_cancels(place: Place) -> None:
    """Not a word after the stop, whatever the grace of its calls."""

    async def endless() -> AsyncIterator[str]:
        while True:
            yield "word "
            await asyncio.sleep(0.01)

    heard = asyncio.Event()

    async def asks_then(run: midcourse.Run) -> object:
        await heard.wait()
        return await run.ask("Go?")

    async def agent(run: midcourse.Run) -> None:
        await asyncio.gather(run.stream("talk", endless), asks_then(run))

    made = held(agent, on(then="cancel"))
    async with opened(place, made) as mc:
        session = await mc.start(made)
        await until(session, "segment.written")
        heard.set()
        with pytest.raises(midcourse.SessionEnded, match="was cancelled"):
            await session.result()
        told = types(await history(session))
        assert "segment.written" in told[: told.index("session.cancel_requested")]
        assert told[told.index("session.cancel_requested") :].count("segment.written") == 0
        assert told.count("step.cut") == 1


# ---- while nothing was running


@pytest.mark.parametrize("then", ["fail", "cancel", midcourse.DefaultAnswer("by default")], ids=str)
@pytest.mark.parametrize("paused", [False, True], ids=["waiting", "paused"])
async def test_a_ttl_runs_out_while_nothing_is_running(place: Place, then: Any, paused: bool) -> None:
    """Whoever opens the store next finds it out, and acts on it."""
    agent, clock = held(asks, on(LONG, then)), Skipping()
    async with opened(place, agent, clock=clock) as mc:
        session = await mc.start(agent, session_id="s")
        await until_status(session, "waiting")
        if paused:
            await session.pause()
    clock.skipped = LONG + 1
    async with opened(place, agent, clock=clock) as mc:
        session = await mc.get("s")
        kind = "ask.answered" if isinstance(then, midcourse.DefaultAnswer) else "ask.closed"
        ended = (await until(session, kind)).event
        if isinstance(ended, ev.AskClosed):
            assert (ended.end, ended.then) == ("expired", then)
        if then == "cancel":
            with pytest.raises(midcourse.SessionEnded, match="was cancelled"):
                await session.result()
            return
        if paused:
            assert await session.status() == "paused"
            await session.resume()
        assert str(await session.result()).startswith("by default" if kind == "ask.answered" else "expired")


async def test_a_ttl_that_has_not_run_out_is_what_it_was_in_the_next_process(place: Place) -> None:
    agent, clock = held(asks, on(LONG, "cancel")), Skipping()
    async with opened(place, agent, clock=clock) as mc:
        session = await mc.start(agent, session_id="s")
        deadline = (await session.next_ask()).expires_at
    clock.skipped = LONG / 2
    async with opened(place, agent, clock=clock) as mc:
        session = await mc.get("s")
        assert (await session.next_ask()).expires_at == deadline
        await session.answer("in time")
        assert await session.result() == "in time"


@pytest.mark.parametrize("ask", [None, "ask_1"])
async def test_an_answer_that_comes_after_the_deadline_is_refused(place: Place, ask: str | None) -> None:
    """Even if nobody has noticed the deadline before: here no process drives the session."""
    agent, clock = held(asks, on(LONG)), Skipping()
    async with opened(place, agent, clock=clock) as mc:
        await until_status(await mc.start(agent, session_id="s"), "waiting")
    clock.skipped = LONG + 1
    async with opened(place, clock=clock, drive=False) as mc:
        session = await mc.get("s")
        with pytest.raises(midcourse.Refused) as refused:
            await session.answer("too late", ask=ask)
        assert refused.value.code == ("ask_not_found" if ask is None else "already_answered")
    async with opened(place, agent, clock=clock) as mc:
        assert str(await (await mc.get("s")).result()).startswith("expired")


async def test_an_answer_that_came_before_the_deadline_counts_whenever_it_is_read(place: Place) -> None:
    """It lay in the inbox while nobody was there."""
    agent, clock = held(asks, on(LONG)), Skipping()
    async with opened(place, agent, clock=clock) as mc:
        await until_status(await mc.start(agent, session_id="s"), "waiting")
    store = await place.store()
    answer = Answer(id=CommandId("c"), role="approve", value=inline(b'"in time"'))
    await store.put(SessionId("s"), answer.id, encode_command(answer), clock.now())
    await store.close()
    clock.skipped = LONG + 1
    async with opened(place, agent, clock=clock) as mc:
        assert await (await mc.get("s")).result() == "in time"


# ---- other ways to ask


async def test_an_approval_that_nobody_gives_in_time_is_told_and_asked_for_again_on_a_resume(place: Place) -> None:
    tool = Tool(effect="write", environment="prod")

    async def agent(run: midcourse.Run) -> object:
        return await run.step("deploy", tool.run, "v2")

    made, clock = held(agent, on(LONG)), Skipping()
    async with opened(place, made, clock=clock) as mc:
        session = await mc.start(made, session_id="s")
        assert (await session.next_ask()).reason == "need_approval"
        await until_status(session, "waiting")
    clock.skipped = LONG + 1
    async with opened(place, made, clock=clock) as mc:
        session = await mc.get("s")
        with pytest.raises(midcourse.SessionEnded, match="whether 'deploy' may be called") as ended:
            await session.result()
        assert ended.value.code == "ask_expired"
        assert not tool.begun
        await session.resume()
        assert (await session.next_ask()).id == "ask_2"
        await session.answer("yes")
        assert await session.result() == "v2"


@pytest.mark.parametrize("default", ["yes", True, "Approve "])
async def test_a_default_answer_never_approves(place: Place, default: Any) -> None:
    """Only a person does: the ask fails instead."""
    tool = Tool(effect="write", environment="prod")

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.step("deploy", tool.run, "v2")
        except midcourse.AskExpired:
            return "nobody said so"

    made = held(agent, on(then=midcourse.DefaultAnswer(default)))
    async with opened(place, made) as mc:
        assert await (await mc.start(made)).result() == "nobody said so"
    assert not tool.begun


async def test_a_default_answer_may_refuse(place: Place) -> None:
    tool = Tool(effect="write", environment="prod")

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.step("deploy", tool.run, "v2")
        except midcourse.StepError as error:
            return error.kind

    made = held(agent, on(then=midcourse.DefaultAnswer("no")))
    async with opened(place, made) as mc:
        assert await (await mc.start(made)).result() == "NotApproved"
    assert not tool.begun


async def test_an_interrupt_of_the_agent_expires_and_is_asked_again_on_a_resume(place: Place) -> None:
    async def agent(run: midcourse.Run) -> object:
        if run.answer is None:
            raise midcourse.Interrupt("unsure", "Go?")
        return run.answer

    made, clock = held(agent, on(LONG)), Skipping()
    async with opened(place, made, clock=clock) as mc:
        await until_status(await mc.start(made, session_id="s"), "waiting")
    clock.skipped = LONG + 1
    async with opened(place, made, clock=clock) as mc:
        session = await mc.get("s")
        with pytest.raises(midcourse.SessionEnded, match=r"'Go\?' was not answered"):
            await session.result()
        await session.resume()
        assert (await session.next_ask()).id == "ask_2"
        await session.answer("go")
        assert await session.result() == "go"


async def test_an_interrupt_in_a_step_expires(place: Place) -> None:
    @midcourse.tool(effect="read")
    def doubt() -> str:
        raise midcourse.Interrupt("unsure", "Really?")

    async def agent(run: midcourse.Run) -> str:
        try:
            return await run.step("doubt", doubt)
        except midcourse.AskExpired:
            return "expired"

    made = held(agent, on())
    async with opened(place, made) as mc:
        assert await (await mc.start(made)).result() == "expired"


async def test_what_midcourse_asks_on_its_own_account_does_not_expire(place: Place) -> None:
    """Whether to go on under another version: a TTL would answer that for the people it is asked."""
    before, clock = held(asks, on(LONG, midcourse.DefaultAnswer("yes"))), Skipping()
    async with opened(place, before, clock=clock) as mc:
        session = await mc.start(before, session_id="s")
        await until_status(session, "waiting")
        await session.answer("go")
        await session.result()
        await session.redirect("once more")
        await until_status(session, "waiting")
    now = held(asks, on(LONG, midcourse.DefaultAnswer("yes")), version="2", on_new_version="ask")
    async with opened(place, now, clock=clock) as mc:
        session = await mc.get("s")
        await session.answer("go")
        while (ask := await session.next_ask()).reason != "agent_changed":
            await asyncio.sleep(0.01)
        assert (ask.expires_at, ask.default) == (None, None)
        await until_status(session, "waiting")
    clock.skipped = 10 * LONG
    async with opened(place, now, clock=clock) as mc:
        session = await mc.get("s")
        assert [one.reason for one in (await session.state()).asks] == ["agent_changed"]
        await session.answer("yes")
        assert await session.result() == "go"
