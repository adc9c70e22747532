"""Performs an agent's steps: replays what is journaled, begins what is not, and journals how each attempt ended.

Every step runs in a task of the driver. The agent's side only waits, so an agent (or its framework) that gives up
waiting tears nothing: the call goes on, and its result is journaled.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from midcourse.core import events as ev
from midcourse.core.codec import NOTHING, Value, decode, encode, value_of
from midcourse.core.ids import StepId
from midcourse.core.session import Status
from midcourse.core.steps import StepRecord, check_same
from midcourse.errors import Diverged, Interrupt, InterruptRequested, MidcourseError, StepError, words_of
from midcourse.runtime.agents import Agent
from midcourse.runtime.asking import Asking, OnRedirect, Question, interrupt_id, redirected
from midcourse.runtime.calls import Call, CurrentCall, Ended, enter
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.loading import content_of
from midcourse.runtime.streaming import Streaming
from midcourse.runtime.surroundings import Surroundings
from midcourse.runtime.tending import Tending
from midcourse.runtime.watchdog import task_name

OnCut = Literal["regenerate", "continue"]
AT_ONCE: Final = 100
"""Finished steps given back in a row, before others have their turn."""
MAY_HAVE_HAPPENED = "interrupted by a redirect; it may have happened"
CUT_BY_REDIRECT = "the stream was cut by a redirect; its text is kept"


@dataclass(slots=True, eq=False, kw_only=True)
class Step:
    """What the agent asked for."""

    id: StepId
    name: str
    kind: ev.StepKind
    digest: str
    arguments: str
    body: Callable[..., object]
    given: tuple[object, ...] = ()
    is_async: bool = False
    child: "tuple[Agent[object], str] | None" = None
    returns: Any = Any
    on_redirect: OnRedirect = "again"
    on_cut: OnCut = "regenerate"

    def call(self) -> object:
        """Call the body with what it was given."""
        return self.body(*self.given)


class Steps:
    """The steps of one session, on the agent's loop."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        around: Surroundings,
        *,
        moved: Callable[[], None],
        diverged: Callable[[Diverged], None],
    ) -> None:
        self._journal = journal
        self._gate = gate
        self._around = around
        self._moved = moved
        self._diverged = diverged
        self._asking = Asking(journal, gate, around.store, moved=moved, diverged=diverged)
        self._streaming = Streaming(journal, gate, around)
        self._tending = Tending(journal, around, moved=moved)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiters: dict[StepId, list[asyncio.Future[Any]]] = {}
        self._recalled = 0

    async def perform(self, wanted: Step | Question) -> object:
        """What the journal knows of it; or else what comes of doing it, in a task of the driver."""
        if isinstance(wanted, Step):
            record = self._journal.log.steps.get(wanted.id)
            if (
                record is not None
                and record.outcome == "finished"
                and record.digest == wanted.digest
                and not record.value.blob
            ):
                # Most of a replay is this: no task, no future, and everybody else's turn now and then.
                self._recalled += 1
                if self._recalled % AT_ONCE == 0:
                    await asyncio.sleep(0)
                return record.text if record.streamed else decode(record.value.raw, wanted.returns)
        return await self._submit(wanted)

    def _submit(self, wanted: Step | Question) -> "asyncio.Future[Any]":
        """Do it in a task of the driver; the future is for the agent to wait on."""
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if wanted.id in self._waiters:
            # The agent had given up waiting, and asks for it again while it is under way: it is the same call.
            self._waiters[wanted.id].append(waiter)
            return waiter
        self._waiters[wanted.id] = [waiter]
        perform = self._perform(wanted) if isinstance(wanted, Step) else self._asking.answer(wanted)
        name = task_name(self._journal.session.id, f"step {wanted.id}")
        task = asyncio.get_running_loop().create_task(self._deliver(wanted.id, perform), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return waiter

    async def _deliver(self, identity: StepId, perform: Awaitable[object]) -> None:
        try:
            value = await perform
        except asyncio.CancelledError:
            for waiter in self._waiting_for(identity):
                waiter.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - it is the agent's to see, stops included
            for waiter in self._waiting_for(identity):
                waiter.set_exception(error)
                waiter.exception()  # the agent may have given up waiting: that is not an error of its own
        else:
            for waiter in self._waiting_for(identity):
                waiter.set_result(value)

    def _waiting_for(self, identity: StepId) -> list["asyncio.Future[Any]"]:
        return [waiter for waiter in self._waiters.pop(identity) if not waiter.done()]

    async def _perform(self, step: Step) -> object:
        record = self._journal.log.steps.get(step.id)
        if record is not None:
            try:
                check_same(step.id, record, step.digest, step.arguments)
            except Diverged as error:
                # The agent must not get a chance to catch this and go on along the other path.
                self._diverged(error)
                raise InterruptRequested from error
            if record.outcome:
                return await self._replayed(step, record)
        while True:
            answer = await self._asking.answer_to_interrupt(step.id, step.name)
            await self._gate.wait()
            self._close_if_redirected(step)
            call = await self._begin(step, answer)
            if call is None:
                continue
            ended = await self._execute(step, call)
            self._journal_end(step, call, ended)
            self._moved()
            if ended.error is not None:
                raise _step_error(step, type(ended.error).__name__, words_of(ended.error)) from ended.error
            if ended.streamed:
                return self._journal.log.steps[step.id].text
            if ended.content is not None:
                # Through the codec, so that the agent sees now what it would see after a resume.
                return decode(ended.content, step.returns)

    async def _begin(self, step: Step, answer: Value | None) -> Call | None:
        """Journal the start, then pass the gate. None: it shut in between."""
        journal, gate = self._journal, self._gate
        with journal.lock:
            if not gate.is_open:
                return None
            record = journal.log.steps.get(step.id)
            attempt = record.attempt + 1 if record else 1
            prefix = record.text if record and step.on_cut == "continue" else ""
            call = Call(
                step.id,
                step.name,
                step.kind,
                attempt,
                self._around.clock.monotonic(),
                prefix,
                answer,
                offset=len(prefix),
            )
            begun = ev.StepBegun(
                step=step.id,
                name=step.name,
                kind=step.kind,
                attempt=attempt,
                digest=step.digest,
                arguments="" if record else step.arguments,
            )
            starts = (ev.SessionWoken(), begun) if journal.session.status is Status.WAITING else (begun,)
            if step.kind == "model":
                # A model call changes nothing in the world, so its start need not be durable before it runs.
                for event in starts:
                    journal.note(event)
                gate.begun[step.id] = call
                return call
            written = journal.append(*starts)
            gate.on_the_way.add(step.id)
        try:
            await written
        except MidcourseError as error:  # the owner stops; nothing of this is the agent's to handle
            raise InterruptRequested from error
        finally:
            gate.on_the_way.discard(step.id)
        with journal.lock:
            # Last of all, and in one hold of the lock with whoever shuts the gate.
            if gate.is_open:
                call.since = self._around.clock.monotonic()
                gate.begun[step.id] = call
                return call
            journal.note(ev.StepNotBegun(step=step.id, attempt=attempt))
        self._moved()
        return None

    async def _execute(self, step: Step, call: Call) -> Ended:
        task = asyncio.current_task()
        assert task is not None
        call.task = cast("asyncio.Task[None]", task)
        answer = decode(await content_of(self._around.store, call.answer)) if call.answer else None
        enter(CurrentCall(call.step, call.name, call.attempt, call.prefix, answer))
        ended = Ended()
        try:
            if step.kind == "model":
                await self._streaming.read(step.call, call, ended)
            elif step.child is not None:
                await self._tending.until_ended(call, ended, *step.child)
            else:
                result = await self._invoke(step, call)
                ended.content = encode(result, what=f"The result of step '{step.name}'")
        except asyncio.CancelledError:
            if not call.stopped:
                raise
            ended.stopped = True
        except InterruptRequested:
            ended.stopped = True
        except Interrupt as interrupt:
            ended.interrupt = interrupt
        except Exception as error:  # noqa: BLE001 - whatever a body raises is the step's outcome
            # What a body makes of its abort is not how it ended by itself.
            ended.stopped = call.stopped
            ended.error = None if call.stopped else error
        while task.cancelling():
            task.uncancel()
        return ended

    async def _invoke(self, step: Step, call: Call) -> object:
        if step.is_async:
            return await cast("Awaitable[object]", step.call())
        call.in_thread = True
        try:
            loop = asyncio.get_running_loop()
            result = await asyncio.shield(loop.run_in_executor(self._around.threads, copy_context().run, step.call))
        finally:
            call.in_thread = False
        return await result if inspect.isawaitable(result) else result

    def _journal_end(self, step: Step, call: Call, ended: Ended) -> None:
        journal, attempt = self._journal, call.attempt
        with journal.lock:
            self._gate.begun.pop(step.id, None)
            for segment in call.take_tail():
                journal.note(segment)
            if ended.streamed and journal.log.steps[step.id].length != call.offset:
                # An attempt that said nothing supersedes what earlier ones had said, too.
                journal.note(ev.SegmentWritten(step=step.id, attempt=attempt, offset=call.offset, text=""))
            if ended.stopped and step.kind == "model":
                length = journal.log.steps[step.id].length
                journal.note(ev.StepCut(step=step.id, attempt=attempt, length=length, tokens=call.tokens))
            elif ended.stopped:
                journal.note(ev.StepAborted(step=step.id, attempt=attempt))
            elif ended.interrupt is not None:
                journal.note(ev.StepAborted(step=step.id, attempt=attempt))
                question = Question(
                    id=interrupt_id(step.id, attempt),
                    reason=ended.interrupt.reason,
                    prompt=ended.interrupt.prompt,
                )
                self._asking.open(question)
            elif ended.error is not None:
                kind, detail = type(ended.error).__name__, words_of(ended.error)
                failed = ev.StepFailed(
                    step=step.id, attempt=attempt, kind=kind, detail=detail, cost=ended.cost, tokens=ended.tokens
                )
                journal.note(failed)
            else:
                value, blob = value_of(ended.content) if ended.content is not None else (NOTHING, None)
                finished = ev.StepFinished(
                    step=step.id,
                    attempt=attempt,
                    value=value,
                    streamed=ended.streamed,
                    cost=ended.cost,
                    tokens=ended.tokens,
                )
                journal.note(finished, *((blob,) if blob else ()))

    async def _replayed(self, step: Step, record: StepRecord) -> object:
        match record.outcome:
            case "finished":
                return (
                    record.text
                    if record.streamed
                    else decode(await content_of(self._around.store, record.value), step.returns)
                )
            case "failed":
                raise _step_error(step, record.kind, record.detail)
            case _:
                raise redirected(self._journal.session, record.message, record.text)

    # ---- redirects

    def _close_if_redirected(self, step: Step) -> None:
        """A redirect since the last attempt closes the step for an agent that wants to be told."""
        journal = self._journal
        with journal.lock:
            record = journal.log.steps.get(step.id)
            if step.on_redirect == "again" or record is None or record.redirects == journal.log.redirects:
                return
            message = len(journal.session.messages) - 1
            truth = CUT_BY_REDIRECT if step.kind == "model" else MAY_HAVE_HAPPENED
            journal.note(ev.StepClosed(step=step.id, attempt=record.attempt, message=message, truth=truth))
        raise redirected(journal.session, message, record.text)


def _step_error(step: Step, kind: str, detail: str) -> StepError:
    return StepError(f"Step '{step.name}' failed: {kind}: {detail}", step=step.id, kind=kind, detail=detail)
