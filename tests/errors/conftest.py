"""Fixtures of the tests of bad input."""

from tests.promises.harness import place

__all__ = ["place"]
