"""What the terminal says of a call that waits to be tried again."""

from pathlib import Path

import midcourse
from midcourse.cli.status_text import situation
from midcourse.core.events import StepRetrying
from tests.promises.harness import Place, resumable, until


@midcourse.tool(effect="read", retry=midcourse.Retry(first_wait=60.0, jitter=0.0))
async def look() -> None:
    """Nothing is there to look at."""
    raise ConnectionRefusedError("refused")


async def agent(run: midcourse.Run) -> None:
    """Look once."""
    await run.step("look", look)


async def test_show_names_the_call_its_error_and_when_it_is_tried_again(tmp_path: Path) -> None:
    async with Place("memory", tmp_path).open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        waits = (await until(session, "step.retrying")).event
        assert isinstance(waits, StepRetrying)
        state = await session.state()
        words = "look raised ConnectionRefusedError (attempt 1) and is tried again"
        assert situation(state, waits.again_at - 30.0) == f"{words} in 30.0 s."
        assert situation(state, waits.again_at + 1.0) == f"{words} now."
        await session.pause(until="stopped")
        assert situation(await session.state(), waits.again_at).startswith("Nothing runs.")
