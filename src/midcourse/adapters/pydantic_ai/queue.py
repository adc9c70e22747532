"""Keep what calls enqueue into a conversation of Pydantic AI: with the call that did, and until it is delivered."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from pydantic_ai import RunContext
from pydantic_ai._enqueue import PendingMessage, PendingMessageQueue
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest

from midcourse.adapters.pydantic_ai.conversation import dump
from midcourse.runtime.run import Run

ENQUEUED: Final = "enqueued"
"""The key of ``run.state`` that has what waits until the agent is idle."""


class CallQueue(PendingMessageQueue):
    """The queue that one call of a tool writes to: the run's queue gets it when the call has ended, once.

    An attempt that a stop aborts leaves nothing behind. What a finished call enqueued is journaled with its result, so
    that it is there where the call is not made again.
    """

    def __init__(self, run: Run, key: str, queue: PendingMessageQueue) -> None:
        super().__init__()
        self._run = run
        self._name = f"{ENQUEUED} {key}"
        self._queue = queue
        self._loads: list[tuple[str, Sequence[Any]]] = []
        self._began = self._ended = self._is_kept = False

    def append(self, pending: PendingMessage) -> None:
        """Enqueue one piece. In any thread."""
        with self._lock:
            if not self._ended:
                self.extend((pending,))
                return
        self._queue.append(pending)

    def append_capability_load(self, capability_id: str, records: Sequence[Any]) -> bool:
        """Enqueue the load of a capability, which is the run's own: loaded twice is loaded once."""
        self._loads.append((capability_id, records))
        return self._queue.append_capability_load(capability_id, records)

    def begin(self) -> None:
        """Begin an attempt, with nothing of an earlier one. In any thread."""
        with self._lock:
            self.clear()
        self._began = True

    def keep(self) -> None:
        """Journal what the call has enqueued: as it ends, and in place of what an earlier attempt had."""
        if self or self._loads or self._is_kept:
            self._is_kept = True
            loads = [[name, dump([ModelRequest(parts=records)])] for name, records in self._loads]
            self._run.keep(self._name, {"queue": dumped(self), "loads": loads})

    async def end(self, ctx: RunContext[Any], *, failed: bool = False) -> None:
        """End the call: the run's queue gets what it enqueued, here or where it was made."""
        with self._lock:
            self._ended = True
        if failed and self._began:
            self.keep()
        kept: dict[str, list[Any]] | None = None if self._began else await self._run.kept(self._name)
        for pending in self if kept is None else loaded(kept["queue"], ctx):
            self._queue.append(pending)
        for name, content in () if kept is None else kept["loads"]:
            (request,) = ModelMessagesTypeAdapter.validate_python(content)
            self._queue.append_capability_load(name, cast("Any", request.parts))


class Waiting:
    """The waiting items of a run's queue; the run that replaces it, after a redirect or elsewhere, takes them over."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._queue: list[PendingMessage] = loaded(run.state.get(ENQUEUED, ()))

    def begin(self, queue: list[PendingMessage]) -> None:
        """Begin a run with this queue: it takes over what waits."""
        queue.extend(self._queue)
        self._queue = queue

    def keep(self) -> None:
        """Have ``run.state`` hold what waits."""
        if self._queue:
            self._run.state[ENQUEUED] = dumped(self._queue)
        else:
            self._run.state.pop(ENQUEUED, None)


def dumped(queue: Iterable[PendingMessage]) -> list[Any]:
    """Return what is enqueued as JSON has it."""
    return [
        {
            "messages": dump(pending.messages),
            "priority": pending.priority,
            "id": pending.enqueue_id,
            "beside": pending._tool_call is not None,  # noqa: SLF001 - its place in the conversation  # pyright: ignore[reportPrivateUsage]
        }
        for pending in queue
    ]


def loaded(content: Iterable[Any], ctx: RunContext[Any] | None = None) -> list[PendingMessage]:
    """Return what was enqueued, by the call whose context ``ctx`` is: some of it belongs beside the call's result."""
    call = (ctx.tool_call_id, ctx.run_step) if ctx is not None and ctx.tool_call_id is not None else None
    return [
        PendingMessage(
            messages=ModelMessagesTypeAdapter.validate_python(one["messages"]),
            priority=one["priority"],
            enqueue_id=one["id"],
            _tool_call=call if one["beside"] else None,
        )
        for one in content
    ]
