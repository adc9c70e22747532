"""The kill switch: an operator's standing emergency halt over a scope. Lifting it resumes nothing by itself."""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Depends, Path
from starlette.responses import Response

from midcourse.core.ids import SessionId
from midcourse.core.switches import Released, Scope, SwitchReport, check_scope
from midcourse.core.to_json import to_json
from midcourse.errors import AccessDenied
from midcourse.server import schemas
from midcourse.server.caller import Caller, Reckoner, Watcher, sender_with
from midcourse.server.openapi import answers
from midcourse.server.pages import USUAL, CursorQuery, LimitQuery, Pages
from midcourse.server.to_json import answer, switch_view

router = APIRouter(prefix="/kill-switches", tags=["kill switch"])
SwitchPath = Annotated[str, Path(min_length=1, max_length=100, description="The kill switch's id.")]
SwitchOperator = Annotated[Caller, Depends(sender_with("operate"))]


def _order(report: SwitchReport) -> tuple[bool, float, str]:
    one = report.switch
    return (not one.stands, -(one.at if one.lifted_at is None else one.lifted_at), one.id)


_PAGES = Pages("kill-switches", tuple[bool, float, str], _order)


def _scope(caller: Caller, wish: schemas.SwitchScope) -> Scope:
    return check_scope(wish.kind, wish.value, caller.tenant)


async def _own(caller: Caller, switch: str) -> SwitchReport:
    """A switch that the caller may know of; another tenant's is none."""
    return _visible(caller, await caller.sessions.kill_switch.report(switch, tenant=caller.tenant))


def _visible(caller: Caller, report: SwitchReport) -> SwitchReport:
    """Return the report for the caller: of a switch over everybody's sessions a tenant sees those of its own."""
    seen = tuple(one for one in report.sessions if caller.sees(one.session))
    return SwitchReport(report.switch, seen, report.durable, report.hint)


def _check_own(caller: Caller, report: SwitchReport) -> None:
    """Refuse a tenant that would lift the host's switch."""
    scope = report.switch.scope
    own = scope.value if scope.kind == "tenant" and scope.tenant is not None else scope.tenant
    if caller.tenant is not None and own != caller.tenant:
        raise AccessDenied(
            f"Kill switch '{report.switch.id}' was thrown by the host of this server, who lifts it.", code="forbidden"
        )


@router.get("", responses=answers("SwitchList", 200, "damaged"))
async def list_kill_switches(caller: Watcher, limit: LimitQuery = USUAL, cursor: CursorQuery = None) -> Response:
    """The kill switches: those that stand first, then those that were lifted, newest first."""

    async def shown() -> Response:
        page = _PAGES.of(await caller.sessions.kill_switch.reports(tenant=caller.tenant, limit=None), limit, cursor)
        views = [switch_view(_visible(caller, one), whole=False) for one in page.items]
        return answer({"switches": views, "next": page.next})

    return await caller.read(shown())


@router.post("/preview", responses=answers("SwitchCount", 200, body=True))
async def preview_kill_switch(body: schemas.PreviewSwitch, caller: Reckoner) -> Response:
    """Preview what a kill switch over this scope would halt now. Nothing is changed."""
    scope = _scope(caller, body.scope)

    async def shown() -> Response:
        found = await caller.sessions.kill_switch.preview(scope)
        return answer({"count": found.count, **to_json(found), "sentence": str(found)})

    return await caller.read(shown())


@router.post(
    "", status_code=201, responses=answers("SwitchReport", 201, "idempotency_key_reused", body=True, changes=True)
)
async def throw_kill_switch(body: schemas.ThrowSwitch, caller: SwitchOperator) -> Response:
    """Halt every session in the scope, and whatever starts there, until it is lifted. Undoes nothing.

    The answer says what is known of each session: stopped, still running, or not reachable. With an Idempotency-Key a
    retry finds the switch that the first try threw.
    """
    switch = None
    if caller.key is not None:
        switch = f"ks_{hashlib.blake2b(caller.command_id.encode(), digest_size=10).hexdigest()}"
    scope = _scope(caller, body.scope)
    report = await caller.sessions.kill_switch.throw(
        scope, body.reason, by=caller.principal.by, role=caller.role, wait=body.wait, switch=switch
    )
    return answer(switch_view(_visible(caller, report)), 201)


@router.get("/{switch}", responses=answers("SwitchReport", 200, "kill_switch_not_found", "damaged"))
async def get_kill_switch(switch: SwitchPath, caller: Watcher) -> Response:
    """Get a kill switch, and what is known now of every session that it holds."""

    async def shown() -> Response:
        return answer(switch_view(await _own(caller, switch)))

    return await caller.read(shown())


@router.post(
    "/{switch}/lift",
    responses=answers("SwitchReport", 200, "kill_switch_not_found", "already_lifted", "damaged", body=True),
)
async def lift_kill_switch(switch: SwitchPath, body: schemas.LiftSwitch, caller: SwitchOperator) -> Response:
    """End it: what starts from here on runs. The sessions that it halted stay halted until they are released."""
    found = await _own(caller, switch)
    _check_own(caller, found)
    is_retry = (found.switch.lifted_by, found.switch.lifted_why) == (caller.principal.by, body.why)
    if caller.key is not None and not found.switch.stands and is_retry:
        return answer(switch_view(found))
    report = await caller.sessions.kill_switch.lift(found.switch.id, body.why, by=caller.principal.by, role=caller.role)
    return answer(switch_view(_visible(caller, report)))


@router.post(
    "/{switch}/release",
    responses=answers("ReleasedList", 200, "kill_switch_not_found", "kill_switch_stands", "damaged", body=True),
)
async def release_halted(switch: SwitchPath, body: schemas.ReleaseHalted, caller: SwitchOperator) -> Response:
    """Let the sessions that it halted go back to where they were: those that are named, or all."""
    report = await _own(caller, switch)
    held = [one.session for one in report.sessions]
    named = held if body.sessions is None else [caller.named(one) for one in body.sessions]
    done = await caller.sessions.kill_switch.release(
        report.switch.id,
        [one for one in named if caller.sees(one)],
        by=caller.principal.by,
        role=caller.role,
        wait=body.wait,
    )
    hidden = [_not_there(one) for one in named if not caller.sees(one)]
    return answer({"outcomes": to_json([*done, *hidden])})


def _not_there(session: str) -> Released:
    problem = f"There is no session '{session}' here."
    return Released(session=SessionId(session), ok=False, code="session_not_found", problem=problem)
