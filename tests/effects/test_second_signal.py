"""A process that is asked to end while a call of it lives waits for the call, or leaves it as lost."""

import asyncio
import signal
import sys
from pathlib import Path

from midcourse.core.events import SessionTaken
from tests.checkpoints.programs import Skipping, opened
from tests.effects.stubborn import SETTLE, maker
from tests.promises.harness import Place, history, types, until, until_true

ROOT = Path(__file__).parents[2]
STARTS = "import asyncio, sys; from tests.effects import stubborn; asyncio.run(stubborn.main(*sys.argv[1:]))"


async def test_a_second_signal_ends_the_process_and_leaves_what_lives_as_lost(tmp_path: Path) -> None:
    """The first is answered with what is waited for. The next process undoes nothing before it may have settled."""
    place = Place("sqlite", tmp_path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STARTS, place.url, str(tmp_path)), cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        await until_true((tmp_path / "begun").exists)
        process.send_signal(signal.SIGTERM)
        said = ""
        while "waiting for 'make' of session s. A second signal ends this process" not in said:
            line = await process.stderr.readline()
            assert line, f"it ended at the first signal: {said}"
            said += line.decode()
        assert (tmp_path / "asked").exists()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == -signal.SIGTERM
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    async with opened(place, maker, clock=Skipping()) as mc:
        session = await mc.get("s")
        taken = (await until(session, "session.taken")).event
        assert isinstance(taken, SessionTaken)
        assert len(taken.lost) == 1
        assert not {"step.finished", "step.failed", "step.aborted", "undo.begun"} & {*types(await history(session))}
    assert not (tmp_path / "undone").exists()
    later = Skipping()
    later.skipped = SETTLE
    async with opened(place, maker, clock=later) as mc:
        session = await mc.get("s")
        assert await session.result() == "made"
        happened = types(await history(session))
        assert happened.index("session.taken") < happened.index("undo.begun") < happened.index("step.finished")
    assert (tmp_path / "undone").exists()
