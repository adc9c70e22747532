"""Fixtures of the checkpoint tests."""

from collections.abc import Iterator

import pytest

from tests.checkpoints.servers import Server
from tests.promises.harness import place

__all__ = ["place"]


@pytest.fixture(scope="session")
def _shared() -> Iterator[Server]:
    server = Server()
    server.start()
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def redis(_shared: Server) -> Server:
    """A Redis that is empty, and stays up."""
    _shared.client.flushall()
    return _shared


@pytest.fixture
def frail() -> Iterator[Server]:
    """A Redis of this test alone, which is not up yet."""
    server = Server()
    try:
        yield server
    finally:
        server.end()
