"""What a newcomer does wrong, and is told: ids used twice, other questions, forgotten imports, typos."""

import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import midcourse
from tests.promises.harness import Place, Tool, history, resumable, types, until, until_status, until_true


async def test_a_command_id_that_was_used_for_something_else_is_refused(place: Place) -> None:
    """A stop must not be taken for the redirect that had its id."""
    tool = Tool(holds=True)
    agent = resumable(lambda run: run.step("work", tool.run))
    async with place.open(agent) as mc:
        session = await mc.start(agent)
        await tool.entered.wait()
        await session.redirect("faster", command_id="c1")
        assert (await session.redirect("faster", command_id="c1")).level == "decided"
        for stop in (session.pause, session.cancel):
            with pytest.raises(midcourse.Refused, match="was used before") as refused:
                await stop(command_id="c1")
            assert refused.value.code == "command_id_taken"
        assert types(await history(session)).count("session.redirected") == 1
        tool.may_end.set()
        await session.result()


async def test_an_answer_is_not_given_to_another_question(place: Place) -> None:
    """The code changed while the person thought: the session stops as diverged, and shows both questions."""

    def asking(prompt: str) -> midcourse.Agent[Any]:
        return resumable(lambda run: run.ask(prompt))

    async with place.open(asking("Delete one file?")) as mc:
        session = await mc.start(asking("Delete one file?"), session_id="s")
        await until_status(session, "waiting")
    async with place.open(asking("Delete ALL files?")) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        with pytest.raises(
            midcourse.SessionEnded, match=r"'Delete one file\?' and is now 'Delete ALL files\?'"
        ) as ended:
            await session.result()
        assert ended.value.code == "diverged"


async def test_an_agent_that_nobody_imported_is_named_in_the_log(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the session would just not go on."""
    tool = Tool()
    agent = resumable(lambda run: run.step("work", tool.run), name="forgotten")
    async with place.open(agent, drive=False) as mc:
        await mc.start(agent, session_id="s")
    with caplog.at_level(logging.WARNING, "midcourse"):
        async with place.open():
            await until_true(lambda: "agent 'forgotten' is not registered" in caplog.text)


async def test_what_the_agent_raised_is_the_cause_of_what_its_caller_sees(place: Place) -> None:
    """In the process it failed in, with its traceback."""

    async def agent(run: midcourse.Run) -> str:
        raise KeyError(run.goal)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent), "k")
        with pytest.raises(midcourse.SessionEnded) as ended:
            await session.result()
        assert isinstance(ended.value.__cause__, KeyError)


@pytest.mark.parametrize(
    "typo", [{"max_running": 0}, {"park_after": -1}, {"poll": 0}, {"unreachable_after": 0}, {"segment_tokens": 0}]
)
def test_settings_that_cannot_work_are_refused(typo: dict[str, Any]) -> None:
    """With the name of the one that is wrong."""
    with pytest.raises(midcourse.InvalidInput):
        midcourse.Settings(**typo)


async def test_words_that_mean_nothing_are_refused(place: Place) -> None:
    """A mode, a level, a status, a text that is none."""

    async def function(run: midcourse.Run) -> str:
        return run.goal

    for typo in ({"mode": "foo"}, {"on_new_version": "bar"}):
        with pytest.raises(midcourse.InvalidInput, match="mode is replay or state"):
            midcourse.agent(**typo)(function)  # pyright: ignore[reportArgumentType]
    agent: Any = resumable(function)
    async with place.open(agent) as opened:
        mc: Any = opened
        session = await mc.start(agent)
        for wrong in (
            lambda: session.pause(until="stoped"),
            lambda: session.redirect(None),
            lambda: session.pause(None),
            lambda: session.inspect("x"),
            lambda: mc.get(None),
            lambda: mc.start(agent, 5),
            lambda: mc.list(status="waiting"),
        ):
            with pytest.raises(midcourse.InvalidInput):
                await wrong()
        assert await session.result() == ""


def test_a_thread_that_never_ends_does_not_keep_its_process_alive(tmp_path: Path) -> None:
    """The block is left after its grace, and the program ends."""
    program = (
        "import asyncio, sys, threading, midcourse\n"
        "@midcourse.agent\n"
        "async def stuck(run): return await run.step('wait', threading.Event().wait)\n"
        "async def main():\n"
        "    settings = midcourse.Settings(cleanup=0.1)\n"
        "    async with midcourse.open(f'sqlite:///{sys.argv[1]}/x.db', settings=settings, grace=0) as mc:\n"
        "        session = await mc.start(stuck)\n"
        "        async for seen in session.watch():\n"
        "            if seen.type == 'step.begun': break\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=50, check=False)
    assert ended.returncode == 0


async def test_threads_are_kept_for_the_next_call_and_are_never_more_than_the_limit(place: Place) -> None:
    """A plain function gets a thread; a hundred in a row need no hundred."""
    seen: set[int] = set()

    def work(number: int) -> int:
        seen.add(threading.get_ident())
        return number

    async def agent(run: midcourse.Run) -> int:
        return sum([await run.step("work", work, number) for number in range(100)])

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await until(session, "session.completed")
        assert await session.result() == 4950
    assert len(seen) < 10
