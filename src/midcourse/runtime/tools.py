"""Tools: functions, and what a stop may do to a call of them.

A tool that declares nothing counts as irreversible: a stop waits for it, and after a crash a person is asked whether it
happened. Everything a tool declares buys something better than that.
"""

import importlib
import inspect
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from math import isfinite
from pathlib import Path
from types import FunctionType, ModuleType
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
    overload,
)

import msgspec

from midcourse.core.codec import decode, is_secret_name
from midcourse.core.effects import Declared, Effect, effect_of
from midcourse.core.retries import Retry
from midcourse.errors import InvalidInput, ToolUnavailable
from midcourse.ports.observer import Observer

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

RunIn = Literal["thread", "process"]
IfSilent = Literal["go_on", "ask"]
OnChange = Literal["tell", "ask", "refuse", "go_on"]
Undo = Callable[[Mapping[str, Any], Any, str], object]
"""Takes the arguments by name, the result (None if there is none) and the key; works from arguments and key alone."""
Probe = Callable[[Mapping[str, Any], str], object]
"""Takes the arguments by name and the key; tells whether it happened: True, False, ``Happened(result)``, or None."""

SETTLE: Final = 30.0
"""Seconds a lost request may still land, for a tool that declares neither ``settle`` nor ``timeout`` nor ``local``."""

_MADE: Final = re.compile(r"(\w+)\((\{.*\})\)\.([\w.]+)")

_MAIN: Final = ("__main__", "__mp_main__")
"""Python's names of the program's main module, here and in the processes that it starts."""

_LOOKED_AT: Final = (
    "__name__",
    "__qualname__",
    "__module__",
    "__doc__",
    "__annotations__",
    "__code__",
    "__defaults__",
    "__kwdefaults__",
)

log = logging.getLogger("midcourse")


