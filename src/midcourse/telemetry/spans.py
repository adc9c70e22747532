"""Sessions as OpenTelemetry spans, by its conventions for generative AI. Needs the extra ``otel``.

Spans are made of journal events, when an owner adds them, and their ids from the journal: the trace of a session is
derived from its id, so that a session that continues in another process stays in the same trace, and a replay, which
journals nothing, makes no span. What was running when a process was killed becomes a span once the next one acquires
the session: ``midcourse.outcome`` is ``lost``. What the killed process itself had not ended is missing.

- ``invoke_agent {agent}``: one turn of a session, in one process. It has a link to the one before: the turn before, or
  the process before. What stopped, redirected or asked is an event of it.
- ``chat {step}``, ``execute_tool {step}``: a model's step, a tool's. Tried again, it is another span.

They hold no text of people, models or tools, unless ``content`` is set.
"""

import os
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Final

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from midcourse._version import __version__
from midcourse.core import events as ev
from midcourse.core.events import Recorded, StepKind, event_type
from midcourse.core.ids import Epoch, SessionId, StepId, root_of
from midcourse.core.session import OpenCall, Session
from midcourse.core.session import Status as SessionStatus
from midcourse.ports.meter import Meter

MOST_EVENTS: Final = 128
"""Events of one span; how many more there were is said in ``midcourse.events_dropped``."""
LONGEST: Final = 4000
"""The length of a text in spans, in characters, if texts are included."""
_OPERATIONS: Final[dict[StepKind, str]] = {"model": "chat", "tool": "execute_tool", "child": "invoke_agent"}
_NOTED: Final = (
    *(ev.PauseRequested, ev.SessionPaused, ev.SessionResumed, ev.SessionRedirected, ev.CancelRequested),
    *(ev.SessionCancelled, ev.SessionHalted, ev.HaltLifted, ev.SessionWaiting, ev.SessionParked, ev.SessionTaken),
    *(ev.AskOpened, ev.AskAnswered, ev.AskClosed, ev.InterventionMade, ev.BudgetRaised, ev.CheckpointTaken),
    *(ev.AgentSilent, ev.LoopBlocked, ev.WorldChanged, ev.SessionFailed),
)
"""The journal events that become events of the agent's span."""
Attributes = dict[str, str | int | float | bool]


@dataclass(slots=True)
class _Leg:
    """One turn in one process, under way."""

    context: SpanContext
    parent: SpanContext | None
    links: list[Link]
    began: float
    last: float
    agent: str
    attributes: Attributes
    status: Status = field(default_factory=Status)
    events: list[SpanEvent] = field(default_factory=list[SpanEvent])
    dropped: int = 0
    calls: dict[StepId, tuple[float, ev.StepBegun]] = field(default_factory=dict[StepId, tuple[float, ev.StepBegun]])


