"""Limit how many sessions run at once in a process: first come first served, agents taking turns."""

from collections import OrderedDict, deque
from typing import Protocol

from midcourse.core.ids import SessionId


class Applicant(Protocol):
    """A queued session's driver."""

    @property
    def id(self) -> SessionId: ...

    def wake(self) -> None:
        """Start the session: its turn has come."""
        ...


class Admission:
    """Counts those that run. Without a limit everybody is let in. On the agents' loop."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._inside: set[SessionId] = set()
        self._called: set[SessionId] = set()
        self._queues: OrderedDict[str, deque[Applicant]] = OrderedDict()

    def let_in(self, applicant: Applicant, agent: str) -> bool:
        """Return True if the session may begin now; if not, it is woken when its turn comes."""
        if self._limit is None or applicant.id in self._inside:
            return True
        if applicant.id in self._called or (self._has_room and not self._queues):
            self._called.discard(applicant.id)
            self._inside.add(applicant.id)
            return True
        queue = self._queues.setdefault(agent, deque())
        if applicant not in queue:
            queue.append(applicant)
        return False

    def entered(self, session: SessionId) -> None:
        """Note that a session continues that was let in before: a person's resume does not wait in the queue."""
        if self._limit is not None:
            self._inside.add(session)

    def left(self, session: SessionId) -> None:
        """Note that a session rests or has ended, and wake the next, of the agent that has waited longest."""
        if self._limit is None:
            return
        self._inside.discard(session)
        self._called.discard(session)
        for agent in list(self._queues):
            queue = self._queues[agent]
            for applicant in [one for one in queue if one.id == session]:
                queue.remove(applicant)
            if not queue:
                del self._queues[agent]
        while self._has_room and self._queues:
            agent, queue = self._queues.popitem(last=False)
            applicant = queue.popleft()
            if queue:
                self._queues[agent] = queue  # to the end: every other agent has its turn first
            self._called.add(applicant.id)
            applicant.wake()

    @property
    def _has_room(self) -> bool:
        return self._limit is None or len(self._inside) + len(self._called) < self._limit