@dataclass(frozen=True, slots=True)
class Happened:
    """A probe's result when it knows not only that the call happened but also its result."""

    result: object = None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A tool's result when it has read, or asked, and then done nothing: a receipt claims no effect of it."""

    result: object = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Generic[P, T_co]):
    """A function and what it declares. Call it like the function; give it to ``run.step`` like the function."""

    function: Callable[P, T_co]
    name: str
    origin: str
    declared: bool = True
    effect: Declared = "write"
    undo: Undo | None = None
    probe: Probe | None = None
    settle: float | None = None
    local: bool = False
    if_silent: IfSilent = "go_on"
    observes: tuple[Observer, ...] = ()
    on_change: OnChange = "tell"
    resources: tuple[str, ...] = ()
    environment: str = ""
    cost: float = 0.0
    timeout: float | None = None
    run_in: RunIn = "thread"
    retry: Retry | None = None
    __wrapped__: Callable[P, T_co] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "__wrapped__", self.function)
        for name in _LOOKED_AT:
            # What frameworks read to make a schema of a function: they shall see the function.
            if hasattr(self.function, name):
                object.__setattr__(self, name, getattr(self.function, name))
        returns = getattr(self, "__annotations__", {}).get("return")
        if isinstance(returns, type) and issubclass(returns, msgspec.Struct):
            # They know Pydantic's types and dataclasses; of others they know no schema, and warn.
            known = {name: hint for name, hint in self.__annotations__.items() if name != "return"}
            object.__setattr__(self, "__annotations__", known)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        """Call the function itself, outside any session."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "Tool[P, T_co]":
        """Itself: it has this because ``inspect.isroutine`` takes what has it for a function, and frameworks ask it."""
        return self

    @cached_property
    def is_async(self) -> bool:
        """True if it runs as a task, which can be aborted, and not in a thread or a process."""
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def kind(self) -> Effect:
        """Its row in the table of effects."""
        return effect_of(self.effect, has_undo=self.undo is not None)

    @cached_property
    def settles_in(self) -> float:
        """Seconds after which an abandoned request can no longer land."""
        if self.settle is not None:
            return self.settle
        if self.local or self.effect == "read":
            return 0.0
        return SETTLE if self.timeout is None else self.timeout

    @cached_property
    def returns(self) -> Any:
        """The declared result of the function, so that a replayed result is of the same type."""
        return self._hints.get("return", Any)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Name, description and JSON schema of the parameters, as models want them."""
        described = msgspec.json.schema(self._shape)
        if "$ref" in described:
            definitions = described.pop("$defs", {})
            parameters = definitions.pop(described["$ref"].rpartition("/")[2])
            described = {**parameters, **({"$defs": definitions} if definitions else {})}
        described.pop("title", None)
        return {"name": self.name, "description": inspect.getdoc(self.function) or "", "parameters": described}

    def result(self, content: bytes) -> Any:
        """Return a journaled result in the type the function declares; one from a probe or a person need not fit it."""
        try:
            return decode(content, self.returns)
        except msgspec.ValidationError:
            return decode(content)

    def named(self, arguments: tuple[object, ...]) -> dict[str, object]:
        """Positional arguments by name, defaults included: what an undo is given."""
        try:
            bound = self._signature.bind(*arguments)
        except TypeError as error:
            raise InvalidInput(f"Tool '{self.name}' cannot be called so: {error}.", field="arguments") from error
        bound.apply_defaults()
        named: dict[str, object] = {}
        for name, value in bound.arguments.items():
            if self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return named

    def typed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as they lie in a journal or come from a model, in the types the function declares.

        Raises:
            InvalidInput: they do not fit; the sentence says where.
        """
        unknown = sorted(set(arguments) - {field[0] for field in self._fields})
        takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in self._signature.parameters.values())
        if unknown and not takes_any:
            known = ", ".join(field[0] for field in self._fields) or "none"
            raise InvalidInput(
                f"Tool '{self.name}' has no argument {', '.join(map(repr, unknown))}. It has: {known}.",
                field="arguments",
            )
        return {**{name: arguments[name] for name in unknown}, **self._shaped(arguments, self._shape)}

    def restored(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for an undo, a probe or an observer: without a framework's own, such as a context.

        Raises:
            InvalidInput: they do not fit; the sentence says where.
        """
        known = [field for field in self._fields if field[0] in arguments or len(field) > 2]
        complete = len(known) == len(self._fields)
        shape = self._shape if complete else msgspec.defstruct("Arguments", known, kw_only=True)
        return {**arguments, **self._shaped(arguments, shape)}

    def _shaped(self, arguments: Mapping[str, Any], shape: type[msgspec.Struct]) -> dict[str, Any]:
        try:
            shaped = msgspec.convert(arguments, shape, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput(
                f"The arguments of tool '{self.name}' do not fit: {error}.", field="arguments"
            ) from error
        return {one: getattr(shaped, one) for one in shaped.__struct_fields__}

    @cached_property
    def takes_secrets(self) -> bool:
        """True if one of its parameters is a secret by its name, so that values in order are not to be shown."""
        try:
            return any(map(is_secret_name, self._signature.parameters))
        except ValueError:  # a function of C, which does not tell its parameters
            return False

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self.function)
        except Exception:  # noqa: BLE001 - annotations are code; whatever they raise, the values are then plain JSON
            return {}

    @cached_property
    def _shape(self) -> type[msgspec.Struct]:
        """The parameters as a struct: schemas are made from it, and arguments are checked with it."""
        return msgspec.defstruct("Arguments", self._fields, kw_only=True)

    @cached_property
    def _fields(self) -> "list[tuple[str, Any] | tuple[str, Any, Any]]":
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for name, parameter in self._signature.parameters.items():
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                continue
            hint = _known_to_msgspec(self._hints.get(name, Any))
            if parameter.default is inspect.Parameter.empty:
                fields.append((name, hint))
            else:
                fields.append((name, hint, _default(parameter.default)))
        return fields


def _default(value: Any) -> Any:
    """Return a default as a struct takes it: a fresh one each time where it could be changed."""
    return msgspec.field(default_factory=partial(_copy, value)) if isinstance(value, list | dict | set) else value


