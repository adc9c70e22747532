"""Fixtures of the policy's tests."""

from tests.promises.harness import only_memory

__all__ = ["only_memory"]
