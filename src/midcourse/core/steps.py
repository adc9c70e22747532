"""The finished steps of the current scope, with their results, which a resumed agent gets instead of repeating them.

A step's identity is (scope, parent, name, key). The log is folded in place, not copied: a copy per event would make the
cost of a session grow with the square of its steps.
"""

from typing import Final, Literal

import msgspec

from midcourse.core import events as ev
from midcourse.core.codec import NOTHING, Value
from midcourse.core.ids import AskId, Position, StepId
from midcourse.errors import Diverged, ImpossibleEvent, MisusedRun

Outcome = Literal["", "finished", "failed", "closed"]
SHORT: Final = 256
"""A snapshot holds results up to this many bytes; longer ones are only in the journal."""
WORLD_CHANGED: Final = "world_changed"
"""The reason of the ask whether to continue although what was observed has changed."""

WORLD: Final = "world"
"""The step name of the ask whether to continue in a changed world."""
NEW_VERSION: Final = "version"
"""The step name of the ask whether to continue under another version of the agent."""

_RESERVED: Final = frozenset("/#>")


def step_id(scope: str, name: str, key: str | int, parent: StepId | None = None) -> StepId:
    """Return the identity of a step as one string: ``scope/[parent>]name#key``."""
    path = f"{parent.partition('/')[2]}>{name}" if parent else name
    return StepId(f"{scope}/{path}#{key}")


def approval_id(step: StepId, ordinal: int) -> StepId:
    """Return the identity of the question whether a call of ``step`` may be made."""
    return StepId(f"{step}~{ordinal}")


def interrupt_id(step: StepId, attempt: int) -> StepId:
    """Return the identity of the ask that an attempt's ``Interrupt`` opened."""
    return StepId(f"{step}?{attempt}")


def check_name(name: str) -> None:
    """Refuse a name that could be taken for another step's identity.

    Raises:
        MisusedRun: it is empty, long, or holds one of the signs identities are made with.
    """
    if not name or len(name) > 200 or not _RESERVED.isdisjoint(name):
        raise MisusedRun(
            f"{name!r} cannot name a step. Use 1 to 200 characters without '/', '#' or '>'.",
            code="bad_step_name",
            name=name,
        )


class StepRecord(msgspec.Struct, gc=False, omit_defaults=True):
    """The journal's record of one step of the scope.

    ``continues``: how the next attempt continues a text that was cut; ``if_lost``: one whose process died.
    ``failures``: so many attempts raised what is tried again; the next begins at ``again_at``, after ``wait`` seconds,
    and has ``left`` seconds of the step's timeout. ``rows``: the journal's rows that hold its result, if it is long.
    """

    name: str
    digest: str
    arguments: str = ""
    attempt: int = 0
    outcome: Outcome = ""
    again: bool = False
    streamed: bool = False
    value: Value = NOTHING
    kind: str = ""
    detail: str = ""
    message: int = 0
    cost: float = 0.0
    tokens: int = 0
    redirects: int = 0
    effect: str = ""
    generation: int = 0
    undone: bool = False
    failures: int = 0
    again_at: float = 0.0
    wait: float = 0.0
    left: float | None = None
    pieces: tuple[str, ...] = ()
    length: int = 0
    rows: tuple[Position, ...] = ()
    continues: ev.Continues = ""
    if_lost: ev.Continues = ""

    @property
    def text(self) -> str:
        """The present streamed text."""
        return "".join(self.pieces)

    def write(self, offset: int, text: str, position: Position) -> None:
        """Put ``text`` at ``offset``, in place of any earlier text there."""
        if offset < self.length:
            self.pieces = (self.text[:offset],) if offset else ()
            self.rows = ()
        if len(self.rows) == len(self.pieces):  # else a piece is no row of the journal
            self.rows += (position,)
        self.pieces += (text,)
        self.length = offset + len(text)

    def keep(self, value: Value, position: Position, *, streamed: bool) -> None:
        """Take in the result."""
        self.outcome, self.value, self.streamed = "finished", value, streamed
        if not streamed:
            self.rows = (position,)
        if (self.length if streamed else len(bytes(value.raw))) <= SHORT:
            self.rows = ()


class AskRecord(msgspec.Struct, gc=False, omit_defaults=True):
    """The outcome of the ask a step of the agent opened.

    Of an approval: ``covers`` is the digest of what was approved, ``used`` the key of the call it was used for, and
    ``spent`` that the call has ended: an approval covers one call.
    """

    ask: AskId
    prompt: str = ""
    end: str = ""
    value: Value = NOTHING
    covers: str = ""
    reason: str = ""
    by: str = ""
    used: str = ""
    spent: bool = False
    redirects: int = 0


