"""A server's sender in a process of its own that takes no turns: as if each of two thought that it alone is there."""

import asyncio
import sys

from midcourse.clock import SystemClock
from midcourse.people import webhook_sender
from midcourse.people.outbox import Outbox
from midcourse.people.webhook_sender import Sender
from midcourse.wiring import open_store


async def main(store_url: str, lease: float) -> None:
    """Send what is due until nothing waits."""
    webhook_sender.LEASE = lease
    store = await open_store(store_url)
    outbox = Outbox(store)
    sender = Sender(outbox, SystemClock())
    webhooks = await outbox.webhooks()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    while rows := await outbox.waiting():
        sender.send_due(rows, webhooks)
        await asyncio.sleep(0.05)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
