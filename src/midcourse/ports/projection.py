"""A view of sessions for others to read, kept up to date in the background: never the truth, and never waited for."""

from typing import Protocol

from midcourse.core.ids import SessionId


class Projection(Protocol):
    """Show sessions to others. It is notified that a session has moved, and reads its journal at its own pace."""

    def moved(self, session_id: SessionId) -> None:
        """Note that the session's journal has durably grown, or was acquired here. On any thread; returns at once."""
        ...

    def left(self, session_id: SessionId) -> None:
        """Note that nothing of the session is in this process any more. On any thread; returns at once."""
        ...

    def erased(self, session_id: SessionId) -> None:
        """Note that the session's texts were erased: show it anew. On any thread; returns at once."""
        ...

    async def close(self) -> None:
        """Show what has not been shown yet, for a moment at most, and stop. The store is still open."""
        ...


class ViewBoard(Protocol):
    """The place of a view: a text under a name. Everything is called on one event loop."""

    @property
    def name(self) -> str:
        """Its name for people, without secrets."""
        ...

    async def put(self, key: str, content: bytes, seconds: float | None) -> None:
        """Replace what stands under ``key``, for ``seconds`` or for good.

        Raises:
            StoreUnavailable: it cannot be written to now; the sentence says why.
        """
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...
