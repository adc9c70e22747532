"""The one minder of this process, for its tools in processes and its shell commands."""

import atexit
from functools import cache

from midcourse.runtime.groups import Minder


@cache
def the_minder() -> Minder:
    """The same one for everybody; it starts its helper process at its first use, and ends with this process."""
    minder = Minder()
    atexit.register(minder.close)
    return minder
