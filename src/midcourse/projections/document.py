"""A session as a document for people: what was said, what was called, what is asked. Folded from its events. Pure.

It is bounded however long the session gets: the newest entries are kept, long texts are cut, and what looks like a
secret is left out.
"""

from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Literal, cast

import msgspec

from midcourse.core import events as ev
from midcourse.core.asks import is_yes, wanted_by
from midcourse.core.codec import NOTHING, Value, decode, without_secrets
from midcourse.core.evolution import created, evolve
from midcourse.core.ids import AskId, Position, SessionId, StepId, checkpoint_id
from midcourse.core.session import ChildAsk, OpenAsk, Session

KEPT: Final = 200
"""Entries of each list; older ones are counted."""
SHOWN: Final = 4_000
"""Characters of a text."""
DEPTH: Final = 20
Role = Literal["user", "assistant"]


class DocumentMessage(msgspec.Struct, omit_defaults=True):
    """One entry of the conversation. ``ask`` names the ask that it is, or that it answers."""

    role: Role
    text: str
    at: str
    turn: int
    by: str = ""
    level: str = ""
    ask: str = ""
    state: str = ""


class DocumentCall(msgspec.Struct, omit_defaults=True):
    """One tool call, or one child, of the turn."""

    step: StepId
    name: str
    state: str
    began_at: str
    arguments: str = ""
    effect: str = ""
    attempt: int = 0
    ended_at: str = ""
    result: Any = None
    detail: str = ""


class DocumentAsk(msgspec.Struct, omit_defaults=True):
    """An ask that can still be answered."""

    ask_id: str
    reason: str
    prompt: str
    opened_at: str
    checkpoint_id: str = ""
    options: tuple[str, ...] = ()
    expires_at: str = ""
    on_expiry: Any = None


class Readable(msgspec.Struct, kw_only=True):
    """The document."""

    session_id: SessionId
    agent_name: str
    status: str
    interrupt_reason: str | None
    asks: list[DocumentAsk]
    goal: str
    turn: int
    conversation_history: list[DocumentMessage]
    tool_call_stack: list[DocumentCall]
    history: list[Any]
    left_out: dict[str, int]
    pause: dict[str, str] | None
    failure: dict[str, str] | None
    cost: float
    tokens: int
    journal_position: Position
    updated_at: str


