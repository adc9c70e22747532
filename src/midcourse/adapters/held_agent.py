"""Share what every adapter does: register the agent, follow people's messages, close a call with a true result."""

import builtins
import hashlib
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, TypeAlias

from midcourse.core.interrupted_calls import MAY_HAVE_HAPPENED
from midcourse.core.retries import Retry
from midcourse.core.session import Message
from midcourse.core.terms import NO_TERMS, Terms, check_terms
from midcourse.errors import InvalidInput, MidcourseError, Redirected, StepError
from midcourse.runtime.agents import Agent, OnNewVersion, example_goals, register_agent
from midcourse.runtime.run import Earlier, Run
from midcourse.runtime.tools import Tool, declared_tool, module_name, register, tool_of

Declarations: TypeAlias = Mapping[str, Tool[..., Any] | Mapping[str, Any]]
"""Declarations of tools' effects, by the name that the model uses: for tools that are not functions of yours."""

MODEL: Final = "model"
"""The name of a model request among the steps."""
NOT_YET: Final = "not yet: "
"""The beginning of the error of a step that did nothing, because it needs something first."""
_KEY: Final = re.compile(r"[^\s/#>]{1,180}")


class NewCourse(BaseException):
    """A person has said something: the framework's run is left here, and begun again with it. Private to adapters.

    No ``Exception``, so that no framework and no user's code takes it for a failure that it could mend.
    """

    def __init__(self, messages: list[Any]) -> None:
        super().__init__("A person changed the course.")
        self.messages = messages


def held_agent(
    function: Callable[[Run], Awaitable[Any]],
    *,
    name: str,
    made_of: object,
    version: str | None,
    asks: bool,
    on_new_version: OnNewVersion,
    origin: str,
    terms: Terms | None = None,
    retry: Retry | None = None,
    description: str = "",
    goals: Sequence[str] = (),
) -> Agent[Any]:
    """Register a framework's agent under ``name``. A process that imports the module that wraps it can continue it."""
    if not name:
        raise InvalidInput("The agent has no name. Give it one: wrap(agent, name='…').", field="name")
    made: Agent[Any] = Agent(
        name=name,
        function=function,
        version=version or hashlib.blake2b(repr(made_of).encode(), digest_size=6).hexdigest(),
        mode="state",
        origin=origin,
        resumable=True,
        on_new_version=on_new_version,
        asks=asks,
        terms=check_terms(terms or NO_TERMS),
        retry=retry,
        description=description,
        goals=example_goals(goals),
    )
    register_agent(made)
    return made


def check_factory(name: str, given: object) -> None:
    """Refuse a run's parts that are not a function: they are made in every process that drives the run.

    Raises:
        InvalidInput: it is something else.
    """
    if given is not None and not callable(given):
        raise InvalidInput(
            f"{name} is a {type(given).__name__}; it is a function that makes one for a run: {name}=lambda run: ….",
            field=name,
        )


def module_of_caller() -> str:
    """Return the module that calls ``wrap``; another process gets the agent by importing it."""
    name = sys._getframe(2).f_globals.get("__name__", "")  # noqa: SLF001 - as namedtuple and logging do  # pyright: ignore[reportPrivateUsage]
    return module_name(str(name))


class MessageListener:
    """Follow the messages that people sent to the session, and how many of them the model has got.

    ``run.state["heard"]`` counts the messages that are in the conversation. What changed in the world before a cold
    resume is news, too.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._changes = ""
        self._waiting: tuple[Message, ...] = ()

    @property
    def has_news(self) -> bool:
        """True if a message has not reached the model. Journaled: a replay sees the same value."""
        if self._run.catching_up:  # first what is journaled, then what came after it
            return False
        if self._run.has_changes:  # found before it started, or after a long rest
            self._changes = changes_in_words(self._run)
        self._waiting = self._run.messages[self._run.state.get("heard", 0) :]
        return bool(self._waiting or self._changes)

    def news(self, *, again: bool = False) -> str:
        """Return what is new, as one message of the user, and count it as delivered.

        ``again``: this place is between a checkpoint and its first step, so while the run catches up, what was new here
        is new again.
        """
        if again and self._run.catching_up:
            self._waiting = self._run.messages[self._run.state.get("heard", 0) :]
        elif not self.has_news:
            return ""
        self._run.state["heard"] = self._run.state.get("heard", 0) + len(self._waiting)
        texts = [self._changes, *(message.text for message in self._waiting)]
        self._changes = ""
        return "\n\n".join(filter(None, texts))


def changes_in_words(run: Run) -> str:
    """Return what changed in the world before a cold resume, for the model; empty if nothing did."""
    told = [f"- {change.resource}: was {change.before}, is {change.now or change.why}" for change in run.changes]
    return "\n".join(["While this run was stopped, what it had read changed:", *told]) if told else ""


def closed(redirect: Redirected) -> str:
    """Return the result of a call that a redirect closed, for the model."""
    return f"Interrupted by the user. What is known of this call: {redirect.truth or 'it may have happened'}."


def became(step: Earlier | None, restored: Callable[[Any], Any]) -> Any:
    """Return the outcome of a call of the previous turn, for the model: its result, or what is known."""
    if step is None:
        return "It was not begun."
    if step.undone:
        return "It was undone."
    if step.outcome == "finished":
        return restored(step.value)
    if step.outcome == "failed":
        return f"It failed: {step.detail}"
    return f"It did not end: {step.detail or MAY_HAVE_HAPPENED}."


def refused(detail: str) -> str:
    """Return the result of a call that a person did not approve."""
    return f"The call was not made: {detail}."


def step_key(call_id: str) -> str:
    """Turn a model's id of a call into the key of its step."""
    if _KEY.fullmatch(call_id):
        return call_id
    return hashlib.blake2b(call_id.encode("utf-8", "backslashreplace"), digest_size=12).hexdigest()


def declared(
    function: Callable[..., Any], name: str, declarations: Declarations, *, origin: str = ""
) -> Tool[..., Any]:
    """Return a tool for a framework's tool: as ``declarations`` has it, else as its function declares itself."""
    known = declarations.get(name)
    if known is None:
        return tool_of(function)
    if isinstance(known, Tool):
        return known
    made = declared_tool(function, name=name, origin=origin or None, **known)
    register(made)
    return made


def inside(
    block: Callable[[], AbstractContextManager[object]],
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Callable[[], Any]:
    """Return a call of ``function`` inside ``block``: awaited, if the function is."""

    async def awaited() -> Any:
        with block():
            return await function(*arguments, **keywords)

    def plain() -> Any:
        with block():
            return function(*arguments, **keywords)

    return awaited if inspect.iscoroutinefunction(function) else plain


def as_raised(error: StepError) -> Exception:
    """Return the exception of a step's function, for handlers that check its class: where it is a builtin one."""
    known: object = getattr(builtins, error.kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        with suppress(TypeError):
            return known(error.detail)
    return error


def ours_behind(error: BaseException) -> MidcourseError | None:
    """Find our error behind a framework's error: it knows which step a resume tries again."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, MidcourseError):
        found = found.__cause__
    return found
