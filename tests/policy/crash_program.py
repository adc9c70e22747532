"""A process that dies the moment something is journaled that lists have, too: ``dying <store> <shelf>``."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable

import midcourse
from midcourse.ports.store import Append, Store
from midcourse.testing.wrapped_store import WrappedStore
from midcourse.wiring import open_store

SESSION = "sess_dying"


class Dying(WrappedStore):
    """Kills its process when an append that lists something on a shelf is durable, before anybody learns of it."""

    def __init__(self, inner: Store, shelf: str) -> None:
        super().__init__(inner)
        self._shelf = shelf

    def append(self, append: Append) -> Awaitable[None]:
        """As the wrapped store does."""
        done = self.inner.append(append)
        return done if self._shelf not in append.shelves else self._die(done)

    async def _die(self, done: Awaitable[None]) -> None:
        await done
        os.kill(os.getpid(), signal.SIGKILL)


@midcourse.agent
async def author(run: midcourse.Run) -> str:
    """Makes something."""
    run.report(artifact="report.md", documentation="the figures of May")
    await asyncio.sleep(0)
    return "done"


async def live(store: str, shelf: str) -> None:
    """Make something, and have that called right, to the death of this process."""
    async with midcourse.open(Dying(await open_store(store), shelf)) as mc:
        session = await mc.start(author, "Write the report of May", session_id=SESSION)
        await session.result(10)
        await session.label("msg_1", "right")


if __name__ == "__main__":
    asyncio.run(live(*sys.argv[1:]))
