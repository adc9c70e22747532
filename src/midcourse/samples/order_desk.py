"""``order-desk``: takes an order, checks price and limit, places it once, and confirms. Quick, and not to be disturbed.

It is of the task class ``protected``: policies leave it alone. People's own controls work all the same.
"""

import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic_ai import Agent

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.core.terms import Terms
from midcourse.models.script import Call, Conversation, Piece
from midcourse.samples.courses import course_of, done_since, quoted
from midcourse.samples.models import model_for, words
from midcourse.samples.places import folder_of, made_once

NAME: Final = "order-desk"
DESCRIPTION: Final = (
    "Takes an order message, checks price and credit limit, places the order exactly once, and confirms."
)
GOALS: Final = ("Order 3 bolts for acme", "Order 500 engines for globex")
PRICES: Final = {"bolt": 2, "gear": 45, "hinge": 7, "lamp": 30, "motor": 310, "pump": 480, "valve": 66, "engine": 9900}
"""In whole dollars."""
LIMITS: Final = {"acme": 50_000, "globex": 100_000, "initech": 5_000, "umbrella": 250_000}
"""What a customer may order at once, in whole dollars."""

_ORDER: Final = re.compile(r"(\d+)\s*(?:x\s*|pieces? of\s+)?([a-z]+?)s?\s+for\s+([a-z]+)", re.IGNORECASE)
_SCHEMA: Final = """
pragma journal_mode = wal;
create table prices (item text primary key, price integer not null);
create table limits (customer text primary key, most integer not null);
create table orders (
    key text primary key, customer text not null, item text not null, quantity integer not null, total integer not null
);
"""


# ---- the data


def prepare(folder: Path | None = None) -> Path:
    """The work folder, with the desk's tables."""
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


def _open() -> "closing[sqlite3.Connection]":
    return closing(sqlite3.connect(prepare() / "desk.db", timeout=10, isolation_level=None))


# ---- the tools


@midcourse.tool(effect="read")
def check_order(customer: str, item: str, quantity: int) -> dict[str, Any]:
    """Check an order: what it costs, and whether it is within the customer's limit."""
    with _open() as database:
        price = database.execute("select price from prices where item = ?", (item,)).fetchone()
        most = database.execute("select most from limits where customer = ?", (customer,)).fetchone()
    if price is None or most is None:
        unknown = f"item '{item}'" if price is None else f"customer '{customer}'"
        return {"accepted": False, "total": 0, "why": f"{unknown} is not known"}
    total = price[0] * quantity
    why = "" if total <= most[0] else f"${total:,} is more than the limit of ${most[0]:,}"
    return {"accepted": not why, "total": total, "why": why}


@midcourse.tool(effect="idempotent", local=True)
def place_order(customer: str, item: str, quantity: int, total: int) -> dict[str, Any]:
    """Place an order that was checked. Placed again under its key, it is placed once."""
    key = midcourse.current_call().key
    with _open() as database:
        database.execute(
            "insert into orders values (?, ?, ?, ?, ?) on conflict (key) do nothing",
            (key, customer, item, quantity, total),
        )
    return {"order": key[:8], "total": total}


# ---- the script


def script(conversation: Conversation) -> Sequence[Piece]:
    """Check, place, confirm; or say why not."""
    course = course_of(conversation)
    if course.stops:
        return [words(f"Understood: {quoted(course.last)} Nothing more is ordered.")]
    order = next((found for text in reversed(course.said) if (found := _ORDER.search(text))), None)
    if order is None or (course.is_changed and not _ORDER.search(course.last)):
        return [words(f"I understood: {quoted(course.last)} An order reads like this: “Order 3 bolts for acme”.")]
    wanted = {"customer": order[3].lower(), "item": order[2].lower(), "quantity": int(order[1])}
    so_far = done_since(conversation, "place_order").latest
    checked = so_far.results("check_order")
    if not checked:
        return [Call("check_order", wanted)]
    verdict = json.loads(checked[-1])
    if not verdict["accepted"]:
        return [words(f"The order cannot be placed: {verdict['why']}.")]
    placed = so_far.results("place_order")
    if not placed:
        return [Call("place_order", {**wanted, "total": verdict["total"]})]
    number = json.loads(placed[-1])["order"]
    return [words(f"Order {number}: {order[1]} × {order[2].lower()} for {order[3].lower()}, ${verdict['total']:,}.")]


# ---- the agent


_agent: Final = Agent(
    model_for(script),
    name=NAME,
    instructions=(
        "You take orders. Call check_order with customer, item (singular, lower case) and quantity; if it is accepted, "
        "call place_order with the same and the total, once; then confirm in one sentence with the order number. If it "
        "is not accepted, say why in one sentence."
    ),
    tools=[check_order, place_order],
)
agent: Final = wrap(_agent, deps=lambda _: prepare(), terms=Terms(task_class="protected"))
