"""A program that owns a session, to be killed, stopped or forked by the tests: ``python owner.py FILE WORKER SESSION``.

It says ``ready`` when it owns the session and then obeys, one word a line: ``append``, ``fork``, ``end``.
"""

import asyncio
import os
import sys
import time

from midcourse.core.ids import SessionId, WorkerId
from midcourse.ports.store import Append
from midcourse.stores.sqlite import SqliteStore
from midcourse.testing.store_promises.fixtures import head, rows, started


async def main(path: str, worker: str, session_id: str) -> None:
    store = await SqliteStore.open(path)
    await store.enlist(WorkerId(worker), "")
    epoch = await started(store, SessionId(session_id), worker=WorkerId(worker))
    print("ready", flush=True)
    position = 1
    while True:
        match (await asyncio.to_thread(sys.stdin.readline)).strip():
            case "append":
                position += 1
                try:
                    await store.append(
                        Append(head(SessionId(session_id), position), rows(position, position), epoch=epoch)
                    )
                    print("appended", flush=True)
                except Exception as error:  # noqa: BLE001 - told to the test
                    print(type(error).__name__, flush=True)
            case "fork":
                print("forked", os.getpid(), fork(), flush=True)
            case _:
                await store.close()
                return


def fork() -> int:
    """A child that does nothing, and lives until it is killed or a minute is over."""
    child = os.fork()
    if child:
        return child
    time.sleep(60)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
