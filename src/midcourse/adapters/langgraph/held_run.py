"""One run of a graph in one session: what its models, tools and nodes share, how they find it, and what it asks."""

import asyncio
import hashlib
import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Final, NoReturn, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.config import get_config
from pydantic_core import PydanticSerializationError, to_jsonable_python

from midcourse.adapters.held_agent import MODEL, Declarations, MessageListener, as_raised, became, step_key
from midcourse.core.codec import canonical, preview
from midcourse.core.interrupted_calls import MAY_HAVE_HAPPENED
from midcourse.errors import Interrupt, StepError
from midcourse.runtime.run import Earlier, Run

log = logging.getLogger("midcourse")

_SERIALISED: Final = "langgraph"
_TUPLE: Final = "tuple"
_SHOWN: Final = 4_000
"""Characters of what a graph asks about that a person is shown."""
_PROMPT: Final = 20_000
"""Characters of its words."""


class HeldGraphRun:
    """The session's run, and what of the conversation people have changed.

    What a person says goes to the model, and stays in every later request, at the place where it was said: the graph's
    own state is not touched, so that no branch of it is torn.
    """

    def __init__(self, run: Run, declarations: Declarations, serde: SerializerProtocol) -> None:
        self.run = run
        self.declarations = declarations
        self.listener = MessageListener(run)
        self.loop = asyncio.get_running_loop()
        self._serde = serde
        self._counted: dict[int, tuple[object, dict[str, int]]] = {}
        self._failed: set[str] = set()
        self._warned: set[str] = set()
        self._stands = asyncio.Event()
        self._stands.set()

    # ---- steps

    def warn(self, sentence: str) -> None:
        """Say it in the log, once."""
        if sentence not in self._warned:
            self._warned.add(sentence)
            log.warning("session %s: %s", self.run.session_id, sentence)

    @contextmanager
    def superstep(self) -> Generator[None]:
        """Store a superstep and open the scope of the next steps: none begins before that is done."""
        self._stands.clear()
        try:
            yield
        finally:
            self._stands.set()

    async def stands(self) -> None:
        """Wait until it is clear in which scope the next step is: LangGraph may begin nodes while it stores."""
        await self._stands.wait()

    def key(self, name: str, *, call: str = "", about: str = "") -> str:
        """Return the key of the next call of ``name`` in the node that runs: the same when the node is run again.

        ``call`` is the model's id of it. Without it, calls are counted, separately for each ``about``: of calls at the
        same time, another may come first when the node is run again. A call that has failed and is tried again, by a
        retry policy or a wrapper, has a key of its own, found again in the same way.
        """
        place, scratchpad = _where()
        if call:
            return self._untried(_call_key(call, place))
        # A node that is run again has a new scratchpad, and counts its calls from the start.
        _, counts = self._counted.setdefault(id(scratchpad), (scratchpad, {}))
        counted = f"{name} {about}"
        counts[counted] = counts.get(counted, 0) + 1
        node = place.rpartition("|")[2].partition(":")[0]
        return self._untried(f"{node}.{_digest(f'{place} {about}' if about else place)}.{counts[counted]}")

    def failed(self, key: str) -> None:
        """Note that the call of this key failed, now or in the journal: the next try needs another key."""
        self._failed.add(key)

    def _untried(self, key: str) -> str:
        return next(one for one in _tries(key) if one not in self._failed)

    def begin(self) -> None:
        """Begin a run of the graph, perhaps again: its nodes run again from the top, and see the same failures."""
        self._failed.clear()

    def forget_counts(self) -> None:
        """End a superstep: no node of it runs again."""
        self._counted.clear()
        self._failed.clear()

    def journaled(self, result: Any) -> object:
        """Return the result of a node or a tool in a form that can be journaled."""
        try:
            plain = to_jsonable_python(result)
        except PydanticSerializationError:
            plain = None
        if plain == result and not _is_marked(plain):
            return plain
        if type(result) is tuple:  # neither JSON nor the graph's serializer tells it from a list
            return {_SERIALISED: [_TUPLE, [self.journaled(one) for one in cast("tuple[Any, ...]", result)]]}
        kind, content = self._serde.dumps_typed(result)
        return {_SERIALISED: [kind, content.hex()]}

    def restored(self, result: Any) -> Any:
        """Return the journaled result in its original form."""
        if _is_marked(result):
            kind, content = result[_SERIALISED]
            if kind == _TUPLE:
                return tuple(self.restored(one) for one in content)
            return self._serde.loads_typed((kind, bytes.fromhex(content)))
        return result

    # ---- the conversation

    def heard(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the messages for the model: people's messages put in, every call closed."""
        place, _ = _where()
        said = cast("list[dict[str, Any]]", self.run.state.setdefault("said", []))
        news = self.listener.news(again=True)
        if news:
            said.append({"text": news, "after": [], "in": [], "scope": self.run.scope})
        known = {message.id for message in messages if message.id} | set(range(1, len(messages) + 1))
        for one in said:
            if "text" in one and known.isdisjoint(one["after"]) and self._is_new(one, place):
                one["after"].append(_anchor(messages))
        return valid(_spliced(messages, said))

    def _is_new(self, said: dict[str, Any], place: str) -> bool:
        """Return True if this branch of the graph has not got the message: its first request has it last."""
        branch = place.rpartition("|")[0]
        if not branch and said["scope"] == self.run.scope:
            branch = place  # beside others of the superstep it was said in
        if branch in said["in"]:
            return False
        said["in"].append(branch)
        return bool(branch) or not said["after"]

    def was_cut(self, messages: Sequence[BaseMessage], partial: str) -> None:
        """Keep what the model had said when a person changed its course."""
        if partial:
            self.run.state.setdefault("said", []).append({"after": [_anchor(messages)], "partial": partial})

    async def turn_before(self, messages: Sequence[BaseMessage], places: Sequence[str]) -> list[BaseMessage]:
        """Return what the previous turn, if it failed or was cancelled, did not get into the graph's state.

        That is the model's text when it was cut, and the outcome of the calls left open, by nodes that ran in
        ``places``.
        """
        missing: list[BaseMessage] = [
            ToolMessage(await self._became(call, places), tool_call_id=call["id"] or "", name=call["name"])
            for call in _open_calls(messages)
        ]
        asked = await self.run.earlier(MODEL)
        if asked is not None and asked.outcome != "finished" and asked.text:
            missing.append(AIMessage(asked.text))
        return missing

    async def _became(self, call: Any, places: Sequence[str]) -> str:
        known: Earlier | None = None
        for place in places:
            for key in _tries(_call_key(call["id"] or "", place)):
                step = await self.run.earlier(call["name"], key)
                if step is None:
                    break
                known = step
        return str(became(known, self.restored))


_held: ContextVar[HeldGraphRun | None] = ContextVar("midcourse_langgraph", default=None)


def current() -> HeldGraphRun | None:
    """Return the run this code belongs to, if Midcourse holds it."""
    return _held.get()


def enter(held: HeldGraphRun) -> None:
    """Make everything that this task starts from here on belong to that run."""
    _held.set(held)


def raise_as_was(error: StepError) -> NoReturn:
    """Raise what a step's function raised, as far as that can be told; ours is behind it."""
    raised = as_raised(error)
    if raised is error:
        raise error
    raise raised from error


def _where() -> tuple[str, object]:
    """Return the place of the running node, with its task's id, and the object LangGraph keeps for one run of it."""
    settings = get_config().get("configurable", {})
    return str(settings.get("checkpoint_ns", "")), settings.get("__pregel_scratchpad")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=6).hexdigest()


