"""Tools and undos that end in odd ways: the session and its program go on, and the receipt tells what is known."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping

import pytest

import midcourse
from tests.promises.harness import Place, resumable, until


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


def close_like_a_generator_in_thread() -> None:
    raise GeneratorExit


def end_an_async_loop_in_thread() -> None:
    raise StopAsyncIteration


async def end_an_async_loop() -> None:
    raise StopAsyncIteration


BODIES: list[tuple[Callable[[], Awaitable[None]] | Callable[[], None], str]] = [
    (cancel_something_of_its_own, "CancelledError"),
    (leave_async, "SystemExit"),
    (leave_in_thread, "SystemExit"),
    (interrupt_in_thread, "KeyboardInterrupt"),
    # Python itself makes a RuntimeError of a StopIteration that leaves a coroutine.
    (first_of_none, "RuntimeError"),
    (first_of_none_async, "RuntimeError"),
    (close_like_a_generator, "GeneratorExit"),
    (close_like_a_generator_in_thread, "RuntimeError"),
    (end_an_async_loop_in_thread, "StopAsyncIteration"),
    (end_an_async_loop, "StopAsyncIteration"),
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
