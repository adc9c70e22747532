"""A toolset of Pydantic AI whose every call is a step, with the effect its function declares."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from pydantic import TypeAdapter
from pydantic_ai import ModelRetry, RunContext, ToolReturn
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
from pydantic_ai.messages import UserContent, is_multi_modal_content
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool, WrapperToolset
from pydantic_core import PydanticSerializationError, to_jsonable_python

from midcourse.adapters.holding import closed, declared, refused, step_key
from midcourse.errors import InvalidInput, Redirected, StepError
from midcourse.runtime.tools import Tool
from midcourse.tools.declarations import from_mcp

if TYPE_CHECKING:
    from midcourse.adapters.pydantic_ai.agent import Held

_RETURN: Final = "pydantic-ai:tool-return"
_NOT_YET: Final = "not yet: "
_CONTENT: Final = "pydantic-ai:content"
_returns: Final[TypeAdapter[ToolReturn[Any]]] = TypeAdapter(ToolReturn[Any])
_contents: Final[TypeAdapter[Any]] = TypeAdapter(list[UserContent])


def _not_yet(wanted: "ApprovalRequired | CallDeferred") -> InvalidInput:
    """The function wants a person's approval, or its result from elsewhere, before it does anything.

    As bad input: of that the journal knows that nothing was done.
    """
    spelled = msgspec.json.encode([type(wanted).__name__, wanted.metadata]).decode()
    return InvalidInput(f"{_NOT_YET}{spelled}", field="call")


@dataclass
class StepToolset(WrapperToolset[Any]):
    """Calls what the wrapped toolset would call, as steps of the session. Wraps the innermost toolsets."""

    held: "Held"

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        approved = ctx.tool_call_approved
        key = step_key(ctx.tool_call_id or "") + (":approved" if approved else "")
        made, body = self._call(name, tool_args, ctx, tool)
        limit = tool.tool_def.timeout or getattr(self.wrapped, "timeout", None)
        if made.timeout is None and limit is not None:
            made = replace(made, timeout=limit)
        try:
            result = await self.held.run.call(
                made,
                cast("dict[str, object]", to_jsonable_python(tool_args, fallback=repr)),
                key=key,
                name=name,
                body=body,
                shape=_journaled,
                needs_approval="wants a person's approval" if ctx.tool_call_id in self.held.to_approve else "",
                on_redirect="raise",
            )
        except Redirected as redirect:
            return closed(redirect)
        except StepError as error:
            raise self._as_the_framework_has_it(error, limit) from error
        return _restored(result)

    def _call(
        self, name: str, arguments: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> tuple[Tool[..., Any], Callable[[], object]]:
        """The tool, with what it declares, and how it is called."""
        if not isinstance(self.wrapped, FunctionToolset):
            made = self._elsewhere(name, tool)
            return made, lambda: made.function(arguments, ctx, tool)
        schema = self.wrapped.tools[getattr(tool, "original_name", None) or name].function_schema
        made = declared(schema.function, name, self.held.declarations)
        positional, by_name = schema._call_args(arguments, ctx)  # noqa: SLF001 - how it calls the function itself  # pyright: ignore[reportPrivateUsage]
        if schema.takes_ctx and made.run_in == "process":
            raise InvalidInput(
                f"Tool '{name}' runs in a process and takes a RunContext, which cannot be sent there. "
                "Make it a plain tool (tool_plain), or leave run_in out.",
                field="run_in",
            )
        return made, _asking(made.function, positional, by_name)

    def _elsewhere(self, name: str, tool: ToolsetTool[Any]) -> Tool[..., Any]:
        """A tool that is no Python function: a server's (MCP), or a toolset of the user's own."""

        async def call(arguments: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Any:
            return await self.wrapped.call_tool(name, arguments, ctx, tool)

        origin = f"{self.held.name}:{self.wrapped.id or type(self.wrapped).__name__}.{name}"
        annotations = (tool.tool_def.metadata or {}).get("annotations")
        hints = from_mcp(cast("Mapping[str, Any]", annotations)) if isinstance(annotations, Mapping) else {}
        known = {**self.held.declarations} if name in self.held.declarations or not hints else {name: hints}
        return declared(call, name, known, origin=origin)

    def _as_the_framework_has_it(self, error: StepError, limit: float | None) -> BaseException:
        match error.kind:
            case "ModelRetry":
                return ModelRetry(error.detail)
            case "ToolFailed":
                return ToolFailed(error.detail)
            case "InvalidInput" if error.detail.startswith(_NOT_YET):
                kind, metadata = msgspec.json.decode(error.detail.removeprefix(_NOT_YET))
                return ApprovalRequired(metadata) if kind == "ApprovalRequired" else CallDeferred(metadata)
            case "NotApproved":
                return ToolFailed(refused(error.detail))
            case "TimeoutError" if limit is not None:
                return ModelRetry(f"Timed out after {limit:g} seconds.")
            case _:
                return error


def _asking(function: Callable[..., Any], positional: list[Any], by_name: Mapping[str, Any]) -> Callable[[], object]:
    """A call of ``function`` whose wish to be approved first is told from a failure."""

    async def awaited() -> Any:
        try:
            return await function(*positional, **by_name)
        except (ApprovalRequired, CallDeferred) as wanted:
            raise _not_yet(wanted) from wanted

    def plain() -> Any:
        try:
            return function(*positional, **by_name)
        except (ApprovalRequired, CallDeferred) as wanted:
            raise _not_yet(wanted) from wanted

    return awaited if inspect.iscoroutinefunction(function) else plain


def _journaled(result: Any) -> object:
    """A result as it can be journaled."""
    try:
        if isinstance(result, ToolReturn):
            return {_RETURN: _returns.dump_python(cast("ToolReturn[Any]", result), mode="json")}
        several = cast("list[Any]", result if isinstance(result, list) else [result])
        if any(is_multi_modal_content(one) for one in several):
            return {_CONTENT: _contents.dump_python(several, mode="json"), "list": isinstance(result, list)}
        return to_jsonable_python(result)
    except PydanticSerializationError:
        return cast("object", result)  # the journal says what is wrong with it


def _restored(result: Any) -> Any:
    if isinstance(result, dict):
        found = cast("dict[str, Any]", result)
        if _RETURN in found:
            return _returns.validate_python(found[_RETURN])
        if _CONTENT in found:
            several = _contents.validate_python(found[_CONTENT])
            return several if found["list"] else several[0]
    return cast("Any", result)
