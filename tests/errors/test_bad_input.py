"""Bad input gets a sentence that says what to do and a stable code; nothing is lost, and the session still works."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

import midcourse
from midcourse.handle import Midcourse
from tests.promises.harness import Place, Tool, history, resumable, types, until_status

Session = midcourse.SessionHandle[Any]
LONG = "x" * 100_001
HALF = "half a pair: \ud83d"


async def _refused(attempt: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(midcourse.MidcourseError) as refused:
        await attempt
    return refused.value.code, str(refused.value)


@asynccontextmanager
async def _waiting(place: Place) -> AsyncGenerator[tuple[Midcourse, Session]]:
    """A session that waits for a person; it must be as it was, and still work, after whatever was tried."""
    agent = resumable(lambda run: run.ask("Which?"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "choose", session_id="s")
        await until_status(session, "waiting")
        before = await session.state()
        yield mc, session
        assert await session.state() == before
        await session.answer("this")
        assert await session.result() == "this"


# ---- what is not there, or not allowed


async def test_an_unknown_session_is_named_with_the_store_it_is_not_in(place: Place) -> None:
    """The sentence says where to look."""
    async with _waiting(place) as (mc, _):
        code, sentence = await _refused(mc.get("nobody"))
        assert code == "session_not_found"
        assert sentence.startswith("There is no session 'nobody' in ")
        assert "List them, or check the store's URL" in sentence


@pytest.mark.parametrize("odd", ["", "a b", HALF, "x" * 10_000, "'; DROP TABLE sessions; --"])
async def test_an_id_that_cannot_be_is_not_found_and_cannot_be_given(place: Place, odd: str) -> None:
    """Looked for, it is not there; given, it is refused with what would do."""
    async with _waiting(place) as (mc, session):
        assert (await _refused(mc.get(odd)))[0] == "session_not_found"
        for given in (mc.start("agent", session_id=odd), session.fork(session_id=odd)):
            code, sentence = await _refused(given)
            assert code == "invalid_input"
            assert "letters, digits" in sentence


async def test_an_id_that_is_taken_is_refused(place: Place) -> None:
    """The session that has it is not touched."""
    async with _waiting(place) as (mc, _):
        code, sentence = await _refused(mc.start("agent", session_id="s"))
        assert code == "session_exists"
        assert "another id" in sentence


async def test_what_is_not_allowed_now_says_what_is(place: Place) -> None:
    """For people in the sentence, for programs in ``allowed``."""
    async with _waiting(place) as (_, session):
        with pytest.raises(midcourse.Refused) as refused:
            await session.resume()
        assert refused.value.code == "already_resumed"
        assert refused.value.allowed == ("pause", "redirect", "cancel", "answer", "message")
        assert "Allowed now: pause, redirect, cancel, answer, message." in str(refused.value)
        assert refused.value.fields["status"] == "waiting"


async def test_what_is_not_allowed_after_the_end_says_what_is(place: Place) -> None:
    """A message still opens a new turn."""
    agent = resumable(lambda run: run.step("say", Tool().run, run.messages[-1].text))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "one")
        await session.result()
        for attempt in (session.pause, session.resume, lambda: session.answer("x"), lambda: session.event("x")):
            with pytest.raises(midcourse.Refused) as refused:
                await attempt()
            allowed = ("redirect", "cancel", "undo", "message")
            assert (refused.value.code, refused.value.allowed) == ("session_ended", allowed)
        await session.redirect("two")
        assert await session.result() == "two"


NEVER_WAS: list[tuple[Callable[[Session], Awaitable[object]], str, str]] = [
    (lambda s: s.answer("x", ask="ask_9"), "ask_not_found", "never an ask 'ask_9'"),
    (lambda s: s.answer("x", ask=""), "invalid_input", "at least 1 and at most 400 characters"),
    (lambda s: s.answer("x", ask="somebody/ask_1"), "invalid_input", "is not a child of session 's'"),
    (lambda s: s.resume("pause_7"), "checkpoint_not_found", "never a pause 'pause_7'"),
    (lambda s: s.edit("msg_7", "x"), "message_not_found", "never a message 'msg_7'"),
    (lambda s: s.withdraw("queued_1"), "message_not_found", "never a message 'queued_1'"),
    (lambda s: s.withdraw("msg_1"), "message_seen", "the model has seen it"),
    (lambda s: s.inspect(0), "invalid_input", "positions 1 to"),
    (lambda s: s.inspect(10_000), "invalid_input", "positions 1 to"),
    (lambda s: s.fork(10_000), "invalid_input", "position"),
]


@pytest.mark.parametrize(("attempt", "code", "hint"), NEVER_WAS)
async def test_a_name_of_something_that_never_was_is_told_apart(
    place: Place, attempt: Callable[[Session], Awaitable[object]], code: str, hint: str
) -> None:
    """From something that was, and is over."""
    async with _waiting(place) as (_, session):
        told, sentence = await _refused(attempt(session))
        assert told == code
        assert hint in sentence


# ---- arguments that cannot be used


USELESS: list[tuple[Callable[[Session], Awaitable[object]], str]] = [
    (lambda s: s.redirect(""), "at least 1"),
    (lambda s: s.redirect(" \n"), "say it in words"),
    (lambda s: s.redirect(LONG), "at most 100,000"),
    (lambda s: s.redirect(HALF), "cannot be stored"),
    (lambda s: s.redirect("x", level=cast("Any", "whim")), "it must be one of step, goal, clarify"),
    (lambda s: s.redirect("x", grace=-1), "at least 0"),
    (lambda s: s.pause(LONG), "at most 100,000"),
    (lambda s: s.pause(by=HALF), "cannot be stored"),
    (lambda s: s.pause(grace=-0.5), "left out, as long as they need"),
    (lambda s: s.pause(grace=math.nan), "at least 0"),
    (lambda s: s.pause(grace=cast("Any", "soon")), "Seconds that calls"),
    (lambda s: s.cancel(LONG), "at most 100,000"),
    (lambda s: s.cancel(grace=-1), "at least 0"),
    (lambda s: s.cancel(grace=math.nan), "at least 0"),
    (lambda s: s.message(" "), "say it in words"),
    (lambda s: s.message(LONG), "at most 100,000"),
    (lambda s: s.message(HALF), "cannot be stored"),
    (lambda s: s.message("x", behaviour=cast("Any", "auto")), "it must be one of enqueue, redirect, reject"),
    (lambda s: s.edit("msg_2", ""), "at least 1"),
    (lambda s: s.edit("m" * 201, "x"), "at most 200"),
    (lambda s: s.edit(cast("Any", None), "x"), "it must be text"),
    (lambda s: s.withdraw(HALF), "cannot be stored"),
    (lambda s: s.event(""), "at least 1"),
    (lambda s: s.event("x", source="s" * 201), "at most 200"),
    (lambda s: s.event("x", source=cast("Any", 7)), "it must be text"),
    (lambda s: s.raise_budget(0), "above 0"),
    (lambda s: s.raise_budget(math.inf), "above 0"),
    (lambda s: s.raise_budget(cast("Any", "ten")), "above 0"),
    (lambda s: s.pause(command_id=""), "1 to 200 characters"),
    (lambda s: s.pause(command_id="x" * 201), "1 to 200 characters"),
    (lambda s: s.pause(command_id=HALF), "cannot be stored"),
    (lambda s: s.answer("x" * 1_000_001), "at most 1,000,000"),
]


@pytest.mark.parametrize(("attempt", "hint"), USELESS)
async def test_a_command_nobody_could_carry_out_is_refused_before_it_is_sent(
    place: Place, attempt: Callable[[Session], Awaitable[object]], hint: str
) -> None:
    """It leaves no trace."""
    async with _waiting(place) as (_, session):
        code, sentence = await _refused(attempt(session))
        assert code == "invalid_input"
        assert hint in sentence


BAD_ARGUMENTS: list[tuple[Callable[[Midcourse], Awaitable[object]], str, str]] = [
    (lambda mc: mc.list(limit=0), "invalid_input", "from 1 to 1000"),
    (lambda mc: mc.list(limit=1001), "invalid_input", "from 1 to 1000"),
    (lambda mc: mc.list(status=("running", "asleep")), "invalid_input", "Unknown status 'asleep'. There are:"),
    (lambda mc: mc.start("agent", LONG), "invalid_input", "at most 100,000"),
    (lambda mc: mc.start("agent", HALF), "unencodable", "not Unicode"),
    (lambda mc: mc.start("nobody"), "agent_unavailable", "A module that defines it must be imported first"),
]


@pytest.mark.parametrize(("attempt", "code", "hint"), BAD_ARGUMENTS)
async def test_bad_arguments_of_a_list_or_a_start_are_refused(
    place: Place, attempt: Callable[[Midcourse], Awaitable[object]], code: str, hint: str
) -> None:
    """And no session is made."""
    async with _waiting(place) as (mc, _):
        told, sentence = await _refused(attempt(mc))
        assert told == code
        assert hint in sentence
        assert [head.id for head in await mc.list()] == ["s"]


async def test_a_grace_without_end_is_a_grace(place: Place) -> None:
    """Infinity is how people write "as long as it takes"."""
    tool = Tool(holds=True)
    agent = resumable(lambda run: run.step("work", tool.run, "x"))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await tool.entered.wait()
        await session.pause(grace=math.inf)
        await session.redirect("on", grace=math.inf, resume=True)
        reply = await session.cancel(grace=math.inf)
        assert reply.level == "stopping"
        tool.may_end.set()
        assert (await session.cancel(until="stopped")).status == "cancelled"


# ---- what cannot be journaled


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, object()]}, "['a'][1] is of type object"),
        ([math.inf], "[0] is inf"),
        ({"n": {"x": math.nan}}, "['n']['x'] is nan"),
        (HALF, "text that is not Unicode"),
        ({("a", 1): 2}, "the key ('a', 1)"),
    ],
)
async def test_a_value_that_cannot_be_journaled_is_named_by_its_place(place: Place, value: Any, where: str) -> None:
    """In an answer, in the result of a step or of an agent, in the state of a checkpoint or of an end."""
    async with _waiting(place) as (_, session):
        code, sentence = await _refused(session.answer(value))
        assert (code, sentence.startswith("The answer cannot be journaled: ")) == ("unencodable", True)
        assert where in sentence

    runs = 0

    async def body() -> object:
        nonlocal runs
        runs += 1
        return value

    async def agent(run: midcourse.Run) -> object:
        match run.goal:
            case "step":
                return await run.step("make", body)
            case "result":
                return value
            case "state":
                run.state = {"kept": value}
                return None
            case _:
                run.state = value
                await run.checkpoint()
                return None

    one = resumable(agent, mode="state")
    async with place.open(one) as mc:
        for goal, code in (
            ("step", "unencodable"),
            ("result", "unencodable"),
            ("state", "unencodable"),
            ("checkpoint", "unencodable"),
        ):
            session = await mc.start(one, goal)
            told, sentence = await _refused(session.result())
            assert told == code, goal
            assert "cannot be journaled" in sentence
            assert where in sentence
            assert await session.status() == "failed"
        assert runs == 1


async def test_an_agent_may_mend_a_state_that_could_not_be_journaled(place: Place) -> None:
    """The checkpoint is refused as any call is: nothing of the session is broken."""

    async def agent(run: midcourse.Run) -> object:
        run.state = {"lock": asyncio.Lock()}
        with pytest.raises(midcourse.Unencodable, match=r"run.state cannot be journaled: \['lock'\] is of type Lock"):
            await run.checkpoint()
        run.state = {"lock": "released"}
        await run.checkpoint()
        return run.state["lock"]

    one = resumable(agent, mode="state")
    async with place.open(one) as mc:
        session = await mc.start(one)
        assert await session.result() == "released"
        assert types(await history(session)).count("checkpoint.taken") == 1


@pytest.mark.parametrize("where", ["prompt", "reason", "report", "plan", "error"])
async def test_text_that_is_not_unicode_does_not_break_a_session(place: Place, where: str) -> None:
    """It is refused, or told in signs that can be kept; the session ends in an orderly way and can be tried again."""
    bad = True

    async def body() -> str:
        if bad and where == "error":
            raise ValueError(HALF)
        return "fine"

    async def agent(run: midcourse.Run) -> object:
        text = HALF if bad else "text"
        match where:
            case "prompt":
                await run.ask(text, expires=0.01, default=None)
            case "reason":
                await run.ask("?", reason=text, expires=0.01, default=None)
            case "report":
                run.report(text)
            case "plan":
                run.plan.set(text)
            case _:
                pass
        return await run.step("work", body)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        with pytest.raises(midcourse.SessionEnded):
            await session.result(timeout=10)
        bad = False
        await session.resume()
        assert await session.result(timeout=10) == "fine"


@pytest.mark.parametrize("where", ["agent", "step"])
async def test_an_interrupt_that_is_not_unicode_asks_in_signs_that_can_be_kept(place: Place, where: str) -> None:
    """A person can still answer it."""

    async def body() -> object:
        if midcourse.current_call().answer is None:
            raise midcourse.Interrupt("reason", HALF)
        return midcourse.current_call().answer

    async def agent(run: midcourse.Run) -> object:
        if where == "step":
            return await run.step("work", body)
        if run.answer is None:
            raise midcourse.Interrupt("reason", HALF)
        return run.answer

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await until_status(session, "waiting")
        assert [ask.prompt for ask in (await session.state()).asks] == ["half a pair: \\ud83d"]
        await session.answer("yes")
        assert await session.result() == "yes"
