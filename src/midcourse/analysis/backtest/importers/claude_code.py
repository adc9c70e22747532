"""Transcripts of Claude Code: one file a session, one line a message or a piece of one.

A session is one recording, cut into turns where a person speaks, so that idle time is not counted. Each subagent is a
recording of its own. A message's tokens are in its last row, when they are known; output is a lower bound where the
transcript holds snapshots of a stream. A transcript does not tell how a session ended: the outcome is unknown.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from midcourse.analysis.backtest.importers.jsonl import INTERRUPTED, Kind, Lines
from midcourse.analysis.backtest.recordings import (
    LONGEST_TEXT,
    Prices,
    Recorder,
    Recording,
    backwards,
    recorded_arguments,
    texts,
)
from midcourse.policy.run_activity import Called

SOURCE: Final = "claude_code"
_KINDS: Final = frozenset({"user", "assistant", "summary", "system", "file-history-snapshot", "queue-operation"})
_NOBODY: Final = ("<local-command-", "<bash-stdout>", "<bash-stderr>", "<system-reminder>", "<task-notification>")
"""The beginnings of texts in a person's place that no person wrote."""
_REFUSED: Final = "The user doesn't want to proceed with this tool use"
_PLACES: Final = ("file_path", "notebook_path", "path", "url")


