"""Where the sessions of these tests live."""

from tests.promises.harness import memory, place

__all__ = ["memory", "place"]
