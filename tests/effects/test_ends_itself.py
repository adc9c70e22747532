"""Tools and undos that end in odd ways: the session and its program go on, and the receipt tells what is known."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest

import midcourse
from midcourse.core.events import HoldReleased
from midcourse.errors import InterruptRequested
from midcourse.runtime.call_recovery import HAPPENED
from midcourse.runtime.tools import declared_tool
from tests.promises.harness import Place, Tool, history, resumable, types, until, until_status


async def cancel_something_of_its_own() -> None:
    """Ordinary async code that lets a cancellation through."""
    task = asyncio.ensure_future(asyncio.sleep(3600))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def leave_async() -> None:
    sys.exit(3)


def leave_in_thread() -> None:
    sys.exit(3)


def interrupt_in_thread() -> None:
    raise KeyboardInterrupt


def first_of_none() -> None:
    next(row for row in ())


async def first_of_none_async() -> None:
    next(row for row in ())


async def close_like_a_generator() -> None:
    raise GeneratorExit


async def interrupt_async() -> None:
    raise KeyboardInterrupt


def close_like_a_generator_in_thread() -> None:
    raise GeneratorExit


def end_an_async_loop_in_thread() -> None:
    raise StopAsyncIteration


async def end_an_async_loop() -> None:
    raise StopAsyncIteration


async def call_itself_interrupted() -> None:
    raise InterruptRequested


def call_itself_interrupted_in_thread() -> None:
    raise InterruptRequested


class Unprintable(Exception):
    """Its text ends the program that wants to read it."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


async def raise_what_cannot_be_printed() -> None:
    raise Unprintable


BODIES: list[tuple[Callable[[], Awaitable[None]] | Callable[[], None], str]] = [
    (cancel_something_of_its_own, "CancelledError"),
    (leave_async, "SystemExit"),
    (leave_in_thread, "SystemExit"),
    (interrupt_in_thread, "KeyboardInterrupt"),
    # Python itself makes a RuntimeError of a StopIteration that leaves a coroutine.
    (first_of_none, "RuntimeError"),
    (first_of_none_async, "RuntimeError"),
    (close_like_a_generator, "GeneratorExit"),
    (interrupt_async, "KeyboardInterrupt"),
    (close_like_a_generator_in_thread, "RuntimeError"),
    (end_an_async_loop_in_thread, "StopAsyncIteration"),
    (end_an_async_loop, "StopAsyncIteration"),
    (call_itself_interrupted, "InterruptRequested"),
    (call_itself_interrupted_in_thread, "InterruptRequested"),
    (raise_what_cannot_be_printed, "Unprintable"),
]


@pytest.mark.parametrize(("body", "kind"), BODIES)
async def test_a_tool_that_ends_itself_fails_its_step_and_nothing_else(
    place: Place, body: Callable[[], Awaitable[None]], kind: str
) -> None:
    async def tries(run: midcourse.Run) -> str:
        with pytest.raises(midcourse.StepError) as failed:
            await run.step("end", body)
        return failed.value.kind

    async with place.open(agent := resumable(tries)) as mc:
        session = await mc.start(agent)
        assert await session.result() == kind


@pytest.mark.parametrize(("body", "kind"), BODIES)
async def test_a_tool_with_a_timeout_that_ends_itself_fails_its_step_and_nothing_else(
    place: Place, body: Callable[[], Awaitable[None]], kind: str
) -> None:
    ends = declared_tool(body, name="ends", origin=f"{__name__}:{body.__name__}", effect="read", timeout=60.0)

    async def tries(run: midcourse.Run) -> str:
        with pytest.raises(midcourse.StepError) as failed:
            await run.step("end", ends)
        return failed.value.kind

    async with place.open(agent := resumable(tries)) as mc:
        session = await mc.start(agent)
        assert await session.result() == kind


@midcourse.tool(effect="read", run_in="process")
def end_in_process(kind: str) -> None:
    """End the process's code with an exception of that kind."""
    raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "close": GeneratorExit, "stop": StopIteration}[kind]


