"""Fixtures of the runtime's tests."""

from tests.promises.harness import place

__all__ = ["place"]
