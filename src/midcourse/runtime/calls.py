"""One attempt at a step, in flight: what it is, how it is stopped, and the text it has streamed."""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, cast

from midcourse.core.codec import Value
from midcourse.core.effects import Effect
from midcourse.core.events import Continues, Observation, SegmentWritten, StepKind
from midcourse.core.ids import SessionId, StepId
from midcourse.core.prices import Price, Prices
from midcourse.core.replies import RunningCall
from midcourse.errors import Interrupt, InterruptRequested, MisusedRun
from midcourse.ports.sender import enter_agent

IN_THREAD: Final = (
    "asked to end; its thread has not ended yet, and no thread can be aborted: declare the tool with "
    'run_in="process" to have it killed, or let it check midcourse.current_call().cancelled'
)
"""The work of a plain function's call that a stop would abort."""


@dataclass(slots=True, eq=False)
class CancelFlag:
    """A flag that a thread polls while the driver's thread sets it: one attribute is enough, and costs nothing."""

    yes: bool = False


@dataclass(slots=True, eq=False)
class CallCost:
    """The reported cost of a call so far: all that is known of it if the call is cut."""

    cost: float | None = None
    tokens: int | None = None


@dataclass(slots=True, eq=False)
class CallInFlight:
    """An attempt that has passed the gate. Streams keep the tail that is not a durable segment yet.

    ``foreseen``: dollars that it was priced at, which are kept for it until it ends. ``has_ended``: nothing of it runs,
    and its end is journaled once the stop that aborted it is decided.
    """

    step: StepId
    name: str
    kind: StepKind
    attempt: int
    since: float
    effect: Effect = "read"
    key: str = ""
    note: str = ""
    prefix: str = ""
    way: Continues = ""
    continues: Continues | None = None
    answers: "tuple[Value, ...]" = ()
    asked_to_end: CancelFlag = field(default_factory=CancelFlag)
    spent: CallCost = field(default_factory=CallCost)
    foreseen: float = 0.0
    task: "asyncio.Task[None] | None" = None
    in_thread: bool = False
    is_setting_going: bool = False
    stopped: bool = False
    has_ended: bool = False
    limit: "asyncio.Timeout | None" = None
    timed_out: bool = False
    cut: bool = False
    offset: int = 0
    tokens: int = 0
    tail: list[str] = field(default_factory=list[str])

    def stop(self) -> None:
        """Abort it if it can be aborted. A thread can only be asked: it is still running until it ends.

        On the agent's loop.
        """
        if self.stopped or self.task is None:
            return
        self.asked_to_end.yes = True
        if not self.in_thread:
            self.stopped = True
            self.task.cancel()

    def write(self, piece: str) -> int:
        """Take in one streamed piece and return its offset. Under the journal's lock."""
        offset = self.offset
        self.tail.append(piece)
        self.offset += len(piece)
        self.tokens += 1
        return offset

    def take_tail(self) -> tuple[SegmentWritten, ...]:
        """Return the text streamed since the last segment, as a segment. Under the journal's lock."""
        if not self.tail:
            return ()
        text = "".join(self.tail)
        self.tail.clear()
        offset, cost = self.offset - len(text), max(0.0, self.spent.cost or 0.0)
        tokens = self.tokens if self.spent.tokens is None else self.spent.tokens
        written = SegmentWritten(
            step=self.step,
            attempt=self.attempt,
            offset=offset,
            text=text,
            cost=cost,
            tokens=tokens,
            free=self.spent.cost == 0,
            continues=self.continues or "",
        )
        return (written,)

    def running(self, now: float) -> RunningCall:
        """Return it for a command's reply."""
        doing = self.note
        if self.in_thread and self.asked_to_end.yes:
            doing = IN_THREAD
        seconds = round(max(0.0, now - self.since), 3)
        return RunningCall(self.step, self.name, self.kind, self.attempt, seconds, self.effect, doing)


@dataclass(slots=True, eq=False)
class CallEnd:
    """The end of an attempt: stopped, by an error, by an interrupt, or with a result.

    ``returned``: its function did, even if the result could not be used.
    """

    stopped: bool = False
    returned: bool = False
    error: BaseException | None = None
    interrupt: Interrupt | None = None
    content: bytes | None = None
    streamed: bool = False
    nothing_done: bool = False
    cost: float | None = None
    tokens: int = 0
    observed: Mapping[str, Observation] = field(default_factory=dict[str, Observation])


