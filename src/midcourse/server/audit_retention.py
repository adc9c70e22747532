"""The audit log is kept for 90 days, unless the server is told otherwise: what is older goes, a little every hour."""

import logging
from typing import Final

from midcourse.core.audit import KEPT
from midcourse.errors import InvalidInput, MidcourseError
from midcourse.ports.audit_log import prune_audit
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store
from midcourse.server.host_threads import ReadingThread
from midcourse.server.tokens import HOST

log = logging.getLogger("midcourse.server")

EVERY: Final = 3600.0
"""Seconds between two looks."""
SHORTEST: Final = 86_400.0


def check_kept(seconds: float | None) -> float | None:
    """Check how long an audit log is kept; None is for ever.

    Raises:
        InvalidInput: it is no such length of time.
    """
    if seconds is not None and not SHORTEST <= seconds < float("inf"):
        raise InvalidInput(
            f"An audit log of {seconds:g} s tells nothing. Keep it for a day or longer, or for ever.",
            field="keep_audit",
        )
    return seconds


async def keep_pruning(store: Store, clock: Clock, reading: ReadingThread, *, keep: float = KEPT) -> None:
    """Take away what is older than ``keep`` seconds. Until cancelled."""
    while True:
        try:
            now = clock.now()
            gone = await reading(prune_audit(store, now - keep, by=HOST.by, role=HOST.role, now=now))
            if gone:
                log.info("audit log: %s entries were older than %s days, and are gone", gone, f"{keep / 86_400:g}")
        except MidcourseError as error:
            log.warning("the audit log could not be pruned, and is tried again later: %s", error)
        except Exception:
            log.exception("the audit log could not be pruned, and is tried again later: unexpected")
        await clock.sleep(EVERY)
