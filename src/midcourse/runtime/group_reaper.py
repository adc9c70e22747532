"""The one minder of this process, for its tools in processes and its shell commands."""

import atexit
from functools import cache

from midcourse.runtime.process_groups import ProcessGroupReaper


@cache
def process_group_reaper() -> ProcessGroupReaper:
    """Return the reaper of this process; it starts its helper process at its first use, and ends with this process."""
    minder = ProcessGroupReaper()
    atexit.register(minder.close)
    return minder
