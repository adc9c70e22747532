"""Endpoints for operators: liveness, readiness, and metrics."""

from ipaddress import ip_address
from typing import Annotated, Final, cast

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from midcourse.errors import AccessDenied
from midcourse.handle import LocalTransport
from midcourse.server.auth import access_of
from midcourse.server.caller import NEEDED, Caller, caller_with
from midcourse.server.health import Health
from midcourse.server.host_threads import ReadingThread
from midcourse.server.limits import Streams
from midcourse.server.metrics import StoreMetrics
from midcourse.server.openapi import open_answers, text_answers
from midcourse.server.problems import problem_response
from midcourse.server.to_json import answer

router = APIRouter(tags=["operations"])
_FRESH: Final = {"Cache-Control": "no-store"}
_watcher = caller_with("watch")


@router.get("/healthz", responses=open_answers("Health"))
async def health() -> Response:
    """Check that it answers at all: one that does not must be restarted. Needs no token."""
    return answer({"status": "ok"}, headers=_FRESH)


@router.get("/readyz", responses=open_answers("Readiness", "not_ready", "draining"))
async def readiness(request: Request) -> Response:
    """Check whether it can take work: its store can be written to, it hears commands, and it is not about to end."""
    state = request.app.state
    local = cast("LocalTransport | None", getattr(state, "local", None))
    found = await cast("Health", state.health).readiness(local, is_leaving=state.leaving.is_announced)
    again = {**_FRESH, "Retry-After": "1"}
    if found.wrong:
        sentence = f"This server is not ready. {found.wrong[0].upper()}{found.wrong[1:]}. Send requests to another one."
        return problem_response(503, "not_ready", sentence, again, checks=found.checks)
    if found.is_draining:
        sentence = "This server is about to end. Send requests to another one."
        return problem_response(503, "draining", sentence, again, checks=found.checks)
    return answer({"status": "ready", "checks": found.checks}, headers=_FRESH)


async def scraper(request: Request) -> Caller | None:
    """Authorize a reader of the metrics: a host's token, or, if the server was started so, anyone on this machine."""
    access_of(request.app)
    if request.app.state.metrics_open and _is_here(request):
        return None
    caller = await _watcher(request)
    if caller.tenant is not None:
        raise AccessDenied(
            f"The figures are of all tenants together, and this token is of the tenant '{caller.tenant}'. "
            "Use a token that belongs to no tenant.",
            code="forbidden",
        )
    return caller


NEEDED[scraper] = "watch"


def _is_here(request: Request) -> bool:
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:
        return False


@router.get("/metrics", responses=text_answers())
async def metrics(request: Request, _caller: Annotated[Caller | None, Depends(scraper)]) -> Response:
    """Get the metrics for Prometheus, in the text format or, if `Accept` asks for it, as OpenMetrics."""
    state = request.app.state
    content, kind = await cast("StoreMetrics", state.metering).text(
        cast("LocalTransport", state.local),
        cast("ReadingThread", state.reading),
        len(cast("Streams", state.streams)),
        request.headers.get("accept", ""),
    )
    return Response(content, headers={**_FRESH, "Content-Type": kind})
