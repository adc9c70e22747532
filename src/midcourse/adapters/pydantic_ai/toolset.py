"""A toolset of Pydantic AI whose every call is a step, with the effect its function declares."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from pydantic_ai import ModelRetry, RunContext
from pydantic_ai._enqueue import run_queue
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool, WrapperToolset
from pydantic_core import to_jsonable_python

from midcourse.adapters.held_agent import NOT_YET, closed, declared, inside, refused, step_key
from midcourse.adapters.pydantic_ai.conversation import journaled, restored
from midcourse.adapters.pydantic_ai.queue import CallQueue
from midcourse.errors import InvalidInput, Redirected, StepError
from midcourse.runtime.tools import Tool
from midcourse.tools.declarations import from_mcp

if TYPE_CHECKING:
    from midcourse.adapters.pydantic_ai.agent import HeldCapability

_LONGEST: Final = 8_000
"""The limit, in characters, of a function's request: a journal does not keep endless errors."""


@contextmanager
def _not_yet() -> Generator[None]:
    """Refuse a function that needs a person's approval, or a result from elsewhere, before it does anything.

    It is bad input, so the journal knows that nothing was done.
    """
    try:
        yield
    except (ApprovalRequired, CallDeferred) as wanted:
        metadata = to_jsonable_python(wanted.metadata, fallback=repr)
        spelled = msgspec.json.encode([type(wanted).__name__, metadata]).decode()
        if len(spelled) > _LONGEST:
            spelled = msgspec.json.encode([type(wanted).__name__, None]).decode()
        raise InvalidInput(f"{NOT_YET}{spelled}", field="call") from wanted


@dataclass
class StepToolset(WrapperToolset[Any]):
    """Calls what the wrapped toolset would call, as steps of the session. Wraps the innermost toolsets."""

    held: "HeldCapability"

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        ctx.retries.update(self.held.retries)  # of a run that continues here; from then on the framework counts
        self.held.retries = {}
        return await super().for_run_step(ctx)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        key = step_key(ctx.tool_call_id or "") + (":approved" if ctx.tool_call_approved else "")
        seen = self.held.conversation.names.get(ctx.tool_call_id or "", name)
        enqueued = CallQueue(self.held.run, key, run_queue(ctx))
        made, call = self._call(name, seen, tool_args, replace(ctx, pending_messages=enqueued), tool)
        limit = tool.tool_def.timeout or getattr(self.wrapped, "timeout", None)
        if made.timeout is None and limit is not None:
            made = replace(made, timeout=limit)

        def body() -> object:
            enqueued.begin()
            return call()

        def shape(result: Any) -> object:
            shaped = journaled(result)
            enqueued.keep()
            self.held.deps.note()
            return shaped

        try:
            result = await self.held.run.call(
                made,
                cast("dict[str, object]", to_jsonable_python(tool_args, fallback=repr)),
                key=key,
                name=seen,
                body=body,
                shape=shape,
                needs_approval=self.held.to_approve.get(ctx.tool_call_id or "", ""),
                on_redirect="raise",
                heard=self.held.run.state.get("heard", 0),
            )
        except Redirected as redirect:
            return closed(redirect)
        except StepError as error:
            await enqueued.end(ctx, failed=True)
            raise self._as_the_framework_has_it(error, limit) from error
        await enqueued.end(ctx)
        return restored(result)

    def _call(
        self, name: str, seen: str, arguments: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> tuple[Tool[..., Any], Callable[[], object]]:
        """Return the tool, with its declaration, and its call."""
        if not isinstance(self.wrapped, FunctionToolset):
            made = self._elsewhere(name, seen, tool)
            return made, lambda: made.function(arguments, ctx, tool)
        schema = self.wrapped.tools[getattr(tool, "original_name", None) or name].function_schema
        made = declared(schema.function, seen, self.held.declarations)
        positional, by_name = schema._call_args(arguments, ctx)  # noqa: SLF001 - how it calls the function itself  # pyright: ignore[reportPrivateUsage]
        if schema.takes_ctx and made.run_in == "process":
            raise InvalidInput(
                f"Tool '{name}' runs in a process and takes a RunContext, which cannot be sent there. "
                "Make it a plain tool (tool_plain), or leave run_in out.",
                field="run_in",
            )
        return made, inside(_not_yet, made.function, positional, by_name)

    def _elsewhere(self, name: str, seen: str, tool: ToolsetTool[Any]) -> Tool[..., Any]:
        """Return a tool that is no Python function: a server's (MCP), or a toolset of the user's own."""

        async def call(arguments: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Any:
            return await self.wrapped.call_tool(name, arguments, ctx, tool)

        origin = f"{self.held.name}:{self.wrapped.id or type(self.wrapped).__name__}.{name}"
        annotations = (tool.tool_def.metadata or {}).get("annotations")
        hints = from_mcp(cast("Mapping[str, Any]", annotations)) if isinstance(annotations, Mapping) else {}
        known = self.held.declarations if seen in self.held.declarations or not hints else {seen: hints}
        return replace(declared(call, seen, known, origin=origin), function=call)

    def _as_the_framework_has_it(self, error: StepError, limit: float | None) -> BaseException:
        match error.kind:
            case "ModelRetry":
                return ModelRetry(error.detail)
            case "ToolFailed":
                return ToolFailed(error.detail)
            case "InvalidInput" if error.detail.startswith(NOT_YET):
                kind, metadata = msgspec.json.decode(error.detail.removeprefix(NOT_YET))
                return ApprovalRequired(metadata) if kind == "ApprovalRequired" else CallDeferred(metadata)
            case "NotApproved":
                return ToolFailed(refused(error.detail))
            case "ApprovalRequired":  # from a process, which tells no more of it
                return ApprovalRequired()
            case "TimeoutError" if limit is not None and error.detail == f"no end after {limit:g} s":
                return ModelRetry(f"Timed out after {limit:g} seconds.")
            case _:
                return error
