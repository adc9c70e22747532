"""Faults of the past, put back on purpose: a tester that does not find them is worth nothing."""

from collections.abc import Callable, Mapping
from typing import Final

PLANTS: Final[Mapping[str, Callable[[], None]]] = {}
"""What ``--plant`` takes."""


def plant(name: str) -> None:
    """Put a fault back into this process."""
    if name:
        PLANTS[name]()
