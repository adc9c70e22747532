"""The page of the HTTP API, made from the OpenAPI document that the server gives."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from midcourse.server import Server

Schema = Mapping[str, Any]
EVERYWHERE: Final = (
    *("unauthorized", "forbidden", "origin_not_allowed", "request_timeout", "body_too_large", "host_not_allowed"),
    *("unreadable_body", "too_many_requests", "damaged", "internal_error", "store_unavailable", "store_full"),
)
"""Codes that are not told again with each address."""
Table = Callable[[Iterable[str], Iterable[Iterable[str]]], str]
INSIDE: Final = (
    "Session",
    "MessageView",
    "Reply",
    "RunningCall",
    "Receipt",
    "ReceiptLine",
    "Head",
    "StepView",
    "AuditEntry",
)
"""Values whose fields the page lists, beside those that are only there for an answer."""


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return Server(store="memory://", token="not-a-token-of-anybody", agents={}).app.openapi()


def openapi() -> str:
    """The document as a file."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


class Page:
    """Makes the page of one document."""

    def __init__(self, whole: Schema, table: Table) -> None:
        self._whole = whole
        self._table = table

    def parts(self) -> Iterator[str]:
        """Everything below the title."""
        yield (
            "Every address, what it takes and what it answers. The same for programs: "
            "[openapi.json](openapi.json), which a server also gives at `/api/v1/openapi.json`. "
            "What each code means: [Errors](errors.md#what-a-server-answers)."
        )
        yield self._whole["info"]["description"].strip()
        listed = ", ".join(f"`{code}`" for code in EVERYWHERE)
        yield f"Beside the codes listed with them, addresses answer with {listed}."
        for tag in self._whole["tags"]:
            yield f"## {tag['name'].capitalize()}"
            yield tag["description"]
            for path, methods in self._whole["paths"].items():
                for method, operation in methods.items():
                    if tag["name"] in operation["tags"]:
                        yield from self._operation(f"{method.upper()} {path}", operation)
        yield "## Frames of a chat"
        for one in self._schema("Frame")["oneOf"]:
            yield from self._value(one["$ref"].rpartition("/")[2])
        yield "## Values"
        for name in sorted(INSIDE):
            yield from self._value(name)

    def _operation(self, title: str, operation: Schema) -> Iterator[str]:
        yield f"### `{title}`"
        yield operation["description"]
        if found := operation.get("parameters"):
            rows = (
                [f"`{one['name']}`", one["in"], self._kind(one["schema"]), _default(one["schema"]), one["description"]]
                for one in found
            )
            yield self._table(["parameter", "in", "is", "default", ""], rows)
        if "requestBody" in operation:
            yield from self._body(operation["requestBody"])
        yield self._table(["answer", "is", ""], self._answers(operation["responses"]))

    def _body(self, body: Schema) -> Iterator[str]:
        taken = body["content"]["application/json"]["schema"]
        schema = self._schema(taken.get("anyOf", [taken])[0]["$ref"].rpartition("/")[2])
        yield "The body:" if body.get("required") else "The body, which may be left out:"
        yield self._fields(schema)
        yield f"```json\n{json.dumps(schema['examples'][0])}\n```"

    def _answers(self, responses: Schema) -> Iterator[list[str]]:
        for status, answer in responses.items():
            found = answer
            if "$ref" in answer:
                found = self._whole["components"]["responses"][answer["$ref"].rpartition("/")[2]]
            if "x-codes" in found:
                own = [f"`{code}`" for code in found["x-codes"] if code not in EVERYWHERE]
                if own:
                    yield [status, "problem", ", ".join(own)]
                continue
            kinds = " or ".join(
                "stream" if media == "text/event-stream" else self._kind(content["schema"])
                for media, content in found.get("content", {}).items()
            )
            headers = ", ".join(f"`{name}`" for name in found.get("headers", ()))
            yield [status, kinds, found["description"] + (f" Headers: {headers}." if headers else "")]

    def _value(self, name: str) -> Iterator[str]:
        schema = self._schema(name)
        yield f"### {name}"
        if "description" in schema:
            yield schema["description"]
        yield self._fields(schema)

    def _fields(self, schema: Schema) -> str:
        required = schema.get("required", ())
        rows = (
            [
                f"`{name}`",
                self._kind(field),
                "required" if name in required and "const" not in field else _default(field),
                field.get("description", ""),
            ]
            for name, field in schema["properties"].items()
        )
        return self._table(["field", "is", "default", ""], rows)

    def _schema(self, name: str) -> Schema:
        return self._whole["components"]["schemas"][name]

    def _kind(self, schema: Schema) -> str:
        """What a value may be, in words."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if "enum" in self._schema(name) or not self._schema(name):
                return self._kind(self._schema(name))
            shown = name in INSIDE
            return f"[{name}](#{name.lower()})" if shown else name
        if "anyOf" in schema:
            return " or ".join(dict.fromkeys(map(self._kind, schema["anyOf"])))
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`"
        if "enum" in schema:
            return " or ".join(f"`{one}`" for one in schema["enum"])
        kind = schema.get("type")
        if isinstance(kind, list):
            return " or ".join(self._kind({"type": one}) for one in kind)
        if kind == "array":
            return f"list of {self._kind(schema['items'])}"
        if kind == "object":
            inner = schema.get("additionalProperties")
            return f"mapping to {self._kind(inner)}" if inner else "object"
        return _WORDS.get(str(kind), "any JSON value")


_WORDS: Final = {
    "string": "text",
    "boolean": "`true` or `false`",
    "integer": "whole number",
    "number": "number",
    "null": "`null`",
}


def _default(schema: Schema) -> str:
    value = schema.get("default")
    return "" if value in (None, "") else f"`{json.dumps(value)}`"