def _call_key(call: str, place: str) -> str:
    # With its place: models in two branches may give the same id.
    return f"{call}.{_digest(place)}.1"


def _tries(key: str) -> Iterator[str]:
    """Yield the keys of a first try, a second one, and so on."""
    yield step_key(key)
    for number in count(2):
        yield step_key(f"{key}~{number}")


def _is_marked(value: Any) -> bool:
    return isinstance(value, dict) and set(cast("dict[Any, Any]", value)) == {_SERIALISED}


def _anchor(messages: Sequence[BaseMessage]) -> str | int:
    last = messages[-1] if messages else None
    return last.id if last is not None and last.id else len(messages)


def _spliced(messages: Sequence[BaseMessage], said: Sequence[dict[str, Any]]) -> list[BaseMessage]:
    """Messages with what was said put in after those it came after; before the conversation, if they are gone."""
    spliced: list[BaseMessage] = []
    waiting = list(said)

    def put(*places: str | int | None) -> None:
        for one in [one for one in waiting if not set(places).isdisjoint(one["after"])]:
            waiting.remove(one)
            spliced.append(AIMessage(one["partial"]) if "partial" in one else HumanMessage(one["text"]))

    put(0)
    for index, message in enumerate(messages):
        spliced.append(message)
        put(index + 1, message.id)
    first = next((at for at, one in enumerate(spliced) if not isinstance(one, SystemMessage)), len(spliced))
    # What the model had said belongs to words that are not here.
    gone = [HumanMessage(one["text"]) for one in waiting if "text" in one]
    return [*spliced[:first], *gone, *spliced[first:]]


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
            # No tool sees these, but the model's server does, and wants to know their outcome.
            for wrong in message.invalid_tool_calls:
                known = results.pop(wrong["id"] or "", None)
                text = f"The call was not made: its arguments are no JSON object: {wrong['args']}"
                made.append(known or ToolMessage(text, tool_call_id=wrong["id"] or "", name=wrong["name"]))
    return made


