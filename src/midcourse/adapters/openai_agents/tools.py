"""Function tools of the OpenAI Agents SDK whose every call is a step, with the effect the function declares."""

import copy
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

import agents
from agents import FunctionTool, ModelBehaviorError, RunConfig, ToolTimeoutError
from agents.function_schema import FuncSchema, function_schema
from agents.tool import (
    _FailureHandlingFunctionToolInvoker as FailureHandling,  # pyright: ignore[reportPrivateUsage] - who asks for text
)
from agents.tool import (
    _get_function_tool_invoke_context as context_for,  # pyright: ignore[reportPrivateUsage] - which of two it wants
)
from agents.tool import (
    _validate_function_tool_output as validated,  # pyright: ignore[reportPrivateUsage] - what its own invoker does
)
from agents.tool import default_tool_timeout_error_message, maybe_invoke_function_tool_failure_error_function
from agents.tool_context import ToolContext
from agents.util._approvals import evaluate_function_tool_approval
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from midcourse.adapters.held_agent import NewCourse, as_raised, closed, declared, refused
from midcourse.adapters.openai_agents.conversation import journaled, restored, type_of_result
from midcourse.adapters.openai_agents.nested_runs import call_key, enter_nest, full_id
from midcourse.errors import InvalidInput, MidcourseError, Redirected, StepError
from midcourse.runtime.tools import Tool, registered_tools
from midcourse.tools.declarations import from_mcp

if TYPE_CHECKING:
    from midcourse.adapters.openai_agents.agent import HeldAgentRun

Invoker = Callable[[ToolContext[Any], str], Awaitable[Any]]
APPROVAL: Final = "wants a person's approval"
_BROKEN_OFF: Final = "Interrupted by the user before it had finished. What it had done until then stays done."


class ToolFailed(Exception):
    """The failure of a tool's function as the journal has it: its text, and the name of its class in ``kind``."""

    def __init__(self, detail: str, kind: str) -> None:
        super().__init__(detail)
        self.kind = kind


def step_tool(
    tool: FunctionTool, held: "HeldAgentRun", wrapped_agent: Callable[[Any, RunConfig | None], Any]
) -> FunctionTool:
    """Copy a function tool so that its calls are steps; for an agent as a tool, its inside is."""
    made = copy.copy(tool)
    inside = _with_agent(tool, held, wrapped_agent) if tool._is_agent_tool else None  # noqa: SLF001 - it has no other mark  # pyright: ignore[reportPrivateUsage]
    call = _Calls(tool, held).call if inside is None else partial(_run_agent, tool, held, inside)

    async def invoke(ctx: ToolContext[Any], input: str) -> Any:
        try:
            return await call(ctx, input)
        except ToolTimeoutError:
            raise
        except Exception as error:
            # One of ours is not what the function raised: no text for a model makes that good.
            if isinstance(error, MidcourseError) or not isinstance(tool.on_invoke_tool, FailureHandling):
                raise
            text = await maybe_invoke_function_tool_failure_error_function(function_tool=made, context=ctx, error=error)
            if text is None:
                raise
            return text

    made.on_invoke_tool = invoke
    made.needs_approval = False
    made.timeout_seconds = None  # a step has its own, and is not left behind when it is over
    return made


