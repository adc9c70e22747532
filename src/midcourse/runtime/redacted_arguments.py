"""Arguments as a journal gives them back: without the secrets that were withheld from it."""

from collections.abc import Mapping
from typing import Any, NoReturn, cast

from midcourse.core.codec import REDACTED, decode
from midcourse.errors import InvalidInput
from midcourse.runtime.tools import Tool


class RedactedArguments(dict[str, Any]):
    """Arguments without some. To ask for those raises: what acts without a secret must not seem to have acted."""

    def __init__(self, there: Mapping[str, Any], missing: frozenset[str]) -> None:
        super().__init__(there)
        self.missing = missing

    def __missing__(self, name: str) -> NoReturn:
        if name in self.missing:
            raise InvalidInput(_sentence([name]), field=name)
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the argument, or ``default`` if it was never there."""
        return default if name not in self and name not in self.missing else self[name]


def restored(tool: Tool[..., Any], content: bytes) -> tuple[dict[str, Any], str]:
    """Return a call's arguments from its journal, and a sentence about withheld ones, empty without any.

    Raises:
        InvalidInput: they do not fit the tool any more.
    """
    given: dict[str, Any] = decode(content)
    if REDACTED.encode() not in content:
        return tool.restored(given), ""
    missing = frozenset(name for name, value in given.items() if value == REDACTED)
    arguments = tool.restored({name: value for name, value in given.items() if name not in missing})
    there = {name: _guarded(value) for name, value in arguments.items() if name not in missing}  # nor its default
    return RedactedArguments(there, missing), _sentence(
        [name for name, value in given.items() if REDACTED in str(value)]
    )


def _guarded(value: Any) -> Any:
    if isinstance(value, list):
        return [_guarded(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    items = cast("dict[str, object]", value)
    missing = frozenset(name for name, item in items.items() if item == REDACTED)
    there = {name: _guarded(item) for name, item in items.items() if name not in missing}
    return RedactedArguments(there, missing) if missing else there


def _sentence(names: list[str]) -> str:
    return (
        f"A journal keeps no secrets: what was given as {', '.join(names)} is gone with the process that made the call."
    )
