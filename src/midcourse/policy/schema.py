"""The JSON schema of a policy file, for editors: ``# yaml-language-server: $schema=policy.schema.json``.

Made from the document's types, with what each parameter means and its value in the profile ``standard``.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

from midcourse.policy.descriptions import meaning
from midcourse.policy.document import POLICY_NAME, Part, Policy
from midcourse.policy.profiles import BUILT_IN, STANDARD
from midcourse.policy.yaml_reader import DEFAULT_BASE, DRAFT, fields_of, is_part
from midcourse.policy.yaml_writer import to_document

Schema = dict[str, Any]
SPAN: Final[Schema] = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)\s*$"},
        {"type": "number", "minimum": 0},
    ]
}
"""A span of time: 500ms, 30s, 15m, 1h, 7d; or seconds."""
NAME: Final = POLICY_NAME
REFERENCE: Final = POLICY_NAME.removesuffix("$") + r"(@[0-9]{1,6})?$"


def schema() -> Schema:
    """Return the schema. Everything but the name may be left out: it then has the base's value."""
    made = _part(Policy, to_document(STANDARD), "")
    own = made["properties"]
    own["policy"].pop("default", None)
    own["about"].pop("default", None)
    own["version"]["default"] = DRAFT
    own["extends"] = {
        "description": own["extends"]["description"],
        "default": DEFAULT_BASE,
        "anyOf": [{"enum": list(BUILT_IN)}, {"type": "string", "pattern": REFERENCE}, {"const": ""}, {"type": "null"}],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Midcourse policy",
        **made,
        "description": "When to interrupt. What is left out is as the policy that it extends has it.",
        "required": ["policy"],
    }


def _part(kind: type[Part], standard: Mapping[str, Any], under: str) -> Schema:
    properties: Schema = {}
    for name, field in fields_of(kind).items():
        path = f"{under}{name}"
        words = {"description": meaning(path)} if meaning(path) else {}
        if is_part(field.type):
            properties[name] = {**words, **_part(field.type, standard[name], f"{path}.")}
        else:
            shape = _shape(inspect.type_info(field.type))
            properties[name] = {**words, **shape, "default": standard[name]}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _shape(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.Metadata():
            return _shape(kind.type)
        case inspect.CustomType():
            return {"anyOf": [dict(one) for one in SPAN["anyOf"]]}
        case inspect.UnionType(types=several):
            shapes = [_shape(one) for one in several]
            return {"anyOf": [one for shape in shapes for one in shape.get("anyOf", [shape])]}
        case inspect.NoneType():
            return {"type": "null"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer", **_bounds(kind)}
        case inspect.FloatType():
            return {"type": "number", **_bounds(kind)}
        case inspect.LiteralType(values=values):
            return {"enum": list(values)}
        case inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _shape(item)}
        case inspect.TupleType(item_types=items):
            return {"type": "array", "items": _shape(items[0]), "minItems": len(items), "maxItems": len(items)}
        case inspect.StrType(pattern=pattern):
            return {"type": "string", **({"pattern": pattern} if pattern else {})}
        case _:
            raise NotImplementedError(kind)  # a new kind of parameter: teach it here


def _bounds(kind: inspect.IntType | inspect.FloatType) -> Schema:
    found = {"minimum": kind.ge, "maximum": kind.le, "exclusiveMinimum": kind.gt, "exclusiveMaximum": kind.lt}
    return {name: value for name, value in found.items() if value is not None}


def schema_json() -> str:
    """Return the schema as the text of a file."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"