class _Calls:
    """The calls of one function tool."""

    def __init__(self, tool: FunctionTool, held: "HeldAgentRun") -> None:
        self._tool = tool
        self._held = held
        self._function = _function_of(tool)
        self._returns = declared_type(tool)
        self._schema: FuncSchema | None = None
        if self._function is not None:
            self._schema = function_schema(
                _plain(self._function), use_docstring_info=False, strict_json_schema=tool.strict_json_schema
            )

    async def call(self, ctx: ToolContext[Any], input: str) -> Any:
        tool, held = self._tool, self._held
        needs_approval = await approval_of(tool, ctx, input)
        arguments, made, body = self._prepared(ctx, input)
        limit = None if made.timeout is not None else tool.timeout_seconds
        made = made if limit is None else replace(made, timeout=limit)
        returned: list[Any] = []  # empty where the journal has it, from another process

        def shape(result: Any) -> object:
            returned[:] = [self._validated(result)]
            held.context.note()
            return journaled(returned[0])

        try:
            result = await held.run.call(
                made,
                arguments,
                key=call_key(ctx.tool_call_id),
                name=tool.name,
                body=body,
                shape=shape,
                needs_approval=needs_approval,
                on_redirect="raise",
                heard=held.run.state.get("heard", 0),
            )
        except Redirected as redirect:
            return closed(redirect)
        except StepError as error:
            if error.kind == "NotApproved":
                return refused(error.detail)
            if limit is not None and error.kind == "TimeoutError" and error.detail == f"no end after {limit:g} s":
                return await self._timed_out(ctx, limit)
            raise _as_it_was_raised(error) from error
        return returned[0] if returned else restored(result, self._returns)

    def _prepared(
        self, ctx: ToolContext[Any], input: str
    ) -> tuple[dict[str, object], Tool[..., Any], Callable[[], object]]:
        """Return the arguments by name, the tool with its declaration, and its call."""
        tool, schema = self._tool, self._schema
        found = _read(tool.name, input)
        if self._function is None or schema is None:
            made = self._elsewhere()
            return found, made, lambda: made.function(ctx, input)
        try:
            parsed = schema.params_pydantic_model(**found)
        except ValidationError as error:
            raise ModelBehaviorError(f"Invalid JSON input for tool {tool.name}: {error}") from error
        made = declared(self._function, tool.name, self._held.declarations)
        if schema.takes_context and made.run_in == "process":
            raise InvalidInput(
                f"Tool '{tool.name}' runs in a process and takes a context, which cannot be sent there. "
                "Leave the context or run_in out.",
                field="run_in",
            )
        positional, by_name = schema.to_call_args(parsed)
        given = [ctx, *positional] if schema.takes_context else positional
        arguments = cast("dict[str, object]", to_jsonable_python(dict(parsed), fallback=repr))
        return arguments, made, lambda: made.function(*given, **by_name)

    def _elsewhere(self) -> Tool[..., Any]:
        """Return a tool that is no Python function: a server's (MCP), or one made by hand."""
        tool, held = self._tool, self._held
        inner = tool.on_invoke_tool

        async def call(ctx: ToolContext[Any], input: str) -> Any:
            # Without its own handling of failures: that comes after the step, which has failed.
            invoke = inner._invoke_tool_impl if isinstance(inner, FailureHandling) else inner  # noqa: SLF001 - else no step of a server's would ever fail  # pyright: ignore[reportPrivateUsage]
            return await invoke(cast("ToolContext[Any]", context_for(tool, ctx)), input)

        annotations = tool.mcp_annotations
        hints = from_mcp(annotations.model_dump(by_alias=True)) if annotations is not None else {}
        known = held.declarations if tool.name in held.declarations or not hints else {tool.name: hints}
        return declared(call, tool.name, known, origin=f"{held.name}:{tool.qualified_name}")

    def _validated(self, result: Any) -> Any:
        adapter = _output_type(self._tool) if self._schema is not None else None
        return validated(tool_name=self._tool.name, output=result, output_type_adapter=adapter)

    async def _timed_out(self, ctx: ToolContext[Any], limit: float) -> Any:
        tool = self._tool
        error = ToolTimeoutError(tool_name=tool.name, timeout_seconds=limit)
        if tool.timeout_behavior == "raise_exception":
            raise error
        if tool.timeout_error_function is None:
            return default_tool_timeout_error_message(tool_name=tool.name, timeout_seconds=limit)
        text = tool.timeout_error_function(ctx, error)
        return await text if inspect.isawaitable(text) else text


async def _run_agent(
    tool: FunctionTool, held: "HeldAgentRun", inside: Invoker, ctx: ToolContext[Any], input: str
) -> Any:
    """Run an agent that is a tool: no step itself, but all it asks and calls are."""
    if why := await approval_of(tool, ctx, input):
        try:
            # A step that does nothing, so that a person is asked as for any other call.
            await held.run.call(
                Tool(function=_nothing, name=tool.name, origin="", effect="read"),
                _read(tool.name, input),
                key=call_key(f"{ctx.tool_call_id}:approval"),
                name=tool.name,
                body=_nothing,
                needs_approval=why,
                on_redirect="raise",
            )
        except Redirected as redirect:
            return closed(redirect)
        except StepError as error:
            return refused(error.detail)
    # In a task of its own, as every call of the SDK: the nest ends with it.
    enter_nest(ctx.tool_call_id)
    try:
        return await inside(ctx, input)
    except NewCourse:
        # The outer model is notified, and gets the person's message with its next request.
        return _BROKEN_OFF


