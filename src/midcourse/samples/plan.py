"""The plan that people see, for an agent of Pydantic AI: told by the tools that it calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition

import midcourse

_PLANNED = "planned"


@dataclass
class PlanFromTools(AbstractCapability[midcourse.Run]):
    """Starts an item when a tool of it is called; it is done when the next begins, or the agent has finished.

    ``item_of`` tells the item of a call from the tool's name and arguments; empty if it belongs to none. Hooks of a
    capability run between steps, where a run may be told something; a tool is a step, and may not.
    """

    item_of: Callable[[str, Mapping[str, Any]], str]
    items: tuple[str, ...] = ()

    async def before_run(self, ctx: RunContext[midcourse.Run]) -> None:
        """Report the list, once for a session. A redirect begins the same plan again."""
        run = ctx.deps
        if self.items and not run.state.get(_PLANNED):
            run.state[_PLANNED] = True
            run.plan.set(*self.items)

    async def before_tool_execute(
        self, ctx: RunContext[midcourse.Run], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Report that an item begins, and the one before is done."""
        item = self.item_of(call.tool_name, args)
        under_way: str = ctx.deps.state.get("item", "")
        if item and item != under_way:
            self._finish(ctx.deps)
            ctx.deps.plan.start(item)
            ctx.deps.state["item"] = item
        return args

    async def after_run(self, ctx: RunContext[midcourse.Run], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Report that the last item is done."""
        self._finish(ctx.deps)
        return result

    def _finish(self, run: midcourse.Run) -> None:
        under_way = run.state.pop("item", "")
        if under_way:
            run.plan.done(under_way)
