"""The child process: starts a session, or only goes on with what is there, until it is killed or its input ends.

python -m tests.checkpoints.child STORE REDIS [AGENT SESSION]
"""

import asyncio
import sys

import midcourse
from tests.checkpoints import agents


async def main(store: str, redis: str, agent: str = "", session: str = "") -> None:
    """Until stdin is closed."""
    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0)
    async with midcourse.open(store, durability="process", settings=settings, redis=redis) as mc:
        if agent:
            await mc.start(agent, "tidy up", session_id=session)
        print(f"ready {agents.__name__}", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
