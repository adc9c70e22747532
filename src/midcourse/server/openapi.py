"""The OpenAPI document: which answers, headers and problems each address has, and what its values look like."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastapi import Body, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts

from midcourse._version import __version__
from midcourse.core.commands import Rung
from midcourse.server.caller import FOR_AGENTS, NEEDED
from midcourse.server.openapi_examples import REQUESTS, answer_examples
from midcourse.server.openapi_schemas import COUNT, TEXT, Schema, ref, value_schemas
from midcourse.server.problem_codes import CODES

Responses = dict[int | str, dict[str, Any]]

BODY: Final = Body()
"""A body that may be left out: every field of it has a default."""
LAST_EVENT_ID: Final[Schema] = {
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "required": False,
            "description": "The id of the last event seen: the stream continues after it. It wins over `after`. "
            "What is no event of this session makes the stream begin with `reset`, at the start.",
            "schema": {"type": "string"},
        }
    ]
}
PROBLEM: Final = "application/problem+json"
STREAM: Final = "text/event-stream"
_MEANS: Final[Mapping[int, str]] = {
    200: "As it is now.",
    201: "Made; Location says where.",
    202: "Durable, and not decided yet: the session's owner is silent, or the wait was too short.",
    204: "Gone.",
}
_OF_ALL: Final = ("host_not_allowed", "too_many_requests", "internal_error")
_WITH_A_TOKEN: Final = ("unauthorized", "forbidden", "store_unavailable")
_OF_CHANGES: Final = ("origin_not_allowed", "store_full")
_WITH_A_BODY: Final = ("unreadable_body", "request_timeout", "body_too_large", "invalid_input")
_ANY_CODE: Final = frozenset({500, 503})
"""Statuses with codes beyond those named here: a store has many ways to fail."""
DESCRIPTION: Final = """Pause, resume, redirect, cancel, answer and watch agents while they run.

**Errors** are problem documents (RFC 9457) with a stable `code`; the answers below list the codes of each address.

**Roles** are a ladder: `watch`, `steer`, `approve`, `operate`; each may do what the ones before it may. `x-role` of an
address is the least that it takes. An agent's token has none of them: it uses the addresses with `x-agent`, on its own
session and its children alone, and does there what an agent may do.

**Retries.** Every control takes `Idempotency-Key`, which makes a retry the same command, and `If-Match` with the
session's `ETag`, which refuses it (412) once the session has moved on. So does the saving of a policy, with that of the
policy. An address that cannot keep to a key or a condition (`If-Match`, `If-None-Match`, `If-Unmodified-Since`)
refuses it. `DELETE`, and what only computes, take a key and do not need it: sent again they change nothing more. A
`GET` that answers with an `ETag` takes `If-None-Match`, and answers 304 as long as nothing has changed.

**Lists** come in pages: `limit` items at most, and in `next` the `cursor` of the page behind them; null: there is none.
A cursor is opaque, and holds while things are added and removed: no item is repeated, and none that stays is left out.
What is no cursor of the list is refused (400, `invalid_cursor`). The events of a session go on from a position instead.

**What a control answers** is what is known, and never more: `accepted` (durable), `decided`, `stopping` (the gate is
shut; `running` lists what lives), `stopped` (nothing runs).

