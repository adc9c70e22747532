"""Opening a store: what it takes, what Ctrl-C says, and what a forgotten ``async with`` says."""

import logging
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.runtime.settings import Settings
from tests.promises.harness import until, until_status

QUICK = Settings(poll=0.05)


@midcourse.agent(name="opened-asker", version="1")
async def asker(run: midcourse.Run) -> object:
    for number in range(2):
        await run.ask(f"{number}?")
    return "done"


@midcourse.agent(name="opened-ticker", version="1")
async def ticker(run: midcourse.Run) -> object:
    await run.step("tick", tick)
    return "done"


@midcourse.tool(effect="read")
async def tick() -> str:
    return "tick"


async def _left_queued(url: str) -> None:
    async with midcourse.open(url, drive=False, durability="process") as mc:
        await mc.start(ticker, session_id="sess_left")


async def test_a_store_opened_without_recovering_leaves_what_it_finds(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    await _left_queued(url)
    async with midcourse.open(url, durability="process", settings=QUICK, recover=False) as mc:
        own = await mc.start(ticker, session_id="sess_own")
        assert await own.result(timeout=20) == "done"
        worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        for _ in range(3):
            await worker.sweeper.sweep()
        left = await mc.get("sess_left")
        assert await left.status() == "queued"
        # What somebody sends a command to is driven: that is a wish.
        await left.pause()
        await left.resume()
        assert await left.result(timeout=20) == "done"


async def test_what_is_taken_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    await _left_queued(url)
    caplog.set_level(logging.INFO, "midcourse")
    async with midcourse.open(url, durability="process", settings=QUICK) as mc:
        assert await (await mc.get("sess_left")).result(timeout=20) == "done"
    assert "takes over what no process drove: sess_left (opened-ticker, queued)" in caplog.text
    assert "recover=False" in caplog.text


@pytest.mark.parametrize("use", ["attribute", "await", "with"])
@pytest.mark.parametrize("name", ["open", "connect"])
async def test_a_forgotten_async_with_says_so(use: str, name: str) -> None:
    opening: Any = midcourse.open("memory://") if name == "open" else midcourse.connect("http://127.0.0.1:1")

    async def misuse() -> None:
        if use == "attribute":
            await opening.start(ticker)
        elif use == "await":
            await opening
        else:
            opening.__enter__()

    with pytest.raises((AttributeError, midcourse.InvalidInput), match=f"async with midcourse.{name}"):
        await misuse()


PROGRAM = textwrap.dedent(
    """
    import asyncio, sys
    import midcourse

    @midcourse.agent
    async def waiter(run: midcourse.Run) -> None:
        print("waits", flush=True)
        await run.ask("Well?")

    async def main() -> None:
        async with midcourse.open(sys.argv[1], durability="process") as mc:
            await (await mc.start(waiter)).result()

    asyncio.run(main())
    """
)


@pytest.mark.parametrize(
    ("store", "said"), [("sqlite:///kept.db", "1 session is kept in"), ("memory://", "gone with this process")]
)
def test_ctrl_c_ends_a_program_without_a_traceback_and_says_what_became_of_its_sessions(
    tmp_path: Path, store: str, said: str
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "program.py", store],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in errors
    assert "Interrupted." in errors
    assert said in errors


async def test_ctrl_c_is_heard_as_before_once_the_store_is_closed() -> None:
    before = signal.getsignal(signal.SIGINT)
    async with midcourse.open("memory://") as mc:
        session = await mc.start(asker)
        await until_status(session, "waiting")
        await until(session, "ask.opened")
    assert signal.getsignal(signal.SIGINT) is before
