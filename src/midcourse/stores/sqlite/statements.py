"""The SQL of this store, read from the .sql files beside this module."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def _text(name: str) -> str:
    return files("midcourse.stores.sqlite").joinpath(name).read_text(encoding="utf-8")


def _named(text: str) -> Mapping[str, str]:
    """Return each statement under the name given on the line above it."""
    parts = _NAME.split(text)
    return {
        name: _COMMENT.sub("", body).strip().removesuffix(";")
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


SCHEMA: Final = tuple(
    statement.strip() for statement in _COMMENT.sub("", _text("schema.sql")).split(";") if statement.strip()
)
"""The statements that make an empty file a store."""

WRITE: Final = _named(_text("writes.sql"))
READ: Final = _named(_text("reads.sql"))
