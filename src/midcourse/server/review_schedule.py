"""The review that a server makes by itself, once a week unless it is told otherwise.

Only the waiting is on the loop that answers requests; reading and writing is the reading thread's.
"""

import logging
from typing import Final

from midcourse.analysis.reports.fleet import default_policy
from midcourse.analysis.reports.proposals import Tuned
from midcourse.analysis.reports.review import PERIOD, begin_counting, review
from midcourse.errors import InvalidInput, MidcourseError
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store
from midcourse.server.host_threads import ReadingThread

log = logging.getLogger("midcourse.server")

LONGEST: Final = 3600.0
"""Seconds after which the time is checked again: a clock may be set, and another server may have made the review."""
AGAIN: Final = 600.0
"""Seconds after which a review that failed is tried again."""
SHORTEST: Final = 60.0


def check_every(seconds: float | None) -> float | None:
    """Check the interval of reviews; None is never.

    Raises:
        InvalidInput: it is no such interval.
    """
    if seconds is not None and not SHORTEST <= seconds < float("inf"):
        raise InvalidInput(
            f"A review every {seconds:g} s cannot be. Give {SHORTEST:g} s or more, or none at all.",
            field="review_every",
        )
    return seconds


async def keep_reviewing(store: Store, clock: Clock, reading: ReadingThread, *, every: float, policy: str) -> None:
    """Make a review whenever ``every`` seconds have passed since the last one, by any server. Until cancelled."""
    while True:
        try:
            last = await reading(begin_counting(store, clock.now()))
            left = last + every - clock.now()
            if left <= 0:
                tuned = await reading(_review(store, clock.now(), max(every, PERIOD), policy))
                log.info("review: %s sessions, %s proposals", tuned.sessions, len(tuned.proposals))
                for remark in tuned.remarks:
                    log.info("review: %s", remark)
                left = every
        except MidcourseError as error:
            log.warning("the review could not be made, and is tried again later: %s", error)
            left = AGAIN
        except Exception:
            log.exception("the review could not be made, and is tried again later: unexpected")
            left = AGAIN
        await clock.sleep(min(left, LONGEST))


async def _review(store: Store, now: float, period: float, policy: str) -> Tuned:
    default = await default_policy(store, policy)
    return await review(store, since=now - period, now=now, default=default)
