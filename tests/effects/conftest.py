"""Fixtures of the effects' tests."""

from collections.abc import Generator

import pytest

from tests.effects.remote import Remote, serving
from tests.promises.harness import place

__all__ = ["place", "remote"]


@pytest.fixture
def remote() -> Generator[Remote]:
    """A remote of the test's own."""
    with serving() as served:
        yield served
