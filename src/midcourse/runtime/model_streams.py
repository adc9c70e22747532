"""Reads a model's stream: a preview for each piece, a durable segment now and then, and not a token after a stop."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from math import isfinite
from typing import cast

from midcourse.core.codec import encode
from midcourse.errors import InterruptRequested, MisusedRun
from midcourse.ports.bus import Delta
from midcourse.ports.clock import Timer
from midcourse.runtime.calls import CallEnd, CallInFlight
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal
from midcourse.runtime.session_budget import SessionBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnd:
    """The last item of a streaming function: the step's result in place of its text, and its cost.

    Without a ``cost`` it is unknown; 0 means that it cost nothing.
    """

    value: object = None
    cost: float | None = None
    tokens: int | None = None


class ModelStreams:
    """The model streams of one session, on the agent's loop."""

    def __init__(self, journal: Journal, gate: Gate, ctx: RuntimeContext, purse: SessionBudget) -> None:
        self._journal = journal
        self._gate = gate
        self._ctx = ctx
        self._session_budget = purse

    async def read(
        self, body: Callable[[], object], call: CallInFlight, ended: CallEnd, *, foresees: bool = False
    ) -> None:
        """Read a stream to its end: a preview for each piece, a durable segment now and then.

        ``foresees``: the body itself tells what its request is going to cost, before it makes it.
        """
        clock = self._ctx.clock
        made = body()
        if not foresees and not getattr(made, "foresees", False):
            try:
                self._session_budget.afford_usual(call)
            except InterruptRequested:
                if inspect.iscoroutine(made):
                    made.close()  # it is never awaited
                raise
        source = cast("AsyncIterator[object]", await made if inspect.isawaitable(made) else made)
        end: StreamEnd | None = None
        flush: Timer | None = None
        flushed_by = 0.0
        try:
            async for piece in source:
                if isinstance(piece, StreamEnd):
                    end = _checked_end(call, piece)
                    continue
                # Before it becomes part of a segment: what cannot be written would hold up the stop that cuts it.
                text = _checked_piece(call, piece)
                await self._gate.until_fresh()
                with self._journal.lock:
                    _end_if_cut(call)
                    offset = call.write(text)
                    # Under the lock: no preview comes after the decision of a stop.
                    self._ctx.fanout.preview(Delta(self._journal.session.id, call.step, call.attempt, offset, text))
                    self._session_budget.stop_if_spent()
                    _end_if_cut(call)  # at the cap, not a word more is asked for
                if len(call.tail) >= self._journal.pace.segment:
                    self._flush(call)
                elif flush is None or flushed_by <= clock.monotonic():
                    flushed_by = clock.monotonic() + self._ctx.settings.segment_seconds
                    flush = clock.call_at(flushed_by, self._flush, call)
        finally:
            if flush is not None:
                flush.cancel()
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()
        ended.cost = end.cost if end else None
        ended.tokens = end.tokens if end and end.tokens is not None else call.tokens
        if end is None or end.value is None:
            ended.streamed = True
        else:
            ended.content = encode(end.value, what=f"The result of step '{call.name}'")

    def _flush(self, call: CallInFlight) -> None:
        with self._journal.lock:
            if call.step in self._gate.begun and not self._journal.broken:
                pieces = len(call.tail)
                for segment in call.take_tail():
                    self._journal.note_segment(segment, pieces)


def _end_if_cut(call: CallInFlight) -> None:
    if call.cut:
        call.stopped = True
        raise asyncio.CancelledError


def _checked_piece(call: CallInFlight, piece: object) -> str:
    if not isinstance(piece, str):
        raise MisusedRun(
            f"Step '{call.name}' streamed a {type(piece).__name__}; a stream yields str pieces "
            "and, at the end, at most one StreamEnd.",
            code="bad_stream",
        )
    if not piece.isascii():
        try:
            piece.encode()
        except UnicodeEncodeError as error:
            raise MisusedRun(
                f"Step '{call.name}' streamed text that is not Unicode ({error.reason}), which cannot be journaled. "
                "Put the halves of a surrogate pair together before yielding them.",
                code="bad_stream",
            ) from error
    return piece


def _checked_end(call: CallInFlight, end: StreamEnd) -> StreamEnd:
    if end.cost is not None and not isfinite(end.cost):
        raise MisusedRun(
            f"Step '{call.name}' ended with a cost of {end.cost}, which cannot be journaled. Give a finite number.",
            code="bad_stream",
        )
    return end
