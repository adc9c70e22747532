"""The way from a handle to its sessions: an open store and a server each provide one."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from midcourse.core.audit_export import Title
from midcourse.core.commands import AnyCommand, Undo
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Recorded
from midcourse.core.ids import Position, SessionId
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import Intervention
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Level, Reply
from midcourse.core.session import Session, Status
from midcourse.core.signals import Signals
from midcourse.ports.bus import Delta
from midcourse.ports.clock import Clock

T = TypeVar("T")


class Request(msgspec.Struct, frozen=True):
    """The HTTP request for a verb over many sessions."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    place: str
    """The address below the API's; a parameter in braces is a part of it."""
    read: Callable[[bytes], Any]
    """Returns what the answer holds."""
    sends: Callable[[dict[str, Any]], dict[str, Any]]
    """Returns what is sent of the verb's parameters."""
    item: Any = None
    """For a list: the type of one, in the field ``within`` of each page."""
    within: str = ""
    once: str = ""
    """The prefix of its Idempotency-Key; with one, a request whose connection was lost is sent again."""
    patience: float = 0.0
    """Seconds that the answer may take beyond the usual."""


class Transport(Protocol):
    """Carries commands to sessions and requests over many of them, and reads what is known of them."""

    @property
    def clock(self) -> Clock:
        """The clock by which callers wait."""
        ...

    async def send(self, session_id: SessionId, command: AnyCommand, *, until: Level, wait: float) -> Reply:
        """Send a command and return its answer once ``until`` is reached, or after ``wait`` seconds."""
        ...

    async def undo(self, session_id: SessionId, command: Undo, *, wait: float) -> Receipt:
        """Send an undo and return the receipt once it is final, or after ``wait`` seconds."""
        ...

    async def preview(self, session_id: SessionId, *, force: bool, restart: bool) -> Mapping[UndoChoice, Receipt]:
        """Return what a cancel would make of each effect, by its ``undo``."""
        ...

    async def receipt(self, session_id: SessionId) -> Receipt:
        """Return what became of each effect."""
        ...

    async def state(self, session_id: SessionId) -> Session:
        """Return the session as its journal tells it."""
        ...

    async def status(self, session_id: SessionId) -> Status:
        """Return the session's status."""
        ...

    async def inspect(self, session_id: SessionId, at: int | None) -> Inspection:
        """Return the session as it was at a journal position."""
        ...

    async def interventions(self, session_id: SessionId) -> Sequence[Intervention]:
        """Return what policies, and the agent itself, have stepped in with."""
        ...

    async def signals(self, session_id: SessionId) -> Signals:
        """Return each signal with its thresholds and its history."""
        ...

    def watch(
        self, session_id: SessionId, *, after: Position, deltas: bool, follow: bool
    ) -> AsyncGenerator[Recorded | Delta]:
        """Yield every event after a position, once and in order, until the session ends."""
        ...

    async def result(self, session_id: SessionId) -> Any:
        """Wait for the session's end and return what its agent returned."""
        ...

    async def fork(self, session_id: SessionId, at: int | None, *, new: str | None, paused: bool, by: str) -> SessionId:
        """Begin a new session at a point of this one and return its id."""
        ...

    async def erase(self, session_id: SessionId, reason: str, *, children: bool, by: str) -> Session:
        """Erase what was written in a session that has ended."""
        ...

    async def find(self, session_id: str) -> SessionId:
        """Return the id of a session that exists."""
        ...

    async def do(self, request: Request, given: dict[str, Any], work: Callable[[], Awaitable[T]]) -> T:
        """Return what ``work`` does on an open store, or what a server answers to the request."""
        ...

    def audit_export(self, title: Title) -> AsyncIterator[bytes]:
        """Yield the audit log as a file in pieces."""
        ...
