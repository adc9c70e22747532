"""Observe what a tool read, in a way that can be repeated: is the world still as it was?"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Observer(Protocol):
    """Names what a call observes and tells its version: a hash, an ETag, a row's version. Versions are compared, only.

    Both are called with the call's arguments by name. ``version`` may be called long after the call, in another
    process, and must not change anything. It returns None for what does not exist, and raises if it cannot look.
    """

    def resource(self, arguments: Mapping[str, Any]) -> str:
        """Return the name of the observed thing, the same for the same thing: ``file:/srv/a.txt``."""
        ...

    async def version(self, arguments: Mapping[str, Any]) -> str | None:
        """Return its present version."""
        ...
