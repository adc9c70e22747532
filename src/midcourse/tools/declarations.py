"""Declares many tools at once, in a file: also those whose code is not ours, and those not imported yet.

A table for each function, named by its import path, with the fields of ``@tool``::

    ["shop.orders:cancel_order"]
    effect = "write"
    undo = "shop.orders:reopen_order"
    observes = { row = "select version from orders where id = :id", database = "shop.db" }
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn, cast, get_args

import msgspec

from midcourse.core.choices import did_you_mean
from midcourse.core.effects import Declared
from midcourse.core.retries import MODEL_RETRY, Retry
from midcourse.errors import InvalidInput, ToolUnavailable
from midcourse.ports.observer import Observer
from midcourse.runtime.tools import IfSilent, OnChange, RunIn, Tool, declare_later, declared_tool
from midcourse.tools.observers import file, http, row

_CHOICES: Final[Mapping[str, Any]] = {
    "effect": Declared,
    "if_silent": IfSilent,
    "on_change": OnChange,
    "run_in": RunIn,
}
_NOT_DECLARED: Final = {"function", "origin", "declared", "__wrapped__"}
_FIELDS: Final = tuple(one.name for one in fields(Tool) if one.name not in _NOT_DECLARED)
_OBSERVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "file": ("root",),
    "http": ("allow_hosts", "allow_private", "timeout"),
    "row": ("database",),
    "observer": (),
}
_PATH: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_HEADER: Final = re.compile(r"""^\s*\[\s*(?:"(?P<basic>[^"]+)"|'(?P<literal>[^']+)'|(?P<bare>[\w-]+))""")


class _Retry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The fields of a ``Retry`` that a file can have."""

    attempts: int = MODEL_RETRY.attempts
    first_wait: float = MODEL_RETRY.first_wait
    factor: float = MODEL_RETRY.factor
    max_wait: float = MODEL_RETRY.max_wait
    jitter: float = MODEL_RETRY.jitter


class _Types(msgspec.Struct, forbid_unknown_fields=True):
    """The types of the fields that are not a choice among words."""

    name: str = ""
    undo: str = ""
    probe: str = ""
    settle: float = 0.0
    local: bool = False
    observes: dict[str, Any] | list[dict[str, Any]] = {}
    resources: list[str] = []
    environment: str = ""
    cost: float = 0.0
    timeout: float = 0.0
    retry: _Retry = msgspec.field(default_factory=_Retry)


def declare_tools(path: str | Path) -> tuple[str, ...]:
    """Declare the tools that a TOML file lists; their import paths. All of them, or none if the file has a mistake.

    Nothing is imported: a module that is not there is missed when its tool is used. What a function declares itself,
    with ``@tool``, counts more than the file.

    Raises:
        InvalidInput: the file has a mistake; the sentence says where, and what was probably meant.
    """
    where = Path(path)
    try:
        text = where.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except OSError as error:
        raise InvalidInput(f"The declarations {where} cannot be read: {error.strerror}.", field="path") from error
    except ValueError as error:  # not UTF-8, or not TOML; TOML's errors say the line
        raise InvalidInput(f"{where} is not TOML: {error}.", field="path") from error
    page = _Page(where, text)
    made = {origin: _declaration(page, origin, table) for origin, table in tables.items()}
    for origin, declared in made.items():
        declare_later(origin, declared)
    return tuple(made)


def from_mcp(annotations: Mapping[str, object]) -> dict[str, Any]:
    """Return an MCP tool's annotations as a declaration. They are only hints: a declarations file counts more."""
    if annotations.get("readOnlyHint") is True:
        return {"effect": "read"}
    return {"effect": "idempotent" if annotations.get("idempotentHint") is True else "write"}


@dataclass(frozen=True, slots=True)
class Later:
    """A function that is imported when it is called: an undo or a probe of a declarations file."""

    path: str

    def __call__(self, *arguments: object) -> object:
        """Import it and call it."""
        return cast("Callable[..., object]", _imported(self.path))(*arguments)


@dataclass(frozen=True, slots=True)
class _LaterObserver:
    path: str

    def resource(self, arguments: Mapping[str, Any]) -> str:
        return cast("Observer", _imported(self.path)).resource(arguments)

    async def version(self, arguments: Mapping[str, Any]) -> str | None:
        return await cast("Observer", _imported(self.path)).version(arguments)


def _imported(path: str) -> object:
    module, _, names = path.partition(":")
    try:
        found: object = import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as error:  # importing runs code that is not ours
        raise ToolUnavailable(
            f"'{path}' is not here ({type(error).__name__}: {error}). Install or mend the module that defines it.",
            tool=path,
        ) from error
    return found


# ---- reading the file


