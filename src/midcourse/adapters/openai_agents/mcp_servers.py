"""Connect the MCP servers of an agent while it runs here: a process that resumes it must connect them itself."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from agents import Agent
from agents.mcp import MCPServer

from midcourse.adapters.openai_agents.agent_copies import reachable


class _Keeper:
    """Keeps one server connected for all who use it, in a task of its own: what connects must also disconnect."""

    def __init__(self, server: MCPServer, place: "_Place") -> None:
        self._server = server
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self.users = 0
        self.task = asyncio.create_task(self._keep(), name=f"midcourse mcp {server.name}")
        # Known until it has disconnected: who came before that would take a server that is going for a connected one.
        _keepers[place] = self
        self.task.add_done_callback(lambda _: _keepers.pop(place))

    async def _keep(self) -> None:
        try:
            await self._server.connect()
        except BaseException as error:
            if not self.ready.done():
                self.ready.set_exception(error)
                self.ready.exception()
            if not isinstance(error, Exception):
                raise
        else:
            self.ready.set_result(None)
            await self.over.wait()
        finally:
            await self._server.cleanup()


_Place: TypeAlias = tuple[int, int]
_keepers: Final[dict[_Place, _Keeper]] = {}


@asynccontextmanager
async def connected(agent: Agent[Any]) -> AsyncGenerator[None]:
    """Have every MCP server that ``agent`` can come to use connected. One that is connected already stays as it is."""
    loop = id(asyncio.get_running_loop())
    servers = {id(server): server for one in reachable(agent) for server in one.mcp_servers}
    used: list[_Keeper] = []
    try:
        for server in servers.values():
            place = (loop, id(server))
            while (keeper := _keepers.get(place)) is not None and keeper.over.is_set():
                await asyncio.wait({keeper.task})
            if keeper is None:
                if getattr(server, "session", None) is not None:
                    continue  # other code has connected it, and will disconnect it
                keeper = _Keeper(server, place)
            keeper.users += 1
            used.append(keeper)
            await asyncio.shield(keeper.ready)
        yield
    finally:
        for keeper in used:
            keeper.users -= 1
            if not keeper.users:
                keeper.over.set()
        for keeper in used:
            if keeper.over.is_set():
                await asyncio.wait({keeper.task})