def _copy(value: Any) -> Any:
    return value.copy()


def _known_to_msgspec(hint: Any) -> Any:
    try:
        msgspec.json.schema(hint)
    except Exception:  # noqa: BLE001 - a type without a schema is accepted unchecked
        return Any
    return hint


@overload
def tool(function: Callable[P, T], /) -> Tool[P, T]: ...
@overload
def tool(
    *,
    effect: Declared = "write",
    undo: Undo | None = None,
    probe: Probe | None = None,
    settle: float | None = None,
    local: bool = False,
    if_silent: IfSilent = "go_on",
    observes: "Observer | tuple[Observer, ...]" = (),
    on_change: OnChange = "tell",
    resources: tuple[str, ...] = (),
    environment: str = "",
    cost: float = 0.0,
    timeout: float | None = None,
    run_in: RunIn = "thread",
    retry: Retry | None = None,
    name: str | None = None,
) -> Callable[[Callable[P, T]], Tool[P, T]]: ...
def tool(
    function: Callable[P, T] | None = None,
    /,
    *,
    name: str | None = None,
    **declared: Any,
) -> Tool[P, T] | Callable[[Callable[P, T]], Tool[P, T]]:
    """Declare what a function does to the world, so that a stop can do better than wait for it.

    - ``effect``: ``read`` changes nothing; ``idempotent`` does nothing twice under one key (``current_call().key``);
      ``write`` is everything else.
    - ``undo(arguments, result, key)`` makes a ``write`` reversible; ``probe(arguments, key)`` tells whether it
      happened.
    - ``settle``: seconds an abandoned request may still land (default: ``timeout``, else 30; 0 if ``local``,
      for tools that touch this machine only). ``if_silent="ask"``: never redone unasked when its worker fell silent.
    - ``observes`` what it read, to be checked before a cold resume; ``on_change`` is the reaction to a change.
    - ``resources``, ``environment`` (``prod`` asks a person first), ``cost`` of one call (paid calls ask, too).
    - ``timeout`` in seconds; ``run_in="process"`` makes a plain function killable at once.
    - ``retry`` retries a call with a temporary error, such as a broken connection: a ``read`` freely, an
      ``idempotent`` one with its key, a ``write`` once its ``undo`` has succeeded. ``timeout`` is for all attempts.
    """

    def declare(one: Callable[P, T]) -> Tool[P, T]:
        made = declared_tool(one, name=name, **declared)
        register(made)
        return made

    if function is not None and not callable(function):
        raise InvalidInput(f"@tool({function!r}): say effect={function!r}.", field="effect")
    return declare if function is None else declare(function)


def declared_tool(
    function: Callable[P, T], *, name: str | None = None, origin: str | None = None, **declared: Any
) -> Tool[P, T]:
    """Return a tool made of a function and its declaration, checked. ``origin``: its place, if not its name."""
    inner = function.function if isinstance(function, Tool) else function
    if not callable(inner):
        raise InvalidInput(
            f"A {type(inner).__name__} is no function. Put @midcourse.tool directly above 'def', below the decorators "
            "of a framework.",
            field="function",
        )
    words = name or getattr(inner, "__name__", type(inner).__name__)
    observes = declared.pop("observes", ())
    declared["observes"] = observes if isinstance(observes, tuple) else (observes,)
    declared["resources"] = tuple(declared.get("resources", ()))
    unknown = set(declared) - set(_FIELDS)
    if unknown:
        raise InvalidInput(
            f"Tool '{words}' declares {', '.join(sorted(unknown))}, which is not known. Known: {', '.join(_FIELDS)}.",
            field=min(unknown),
        )
    made: Tool[P, T] = Tool(
        function=cast("Callable[P, T]", inner), name=words, origin=origin or origin_of(inner), **declared
    )
    _check(made)
    return made