**Streams** are server-sent events (`text/event-stream`). Each is `data:` with one line of JSON and a blank line behind
it; those of the journal also have `id:`, their position. A client that was cut off sends the last `id` as
`Last-Event-ID` and misses nothing, also after a restart of the server. Lines that begin with `:` keep the stream alive,
every 15 seconds, and one says so when the server is about to end. The last frame of a stream is `event: end` with a
`reason` (`session_ended`, `server_stopping`, `not_allowed`); one that breaks off without it was lost. At
/sessions/{session_id}/events `event:` is the event's type and `data:` an `Event`; with `deltas=true` there are also
`event: delta`, previews of text without an `id`. `event: caught_up` comes once, behind what was journaled when the
stream was opened. `event: reset` (id 0) comes first where the named event is none of this journal, which was restored
from a backup, say: forget what you have, everything follows from the start.
At /chat each `data:` is a `Frame`, told apart by its `type`; `done`, `error` and `resumed` are the last of a stream,
and after `interrupt` it stays open until the ask is answered.
"""
TAGS: Final = (
    ("chat", "A message in, a stream of frames out, and answers to what the agent asks."),
    ("sessions", "Sessions: create, list, show, inspect, fork; their events, receipts and results."),
    ("controls", "One verb per control. What each answers is what is known, and never more."),
    ("kill switch", "An operator's standing halt over a scope. Lifting it resumes nothing by itself."),
    ("interventions", "What policies have stepped in with, why, and what people say of it."),
    ("inbox", "Open asks over all sessions, their owners, and the webhooks that report them."),
    ("reports", "What interruptions came to, what must hold before a policy goes live, and what reviews propose."),
    ("policies", "When to interrupt: the policies that come with it, and those that were saved, with their history."),
    ("operations", "For operators: liveness, readiness, metrics."),
    ("server", "The server itself: its agents, its tokens and browser sessions, its audit log, who the caller is."),
)
_HEADERS: Final[Mapping[str, Schema]] = {
    "ETag": {"description": "How it stands, for If-Match and If-None-Match.", "schema": TEXT},
    "Location": {"description": "Where the new session is.", "schema": TEXT},
    "X-Session-Id": {"description": "The session whose stream this is.", "schema": TEXT},
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": COUNT},
    "WWW-Authenticate": {"description": "Bearer.", "schema": TEXT},
}
_IF_NONE_MATCH: Final[Schema] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The ETag of what you have: 304 without a body if it is still the same.",
    "schema": {"type": "string"},
}
_OF_STATUS: Final[Mapping[int, tuple[str, ...]]] = {
    401: ("WWW-Authenticate",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}


# ---- the answers of one address


def answers(
    name: str, *outcomes: int | str, headers: Iterable[str] = (), changes: bool = False, body: bool = False
) -> Responses:
    """Return the answers of an address: its value ``name`` with each status, and problems by their codes.

    ``changes``: it changes something. ``body``: it reads one, and changes something.
    """
    codes = {code for code in outcomes if isinstance(code, str)} | {*_OF_ALL, *_WITH_A_TOKEN}
    codes |= {*_OF_CHANGES} if changes or body else set()
    codes |= {*_WITH_A_BODY} if body else set()
    return _answers({status: _good(name, status, headers) for status in outcomes if isinstance(status, int)}, codes)


def also(found: Responses, media: str) -> Responses:
    """Return the same answers, the good one also as text of another kind."""
    found[200]["content"] |= {media: {"schema": TEXT}}
    return found


def open_answers(name: str, *codes: str, body: bool = False) -> Responses:
    """Return the answers of a public address. ``body``: it reads one, and changes something."""
    more = {*_OF_CHANGES, *_WITH_A_BODY, "store_unavailable"} if body else set[str]()
    return _answers({200: _good(name, 200, ())}, {*_OF_ALL, *codes, *more})


def text_answers(*codes: str) -> Responses:
    """Return the answers of an address that answers with text."""
    good: Responses = {200: {"description": _MEANS[200], "content": {"text/plain": {"schema": TEXT}}}}
    return _answers(good, {*_OF_ALL, *_WITH_A_TOKEN, *codes})


def streams(name: str, *codes: str, body: bool = False, frames: str = "Event") -> Responses:
    """Return the answers of an address with a stream of ``frames``; without a ``name`` it is always one."""
    found = answers(name or "Frame", 200, *codes, "too_many_streams", body=body)
    content = {STREAM: {"schema": TEXT, "x-event-schema": ref(frames if name else "Frame")}}
    if name:
        found[200]["content"] |= content
    else:
        found[200] = {"description": "The stream.", "headers": _headers(["X-Session-Id"]), "content": content}
    return found


def _answers(good: Responses, codes: set[str]) -> Responses:
    by_status: dict[int, list[str]] = {}
    for code in sorted(codes):
        by_status.setdefault(CODES[code].status, []).append(code)
    return {**good, **{status: _bad(status, by_status[status]) for status in sorted(by_status)}}


def _good(name: str, status: int, headers: Iterable[str]) -> Schema:
    shown: Schema = {"description": _MEANS[status]}
    if found := _headers([one for one in headers if one != "Location" or status == 201]):
        shown["headers"] = found
    if status != 204:
        shown["content"] = {"application/json": {"schema": ref(name)}}
    return shown


def _bad(status: int, codes: list[str]) -> Schema:
    lines = [f"* `{code}`: {CODES[code].means}" for code in codes]
    schema = ref("Problem")
    if status not in _ANY_CODE:
        schema = {"allOf": [schema, {"properties": {"code": {"enum": codes}}}]}
    shown: Schema = {"description": "\n".join(lines), "x-codes": codes, "content": {PROBLEM: {"schema": schema}}}
    if found := _headers(_OF_STATUS.get(status, ())):
        shown["headers"] = found
    return shown


def _headers(names: Iterable[str]) -> Schema:
    return {name: dict(_HEADERS[name]) for name in names}


# ---- the document


def describe(app: FastAPI) -> Schema:
    """Return the OpenAPI document of ``app``, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="Midcourse", version=__version__, summary="The interrupt handle for AI agents",
            description=DESCRIPTION, routes=app.routes,
            tags=[{"name": name, "description": words} for name, words in TAGS],
        )  # fmt: skip
        examples = answer_examples()
        document["components"] = {"schemas": _schemas(document, examples), "securitySchemes": _SECURITY}
        routes = {route.name: route for route in _routes(app)}
        for methods in document["paths"].values():
            for operation in methods.values():
                _finish(operation, routes[operation["operationId"]], examples)
        _link(document["paths"])
        document["components"]["responses"] = _shared(document["paths"])
        app.openapi_schema = document
    return app.openapi_schema


