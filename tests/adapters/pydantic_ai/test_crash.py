"""A process that is killed while one of two calls is under way."""

import asyncio
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("program.py")


async def child(folder: Path, do: str) -> asyncio.subprocess.Process:
    store, effects = f"sqlite:///{folder / 'sessions.db'}", str(folder / "effects")
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM), store, effects, do), stdout=asyncio.subprocess.PIPE
    )


async def test_what_a_finished_call_enqueued_and_changed_survives_kill_9_of_its_process(tmp_path: Path) -> None:
    first = await child(tmp_path, "start")
    assert first.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await first.stdout.readline() == b"noted\n"
    finally:
        first.kill()
        await first.communicate()
    second = await child(tmp_path, "continue")
    said, _ = await second.communicate()
    told = said.decode().strip().split(" | ")
    assert sorted(told) == ["Go.", "Mind the step.", "a bell", "noted", "notes: step"]
    assert (tmp_path / "effects").read_text(encoding="utf-8") == "note\n"