_FIELDS: Final = (
    "effect",
    "undo",
    "probe",
    "settle",
    "local",
    "if_silent",
    "observes",
    "on_change",
    "resources",
    "environment",
    "cost",
    "timeout",
    "run_in",
    "retry",
)


def _check(made: Tool[..., Any]) -> None:
    choices = (("effect", Declared), ("if_silent", IfSilent), ("on_change", OnChange), ("run_in", RunIn))
    for field_name, kind in choices:
        value = getattr(made, field_name)
        if value not in get_args(kind):
            raise _bad(made, field_name, f"{field_name} is {value!r}; it is one of {', '.join(get_args(kind))}")
    for field_name in ("settle", "timeout", "cost"):
        value = getattr(made, field_name)
        if value is not None and not (isinstance(value, int | float) and isfinite(value) and value >= 0):
            raise _bad(made, field_name, f"{field_name} is {value!r}; it is a number, 0 or more")
    if made.effect == "read" and (made.undo or made.probe):
        raise _bad(made, "undo", "a 'read' changes nothing, so it has no undo and no probe")
    for field_name in ("undo", "probe"):
        value = getattr(made, field_name)
        if value is not None and not callable(value):
            raise _bad(made, field_name, f"{field_name} is {value!r}; it is a function")
        given = ("arguments", "result", "key") if field_name == "undo" else ("arguments", "key")
        if value is not None and not _takes(value, len(given)):
            raise _bad(made, field_name, f"{field_name} cannot be called with ({', '.join(given)}), which it is given")
    if made.retry is not None and not isinstance(made.retry, Retry):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
        raise _bad(made, "retry", f"retry is {made.retry!r}; it is a midcourse.Retry, such as Retry(attempts=3)")
    if made.retry is not None:
        check_retry(made, made.retry)
    if made.timeout == 0:
        raise _bad(made, "timeout", "timeout is 0; it is a number of seconds above 0, or None for as long as it takes")
    for observer in made.observes:
        if not isinstance(observer, Observer):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's
            raise _bad(made, "observes", f"{observer!r} is no observer: it has 'resource' and an async 'version'")
    if "." in made.origin.partition(":")[2] and next(iter(inspect.signature(made.function).parameters), "") == "self":
        raise _bad(made, "function", "a method cannot be found again without its object; make it a function")
    if made.run_in == "process" and made.is_async:
        raise _bad(
            made, "run_in", "an async function runs as a task, which can be aborted; run_in is for a plain 'def'"
        )
    if made.run_in == "process" and "<" in made.origin:
        raise _bad(made, "run_in", "a closure cannot be sent to a process; define it at the top level of a module")


def check_retry(made: Tool[..., Any], retry: Retry) -> None:
    """Refuse a retry of what cannot be undone.

    Raises:
        InvalidInput: the tool is irreversible.
    """
    if made.kind == "irreversible" and retry.attempts > 1:
        raise _bad(
            made,
            "retry",
            "it is irreversible, so it is not tried again by itself: it may have happened although it raised. Declare "
            "effect='read' or effect='idempotent' if that is true, or give it an undo",
        )


