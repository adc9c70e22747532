"""Tools of MCP servers: connected while the agent runs, and each call a step with the effect the server hints at."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.mcp import MCPServer, MCPServerStdio
from mcp.types import CallToolResult, TextContent, Tool

from midcourse.core.events import StepBegun
from midcourse.models.script import Call, Conversation, Piece, Text, replies
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


class Slow(MCPServer):
    """A server in this process, which takes its time to be disconnected."""

    def __init__(self) -> None:
        super().__init__()
        self.session: object = None
        self.leaving = asyncio.Event()
        self.may_go = asyncio.Event()

    @property
    def name(self) -> str:
        return "slow"

    async def connect(self) -> None:
        self.session = object()

    async def cleanup(self) -> None:
        self.leaving.set()
        await self.may_go.wait()
        self.session = None

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Tool]:
        return [Tool(name="look", input_schema={"type": "object", "properties": {}})]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        said = "looked" if self.session is not None else "not connected"
        return CallToolResult(content=[TextContent(type="text", text=said)])

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError


async def test_who_comes_while_a_server_is_being_disconnected_has_it_connected_again(at_responses: Desk) -> None:
    at, server = at_responses, Slow()
    agent = at.agent(mcp_servers=[server])

    def script(heard: Conversation, /) -> Sequence[Piece]:
        return [Text(heard.results("look")[-1])] if heard.calls else [Call("look")]

    first = await at.start(agent, script)
    await asyncio.wait_for(server.leaving.wait(), PATIENCE)
    others = [await at.start(agent, script) for _ in range(2)]
    await asyncio.sleep(0.1)
    assert len(at.provider.requests) == 2, "the others have to wait"
    server.may_go.set()
    assert ["looked" in await one.result(PATIENCE) for one in (first, *others)] == [True] * 3
    assert server.session is None
