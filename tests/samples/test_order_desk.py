"""The order desk places every order exactly once."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.adapters.pydantic_ai.scripted import scripted
from midcourse.core.events import StepBegun
from midcourse.models.script import Call, Conversation, Piece, Script, Text, Wait, replies
from midcourse.samples import order_desk
from midcourse.samples.order_desk import PRICES, REQUESTS, agent, script
from midcourse.testing.provider import Provider

BOLTS = {"customer": "acme", "item": "bolt", "quantity": 3}


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> "Says":
    return Says(monkeypatch)


class Says:
    """Has the desk's model say something else than its script."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, said: Script) -> None:
        self._monkeypatch.setattr(order_desk, "_model", scripted(said))


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


@pytest.mark.parametrize("quantity", [0, -3])
async def test_an_order_of_nothing_or_less_is_refused_and_the_model_is_told_why(
    mc: midcourse.Midcourse, work: Path, says: Says, quantity: int
) -> None:
    heard: list[str] = []

    def tries(conversation: Conversation) -> Sequence[Piece]:
        heard.extend(said.text for said in conversation if said.role == "tool")
        return [Text("So be it.")] if heard else [Call("place_order", {**BOLTS, "quantity": quantity})]

    says(tries)
    assert await (await mc.start(agent, "Bolts, please")).result() == "So be it."
    assert f"{quantity} is no quantity: an order is for 1 piece at least" in heard[0]
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


# ---- one request, or as many as the model wants


async def steps_of(session: midcourse.SessionHandle[Any]) -> list[str]:
    return [seen.event.name async for seen in session.watch() if isinstance(seen.event, StepBegun)]


async def test_an_order_takes_one_request_a_check_and_the_placing(mc: midcourse.Midcourse) -> None:
    session = await mc.start(agent, "Order 3 bolts for acme")
    await session.result()

    assert await steps_of(session) == ["model", "check_order", "place_order"]


async def test_a_model_may_take_a_request_for_each_call_and_confirm_in_its_own_words(
    mc: midcourse.Midcourse, work: Path, says: Says
) -> None:
    says(replies(Call("check_order", BOLTS), Call("place_order", BOLTS), Text("Three bolts are on their way.")))
    session = await mc.start(agent, "Three bolts, please")

    assert await session.result() == "Three bolts are on their way."
    assert await steps_of(session) == ["model", "check_order", "model", "place_order", "model"]
    assert orders(work) == [("acme", "bolt", 3, 6)]


async def test_an_order_that_was_not_checked_is_held_to_the_limit_all_the_same(
    mc: midcourse.Midcourse, work: Path, says: Says
) -> None:
    dear = {"customer": "initech", "item": "engine", "quantity": 6, "confirmation": "It is yours."}
    says(replies(Call("place_order", dear), Text("Too dear.")))

    assert await (await mc.start(agent, "Six engines")).result() == "Too dear."
    assert orders(work) == []


async def test_several_orders_of_one_answer_are_all_confirmed(mc: midcourse.Midcourse, work: Path, says: Says) -> None:
    both = [
        Call("place_order", {**BOLTS, "quantity": many, "confirmation": f"{many} for {{total}}."}) for many in (1, 2)
    ]
    says(replies(both))

    assert await (await mc.start(agent, "One bolt, and two")).result() == "1 for $2. 2 for $4."
    assert orders(work) == [("acme", "bolt", 1, 2), ("acme", "bolt", 2, 4)]


async def test_a_call_that_cannot_be_made_is_told_to_the_model(mc: midcourse.Midcourse, work: Path, says: Says) -> None:
    heard: list[str] = []

    def tries(conversation: Conversation) -> Sequence[Piece]:
        heard.extend(said.text for said in conversation if said.role == "tool")
        wrong = [Call("ship_order"), Call("place_order", {"item": "bolt"}), Call("place_order", raw="{broken")]
        return [Text("I give up.")] if heard else wrong

    says(tries)
    assert await (await mc.start(agent, "Three bolts, please")).result() == "I give up."
    assert heard[0] == "There is no tool 'ship_order', but: check_order, place_order."
    assert not [one for one in heard[1:] if "InvalidInput" not in one]
    assert orders(work) == []