# ---- what a graph asks people


def as_interrupt(value: Any) -> Interrupt:
    """Turn the value of a graph's interrupt into a question to a person."""
    if calls := calls_in(value):
        return Interrupt("need_approval", question(calls)[:_PROMPT])
    about = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    named = next((about[word] for word in ("prompt", "question", "message", "query") if about.get(word)), None)
    if isinstance(value, str):
        prompt = value
    elif named is None:
        prompt = preview(canonical(cast("object", value)))
    else:  # the words first, and then whatever else is to be judged
        rest = {name: one for name, one in about.items() if one is not named and name not in {"reason", "options"}}
        prompt = f"{named}\n{canonical(rest).decode()[:_SHOWN]}" if rest else str(named)
    return Interrupt(str(about.get("reason", "need_input")), prompt[:_PROMPT] or "The graph waits for an answer.")


_YES: Final = frozenset({"yes", "approve", "true"})
_NO: Final = frozenset({"no", "reject", "false"})


def calls_in(value: Any) -> Sequence[Mapping[str, Any]] | None:
    """Return the calls that an interrupt wants reviewed; None if it is about something else."""
    about = cast("Mapping[str, Any]", value if isinstance(value, dict) else {})
    if isinstance(about.get("action_requests"), list) and isinstance(about.get("review_configs"), list):
        return cast("list[Mapping[str, Any]]", about["action_requests"])
    return [about] if about.get("type") == "tool_approval" and "tool_call_id" in about else None


def question(calls: Sequence[Mapping[str, Any]]) -> str:
    """Return the question that a person reads."""
    return "\n\n".join(str(one.get("description") or f"{one.get('name')} with {one.get('args')}") for one in calls)


def decided(value: Any, answer: Any) -> Any:
    """Return the answer in the middleware's form. Plain text decides all the calls; a mapping has that form."""
    calls = calls_in(value)
    if calls is None or isinstance(answer, dict):
        return cast("Any", answer)
    if "action_requests" not in value:
        return _decision(str(answer), ())
    allowed = [one.get("allowed_decisions", ()) for one in value["review_configs"]]
    return {"decisions": [_decision(str(answer), one) for one in (allowed + [()] * len(calls))[: len(calls)]]}


def _decision(words: str, allowed: Sequence[str]) -> dict[str, Any]:
    word = words.strip().lower()
    if word in _YES and (not allowed or "approve" in allowed):
        return {"type": "approve"}
    if "respond" in allowed and "reject" not in allowed:  # a tool whose result is what a person says
        return {"type": "respond", "message": words}
    return {"type": "reject"} if word in _NO else {"type": "reject", "message": words}