class Document:
    """Folds the events of one session, in order."""

    def __init__(self, session_id: SessionId) -> None:
        self.session: Session | None = None
        self._id = session_id
        self._said: deque[tuple[float, DocumentMessage]] = deque(maxlen=KEPT)
        self._speaking: dict[StepId, DocumentMessage] = {}
        self._asking: dict[AskId, DocumentMessage] = {}
        self._asked_at: dict[AskId, Position] = {}
        self._approving: dict[AskId, StepId] = {}
        self._calls: dict[StepId, DocumentCall] = {}
        self._history: deque[Any] = deque(maxlen=KEPT)
        self._left_out = {"conversation_history": 0, "tool_call_stack": 0, "history": 0}

    @property
    def position(self) -> Position:
        """Up to where the journal has been folded."""
        return self.session.position if self.session is not None else Position(0)

    def gather(self, content: bytes) -> None:
        """Add a piece of ``run.history``, which may be outside the journal."""
        for item in decode(content):
            self._count("history", self._history)
            self._history.append(shown(item))

    def apply(self, recorded: ev.Recorded) -> None:
        """Fold one event in.

        Raises:
            Damaged: it cannot come here.
        """
        before = self.session
        self.session = created(self._id, recorded) if before is None else evolve(before, recorded)
        self._tell(recorded, self.session)

    def _tell(self, recorded: ev.Recorded, session: Session) -> None:
        event, at = recorded.event, recorded.at
        match event:
            case ev.StepBegun(kind="model"):
                if event.step not in self._speaking:
                    self._speaking[event.step] = self._say(
                        DocumentMessage("assistant", "", _time(at), session.turn), at
                    )
                self._speaking[event.step].state = "streaming"
            case ev.SegmentWritten():
                if said := self._speaking.get(event.step):
                    said.text = said.text[: event.offset] + event.text
            case ev.StepBegun():
                self._call(event, at)
            case ev.StepFinished() | ev.StepFailed() | ev.StepCut() | ev.StepClosed():
                if event.step in self._speaking:
                    self._spoken(event)
                else:
                    self._called(event.step, event, at)
            case ev.StepRetrying() if event.step in self._speaking:
                self._speaking[event.step].state = _ENDS[ev.StepRetrying]
            case ev.StepNotBegun() | ev.StepAborted() | ev.StepRetrying() | ev.UndoEnded(error="", lost=False):
                self._called(event.step, event, at)
            case ev.SessionTaken(lost=lost):
                for step in lost:
                    if step in self._calls:
                        self._calls[step].state = "lost"
            case ev.AskOpened():
                asking = DocumentMessage(
                    "assistant", event.prompt, _time(at), session.turn, ask=event.ask, state="asking"
                )
                self._asking[event.ask] = self._say(asking, at)
                self._asked_at[event.ask] = recorded.position
                if event.covers:
                    self._wait_for_approval(event, at)
            case ev.AskAnswered() | ev.AskClosed():
                self._answered(event, at, session.turn)
            case ev.TurnOpened():
                self._calls.clear()
                self._left_out["tool_call_stack"] = 0
                self._speaking.clear()
            case ev.SessionCompleted(result=result):
                self._returned(result, at, session.turn)
            case _:
                pass

    def _say(self, said: DocumentMessage, at: float) -> DocumentMessage:
        self._count("conversation_history", self._said)
        self._said.append((at, said))
        return said

    def _count(self, name: str, kept: "deque[Any]") -> None:
        self._left_out[name] += len(kept) == kept.maxlen

    def _spoken(self, event: ev.StepFinished | ev.StepFailed | ev.StepCut | ev.StepClosed) -> None:
        said = self._speaking[event.step]
        said.state = _ENDS[type(event)]
        value = _plain(event.value) if isinstance(event, ev.StepFinished) else None
        if not said.text and isinstance(value, str):
            said.text = value
        if not isinstance(event, ev.StepCut):  # what was cut may be said on
            del self._speaking[event.step]

    def _returned(self, result: Value, at: float, turn: int) -> None:
        """Add what the agent returned, unless it is its last message."""
        value = _plain(result)
        text = value if isinstance(value, str) else "" if value is None else _as_text(value)
        last = next((said.text for _, said in reversed(self._said) if said.role == "assistant"), None)
        if text and text != last:
            self._say(DocumentMessage("assistant", text, _time(at), turn, state="result"), at)

    def _answered(self, event: ev.AskAnswered | ev.AskClosed, at: float, turn: int) -> None:
        asking = self._asking.pop(event.ask, None)
        self._asked_at.pop(event.ask, None)
        call = self._calls.get(self._approving.pop(event.ask, StepId("")))
        if call is not None:
            answers = {True: "approved", False: "refused"}
            call.state = event.end if isinstance(event, ev.AskClosed) else answers[is_yes(event.value)]
        if isinstance(event, ev.AskClosed):
            if asking is not None:
                asking.state = event.end
            return
        if asking is not None:
            asking.state = "answered"
        value = _plain(event.value)
        text = value if isinstance(value, str) else _as_text(value)
        self._say(DocumentMessage("user", text, _time(at), turn, by=event.by, ask=event.ask), at)

    def _wait_for_approval(self, event: ev.AskOpened, at: float) -> None:
        """Show a call that has not begun. Its arguments are in the question, and nowhere else."""
        step = StepId(event.step.rpartition("~")[0])
        wanted = wanted_by(event.prompt)
        self._approving[event.ask] = step
        self._push(
            DocumentCall(
                step=step,
                name=step.partition("/")[2].rpartition(">")[2].partition("#")[0],
                arguments="" if wanted is None else shown(wanted.arguments),
                state="waits for approval",
                began_at=_time(at),
                detail=event.ask,
            )
        )

    def _call(self, event: ev.StepBegun, at: float) -> None:
        self._push(
            DocumentCall(
                step=event.step,
                name=event.name,
                arguments=event.arguments,
                effect=event.effect,
                state="running",
                attempt=event.attempt,
                began_at=_time(at),
            )
        )

    def _push(self, call: DocumentCall) -> None:
        self._calls.pop(call.step, None)  # tried again it is the newest
        if len(self._calls) >= KEPT:
            oldest = next((step for step, one in self._calls.items() if one.ended_at), None)
            if oldest is not None:
                del self._calls[oldest]
                self._left_out["tool_call_stack"] += 1
        self._calls[call.step] = call

    def _called(self, step: StepId, event: ev.AnyEvent, at: float) -> None:
        call = self._calls.get(step)
        if call is None:
            return
        call.state, call.ended_at = _ENDS[type(event)], _time(at)
        match event:
            case ev.StepFinished(value=value):
                call.result = shown(_plain(value))
                call.detail = f"told by {event.told_by}" if event.told_by else ""
            case ev.StepFailed(kind=kind, detail=detail) | ev.StepRetrying(kind=kind, detail=detail):
                call.detail = shown(f"{kind}: {detail}")
            case ev.StepClosed(truth=truth):
                call.detail = truth
            case ev.StepAborted(asked=True):
                call.state = "waits for an answer"
            case _:
                pass

    def content(self) -> bytes:
        """Return it as indented JSON."""
        session = self.session
        assert session is not None
        said, left_out = self._conversation(session)
        document = Readable(
            session_id=session.id,
            agent_name=session.agent,
            status=session.status.value,
            interrupt_reason=session.asks[0].reason if session.asks else None,
            asks=[self._ask(ask) for ask in session.asks] + [_ask_of_child(ask) for ask in session.child_asks],
            goal=shown(session.goal),
            turn=session.turn,
            conversation_history=said,
            tool_call_stack=list(self._calls.values()),
            history=list(self._history),
            left_out={name: count for name, count in left_out.items() if count},
            pause=None if session.pause is None else _words(session.pause, "id", "by", "reason"),
            failure=None if session.failure is None else _words(session.failure, "code", "message"),
            cost=session.cost,
            tokens=session.tokens,
            journal_position=session.position,
            updated_at=_time(session.at),
        )
        return msgspec.json.format(msgspec.json.encode(document), indent=2)

    def _conversation(self, session: Session) -> tuple[list[DocumentMessage], dict[str, int]]:
        """Return people's messages to the session, in their present state, and the agent's, in the order of time."""
        told = [
            (one.at, DocumentMessage("user", one.text, _time(one.at), one.turn, by=one.by, level=one.level))
            for one in session.said
            if one.text
        ]
        everything = sorted((*told, *((at, said) for at, said in self._said if said.text)), key=lambda one: one[0])
        kept = [msgspec.structs.replace(said, text=shown(said.text)) for _, said in everything[-KEPT:]]
        missing = self._left_out["conversation_history"] + len(everything) - len(kept)
        return kept, {**self._left_out, "conversation_history": missing}

    def _ask(self, ask: OpenAsk) -> DocumentAsk:
        then: Any = ask.on_expiry if ask.default is None else {"answer": shown(_plain(ask.default))}
        return DocumentAsk(
            ask_id=ask.id,
            checkpoint_id=checkpoint_id(self._id, self._asked_at.get(ask.id, Position(0))),
            reason=ask.reason,
            prompt=shown(ask.prompt),
            options=ask.options,
            opened_at=_time(ask.since),
            expires_at="" if ask.expires_at is None else _time(ask.expires_at),
            on_expiry=None if ask.expires_at is None else then,
        )