_SECURITY: Final[Schema] = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token of `midcourse token add`."},
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "midcourse_8420",
        "description": "For browsers: `POST /login` sets it. Its name ends with the server's port and, below a root "
        "path, with that (`midcourse_8420_agents`); behind TLS it begins with `__Host-`. It counts only together with "
        "`page`.",
    },
    "page": {
        "type": "apiKey",
        "in": "header",
        "name": "Midcourse-Page",
        "description": "For browsers: the page key that `POST /login` answered, beside `cookie`.",
    },
}


def _routes(app: FastAPI) -> list[APIRoute]:
    found = (context.original_route for context in iter_route_contexts(app.routes))
    return [route for route in found if isinstance(route, APIRoute) and route.include_in_schema]


def access_of(route: APIRoute) -> tuple[Rung | None, bool]:
    """Return the role that an address takes, as its dependency says, and whether it takes agents. None: everybody."""
    waiting: list[Dependant] = [route.dependant]
    while waiting:
        one = waiting.pop()
        if one.call in NEEDED:
            return NEEDED[one.call], one.call in FOR_AGENTS
        waiting += one.dependencies
    return None, True


def _finish(operation: Schema, route: APIRoute, examples: Mapping[str, Any]) -> None:
    """Add the parts that FastAPI leaves to us: texts, the role, the declared answers, their examples."""
    role, agents = access_of(route)
    words = operation.get("description", "")
    operation["summary"] = words.partition("\n")[0].partition(". ")[0].partition(": ")[0].rstrip(".:")
    operation["description"] = f"{words}\n\nNeeds the role `{role}`." if role else f"{words}\n\nNeeds no token."
    operation["x-role"] = role
    operation["x-agent"] = agents
    operation["security"] = [{"token": []}, {"cookie": [], "page": []}] if role else []
    responses = {str(status): dict(answer) for status, answer in route.responses.items()}
    methods = {one.lower() for one in route.methods or ()}
    if "403" in responses and not (agents and "get" in methods):
        responses["403"] = _bad(403, sorted({*responses["403"]["x-codes"], "not_for_agents"}))
    if any(one["name"] == "cursor" for one in operation.get("parameters", ())):
        responses["400"] = _bad(400, sorted({"invalid_cursor", *responses.get("400", {}).get("x-codes", ())}))
    if (operation.get("parameters") or "get" not in methods) and "422" not in responses:
        responses["422"] = _bad(422, ["invalid_input"])
    for status, answer in responses.items():
        answer["content"] = {
            media: _with_example(media, content, route.name, status, examples)
            for media, content in answer.get("content", {}).items()
        }
        if not answer["content"]:
            del answer["content"]
    if "get" in methods and "ETag" in responses["200"].get("headers", ()):
        operation["parameters"] = [*operation.get("parameters", ()), _IF_NONE_MATCH]
        responses["304"] = {"description": "It is as it was.", "headers": _headers(["ETag"])}
    operation["responses"] = dict(sorted(responses.items()))
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    body = operation.get("requestBody", {})
    for content in body.get("content", {}).values():
        content["schema"] = _without_null(content["schema"])
        if not body.get("required"):  # null counts as left out
            content["schema"] = {"anyOf": [content["schema"], {"type": "null"}]}


