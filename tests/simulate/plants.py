"""Faults of the past, put back on purpose: a simulation that does not find them is worth nothing."""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

Plant = Callable[[], AbstractContextManager[object]]

PLANTS: Final[Mapping[str, Plant]] = {}
"""What ``--plant`` takes."""


@contextmanager
def planted(name: str) -> Generator[None]:
    """Put a fault back, for a while."""
    with PLANTS[name]() if name else nullcontext():
        yield
