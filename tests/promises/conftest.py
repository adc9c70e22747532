"""Fixtures of the promises."""

from tests.promises.harness import memory, place

__all__ = ["memory", "place"]
