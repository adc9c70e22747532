"""Performs an agent's steps: replays what is journaled, begins what is not, and journals how each attempt ended.

Every step runs in a task of the driver. The agent's side only waits, so an agent (or its framework) that gives up
waiting tears nothing: the call goes on, and its result is journaled.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, cast

from midcourse.core import events as ev
from midcourse.core.codec import NOTHING, Value, decode, encode, value_of
from midcourse.core.ids import StepId, ask_id, child_id
from midcourse.core.session import ENDED, Session, Status
from midcourse.core.steps import StepRecord, check_same
from midcourse.errors import (
    AskExpired,
    Diverged,
    Interrupt,
    InterruptRequested,
    MidcourseError,
    MisusedRun,
    Redirected,
    StepError,
    words_of,
)
from midcourse.ports.bus import Delta
from midcourse.runtime.agents import Agent
from midcourse.runtime.calls import Call, CurrentCall, enter
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.loading import content_of
from midcourse.runtime.surroundings import Surroundings
from midcourse.runtime.watchdog import task_name

OnRedirect = Literal["again", "raise"]
OnCut = Literal["regenerate", "continue"]
MAY_HAVE_HAPPENED = "interrupted by a redirect; it may have happened"
CUT_BY_REDIRECT = "the stream was cut by a redirect; its text is kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnd:
    """The last thing a streaming function may yield: what the step returns instead of its text, and what it cost."""

    value: object = None
    cost: float = 0.0
    tokens: int | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Step:
    """What the agent asked for, and the future it waits on."""

    id: StepId
    name: str
    kind: ev.StepKind
    digest: str
    arguments: str
    body: Callable[[], object]
    child: "tuple[Agent[object], str] | None" = None
    returns: Any = Any
    on_redirect: OnRedirect = "again"
    on_cut: OnCut = "regenerate"
    waiter: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(slots=True, eq=False, kw_only=True)
class Question:
    """An ask the agent made with ``run.ask``."""

    id: StepId
    reason: str
    prompt: str
    options: tuple[str, ...] = ()
    expires_at: float | None = None
    default: Value | None = None
    on_redirect: OnRedirect = "again"
    waiter: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(slots=True, eq=False)
class _Ended:
    """How an attempt ended: stopped, by an error, by an interrupt, or with a result."""

    stopped: bool = False
    error: Exception | None = None
    interrupt: Interrupt | None = None
    content: bytes | None = None
    streamed: bool = False
    cost: float = 0.0
    tokens: int = 0


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
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiters: dict[StepId, list[asyncio.Future[Any]]] = {}

    def submit(self, wanted: Step | Question) -> "asyncio.Future[Any]":
        """Perform it in a task of the driver; the future is for the agent to wait on."""
        if wanted.id in self._waiters:
            # The agent had given up waiting, and asks for it again while it is under way: it is the same call.
            self._waiters[wanted.id].append(wanted.waiter)
            return wanted.waiter
        self._waiters[wanted.id] = [wanted.waiter]
        perform = self._perform(wanted) if isinstance(wanted, Step) else self._question(wanted)
        name = task_name(self._journal.session.id, f"step {wanted.id}")
        task = asyncio.get_running_loop().create_task(self._deliver(wanted.id, perform), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return wanted.waiter

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

    # ---- steps

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
            answer = await self._answer_to_interrupt(step)
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
        try:
            await written
        except MidcourseError as error:  # the owner stops; nothing of this is the agent's to handle
            raise InterruptRequested from error
        with journal.lock:
            # Last of all, and in one hold of the lock with whoever shuts the gate.
            if gate.is_open:
                call.since = self._around.clock.monotonic()
                gate.begun[step.id] = call
                return call
            journal.note(ev.StepNotBegun(step=step.id, attempt=attempt))
        self._moved()
        return None

    async def _execute(self, step: Step, call: Call) -> _Ended:
        task = asyncio.current_task()
        assert task is not None
        call.task = cast("asyncio.Task[None]", task)
        answer = decode(await content_of(self._around.store, call.answer)) if call.answer else None
        enter(CurrentCall(call.step, call.name, call.attempt, call.prefix, answer))
        ended = _Ended()
        try:
            if step.kind == "model":
                await self._consume(step, call, ended)
            elif step.child is not None:
                await self._tend(step, call, ended, *step.child)
            else:
                result = await self._invoke(step.body, call)
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

    async def _invoke(self, body: Callable[[], object], call: Call) -> object:
        if inspect.iscoroutinefunction(body):
            return await body()
        call.in_thread = True
        try:
            loop = asyncio.get_running_loop()
            result = await asyncio.shield(loop.run_in_executor(self._around.threads, copy_context().run, body))
        finally:
            call.in_thread = False
        return await result if inspect.isawaitable(result) else result

    def _journal_end(self, step: Step, call: Call, ended: _Ended) -> None:
        journal, attempt = self._journal, call.attempt
        with journal.lock:
            self._gate.begun.pop(step.id, None)
            for segment in call.take_tail():
                journal.note(segment)
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
                self._open(question)
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
                raise self._redirected(record.message, record.text)

    # ---- streams

    async def _consume(self, step: Step, call: Call, ended: _Ended) -> None:
        """Read a stream to its end: a preview for each piece, a durable segment now and then."""
        made = step.body()
        source = cast("AsyncIterator[object]", await made if inspect.isawaitable(made) else made)
        end: StreamEnd | None = None
        flush: asyncio.TimerHandle | None = None
        try:
            async for piece in source:
                if isinstance(piece, StreamEnd):
                    end = _checked_end(step, piece)
                    continue
                # Before it becomes part of a segment: what cannot be written would hold up the stop that cuts it.
                text = _checked_piece(step, piece)
                await self._gate.until_fresh()
                with self._journal.lock:
                    if call.cut:
                        call.stopped = True
                        raise asyncio.CancelledError
                    offset = call.write(text)
                    # Under the lock: no preview comes after the decision of a stop.
                    self._around.fanout.preview(Delta(self._journal.session.id, step.id, call.attempt, offset, text))
                if len(call.tail) >= self._around.settings.segment_tokens:
                    self._flush(call)
                elif flush is None or flush.when() <= asyncio.get_running_loop().time():
                    delay = self._around.settings.segment_seconds
                    flush = asyncio.get_running_loop().call_later(delay, self._flush, call)
        finally:
            if flush is not None:
                flush.cancel()
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()
        ended.cost = end.cost if end else 0.0
        ended.tokens = end.tokens if end and end.tokens is not None else call.tokens
        if end is None or end.value is None:
            ended.streamed = True
        else:
            ended.content = encode(end.value, what=f"The result of step '{step.name}'")

    def _flush(self, call: Call) -> None:
        with self._journal.lock:
            if call.step in self._gate.begun and not self._journal.broken:
                for segment in call.take_tail():
                    self._journal.note(segment)

    # ---- children

    async def _tend(self, step: Step, call: Call, ended: _Ended, agent: Agent[object], goal: str) -> None:
        """Have a child do it: create it, set it going, pass its asks on, and take its result and its cost."""
        journal, tree = self._journal, self._around.tree
        parent, child = journal.session.id, child_id(journal.session.id, step.id)
        call.is_bearing = True
        try:
            await tree.bear(child, agent, goal, parent)
        finally:
            call.is_bearing = False
            self._moved()
        again = journal.log.steps[step.id].again
        with self._around.fanout.watching(child) as watcher:
            await tree.set_going(child, parent, again=again)
            while True:
                session = await tree.glance(child)
                if session.status is Status.QUEUED:  # whoever had it was just letting it go
                    await tree.set_going(child, parent, again=again)
                self._pass_on_asks(session)
                if session.status in ENDED:
                    break
                await watcher.wait(1.0)
        record = journal.log.steps[step.id]
        ended.cost, ended.tokens = session.cost - record.cost, session.tokens - record.tokens
        if session.status is not Status.COMPLETED or session.result is None:
            why = session.failure.message if session.failure else "it was cancelled"
            raise ChildError(f"child '{child}' ended as {session.status}: {why}")
        ended.content = await content_of(self._around.store, session.result)

    def _pass_on_asks(self, child: Session) -> None:
        """What a child asks, this session's people see: its own asks and those of its children."""
        journal = self._journal
        asked = {(child.id, ask.id): (ask.reason, ask.prompt) for ask in child.asks}
        asked |= {(ask.child, ask.ask): (ask.reason, ask.prompt) for ask in child.child_asks}
        with journal.lock:
            known = {
                (ask.child, ask.ask) for ask in journal.session.child_asks if f"{ask.child}.".startswith(f"{child.id}.")
            }
            for owner, ask in known - set(asked):
                journal.note(ev.ChildAskClosed(child=owner, ask=ask))
            for owner, ask in sorted(set(asked) - known):
                reason, prompt = asked[owner, ask]
                journal.note(ev.ChildAsked(child=owner, ask=ask, reason=reason, prompt=prompt))

    # ---- asks

    async def _question(self, question: Question) -> object:
        log = self._journal.log
        while True:
            record = log.asks.get(question.id)
            if record is None or (record.end == "superseded" and question.on_redirect == "again"):
                await self._gate.wait()
                with self._journal.lock:
                    if self._gate.is_open:
                        self._open(question)
                        self._moved()
                continue
            match record.end:
                case "":
                    await self._gate.wait_for_answer(question.id)
                case "answered":
                    await self._gate.wait()  # given while paused, it is used after the resume
                    return decode(await content_of(self._around.store, record.value))
                case "expired":
                    raise AskExpired(f"Nobody answered '{question.prompt}' before its deadline.", ask=record.ask)
                case "superseded":
                    raise self._redirected(len(self._journal.session.messages) - 1, "")
                case _:
                    await self._gate.wait()  # withdrawn by a cancel: the stop comes

    async def _answer_to_interrupt(self, step: Step) -> Value | None:
        """What a person answered to the last ``Interrupt`` the step raised; None if it raised none."""
        log = self._journal.log
        record = log.steps.get(step.id)
        if record is None:
            return None
        # Attempts that were lost or aborted since have not used the answer up.
        raised = (interrupt_id(step.id, attempt) for attempt in range(record.attempt, 0, -1))
        waiting_for = next((one for one in raised if one in log.asks), None)
        if waiting_for is None:
            return None
        while (ask := log.asks.get(waiting_for)) is not None and not ask.end:
            await self._gate.wait_for_answer(waiting_for)
        if ask is not None and ask.end == "expired":
            raise AskExpired(f"Nobody answered step '{step.name}' before the deadline.", ask=ask.ask)
        return ask.value if ask is not None and ask.end == "answered" else None

    def _open(self, question: Question) -> None:
        """Journal the ask, unless a cancel is under way. Under the journal's lock."""
        session = self._journal.session
        if session.status is Status.CANCELLING:
            return
        opened = ev.AskOpened(
            ask=ask_id(session.asks_opened + 1),
            step=question.id,
            reason=question.reason,
            prompt=question.prompt,
            options=question.options,
            expires_at=question.expires_at,
            default=question.default,
        )
        self._journal.note(opened)

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
        raise self._redirected(message, record.text)

    def _redirected(self, message: int, partial: str) -> Redirected:
        said = self._journal.session.messages[message]
        sentence = f"A person changed the course ({said.level}): {said.text}"
        return Redirected(sentence, instruction=said.text, level=said.level, partial=partial)