class StepLog(msgspec.Struct, gc=False, omit_defaults=True):
    """The steps, asks and drawn values of the current scope, and what checkpoints saved: state, pieces of history."""

    state: Value = NOTHING
    history: list[Value] = []
    earlier: dict[StepId, StepRecord] = {}
    returned: bool = False
    steps: dict[StepId, StepRecord] = {}
    asks: dict[StepId, AskRecord] = {}
    drawn: dict[str, list[Value]] = {}
    plans: int = 0
    reports: int = 0
    holds: int = 0
    releases: int = 0
    redirects: int = 0
    failed: StepId | None = None
    observed: dict[str, ev.Observation] = {}

    def apply(self, event: ev.AnyEvent, position: Position) -> None:
        """Fold the event at one position in.

        Raises:
            ImpossibleEvent: it contradicts what is known of its step; the log is as before.
        """
        match event:
            case ev.StepBegun():
                approval = None if event.approval is None else self._approval_of(event.step, event.approval)
                record = self._begin(event)
                record.attempt, record.redirects, record.effect = event.attempt, self.redirects, event.effect
                record.undone, record.again_at = False, 0.0
                if approval is not None:
                    approval.used = event.key
            case ev.SegmentWritten():
                record = self._open(event.step)
                if event.offset > record.length:
                    raise ImpossibleEvent(f"A segment of step '{event.step}' is missing before offset {event.offset}.")
                record.write(event.offset, event.text, position)
                record.if_lost = event.continues
            case ev.StepFinished():
                record = self._open(event.step)
                record.keep(event.value, position, streamed=event.streamed)
                self.observed.update(event.observed)
                self._spend(event.step)
            case ev.StepFailed():
                record = self._open(event.step)
                record.outcome, record.kind, record.detail = "failed", event.kind, event.detail
                record.cost, record.tokens = record.cost + event.cost, record.tokens + event.tokens
                # Tried again it is another effect, with a line of its own; only an idempotent one is still the same.
                record.generation += record.effect in ("reversible", "irreversible")
                self._spend(event.step)
            case ev.StepRetrying():
                record = self._open(event.step)
                record.failures += 1
                record.if_lost = ""
                record.again_at, record.wait, record.left = event.again_at, event.wait, event.left
                record.cost, record.tokens = record.cost + event.cost, record.tokens + event.tokens
            case ev.StepCut():
                if event.step in self.steps:
                    self.steps[event.step].continues = event.continues
                    self.steps[event.step].if_lost = ""
            case ev.StepClosed():
                record = self._open(event.step)
                record.outcome, record.message, record.detail = "closed", event.message, event.truth
            case ev.UndoEnded(error="", lost=False) if event.step in self.steps:
                self.steps[event.step].generation += 1  # done again, it needs a new key
                self.steps[event.step].undone = True
            case ev.WorldChanged(changes=changes):
                for change in changes:  # reported once: from here on this is how the world is
                    if not change.why and change.resource in self.observed:
                        seen = self.observed[change.resource]
                        self.observed[change.resource] = msgspec.structs.replace(seen, version=change.now)
            case ev.HoldTaken():
                self.holds += 1
            case ev.HoldReleased(error=""):
                self.releases += 1
            case ev.AskOpened():
                self.asks[event.step] = AskRecord(
                    event.ask, event.prompt, covers=event.covers, reason=event.reason, redirects=self.redirects
                )
            case ev.AskAnswered():
                record = self._asked(event.step, event.ask)
                record.end, record.value, record.by = "answered", event.value, event.by
            case ev.AskClosed():
                self._asked(event.step, event.ask).end = event.end
            case ev.ValueDrawn():
                self.drawn.setdefault(event.name, []).append(event.value)
            case ev.SessionForked():
                for ask in self.asks.values():  # an approval was for the source's call
                    ask.spent = ask.spent or bool(ask.covers)
            case ev.SessionRedirected():
                self.redirects += 1
                for record in self.steps.values():
                    if not record.outcome:  # what is asked now is something else, and has all its attempts
                        record.failures, record.if_lost = 0, ""
            case ev.PlanChanged():
                self.plans += 1
            case ev.ReportMade(step=None):
                self.reports += 1
            case ev.CheckpointTaken(state=state, history=grown):
                self._open_scope(state)
                self._grow(grown)
            case ev.SessionCompleted(state=state, history=grown):
                self.state = state
                self.returned = True
                self._grow(grown)
            case ev.TurnOpened():
                # What the turn that failed or was cancelled had done since its last checkpoint is in no state.
                # Nor is what the one before that had done, if this one took no checkpoint either.
                before = {} if self.returned else dict(self.steps)
                carried = {} if self.returned else self.earlier
                self._open_scope(self.state)
                own = {StepId(f"/{step.partition('/')[2]}"): record for step, record in before.items()}
                self.earlier = carried | own
            case ev.SessionFailed(step=step):
                self.failed = step
            case ev.SessionResumed():
                self._try_again()
            case _:
                pass

    def _begin(self, event: ev.StepBegun) -> StepRecord:
        record = self.steps.get(event.step)
        if record is None:
            if event.attempt != 1:
                raise ImpossibleEvent(f"Step '{event.step}' begins with attempt {event.attempt}.")
            record = self.steps[event.step] = StepRecord(event.name, event.digest, event.arguments)
        elif record.outcome or record.digest != event.digest or event.attempt != record.attempt + 1:
            # What has an outcome is never executed again: not even a damaged or foolish journal may say so.
            known = record.outcome or f"at attempt {record.attempt} with digest {record.digest}"
            raise ImpossibleEvent(
                f"Step '{event.step}' is {known}; attempt {event.attempt} with digest {event.digest} cannot begin.",
            )
        return record

    def _approval_of(self, step: StepId, ask: AskId) -> AskRecord:
        for record in self.approvals(step):
            if record.ask == ask and record.end == "answered" and not record.spent:
                return record
        raise ImpossibleEvent(f"Step '{step}' has no approval '{ask}' that could be used.")

    def approvals(self, step: StepId) -> list[AskRecord]:
        """Return the asks before calls of ``step``, oldest first."""
        records: list[AskRecord] = []
        while (record := self.asks.get(approval_id(step, len(records) + 1))) is not None:
            records.append(record)
        return records

    def _spend(self, step: StepId) -> None:
        """Mark the approvals of an ended call as used: they are no answer to the next one."""
        if not self.asks:
            return
        for record in self.approvals(step):
            record.spent = record.spent or bool(record.used)
        for attempt in range(1, self.steps[step].attempt + 1):
            answered = self.asks.get(interrupt_id(step, attempt))
            if answered is not None:
                answered.spent = True

    def _open(self, step: StepId) -> StepRecord:
        record = self.steps.get(step)
        if record is None or record.outcome:
            raise ImpossibleEvent(f"Step '{step}' {'is ' + record.outcome if record else 'never began'} in this scope.")
        return record

    def _asked(self, step: StepId, ask: AskId) -> AskRecord:
        record = self.asks.get(step)
        if record is None or record.ask != ask or record.end:
            raise ImpossibleEvent(f"Step '{step}' has no open ask '{ask}' in this scope.")
        return record

    def _open_scope(self, state: Value) -> None:
        self.state = state
        self.returned = False
        self.earlier = {}
        self.steps.clear()
        self.asks.clear()
        self.drawn.clear()
        self.plans = self.reports = self.redirects = self.holds = self.releases = 0
        self.failed = None

    def _grow(self, grown: Value) -> None:
        if grown != NOTHING:
            self.history.append(grown)

    def _try_again(self) -> None:
        """Retry the step that failed when a failed session resumes; every other outcome stays."""
        if self.failed is not None:
            for approval in self.approvals(self.failed):
                approval.spent = True  # refused or used: the next call is asked about anew
        record = self.steps.get(self.failed) if self.failed else None
        # A result that could not be encoded is a finished step: doing it again would do it twice.
        if record is not None and record.outcome == "failed" and record.kind != "Unencodable":
            record.outcome, record.kind, record.detail, record.again = "", "", "", True
            record.failures, record.left = 0, None
        # An ask that ended with the session, or ended it, is asked again.
        for step, ask in list(self.asks.items()):
            if ask.end == "withdrawn" or (ask.end == "expired" and step == self.failed):
                del self.asks[step]
        for step, ask in self.asks.items():
            if ask.reason == WORLD_CHANGED:
                self.asks[step].spent = True  # a person who said no, and then resumes, has changed their mind
        self.failed = None


