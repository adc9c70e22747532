"""Fixtures of the promises."""

from tests.promises.harness import place

__all__ = ["place"]