_ENDS: Final[Mapping[type[ev.AnyEvent], str]] = {
    ev.StepFinished: "finished",
    ev.StepFailed: "failed",
    ev.StepRetrying: "waits to be tried again",
    ev.StepCut: "cut",
    ev.StepClosed: "closed",
    ev.StepNotBegun: "not begun",
    ev.StepAborted: "aborted",
    ev.UndoEnded: "undone",
}


def _ask_of_child(ask: ChildAsk) -> DocumentAsk:
    return DocumentAsk(
        ask_id=f"{ask.child}/{ask.ask}", reason=ask.reason, prompt=shown(ask.prompt), opened_at=_time(ask.since)
    )


def _words(thing: object, *fields: str) -> dict[str, str]:
    return {field: shown(str(getattr(thing, field))) for field in fields if getattr(thing, field)}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _plain(value: Value) -> Any:
    """Return what a value holds; of one outside the journal its size."""
    if value.blob:
        return f"({value.size:,} bytes)"
    return None if value == NOTHING else decode(value.raw)


def _as_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def shown(value: Any) -> Any:
    """JSON-like, without what looks like a secret, and no longer than a person reads."""
    if isinstance(value, str):
        return _cut_text(without_secrets(value[: 2 * SHOWN]), len(value))
    return _cut(without_secrets(value), 0)


def _cut_text(text: str, length: int) -> str:
    return text if max(length, len(text)) <= SHOWN else f"{text[:SHOWN]}… ({length:,} characters in all)"


def _cut(value: Any, depth: int) -> Any:
    match value:
        case str():
            return _cut_text(value, len(value))
        case dict() | list() if depth >= DEPTH:
            return "…"
        case dict():
            items = cast("dict[str, object]", value).items()
            return {key: _cut(item, depth + 1) for key, item in islice(items, KEPT)}
        case list():
            return [_cut(item, depth + 1) for item in cast("list[object]", value)[:KEPT]]
        case _:
            return value
