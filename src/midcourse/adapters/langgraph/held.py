"""One run of a graph in one session: what its models, tools and nodes share, and how they find it."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.config import get_config
from pydantic_core import PydanticSerializationError, to_jsonable_python

from midcourse.adapters.holding import MODEL, Declarations, Listener, became, step_key
from midcourse.core.codec import canonical, preview
from midcourse.core.effects import MAY_HAVE_HAPPENED
from midcourse.errors import Interrupt
from midcourse.runtime.run import Run

_SERIALISED: Final = "langgraph"
_SHOWN: Final = 4_000
"""Characters of what a graph asks about that a person is shown."""


class Held:
    """The session's run, and what of the conversation people have changed.

    What a person says goes to the model, and stays in every later request, at the place where it was said: the graph's
    own state is not touched, so that no branch of it is torn.
    """

    def __init__(self, run: Run, declarations: Declarations, serde: SerializerProtocol) -> None:
        self.run = run
        self.declarations = declarations
        self.listener = Listener(run)
        self.loop = asyncio.get_running_loop()
        self._serde = serde
        self._counted: dict[int, tuple[object, dict[str, int]]] = {}

    # ---- steps

    def key(self, name: str) -> str:
        """The key of the next call of ``name`` in the node that runs: the same when the node is run again."""
        settings = get_config().get("configurable", {})
        scratchpad = settings.get("__pregel_scratchpad")
        # A node that is run again has a new scratchpad, and counts its calls from the start.
        _, counts = self._counted.setdefault(id(scratchpad), (scratchpad, {}))
        counts[name] = counts.get(name, 0) + 1
        place = str(settings.get("checkpoint_ns", ""))
        node = place.rpartition("|")[2].partition(":")[0]
        return step_key(f"{node}.{hashlib.blake2b(place.encode(), digest_size=6).hexdigest()}.{counts[name]}")

    def forget_counts(self) -> None:
        """A superstep is over: no node of it runs again."""
        self._counted.clear()

    def journaled(self, result: Any) -> object:
        """What a node or a tool returned, as it can be journaled."""
        try:
            plain = to_jsonable_python(result)
        except PydanticSerializationError:
            plain = None
        if plain == result:
            return plain
        kind, content = self._serde.dumps_typed(result)
        return {_SERIALISED: [kind, content.hex()]}

    def restored(self, result: Any) -> Any:
        """What was journaled, as it was."""
        found = cast("dict[str, Any]", result if isinstance(result, dict) else {})
        if set(found) == {_SERIALISED}:
            kind, content = found[_SERIALISED]
            return self._serde.loads_typed((kind, bytes.fromhex(content)))
        return cast("Any", result)

    # ---- the conversation

    def heard(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The messages as the model shall see them: what people said put in, every call closed."""
        said = cast("list[dict[str, Any]]", self.run.state.setdefault("said", []))
        news = self.listener.news(again=True)
        if news:
            said.append({"after": _anchor(messages), "text": news})
        return valid(_spliced(messages, said))

    def was_cut(self, messages: Sequence[BaseMessage], partial: str) -> None:
        """Keep what the model had said when a person changed its course."""
        said = self.run.state.setdefault("said", [])
        entry = {"after": _anchor(messages), "partial": partial}
        if partial and entry not in said:  # a node that is run again is told again that it was cut
            said.append(entry)

    async def turn_before(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """What the turn before, if it failed or was cancelled, did not get into the graph's state.

        What its model had said when it was cut, and what became of the calls that were left open.
        """
        missing: list[BaseMessage] = [
            ToolMessage(await self._became(call), tool_call_id=call["id"] or "", name=call["name"])
            for call in _open_calls(messages)
        ]
        asked = await self.run.earlier(MODEL)
        if asked is not None and asked.outcome != "finished" and asked.text:
            missing.append(AIMessage(asked.text))
        return missing

    async def _became(self, call: Any) -> str:
        step = await self.run.earlier(call["name"], step_key(call["id"] or ""))
        return str(became(step, self.restored))


_held: ContextVar[Held | None] = ContextVar("midcourse_langgraph", default=None)


def current() -> Held | None:
    """The run this code belongs to, if it is one that Midcourse holds."""
    return _held.get()


def enter(held: Held) -> None:
    """From here on, what this task starts belongs to that run."""
    _held.set(held)


def _anchor(messages: Sequence[BaseMessage]) -> str | int:
    last = messages[-1] if messages else None
    return last.id if last is not None and last.id else len(messages)


def _spliced(messages: Sequence[BaseMessage], said: Sequence[dict[str, Any]]) -> list[BaseMessage]:
    """Messages with what was said put in after those it came after; at the end, if that one is gone."""
    spliced: list[BaseMessage] = []
    waiting = list(said)

    def put(matches: Callable[[str | int], bool]) -> None:
        for one in [one for one in waiting if matches(one["after"])]:
            waiting.remove(one)
            spliced.append(AIMessage(one["partial"]) if "partial" in one else HumanMessage(one["text"]))

    for index, message in enumerate(messages):
        spliced.append(message)
        put(lambda after, at=index + 1, own=message.id: after in (at, own))
    put(lambda after: True)
    return spliced


def _open_calls(messages: Sequence[BaseMessage]) -> list[Any]:
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    calls = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return [call for call in calls if call["id"] not in answered]


def valid(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages that every provider takes: each call has its result, right after it, and no result is without a call."""
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    made: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            continue  # it comes with its call
        made.append(message)
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                known = results.pop(call["id"] or "", None)
                text = f"It did not end: {MAY_HAVE_HAPPENED}."
                made.append(known or ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"]))
            # No tool sees these, but the model's server does, and wants to know what became of them.
            for wrong in message.invalid_tool_calls:
                text = f"The call was not made: its arguments are no JSON object: {wrong['args']}"
                made.append(ToolMessage(text, tool_call_id=wrong["id"] or "", name=wrong["name"]))
    return made


def as_interrupt(value: Any) -> Interrupt:
    """What a graph interrupts itself with, as a question to a person."""
    about = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    named = next((about[word] for word in ("prompt", "question", "message", "query") if about.get(word)), None)
    if isinstance(value, str):
        prompt = value
    elif named is None:
        prompt = preview(canonical(cast("object", value)))
    else:  # the words first, and then whatever else is to be judged
        rest = {name: one for name, one in about.items() if one is not named and name not in {"reason", "options"}}
        prompt = f"{named}\n{canonical(rest).decode()[:_SHOWN]}" if rest else str(named)
    return Interrupt(str(about.get("reason", "need_input")), prompt or "The graph waits for an answer.")
