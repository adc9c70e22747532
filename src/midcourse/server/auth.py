"""Authenticate and authorize: from a token or a browser session to a principal, and from a role to yes or no."""

import logging
import re
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Scope

from midcourse.core.commands import Rung
from midcourse.errors import AccessDenied, InvalidInput
from midcourse.server.browser_sessions import BrowserSession, Login, Logins
from midcourse.server.limits import IDENTIFIED
from midcourse.server.origins import check_cookie_request, place_of
from midcourse.server.roles import includes
from midcourse.server.tokens import Principal, TokenStore

PAGE_HEADER: Final = "Midcourse-Page"
"""The header with the page key, without which a browser session's cookie is worth nothing."""

_BEARER: Final = re.compile(r"bearer +(\S+) *", re.IGNORECASE)


class Credential(NamedTuple):
    """The credential of a request: a bearer token, or the cookie and the page key of a browser session."""

    token: str
    cookie: str
    page: str
    place: str


class Access:
    """Finds out whom a request comes from."""

    def __init__(self, tokens: TokenStore, logins: Logins) -> None:
        self.tokens = tokens
        self.logins = logins

    async def identify(self, scope: Scope) -> Principal | None:
        """Whom the request comes from; None without a token or browser session, or with one that is not valid."""
        token, cookie, page, place = credential_of(scope)
        if token:
            return await self.tokens.principal_of(token)
        return await self.logins.principal_of(cookie, page, place) if cookie else None

    async def principal(self, connection: HTTPConnection) -> Principal:
        """Whom the request comes from.

        A stream asks again now and then: its token may have been revoked since it was opened.

        Raises:
            AccessDenied: ``unauthorized``: there is no token or browser session, or it is not valid.
                ``origin_not_allowed``: it came with a cookie, and the request may be another site's.
        """
        identified: Principal | None = connection.scope.get(IDENTIFIED)
        principal = identified or await self.identify(connection.scope)
        found = credential_of(connection.scope)
        if principal is None:
            if found.token:
                why = "This token is unknown, was revoked or has expired. Send a valid one in the header "
                why += "Authorization: Bearer"
            elif found.cookie:
                why = "This browser is not logged in any more: its session was ended, or has expired. Log in again"
            else:
                why = "This request has no token. Send one in the header Authorization: Bearer"
            raise AccessDenied(f"{why}; 'midcourse browser link' prints a link for browsers.", code="unauthorized")
        if not found.token:
            check_cookie_request(str(connection.scope.get("method", "")), connection.headers)
        return principal

    async def browser_session(self, connection: HTTPConnection) -> BrowserSession:
        """Return the browser session that the request comes with.

        Raises:
            InvalidInput: ``browser_session_not_found``: it comes with a token, or with none that is valid.
        """
        token, cookie, page, place = credential_of(connection.scope)
        found = None if token else await self.logins.current(cookie, page, place)
        if found is None:
            raise InvalidInput(
                "This request comes with no browser session. A token is revoked with 'midcourse token revoke'.",
                code="browser_session_not_found",
            )
        return found


def credential_of(scope: Scope) -> Credential:
    """Return what a request says who it is from; empty where it says nothing.

    A header wins over a cookie even if it is malformed. Two of a kind that differ are none.
    """
    headers = Headers(scope=scope)
    written = headers.getlist("authorization")
    if written:
        found = _BEARER.fullmatch(written[0]) if len(written) == 1 else None
        # A malformed one cannot be a valid token.
        return Credential(found[1] if found else "-", "", "", "")
    name, cookies = cookie_name(scope), set[str]()
    for line in headers.getlist("cookie"):
        for pair in line.split(";"):
            key, _, value = pair.partition("=")
            if key.strip() == name:
                cookies.add(value.strip())
    pages = headers.getlist(PAGE_HEADER)
    return Credential(
        "", cookies.pop() if len(cookies) == 1 else "", pages[0] if len(pages) == 1 else "", place_asked(scope)
    )


def place_asked(scope: Scope) -> str:
    """Return where a request goes, as the browser sees it: a browser session is valid there alone."""
    place = place_of(str(scope["scheme"]), Headers(scope=scope).get("host", ""))
    return f"{place or ''}{scope.get('root_path', '')}"


def cookie_name(scope: Scope) -> str:
    """Return the name of this server's cookie: by port and path, since a host's cookies go to every port of it."""
    place = place_of(str(scope["scheme"]), Headers(scope=scope).get("host", ""))
    path = re.sub(r"[^A-Za-z0-9]+", "-", str(scope.get("root_path", ""))).strip("-")
    name = f"midcourse_{place.port if place else 0}{f'_{path}' if path else ''}"
    return f"__Host-{name}" if scope["scheme"] == "https" else name


def set_cookie(answer: Response, scope: Scope, made: Login | None, now: float) -> None:
    """Have the browser keep a browser session's cookie; None: have it forget the one it has."""
    value, seconds = ("", 0) if made is None else (made.cookie, max(0, int(made.expires_at - now)))
    secure = "; Secure" if scope["scheme"] == "https" else ""
    cookie = f"{cookie_name(scope)}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}"
    answer.raw_headers.append((b"set-cookie", cookie.encode("ascii")))


def access_of(app: Starlette) -> Access:
    """Return the authentication of ``app``.

    Raises:
        InvalidInput: ``not_started``: it is mounted, and its lifespan was not entered.
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
    """Check that the principal's role includes ``needed``.

    Raises:
        AccessDenied: ``forbidden``: it does not.
    """
    if not includes(principal.role, needed):
        raise AccessDenied(
            f"This needs the role {needed}, and the token '{principal.name}' has the role {principal.role}. "
            "Ask the operator of this server for a token with that role.",
            code="forbidden",
            needed=needed,
            role=principal.role,
        )


_SECRET: Final = re.compile(r"mc[tlbp]_[\w-]+")


class WithoutTokens(logging.Filter):
    """Keeps secrets out of access logs: the query of ``/login``, and what looks like a token or a code anywhere."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without its secrets."""
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
    """Return ``text`` without what looks like a token, a code or a part of a browser session."""
    return _SECRET.sub("[redacted]", text)