def _takes(function: Callable[..., object], count: int) -> bool:
    """Return True if it can be called with so many arguments, or if that cannot be told."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a builtin that has no signature
        return True
    return True


def _bad(made: Tool[..., Any], field_name: str, why: str) -> InvalidInput:
    return InvalidInput(f"Tool '{made.name}': {why}.", field=field_name)


# ---- finding tools again


_registered: dict[str, Tool[..., Any]] = {}
_declarations: dict[str, Mapping[str, Any]] = {}


def registered_tools() -> Mapping[str, Tool[..., Any]]:
    """Return every tool this process has declared, by import path."""
    return _registered


def register(made: Tool[..., Any]) -> None:
    """Register the tool by its import path, for a later undo of a call."""
    _registered[made.origin] = made


def declare_later(origin: str, declared: Mapping[str, Any]) -> None:
    """Keep a declaration for a function whose code is not ours, or not imported yet."""
    _declarations[origin] = declared
    _remembered.cache_clear()


def origin_of(function: Callable[..., object]) -> str:
    """Return the import path of a function, the same in every process: ``module:qualified.name``."""
    inner = inspect.unwrap(function)
    qualified = getattr(inner, "__qualname__", type(inner).__qualname__)
    return f"{module_name(getattr(inner, '__module__', ''))}:{qualified}"


def module_name(name: str) -> str:
    """Return the name that another process imports a module by. A program's main module has the name of its file."""
    if name not in _MAIN:
        return name
    main = sys.modules.get(name)
    spec = getattr(getattr(main, "__spec__", None), "name", None)
    if isinstance(spec, str) and spec not in _MAIN:
        return spec
    stem = Path(getattr(main, "__file__", None) or "").stem
    # A file that is named like a module of Python itself cannot be distinguished from it.
    return stem if stem and "." not in stem and stem not in sys.stdlib_module_names else name


def path_here(tool: "Tool[..., Any]") -> str:
    """Return where a process of this program finds the tool: in the program's main module, if it is there."""
    module = getattr(inspect.unwrap(tool.function), "__module__", "")
    return f"{module}:{tool.origin.partition(':')[2]}" if module in _MAIN else tool.origin


def tool_of(body: Callable[..., Any]) -> Tool[..., Any]:
    """Return the tool of ``body``: as it declares itself, as a declarations file has it, or undeclared."""
    if isinstance(body, Tool):
        return cast("Tool[..., Any]", body)
    # Only what is in a module: to keep a closure, a method or an object would keep all that it holds, a run even.
    if isinstance(body, FunctionType) and "<" not in body.__qualname__:
        return _remembered(body)
    return _made_of(body)


def model_of(body: Callable[..., Any]) -> Tool[..., Any]:
    """Return a tool for a streaming function of a model: it changes nothing, and declares nothing."""
    return Tool(function=body, name="model", origin="", declared=False, effect="read")


def _made_of(body: Callable[..., Any]) -> Tool[..., Any]:
    origin = origin_of(body)
    declared = _registered.get(origin)
    if declared is not None and declared.function is body:
        return declared  # a framework was given the function, and @tool is above its decorator
    known = _declarations.get(origin)
    if known is not None:
        made = declared_tool(body, **known)
        register(made)
        return made
    inner: object = getattr(body, "func", None)  # of a functools.partial
    if isinstance(inner, Tool):
        log.warning(
            "a partial of tool '%s' counts as undeclared: give the tool itself, and its arguments after it: "
            "run.step(name, tool, argument, …)",
            cast("Tool[..., Any]", inner).name,
        )
    _say_that_it_is_undeclared(origin)
    return Tool(function=body, name=origin.rpartition(":")[2], origin=origin, declared=False)


_remembered: Final = lru_cache(maxsize=4096)(_made_of)


@lru_cache(maxsize=4096)
def _say_that_it_is_undeclared(origin: str) -> None:
    """Log once for each that it is undeclared."""
    log.info(
        "'%s' declares no effect, so it counts as irreversible: a stop waits until it has finished, and after a crash "
        "a person is asked whether it happened. Declare it with @midcourse.tool(effect=…) to have it aborted and "
        "redone (read, idempotent) or undone (write with an undo).",
        origin,
    )


_MAKERS: Final = frozenset(
    {
        "midcourse.tools.database:database",
        "midcourse.tools.files:files_in",
        "midcourse.tools.shell:shell_in",
        "midcourse.tools.web:web",
    }
)
"""Functions whose tools are found again: their origin is ``module:maker({…}).name``."""


def is_of_the_standard_library(origin: str) -> bool:
    """Return True if an import path leads into Python itself: no journal may have such a function called."""
    return origin.partition(":")[0].partition(".")[0] in sys.stdlib_module_names


