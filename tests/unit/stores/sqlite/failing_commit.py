"""Lets a COMMIT fail for real: no file of this process may grow. ``python failing_commit.py FILE``."""

import asyncio
import resource
import sys
from pathlib import Path

from midcourse.core.ids import CommandId
from midcourse.stores.sqlite import SqliteStore
from midcourse.testing.store_promises.fixtures import SESSION, started


async def put_five(store: SqliteStore, name: str) -> list[object]:
    return await asyncio.gather(
        *(store.put(SESSION, CommandId(f"{name}_{number}"), b"x" * 9_000, 1.0) for number in range(5)),
        return_exceptions=True,
    )


async def main(path: str) -> None:
    store = await SqliteStore.open(path)
    await started(store)
    log = Path(path + "-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log, hard))
    answers = await put_five(store, "refused")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print(f"{len(answers)} refused: {', '.join(sorted({type(answer).__name__ for answer in answers}))}")
    print(f"{len(await store.undecided(SESSION))} there")
    answers = await put_five(store, "accepted")
    print(f"{sum(not isinstance(answer, BaseException) for answer in answers)} accepted later")
    print(f"{len(await store.undecided(SESSION))} there", flush=True)
    await store.close()


asyncio.run(main(sys.argv[1]))
