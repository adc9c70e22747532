"""The buses keep every promise of the bus port."""

from collections.abc import Iterator

import pytest

from midcourse.bus.local import LocalBus
from midcourse.bus.memory import MemoryBus
from midcourse.testing.bus_conformance import BusConformance


class TestMemoryBus(BusConformance):
    """Within this process."""

    @pytest.fixture
    def bus(self) -> Iterator[MemoryBus]:
        bus = MemoryBus()
        yield bus
        bus.close()

    @pytest.fixture
    def peer(self) -> Iterator[MemoryBus]:
        peer = MemoryBus()
        yield peer
        peer.close()


class TestLocalBus(BusConformance):
    """Between the processes of this machine."""

    @pytest.fixture
    def bus(self) -> Iterator[LocalBus]:
        bus = LocalBus()
        yield bus
        bus.close()

    @pytest.fixture
    def peer(self) -> Iterator[LocalBus]:
        peer = LocalBus()
        yield peer
        peer.close()
