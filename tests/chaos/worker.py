"""One worker: ``python -m tests.chaos.worker FOLDER`` drives sessions until SIGTERM, and says when it is ready."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Final

import midcourse
from tests.chaos import agents
from tests.chaos.plants import plant
from tests.chaos.ways import READY, Ways

GRACE: Final = 1.0
"""Seconds that calls in flight may take when the worker is asked to end."""


async def main(folder: Path) -> None:
    """Drive what there is."""
    ways = Ways.read(folder)
    plant(ways.plant)
    assert agents.AGENTS
    async with midcourse.open(f"sqlite:///{folder / 'store.db'}", settings=ways.settings(), grace=GRACE) as inside:
        print(READY, flush=True)
        await inside.work(grace=GRACE)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(main(Path(sys.argv[1])))
