"""Fixtures of the effects' tests."""

from collections.abc import Generator

import pytest

from midcourse.runtime import undo
from tests.effects.remote import Remote, serving
from tests.promises.harness import place

__all__ = ["impatient", "place", "remote"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo that raised is tried again soon."""
    monkeypatch.setattr(undo, "FIRST_PAUSE", 0.001)


@pytest.fixture
def remote() -> Generator[Remote]:
    """A remote of the test's own."""
    with serving() as served:
        yield served
