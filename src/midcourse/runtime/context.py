"""The shared parts of every driver of a process: the store, the clock, listeners, threads, the agents' loop."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from midcourse.core.budget import Outlay
from midcourse.core.commands import AnyCommand
from midcourse.core.ids import SessionId
from midcourse.core.replies import Level, Reply
from midcourse.core.session import Session
from midcourse.core.terms import Terms
from midcourse.policy.document import Environments
from midcourse.ports.active_switches import ActiveSwitches
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store
from midcourse.runtime.admission import Admission
from midcourse.runtime.agents import Agent
from midcourse.runtime.fanout import Fanout
from midcourse.runtime.process_pool import ProcessPool
from midcourse.runtime.settings import Settings


class SessionTree(Protocol):
    """The operations of a session on its children, in any process."""

    async def create_child(self, child: SessionId, agent: Agent[object], goal: str, parent: SessionId) -> None:
        """Create the child, queued and unowned, or find it as it is."""
        ...

    async def start_child(self, child: SessionId, parent: SessionId, *, again: bool) -> None:
        """Start a queued child, lift what its parent had stopped it with, and try a failed one ``again``."""
        ...

    async def restart(self, session: Session) -> SessionId:
        """Begin anew what was forced to end; again, after a crash, it is the same new session."""
        ...

    async def reopened(self, session: Session) -> Sequence[SessionId]:
        """Return the sessions below this one that had ended and work again, as far as no live one is between."""
        ...

    async def look_up(self, child: SessionId) -> Session:
        """Return the child as it is, at the least cost."""
        ...

    def affords(self, session_id: SessionId, price: float) -> bool:
        """Return True if a session and those above it, if driven here, can pay ``price``; else they pause."""
        ...

    def lets_priced_end(self, child: Session, command: AnyCommand) -> bool:
        """Return whether a command to a child passes on its parent's pause for the price of a call alone."""
        ...

    def look_up_here(self, session_id: SessionId) -> Session | None:
        """Return a session as it is, if it is driven here."""
        ...

    def count_child(self, parent: SessionId, child: SessionId, dollars: float) -> None:
        """Tell a parent, if it is driven here, what a child has spent in all."""
        ...

    async def left_above(self, session: Session) -> float | None:
        """Dollars that those above a session can still pay, if other processes drive them; None: any sum."""
        ...

    async def cost(self, session_id: SessionId) -> float:
        """Dollars that a session has spent, with what its children have that have not ended.

        Raises:
            SessionNotFound: no such session.
            Damaged: its journal is damaged.
        """
        ...

    def outlay(self, session_id: SessionId) -> Outlay | None:
        """Return the spent and reserved budget of a session that is driven here, running calls included."""
        ...

    async def send(self, session_id: SessionId, command: AnyCommand, *, until: Level, wait: float) -> Reply:
        """Send a command to any session."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext:
    """The shared parts of every driver of a process."""

    store: Store
    clock: Clock
    fanout: Fanout
    settings: Settings
    threads: Executor
    processes: ProcessPool
    loop: asyncio.AbstractEventLoop
    is_fresh: Callable[[], bool]
    owes: Callable[[SessionId], bool]
    """Returns whether a stop was sent to that session that is not in its inbox yet."""
    admission: Admission
    environments: Callable[[str], Environments | None]
    """Where the policy of that name wants a person to be asked; None without a policy."""
    most_for_a_call: Callable[[str], float | None]
    """Dollars that one call may cost under the policy of that name; None: any sum."""
    longest_correction: Callable[[str], int | None]
    """Characters of the longest correction that the policy of that name takes; None: any length."""
    requires_hypothesis: Callable[[Terms], bool]
    """True if an agent under these terms must state a hypothesis before it acts."""
    tree: SessionTree
    standing: ActiveSwitches
    """The kill switches: checked before an agent begins."""