class Spans(Meter):
    """A meter that tells of sessions as spans. It hands each one to ``processor`` when it has ended."""

    def __init__(self, processor: SpanProcessor, *, content: bool = False) -> None:
        """``content``: include texts, arguments and results, cut at 4,000 characters."""
        self._processor = processor
        self._content = content
        self._legs: dict[SessionId, _Leg] = {}
        scope = InstrumentationScope("midcourse", __version__)
        self._span = partial(ReadableSpan, resource=_resource(), instrumentation_scope=scope)

    @classmethod
    def to(cls, exporter: SpanExporter, *, content: bool = False) -> "Spans":
        """Return spans for an exporter, several at a time, from a thread of its own."""
        return cls(BatchSpanProcessor(exporter), content=content)

    def close(self, seconds: float = 5.0) -> None:
        """End what is open, send what there is, for so long, and stop."""
        for session_id in list(self._legs):
            self.left(session_id)
        self._processor.force_flush(int(seconds * 1000))
        self._processor.shutdown()

    def recorded(self, session: Session, epoch: Epoch, record: Recorded) -> None:
        """Follow an event that was added to a journal."""
        event = record.event
        leg = self._legs.get(session.id)
        match event:
            case ev.SessionTaken():
                leg = self._open(session, epoch, record.at, before=_leg_id(session.id, epoch - 1, session.turn))
                for step in event.lost:
                    self._lost(session, epoch, step, record.at)
            case ev.TurnOpened():
                self.left(session.id)
                leg = self._open(session, epoch, record.at, before=_leg_id(session.id, epoch, session.turn - 1))
            case ev.SessionStarted() if leg is None:
                leg = self._open(session, epoch, record.at, before=None)
            case _:
                pass
        if leg is None:
            return
        leg.last = record.at
        if isinstance(event, _NOTED):
            self._note(leg, record)
        match event:
            case ev.StepBegun():
                leg.calls[event.step] = (record.at, event)
            case ev.StepFinished() | ev.StepFailed() | ev.StepRetrying() | ev.StepCut():
                spent: Attributes = {"midcourse.cost_usd": event.cost, "midcourse.tokens": event.tokens}
                self._step(session, leg, event, record.at, spent)
            case ev.StepAborted() | ev.StepClosed():
                self._step(session, leg, event, record.at, {})
            case ev.StepNotBegun():
                leg.calls.pop(event.step, None)
            case ev.SessionFailed():
                leg.attributes["error.type"] = event.code
                leg.status = Status(StatusCode.ERROR, event.message[:LONGEST] if self._content else event.code)
                self.left(session.id)
            case ev.SessionCompleted() | ev.SessionCancelled():
                self.left(session.id)
            case _:
                pass

    def left(self, session_id: SessionId) -> None:
        """End the spans of a session that has left this process: its turn ended, or continues elsewhere."""
        leg = self._legs.pop(session_id, None)
        if leg is None:
            return
        if leg.dropped:
            leg.attributes["midcourse.events_dropped"] = leg.dropped
        span = self._span(
            name=f"invoke_agent {leg.agent}",
            context=leg.context,
            parent=leg.parent,
            attributes=leg.attributes,
            events=leg.events,
            links=leg.links,
            kind=SpanKind.INTERNAL,
            status=leg.status,
            start_time=_nanoseconds(leg.began),
            end_time=_nanoseconds(max(leg.began, leg.last)),
        )
        self._processor.on_end(span)

    # ---- turns

    def _open(self, session: Session, epoch: Epoch, at: float, *, before: int | None) -> _Leg:
        parent = self._legs.get(session.parent) if session.parent is not None else None
        trace = _trace_id(session.id)
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": session.agent,
            "gen_ai.agent.version": session.agent_version,
            "gen_ai.conversation.id": session.id,
            "midcourse.turn": session.turn,
            "midcourse.epoch": epoch,
        }
        if session.terms.task_class is not None:
            attributes["midcourse.task_class"] = session.terms.task_class
        if session.parent is not None:
            attributes["midcourse.parent_session"] = session.parent
        if self._content:
            attributes["midcourse.goal"] = session.goal[:LONGEST]
        # A session that was never begun has no work to continue.
        links = [] if before is None or session.status is SessionStatus.QUEUED else [Link(_context(trace, before))]
        leg = self._legs[session.id] = _Leg(
            context=_context(trace, _leg_id(session.id, epoch, session.turn)),
            parent=parent.context if parent is not None else None,
            links=links,
            began=at,
            last=at,
            agent=session.agent,
            attributes=attributes,
        )
        return leg

    def _note(self, leg: _Leg, record: Recorded) -> None:
        if len(leg.events) >= MOST_EVENTS:
            leg.dropped += 1
            return
        said = self._attributes_of(record)
        leg.events.append(SpanEvent(event_type(record.event), said, _nanoseconds(record.at)))

    def _attributes_of(self, record: Recorded) -> Attributes:
        event = record.event
        said: Attributes = {"midcourse.position": record.position}
        by: str = getattr(event, "by", "")
        if by:
            said["midcourse.by"] = by
        match event:
            case ev.InterventionMade():
                said["midcourse.level"] = event.decision.level
                said["midcourse.policy"] = event.decision.policy
                said["midcourse.signals"] = ", ".join(reason.signal for reason in event.decision.reasons)
            case ev.AskOpened():
                said["midcourse.ask"], said["midcourse.reason"] = event.ask, event.reason
                self._say(said, "midcourse.prompt", event.prompt)
            case ev.AskAnswered() | ev.AskClosed():
                said["midcourse.ask"] = event.ask
            case ev.SessionRedirected():
                said["midcourse.level"] = event.level
                self._say(said, "midcourse.text", event.text)
            case ev.PauseRequested() | ev.CancelRequested() | ev.SessionHalted():
                self._say(said, "midcourse.reason", event.reason)
            case ev.SessionTaken():
                said["midcourse.lost_calls"] = len(event.lost)
            case ev.AgentSilent() | ev.LoopBlocked():
                said["midcourse.seconds"] = event.seconds
            case _:
                pass
        return said

    def _say(self, said: Attributes, name: str, text: str) -> None:
        if self._content and text:
            said[name] = text[:LONGEST]

    # ---- steps

    def _step(
        self,
        session: Session,
        leg: _Leg,
        end: ev.StepFinished | ev.StepFailed | ev.StepRetrying | ev.StepCut | ev.StepAborted | ev.StepClosed,
        at: float,
        spent: Attributes,
    ) -> None:
        known = leg.calls.pop(end.step, None)
        if known is None:  # reported later, by a probe or a person: it made its span when it ended
            return
        began, call = known
        attributes: Attributes = {**spent, "midcourse.outcome": event_type(end).removeprefix("step.")}
        if call.kind == "tool":
            self._say(attributes, "gen_ai.tool.call.arguments", call.arguments)
            if isinstance(end, ev.StepFinished) and not end.value.blob:
                self._say(attributes, "gen_ai.tool.call.result", bytes(end.value.raw).decode("utf-8", "replace"))
        status = Status()
        if isinstance(end, ev.StepFailed | ev.StepRetrying):
            attributes["error.type"] = end.kind
            status = Status(StatusCode.ERROR, end.detail[:LONGEST] if self._content else end.kind)
        if isinstance(end, ev.StepRetrying):
            attributes["midcourse.retry_wait_seconds"] = end.wait
        self._send_step(session, leg.context, end.step, call, (began, at), attributes, status)

    def _lost(self, session: Session, epoch: Epoch, step: StepId, at: float) -> None:
        """Report what ran in a lost process, as a part of its turn."""
        call = session.calls.get(step)
        if call is None:
            return
        trace = self._legs[session.id].context.trace_id
        parent = _context(trace, _leg_id(session.id, epoch - 1, session.turn))
        lost: Attributes = {"midcourse.outcome": "lost", "error.type": "lost"}
        status = Status(StatusCode.ERROR, "lost with its process")
        self._send_step(session, parent, step, call, (call.since, at), lost, status)

    def _send_step(
        self,
        session: Session,
        parent: SpanContext,
        step: StepId,
        call: ev.StepBegun | OpenCall,
        times: tuple[float, float],
        more: Attributes,
        status: Status,
    ) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": _OPERATIONS[call.kind],
            "gen_ai.conversation.id": session.id,
            "gen_ai.agent.name": session.agent,
            "midcourse.step": step,
            "midcourse.attempt": call.attempt,
            **more,
        }
        side = SpanKind.CLIENT
        if call.kind == "tool":
            side = SpanKind.INTERNAL
            attributes |= {"gen_ai.tool.name": call.name, "gen_ai.tool.type": "function", "gen_ai.tool.call.id": step}
            attributes["midcourse.effect"] = call.effect
        span = self._span(
            name=f"{_OPERATIONS[call.kind]} {call.name}",
            context=_context(parent.trace_id, _number(8, session.id, step, str(call.attempt))),
            parent=parent,
            attributes=attributes,
            kind=side,
            status=status,
            start_time=_nanoseconds(times[0]),
            end_time=_nanoseconds(max(times)),
        )
        self._processor.on_end(span)


def _resource() -> Resource:
    """Return the resource from OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, by default Midcourse."""
    named = "OTEL_SERVICE_NAME" in os.environ or f"{SERVICE_NAME}=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({} if named else {SERVICE_NAME: "midcourse"})


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)


def _number(size: int, *parts: str) -> int:
    """Return the same number for the same words; never 0, which means none."""
    return int.from_bytes(blake2b("\n".join(parts).encode("utf-8", "replace"), digest_size=size).digest(), "big") or 1


def _trace_id(session_id: SessionId) -> int:
    """Return one trace for a session and all of its children."""
    return _number(16, root_of(session_id))


def _leg_id(session_id: SessionId, epoch: int, turn: int) -> int:
    return _number(8, session_id, f"epoch {epoch}", f"turn {turn}")


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