class TokenCounts(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class Block(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    name: str = ""
    id: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


class TranscriptMessage(msgspec.Struct, gc=False):
    """A message, or the piece of one that a line holds."""

    content: str | list[Block] = ""
    id: str = ""
    model: str = ""
    usage: TokenCounts | None = None


_EFFECTS: Final = {
    **dict.fromkeys(("Edit", "MultiEdit", "NotebookEdit", "Write"), "write"),
    **dict.fromkeys(("Glob", "Grep", "LS", "NotebookRead", "Read", "WebFetch", "WebSearch"), "read"),
}
"""The effects of the built-in tools. A shell may do anything."""


class TranscriptLine(msgspec.Struct, gc=False, rename="camel"):
    """A line of a person or the model."""

    message: TranscriptMessage
    type: str
    timestamp: str | None = None
    session_id: str = ""
    agent_id: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False


_kinds = msgspec.json.Decoder(Kind)
_entries = msgspec.json.Decoder(TranscriptLine)


def is_line(line: dict[str, Any]) -> bool:
    kind = line.get("type")
    return (
        isinstance(kind, str) and kind in _KINDS and not {"sessionId", "leafUuid", "snapshot", "uuid"}.isdisjoint(line)
    )


def read(lines: Lines) -> Iterator[Recording]:
    """Yield every session and every subagent of a file, in the order in which they began."""
    runs: dict[tuple[str, str], list[TranscriptLine]] = {}
    branch: dict[str, str] = {}
    seen: set[str] = set()
    for _, entry in lines.decoded(_entry, "a line of a Claude Code transcript"):
        if entry is None or entry.uuid in seen:  # a session that was continued repeats its past
            continue
        agent = ""
        if entry.is_sidechain:
            # Old transcripts keep subagents beside each other in one file, distinguished only by what follows what.
            agent = entry.agent_id or branch.get(entry.parent_uuid or "", entry.uuid or "")
        if entry.uuid is not None:
            seen.add(entry.uuid)
            branch[entry.uuid] = agent
        runs.setdefault((entry.session_id, agent), []).append(entry)
    prices = Prices()
    for (session, agent), entries in runs.items():
        run_id = "/".join(filter(None, (SOURCE, session or lines.name, agent)))
        recorder = _Transcript(entries, prices).recorded()
        if not recorder.count:
            continue  # only a remark of the program itself
        lines.add(backwards(recorder, lines.file, run_id))
        yield recorder.done(source=SOURCE, run_id=run_id, task_key=f"session-{session or lines.name}")
    lines.add(prices.notice(lines.file))


def _entry(line: bytes) -> TranscriptLine | None:
    return _entries.decode(line) if _kinds.decode(line).type in ("user", "assistant") else None


class _Transcript:
    """One session's, or one subagent's, lines as rows."""

    def __init__(self, entries: list[TranscriptLine], prices: Prices) -> None:
        self.entries = entries
        self.prices = prices
        self.start: float | None = None
        self.asked: dict[str, tuple[Called, Any]] = {}
        self.final: dict[str, TokenCounts] = {}
        self.last: dict[str, int] = {}
        for index, entry in enumerate(entries):
            message = entry.message
            if entry.type == "assistant" and message.usage is not None:
                key = message.id or str(index)
                before = self.final.get(key)
                if before is None or (message.usage.output_tokens or 0) >= (before.output_tokens or 0):
                    self.final[key] = message.usage
                self.last[key] = index

    def recorded(self) -> Recorder:
        goal = next((text for entry in self.entries if (text := _said(entry))), "")
        recorder = Recorder(goal)
        first = next((entry.timestamp for entry in self.entries if entry.timestamp), None)
        self.start = _seconds(first)
        recorder.begin(0.0 if self.start is not None else None)
        for index, entry in enumerate(self.entries):
            seconds = _seconds(entry.timestamp)
            at = None if seconds is None or self.start is None else round(seconds - self.start, 3)
            if entry.type == "assistant":
                self._model(recorder, index, entry, at)
            else:
                self._user(recorder, entry, at)
        return recorder

    def _model(self, recorder: Recorder, index: int, entry: TranscriptLine, at: float | None) -> None:
        message = entry.message
        rows = [(_row(one), one) for one in _blocks(message) if one.type in ("thinking", "text", "tool_use")]
        key = message.id or str(index)
        for number, (row, block) in enumerate(rows, start=1):
            is_last = number == len(rows) and self.last.get(key) == index
            call = msgspec.structs.replace(row, at=at, error="api_error" if entry.is_api_error_message else "")
            recorder.told(self._priced(call, message.model, self.final[key]) if is_last else call)
            if block.id:
                self.asked[block.id] = (call, block.input)

    def _priced(self, row: Called, model: str, used: TokenCounts) -> Called:
        cached, written = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
        heard, said = (used.input_tokens or 0) + cached + written, used.output_tokens or 0
        cost = None
        if not model.startswith("<"):  # what the program says in the model's place costs nothing, and has no price
            cost = self.prices.of(model, tokens_in=heard, tokens_out=said, cached=cached, written=written)
        return msgspec.structs.replace(row, tokens_in=heard, tokens_out=said, cost=cost)

    def _user(self, recorder: Recorder, entry: TranscriptLine, at: float | None) -> None:
        for block in _blocks(entry.message):
            if block.type == "tool_result":
                self._result(recorder, block, at)
        text = _said(entry)
        if text:
            recorder.said(text[:LONGEST_TEXT], at, new_turn=not text.startswith(INTERRUPTED))

    def _result(self, recorder: Recorder, block: Block, at: float | None) -> None:
        call, given = self.asked.pop(block.tool_use_id, (Called(kind="model", name="unknown"), None))
        text = texts(block.content)
        is_refused = bool(block.is_error) and text.startswith(_REFUSED)
        recorder.told(
            Called(
                kind="tool",
                name=call.name,
                arguments=call.arguments,
                digest=call.digest,
                error="refused" if is_refused else "error" if block.is_error else "",
                text=text[:LONGEST_TEXT],
                resources=_resources(given),
                effect=_EFFECTS.get(call.name, ""),
                seconds=max(0.0, at - call.at) if at is not None and call.at is not None else None,
                at=at,
            )
        )


def _row(block: Block) -> Called:
    if block.type == "tool_use":
        arguments, digest = recorded_arguments(block.input)
        return Called(kind="model", name=block.name, arguments=arguments, digest=digest, text=f"call {block.name}")
    said = block.thinking if block.type == "thinking" else block.text
    return Called(kind="model", name=block.type, text=said[:LONGEST_TEXT])


def _resources(given: Any) -> tuple[str, ...]:
    if not isinstance(given, dict):
        return ()
    fields = cast("dict[str, Any]", given)
    return tuple(place for name in _PLACES if isinstance(place := fields.get(name), str) and place)


def _blocks(message: TranscriptMessage) -> list[Block]:
    return [Block(type="text", text=message.content)] if isinstance(message.content, str) else message.content


def _said(entry: TranscriptLine) -> str:
    """Return a person's text in this line; empty if there is none."""
    if entry.type != "user" or entry.is_meta or entry.is_compact_summary:
        return ""
    text = "\n".join(block.text for block in _blocks(entry.message) if block.type == "text").strip()
    return "" if text.startswith(_NOBODY) else text


def _seconds(timestamp: str | None) -> float | None:
    if timestamp is None:
        return None
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None
