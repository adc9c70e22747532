"""The OpenAPI document: the values of the core as schemas, and which answers each address gives."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from fastapi import Body, FastAPI
from fastapi.openapi.utils import get_openapi

from midcourse._version import __version__
from midcourse.core.audit import AuditEntry
from midcourse.core.inspection import StepView
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Reply
from midcourse.core.session import Message, Session
from midcourse.core.terms import Terms
from midcourse.ports.store import Head
from midcourse.server.tokens import KeptToken, Principal
from midcourse.server.views import BOOKKEEPING

Schema = dict[str, Any]
Responses = dict[int | str, dict[str, Any]]

BODY: Final = Body()
"""A body that may be left out: every field of it has a default."""
PROBLEM: Final = "application/problem+json"
_MEANS: Final[Mapping[int, str]] = {
    200: "As it is now.",
    201: "Made; Location says where.",
    202: "Durable, and not decided yet: the session's owner is silent, or the wait was too short.",
    204: "Gone.",
    401: "No token, or none that is known.",
    403: "The token's role is too low, the request is another site's, or the ask is not the caller's to answer.",
    404: "There is none.",
    408: "The body took too long to arrive.",
    409: "Not allowed now; `allowed` lists what is.",
    412: "The session has moved on from the ETag in If-Match.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not go by that name.",
    422: "The request cannot be understood; `field` says where.",
    429: "Too many requests, or too many open streams; Retry-After says when to come back.",
    503: "The store cannot be used now.",
    507: "No space is left where the store lives.",
}
_EVERYWHERE: Final = (401, 403, 421, 429, 503)
_WITH_A_BODY: Final = (408, 413, 415, 507)
DESCRIPTION: Final = """Pause, resume, redirect, cancel, answer and watch agents while they run.

Errors are problem documents (RFC 9457) with a stable `code`. Every control takes `Idempotency-Key`, which makes a retry
the same command, and `If-Match` with the session's `ETag`. What a control answers is what is known, and never more:
`accepted` (durable), `decided`, `stopping` (the gate is shut; `running` lists what lives), `stopped` (nothing runs).
"""
EXAMPLES: Final[Mapping[str, Schema]] = {
    "NewSession": {"agent": "churn-memo", "goal": "Write the churn memo for Q3"},
    "Pause": {"reason": "let me read the draft", "grace": 5},
    "Resume": {"pause": "pause_1"},
    "Redirect": {"text": "Keep it to one page", "level": "step"},
    "Cancel": {"reason": "wrong customer", "undo": "all"},
    "Undo": {"reason": "wrong folder"},
    "Answer": {"value": "yes", "ask": "ask_1"},
    "Message": {"text": "Then send it to the team", "behaviour": "enqueue"},
    "Edit": {"text": "Keep it to two pages"},
    "OutsideEvent": {"text": "The price list was replaced", "source": "erp"},
    "Budget": {"budget": 25},
    "Fork": {"at": 12, "paused": True},
    "NewToken": {"name": "nightly-report", "role": "watch"},
    "Chat": {"agent": "records-cleaner", "message": "Delete the duplicates"},
    "ChatResume": {"session_id": "sess_42", "answer": "yes"},
}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def answers(name: str, *statuses: int, created: bool = False, body: bool | None = None) -> Responses:
    """The answers of an address: its value under ``name``, and problems."""
    good = {status: _good(name, status) for status in statuses if status < 300}
    if created:
        good[201]["headers"] = {"Location": {"schema": {"type": "string"}}, "ETag": {"schema": {"type": "string"}}}
    # What changes something has a body, unless it is said otherwise.
    with_body = body if body is not None else any(status in statuses for status in (201, 202))
    others = {*_EVERYWHERE, *(status for status in statuses if status >= 300), *(_WITH_A_BODY if with_body else ())}
    return {**good, **{status: _bad(status) for status in sorted(others)}}


def streams(name: str, *statuses: int, body: bool = False) -> Responses:
    """The same for an address that may answer with a stream; without a ``name`` it always does."""
    found = answers(name or "Frame", *statuses, body=body)
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    if name:
        content = {**found[200]["content"], **content}
    found[200] = {"description": "The stream.", "content": content}
    return found


def _good(name: str, status: int) -> Schema:
    if status == 204:
        return {"description": _MEANS[status]}
    return {"description": _MEANS[status], "content": {"application/json": {"schema": _ref(name)}}}


def _bad(status: int) -> Schema:
    return {"description": _MEANS[status], "content": {PROBLEM: {"schema": _ref("Problem")}}}


def describe(app: FastAPI) -> Schema:
    """The OpenAPI document of ``app``, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="Midcourse", version=__version__, summary="The interrupt handle for AI agents",
            description=DESCRIPTION, routes=app.routes,
        )  # fmt: skip
        components = document.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        for gone in ("HTTPValidationError", "ValidationError"):
            schemas.pop(gone, None)
        for name, example in EXAMPLES.items():
            if name in schemas:
                schemas[name]["examples"] = [example]
        schemas.update(_values())
        components["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "A token of `midcourse token add`."},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "midcourse_token"},
        }
        for path, methods in document["paths"].items():
            for operation in methods.values():
                operation["security"] = [] if path.endswith("/healthz") else [{"token": []}, {"cookie": []}]
        app.openapi_schema = document
    return app.openapi_schema


