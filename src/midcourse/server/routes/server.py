"""The server itself: its agents, its tokens, its audit log, and who the caller is."""

from collections.abc import AsyncIterator
from typing import Annotated, Final, Literal, cast

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from midcourse.core.audit import Audited
from midcourse.core.interventions import LATEST
from midcourse.core.request_checks import check_audit
from midcourse.core.tenants import tenant_of
from midcourse.core.to_json import to_json
from midcourse.errors import AccessDenied, InvalidInput
from midcourse.handle.sessions import KnownAgent
from midcourse.server.auth import Access, credential_of
from midcourse.server.caller import Administrator, Operator, Reader, Watcher, checks_reach
from midcourse.server.openapi import Responses, answers
from midcourse.server.pages import USUAL, CursorQuery, LimitQuery, Pages
from midcourse.server.routes.path_parameters import TenantQuery
from midcourse.server.schemas import NewToken
from midcourse.server.to_json import answer, audit_view, principal_view, token_view
from midcourse.server.tokens import KeptToken, Once, TokenStore, digest_of, expiry

router = APIRouter(tags=["server"])
_AGENTS = Pages[KnownAgent]("agents", str, lambda one: one.name)
_AUDIT = Pages[Audited]("audit", tuple[Literal["after", "before"], int], lambda one: ("after", one.seq))
_TOKENS = Pages[KeptToken]("tokens", str, lambda one: one.key)


@router.get("/me", responses=answers("Principal", 200))
@checks_reach
async def me(caller: Reader) -> Response:
    """Get the caller's name and role."""
    return answer(principal_view(caller.principal))


@router.get("/agents", responses=answers("AgentList", 200))
async def agents(caller: Watcher, limit: LimitQuery = USUAL, cursor: CursorQuery = None) -> Response:
    """The agents that can be started here."""
    page = _AGENTS.of(await caller.sessions.agents(), limit, cursor)
    return answer({"agents": to_json(page.items), "next": page.next})


AuditSession = Annotated[str | None, Query(max_length=300, description="Those of one session.")]
AuditSince = Annotated[
    float | None, Query(ge=0, le=LATEST, allow_inf_nan=False, description="From this time on, in seconds since 1970.")
]
LINES: Final = "application/x-ndjson"


def _lines() -> Responses:
    found = answers("", 200)
    found[200] = {"description": "The file, as it is read.", "content": {LINES: {"schema": {"type": "string"}}}}
    return found


@router.get("/audit", responses=answers("AuditList", 200, "damaged"))
async def audit(
    caller: Operator,
    after: Annotated[int, Query(ge=0, le=2**53, description="`seq` of the last entry seen; 0: all.")] = 0,
    before: Annotated[
        int | None,
        Query(ge=0, le=2**53, description="In place of `after`: the last ones before this `seq`; 0: of all."),
    ] = None,
    session: AuditSession = None,
    since: AuditSince = None,
    tenant: TenantQuery = None,
    limit: LimitQuery = USUAL,
    cursor: CursorQuery = None,
) -> Response:
    """List who asked for or did what, over all sessions that the caller sees, oldest first.

    `after` and `before` say where to begin, and `cursor` continues from there. A page may have fewer than `limit`
    entries though more follow: continue until `next` is null. With `before` pages go backwards, each oldest first.
    """
    check_audit(after, limit, before)
    way, place = _AUDIT.after(cursor) or (("after", after) if before is None else ("before", before))
    named = None if session is None else caller.named(session)
    whose, where = caller.narrowed(tenant), (place, None) if way == "after" else (None, place)
    page = await caller.read(caller.sessions.audit_page(*where, limit=limit, session=named, since=since, tenant=whose))
    following = None if page.next is None else _AUDIT.cursor((way, page.next))
    return answer({"entries": audit_view(page.items), "next": following})