@pytest.mark.parametrize("kind", ["exit", "interrupt", "close", "stop"])
async def test_a_tool_in_a_process_that_ends_itself_fails_its_step_and_nothing_else(place: Place, kind: str) -> None:
    async def tries(run: midcourse.Run) -> str:
        with pytest.raises(midcourse.StepError):
            await run.step("end", end_in_process, kind)
        return "went on"

    async with place.open(agent := resumable(tries)) as mc:
        session = await mc.start(agent)
        assert await session.result() == "went on"


async def test_an_agent_whose_error_cannot_be_printed_fails_and_nothing_else(place: Place) -> None:
    async def fails(_run: midcourse.Run) -> None:
        raise Unprintable

    async with place.open(agent := resumable(fails)) as mc:
        session = await mc.start(agent)
        assert await until_status(session, "failed") == "failed"


ENDS: list[type[BaseException]] = [
    *(SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError),
    *(InterruptRequested, Unprintable),
]


@pytest.mark.parametrize("error", ENDS)
async def test_a_stream_that_ends_itself_fails_its_step_and_nothing_else(
    place: Place, error: type[BaseException]
) -> None:
    async def speaks() -> AsyncIterator[str]:
        yield "one"
        raise error

    async def tries(run: midcourse.Run) -> str:
        with pytest.raises(midcourse.StepError):
            await run.stream("say", speaks)
        return "went on"

    async with place.open(agent := resumable(tries)) as mc:
        session = await mc.start(agent)
        assert await session.result() == "went on"


@pytest.mark.parametrize("error", ENDS)
async def test_a_retry_whose_judgement_ends_itself_fails_its_step_and_nothing_else(
    place: Place, error: type[BaseException]
) -> None:
    def judges(_error: BaseException) -> bool:
        raise error

    async def breaks() -> None:
        raise ConnectionError("gone")

    tool = midcourse.tool(effect="read", retry=midcourse.Retry(attempts=2, errors=judges))(breaks)

    async def tries(run: midcourse.Run) -> str:
        with pytest.raises(midcourse.StepError) as failed:
            await run.step("break", tool)
        return failed.value.kind

    async with place.open(agent := resumable(tries)) as mc:
        session = await mc.start(agent)
        assert await session.result() == "ConnectionError"


class Looker:
    """An observer that ends itself, once it is to."""

    def __init__(self, error: type[BaseException], *, at: str) -> None:
        self.error, self.at, self.ends = error, at, False

    def resource(self, _arguments: Mapping[str, object]) -> str:
        self._look("resource")
        return "row:1"

    async def version(self, _arguments: Mapping[str, object]) -> str | None:
        self._look("version")
        return "1"

    def _look(self, at: str) -> None:
        if self.ends and at == self.at:
            raise self.error


@pytest.mark.parametrize("at", ["resource", "version"])
@pytest.mark.parametrize("error", ENDS)
async def test_an_observer_that_ends_itself_could_not_look_and_nothing_else(
    place: Place, error: type[BaseException], at: str
) -> None:
    looker = Looker(error, at=at)
    look, wait = Tool(effect="read", observes=looker), Tool(holds=True, effect="read")

    async def looks(run: midcourse.Run) -> object:
        await run.step("look", look.run, 1)
        await run.step("wait", wait.run)
        looker.ends = True
        return await run.step("look again", look.run, 2)

    async with place.open(agent := resumable(looks), grace=0) as mc:
        session = await mc.start(agent)
        await wait.entered.wait()
    looker.ends = True
    wait.may_end.set()
    async with place.open(agent) as mc:
        assert await (await mc.get(session.id)).result() == 2
        assert "world.changed" in types(await history(await mc.get(session.id)))


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("error", ENDS)
async def test_a_probe_that_ends_itself_knows_nothing_and_a_person_is_asked(
    place: Place, error: type[BaseException], is_async: bool
) -> None:
    async def probe(_arguments: Mapping[str, object], _key: str) -> bool:
        raise error

    def probe_plainly(_arguments: Mapping[str, object], _key: str) -> bool:
        raise error

    pay = Tool(holds=True, effect="write", probe=probe if is_async else probe_plainly)
    async with place.open(agent := resumable(lambda run: run.step("pay", pay.run, 7)), grace=0) as mc:
        session = await mc.start(agent)
        await pay.entered.wait()
    async with place.open(agent) as mc:
        again = await mc.get(session.id)
        await again.answer(HAPPENED, ask=(await again.next_ask()).id)
        await again.result()
    assert len(pay.begun) == 1


