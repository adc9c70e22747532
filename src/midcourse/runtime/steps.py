"""Perform an agent's steps: replay what is journaled, begin what is not, and journal how each attempt ended.

Every step runs in a task of the driver. The agent's side only waits, so an agent (or its framework) that gives up
waiting interrupts nothing: the call continues, and its result is journaled.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from math import isfinite
from typing import Any, Final, cast

from midcourse.core import events as ev
from midcourse.core.budget import usual_output
from midcourse.core.calls import loose_key
from midcourse.core.codec import NOTHING, Blob, Value, decode, encode, secret_free, value_of, without_secrets
from midcourse.core.ids import StepId, call_key
from midcourse.core.interrupted_calls import DID_NOT_HAPPEN, MAY_HAVE_HAPPENED, NO_EFFECT, may_abort, next_act
from midcourse.core.session import Message, OpenCall, Session, Status
from midcourse.core.steps import StepRecord, check_same, interrupt_id
from midcourse.errors import (
    Diverged,
    Interrupt,
    InterruptRequested,
    InvalidInput,
    MidcourseError,
    MisusedRun,
    StepError,
    Unencodable,
    describe,
)
from midcourse.ports.store import Store
from midcourse.runtime.approvals import Approval, Approvals
from midcourse.runtime.asks import AgentAsks, Question, last_redirect, mark_seen, redirected
from midcourse.runtime.call_recovery import CallRecovery, did_it_happen_id
from midcourse.runtime.calls import CallEnd, CallInFlight, CurrentCall, enter, is_stop
from midcourse.runtime.child_step import ChildStep
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.gate import Gate
from midcourse.runtime.hypothesis_hold import HypothesisHold
from midcourse.runtime.journal import Journal
from midcourse.runtime.model_streams import ModelStreams
from midcourse.runtime.process_pool import ProcessDied
from midcourse.runtime.retries import Retries
from midcourse.runtime.session_budget import SessionBudget
from midcourse.runtime.session_loader import content_of, contents_of
from midcourse.runtime.step_request import StepRequest
from midcourse.runtime.tools import Unchanged, call_tool, path_here
from midcourse.runtime.watchdog import task_name
from midcourse.runtime.world_check import observe

AT_ONCE: Final = 100
"""Finished steps given back in a row, before others have their turn."""
CANNOT_BE_UNDONE: Final = "a stop lets it finish, because it cannot be undone"
UNDECLARED: Final = "a stop lets it finish, because it declares no effect; @midcourse.tool would let it be aborted"
CUT_BY_REDIRECT = "the stream was cut by a redirect; its text is kept"


class Steps:
    """The steps of one session, on the agent's loop."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        ctx: RuntimeContext,
        *,
        settling: CallRecovery,
        moved: Callable[[], None],
        diverged: Callable[[Diverged], None],
        purse: SessionBudget,
    ) -> None:
        self._journal = journal
        self._gate = gate
        self._ctx = ctx
        self._call_recovery = settling
        self._moved = moved
        self._diverged = diverged
        self._asking = AgentAsks(journal, gate, ctx.store, moved=moved, diverged=diverged)
        self._approvals = Approvals(journal, gate, ctx)
        self._session_budget = purse
        self._model_streams = ModelStreams(journal, gate, ctx, self._session_budget)
        self._retries = Retries(journal, gate, ctx)
        self._hypothesis = HypothesisHold(journal, gate, ctx, moved)
        self._child_step = ChildStep(journal, ctx, moved=moved, purse=self._session_budget)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiters: dict[StepId, list[asyncio.Future[Any]]] = {}
        self._recalled = 0

    async def perform(self, wanted: StepRequest | Question) -> object:
        """Return the journaled result; or else that of doing it, in a task of the driver."""
        if isinstance(wanted, StepRequest):
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
                    await self._ctx.clock.sleep(0)
                return record.text if record.streamed else _typed(wanted, bytes(record.value.raw))
        return await self._submit(wanted)

    @property
    def store(self) -> Store:
        """The session's store."""
        return self._ctx.store

    async def content_of(self, value: Value) -> bytes:
        return await content_of(self._ctx.store, value)

    def _submit(self, wanted: StepRequest | Question) -> "asyncio.Future[Any]":
        """Do it in a task of the driver; the future is for the agent to wait on."""
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if wanted.id in self._waiters:
            # The agent had given up waiting, and asks for it again while it is under way: it is the same call.
            self._waiters[wanted.id].append(waiter)
            return waiter
        self._waiters[wanted.id] = [waiter]
        perform = self._perform(wanted) if isinstance(wanted, StepRequest) else self._asking.answer(wanted)
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

    async def _perform(self, step: StepRequest) -> object:
        _check_arguments(step)
        record = self._journal.log.steps.get(step.id)
        if record is not None:
            try:
                check_same(step.id, record, step.digest, step.arguments)
            except Diverged as error:
                # The agent must not get a chance to catch this and continue along the other path.
                self._diverged(error)
                raise InterruptRequested from error
            if record.outcome:
                return await self._replayed(step, record)
        while True:
            await self._retries.wait(step)
            record = await self._settle(step)
            if record is not None and record.outcome:  # its outcome could be found out
                return await self._replayed(step, record)
            answers = await self._asking.answers_to_interrupts(step.id, step.name)
            await self._gate.wait()
            self._close_if_redirected(step)
            await self._hypothesis.wait(step)
            approval = await self._approvals.approved(step, self._key(step))
            self._close_if_redirected(step)
            await self._session_budget.look_above()
            if step.kind != "model" and not self._session_budget.affords(step.tool.cost):
                self._moved()
                continue
            # Nothing comes between the two, so that no other call is priced before this one counts.
            call = await self._begin(step, answers, approval)
            if call is None:
                continue
            ended = await self._execute(step, call)
            is_tried_again = await self._end(step, call, ended)
            self._moved()
            if is_tried_again:
                continue
            if ended.error is not None:
                tried = self._journal.log.steps[step.id].failures + 1
                raise _step_error(step, type(ended.error).__name__, _error_text(ended.error), tried) from ended.error
            if ended.streamed:
                return self._journal.log.steps[step.id].text
            if ended.content is not None:
                # Through the codec, so that the agent sees now what it would see after a resume.
                return _typed(step, ended.content)

    async def _settle(self, step: StepRequest) -> StepRecord | None:
        """Wait until what earlier attempts may have done is undone, found out, or harmless; return what is known."""
        journal = self._journal
        while (call := journal.session.calls.get(step.id)) is not None and call.end:
            if await self._call_recovery.settle(step.id, asks=step.on_redirect == "again") == "settled":
                if step.id not in journal.session.calls or self._may_begin(step.id):
                    break
                await self._gate.wait()  # paused or cancelled meanwhile: it is dealt with later
            else:
                await self._gate.wait_for_answer(did_it_happen_id(call))
        return journal.log.steps.get(step.id)

    def _may_begin(self, step: StepId) -> bool:
        with self._journal.lock:
            session = self._journal.session
            act = next_act(session, session.calls[step], self._journal.now)
            return act.do in ("again", "close")

    async def _begin(
        self, step: StepRequest, answers: tuple[Value, ...], approval: Approval | None
    ) -> CallInFlight | None:
        """Journal the start, then pass the gate. None: it shut in between."""
        journal, gate = self._journal, self._gate
        with journal.lock:
            if not gate.is_open:
                return None
            record = journal.log.steps.get(step.id)
            begun, blob = self._begun(step, record, approval)
            known = journal.session.calls.get(step.id)
            way = _way(step, record, journal.log.redirects, was_lost=known is not None and known.lost)
            prefix = record.text if record and way else ""
            call = CallInFlight(
                step.id,
                step.name,
                step.kind,
                begun.attempt,
                self._ctx.clock.monotonic(),
                begun.effect,
                begun.key,
                "" if may_abort(begun.effect) else CANNOT_BE_UNDONE if step.tool.declared else UNDECLARED,
                prefix,
                way,
                answers=answers,
                foreseen=step.tool.cost,
                offset=len(prefix),
            )
            starts = (ev.SessionWoken(), begun) if journal.session.status is Status.WAITING else (begun,)
            entry = self._approvals.audited(step, approval)
            if step.effect == "read" and step.kind != "child" and approval is None and entry is None:
                # It changes nothing in the world, so its start need not be durable before it runs.
                for event in starts:
                    journal.note(event)
                gate.begun[step.id] = call
                return call
            written = journal.append(*starts, blobs=(blob,) if blob else (), audit=(entry,) if entry else ())
            gate.on_the_way[step.id] = call
        try:
            await written
            await gate.until_fresh()
        except MidcourseError as error:  # the owner stops; nothing of this is the agent's to handle
            gate.on_the_way.pop(step.id, None)
            self._moved()  # the agent may have been taken down before: nothing else tells the owner
            raise InterruptRequested from error
        finally:
            gate.on_the_way.pop(step.id, None)
        with journal.lock:
            # Last of all, and in one hold of the lock with whoever shuts the gate.
            if gate.lets_journaled_begin:
                call.since = self._ctx.clock.monotonic()
                gate.begun[step.id] = call
                return call
            journal.note(ev.StepNotBegun(step=step.id, attempt=begun.attempt))
        self._moved()
        return None

    def _key(self, step: StepRequest) -> str:
        """Return the key that identifies the next call of ``step`` outside."""
        session, record = self._journal.session, self._journal.log.steps.get(step.id)
        before = session.calls.get(step.id)
        if before is not None and before.effect == "idempotent" and before.undo != "done":
            return before.key  # it may be one that it inherited
        if session.loose_keys and step.effect == "idempotent":
            inherited = session.loose_keys.get(loose_key(step.tool.origin, step.digest))
            if inherited is not None:
                return inherited
        return call_key(session.id, step.id, record.generation if record else 0)

    def _begun(
        self, step: StepRequest, record: StepRecord | None, approval: Approval | None
    ) -> tuple[ev.StepBegun, Blob | None]:
        """Return the start of the next attempt, with everything that a later settling must know."""
        tool, effect = step.tool, step.effect
        attempt = record.attempt + 1 if record else 1
        arguments = "" if record else step.arguments
        if effect == "read" and approval is None:
            begun = ev.StepBegun(
                step=step.id, name=step.name, kind=step.kind, attempt=attempt, digest=step.digest, arguments=arguments
            )
            return begun, None
        can_undo, can_probe = tool.undo is not None, tool.probe is not None
        given, blob = NOTHING, None
        if can_undo or can_probe:
            content = encode(step.named, what=f"The arguments of step '{step.name}'")
            free = secret_free(content)
            if free is not content:
                self._call_recovery.remember(step.id, content)
            given, blob = value_of(free)
        begun = ev.StepBegun(
            step=step.id,
            name=step.name,
            kind=step.kind,
            attempt=attempt,
            digest=step.digest,
            arguments=arguments,
            effect=effect,
            key=self._key(step),
            tool=tool.origin,
            given=given,
            settle=tool.settles_in,
            can_undo=can_undo,
            can_probe=can_probe,
            asks_if_silent=tool.if_silent == "ask",
            approval=approval.ask if approval else None,
        )
        return begun, blob

    async def _execute(self, step: StepRequest, call: CallInFlight) -> CallEnd:
        task = asyncio.current_task()
        assert task is not None
        call.task = cast("asyncio.Task[None]", task)
        ended = CallEnd()
        try:
            answers = tuple(map(decode, await contents_of(self._ctx.store, call.answers))) if call.answers else ()
            about = (call.step, call.name, call.attempt, call.key, call.prefix, answers)
            prices, usual = self._ctx.settings.prices, usual_output(self._journal.session)
            afford = partial(self._session_budget.reserve, call)
            enter(CurrentCall(*about, call.asked_to_end, call.spent, prices, afford, usual, call))
            if step.kind == "model":
                foresees = getattr(step.tool.function, "foresees", False)
                await self._model_streams.read(step.call, call, ended, foresees=foresees)
            elif step.child is not None:
                await self._child_step.run(call, ended, *step.child)
            else:
                result = await self._invoke(step, call)
                ended.returned = True
                if isinstance(result, Unchanged):
                    ended.nothing_done, result = True, result.result
                if step.shape is not None:
                    result = step.shape(result)
                ended.content = encode(result, what=f"The result of step '{step.name}'")
                if step.tool.observes:
                    ended.observed = await observe(step.tool, step.named)
        except asyncio.CancelledError as error:
            ended.stopped = call.stopped
            if not call.stopped and task.cancelling():
                raise
            ended.error = None if call.stopped else error  # something of its own was cancelled
        except InterruptRequested as error:
            ended.stopped = call.stopped or call.asked_to_end.yes
            ended.error = None if ended.stopped else error
        except Interrupt as interrupt:
            ended.interrupt = interrupt if step.may_ask else None
            if not step.may_ask:
                asked = f"This agent may not ask anybody (asks=False), and asked: {interrupt.prompt}"
                ended.error = MisusedRun(asked, code="may_not_ask")
        except Exception as error:  # noqa: BLE001 - whatever a body raises is the step's outcome
            # What a body makes of its abort is not how it ended by itself.
            ended.stopped = call.asked_to_end.yes and not call.timed_out and not isinstance(error, Unencodable)
            ended.error = None if ended.stopped else error
        except BaseException as error:  # a body that ends itself does not end its program
            if is_stop(error, task):
                raise
            ended.error = error
        while task.cancelling():
            task.uncancel()
        return ended

    async def _invoke(self, step: StepRequest, call: CallInFlight) -> object:
        """Run the function where it can best be stopped: as a task, in a process of its own, or else in a thread."""
        limit = self._retries.limit(step)
        if limit is None:
            return await self._run(step, call)
        scope = call.limit = self._ctx.clock.timeout(limit)
        try:
            async with scope:
                return await self._run(step, call)
        except TimeoutError as error:
            call.timed_out = scope.expired()
            raise TimeoutError(f"no end after {step.tool.timeout:g} s") if call.timed_out else error from None

    def _run(self, step: StepRequest, call: CallInFlight) -> Awaitable[object]:
        if step.tool.is_async:
            return cast("Awaitable[object]", step.call())
        if step.tool.run_in == "process":
            about = (self._journal.session.id, call.step, call.name, call.attempt, call.key)
            # By its import path: the tool is there, so that the function itself cannot be pickled.
            return self._ctx.processes.run(about, call_tool, (path_here(step.tool), step.given, step.by_name))
        return self._in_thread(step, call)

    async def _in_thread(self, step: StepRequest, call: CallInFlight) -> object:
        call.in_thread = True
        running = asyncio.get_running_loop().run_in_executor(self._ctx.threads, copy_context().run, step.call)
        try:
            result = await asyncio.shield(running)
        except asyncio.CancelledError:
            call.asked_to_end.yes = True
            if call.limit is not None and call.limit.expired():
                # Its time is over, which a thread can only be asked: the step has not ended before the thread has.
                await asyncio.wait({running})
            raise  # otherwise the program ends, and does not wait for a thread that may never end
        finally:
            call.in_thread = False
        return await result if inspect.isawaitable(result) else result

    async def _end(self, step: StepRequest, call: CallInFlight, ended: CallEnd) -> bool:
        """Journal the end: behind the stop that aborted it, and at once if it can never be done again."""
        if call.stopped:
            call.has_ended = True
            await self._gate.until_decided()
        is_tried_again = self._journal_end(step, call, ended)
        if not may_abort(call.effect):
            self._journal.write_noted()
        return is_tried_again

    def _journal_end(self, step: StepRequest, call: CallInFlight, ended: CallEnd) -> bool:
        """Write down how an attempt ended. True: it raised, and is tried again."""
        journal, attempt = self._journal, call.attempt
        spent = call.spent.cost if call.spent.cost is not None and isfinite(call.spent.cost) else None
        failed_for = spent if ended.cost is None else ended.cost
        with journal.lock:
            self._gate.begun.pop(step.id, None)
            pieces = len(call.tail)
            for segment in call.take_tail():
                journal.note_segment(segment, pieces)
            if ended.streamed and journal.log.steps[step.id].length != call.offset:
                # An attempt that said nothing supersedes what earlier ones had said, too.
                journal.note(ev.SegmentWritten(step=step.id, attempt=attempt, offset=call.offset, text=""))
            if ended.stopped and step.kind == "model":
                length = journal.log.steps[step.id].length
                tokens = call.tokens if call.spent.tokens is None else call.spent.tokens
                cut = ev.StepCut(
                    step=step.id,
                    attempt=attempt,
                    length=length,
                    cost=spent or 0.0,
                    tokens=tokens,
                    free=spent == 0,
                    continues=_continues(step, call) if length else "",
                )
                journal.note(cut)
            elif ended.stopped:
                journal.note(ev.StepAborted(step=step.id, attempt=attempt))
                self._call_recovery.expect(step.id)
            elif ended.interrupt is not None:
                journal.note(ev.StepAborted(step=step.id, attempt=attempt, asked=True))
                question = Question(
                    id=interrupt_id(step.id, attempt),
                    reason=ended.interrupt.reason,
                    prompt=ended.interrupt.prompt,
                )
                self._asking.open(question)
            elif ended.error is not None:
                kind, detail = type(ended.error).__name__, _error_text(ended.error)
                again = self._retries.planned(step, call, ended, detail)
                if again is not None:
                    journal.note(again)
                    return True
                failed = ev.StepFailed(
                    step=step.id,
                    attempt=attempt,
                    kind=kind,
                    detail=detail,
                    cost=failed_for or 0.0,
                    free=failed_for == 0,
                    tokens=ended.tokens or call.spent.tokens or 0,
                    cut=call.timed_out or isinstance(ended.error, ProcessDied),
                    nothing_done=isinstance(ended.error, InvalidInput),
                )
                journal.note(failed)
            else:
                value, blob = value_of(ended.content) if ended.content is not None else (NOTHING, None)
                paid = step.tool.cost if spent is None else spent  # as the tool declares it, or as it was reported
                cost = paid if step.kind == "tool" else spent if ended.cost is None else ended.cost
                finished = ev.StepFinished(
                    step=step.id,
                    attempt=attempt,
                    value=value,
                    streamed=ended.streamed,
                    nothing_done=ended.nothing_done,
                    cost=cost or 0.0,
                    free=cost == 0 and step.kind != "tool",
                    tokens=ended.tokens,
                    observed=ended.observed,
                )
                journal.note(finished, *((blob,) if blob else ()))
                if step.kind == "model":
                    self._hypothesis.hear(step.id, journal.log.steps[step.id].text)
        return False

    async def _replayed(self, step: StepRequest, record: StepRecord) -> object:
        match record.outcome:
            case "finished":
                return record.text if record.streamed else _typed(step, await content_of(self._ctx.store, record.value))
            case "failed":
                raise _step_error(step, record.kind, record.detail, record.failures + 1)
            case _:
                raise redirected(self._journal.session, record.message, record.text, record.detail)

    # ---- redirects

    def see_messages(self, count: int | None = None) -> tuple[Message, ...]:
        """Return the first ``count`` messages, or all, which cannot be withdrawn any more. On any thread."""
        journal, loop = self._journal, self._ctx.loop
        with journal.lock:
            messages = journal.session.messages if count is None else journal.session.messages[:count]
            is_here = asyncio._get_running_loop() is loop  # noqa: SLF001 - a tool's thread has no loop, or its own
            mark_seen(
                journal, len(messages), journal.note if is_here else lambda seen: journal.note_in_thread(seen, loop)
            )
            return messages

    def _close_if_redirected(self, step: StepRequest) -> None:
        """Close the step after a redirect since the last attempt, for an agent that wants to be notified."""
        journal = self._journal
        with journal.lock:
            record = journal.log.steps.get(step.id)
            session = journal.session
            if record is None and step.heard is not None and len(session.said) > step.heard:
                # Requested before the course was changed, and not begun: not journaled, as it stays so.
                self.see_messages()
                raise redirected(session, session.last_said() or 0, "", DID_NOT_HAPPEN)
            if step.on_redirect == "again" or record is None:
                return
            message = last_redirect(journal, since=record.redirects)
            if message is None:
                return
            call = journal.session.calls.get(step.id)
            truth = CUT_BY_REDIRECT if step.kind == "model" else _truth(step, journal.session, call)
            attempt = call.attempt if call else record.attempt
            journal.note(ev.StepClosed(step=step.id, attempt=attempt, message=message, truth=truth))
        raise redirected(journal.session, message, record.text, truth)


