"""SIGTERM drains: nothing new, every session let go at a safe point, nothing lost, nothing twice."""

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

import midcourse
from tests.control.draining import AGENT, SESSIONS, STEPS


async def _program(folder: Path) -> asyncio.subprocess.Process:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.control.draining", str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    assert (await program.stdout.readline()).strip() == b"working"
    return program


async def test_drained_again_and_again_under_load_every_session_ends_and_no_finished_step_runs_twice(
    tmp_path: Path,
) -> None:
    """A program full of sessions gets SIGTERM, ends with status 0 and leaves them; the next one goes on."""
    async with midcourse.open(f"sqlite:///{tmp_path}/runs.db", drive=False, durability="process") as mc:
        sessions = [await mc.start(AGENT, str(number), session_id=f"s{number}") for number in range(SESSIONS)]
        drains = 0
        while {await one.status() for one in sessions} != {"completed"}:
            program = await _program(tmp_path)
            begun = (await sessions[0].state()).position
            await asyncio.sleep(0.3 if drains < 3 else 3)  # a moment to work in; what it does there is not judged
            program.send_signal(signal.SIGTERM)
            assert await program.wait() == 0
            drains += 1
            for one in sessions:
                state = await one.state()
                assert state.status in ("queued", "running", "completed")
                assert not state.lost
            assert (await sessions[0].state()).position >= begun
        assert [await one.result() for one in sessions] == [sum(range(STEPS))] * SESSIONS
        ran = Counter((tmp_path / "ledger").read_text().split("\n"))
        finished = {line: count for line, count in ran.items() if line.startswith("ended")}
        assert len(finished) == SESSIONS * STEPS
        assert set(finished.values()) == {1}
        assert drains >= 3
