"""Browsers: a code that lets one in, its browser session, and the end of that."""

from typing import Annotated, cast

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from midcourse.errors import AccessDenied, InvalidInput
from midcourse.server.auth import Access, access_of, credential_of, place_asked, set_cookie
from midcourse.server.browser_sessions import BrowserSession, described
from midcourse.server.caller import Administrator, Operator, Reckoner, Watcher, check_headers
from midcourse.server.openapi import answers, open_answers
from midcourse.server.origins import check_own_page
from midcourse.server.pages import USUAL, CursorQuery, LimitQuery, Pages
from midcourse.server.schemas import LogIn
from midcourse.server.to_json import answer, login_view

router = APIRouter(tags=["server"])
_PAGES = Pages[BrowserSession]("browser-sessions", tuple[float, str], lambda one: (-one.created_at, one.id))


def _access(request: Request) -> Access:
    return cast("Access", request.app.state.access)


@router.post(
    "/login", responses=open_answers("Login", "login_refused", "forbidden", "identity_would_change", body=True)
)
async def log_in(body: LogIn, request: Request) -> Response:
    """Exchange a login code or a token for a browser session.

    The answer sets the session's cookie, and holds its page key, which the browser sends with every request in the
    header `Midcourse-Page`. A code is used up by this. A browser that is logged in with another identity keeps it,
    unless `replace` confirms the switch.
    """
    access = access_of(request.app)
    check_own_page(request.scope)
    check_headers(request, ())
    _, cookie, page, place = credential_of(request.scope)
    principal = await access.logins.principal_of(cookie, page, place) if cookie else None
    before = await access.logins.current(cookie, page, place) if cookie else None
    made = await access.logins.log_in(
        body.credential,
        place_asked(request.scope),
        current=described(principal) if principal else "",
        replace=body.replace,
    )
    if before is not None:
        await access.logins.end(before.id, action="browser.logout")
    told = answer(login_view(made))
    set_cookie(told, request.scope, made, access.logins.now())
    return told


@router.get("/login", responses=answers("BrowserSession", 200, "browser_session_not_found"))
async def login_status(request: Request, _caller: Watcher) -> Response:
    """Get the browser session that the request comes with."""
    return answer(await _access(request).browser_session(request))


@router.delete("/login", status_code=204, responses=answers("", 204, "browser_session_not_found", changes=True))
async def log_out(request: Request, caller: Reckoner) -> Response:
    """End the browser session that the request comes with, and its open streams."""
    access = _access(request)
    found = await access.browser_session(request)
    await access.logins.end(found.id, by=caller.principal, action="browser.logout")
    told = Response(status_code=204)
    set_cookie(told, request.scope, None, access.logins.now())
    return told


@router.post("/login/codes", status_code=201, responses=answers("LoginCode", 201, changes=True))
async def make_login_code(request: Request, caller: Watcher) -> Response:
    """Make a login code: it lets one browser in, once, within a minute, as the token that asks for it.

    The code is behind the `#` of the link, which browsers send to no server and which no access log has.
    """
    token = credential_of(request.scope).token
    if not token:
        raise AccessDenied("A login code is made with a token, and not with a browser session.", code="forbidden")
    code, expires_at = await _access(request).logins.code_for(token)
    link = f"{place_asked(request.scope)}/login#{code}"
    return answer({"code": code, "link": link, "expires_at": expires_at}, 201)


@router.get("/browser-sessions", responses=answers("BrowserSessionList", 200))
async def list_browsers(
    request: Request, caller: Operator, limit: LimitQuery = USUAL, cursor: CursorQuery = None
) -> Response:
    """The browsers that are logged in, of the caller's tenant, the newest first."""
    page = _PAGES.of(await _access(request).logins.list(tenant=caller.tenant), limit, cursor)
    return answer({"browser_sessions": page.items, "next": page.next})


@router.delete(
    "/browser-sessions/{name}", status_code=204, responses=answers("", 204, "browser_session_not_found", changes=True)
)
async def end_browser(
    name: Annotated[str, Path(min_length=1, max_length=64, description="The browser session's id.")],
    request: Request,
    caller: Administrator,
) -> Response:
    """Log a browser out: here at once, in other processes within a second. Its open streams end soon."""
    if not await _access(request).logins.end(name, by=caller.principal):
        raise InvalidInput("There is no such browser session. List them.", code="browser_session_not_found")
    return Response(status_code=204)