@router.get("/audit/export", responses=_lines())
async def export_audit(
    caller: Operator, session: AuditSession = None, since: AuditSince = None, tenant: TenantQuery = None
) -> Response:
    """Export the audit log as JSON lines that can be verified: `midcourse audit verify FILE` checks them anywhere.

    There is a line for every entry. Of one that the caller may not see, or did not ask for, it holds the digest alone,
    which is enough to show that nothing was changed or left out. The last line tells where the log ended; a file
    without one is not whole.
    """
    named = None if session is None else caller.named(session)
    whose, by = caller.narrowed(tenant), caller.principal.by
    pieces = caller.sessions.audit_export(session=named, since=since, tenant=whose, by=by)
    headers = {"Content-Disposition": 'attachment; filename="midcourse-audit.jsonl"'}
    first = [await anext(pieces), await anext(pieces)]  # a store that cannot be read is a problem, not a broken file

    async def whole() -> AsyncIterator[bytes]:
        for piece in first:
            yield piece
        async for piece in pieces:
            yield piece

    return StreamingResponse(whole(), headers=headers, media_type=LINES)


def _tokens(request: Request) -> TokenStore:
    return cast("Access", request.app.state.access).tokens


@router.get("/tokens", responses=answers("TokenList", 200))
async def list_tokens(
    request: Request, caller: Operator, limit: LimitQuery = USUAL, cursor: CursorQuery = None
) -> Response:
    """The tokens that were added, of the caller's tenant, without what makes them tokens."""
    page = _TOKENS.of(await _tokens(request).list(tenant=caller.tenant), limit, cursor)
    return answer({"tokens": [token_view(one) for one in page.items], "next": page.next})


@router.post(
    "/tokens",
    status_code=201,
    responses=answers("NewlyMadeToken", 201, "token_exists", "session_not_found", "idempotency_key_reused", body=True),
)
async def add_token(body: NewToken, request: Request, caller: Administrator) -> Response:
    """Make a token. It is shown this once: only its hash is kept. A retry with its Idempotency-Key is answered alike.

    A tenant's operator makes tokens of that tenant. Only the host's makes such that reach all of them.
    """
    session = None if body.session is None else caller.own_id(body.session)
    only = None if body.only is None else caller.own_id(body.only)
    if caller.tenant is not None and body.tenant not in (None, caller.tenant):
        raise AccessDenied(
            f"The token '{caller.principal.name}' is of tenant '{caller.tenant}' and makes tokens of that one alone. "
            "Leave tenant out.",
            code="forbidden",
        )
    tenant = body.tenant if caller.tenant is None else caller.tenant
    expires_at = expiry(body.lifetime, caller.clock.now())
    sender = credential_of(request.scope)
    once = Once(caller.key_digest, sender.token or sender.cookie) if caller.key is not None else None
    token = await _tokens(request).add(
        body.name, body.role, session, tenant=tenant, only=only, expires_at=expires_at, by=caller.principal, once=once
    )
    holder = await _tokens(request).holder(digest_of(token))
    expires_at = expires_at if holder is None else holder.expires_at
    reached = session or only
    tenant = tenant if reached is None else tenant_of(reached) or None
    shown = {"name": body.name, "role": "agent" if session else body.role, "session": session, "only": only}
    return answer({**shown, "tenant": tenant, "expires_at": expires_at, "token": token}, 201)


@router.delete("/tokens/{name}", status_code=204, responses=answers("", 204, "token_not_found", changes=True))
async def revoke_token(
    name: Annotated[
        str,
        Path(min_length=1, max_length=97, description="The token's name; of a tenant's, for the host, `acme~name`."),
    ],
    request: Request,
    caller: Administrator,
) -> Response:
    """Take a token away: here at once, in other processes within a second. Its open streams end soon."""
    if not await _tokens(request).revoke(name, by=caller.principal):
        raise InvalidInput(f"There is no token '{name}'.", code="token_not_found")
    return Response(status_code=204)