class _Page:
    """The file, to say where in it a mistake is."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._lines = text.splitlines()

    def refuse(self, table: str, field: str | None, why: str) -> NoReturn:
        """Say file, line, table and field, and why."""
        line = self._line(table, field)
        at = f"{self.path}, line {line}" if line else f"{self.path}"
        what = f'["{table}"]' if field is None else f'["{table}"] {field}'
        raise InvalidInput(f"{at}: {what}: {why}", field=field or table, path=str(self.path), line=line, table=table)

    def _line(self, table: str, field: str | None) -> int:
        header = 0
        for number, line in enumerate(self._lines, 1):
            found = _HEADER.match(line)
            if found is not None:
                name = found["basic"] or found["literal"] or found["bare"]
                if header and name != table:
                    break
                header = header or (number if name == table else 0)
            elif header and field is not None and re.match(rf"""\s*["']?{re.escape(field)}["']?\s*[.=]""", line):
                return number
        return header


def _declaration(page: _Page, origin: str, table: object) -> dict[str, Any]:
    if not isinstance(table, dict) or not _PATH.fullmatch(origin):
        page.refuse(
            origin,
            None,
            'every table is named by an import path in quotes, module:function, like ["shop.orders:cancel_order"].',
        )
    given = cast("dict[str, Any]", table)
    for name, value in given.items():
        _check_field(page, origin, name, value)
    declared = dict(given)
    for name in ("undo", "probe"):
        if name in declared:
            declared[name] = Later(_path(page, origin, name, declared[name]))
    if "observes" in declared:
        several = cast(
            "list[dict[str, Any]]", given["observes"] if isinstance(given["observes"], list) else [given["observes"]]
        )
        declared["observes"] = tuple(_observer(page, origin, one) for one in several)
    try:
        if "retry" in declared:
            declared["retry"] = Retry(**given["retry"])
        declared_tool(_stand_in, origin=origin, **declared)
    except InvalidInput as error:
        page.refuse(origin, str(error.fields.get("field", "")) or None, error.message)
    return declared


def _check_field(page: _Page, origin: str, name: str, value: object) -> None:
    if name not in _FIELDS:
        page.refuse(origin, name, f"there is no such field{_meant(name, _FIELDS)} Known: {', '.join(_FIELDS)}.")
    if name in _CHOICES:
        words = get_args(_CHOICES[name])
        if value not in words:
            page.refuse(
                origin, name, f"it is {value!r}, and is one of {', '.join(words)}{_meant(value, words)}".rstrip()
            )
        return
    try:
        msgspec.convert({name: value}, _Types)
    except msgspec.ValidationError as error:
        page.refuse(origin, name, f"{str(error).partition(' - at')[0]}.")


def _path(page: _Page, origin: str, field: str, value: str) -> str:
    if not _PATH.fullmatch(value):
        page.refuse(origin, field, f"it is {value!r}, and is an import path, like 'shop.orders:reopen_order'.")
    return value


def _observer(page: _Page, origin: str, table: dict[str, Any]) -> Observer:
    kinds = [name for name in table if name in _OBSERVERS]
    if len(kinds) != 1:
        known = ", ".join(_OBSERVERS)
        meant = (
            "" if kinds else next((_meant(name, _OBSERVERS) for name in table if _meant(name, _OBSERVERS) != "."), ".")
        )
        page.refuse(origin, "observes", f"it names one kind of observer: {known}{meant or '.'}")
    kind = kinds[0]
    value, options = table[kind], {name: given for name, given in table.items() if name != kind}
    for name in options:
        if name not in _OBSERVERS[kind]:
            known = ", ".join(_OBSERVERS[kind]) or "nothing"
            page.refuse(
                origin, "observes", f"'{name}' does not go with {kind}{_meant(name, _OBSERVERS[kind])} Known: {known}."
            )
    if not isinstance(value, str):
        page.refuse(origin, "observes", f"{kind} is a text, not {value!r}.")
    return _made_observer(page, origin, kind, value, options)


def _made_observer(page: _Page, origin: str, kind: str, value: str, options: dict[str, Any]) -> Observer:
    beside = page.path.parent
    try:
        match kind:
            case "file":
                return file(value, root=beside / options["root"] if "root" in options else None)
            case "http":
                return http(value, **options)
            case "row":
                if not isinstance(options.get("database"), str):
                    page.refuse(origin, "observes", "a row needs the file it is in: database = 'shop.db'.")
                return row(beside / options["database"], value)
            case _:
                return _LaterObserver(_path(page, origin, "observes", value))
    except TypeError as error:
        page.refuse(origin, "observes", f"{error}.")


def _meant(word: object, known: Iterable[str]) -> str:
    """Return the end of a sentence, with what was probably meant."""
    return f".{did_you_mean(str(word), known)}"


def _stand_in() -> None:
    """Stand in for a function that is not imported yet, while its declaration is checked."""
