"""The erasing that a server does by itself, of sessions that ended longer ago than they are to be kept.

Only the waiting is on the loop that answers requests; reading and writing is the reading thread's.
"""

import logging
from typing import Final

from midcourse.core.request_checks import MOST
from midcourse.errors import MidcourseError
from midcourse.handle import LocalTransport, Midcourse
from midcourse.server.host_threads import ReadingThread

log = logging.getLogger("midcourse.server")

EVERY: Final = 3600.0
"""Seconds between two looks for what is old enough."""


async def keep_erasing(local: LocalTransport, reading: ReadingThread, days: float, *, every: float = EVERY) -> None:
    """Erase what ended more than so many days ago, now and every so often. Until cancelled."""
    midcourse = Midcourse(local)
    while True:
        try:
            erased = await reading(midcourse.erase_older(days, limit=MOST))
            if erased:
                log.info(
                    "retention: %s sessions erased; 'midcourse store compact' takes them off the disk", len(erased)
                )
        except MidcourseError as error:
            erased = ()
            log.warning("what is older than %g days could not be erased, and is tried again later: %s", days, error)
        except Exception:
            erased = ()
            log.exception("what is older than %g days could not be erased, and is tried again later", days)
        # A full page: there may be more, and whoever waits for the store comes in between.
        await local.clock.sleep(1.0 if len(erased) == MOST else every)