def _without_null(schema: Schema) -> Schema:
    """Return an optional value's schema without pydantic's null, keeping its description."""
    kept = {name: value for name, value in schema.items() if name not in ("title", "description")}
    several = kept.pop("anyOf", ())
    return {**kept, **(several[0] if several else {})}


def _with_example(media: str, content: Schema, route: str, status: str, examples: Mapping[str, Any]) -> Schema:
    name = str(content["schema"].get("$ref", "")).rpartition("/")[2]
    if status == "202":
        name = f"{name} 202"
    example = examples.get(f"{media} {route}" if media == STREAM else name)
    return content if example is None else {**content, "example": example}


def _shared(paths: Schema) -> dict[str, Schema]:
    """Move the problems of several addresses into one place by their codes; the addresses refer to them."""
    found: dict[str, list[tuple[Schema, str]]] = {}
    for methods in paths.values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if "x-codes" in answer:
                    found.setdefault("-or-".join(answer["x-codes"]), []).append((operation["responses"], status))
    shared: dict[str, Schema] = {}
    for name, places in sorted(found.items()):
        if len(places) > 1:
            shared[name] = places[0][0][places[0][1]]
            for responses, status in places:
                responses[status] = {"$ref": f"#/components/responses/{name}"}
    return shared


def _link(paths: Schema) -> None:
    """Link an answer's names to the addresses that take them."""
    operations = {one["operationId"]: (path, one) for path, methods in paths.items() for one in methods.values()}
    of_session = sorted(name for name, (path, _) in operations.items() if _placeholders(path) == ["session_id"])
    for maker in ("create_session", "fork_session"):
        operations[maker][1]["responses"]["201"]["links"] = {
            name: {"operationId": name, "parameters": {"session_id": "$response.body#/id"}} for name in of_session
        }
    for maker in ("redirect", "message"):
        operations[maker][1]["responses"]["200"]["links"] = {
            name: {
                "operationId": name,
                "parameters": {"session_id": "$response.body#/session", "message": "$response.body#/message"},
            }
            for name in ("edit", "withdraw")
        }
    operations["add_webhook"][1]["responses"]["201"]["links"] = {
        name: {"operationId": name, "parameters": {"webhook": "$response.body#/webhook/id"}}
        for name in ("remove_webhook", "test_webhook", "list_deliveries")
    }
    operations["add_token"][1]["responses"]["201"]["links"] = {
        "revoke_token": {"operationId": "revoke_token", "parameters": {"name": "$response.body#/name"}}
    }


def _placeholders(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _schemas(document: Schema, examples: Mapping[str, Any]) -> dict[str, Schema]:
    """Return the values of the core, and the bodies of requests with an example each."""
    found: dict[str, Schema] = dict(document.get("components", {}).get("schemas", {}))
    for gone in ("HTTPValidationError", "ValidationError"):
        found.pop(gone, None)
    for name, example in REQUESTS.items():
        found[name]["examples"] = [example]
    for schema in found.values():
        _tidy(schema)
    shown = value_schemas()
    assert not found.keys() & shown.keys(), found.keys() & shown.keys()
    shown["Problem"]["examples"] = [examples["Problem"]]
    return dict(sorted({**found, **shown}.items()))


def _tidy(schema: Schema) -> None:
    """Remove the titles that pydantic makes of names, and turn descriptions into Markdown."""
    schema.pop("title", None)
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].replace("``", "`").split())
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