class ChildError(Exception):
    """A child ended without a result. The agent sees it as a ``StepError`` of this kind."""


def interrupt_id(step: StepId, attempt: int) -> StepId:
    """The identity of the ask that an attempt's ``Interrupt`` opened."""
    return StepId(f"{step}?{attempt}")


def _checked_piece(step: Step, piece: object) -> str:
    if not isinstance(piece, str):
        raise MisusedRun(
            f"Step '{step.name}' streamed a {type(piece).__name__}; a stream yields str pieces "
            "and, at the end, at most one StreamEnd.",
            code="bad_stream",
        )
    if not piece.isascii():
        try:
            piece.encode()
        except UnicodeEncodeError as error:
            raise MisusedRun(
                f"Step '{step.name}' streamed text that is not Unicode ({error.reason}), which cannot be journaled. "
                "Put the halves of a surrogate pair together before yielding them.",
                code="bad_stream",
            ) from error
    return piece


def _checked_end(step: Step, end: StreamEnd) -> StreamEnd:
    if not isfinite(end.cost):
        raise MisusedRun(
            f"Step '{step.name}' ended with a cost of {end.cost}, which cannot be journaled. Give a finite number.",
            code="bad_stream",
        )
    return end


def _step_error(step: Step, kind: str, detail: str) -> StepError:
    return StepError(f"Step '{step.name}' failed: {kind}: {detail}", step=step.id, kind=kind, detail=detail)
