"""Fixtures of the runtime's tests."""

from tests.promises.harness import only_memory
from tests.promises.harness import place as each_place

__all__ = ["each_place", "only_memory"]
