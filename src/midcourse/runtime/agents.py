"""What an agent is to Midcourse: an async function of a run, with a name another process can find it by."""

import hashlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, get_args, overload

from midcourse.core.events import Mode
from midcourse.core.retries import Retry
from midcourse.core.terms import NO_TERMS, Terms, check_terms
from midcourse.errors import InvalidInput
from midcourse.runtime.tools import origin_of

if TYPE_CHECKING:
    from midcourse.runtime.run import Run

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
AgentFunction = Callable[["Run"], Awaitable[T]]
OnNewVersion = Literal["go_on", "ask", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent(Generic[T_co]):
    """A registered agent. Start it with ``midcourse.start(agent, goal=...)``."""

    name: str
    function: AgentFunction[T_co]
    version: str
    mode: Mode
    origin: str
    resumable: bool
    on_new_version: OnNewVersion = "go_on"
    asks: bool = True
    terms: Terms = NO_TERMS
    retry: Retry | None = None

    def __call__(self, run: "Run") -> Awaitable[T_co]:
        """The agent's own function, for tests and for agents that call one another."""
        return self.function(run)


log = logging.getLogger("midcourse")
_registered: dict[str, Agent[object]] = {}


def registered() -> Mapping[str, Agent[object]]:
    """Every agent this process has defined, by name."""
    return _registered


@overload
def agent(function: AgentFunction[T], /) -> Agent[T]: ...
@overload
def agent(
    *,
    name: str | None = None,
    version: str | None = None,
    mode: Mode = "replay",
    on_new_version: OnNewVersion = "go_on",
    asks: bool = True,
    terms: Terms | None = None,
    retry: Retry | None = None,
) -> Callable[[AgentFunction[T]], Agent[T]]: ...
def agent(
    function: AgentFunction[T] | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    mode: Mode = "replay",
    on_new_version: OnNewVersion = "go_on",
    asks: bool = True,
    terms: Terms | None = None,
    retry: Retry | None = None,
) -> Agent[T] | Callable[[AgentFunction[T]], Agent[T]]:
    """Register an async function of a run as an agent.

    ``mode`` is how it goes on in another process: ``replay`` starts the function at the top and gives finished steps
    their journaled result; ``state`` starts it with ``run.state`` as its last checkpoint left it. ``version`` is
    journaled (default: a digest of the source); ``on_new_version`` says what a resume under another version does. With
    ``asks=False`` it may not ask anybody: ``run.ask`` and ``Interrupt`` fail. People's controls work all the same.
    ``terms`` are recorded with each session: its task class, policy and budget. ``retry`` is for its model requests,
    unless a ``run.stream`` says otherwise; five attempts if nothing is said.
    """

    def register(one: AgentFunction[T]) -> Agent[T]:
        if not inspect.iscoroutinefunction(one):
            raise InvalidInput(
                f"'{getattr(one, '__name__', one)}' is not an async function. An agent is 'async def agent(run): …'.",
                field="function",
            )
        if mode not in get_args(Mode) or on_new_version not in get_args(OnNewVersion):
            raise InvalidInput(
                f"mode is {' or '.join(get_args(Mode))}, on_new_version is {' or '.join(get_args(OnNewVersion))}; "
                f"they are {mode!r} and {on_new_version!r}.",
                field="mode",
            )
        made = Agent(
            name=name or one.__name__,
            function=one,
            version=version or _source_digest(one),
            mode=mode,
            origin=origin_of(one),
            # A closure lives in its process alone: another one could not build it again.
            resumable="<locals>" not in one.__qualname__ and "<lambda>" not in one.__qualname__,
            on_new_version=on_new_version,
            asks=asks,
            terms=check_terms(terms or NO_TERMS),
            retry=retry,
        )
        register_agent(made)
        return made

    return register if function is None else register(function)


def register_agent(made: "Agent[object]") -> None:
    """Have sessions of that name run it, in this process.

    Raises:
        InvalidInput: another agent has that name. A closure may replace one: no session finds it by its name.
    """
    other = _registered.get(made.name)
    if other is not None and other.origin != made.origin:
        refuse_namesake(other, made)
        log.warning("agent '%s' of %s takes the place of the one of %s", made.name, made.origin, other.origin)
    _registered[made.name] = made


def refuse_namesake(other: "Agent[object]", made: "Agent[object]") -> None:
    """Refuse a second agent of one name, unless one of them is a closure.

    Raises:
        InvalidInput: the sentence names both.
    """
    if other.resumable and made.resumable:
        raise InvalidInput(
            f"Two agents are named '{made.name}': {other.origin} and {made.origin}. A session finds its agent by its "
            "name, so it could continue with the wrong one. Give one of them another name: name='…'.",
            field="name",
        )


def _source_digest(function: Callable[..., object]) -> str:
    try:
        source = inspect.getsource(function).encode()
    except (OSError, TypeError):
        source = function.__qualname__.encode()
    return hashlib.blake2b(source, digest_size=6).hexdigest()