def _way(step: StepRequest, record: StepRecord | None, redirects: int, *, was_lost: bool) -> ev.Continues:
    """Return how an attempt continues the last one's text: not after a redirect, unless the agent wants it so."""
    if record is None:
        return ""
    if record.continues and record.redirects == redirects:
        return record.continues
    if was_lost and record.if_lost:
        return record.if_lost
    return "prefix" if step.on_cut == "continue" else ""


def _continues(step: StepRequest, call: CallInFlight) -> ev.Continues:
    """Return how the next attempt continues: as the body reports, else as the agent wants it."""
    if call.continues is not None:
        return call.continues
    return "prefix" if step.on_cut == "continue" else ""


def _check_arguments(step: StepRequest) -> None:
    """Check a model's arguments against the function, before a person is asked or anything begins.

    Raises:
        StepError: they do not fit. Not journaled: it is so whenever it is tried.
    """
    if step.by_name is not None and step.body is None:
        try:
            step.tool.typed(step.by_name)
        except InvalidInput as error:
            raise _step_error(step, "InvalidInput", error.message) from error


def _truth(step: StepRequest, session: Session, call: OpenCall | None) -> str:
    """Return what is known of a call that a redirect closes."""
    if call is None:
        return NO_EFFECT if step.effect == "read" else DID_NOT_HAPPEN
    return next_act(session, call, call.settled_at).truth or MAY_HAVE_HAPPENED


def _typed(step: StepRequest, content: bytes) -> object:
    """Return a result in the type its function declares; as plain JSON where a framework or a model made the call."""
    return step.tool.result(content) if step.kind == "tool" and step.body is None else decode(content)


def _error_text(error: BaseException) -> str:
    """Return the text of an error, live and in the journal: without secrets."""
    return without_secrets(describe(error))


def _step_error(step: StepRequest, kind: str, detail: str, attempts: int = 1) -> StepError:
    often = f" after {attempts} attempts" if attempts > 1 else ""
    return StepError(f"Step '{step.name}' failed{often}: {kind}: {detail}", step=step.id, kind=kind, detail=detail)
