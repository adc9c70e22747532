"""``order-desk``: takes an order, checks price and limit, places it once, and confirms. Quick, and not to be disturbed.

It is of the task class ``protected``: policies leave it alone, and a person's stop waits until the order is done.

No framework runs its loop, for the sake of time: it asks the model, makes the calls that the model wants, and tells the
model what came of them. An order that the model knew how to confirm beforehand is confirmed without asking it again.
"""

import json
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, closing
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

import midcourse
from midcourse.adapters.held_agent import MODEL, MessageListener, closed, step_key
from midcourse.adapters.pydantic_ai.conversation import MessageHistory as Kept
from midcourse.adapters.pydantic_ai.conversation import interrupted, load_response
from midcourse.adapters.pydantic_ai.model import spoken
from midcourse.core.terms import Terms
from midcourse.models.script import Call, Conversation, Piece
from midcourse.samples.folders import folder_of, made_once
from midcourse.samples.models import model_for, words
from midcourse.samples.redirects import course_of, done_since, quoted

NAME: Final = "order-desk"
DESCRIPTION: Final = (
    "Takes an order message, checks price and credit limit, places the order exactly once, and confirms."
)
GOALS: Final = ("Order 3 bolts for acme", "Order 500 engines for globex")
PRICES: Final = {"bolt": 2, "gear": 45, "hinge": 7, "lamp": 30, "motor": 310, "pump": 480, "valve": 66, "engine": 9900}
"""In whole dollars."""
LIMITS: Final = {"acme": 50_000, "globex": 100_000, "initech": 5_000, "umbrella": 250_000}
"""The limit of a customer's order, in whole dollars."""
INSTRUCTIONS: Final = (
    "You take orders. For each, call in one answer check_order and then place_order, with the customer, the item "
    "(singular, lower case) and the quantity, and give place_order the sentence that confirms the order. What cannot "
    "be ordered is not placed: then say why, in one sentence."
)
CONFIRMATION: Final = "confirmation"
"""The model's text with an order. It is no argument of the call: the order, and its key, are the same with any text."""
REQUESTS: Final = 10
"""A model that has not come to an end after so many requests in one turn is given up."""

_ORDER: Final = re.compile(r"(\d+)\s*(?:x\s*|pieces? of\s+)?([a-z]+?)s?\s+for\s+([a-z]+)", re.IGNORECASE)
_SCHEMA: Final = """
pragma journal_mode = wal;
create table prices (item text primary key, price integer not null);
create table limits (customer text primary key, most integer not null);
create table orders (
    key text primary key, customer text not null, item text not null, quantity integer not null, total integer not null
);
"""
_PRICE_AND_LIMIT: Final = """
select (select price from prices where item = ?), (select most from limits where customer = ?)
"""


# ---- the data


def prepare(folder: Path | None = None) -> Path:
    """Prepare the work folder, with the desk's tables."""
    folder = folder or folder_of(NAME)
    _prepared(folder)
    return folder


@cache
def _prepared(folder: Path) -> None:
    made_once(folder / "desk.db", _generate)