_error: type[BaseException] = SystemExit


async def release_async() -> None:
    """Let go of what is held, in no good way."""
    raise _error


def release_plainly() -> None:
    """Let go of what is held, in no good way."""
    raise _error


@pytest.mark.parametrize("release", [release_async, release_plainly])
@pytest.mark.parametrize("error", ENDS)
async def test_a_release_that_ends_itself_has_failed_and_the_session_ends(
    place: Place, error: type[BaseException], release: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_error", error)

    async def holds(run: midcourse.Run) -> str:
        await run.hold("lock", release)
        return "done"

    async with place.open(agent := resumable(holds)) as mc:
        session = await mc.start(agent)
        assert await session.result() == "done"
        tries = [one.event for one in await history(session) if isinstance(one.event, HoldReleased)]
    assert [bool(one.error) for one in tries] == [True, True, True]


def leaves(_arguments: Mapping[str, object], _result: object, _key: str) -> None:
    sys.exit(3)


def finds_nothing(_arguments: Mapping[str, object], _result: object, _key: str) -> None:
    next(row for row in ())


@midcourse.tool(effect="write", undo=leaves, local=True)
async def write_something() -> str:
    """A tool whose undo ends itself."""
    return "written"


@midcourse.tool(effect="write", undo=finds_nothing, local=True)
async def write_something_else() -> str:
    """A tool whose undo finds no row."""
    return "written"


@pytest.mark.parametrize(
    ("tool", "detail"), [(write_something, "SystemExit: 3"), (write_something_else, "RuntimeError: StopIteration")]
)
async def test_an_undo_that_ends_itself_has_failed_and_the_program_goes_on(
    place: Place, tool: Callable[[], Awaitable[str]], detail: str
) -> None:
    async def writes(run: midcourse.Run) -> str:
        return await run.step("write", tool)

    async with place.open(agent := resumable(writes)) as mc:
        session = await mc.start(agent)
        await session.result()
        receipt = await session.undo()

    (line,) = receipt.lines
    assert (line.outcome, line.detail) == ("undo failed", detail)


@midcourse.tool(effect="write")
async def refuse_or_raise(argument: str) -> None:
    """A tool that refuses bad arguments before it does anything, and breaks at others."""
    if argument == "bad":
        raise midcourse.InvalidInput("That is no argument.", field="argument")
    raise ConnectionError("gone")


async def test_a_tool_that_refused_its_arguments_has_no_line_and_one_that_raised_has_one_for_each_try(
    place: Place,
) -> None:
    async def tries(run: midcourse.Run) -> None:
        with pytest.raises(midcourse.StepError):
            await run.step("refuse", refuse_or_raise, "bad")
        await run.step("raise", refuse_or_raise, "good")

    async with place.open(agent := resumable(tries)) as mc:
        session = await mc.start(agent)
        await until(session, "session.failed")
        await session.resume()
        await until(session, "session.failed", times=2)
        receipt = await session.receipt()

    assert [(line.name, line.outcome, line.attempt) for line in receipt.lines] == [
        ("raise", "unknown", 1),
        ("raise", "unknown", 2),
    ]


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"undo": leave_in_thread}, "cannot be called with"),
        ({"probe": leave_in_thread}, "cannot be called with"),
        ({"timeout": 0}, "above 0"),
        ({"observes": "file"}, "is no observer"),
    ],
)
def test_a_declaration_that_would_fail_at_the_cancel_is_refused_at_once(declared: dict[str, object], why: str) -> None:
    with pytest.raises(midcourse.InvalidInput, match=why):
        midcourse.tool(**declared)(refuse_or_raise.function)  # pyright: ignore[reportArgumentType]
