"""Errors as HTTP answers: problem documents (RFC 9457). The one place that knows which error has which status."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, get_args

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from midcourse.errors import (
    AccessDenied,
    AgentUnavailable,
    Damaged,
    InvalidInput,
    MidcourseError,
    Refused,
    SessionNotFound,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unencodable,
)
from midcourse.server.conventions import address_in, path_in
from midcourse.server.problem_codes import CODES
from midcourse.server.tokens import Principal
from midcourse.server.validation_errors import shortened, validation_sentence

log = logging.getLogger("midcourse.server")

BY_CLASS: Final[tuple[tuple[type[MidcourseError], int], ...]] = (
    (AccessDenied, 403),
    (Refused, 409),
    (SessionNotFound, 404),
    (InvalidInput, 422),
    (Unencodable, 422),
    (AgentUnavailable, 422),
    (Damaged, 500),
    (StoreError, 503),
)
_PLAIN: Final[Mapping[int, tuple[str, str]]] = {
    404: ("not_found", "There is nothing at this address. The addresses are listed in /api/v1/openapi.json."),
    405: ("method_not_allowed", "This address does not take that method; the header Allow lists those it takes."),
}
_UNREADABLE: Final = "The body cannot be read. Send JSON in UTF-8, nested no deeper than it must be."
_ANY: Final = StoreUnavailable.code
CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}
"""The header of every 401."""


def status_of(error: MidcourseError) -> int:
    if error.code in CODES:
        return CODES[error.code].status
    return next((status for kind, status in BY_CLASS if isinstance(error, kind)), 500)


def problem_response(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **fields: object
) -> Response:
    """Return a problem document: ``detail`` is the sentence for people, ``code`` and ``fields`` are for programs."""
    content = {
        **fields,
        "type": f"urn:midcourse:error:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    return Response(msgspec.json.encode(content), status, headers, media_type="application/problem+json")


def problem_of(error: MidcourseError, principal: Principal | None = None) -> Response:
    """Return the problem document of an error, as ``principal`` may read it."""
    status = status_of(error)
    if status >= 500 and error.code != "draining":
        log.error("%s: %s", error.code, error)
    error = redacted_error(error, principal)
    if isinstance(error, SessionNotFound):  # where the store lies is not the caller's business
        name = shortened(str(error.fields.get("session_id", "")))
        error = SessionNotFound(f"There is no session '{name}' here. GET /api/v1/sessions lists them.", session_id=name)
    fields = {name if name != "status" else "status_now": value for name, value in error.fields.items()}
    headers = CHALLENGE if status == 401 else {"Retry-After": "1"} if status in (429, 503) else None
    return problem_response(status, error.code, error.message, headers, **_encodable(fields))


def redacted_error(error: MidcourseError, principal: Principal | None) -> MidcourseError:
    """Return ``error`` for this caller: only the host's operators see where the store lies, and who holds it."""
    if principal is not None and principal == Principal(principal.name, "operate"):  # which reaches everything
        return error
    if not isinstance(error, StoreUnavailable | StoreFull) and "path" not in error.fields:
        return error
    kind = StoreFull.code if isinstance(error, StoreFull) else "damaged" if isinstance(error, Damaged) else _ANY
    known = CODES.get(error.code, CODES[kind])
    return type(error)(known.means, code=error.code)


def _encodable(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: msgspec.to_builtins(value, enc_hook=str) for name, value in fields.items()}


def explain_errors(app: FastAPI) -> None:
    """Have every error of ``app`` answered with a problem document."""

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, MidcourseError)
        return problem_of(error, getattr(request.state, "principal", None))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return _invalid(request, error)

    async def plain(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 400:  # not UTF-8, or nested too deeply to be read
            return problem_response(400, "unreadable_body", _UNREADABLE, field="body")
        code, sentence = _PLAIN.get(error.status_code, ("http_error", str(error.detail)))
        sentence = sentence.replace("/api/", address_in(request.scope, "/api/"))
        headers = dict(error.headers or {})
        if error.status_code == 405:  # a router names the methods of the one route that it came upon
            headers["Allow"] = ", ".join(request.app.state.addresses.at(path_in(request.scope)))
        return problem_response(error.status_code, code, sentence, headers)

    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("%s %s failed unexpectedly", request.method, request.url.path, exc_info=error)
        sentence = "The server failed at this request in an unexpected way; its log has the details. Nothing is lost."
        # The server hangs up after this: a client that is not notified sends its next request into nothing.
        return problem_response(500, "internal_error", sentence, {"Connection": "close"})

    app.add_exception_handler(MidcourseError, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(Exception, unexpected)


def _named(place: Sequence[object]) -> Sequence[object]:
    """Return the names in a place, without the index of a repeated parameter."""
    return place[1:] if place[0] == "body" else place[1:2]


def _invalid(request: Request, error: RequestValidationError) -> Response:
    """Return the problem with a sentence for each invalid field."""
    found = [{**one, "loc": _named(one["loc"])} for one in error.errors()]
    route: Any = request.scope.get("route")
    body = getattr(getattr(route, "body_field", None), "field_info", None)
    wanted = getattr(body, "annotation", None)
    # A body that may be left out is one of two: itself, or nothing.
    kinds = [kind for kind in (wanted, *get_args(wanted)) if isinstance(kind, type) and issubclass(kind, BaseModel)]
    sentence, field = validation_sentence(found, kinds[0].model_fields if kinds else None, error.body)
    if field == "body" and found[0]["type"] == "json_invalid":
        return problem_response(400, "unreadable_body", sentence, field=field)
    return problem_response(422, "invalid_input", sentence, field=field)
