"""The child process: opens a store and drives what is in it, until it is killed or its input ends.

python -m tests.effects.program URL '{"start": {"agent": …, "goal": …, "session_id": …} | null, "settings": {…}}'
"""

import asyncio
import json
import sys
from typing import Any

import midcourse
from tests.effects import agents


async def main(url: str, options: dict[str, Any]) -> None:
    """Until stdin is closed."""
    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0, **options.get("settings", {}))
    async with midcourse.open(url, durability="process", settings=settings, grace=0) as mc:
        if wanted := options.get("start"):
            await mc.start(**wanted)
        print(agents.__name__, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
