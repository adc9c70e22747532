"""The chat contract's frames: a session's events as a chat client sees them."""

import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import msgspec

from midcourse.core import events as ev
from midcourse.core.ids import Position, SessionId, checkpoint_id
from midcourse.core.session import Session
from midcourse.core.to_json import to_json
from midcourse.errors import MidcourseError
from midcourse.handle import LocalTransport
from midcourse.ports.bus import PREVIEWS_KEPT, Delta
from midcourse.server.delivered_asks import Delivered, open_asks
from midcourse.server.stream import PIECE, end_frame, frame

Frame = dict[str, Any]
Told = Callable[[MidcourseError], MidcourseError]
"""An error in the form for its reader."""


class ChatFrames:
    """The state of one chat stream: what it has shown, and what it waits for.

    ``queued``: the message whose turn it waits for; until that begins, events belong to another stream. ``joins``: the
    session where a stream begins in its middle, whose client has what came before and what comes until ``shown_until``.
    """

    def __init__(
        self,
        session_id: SessionId,
        *,
        queued: str | None = None,
        joins: Session | None = None,
        shown_until: int = 0,
    ) -> None:
        self.session_id = session_id
        self._queued = queued
        self._shown_until = shown_until
        self._begun: set[tuple[str, int]] = set()
        self._shown: dict[tuple[str, int], int] = {}
        self._written: dict[str, int] = {}
        self._early: dict[tuple[str, int], deque[Delta]] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self.asked: set[str] = set()
        self.is_over = False
        if joins is not None:
            self._names |= {step: (call.name, call.effect) for step, call in joins.calls.items() if call.kind == "tool"}
            self.asked |= open_asks(joins).keys()

    def frames(self, one: ev.Recorded | Delta) -> Iterator[Frame]:
        """Yield the client's frames of an event or a preview."""
        if isinstance(one, ev.Recorded) and one.position <= self._shown_until:
            list(self._event(one.event, one.position))
            self.is_over = False
        elif self._queued is not None:
            yield from self._until_its_turn(one)
        elif isinstance(one, Delta):
            yield from self._preview(one)
        else:
            yield from self._event(one.event, one.position)

    def _until_its_turn(self, one: ev.Recorded | Delta) -> Iterator[Frame]:
        event = None if isinstance(one, Delta) else one.event
        if isinstance(event, ev.TurnOpened) and event.queued == self._queued:
            self._queued = None
        elif isinstance(event, ev.MessageWithdrawn) and event.message == self._queued:
            yield self._ended("error", code="message_withdrawn", message="The message was withdrawn before its turn.")
        elif isinstance(event, ev.SessionFailed):
            sentence = f"The turn before this message failed: {event.message} The message waits; another one wakes it."
            yield self._ended("error", code=event.code, message=sentence)

    def _event(self, event: ev.AnyEvent, position: Position) -> Iterator[Frame]:
        match event:
            case ev.StepBegun(kind="model"):
                self._begun.add((event.step, event.attempt))
                yield from self._early_text(event.step, event.attempt)
            case ev.SegmentWritten():
                # The first of an attempt says where that begins: at 0, or where the one before it was cut.
                self._shown.setdefault((event.step, event.attempt), event.offset)
                self._written[event.step] = event.offset + len(event.text)
                yield from self._text(event.step, event.attempt, event.offset, event.text)
                yield from self._early_text(event.step, event.attempt)
            case ev.StepBegun(kind="tool"):
                self._names[event.step] = (event.name, event.effect)
                yield self._tool(event.step, "begun", attempt=event.attempt, arguments=event.arguments)
            case ev.StepFinished() if event.step in self._names:
                yield self._tool(event.step, "finished", attempt=event.attempt)
            case ev.StepFailed() if event.step in self._names:
                yield self._tool(event.step, "failed", attempt=event.attempt, detail=event.detail)
            case ev.StepRetrying():
                why = f"{event.kind}: {event.detail}"
                told = {"step": event.step, "attempt": event.attempt, "attempts": event.attempts, "wait": event.wait}
                yield {"type": "retrying", **told, "detail": why}
            case ev.StepAborted() | ev.StepClosed() if event.step in self._names:
                yield self._tool(event.step, "interrupted", attempt=event.attempt)
            case ev.AskOpened():
                options = list(event.options)
                yield self._interrupt(event.ask, event.reason, event.prompt, position, options, event.expires_at)
            case ev.ChildAsked():
                yield self._interrupt(f"{event.child}/{event.ask}", event.reason, event.prompt, position, [], None)
            case ev.AskAnswered(ask=ask) if ask in self.asked:
                yield self._ended("resumed", ask_id=ask)
            case ev.ChildAskClosed() if f"{event.child}/{event.ask}" in self.asked:
                yield self._ended("resumed", ask_id=f"{event.child}/{event.ask}")
            case ev.SessionFailed():
                yield self._ended("error", code=event.code, message=event.message)
            case ev.SessionCancelled():
                yield self._ended("done", status="cancelled", result=None, receipt=to_json(event.receipt))
            case _:
                pass

    @property
    def waits(self) -> bool:
        """True if its turn has not begun."""
        return self._queued is not None

    def completed(self, result: object) -> Frame:
        """Return the frame of the agent's result."""
        return self._ended("done", status="completed", result=result)

    def _preview(self, delta: Delta) -> Iterator[Frame]:
        """Previews run ahead of the journal; shown are those of a step whose beginning was, so that all is in order."""
        key = (delta.step, delta.attempt)
        if key in self._begun or key in self._shown:
            yield from self._text(delta.step, delta.attempt, delta.offset, delta.text)
        else:
            self._early.setdefault(key, deque(maxlen=PREVIEWS_KEPT)).append(delta)

    def _early_text(self, step: str, attempt: int) -> Iterator[Frame]:
        for one in self._early.pop((step, attempt), ()):
            yield from self._text(step, attempt, one.offset, one.text)

    def _text(self, step: str, attempt: int, offset: int, text: str) -> Iterator[Frame]:
        """Text from where the client has it. Previews may be lost on the way; the durable segment fills the gap."""
        shown = self._shown.get((step, attempt))
        if shown is None and offset in (0, self._written.get(step)):
            shown = offset
        if shown is not None and offset <= shown < offset + len(text):
            self._shown[step, attempt] = offset + len(text)
            yield {"type": "delta", "text": text[shown - offset :], "step": step, "attempt": attempt, "offset": shown}

    def _tool(self, step: str, state: str, **more: object) -> Frame:
        name, effect = self._names[step]
        return {"type": "tool", "name": name, "step": step, "effect": effect, "state": state, **more}

    def _interrupt(
        self, ask: str, reason: str, prompt: str, position: int, options: list[str], expires_at: float | None
    ) -> Frame:
        self.asked.add(ask)
        return {
            "type": "interrupt",
            "reason": reason,
            "prompt": prompt,
            "ask_id": ask,
            "checkpoint_id": checkpoint_id(self.session_id, position),
            "options": options,
            "expires_at": expires_at,
            "session_id": self.session_id,
        }

    def _ended(self, kind: str, **fields: object) -> Frame:
        self.is_over = True
        return {"type": kind, "session_id": self.session_id, **fields}


