"""Who asks, and may they: from a header or a cookie to a principal, and from a role to yes or no."""

import logging
import re
from typing import Final
from urllib.parse import quote, unquote

from fastapi import Request
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from midcourse.core.commands import Rung
from midcourse.errors import AccessDenied, InvalidInput
from midcourse.server.conventions import address_in
from midcourse.server.origins import check_cookie_request
from midcourse.server.problems import CHALLENGE
from midcourse.server.roles import includes
from midcourse.server.tokens import Principal, Tokens

COOKIE: Final = "midcourse_token"

_BEARER: Final = re.compile(r"bearer +(\S+) *", re.IGNORECASE)
_WRONG_LINK: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>This link does not work</title></head>
<body><h1>This link does not work</h1>
<p>Its token is not known here: the server may have been started anew, or the token was revoked.</p>
<p>Run <code>midcourse link</code> where the server runs, and open the link that it prints.</p></body></html>
"""


class Access:
    """Finds out whom a request comes from."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    async def identify(self, scope: Scope) -> Principal | None:
        """Whom the request comes from; None without a token, or with one that is not known."""
        token, _ = _token_in(Headers(scope=scope))
        return await self.tokens.principal_of(token) if token else None

    async def principal(self, connection: HTTPConnection) -> Principal:
        """Whom the request comes from.

        A stream asks again now and then: its token may have been revoked since it was opened.

        Raises:
            AccessDenied: ``unauthorized``: there is no token, or it is not known. ``origin_not_allowed``: it came as
                a cookie, and the request may be another site's.
        """
        headers = connection.headers
        token, is_cookie = _token_in(headers)
        principal = await self.tokens.principal_of(token) if token else None
        if principal is None:
            why = "This token is not known here; it may have been revoked" if token else "This request has no token"
            raise AccessDenied(
                f"{why}. Send one in the header Authorization: Bearer; for a browser, run 'midcourse link' and open "
                "what it prints.",
                code="unauthorized",
            )
        if is_cookie:
            check_cookie_request(str(connection.scope.get("method", "")), headers)
        return principal


def access_of(app: Starlette) -> Access:
    """Who finds out whom the requests to ``app`` come from.

    Raises:
        InvalidInput: ``not_started``: it is mounted, and nobody has entered its lifespan.
    """
    access = app.state.access
    if not isinstance(access, Access):
        raise InvalidInput(
            "Midcourse is mounted, and its store was never opened: give its lifespan to your application, "
            "as in FastAPI(lifespan=server.lifespan).",
            code="not_started",
        )
    return access


def check_role(principal: Principal, needed: Rung) -> None:
    """Whether the principal's role includes ``needed``.

    Raises:
        AccessDenied: ``forbidden``: it does not.
    """
    if not includes(principal.role, needed):
        raise AccessDenied(
            f"This needs the role {needed}, and the token '{principal.name}' has the role {principal.role}. "
            "Ask whoever operates this server for a token with that role.",
            code="forbidden",
            needed=needed,
            role=principal.role,
        )


async def login(access: Access, request: Request) -> Response:
    """Answer ``GET /login?token=…``: keep the token in a cookie and go to the console, or say what to do instead."""
    given = request.query_params.getlist("token")
    token = given[0] if len(given) == 1 else ""
    if await access.tokens.principal_of(token) is None:
        return HTMLResponse(_WRONG_LINK, 401, {**CHALLENGE, "Cache-Control": "no-store"})
    root = address_in(request.scope, "/")
    answer = RedirectResponse(root, 303, {"Cache-Control": "no-store"})
    secure = "; Secure" if request.scope["scheme"] == "https" else ""
    cookie = f"{COOKIE}={quote(token, safe='')}; HttpOnly; SameSite=Strict; Path={root}{secure}"
    answer.raw_headers.append((b"set-cookie", cookie.encode("ascii")))
    return answer


def _token_in(headers: Headers) -> tuple[str, bool]:
    """The token of a request, empty if there is none, and whether it is the cookie's.

    A header wins over a cookie even if it is malformed: whoever sends one does not mean the cookie. Two of a kind that
    differ are none.
    """
    written = headers.getlist("authorization")
    if written:
        found = _BEARER.fullmatch(written[0]) if len(written) == 1 else None
        return (found[1] if found else ""), False
    kept: set[str] = set()
    for line in headers.getlist("cookie"):
        for pair in line.split(";"):
            name, _, value = pair.partition("=")
            if name.strip() == COOKIE:
                kept.add(unquote(value.strip(), errors="replace"))
    return (kept.pop() if len(kept) == 1 else ""), True


_TOKEN: Final = re.compile(r"mct_[\w-]+")


class WithoutTokens(logging.Filter):
    """Keeps tokens out of uvicorn's access log: the query of ``/login``, and what looks like a token anywhere."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without its tokens."""
        if isinstance(record.args, tuple):
            record.args = tuple(_cut(part) if isinstance(part, str) else part for part in record.args)
        if isinstance(record.msg, str):
            record.msg = _cut(record.msg)
        return True


def _cut(text: str) -> str:
    path, mark, _ = text.partition("?")
    if mark and path.rstrip("/").lower().endswith("/login"):
        return path + "?[redacted]"
    return without_tokens(text)


def without_tokens(text: str) -> str:
    """``text`` without what looks like a token."""
    return _TOKEN.sub("[redacted]", text)