def _generate(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(_SCHEMA)
        database.executemany("insert into prices values (?, ?)", PRICES.items())
        database.executemany("insert into limits values (?, ?)", LIMITS.items())


@cache
def _desk(folder: Path, _purpose: str) -> sqlite3.Connection:
    """Return a connection that stays open: opening takes longer than an order, and closing copies the log."""
    _prepared(folder)
    return sqlite3.connect(folder / "desk.db", timeout=10, isolation_level=None, check_same_thread=False)


_placing: Final = threading.Lock()
"""Held by the thread that places an order, which has the connection alone. Reads do not wait for it."""


# ---- the tools


@midcourse.tool(effect="read")
async def check_order(customer: str, item: str, quantity: int) -> dict[str, Any]:
    """Check an order: what it costs, and whether it is within the customer's limit."""
    # Without a thread: it takes a few microseconds, and waits for no writer.
    return _checked(_desk(folder_of(NAME), "checking"), customer, item, quantity)


@midcourse.tool(effect="idempotent", local=True)
def place_order(customer: str, item: str, quantity: int) -> dict[str, Any]:
    """Place an order, if check_order would accept it. Placed again under its key, it is placed once."""
    key = midcourse.current_call().key
    with _placing:
        desk = _desk(folder_of(NAME), "placing")
        verdict = _checked(desk, customer, item, quantity)
        order = (key, customer, item, quantity, verdict["total"])
        if verdict["accepted"]:
            desk.execute("insert into orders values (?, ?, ?, ?, ?) on conflict (key) do nothing", order)
        placed = desk.execute("select total from orders where key = ?", (key,)).fetchone()
    if placed is None:
        return {"placed": False, "why": verdict["why"]}
    return {"placed": True, "order": key[:8], "total": placed[0]}


def _checked(desk: sqlite3.Connection, customer: str, item: str, quantity: int) -> dict[str, Any]:
    price, most = desk.execute(_PRICE_AND_LIMIT, (item, customer)).fetchone()
    if price is None or most is None:
        unknown = f"item '{item}'" if price is None else f"customer '{customer}'"
        return {"accepted": False, "total": 0, "why": f"{unknown} is not known"}
    if quantity <= 0:
        return {"accepted": False, "total": 0, "why": f"{quantity} is no quantity: an order is for 1 piece at least"}
    total = price * quantity
    why = "" if total <= most else f"${total:,} is more than the limit of ${most:,}"
    return {"accepted": not why, "total": total, "why": why}


TOOLS: Final[Mapping[str, midcourse.Tool[..., Any]]] = {one.name: one for one in (check_order, place_order)}


# ---- the script


class _Whole(Call):
    """A call whose arguments come in one piece: to stream them by the letter takes longer than the order."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.spelled,)


def script(conversation: Conversation) -> Sequence[Piece]:
    """Check and place, with the words that confirm it; or say why not."""
    course = course_of(conversation)
    if course.stops:
        return [words(f"Understood: {quoted(course.last)} Nothing more is ordered.")]
    order = next((found for text in reversed(course.said) if (found := _ORDER.search(text))), None)
    if order is None or (course.is_changed and not _ORDER.search(course.last)):
        return [words(f"I understood: {quoted(course.last)} An order reads like this: “Order 3 bolts for acme”.")]
    placed = done_since(conversation, "place_order").latest.results("place_order")
    if placed:
        return [words(f"The order cannot be placed: {_why(placed[-1])}.")]
    customer, item, quantity = order[3].lower(), order[2].lower(), int(order[1])
    wanted = {"customer": customer, "item": item, "quantity": quantity}
    told = f"Order {{order}}: {quantity} × {item} for {customer}, {{total}}."
    return [_Whole("check_order", wanted), _Whole("place_order", {**wanted, CONFIRMATION: told})]


def _why(result: str) -> str:
    try:
        return json.loads(result)["why"]
    except ValueError:  # the call failed: that is what it says
        return result.rstrip(".")


# ---- the model


_model: Final = model_for(script)


def _offered(tool: midcourse.Tool[..., Any]) -> ToolDefinition:
    parameters = tool.schema["parameters"]
    if tool is place_order:
        told = {
            "type": "string",
            "description": "the customer's confirmation, with {order} and {total} to be filled in",
        }
        parameters = {**parameters, "properties": {**parameters["properties"], CONFIRMATION: told}}
    return ToolDefinition(name=tool.name, description=tool.schema["description"], parameters_json_schema=parameters)


_PARAMETERS: Final = ModelRequestParameters(function_tools=[_offered(one) for one in TOOLS.values()])
# A request that the client makes again by itself could not be seen, counted or stopped.
_ONCE: Final = cast("ModelSettings", {"max_retries": 0})


async def _answer(messages: Sequence[ModelMessage]) -> AsyncIterator[str | midcourse.StreamEnd]:
    """Yield the model's answer to ``messages``: its words as they come, and in the end all of it, with its calls."""
    async with aclosing(spoken(_model, list(messages), _ONCE, _PARAMETERS, None, lambda response: response)) as heard:
        async for word in heard:
            yield word


# ---- the agent


@midcourse.agent(
    name=NAME,
    mode="state",
    description=DESCRIPTION,
    goals=GOALS,
    terms=Terms(task_class="protected", policy="trading", budget=0.5),
)
async def agent(run: midcourse.Run) -> str:
    """Ask the model, make the calls it wants, and so on, until it has said how the order went."""
    prepare()
    people, kept = MessageListener(run), Kept(run)
    await kept.close_turn_before()
    messages = kept.messages
    for _ in range(REQUESTS):
        if news := people.news():
            messages.append(ModelRequest(parts=[UserPromptPart(news)], instructions=INSTRUCTIONS))
        kept.keep(messages)
        await run.checkpoint(durable=False)
        try:
            said = await run.stream(MODEL, partial(_answer, messages), on_redirect="raise")
        except midcourse.Redirected as redirect:
            messages += [interrupted(redirect.partial)] if redirect.partial else []
            continue
        response = kept.with_own_ids(load_response(said))
        messages.append(response)
        told = response.text or ""
        if response.tool_calls:
            results = [await _result(run, people, call) for call in response.tool_calls]
            messages.append(ModelRequest(parts=results, instructions=INSTRUCTIONS))
            told = _confirmed(response.tool_calls, results)
            if told:
                messages.append(ModelResponse(parts=[TextPart(told)]))
        if not people.has_news and (told or not response.tool_calls):
            kept.keep(messages)
            return told
    raise RuntimeError(f"The model has not come to an end after {REQUESTS} requests. Redirect it, or ask another one.")


async def _result(run: midcourse.Run, people: MessageListener, call: ToolCallPart) -> ToolReturnPart:
    """Return the result of a call; of one that a person's message preceded, that it was not made."""
    made = TOOLS.get(call.tool_name)
    content: Any
    if made is None:
        content = f"There is no tool '{call.tool_name}', but: {', '.join(TOOLS)}."
    elif made.effect != "read" and people.has_news:
        content = "Not made: the user has said something else meanwhile."
    else:
        try:
            arguments = {name: value for name, value in call.args_as_dict().items() if name != CONFIRMATION}
            content = await run.call(made, arguments, key=step_key(call.tool_call_id), on_redirect="raise")
        except midcourse.Redirected as redirect:
            content = closed(redirect)
        except midcourse.StepError as error:
            content = error.message
    return ToolReturnPart(call.tool_name, content, tool_call_id=call.tool_call_id)


def _confirmed(calls: Sequence[ToolCallPart], results: Sequence[ToolReturnPart]) -> str:
    """Return the model's confirmation, if all that it ordered was placed; else empty: it must continue."""
    told: list[str] = []
    for call, result in zip(calls, results, strict=True):
        if call.tool_name == place_order.name:
            sentence = str(call.args_as_dict().get(CONFIRMATION, ""))
            placed = cast("dict[str, Any]", result.content) if isinstance(result.content, dict) else {}
            if not sentence or not placed.get("placed"):
                return ""
            told.append(sentence.replace("{order}", placed["order"]).replace("{total}", f"${placed['total']:,}"))
    return " ".join(told)