async def chat_frames(
    local: LocalTransport,
    chat: ChatFrames,
    *,
    after: Position,
    delivered: Delivered,
    caller: str,
    told: Told,
    ends: Callable[[], bool] | None = None,
) -> AsyncIterator[bytes]:
    """The stream of a chat from ``after`` on, until it is over. An ask is noted as delivered before it is sent."""
    batches = local.batches(chat.session_id, after=after, deltas=True, follow=True, limit=PIECE, ends=ends)
    try:
        async for one in _each(batches):
            position = None if isinstance(one, Delta) else one.position
            for shown in chat.frames(one):
                if shown["type"] == "interrupt":
                    await delivered.note(chat.session_id, shown["ask_id"], caller)
                yield frame(shown, position=position)
            if not isinstance(one, Delta) and isinstance(one.event, ev.SessionCompleted) and not chat.waits:
                content = await local.content(one.event.result)
                yield frame(chat.completed(msgspec.Raw(content)), position=position)
            if chat.is_over:
                return
        yield end_frame("server_stopping")
    except MidcourseError as error:
        yield error_frame(chat.session_id, told(error))


async def _each(batches: AsyncGenerator[Sequence[ev.Recorded | Delta]]) -> AsyncIterator[ev.Recorded | Delta]:
    async with contextlib.aclosing(batches):
        async for batch in batches:
            for one in batch:
                yield one


def error_frame(session_id: SessionId, error: MidcourseError) -> bytes:
    """Return an error as a frame, once the answer has begun and no status can be sent."""
    return frame({"type": "error", "session_id": session_id, "code": error.code, "message": error.message})