async def test_a_model_that_comes_to_no_end_is_given_up(mc: midcourse.Midcourse, says: Says) -> None:
    says(lambda _: [Call("check_order", BOLTS)])
    session = await mc.start(agent, "Three bolts, please")

    with pytest.raises(midcourse.SessionEnded, match=f"to an end after {REQUESTS} requests"):
        await session.result()


# ---- people

MAY_BE_INTERRUPTED = midcourse.Terms(task_class="medium")
"""As it is declared, it would finish first, and hear of a redirect when the model is done."""


async def test_a_redirect_while_the_model_thinks_is_the_order_that_is_placed(
    mc: midcourse.Midcourse, work: Path, says: Says
) -> None:
    thinks = asyncio.Event()

    def slowly(conversation: Conversation) -> Sequence[Piece]:
        thinks.set()
        people = [said for said in conversation if said.role == "user"]
        return [*([Wait(30)] if len(people) == 1 else []), *script(conversation)]

    says(slowly)
    session = await mc.start(agent, "Order 3 bolts for acme", terms=MAY_BE_INTERRUPTED)
    await thinks.wait()
    await session.redirect("No, order 5 gears for acme")

    assert "5 × gear for acme, $225" in await session.result()
    assert orders(work) == [("acme", "gear", 5, 225)]


async def test_a_redirect_between_check_and_placing_holds_the_order_back(
    mc: midcourse.Midcourse, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, told = asyncio.Event(), asyncio.Event()

    @midcourse.tool(effect="read")
    async def check_order(customer: str, item: str, quantity: int) -> object:
        if item == "bolt":
            checks.set()
            await told.wait()
        return {"accepted": True, "total": quantity, "why": "", "customer": customer}

    monkeypatch.setitem(order_desk.TOOLS, "check_order", check_order)
    session = await mc.start(agent, "Order 3 bolts for acme")
    await checks.wait()
    await session.redirect("Order 5 gears for acme instead")
    told.set()

    assert "5 × gear for acme, $225" in await session.result()
    assert orders(work) == [("acme", "gear", 5, 225)]


async def test_a_second_order_in_a_session_leaves_the_first_as_it_is(mc: midcourse.Midcourse, work: Path) -> None:
    session = await mc.start(agent, "Order 3 bolts for acme")
    first = await session.result()
    await session.redirect("order 4 hinges for acme")

    assert "4 × hinge for acme, $28" in await session.result()
    assert first != await session.result()
    assert orders(work) == [("acme", "bolt", 3, 6), ("acme", "hinge", 4, 28)]


async def test_what_a_cancelled_turn_had_placed_is_known_to_the_next(
    mc: midcourse.Midcourse, work: Path, says: Says
) -> None:
    placed = asyncio.Event()
    heard: list[str] = []

    def slow_to_confirm(conversation: Conversation) -> Sequence[Piece]:
        heard[:] = [said.text for said in conversation if said.role == "tool"]
        if len([said for said in conversation if said.role == "user"]) > 1:
            return [Text("You have it.")]
        if not heard:
            return [Call("place_order", BOLTS)]
        placed.set()
        return [Wait(30), Text("Done.")]

    says(slow_to_confirm)
    session = await mc.start(agent, "Order 3 bolts for acme", terms=MAY_BE_INTERRUPTED)
    await placed.wait()
    await session.cancel()
    with pytest.raises(midcourse.SessionEnded):
        await session.result()
    await session.redirect("So, what have you ordered?")

    assert await session.result() == "You have it."
    assert '"placed":true' in heard[0]
    assert orders(work) == [("acme", "bolt", 3, 6)]


async def test_a_real_model_behind_a_server_takes_the_order(work: Path) -> None:
    said = replies(Call("check_order", BOLTS), Call("place_order", BOLTS), Text("Three bolts are on their way."))
    async with Provider(said) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "midcourse.samples", "order-desk", "Three bolts for acme"),
            cwd=work.parent,
            env={
                **os.environ,
                "MIDCOURSE_SAMPLES_DIR": str(work),
                "MIDCOURSE_MODEL": "anything",
                "MIDCOURSE_BASE_URL": server.base_url,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await process.communicate()

    assert process.returncode == 0, printed.decode()
    assert "Three bolts are on their way." in printed.decode()
    assert orders(work) == [("acme", "bolt", 3, 6)]
