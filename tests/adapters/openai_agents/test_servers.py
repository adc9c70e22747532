"""Tools of MCP servers: connected while the agent runs, and each call a step with the effect the server hints at."""

import sys
from pathlib import Path

from agents.mcp import MCPServerStdio

from midcourse.core.events import StepBegun
from midcourse.models.script import Call, Text, replies
from tests.adapters.openai_agents.desk import PATIENCE, Desk

SHOP = Path(__file__).with_name("shop.py")


async def test_calls_of_a_servers_tools_are_steps(at_responses: Desk) -> None:
    at = at_responses
    shop = MCPServerStdio({"command": sys.executable, "args": [str(SHOP)]}, client_session_timeout_seconds=PATIENCE)
    agent = at.agent(mcp_servers=[shop])
    calls = [Call("price", {"item": "tea"}), Call("order", {"item": "tea"})]
    session = await at.start(agent, replies(calls, Text("Done.")))
    assert await session.result(2 * PATIENCE) == "Done."
    assert at.heard[-2:] == ["tool: tea costs 3", "tool: tea is on its way"]
    begun = {one.event.name: one.event async for one in session.watch() if isinstance(one.event, StepBegun)}
    assert (begun["price"].effect, begun["order"].effect) == ("read", "irreversible")
    assert getattr(shop, "session", None) is None  # it was disconnected
    again = await at.start(agent, replies(calls[:1], Text("Again.")))
    assert await again.result(2 * PATIENCE) == "Again."


async def test_a_server_that_cannot_be_reached_fails_the_session(at_responses: Desk) -> None:
    at = at_responses
    shop = MCPServerStdio({"command": sys.executable, "args": ["-c", "raise SystemExit"]})
    session = await at.start(at.agent(mcp_servers=[shop]), replies(Text("Never.")))
    try:
        await session.result(2 * PATIENCE)
    except Exception as error:  # noqa: BLE001 - whatever MCP says of it
        assert "failed" in str(error)
    assert at.provider.requests == ()
