"""Agents: async functions of a run, with a name another process can find them by."""

import hashlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar, get_args, overload

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
LONGEST_DESCRIPTION: Final = 2_000
MOST_GOALS: Final = 20
LONGEST_GOAL: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent(Generic[T_co]):
    """A registered agent. Start it with ``midcourse.start(agent, goal=...)``.

    ``description`` and ``goals``, examples of what to ask of it, are shown to people who choose an agent.
    """

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
    description: str = ""
    goals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no list could show."""
        _check_described(self.description, self.goals)

    def __call__(self, run: "Run") -> Awaitable[T_co]:
        """Call the agent's own function, for tests and for agents that call one another."""
        return self.function(run)


log = logging.getLogger("midcourse")
_registered: dict[str, Agent[object]] = {}


def registered() -> Mapping[str, Agent[object]]:
    """Return every agent this process has defined, by name."""
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
    description: str | None = None,
    goals: Sequence[str] = (),
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
    description: str | None = None,
    goals: Sequence[str] = (),
) -> Agent[T] | Callable[[AgentFunction[T]], Agent[T]]:
    """Register an async function of a run as an agent.

    ``mode`` is how it continues in another process: ``replay`` starts the function at the top and gives finished steps
    their journaled result; ``state`` starts it with ``run.state`` as its last checkpoint left it. ``version`` is
    journaled (default: a digest of the source); ``on_new_version`` says what a resume under another version does. With
    ``asks=False`` it may not ask people: ``run.ask`` and ``Interrupt`` fail. People's controls work all the same.
    ``terms`` are recorded with each session: its task class, policy and budget. ``retry`` is for its model requests,
    unless a ``run.stream`` has its own; five attempts by default. ``description`` (default: the first paragraph of the
    docstring) and ``goals``, examples of what to ask of it, are shown to people who choose an agent.
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
            description=_first_paragraph(one) if description is None else description,
            goals=example_goals(goals),
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


def example_goals(goals: Sequence[str]) -> tuple[str, ...]:
    """Return example goals as an agent keeps them.

    Raises:
        InvalidInput: it is one text, whose letters would each be a goal.
    """
    if isinstance(goals, str):
        raise InvalidInput("goals is one text; it is a list of examples: goals=['Write the memo', …].", field="goals")
    return tuple(goals)


def _first_paragraph(function: Callable[..., object]) -> str:
    paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return " ".join(paragraph.split())[:LONGEST_DESCRIPTION]


def _check_described(description: str, goals: Sequence[str]) -> None:
    if not isinstance(description, str) or len(description) > LONGEST_DESCRIPTION:  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
        raise InvalidInput(
            f"The description of an agent is text of at most {LONGEST_DESCRIPTION:,} characters.", field="description"
        )
    if len(goals) > MOST_GOALS:
        raise InvalidInput(f"There are {len(goals)} example goals; an agent has at most {MOST_GOALS}.", field="goals")
    for goal in goals:
        if not isinstance(goal, str) or not 0 < len(goal) <= LONGEST_GOAL:  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
            raise InvalidInput(
                f"An example goal is text of 1 to {LONGEST_GOAL:,} characters, not {str(goal)[:40]!r}.", field="goals"
            )


def _source_digest(function: Callable[..., object]) -> str:
    try:
        source = inspect.getsource(function).encode()
    except (OSError, TypeError):
        source = function.__qualname__.encode()
    return hashlib.blake2b(source, digest_size=6).hexdigest()
