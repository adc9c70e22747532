"""SIGTERM drains: nothing new, every session let go at a safe point, nothing lost, nothing twice."""

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

import midcourse
from tests.control.drain_program import AGENT, SESSIONS, STEPS


async def _program(folder: Path) -> asyncio.subprocess.Process:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.control.drain_program", str(folder), stdout=asyncio.subprocess.PIPE
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
        ledger = tmp_path / "ledger"
        for share in (1, 2, 3, 4):  # drained a quarter of the way, halfway, and so on to the end
            program = await _program(tmp_path)
            begun = (await sessions[0].state()).position
            while not ledger.exists() or ledger.read_text().count("\n") < share * SESSIONS * STEPS // 4:
                await asyncio.sleep(0.005)
            program.send_signal(signal.SIGTERM)
            assert await program.wait() == 0
            for one in sessions:
                state = await one.state()
                assert state.status in ("queued", "running", "completed")
                assert not state.lost
            assert (await sessions[0].state()).position >= begun
        program = await _program(tmp_path)  # whatever was let go just before its end
        assert [await one.result() for one in sessions] == [sum(range(STEPS))] * SESSIONS
        ran = Counter(ledger.read_text().split("\n"))
        finished = {line: count for line, count in ran.items() if line.startswith("ended")}
        assert len(finished) == SESSIONS * STEPS
        assert set(finished.values()) == {1}
        program.send_signal(signal.SIGTERM)
        assert await program.wait() == 0
