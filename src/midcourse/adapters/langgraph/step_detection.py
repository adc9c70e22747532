"""Detect if a function reaches a held model, a ``@task`` or ``interrupt()``, by the names it uses."""

import dis
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.func import _TaskFunction  # pyright: ignore[reportMissingTypeStubs, reportPrivateUsage] - no other name
from langgraph.pregel import Pregel  # pyright: ignore[reportMissingTypeStubs] - it has types, but does not say so
from langgraph.types import interrupt

from midcourse.adapters.langgraph.model import LangChainStepModel, held

_DEEP: Final = 6
_MANY: Final = 2_000
"""The limit of objects checked for one node: beyond it, the node is a plain one, unless ``open_nodes`` names it."""
_WIDE: Final = 50
"""The number of members checked of one collection."""
_PARTS_OF_RUNNABLES: Final = (
    "bound",  # a binding, a retry
    "steps",  # a sequence
    "first",
    "middle",
    "last",
    "steps__",  # a parallel
    "runnable",  # with fallbacks
    "fallbacks",
    "branches",
    "default",
    "mapper",
    "func",  # a lambda
    "afunc",
)
_OTHERS: Final = sys.stdlib_module_names - {"__main__"} | {"langgraph", "langchain_core", "langchain", "pydantic"}
_ASKING_MODULES: Final = frozenset({"langgraph", "langgraph.types"})
_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None), type, ModuleType, BuiltinFunctionType, CodeType)


def reaches_steps(value: object) -> bool:
    """Return True if a function, or any other value, leads to a held model, to a ``@task`` or to ``interrupt()``."""
    return any(map(_is_one, _reached(value)))


def graphs_reached(value: object) -> "list[Pregel[Any, Any, Any, Any]]":
    """Return the graphs that a function leads to, and may call."""
    return [cast("Pregel[Any, Any, Any, Any]", one) for one in _reached(value) if isinstance(one, Pregel)]


def _reached(value: object) -> Iterator[object]:
    seen: set[int] = set()
    kept: list[object] = []  # what is made on the way must outlive its id
    level: list[object] = [value]
    for depth in range(_DEEP + 1):
        following: list[object] = []
        for one in level:
            yield one
            if depth == _DEEP or isinstance(one, _PLAIN) or id(one) in seen:
                continue
            if len(seen) >= _MANY:
                return
            seen.add(id(one))
            kept.append(one)
            following.extend(_parts(one))
        level = following


def _is_one(value: object) -> bool:
    return isinstance(value, LangChainStepModel | _TaskFunction) or value is interrupt or value is held


def _parts(value: object) -> Iterator[object]:
    match value:
        case partial():
            inner = cast("partial[Any]", value)
            yield from (inner.func, *inner.args, *inner.keywords.values())
        case Mapping():
            yield from list(cast("Mapping[Any, object]", value).values())[:_WIDE]
        case list() | tuple() | set() | frozenset():
            yield from list(cast("Collection[object]", value))[:_WIDE]
        case MethodType():
            yield from (value.__func__, value.__self__)
            yield from _methods(value)
        case FunctionType():
            yield from _named(value)
        case Pregel():
            for node in cast("Any", value).nodes.values():
                yield node.bound
        case BaseTool():
            return  # it is called in a step of its own, or as a part of this one
        case Runnable():
            for name in _PARTS_OF_RUNNABLES:
                yield getattr(cast("Any", value), name, None)
        case _:
            yield from _members(value)


def _methods(method: MethodType) -> Iterator[object]:
    """Yield the methods of its object that it may call: those whose names it uses."""
    code = getattr(method.__func__, "__code__", None)
    for name in set(_names(code)) if code else ():
        found = getattr(type(method.__self__), name, None)
        if isinstance(found, FunctionType):
            yield MethodType(found, method.__self__)


def _members(value: object) -> Iterator[object]:
    """Yield the members of a user's object: its attributes, and its ``__call__``."""
    if _is_of_others(type(value).__module__):
        return
    members: object = getattr(value, "__dict__", None)
    if isinstance(members, dict):
        yield from list(cast("dict[str, object]", members).values())[:_WIDE]
    call = getattr(type(value), "__call__", None)  # noqa: B004 - the function itself is wanted
    if isinstance(call, FunctionType):
        yield call


def _named(function: FunctionType) -> Iterator[object]:
    """Yield what a function and its nested ones name: free variables, globals, defaults, attributes of modules."""
    yield function.__dict__.get("__wrapped__")
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            yield cell.cell_contents
    yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    found = [function.__globals__.get(name) for name in set(_globals(function.__code__))]
    if _is_of_others(function.__module__ or ""):  # its closure may have what the user gave, its module has not
        yield from (one for one in found if one is interrupt)
        return
    names = set(_names(function.__code__))
    for one in found:
        yield from _resolved(one, names)
    for name in names & _ASKING_MODULES:  # imported inside
        yield from _resolved(sys.modules.get(name), names)


def _resolved(found: object, names: Collection[str], depth: int = 3) -> Iterator[object]:
    if not isinstance(found, ModuleType):
        yield found
    elif depth and not _is_of_others(found.__name__, but=_ASKING_MODULES):
        for name in names:
            yield from _resolved(found.__dict__.get(name), names, depth - 1)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _globals(code: CodeType) -> Iterator[str]:
    """Those of its names that are no attributes: ``time.sleep`` does not name a ``sleep`` of the module."""
    yield from (one.argval for one in dis.get_instructions(code) if one.opname in {"LOAD_GLOBAL", "LOAD_NAME"})
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _is_of_others(module: str, but: Collection[str] = ()) -> bool:
    """Return True if it belongs to Python or to the framework, where no user puts a held model."""
    return module.partition(".")[0] in _OTHERS and module not in but
