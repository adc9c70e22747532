"""The fields of a struct, for their users: a check, a request's body, an option. Pure."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

from midcourse.core.choices import did_you_mean, quoted_value
from midcourse.errors import InvalidInput

_PLACE: Final = re.compile(r"at `\$\.(\w+)")
_KINDS: Final[Mapping[type[inspect.Type], str]] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
}


class Parameter(msgspec.Struct, gc=False, frozen=True):
    """A field: its name, its type without None, its default, and a sentence that says what it is."""

    name: str
    type: inspect.Type
    help: str
    choices: tuple[str, ...]
    """The words that it may be, in their order; empty if it is not one of a few."""
    default: object
    is_required: bool
    is_nullable: bool

    @property
    def rule(self) -> str:
        """The rule for its values: ``a number, at least 0 and at most 60``."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        bounds: list[str] = []
        match self.type:
            case inspect.FloatType(ge=ge, gt=gt, le=le) | inspect.IntType(ge=ge, gt=gt, le=le):
                bounds = [f"at least {ge:,g}"] if ge is not None else [f"above {gt:,g}"] if gt is not None else []
                bounds += [f"at most {le:,.15g}"] if le is not None else []
            case inspect.StrType(max_length=int(most)):
                bounds = [f"at least {self.type.min_length}"] if self.type.min_length else []
                bounds += [f"at most {most:,} characters"]
            case _:
                pass
        words = _KINDS.get(type(self.type), "a value")
        return f"{words}, {' and '.join(bounds)}" if bounds else words


@cache
def parameters(kind: type[msgspec.Struct]) -> Mapping[str, Parameter]:
    """Return the fields of a struct by name, in its order."""
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _parameter(field, tuple(_words(hints[field.name]))) for field in struct.fields}


def _words(hint: Any) -> Iterator[str]:
    """Return the words of a Literal as they were written: ``inspect`` sorts them."""
    if get_origin(hint) is Literal:
        yield from map(str, get_args(hint))
    else:
        for part in get_args(hint):
            yield from _words(part)


def _parameter(field: inspect.Field, choices: tuple[str, ...]) -> Parameter:
    about, kind = "", field.type
    if isinstance(kind, inspect.Metadata):
        described = cast("Mapping[str, object]", kind.extra_json_schema or {})
        about, kind = str(described.get("description", "")), kind.type
    several = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    kinds = [one.type if isinstance(one, inspect.Metadata) else one for one in several]
    some = [one for one in kinds if not isinstance(one, inspect.NoneType)]
    return Parameter(
        field.name,
        some[0],
        about,
        choices,
        field.default,
        is_required=field.required,
        is_nullable=len(some) < len(kinds),
    )


def check_struct(value: msgspec.Struct) -> None:
    """Refuse a struct with a field that is not what its class says.

    Raises:
        InvalidInput: ``field`` names it.
    """
    try:
        msgspec.convert(msgspec.structs.asdict(value), type(value))
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        field = parameters(type(value)).get(place[1]) if place else None
        if field is None:
            raise InvalidInput(f"This cannot be used: {error}.") from error
        wrong = getattr(value, field.name)
        sentences = (f"{field.name} is {quoted_value(wrong)}; it must be {field.rule}.", field.help)
        raise InvalidInput(
            f"{' '.join(filter(None, sentences))}{did_you_mean(wrong, field.choices)}", field=field.name
        ) from error
