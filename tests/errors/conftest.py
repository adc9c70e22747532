"""Fixtures of the tests of bad input."""

from tests.promises.harness import only_memory

__all__ = ["only_memory"]