def _values() -> dict[str, Schema]:
    """The core's own values, as JSON schema makes them of their types."""
    kinds = (Session, Message, Reply, Receipt, Head, StepView, Terms, AuditEntry, KeptToken, Principal)
    _, found = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    named: dict[str, Schema] = {name: _shown(schema) for name, schema in found.items()}
    session = named["Session"]["properties"]
    for name in BOOKKEEPING:
        session.pop(name, None)
    session["messages"] = {"type": "array", "items": _ref("MessageView")}
    session |= {
        "goal": {"type": "string", "description": "The goal as it stands."},
        "updated_at": {"type": "number"},
        "allowed": {"type": "array", "items": {"type": "string"}, "description": "Verbs the caller may use now."},
        "etag": {"type": "string", "description": "For If-Match."},
    }
    message = named.pop("Message")
    message["properties"] |= {"id": {"type": "string"}, "is_seen": {"type": "boolean"}}
    named["MessageView"] = message
    named["Reply"]["properties"]["sentence"] = {"type": "string", "description": "The same for people."}
    named["Receipt"]["properties"]["table"] = {"type": "string", "description": "The same for people."}
    head = named["Head"]["properties"]
    head.pop("digest", None)
    head.pop("wake_at", None)
    kept = named["KeptToken"]["properties"]
    kept.pop("digest", None)
    for schema in named.values():
        if "properties" in schema:
            schema["required"] = sorted(schema["properties"])
    named["Value"] = {
        "type": "object",
        "description": "A value: `raw` is it, or `blob` names where it lies (above 32 KB; see /blobs).",
        "properties": {"raw": {}, "blob": {"type": "string"}, "size": {"type": "integer"}},
    }
    return {**named, **_PLAIN}


def _shown(schema: Schema) -> Schema:
    schema.pop("title", None)
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    return schema


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _list(name: str) -> Schema:
    return {"type": "array", "items": _ref(name)}


_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_PLAIN: Final[Mapping[str, Schema]] = {
    "Problem": {
        "type": "object",
        "description": "What happened and what to do (`detail`), and a stable `code` for programs.",
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": _NUMBER,
            "detail": _TEXT,
            "code": _TEXT,
            "field": _TEXT,
            "session_id": _TEXT,
            "status_now": _TEXT,
            "allowed": {"type": "array", "items": _TEXT},
        },
        "required": ["type", "title", "status", "detail", "code"],
    },
    "Event": _object({"position": _NUMBER, "at": {"type": "number"}, "type": _TEXT, "version": _NUMBER, "data": {}}),
    "EventList": _object({"events": _list("Event"), "next": {"type": ["integer", "null"]}}),
    "SessionList": _object({"sessions": _list("Head"), "next": {"type": ["string", "null"]}}),
    "Inspection": _object(
        {"session": _ref("Session"), "steps": _list("StepView"), "state": {}, "history": {"type": "array", "items": {}}}
    ),
    "CancelPreview": _object({choice: _ref("Receipt") for choice in ("none", "in-flight", "all")}),
    "Result": _object(
        {
            "status": _TEXT,
            "ended": {"type": "boolean"},
            "result": {},
            "failure": {"anyOf": [{"type": "null"}, {"type": "object"}]},
        }
    ),
    "Blob": {"description": "Any JSON value."},
    "Frame": {"type": "string"},
    "Agent": _object(
        {
            **dict.fromkeys(("name", "version", "mode", "origin"), _TEXT),
            "resumable": {"type": "boolean"},
            "asks": {"type": "boolean"},
            "terms": _ref("Terms"),
        }
    ),
    "AgentList": _object({"agents": _list("Agent")}),
    "AuditList": _object(
        {"entries": {"type": "array", "items": {"type": "object"}}, "next": {"type": ["integer", "null"]}}
    ),
    "TokenList": _object({"tokens": _list("KeptToken")}),
    "NewlyMadeToken": _object({"name": _TEXT, "role": _TEXT, "session": {"type": ["string", "null"]}, "token": _TEXT}),
    "Health": _object({"status": _TEXT}),
}
