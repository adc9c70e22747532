"""What changed in the world while a session rested is told to the model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import midcourse
from midcourse.models.script import Call, Text, replies
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk
from tests.promises.harness import QUICK, Place, until_status


class Stock:
    """So many pieces, of whatever is looked for."""

    pieces = "20"

    def resource(self, arguments: Mapping[str, Any]) -> str:
        """The name of what is observed."""
        return "stock"

    async def version(self, arguments: Mapping[str, Any]) -> str | None:
        """The count."""
        return self.pieces


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
async def test_the_model_is_told_what_changed_while_the_session_rested(is_warm: bool, place: Place) -> None:
    stock = Stock()
    desk = Desk(replies([Call("count")], [Call("sell")], Text("Sold.")))

    @desk.agent.tool_plain
    @midcourse.tool(effect="read", observes=stock)
    def count() -> str:
        """Count the stock."""
        return stock.pieces

    @desk.agent.tool_plain(requires_approval=True)
    @midcourse.tool(effect="idempotent", local=True)
    def sell() -> str:
        """Sell all."""
        return "sold"

    agent, settings = desk.held(), replace(QUICK, world_after=0)
    async with place.open(agent, settings=settings) as mc:
        session = await mc.start(agent, "go")
        await until_status(session, "waiting")
        stock.pieces = "0"
        if is_warm:
            await session.answer("yes")
            assert await session.result(PATIENCE) == "Sold."
    if not is_warm:
        async with place.open(agent, settings=settings) as mc:
            session = await mc.get(session.id)
            await session.answer("yes")
            assert await session.result(PATIENCE) == "Sold."
    assert sum("stock: was 20, is 0" in one.text for one in desk.heard[-1]) == 1
