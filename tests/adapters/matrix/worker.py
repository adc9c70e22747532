"""The child process: opens a store and drives what is in it, until it is killed or its input ends.

python -m tests.adapters.matrix.worker ADAPTER STORE '{"start": "goal" | null, "settings": {…}}'
"""

import asyncio
import json
import sys
from typing import Any

import midcourse
from tests.adapters.matrix import courses
from tests.adapters.matrix.adapters import build


async def main(adapter: str, url: str, options: dict[str, Any]) -> None:
    """Until stdin is closed."""
    agent = build(adapter)
    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0, **options.get("settings", {}))
    async with midcourse.open(url, durability="process", settings=settings, grace=0) as mc:
        if options.get("start"):
            await mc.start(agent, courses.GOAL, session_id=options["start"])
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
