"""A call that waits to be tried again in a process that is killed: another process waits for the rest, with its key."""

from pathlib import Path

from tests.checkpoints.programs import Skipping, opened
from tests.effects.agents import retrier
from tests.effects.child import driving
from tests.promises.harness import Place, until


async def test_a_kill_during_the_wait_loses_neither_the_wait_nor_the_key(tmp_path: Path) -> None:
    place, tried, later = Place("sqlite", tmp_path), tmp_path / "tried", Skipping()
    async with driving(place.url, "retrier", str(tried)) as child:
        async with place.open(drive=False) as mc:
            await until(await mc.get("s"), "step.retrying")
        await child.kill()
    later.skipped = 3600.0
    async with opened(place, retrier, clock=later) as mc:
        assert await (await mc.get("s")).result() == 2
    first, second = tried.read_text(encoding="utf-8").split()
    assert first == second != ""
