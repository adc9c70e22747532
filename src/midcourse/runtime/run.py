"""A run, for its agent: its steps, its asks, its messages, its state."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, cast

import msgspec

from midcourse.core import events as ev
from midcourse.core.codec import JSON, NOTHING, Blob, canonical, decode, digest_of, encode, inline, preview, value_of
from midcourse.core.commands import TEXT_LIMIT
from midcourse.core.ids import REVIEW, Epoch, SessionId, StepId
from midcourse.core.request_checks import check_text
from midcourse.core.retries import Retry
from midcourse.core.session import Hold, Message, Status, standing
from midcourse.core.steps import NEW_VERSION, WORLD, Outcome, StepRecord, check_name, step_id
from midcourse.errors import AskExpired, InterruptRequested, InvalidInput, MidcourseError, MisusedRun, StepError
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store
from midcourse.runtime.asks import OnRedirect, Question
from midcourse.runtime.calls import in_a_step
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.model_streams import StreamEnd
from midcourse.runtime.run_history import RunHistory
from midcourse.runtime.step_request import OnCut, StepRequest
from midcourse.runtime.steps import Steps
from midcourse.runtime.tools import Tool, check_retry, is_of_the_standard_library, model_of, origin_of, tool_of

if TYPE_CHECKING:
    from midcourse.runtime.agents import Agent

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Nothing:
    """The absence of a default, where None is a good one."""


_NO_DEFAULT = _Nothing()
SPAWN: Final = model_of(lambda: None)
"""Stands for a tool where a child does the work."""
INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True)
class Earlier:
    """A step of the previous turn: how it ended (empty: unknown), its result, and its text until then."""

    outcome: Outcome
    value: Any
    text: str
    detail: str
    undone: bool = False


class Run:
    """One turn of one session, as its agent sees it. Every await of it is a safe point."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        steps: Steps,
        *,
        clock: Clock,
        state: object,
        history: RunHistory,
        may_ask: bool,
        retry: Retry | None,
        touch: Callable[[], None],
        release: Callable[[Hold], Awaitable[None]],
    ) -> None:
        self.state: Any = {} if state is None else state
        """The start of a ``state`` agent after its last checkpoint: any JSON-like value, a dict to begin with."""
        self.history = history
        """The items of a ``state`` agent, such as a conversation: only ever appended to, each written once."""
        # A replayed agent makes its plan anew; one that starts from its state continues the present plan.
        self.plan = Plan(self, journal.session.plan if journal.session.mode == "state" else ())
        """The task list people see."""
        self._journal = journal
        self._gate = gate
        self._steps = steps
        self._clock = clock
        self._may_ask = may_ask
        self._retry = retry
        self._touch_driver = touch
        self._let_go_of = release
        self._ordinals: Counter[str] = Counter()
        self._open: set[StepId] = set()
        # Asked before an agent may start, or by a policy, these are no steps of it.
        first = (f"{WORLD}#", f"{NEW_VERSION}#", f"{REVIEW}#")
        asks = [one for one in journal.log.asks if not one.partition("/")[2].startswith(first)]
        self._behind = frozenset((*journal.log.steps, *asks))
        self._catching_up = bool(self._behind)
        self._passed_over = False
        self._seen_changes: tuple[ev.Change, ...] = ()

    @property
    def catching_up(self) -> bool:
        """True if this run starts behind the journal: steps came after the checkpoint, and it has asked for none.

        Until it does, the checkpoint that it would take is the one it started from, and ``run.messages`` are those of
        that time: later ones are seen where they would have been, after the steps that came before them.
        """
        return self._catching_up

    @property
    def session_id(self) -> SessionId:
        """The session this run belongs to."""
        return self._journal.session.id

    @property
    def turn(self) -> int:
        """The number of the turn, from 1: a message to a session that has ended opens another."""
        return self._journal.session.turn

    @property
    def scope(self) -> str:
        """The checkpoint that steps belong to now."""
        return self._journal.session.scope

    @property
    def store(self) -> Store:
        """The session's store. For adapters that keep data beside the journal, on a shelf of their own."""
        return self._steps.store

    @property
    def owner(self) -> tuple[SessionId, Epoch]:
        """The writer for this session: a shelf checks it, so that a worker that lost the session changes nothing."""
        return self._journal.session.id, self._journal.epoch

    # ---- steps

    async def step(
        self,
        name: str,
        body: "Callable[[*Ts], Awaitable[T]] | Callable[[*Ts], T]",
        *arguments: *Ts,
        key: str | None = None,
        on_redirect: OnRedirect = "again",
        retry: Retry | None = None,
    ) -> T:
        """Do something once. Its result is journaled, and after a crash or a resume it is returned, not done again.

        An ``async def`` body can be aborted; a plain function runs in a thread, which can only be waited for. Two steps
        of one name at the same time need a ``key`` each. ``retry`` tries it again as ``@tool(retry=…)`` does, which it
        counts more than.

        Raises:
            InvalidInput: ``retry`` was given, and the body is irreversible.
            StepError: the body raised; the same after a resume.
            Redirected: with ``on_redirect="raise"``, a redirect closed the step.
        """
        return cast("T", await self._submit(name, "tool", body, arguments, key, on_redirect, "regenerate", retry=retry))

    async def call(
        self,
        tool: "Tool[..., T]",
        arguments: Mapping[str, object],
        *,
        key: str | None = None,
        on_redirect: OnRedirect = "again",
        name: str = "",
        body: Callable[[], object] | None = None,
        shape: Callable[[Any], object] | None = None,
        needs_approval: str = "",
        heard: int | None = None,
    ) -> T:
        """Call a tool with arguments by name, as a model gives them: checked against what the function declares.

        ``key`` is the model's id of the call. ``needs_approval`` asks a person first, and says why. ``body`` and
        ``shape`` are for adapters: how a framework calls the function, and what of its result is journaled; the result
        is then what JSON makes of it. ``heard``: how many of ``run.messages`` the model had got when it asked for this
        call; if more have come by the time it would begin, it is closed as redirected instead.

        Raises:
            StepError: the function raised, the arguments do not fit it, or a person refused.
            Redirected: with ``on_redirect="raise"``, a redirect closed the step.
        """
        await self._arrive("run.call")
        words = name or tool.name
        check_name(words)
        identity = self._identity(words, key)
        spelled = canonical(arguments)
        step = StepRequest(
            id=identity,
            name=words,
            kind="tool",
            digest=digest_of(spelled),
            spelled=spelled,
            tool=tool,
            by_name=arguments,
            body=body,
            shape=shape,
            needs_approval=needs_approval,
            heard=heard,
            may_ask=self._may_ask,
            on_redirect=on_redirect,
        )
        return cast("T", await self._wait(identity, step))

    async def stream(
        self,
        name: str,
        body: "Callable[[*Ts], AsyncIterator[str | StreamEnd]]",
        *arguments: *Ts,
        key: str | None = None,
        on_redirect: OnRedirect = "again",
        on_cut: OnCut = "regenerate",
        heard: int | None = None,
        retry: Retry | None = None,
    ) -> str:
        """Call a model and return its text. Watchers see it as it comes; a stop or a redirect cuts it at once.

        Cut by a pause, it is called again on resume; cut by a redirect, it is called again too: read ``run.messages``
        inside ``body``. With ``on_cut="continue"`` the next call finds the text so far in ``current_call().prefix``.
        ``heard`` is as in ``run.call``. What may pass (a broken connection, HTTP 429 or 5xx) is tried again up to four
        times, with growing waits; ``retry`` says it otherwise, ``Retry(attempts=1)`` not at all.
        """
        return cast(
            "str",
            await self._submit(
                name, "model", body, arguments, key, on_redirect, on_cut, heard, retry=retry or self._retry
            ),
        )

    async def spawn(self, agent: "Agent[T]", goal: str, *, key: str | None = None) -> T:
        """Have another agent do it, as a child session of its own, and return its result.

        A stop of this session reaches the child, a resume lifts only the pause it caused, the child's asks are shown
        here too, and its cost is added to this session's.

        Raises:
            StepError: the child failed or was cancelled; ``kind`` is ``ChildError``.
        """
        await self._arrive("run.spawn")
        name = f"spawn {agent.name}"
        identity = self._identity(name, key)
        spelled = canonical((agent.name, goal))
        step = StepRequest(
            id=identity,
            name=name,
            kind="child",
            digest=digest_of(spelled),
            spelled=spelled,
            tool=SPAWN,
            child=(cast("Agent[object]", agent), goal),
        )
        return cast("T", await self._wait(identity, step))

    async def _submit(
        self,
        name: str,
        kind: ev.StepKind,
        body: Callable[..., object],
        arguments: tuple[object, ...],
        key: str | None,
        on_redirect: OnRedirect,
        on_cut: OnCut,
        heard: int | None = None,
        *,
        retry: Retry | None,
    ) -> object:
        verb = "step" if kind == "tool" else "stream"
        await self._arrive(f"run.{verb}")
        check_name(name)
        if not callable(body):
            raise MisusedRun(
                f"run.{verb}('{name}', …) was given a {type(body).__name__}, not a function: it must be possible to "
                f"call it again. Write run.{verb}('{name}', lambda: …), or give the function and its arguments.",
                code="not_a_function",
            )
        identity = self._identity(name, key)
        spelled = canonical(arguments)
        tool = tool_of(body) if kind == "tool" else model_of(body)
        if retry is not None:
            check_retry(tool, retry)
        step = StepRequest(
            id=identity,
            name=name,
            kind=kind,
            digest=digest_of(spelled),
            spelled=spelled,
            tool=tool,
            given=arguments,
            may_ask=self._may_ask,
            on_redirect=on_redirect,
            on_cut=on_cut,
            heard=heard,
            retry=retry,
        )
        return await self._wait(identity, step)

    async def _wait(self, identity: StepId, wanted: StepRequest | Question) -> object:
        if identity in self._behind:
            self._catching_up = False
        self._open.add(identity)
        try:
            return await self._steps.perform(wanted)
        finally:
            self._open.discard(identity)
            self._touch_driver()

    def _identity(self, name: str, key: str | None) -> StepId:
        scope = self._journal.session.scope
        if key is not None:
            check_name(key)
            identity = step_id(scope, name, f"={key}")
            if identity in self._open:
                raise MisusedRun(
                    f"Two steps '{name}' with the key '{key}' run at the same time. Give each a key of its own.",
                    code="key_in_use",
                )
            return identity
        prefix = f"{scope}/{name}#"
        if self._open and any(other.startswith(prefix) and not other.startswith(prefix + "=") for other in self._open):
            raise MisusedRun(
                f"Two steps '{name}' run at the same time and could not be distinguished after a resume. "
                f"Give a key: run.step('{name}', …, key='…').",
                code="key_required",
            )
        self._ordinals[prefix] += 1
        return step_id(scope, name, self._ordinals[prefix])

    # ---- what is held

    async def hold(self, name: str, release: "Callable[[*Ts], object]", *arguments: *Ts) -> None:
        """Declare that this session holds something from here on: a lock, a draft, a provider's session.

        It is released with ``release(*arguments)`` when the session completes or is cancelled, in any process, or when
        the agent calls ``run.release``. Acquire the thing itself in a step before.
        """
        await self._arrive("run.hold")
        check_name(name)
        origin = origin_of(release)
        if is_of_the_standard_library(origin):
            raise MisusedRun(
                f"'{origin}' cannot release '{name}': a function of Python itself is not called by a journal. "
                "Write a function of your own that calls it.",
                code="release_not_found",
            )
        if "<" in origin:
            raise MisusedRun(
                f"What releases '{name}' is a closure, which another process could not find. "
                "Define it at the top level of a module, and give what it needs as arguments.",
                code="release_not_found",
            )
        given, blob = value_of(encode(arguments, what=f"The arguments that release '{name}'"))
        if self._was_told("holds"):
            return
        if name in self._journal.session.holds:
            raise MisusedRun(f"'{name}' is held already. Release it first, or use another name.", code="held_already")
        taken = ev.HoldTaken(name=name, release=origin, given=given)
        await self._durably(taken, blobs=(blob,) if blob else ())

    async def release(self, name: str) -> None:
        """Release what ``run.hold`` named.

        Raises:
            StepError: it could not be released, three times.
        """
        await self._arrive("run.release")
        if self._was_told("releases"):
            return
        hold = self._journal.session.holds.get(name)
        if hold is None:
            raise MisusedRun(f"'{name}' is not held. Hold it first, with run.hold.", code="not_held")
        try:
            # In a task of its own: a stop that tears the agent does not tear this, nor is it done twice.
            await asyncio.shield(asyncio.ensure_future(self._let_go_of(hold)))
        except MidcourseError as error:  # the owner stops; nothing of this is the agent's to handle
            raise InterruptRequested from error
        failed = self._journal.session.holds.get(name)
        if failed is not None:
            sentence = f"'{name}' could not be released: {failed.error}"
            raise StepError(sentence, step=f"hold {name}", kind="ReleaseFailed", detail=failed.error)

    def _was_told(self, counter: str) -> bool:
        """Return True if the n-th of a scope is journaled: a replay does not do it again."""
        ordinal = self._ordinals[f"told {counter}"]
        self._ordinals[f"told {counter}"] += 1
        return ordinal < getattr(self._journal.log, counter)

    async def _durably(self, *events: ev.AnyEvent, blobs: tuple[Blob, ...] = ()) -> None:
        try:
            with self._journal.lock:
                written = self._journal.append(*events, blobs=blobs)
            await written
        except MidcourseError as error:  # the owner stops; nothing of this is the agent's to handle
            raise InterruptRequested from error

    @property
    def changes(self) -> tuple[ev.Change, ...]:
        """The changes of the world at the last check. A replay sees those of that time."""
        told = self._told_changes
        if in_a_step():
            return told
        seen = self._draw("changes", lambda: msgspec.to_builtins(told))
        self._seen_changes = msgspec.convert(seen, tuple[ev.Change, ...])
        return self._seen_changes

    @property
    def has_changes(self) -> bool:
        """True if there are changes that ``changes`` has not returned. Journals nothing."""
        return self._told_changes != self._seen_changes

    @property
    def _told_changes(self) -> tuple[ev.Change, ...]:
        return tuple(change for change in self._journal.session.changes if change.policy != "go_on")

    # ---- people

    async def ask(
        self,
        prompt: str,
        *,
        reason: str = "need_input",
        options: tuple[str, ...] = (),
        expires: float | None = None,
        default: "JSON | _Nothing" = _NO_DEFAULT,
        key: str | None = None,
        on_redirect: OnRedirect = "again",
    ) -> JSON:
        """Ask a person and wait for the answer, for as long as it takes or for ``expires`` seconds.

        Raises:
            AskExpired: it was not answered in time, and there is no ``default``.
            Redirected: with ``on_redirect="raise"``, a redirect superseded the ask.
        """
        await self._arrive("run.ask")
        if not self._may_ask:
            raise MisusedRun(
                f"This agent may not ask anybody (asks=False), and asked: {preview(canonical(prompt))}",
                code="may_not_ask",
            )
        if not prompt or len(prompt) > TEXT_LIMIT:
            raise InvalidInput(f"A prompt has 1 to {TEXT_LIMIT:,} characters.", field="prompt")
        identity = self._identity("ask", key)
        value = None if isinstance(default, _Nothing) else inline(encode(default, what="The default answer"))
        question = Question(
            id=identity,
            reason=reason,
            prompt=prompt,
            options=tuple(options),
            expires_at=None if expires is None else self._journal.now + expires,
            default=value,
            on_redirect=on_redirect,
        )
        return cast("JSON", await self._wait(identity, question))

    @property
    def answer(self) -> JSON:
        """A person's answer to the last ``Interrupt`` this agent raised in this turn; None if it raised none.

        Raises:
            AskExpired: it was not answered in time.
        """
        prefix = f"{self._journal.session.scope}/{INTERRUPT}#"
        asked = [(step, record) for step, record in self._journal.log.asks.items() if step.startswith(prefix)]
        if not asked:
            return None
        step, record = asked[-1]
        if record.end == "expired":
            raise AskExpired(f"'{record.prompt}' was not answered before its deadline.", ask=record.ask, step=step)
        return decode(record.value.raw) if record.end == "answered" else None

    @property
    def messages(self) -> tuple[Message, ...]:
        """People's messages to this session: the goal, redirects, later turns. A replay sees those of that time."""
        if in_a_step():
            return standing(self._steps.see_messages())
        session = self._journal.session
        if self._catching_up and self._ordinals["drawn messages"] >= len(self._journal.log.drawn.get("messages", ())):
            return standing(self._steps.see_messages(session.scope_messages))
        return standing(self._steps.see_messages(self._draw("messages", lambda: len(session.messages))))

    @property
    def goal(self) -> str:
        """The present goal."""
        return next((message.text for message in reversed(self.messages) if message.level == "goal"), "")

    # ---- state

    async def checkpoint(self, *, durable: bool = True, ahead: bool = False) -> None:
        """Save ``run.state`` as the place to start from. Only for agents registered with ``mode="state"``.

        With ``durable=False`` it does not wait for the disk: what comes later is durable only together with it, and
        after a crash in between the one before it counts. ``ahead`` is for adapters that keep their place elsewhere: a
        run that is catching up takes it too, and skips what is journaled since the last one.
        """
        await self._arrive("run.checkpoint")
        began = self._clock.monotonic()
        session = self._journal.session
        if session.mode != "state":
            raise MisusedRun(
                "run.checkpoint is for agents made with @agent(mode='state'): a 'replay' agent starts at its top, "
                "so a checkpoint in its middle would name its steps anew.",
                code="not_a_state_agent",
            )
        if self._catching_up and not ahead and not self._passed_over:
            # Another one would begin a new scope, and everything journaled since this one would be done again. Unless
            # the agent comes by again and has asked for nothing of that: then it has taken another path.
            self._passed_over = True
            return
        under_way = self.under_way
        if under_way:
            raise MisusedRun(
                f"run.checkpoint while {', '.join(sorted(under_way))} is under way: call it between steps.",
                code="steps_in_flight",
            )
        encoded = encode(self.state, what="run.state")
        state, blob = value_of(encoded)
        grown = self.history.grown()
        history, another = (NOTHING, None) if grown is None else value_of(grown)
        blobs = tuple(one for one in (blob, another) if one is not None)
        while True:
            await self._gate.wait()
            with self._journal.lock:
                if not self._gate.is_open:
                    continue
                session = self._journal.session
                scope = f"{session.turn}.{session.checkpoints + 1}"
                starts = (ev.SessionWoken(),) if session.status is Status.WAITING else ()
                taken = ev.CheckpointTaken(scope=scope, state=state, history=history)
                written = None
                if durable:
                    written = self._journal.append(*starts, taken, blobs=blobs)
                else:
                    for event in starts:
                        self._journal.note(event)
                    self._journal.note(taken, *blobs)
                self.history.saved()
                break
        self._ordinals.clear()
        self._catching_up = False
        try:
            if written is not None:
                await written
                size = len(encoded) + len(grown or b"")
                self._journal.meter.saved("state", self._clock.monotonic() - began, size)
        except MidcourseError as error:  # the owner stops; nothing of this is the agent's to handle
            raise InterruptRequested from error
        self._touch_driver()

    async def earlier(self, name: str, key: str | None = None) -> Earlier | None:
        """Return a step of the previous turn, if that turn failed or was cancelled after its last checkpoint.

        Without ``key`` the last one of that name. None if there was no such step. Until the next checkpoint.
        """
        wanted = step_id("", name, "" if key is None else f"={key}")
        known = self._journal.log.earlier.items()
        if key is not None:
            records = [one for step, one in known if step == wanted]
        else:  # a tool may have the name of a model step, and is distinguished by its key
            alike = [(step.startswith(f"{wanted}="), one) for step, one in known if step.startswith(wanted)]
            records = [one for is_keyed, one in alike if not is_keyed] or [one for _, one in alike]
        return await self._earlier(records[-1]) if records else None

    async def _earlier(self, record: StepRecord) -> Earlier:
        value = decode(await self._steps.content_of(record.value)) if record.outcome == "finished" else None
        said = record.text if record.streamed else value
        return Earlier(record.outcome, said, record.text, record.detail, record.undone)

    @property
    def under_way(self) -> frozenset[StepId]:
        """Steps and asks that have begun and not ended, also those the agent no longer waits for."""
        session = self._journal.session
        asked = {ask.step for ask in session.asks if not ask.is_review}
        return frozenset(self._open | set(session.running) | asked)

    def keep(self, name: str, value: object) -> None:
        """Journal a value beside a step: noted before the step's end, it is durable no later. Also inside a step.

        For adapters whose calls do more than return a result. ``run.kept`` has it until the next checkpoint.
        """
        content, blob = value_of(encode(value, what=name))
        with self._journal.lock:
            drawn = ev.ValueDrawn(name=f"kept {name}", value=content)
            self._journal.note(drawn, *((blob,) if blob else ()))

    async def kept(self, name: str) -> Any:
        """Return what was last kept under that name since the checkpoint; None if nothing was."""
        drawn = self._journal.log.drawn.get(f"kept {name}")
        if drawn and drawn[-1].blob:
            await self._durably()  # a blob that was just noted is not in the store yet
        return decode(await self._steps.content_of(drawn[-1])) if drawn else None

    # ---- what a replay must see again

    def now(self) -> datetime:
        """Return the time, journaled: a replay sees the same."""
        return datetime.fromtimestamp(self._draw("now", self._clock.now), UTC)

    def random(self) -> float:
        """Return a number from 0 up to, and not including, 1, journaled: a replay sees the same."""
        return self._draw("random", self._clock.random)

    def uuid(self) -> str:
        """Return a fresh id, journaled: a replay sees the same."""
        return self._draw("uuid", self._clock.fresh_id)

    def _draw(self, name: str, make: Callable[[], T]) -> T:
        self._enter(f"run.{name}")
        ordinal = self._ordinals[f"drawn {name}"]
        self._ordinals[f"drawn {name}"] += 1
        with self._journal.lock:
            drawn = self._journal.log.drawn.get(name, [])
            if ordinal < len(drawn):
                return decode(drawn[ordinal].raw)
            value = make()
            # Not awaited: whatever could depend on it in the world is a later append of the same journal.
            self._journal.note(ev.ValueDrawn(name=name, value=inline(encode(value, what=name))))
            return value

    # ---- what people see

    def report(
        self,
        message: str = "",
        *,
        progress: float | None = None,
        hypothesis: str = "",
        artifact: str = "",
        documentation: str = "",
    ) -> None:
        """Report to people: a remark, progress from 0 to 1, the present hypothesis, something that was made.

        ``documentation`` describes the artifact: one without it comes up for review.
        """
        if progress is not None and not 0 <= progress <= 1:
            raise InvalidInput(f"progress is {progress}; it is a number from 0 to 1.", field="progress")
        self._tell(
            "reports",
            ev.ReportMade(
                progress=progress,
                hypothesis=hypothesis,
                artifact=artifact,
                message=message,
                documentation=documentation,
            ),
        )
        if hypothesis:
            self._gate.release_waiters()  # a parallel path may be held for it

    def _tell(self, counter: str, event: ev.PlanChanged | ev.ReportMade) -> None:
        """Journal it once: the n-th of a scope is not journaled again by a replay."""
        self._enter(f"run.{counter.removesuffix('s')}")
        with self._journal.lock:
            if not self._was_told(counter):
                self._journal.note(event)

    async def _arrive(self, what: str) -> None:
        if self._gate.interrupted:
            # An agent that catches its stop and comes again, and again, must not keep everybody else from running.
            await self._clock.sleep(0.01)
        self._enter(what)

    def _enter(self, what: str) -> None:
        if self._gate.interrupted:
            raise InterruptRequested
        if in_a_step():
            raise MisusedRun(
                f"{what} was called inside a step. Call it from the agent itself: what a step does is one piece.",
                code="inside_a_step",
            )
        self._touch_driver()


class Plan:
    """The task list people see: each item queued, running or done."""

    def __init__(self, run: Run, standing: tuple[ev.PlanItem, ...]) -> None:
        self._run = run
        self._items = list(standing)

    def set(self, *titles: str) -> None:
        """Set the list anew; every item is queued."""
        self._items = [ev.PlanItem(check_text(title, "title")) for title in titles]
        self._tell()

    def start(self, title: str) -> None:
        """Start an item; an unknown one is added."""
        self._change(title, "running")

    def done(self, title: str) -> None:
        """Finish an item; an unknown one is added."""
        self._change(title, "done")

    def _change(self, title: str, status: ev.PlanStatus) -> None:
        item = ev.PlanItem(check_text(title, "title"), status)
        titles = [known.title for known in self._items]
        if title in titles:
            self._items[titles.index(title)] = item
        else:
            self._items.append(item)
        self._tell()

    def _tell(self) -> None:
        self._run._tell("plans", ev.PlanChanged(items=tuple(self._items)))  # noqa: SLF001 - its own run  # pyright: ignore[reportPrivateUsage]
