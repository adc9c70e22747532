"""OpenTelemetry traces of agents: an OTLP JSON export, or one span a line as the SDKs print them.

Names are those of the GenAI conventions; older ones and OpenInference's are understood where they say the same. A
conversation (or, without one, a trace) is a recording. A span is a row when it ends, for then it is known. Its outcome
is the status of the root span: Error is a failure, Ok a success, unset unknown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, cast

import msgspec

from midcourse.analysis.backtest.importers.jsonl import Lines
from midcourse.analysis.backtest.recordings import (
    LONGEST_TEXT,
    Outcome,
    Prices,
    Recorder,
    Recording,
    backwards,
    recorded_arguments,
    texts,
)
from midcourse.policy.run_activity import Called, CallKind
from midcourse.policy.signals.journal_reader import resources_in

SOURCE: Final = "otel"
Attributes = Mapping[str, Any]

_KINDS: Final[Mapping[str, CallKind | None]] = {
    # gen_ai.operation.name
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "completion": "model",
    "embeddings": "model",
    "execute_tool": "tool",
    "invoke_agent": None,
    "create_agent": None,
    "invoke_workflow": None,
    # openinference.span.kind, traceloop.span.kind
    "llm": "model",
    "embedding": "model",
    "tool": "tool",
    "retriever": "tool",
    "reranker": "tool",
    "agent": None,
    "chain": None,
    "workflow": None,
    "task": None,
    "guardrail": None,
    "evaluator": None,
}
_OPERATION: Final = ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "llm.request.type")
_MODEL: Final = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "llm.response.model",
    "llm.request.model",
    "embedding.model_name",
)
_TOOL: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_IN: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
)
_OUT: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
)
_CACHED: Final = ("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read")
_COST: Final = ("gen_ai.usage.cost", "operation.cost", "llm.cost.total", "llm.usage.cost")
_PROVIDER: Final = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
_ASKED: Final = ("gen_ai.tool.call.arguments", "tool.parameters", "traceloop.entity.input", "input.value")
_ANSWERED: Final = ("gen_ai.tool.call.result", "traceloop.entity.output", "output.value")
_WROTE: Final = (
    "gen_ai.output.messages",
    "gen_ai.completion.0.content",
    "llm.output_messages.0.message.content",
    "gen_ai.completion",
    "output.value",
)
_CONVERSATION: Final = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")


class OtelSpan(msgspec.Struct, gc=False, kw_only=True):
    """A span, by any exporter."""

    trace: str
    id: str
    parent: str
    name: str
    start: float | None
    end: float | None
    status: str
    message: str
    attributes: Attributes

    def get(self, names: Iterable[str]) -> Any:
        """Return the first of these attributes that there is."""
        return next((value for name in names if (value := self.attributes.get(name)) not in (None, "")), None)

    def text(self, names: Iterable[str]) -> str:
        value = self.get(names)
        return "" if value is None else str(value)

    @property
    def kind(self) -> CallKind | None:
        """The kind of call: a model or a tool; None for a span that only groups others."""
        operation = self.text(_OPERATION).lower()
        if operation in _KINDS:
            return _KINDS[operation]
        if self.attributes.get("gen_ai.tool.name") or self.attributes.get("tool.name"):
            return "tool"
        return "model" if self.get(_MODEL) is not None and self.get((*_IN, *_OUT)) is not None else None


# ---- from whatever was written


def is_trace(line: dict[str, Any]) -> bool:
    if "resourceSpans" in line or "resource_spans" in line:
        return True
    has_trace = "traceId" in line or "trace_id" in line or isinstance(line.get("context"), dict)
    return has_trace and ("name" in line or "span_name" in line or "spans" in line)


def spans_in(line: dict[str, Any]) -> Iterator[OtelSpan]:
    """Yield the spans of a line: an export of many, a single one of the SDK, or one with its children."""
    exported = line.get("resourceSpans", line.get("resource_spans"))
    if exported is None:
        yield from _plain(line)
        return
    for resource in _listed(exported):
        for name in ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            for scope in _listed(resource.get(name)):
                yield from map(_span, _listed(scope.get("spans")))


def _spans(line: bytes) -> list[OtelSpan]:
    return list(spans_in(msgspec.json.decode(line, type=dict[str, Any])))


def _plain(line: dict[str, Any]) -> Iterator[OtelSpan]:
    if "spans" in line:
        for span in _listed(line["spans"]):
            yield from _plain(span)
        return
    yield _span(line)
    for child in _listed(line.get("child_spans")):
        yield from _plain(child)


def _listed(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [cast("dict[str, Any]", one) for one in cast("list[Any]", value) if isinstance(one, dict)]


def _span(raw: dict[str, Any]) -> OtelSpan:
    def first(*names: str) -> Any:
        return next((raw[name] for name in names if raw.get(name) is not None), None)

    context = cast("dict[str, Any]", raw["context"]) if isinstance(raw.get("context"), dict) else {}
    start = _time(first("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp"))
    end = _time(first("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime"))
    if end is None and start is not None:
        end = start + (_span_of(raw.get("duration")) or 0.0)
    status, message = _status(first("status", "status_code"), raw)
    return OtelSpan(
        trace=str(first("traceId", "trace_id") or context.get("trace_id", "")),
        id=str(first("spanId", "span_id") or context.get("span_id", "")),
        parent=str(first("parentSpanId", "parent_span_id", "parent_id") or ""),
        name=str(first("name", "span_name") or ""),
        start=start,
        end=end,
        status=status,
        message=message,
        attributes=_attributes(first("attributes", "span_attributes")),
    )


def _attributes(value: Any) -> Attributes:
    if isinstance(value, list):  # OTLP: a list of names with typed values
        return {str(one.get("key", "")): _value(one.get("value")) for one in _listed(cast("list[Any]", value))}
    return _flat("", cast("dict[str, Any]", value)) if isinstance(value, dict) else {}


def _flat(before: str, value: dict[str, Any]) -> dict[str, Any]:
    """Flatten nested attributes: some write ``gen_ai.usage.input_tokens`` as objects within objects."""
    found: dict[str, Any] = {}
    for name, one in value.items():
        found[before + name] = one
        if isinstance(one, dict):
            found |= _flat(f"{before}{name}.", cast("dict[str, Any]", one))
    return found


_TYPED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "stringValue": str,
    "intValue": int,
    "doubleValue": float,
    "boolValue": bool,
    "bytesValue": str,
}


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    for name, one in fields.items():
        if name in _TYPED:
            with suppress(TypeError, ValueError):
                return _TYPED[name](one)
        if name == "arrayValue" and isinstance(one, dict):
            return [_value(item) for item in cast("dict[str, Any]", one).get("values", [])]
        if name == "kvlistValue" and isinstance(one, dict):
            return _attributes(cast("dict[str, Any]", one).get("values", []))
    return None


def _status(value: Any, raw: dict[str, Any]) -> tuple[str, str]:
    message = raw.get("status_message", "")
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        message = fields.get("message", fields.get("description", message))
        value = fields.get("code", fields.get("status_code"))
    word = str(value or "").rpartition("_")[2].rpartition(".")[2].upper()
    return {"2": "error", "ERROR": "error", "1": "ok", "OK": "ok"}.get(word, ""), str(message or "")


def _time(value: Any) -> float | None:
    """Seconds since 1970, from nanoseconds (a number, or one in quotes) or a date."""
    if isinstance(value, str) and not value.isdigit():
        with suppress(ValueError):
            return datetime.fromisoformat(value).timestamp()
        return None
    with suppress(TypeError, ValueError):
        return int(value) / 1e9 or None
    return None


def _span_of(value: Any) -> float | None:
    """Seconds, from nanoseconds or ISO 8601 (``PT1M2.5S``)."""
    if isinstance(value, int | float):
        return value / 1e9
    with suppress(msgspec.ValidationError):
        return msgspec.convert(value, timedelta).total_seconds()
    return None


# ---- to a recording


def read(lines: Lines) -> Iterator[Recording]:
    """Yield every conversation of a file, in the order in which they are first seen."""
    traces: dict[str, list[OtelSpan]] = {}
    for number, spans in lines.decoded(_spans, "a span or an export of spans"):
        lost = sum(not span.trace for span in spans)
        if lost or not spans:
            lines.tell(f"{lost or 'All'} of {len(spans)} spans here belong to no trace. Left out.", number, lost or 1)
        for span in spans:
            if span.trace:
                traces.setdefault(span.trace, []).append(span)
    conversations: dict[str, list[list[OtelSpan]]] = {}
    for trace, spans in traces.items():
        named = next((text for span in spans if (text := span.text(_CONVERSATION))), "")
        conversations.setdefault(named or trace, []).append(spans)
    prices = Prices()
    for name, turns in conversations.items():
        recording = _recording(lines, name, turns, prices)
        if recording is not None:
            yield recording
    lines.add(prices.notice(lines.file))


def _recording(lines: Lines, name: str, turns: list[list[OtelSpan]], prices: Prices) -> Recording | None:
    turns.sort(key=lambda spans: min((span.start or 0.0 for span in spans), default=0.0))
    run_id = f"{SOURCE}/{name}"
    started = min((span.start for spans in turns for span in spans if span.start is not None), default=None)
    recorder = Recorder(next((goal for spans in turns if (goal := _goal(spans))), ""))
    recorder.begin(0.0 if started is not None else None)
    wrong = 0
    for spans in turns:
        if recorder.count:
            began = min((span.start for span in spans if span.start is not None), default=None)
            at = None if began is None or started is None else began - started
            recorder.said(_goal(spans)[:LONGEST_TEXT], at, new_turn=True)
        for span in sorted(spans, key=lambda one: one.end or one.start or 0.0):
            kind = span.kind
            if kind is not None:
                wrong += span.end is not None and span.start is not None and span.end < span.start
                recorder.told(_called(span, kind, started, prices))
    count = sum(map(len, turns))
    if not recorder.count:
        lines.tell(
            f"None of the {count} spans of trace '{name}' is the call of a model or a tool. Left out.", None, count
        )
        return None
    if wrong:
        lines.tell(f"{wrong} spans of '{name}' end before they begin: how long they took is not counted.")
    lines.add(backwards(recorder, lines.file, run_id))
    return recorder.done(source=SOURCE, run_id=run_id, task_key=name, outcome=_outcome(turns))


def _outcome(turns: list[list[OtelSpan]]) -> Outcome:
    """Return the outcome by the root span of the last turn."""
    known = {span.id for span in turns[-1]}
    roots = [span.status for span in turns[-1] if not span.parent or span.parent not in known]
    if "error" in roots:
        return "failure"
    return "success" if roots and all(status == "ok" for status in roots) else "unknown"


def _called(span: OtelSpan, kind: CallKind, started: float | None, prices: Prices) -> Called:
    heard, said = _number(span.get(_IN)), _number(span.get(_OUT))
    cost = span.get(_COST)
    priced = float(cost) if isinstance(cost, int | float) else None
    if kind == "model" and priced is None and (heard is not None or said is not None):
        priced = prices.of(
            span.text(_MODEL),
            tokens_in=heard or 0,
            tokens_out=said or 0,
            cached=_number(span.get(_CACHED)) or 0,
            provider=span.text(_PROVIDER).lower(),
        )
    names = (*_TOOL, *_MODEL) if kind == "tool" else _MODEL
    given = span.get(_ASKED) or "" if kind == "tool" else ""
    arguments, digest = recorded_arguments(given)
    text = _content(span.get(_ANSWERED if kind == "tool" else _WROTE))
    ended = span.end if span.end is not None else span.start
    error = span.text(("error.type",)) or ("error" if span.status == "error" else "")
    return Called(
        kind=kind,
        name=span.text(names) or span.name,
        arguments=arguments,
        digest=digest,
        error=error,
        detail=span.message[:LONGEST_TEXT],
        text=text[:LONGEST_TEXT],
        resources=resources_in(given if isinstance(given, str) else msgspec.json.encode(given).decode()),
        seconds=max(0.0, span.end - span.start) if span.end is not None and span.start is not None else None,
        tokens_in=heard,
        tokens_out=said,
        cost=priced,
        at=None if ended is None or started is None else ended - started,
    )


def _number(value: Any) -> int | None:
    with suppress(TypeError, ValueError):
        return int(value)
    return None


def _content(value: Any) -> str:
    """Return the text of a message, which some write as JSON in a string."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        with suppress(msgspec.MsgspecError, RecursionError):
            return texts(msgspec.json.decode(value)) or value
    return texts(value)


def _goal(spans: list[OtelSpan]) -> str:
    """Return the person's first request, as far as the trace holds it."""
    for span in sorted(spans, key=lambda one: one.start or 0.0):
        messages = span.get(("gen_ai.input.messages",))
        if isinstance(messages, str):
            with suppress(msgspec.MsgspecError, RecursionError):
                messages = msgspec.json.decode(messages)
        for message in _listed(messages):
            if message.get("role") == "user" and (text := texts(message)):
                return text
        for number in range(4):
            for role, content in (
                (f"gen_ai.prompt.{number}.role", f"gen_ai.prompt.{number}.content"),
                (f"llm.input_messages.{number}.message.role", f"llm.input_messages.{number}.message.content"),
            ):
                if span.attributes.get(role) == "user" and (text := _content(span.attributes.get(content))):
                    return text
    root = next((span for span in spans if not span.parent), None)
    return _content(root.get(("input.value", "traceloop.entity.input"))) if root is not None else ""