def _affords_all(_cost: float) -> None:
    """Outside a session nothing is too dear."""


@dataclass(frozen=True, slots=True)
class CurrentCall:
    """The facts that a step's body can know of its own call."""

    step: StepId
    name: str
    attempt: int
    key: str = ""
    """The key that identifies this call outside: send it along, so that a second request under it does nothing."""
    prefix: str = ""
    """The earlier attempt's text, if this one continues it: ``way`` says how."""
    answers: tuple[object, ...] = ()
    """People's answers to each ``Interrupt`` that this call has raised so far."""
    asked_to_end: CancelFlag = field(default_factory=CancelFlag, repr=False)
    spent: CallCost = field(default_factory=CallCost, repr=False)
    prices: Prices = field(default_factory=dict[str, Price], repr=False)
    """The declared prices of models that are on no price list."""
    afford: Callable[[float], None] = field(default=_affords_all, repr=False)
    usual_output: int = 0
    """Tokens that a model's answer has in this session, on average of the last few."""
    live: CallInFlight | None = field(default=None, repr=False)

    def spend(self, cost: float | None, tokens: int | None = None) -> None:
        """Report the cost of this call so far, in all; None: unknown. A cut is charged with the last report.

        During a stream, it cuts the stream where the session's budget ends.
        """
        self.spent.cost, self.spent.tokens = cost, tokens

    @property
    def way(self) -> Continues:
        """The way this call continues ``prefix``, as the earlier attempt reported."""
        return "" if self.live is None else self.live.way

    def continue_at(self, offset: int) -> None:
        """Continue after so much of ``prefix``; the rest of it is sent again. Call it before any text."""
        if self.live is not None:
            self.live.offset = offset

    def can_continue(self, way: Continues) -> None:
        """Report how the next attempt would continue if this one is cut; empty: it would begin again."""
        if self.live is not None:
            self.live.continues = way

    def foresee(self, cost: float) -> None:
        """Say what a request is going to cost, before it is made.

        Raises:
            InterruptRequested: that is more than is left of the session's budget, which is paused for it.
        """
        self.afford(cost)

    @property
    def answer(self) -> Any:
        """A person's answer to the last ``Interrupt`` that this call has raised; None if it raised none."""
        return self.answers[-1] if self.answers else None

    @property
    def cancelled(self) -> bool:
        """True if a stop wants this call to end. A plain function, which runs in a thread, should check it often."""
        return self.asked_to_end.yes

    def raise_if_cancelled(self) -> None:
        """End here if a stop wants it. What a function that has been asked to end returns counts as its result.

        Raises:
            InterruptRequested: it does; ``except Exception`` does not catch it.
        """
        if self.cancelled:
            raise InterruptRequested


_current: ContextVar[CurrentCall | None] = ContextVar("midcourse_current_call", default=None)


def current_call() -> CurrentCall:
    """Return the call whose body this code runs in: its key, its attempt, a stop's request, a person's answer.

    Raises:
        MisusedRun: this code does not run in a step.
    """
    call = _current.get()
    if call is None:
        raise MisusedRun(
            "current_call() was used outside a step. It tells a step's body about its own call: "
            "use it inside a function that run.step or run.stream calls.",
            code="not_in_a_step",
        )
    return call


def is_stop(error: BaseException, task: "asyncio.Task[Any] | None") -> bool:
    """Return whether what left user code stops ``task``, which awaits it: it is cancelled, or discarded with its loop.

    Everything else that code has raised by itself, and it ends no more than its call.
    """
    try:
        is_discarded = task is None or asyncio.current_task() is not task
    except RuntimeError:  # no loop runs
        return True
    return is_discarded or (isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0)


def in_a_step() -> bool:
    """Return True if this code runs in the body of a step."""
    return _current.get() is not None


def enter_process(about: object) -> None:
    """Enter the call that ``about`` describes, in a process that runs a step's function."""
    session, step, name, attempt, key = cast("tuple[SessionId, StepId, str, int, str]", about)
    enter_agent(session, process=True)
    enter(CurrentCall(step, name, attempt, key))


def enter(call: CurrentCall | None) -> None:
    """Mark the present context as the body of ``call``, or of none: an agent that a step started is not that step."""
    _current.set(call)
