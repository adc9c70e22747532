"""Any Pydantic AI agent as an agent of Midcourse: its own loop, with its model and its tools made steps."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

from pydantic_ai import AbstractToolset, RunContext
from pydantic_ai._enqueue import run_queue
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults
from pydantic_ai.toolsets._dynamic import DynamicToolset
from pydantic_ai.usage import UsageLimits
from pydantic_core import to_jsonable_python

from midcourse.adapters.context import Context, ContextMaker
from midcourse.adapters.held_agent import (
    Declarations,
    MessageListener,
    NewCourse,
    closed,
    held_agent,
    module_of_caller,
    refused,
    step_key,
)
from midcourse.adapters.pydantic_ai.conversation import MessageHistory, retries_in
from midcourse.adapters.pydantic_ai.model import PydanticStepModel
from midcourse.adapters.pydantic_ai.queue import Waiting
from midcourse.adapters.pydantic_ai.toolset import StepToolset
from midcourse.core.codec import canonical, preview
from midcourse.core.retries import Retry
from midcourse.core.terms import Terms
from midcourse.errors import MisusedRun, Redirected
from midcourse.runtime.agents import Agent, OnNewVersion
from midcourse.runtime.run import Run

log = logging.getLogger("midcourse")
DepsFactory: TypeAlias = Callable[[Run], Any]
ModelFactory: TypeAlias = Callable[[], Awaitable[Model]]


def wrap(
    agent: AbstractAgent[Any, Any],
    *,
    name: str = "",
    deps: DepsFactory | None = None,
    model: ModelFactory | None = None,
    declare: Declarations | None = None,
    usage_limits: UsageLimits | None = None,
    asks: bool = True,
    terms: Terms | None = None,
    retry: Retry | None = None,
    description: str = "",
    goals: Sequence[str] = (),
    version: str | None = None,
    on_new_version: OnNewVersion = "go_on",
    origin: str = "",
) -> Agent[Any]:
    """Make a Pydantic AI agent one that Midcourse can start, pause, resume, redirect, cancel and recover.

    Every model request and every tool call becomes a step. ``deps`` makes the dependencies for a run, in each process
    that drives it. If they are a Pydantic model, what the run changes in it is journaled, and put back in the next
    process. ``declare`` says what tools do that are no functions of yours, such as an
    MCP server's: ``declare={"search": {"effect": "read"}}``; functions declare themselves with ``@midcourse.tool``.
    ``model`` makes the model when a run needs it, instead of the agent's own; ``origin`` says where the agent is
    defined, if not in the calling module.
    ``usage_limits`` are Pydantic AI's own (50 requests, if nothing is said), counted from the start, from a redirect or
    from a resume in another process.
    Calls that need approval, and calls whose result comes from elsewhere, become asks; with ``asks=False`` they fail.
    ``retry`` is for its model requests: five attempts if nothing is said. ``description`` and
    ``goals``, examples of what to ask of it, are shown to people who choose an agent.
    """

    maker = ContextMaker("deps", deps)

    async def function(run: Run) -> Any:
        made = await maker.make(run)
        chosen = None if model is None else await model()
        return await HeldCapability(run, name or agent.name or "", declare or {}, made).follow(
            agent, chosen, usage_limits
        )

    return held_agent(
        function,
        name=name or agent.name or "",
        made_of=(agent.name, agent.model if isinstance(agent.model, str) else type(agent.model).__name__),
        version=version,
        asks=asks,
        on_new_version=on_new_version,
        origin=origin or f"{module_of_caller()}:{name or agent.name}",
        terms=terms,
        retry=retry,
        description=description,
        goals=goals,
    )


def _course_in(error: BaseException) -> NewCourse | None:
    """Return the new course, also from within a group of exceptions of the user's tasks."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next((found for one in inner if (found := _course_in(one)) is not None), None)
    return error if isinstance(error, NewCourse) else None


