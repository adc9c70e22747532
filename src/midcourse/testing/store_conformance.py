"""Every promise of the store port as a test: derive from ``StoreConformance`` and bring four fixtures.

::

    class TestMyStore(StoreConformance):
        @pytest.fixture
        async def store(self, tmp_path): ...        # an open store without sessions
        @pytest.fixture
        async def peer(self, store, tmp_path): ...  # another store object on the same data
        @pytest.fixture
        def crash(self): ...                        # async (store): ends its worker as the end of the process would
        @pytest.fixture
        def damage(self, store): ...                # async (what, session_id): changes a byte of what is kept

The tests are coroutines: run them with pytest-asyncio in auto mode. For readable failures put
``pytest.register_assert_rewrite("midcourse.testing")`` into a conftest.
"""

from midcourse.testing.store_promises.audit import AuditPromises
from midcourse.testing.store_promises.contents import KeepingPromises
from midcourse.testing.store_promises.erasure import ErasingPromises
from midcourse.testing.store_promises.fixtures import Crash, Damage, Kept
from midcourse.testing.store_promises.inbox import InboxPromises
from midcourse.testing.store_promises.journal import JournalPromises
from midcourse.testing.store_promises.ownership import OwnershipPromises
from midcourse.testing.store_promises.shelves import ShelfPromises

__all__ = ["Crash", "Damage", "Kept", "StoreConformance"]


class StoreConformance(
    JournalPromises, InboxPromises, OwnershipPromises, KeepingPromises, AuditPromises, ShelfPromises, ErasingPromises
):
    """All of it. Every backend runs all of it."""
