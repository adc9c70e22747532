"""The order desk places every order exactly once."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import midcourse
from midcourse.samples.order_desk import PRICES, agent


def orders(work: Path) -> list[Any]:
    with closing(sqlite3.connect(work / "order-desk" / "desk.db")) as desk:
        return desk.execute("select customer, item, quantity, total from orders order by quantity").fetchall()


async def test_two_hundred_orders_at_once_are_each_placed_exactly_once(mc: midcourse.Midcourse, work: Path) -> None:
    sessions = await asyncio.gather(*(mc.start(agent, f"Order {number} bolts for acme") for number in range(1, 201)))
    answers = await asyncio.gather(*(session.result() for session in sessions))

    assert orders(work) == [("acme", "bolt", number, number * PRICES["bolt"]) for number in range(1, 201)]
    assert len(set(answers)) == 200
    assert all(
        f"{number} × bolt for acme, ${number * PRICES['bolt']}" in answer for number, answer in enumerate(answers, 1)
    )


async def test_an_order_above_the_limit_is_refused_with_the_reason(mc: midcourse.Midcourse, work: Path) -> None:
    session = await mc.start(agent, "Order 6 engines for initech")

    assert await session.result() == "The order cannot be placed: $59,400 is more than the limit of $5,000."
    assert orders(work) == []


async def test_what_is_no_order_is_not_guessed_at(mc: midcourse.Midcourse, work: Path) -> None:
    session = await mc.start(agent, "Good morning")

    assert "“Order 3 bolts for acme”" in await session.result()
    await session.redirect("order 2 lamps for globex")
    assert "2 × lamp for globex, $60" in await session.result()
    assert orders(work) == [("globex", "lamp", 2, 60)]


async def test_it_is_protected(mc: midcourse.Midcourse) -> None:
    session = await mc.start(agent, "Order 1 gear for acme")

    assert (await session.state()).terms.task_class == "protected"
    await session.result()
