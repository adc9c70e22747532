"""Measure the scope of a run: how far its changes have moved from the places where they began."""

import re
from typing import Final

from midcourse.policy.run_activity import Called

MOST: Final = 10_000
"""Resources that are told apart; a run that has touched more has touched at least so many."""
_BEGINNING: Final = 3
"""The number of first changes that define a run's initial scope."""
_AUTHORITY: Final = re.compile(r"[/?#]")
_LEAST: Final = 2
"""Domains that any run may begin in: one more than one is no expansion yet."""
_READS: Final = frozenset({"", "read"})
"""Calls that change nothing, as far as is known. Looking around is no expansion; changing things is."""


class ResourceScope:
    """The resources of a turn and their domains."""

    def __init__(self) -> None:
        self._touched: set[int] = set()
        self._domains: set[str] = set()
        self._confirmed: set[str] = set()
        self._settling = _BEGINNING
        self._first = 0
        self.outside = 0
        self.latest = ""

    def feed(self, call: Called) -> None:
        """Take note of what a call touched."""
        for resource in call.resources:
            if len(self._touched) < MOST:
                self._touched.add(hash(resource))
        if call.effect not in _READS:
            self._changes(call.resources)

    def _changes(self, resources: tuple[str, ...]) -> None:
        new = False
        for resource in resources:
            domain = domain_of(resource)
            if len(self._domains) < MOST:
                self._domains.add(domain)
            if self._settling:
                self._confirmed.add(domain)
            elif domain not in self._confirmed:
                new = True
                self.latest = domain
        if self._settling:
            self._settling -= 1
            self._first = len(self._confirmed)
        self.outside += new

    def confirm(self) -> None:
        """Accept the present scope: a person has seen it."""
        self._confirmed |= self._domains
        self.outside = 0

    @property
    def resources(self) -> int:
        """Different ones."""
        return len(self._touched)

    @property
    def expansion(self) -> float | None:
        """Domains it changed, against those of the beginning; None before the beginning is over."""
        return len(self._domains) / max(self._first, _LEAST) if self._first and not self._settling else None


def domain_of(resource: str) -> str:
    """Return the part of the world a resource belongs to: a host, a folder, a table's database, the kind of an id."""
    if "://" in resource:
        # By hand: urlsplit refuses some of what an agent may write, and nothing that it writes may end its watching.
        return _AUTHORITY.split(resource.partition("://")[2], maxsplit=1)[0] or resource
    kind, colon, rest = resource.partition(":")
    path = rest if colon and len(kind) > 1 else resource
    if "/" in path:
        folders = [part for part in path.split("/")[:-1] if part not in ("", ".", "..")]
        return "/".join(folders[-2:]) or "."
    return kind if colon else path.partition(".")[0]
