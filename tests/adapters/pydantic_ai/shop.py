"""An MCP server, over stdin and stdout: one tool only reads, one may be done again, of one nothing is known."""

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

shop = MCPServer("shop")


@shop.tool(annotations=ToolAnnotations(read_only_hint=True))
def price(item: str) -> str:
    """The price of an item."""
    return f"{item} costs 3"


@shop.tool(annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=False))
def reserve(item: str) -> str:
    """Reserve an item."""
    return f"{item} is reserved"


@shop.tool()
def order(item: str) -> str:
    """Order an item."""
    return f"{item} is on its way"


if __name__ == "__main__":
    shop.run()