class AgentPlace(NamedTuple):
    """The import paths of an agent's definition: when its session began, and in this process.

    A file may be run as a program, imported as a module, or be moved. What was beside the agent is beside it still.
    """

    before: str = ""
    here: str = ""

    def of(self, origin: str) -> str:
        """Return the import path, here, of what was at ``origin``; empty if its agent has not moved."""
        module, _, qualified = origin.partition(":")
        before, here = self.before.partition(":")[0], self.here.partition(":")[0]
        return f"{here}:{qualified}" if here and module == before != here else ""


NOT_MOVED: Final = AgentPlace()


def known_tool(origin: str, moved: AgentPlace = NOT_MOVED) -> Tool[..., Any] | None:
    """Return the tool that a journal calls ``origin``, if this process has declared it. Nothing is imported."""
    for path in _paths(origin, moved):
        if path in _registered:
            return _registered[path]
    alike = [tool for path, tool in _registered.items() if _is_the_same(path, origin)]
    return alike[0] if len(alike) == 1 else None


def _paths(origin: str, moved: AgentPlace) -> tuple[str, ...]:
    """Return where the tool may be, the likeliest first. A journal's ``__main__`` is another program."""
    beside = moved.of(origin)
    if beside:
        return (beside,) if origin.partition(":")[0] in _MAIN else (beside, origin)
    return (origin,)


def _is_the_same(path: str, origin: str) -> bool:
    """Return True if two import paths differ only in their first folders: ``tools:make``, ``shop.tools:make``."""
    return path.endswith(f".{origin}") or origin.endswith(f".{path}")


def find_tool(origin: str, moved: AgentPlace = NOT_MOVED) -> Tool[..., Any]:
    """Return the tool that a journal calls ``origin``, imported if need be.

    Raises:
        ToolUnavailable: this process does not have it.
    """
    errors: list[BaseException] = []
    for path in _paths(origin, moved):
        try:
            if path not in _registered:
                _module(path.partition(":")[0])
            # A module may declare it under a path that is no attribute of it.
            return _registered[path] if path in _registered else tool_of(_imported(path))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - importing runs code that is not ours
            errors.append(error)
    known = known_tool(origin, moved)
    if known is not None:
        return known
    raise ToolUnavailable(
        f"Tool '{origin}' is not here ({type(errors[0]).__name__}: {errors[0]}). Import the module that defines it, in "
        "the process that continues the session.",
        tool=origin,
    ) from errors[0]


def call_tool(origin: str, arguments: tuple[object, ...], by_name: Mapping[str, object] | None = None) -> object:
    """Call the function of the tool at that import path: how a process is told what to do."""
    found = find_tool(origin)
    return found.function(*arguments) if by_name is None else found.function(**found.typed(by_name))


def _module(name: str) -> ModuleType:
    """Return a module by its name. The program's own file is not loaded a second time: that would run it again."""
    if name not in sys.modules and name == module_name("__main__"):
        return sys.modules["__main__"]
    return importlib.import_module(name)


def _imported(origin: str) -> Any:
    """Import a path: ``module:name``, or ``module:maker({"root": …}).name`` for one of a made set."""
    module, _, qualified = origin.partition(":")
    found: Any = _module(module)
    made = _MADE.fullmatch(qualified)
    if made is not None:
        maker, keywords, qualified = made.groups()
        if f"{module}:{maker}" not in _MAKERS:  # a journal must not be able to call whatever it likes
            raise LookupError(f"'{module}:{maker}' makes no tools")
        found = getattr(found, maker)(**msgspec.json.decode(keywords, type=dict[str, Any]))
    for name in qualified.partition("@")[0].split("."):  # what follows tells declarations of one function apart
        found = getattr(found, name)
    return found


async def called(
    function: Callable[..., object], *arguments: object, plainly: Callable[..., Awaitable[object]]
) -> object:
    """Call an undo, a probe or a release: async ones as they are, others by way of ``plainly`` (a thread)."""
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return await cast("Awaitable[object]", function(*arguments))
    result = await plainly(function, *arguments)
    return await result if inspect.isawaitable(result) else result