def check_same_question(step: StepId, record: AskRecord, prompt: str) -> None:
    """Check that the journal's ask and the agent's are the same question: an answer fits no other.

    Raises:
        Diverged: the prompts differ; the sentence shows both.
    """
    if record.prompt != prompt:
        raise Diverged(
            f"Ask '{step}' was journaled as {record.prompt!r} and is now {prompt!r}. An answer to the one is none to "
            "the other: give the new ask a key of its own, or run the session with the old code.",
            step=step,
            journaled=record.prompt,
            now=prompt,
        )


def check_same(step: StepId, record: StepRecord, digest: str, arguments: str) -> None:
    """Check that the journal's step and the agent's are the same call.

    Raises:
        Diverged: the arguments differ; the sentence shows both.
    """
    if record.digest != digest:
        before, now = record.arguments or record.digest, arguments or digest
        if before == now:  # they differ in what a preview leaves out
            before, now = f"{before} (digest {record.digest})", f"{now} (digest {digest})"
        raise Diverged(
            f"Step '{step}' was journaled with {before} and is now called with {now}. "
            "The agent took another path than before: make what it does between steps depend only on step results, "
            "run.now, run.random and run.messages, or give the step a key of its own.",
            step=step,
            journaled=record.arguments,
            now=arguments,
        )