async def approval_of(tool: FunctionTool, ctx: ToolContext[Any], input: str) -> str:
    """Return why a call needs a person, by the SDK's own rules; empty if it does not."""
    judged = await evaluate_function_tool_approval(tool, ctx, input, full_id(ctx.tool_call_id))
    return APPROVAL if judged.outcome == "require_approval" else ""


def _with_agent(
    tool: FunctionTool, held: "HeldAgentRun", wrapped_agent: Callable[[Any, RunConfig | None], Any]
) -> Invoker | None:
    """Rebuild ``agent.as_tool()`` to run a wrapped agent in its place. None: it cannot be told.

    The agent is a variable that the SDK's function closes over; there is no other way to it. A tool for which this
    fails is one undeclared step, as a whole.
    """
    invoker = tool.on_invoke_tool
    inside: object = invoker._invoke_tool_impl if isinstance(invoker, FailureHandling) else None  # noqa: SLF001 - see above  # pyright: ignore[reportPrivateUsage]
    if not isinstance(inside, FunctionType) or inside.__closure__ is None:
        return None
    cells = dict(zip(inside.__code__.co_freevars, inside.__closure__, strict=True))
    if "self" not in cells or not isinstance(cells["self"].cell_contents, agents.Agent):
        return None
    config = cells["run_config"].cell_contents if "run_config" in cells else None
    cells["self"] = CellType(wrapped_agent(cast("Any", cells["self"].cell_contents), config))
    if config is not None:
        cells["run_config"] = CellType(held.configured(config))
    made = FunctionType(inside.__code__, inside.__globals__, inside.__name__, None, tuple(cells.values()))
    return cast("Invoker", made)


def _function_of(tool: FunctionTool) -> Callable[..., Any] | None:
    """Return the Python function behind a tool, as it was declared; None for tools without one."""
    try:
        function: Any = tool.__wrapped__
    except AttributeError:
        return None
    if isinstance(function, Tool):
        return cast("Callable[..., Any]", function)
    if not inspect.isroutine(function):
        return cast("Callable[..., Any]", function.__call__)
    for known in registered_tools().values():
        if known.function is function:  # declared with @midcourse.tool, and given to the SDK as the function it is
            return known
    return cast("Callable[..., Any]", function)


def declared_type(tool: FunctionTool) -> TypeAdapter[Any] | None:
    """Return the type of a tool's results, as the tool or its function declares it; None if neither does."""
    function = _function_of(tool)
    return _output_type(tool) or (None if function is None else type_of_result(_plain(function)))


def _output_type(tool: FunctionTool) -> TypeAdapter[Any] | None:
    return tool._output_type_adapter  # noqa: SLF001 - it has no other name  # pyright: ignore[reportPrivateUsage]


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.function if isinstance(function, Tool) else function


def _nothing() -> None:
    pass


def _read(name: str, input: str) -> dict[str, object]:
    """Return the arguments as the model gave them."""
    try:
        found: object = json.loads(input) if input else {}
    except ValueError as error:
        raise ModelBehaviorError(f"Invalid JSON input for tool {name}: {input}") from error
    if not isinstance(found, dict):
        raise ModelBehaviorError(f"Invalid JSON input for tool {name}: expected a JSON object")
    return cast("dict[str, object]", found)


def _as_it_was_raised(error: StepError) -> Exception:
    """Return the function's exception, for handlers that check it."""
    if error.kind == "Unencodable":  # it has been done: a model that is asked to try again would do it twice
        return error
    if error.kind == "ModelBehaviorError":
        return ModelBehaviorError(error.detail)
    raised = as_raised(error)
    return ToolFailed(error.detail, error.kind) if raised is error else raised
