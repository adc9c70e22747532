"""The effect of a tool call on the world, as its tool declares it and as a stop treats it."""

from typing import Literal

Declared = Literal["read", "idempotent", "write"]
Effect = Literal["read", "idempotent", "reversible", "irreversible"]
UndoChoice = Literal["in-flight", "all", "none"]


def effect_of(declared: Declared, *, has_undo: bool) -> Effect:
    """Return a tool's row in the table."""
    if declared == "write":
        return "reversible" if has_undo else "irreversible"
    return declared
