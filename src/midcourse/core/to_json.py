"""Values of the core as JSON shows them to people and programs: with every field, those with their default too."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec


def to_json(value: object) -> Any:
    """Return ``value`` as lists and dictionaries. What was journaled as JSON stays the same."""
    if isinstance(value, msgspec.Raw):
        return value
    if isinstance(value, msgspec.Struct):
        return {name: to_json(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(name): to_json(one) for name, one in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in cast("list[object]", value)]
    return value