class HeldCapability(AbstractCapability[Any]):
    """One run of the agent in one session, as a capability: it wraps model and tools, and answers for people."""

    def __init__(self, run: Run, name: str, declarations: Declarations, deps: Context) -> None:
        self.run = run
        self.name = name
        self.declarations = declarations
        self.deps = deps
        self.listener = MessageListener(run)
        self.conversation = MessageHistory(run)
        self.waiting = Waiting(run)
        self.to_approve: dict[str, str] = {}
        self.tool_names: set[str] = set()
        self.retries: dict[str, int] = {}
        """The retries of each tool in this run so far, if an earlier process began it."""

    async def follow(self, agent: AbstractAgent[Any, Any], model: Model | None, limits: UsageLimits | None) -> Any:
        """Run the agent to its end, beginning anew from the conversation whenever a person changes its course."""
        await self.conversation.close_turn_before()
        messages = self.conversation.messages
        while True:
            prompt = self.listener.news() or None
            if prompt is not None:  # a new run, as natively; without one an earlier process began this one
                self.run.state["began"] = len(messages)
            self.retries = retries_in(messages[self.run.state.get("began", 0) :])
            try:
                result = await agent.run(
                    prompt,
                    message_history=messages,
                    deps=self.deps.value,
                    model=model,
                    usage_limits=limits,
                    capabilities=[self],
                )
            except (NewCourse, BaseExceptionGroup) as error:
                course = _course_in(error)
                if course is None:
                    raise
                messages = course.messages
            except UserError as error:
                if prompt is None and not messages:
                    raise MisusedRun(
                        "This agent was started without a goal and has no instructions. Redirect it with what it is to "
                        "do, or start another session: mc.start(agent, 'what to do').",
                        code="no_goal",
                    ) from error
                raise
            else:
                messages = result.all_messages()
                self._miss_declared()
                if not self.listener.has_news:  # what was said to its last words is no message to an ended session
                    self.conversation.keep(messages)
                    self.waiting.keep()
                    self.deps.save()
                    return to_jsonable_python(result.output)

    def _miss_declared(self) -> None:
        missed = sorted(set(self.declarations) - self.tool_names)
        if missed:
            log.warning("agent '%s' declares %s, and has no tool of that name", self.name, ", ".join(missed))

    async def save(self, messages: Sequence[ModelMessage]) -> None:
        """Keep the conversation as the place to continue from, where nothing else is under way."""
        if self.run.under_way:
            return
        self.conversation.keep(messages)
        self.waiting.keep()
        self.deps.save()
        await self.run.checkpoint(durable=False)

    # ---- what Pydantic AI asks a capability

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Hand over what waits since an earlier run."""
        self.waiting.begin(run_queue(ctx))

    def get_wrapper_model(self, model: Model) -> Model:
        """Return the model with its requests made steps."""
        return PydanticStepModel(model, self)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Return the toolsets, the innermost of them with their calls made steps."""
        return toolset.visit_and_replace(self._held_toolset)

    def _held_toolset(self, leaf: AbstractToolset[Any]) -> AbstractToolset[Any]:
        if not isinstance(leaf, DynamicToolset):
            return StepToolset(leaf, self)

        async def made(ctx: RunContext[Any]) -> AbstractToolset[Any] | None:
            toolset: Any = leaf.toolset_func(ctx)
            found: AbstractToolset[Any] | None = await toolset if inspect.isawaitable(toolset) else toolset
            return None if found is None else found.visit_and_replace(self._held_toolset)

        return DynamicToolset(made, per_run_step=leaf.per_run_step, id=leaf.id)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults:
        """Approvals are asked for where the call is made, and cover what it does; other results a person gives."""
        results = DeferredToolResults()
        for call in requests.approvals:
            told = requests.metadata.get(call.tool_call_id)
            words = f": {preview(canonical(told))}" if told else ""
            self.to_approve[call.tool_call_id] = f"wants a person's approval{words}"
            results.approvals[call.tool_call_id] = True
        for call in requests.calls:
            spelled = preview(canonical(call.args_as_dict()))
            try:
                results.calls[call.tool_call_id] = await self.run.ask(
                    f"Do '{call.tool_name}' with {spelled}, and answer with its result.",
                    reason="need_result",
                    key=step_key(call.tool_call_id),
                    on_redirect="raise",
                )
            except Redirected as redirect:
                results.calls[call.tool_call_id] = closed(redirect)
            except MisusedRun as error:
                results.calls[call.tool_call_id] = refused(error.message)
        return results
