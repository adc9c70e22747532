"""Fixtures of the policy's tests."""

from tests.promises.harness import place

__all__ = ["place"]
