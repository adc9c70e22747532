"""The server itself: its agents, its tokens, its audit log, who the caller is, and whether it lives."""

from typing import Annotated, cast

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from midcourse.api import Midcourse
from midcourse.core.ids import SessionId
from midcourse.errors import InvalidInput
from midcourse.server.auth import Access
from midcourse.server.caller import Operator, Watcher, checks_reach
from midcourse.server.documents import answers, open_answers
from midcourse.server.schemas import NewToken
from midcourse.server.tokens import Tokens
from midcourse.server.views import agent_view, answer, audit_view, principal_view, token_view

router = APIRouter(tags=["server"])


@router.get("/healthz", responses=open_answers("Health"))
async def health() -> Response:
    """Whether it answers. Needs no token."""
    return answer({"status": "ok"})


@router.get("/me", responses=answers("Principal", 200))
@checks_reach
async def me(caller: Watcher) -> Response:
    """Who the caller is, and its role."""
    return answer(principal_view(caller.principal))


@router.get("/agents", responses=answers("AgentList", 200))
async def agents(caller: Watcher) -> Response:
    """The agents that can be started here."""
    known = caller.control.worker.agents
    return answer({"agents": [agent_view(known[name]) for name in sorted(known)]})


@router.get("/audit", responses=answers("AuditList", 200, "damaged"))
async def audit(
    caller: Operator,
    after: Annotated[int, Query(ge=0, le=2**53, description="`seq` of the last entry seen; 0: all.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
) -> Response:
    """Who wished or did what to which session, over all sessions, oldest first."""
    entries = await Midcourse(caller.control).audit(after, limit)
    more = entries[-1].seq if len(entries) == limit else None
    return answer({"entries": audit_view(entries), "next": more})


def _tokens(request: Request) -> Tokens:
    return cast("Access", request.app.state.access).tokens


@router.get("/tokens", responses=answers("TokenList", 200))
async def list_tokens(request: Request, _caller: Operator) -> Response:
    """The tokens that were added, without what makes them tokens."""
    return answer({"tokens": [token_view(one) for one in await _tokens(request).list()]})


@router.post("/tokens", status_code=201, responses=answers("NewlyMadeToken", 201, "token_exists", body=True))
async def add_token(body: NewToken, request: Request, _caller: Operator) -> Response:
    """Make a token. It is shown this once: only its hash is kept."""
    session = None if body.session is None else SessionId(body.session)
    token = await _tokens(request).add(body.name, body.role, session)
    return answer({"name": body.name, "role": body.role, "session": session, "token": token}, 201)


@router.delete("/tokens/{name}", status_code=204, responses=answers("", 204, "token_not_found", changes=True))
async def revoke_token(
    name: Annotated[str, Path(min_length=1, max_length=64, description="The token's name.")],
    request: Request,
    _caller: Operator,
) -> Response:
    """Take a token away: here at once, in other processes within a second. Its open streams end soon."""
    if not await _tokens(request).revoke(name):
        raise InvalidInput(f"There is no token '{name}'.", code="token_not_found")
    return Response(status_code=204)
