"""Reports on interruptions against targets, the checklist, and the proposals of reviews."""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from midcourse.analysis.reports import review
from midcourse.analysis.reports.checklist import ChecklistItem, checklist
from midcourse.analysis.reports.checklist_inputs import grounds_of
from midcourse.analysis.reports.fleet import NAMELESS, Fleet, default_policy, report_on
from midcourse.analysis.reports.html import POLICY, page
from midcourse.analysis.reports.proposals import Proposal
from midcourse.analysis.reports.report import Report
from midcourse.core.interventions import LATEST
from midcourse.core.to_json import to_json
from midcourse.policy.schema import REFERENCE
from midcourse.policy.versions import resolved
from midcourse.ports.store import Store
from midcourse.server import schemas
from midcourse.server.caller import Administrator, Caller, Watcher
from midcourse.server.openapi import also, answers
from midcourse.server.pages import USUAL, CursorQuery, LimitQuery, Pages
from midcourse.server.to_json import answer

router = APIRouter(tags=["reports"])
WEEK: Final = 7 * 86_400.0
Since = Annotated[
    float | None,
    Query(
        ge=0,
        le=LATEST,
        allow_inf_nan=False,
        description="Sessions that began since: seconds since 1970. Left out: a week ago.",
    ),
]
PolicyName = Annotated[
    str | None, Query(pattern=REFERENCE, description="What sessions without one are held against; the server's own.")
]
ProposalPath = Annotated[str, Path(min_length=1, max_length=100, description="The proposal's id.")]

_PROPOSALS = Pages[Proposal]("proposals", tuple[float, str], lambda one: (-one.made_at, one.id))


def _store(caller: Caller) -> Store:
    return caller.store


async def _policy(caller: Caller, name: str | None) -> str:
    named = caller.local.worker.settings.policy if name is None else name
    return named if named in NAMELESS else await resolved(_store(caller), named, tenant=caller.tenant)


async def _report(caller: Caller, since: float | None, name: str) -> Report:
    now = caller.clock.now()
    default = await default_policy(_store(caller), name)
    begin = now - WEEK if since is None else since
    return await report_on(Fleet(_store(caller), begin, now, default=default, tenant=caller.tenant))


async def _items(caller: Caller, report: Report, name: str) -> tuple[ChecklistItem, ...]:
    policy = await default_policy(_store(caller), name)
    return checklist(report, await grounds_of(policy, _store(caller).durability))


@router.get("/reports", responses=also(answers("Report", 200, "policy_not_found", "damaged"), "text/html"))
async def get_report(
    caller: Watcher,
    since: Since = None,
    policy: PolicyName = None,
    format: Annotated[
        Literal["json", "html"], Query(description="A document, or a page for people that needs nothing else.")
    ] = "json",
) -> Response:
    """Get the report of a time: rates per class against their targets, times, false positives, costs.

    Every target that was missed is in `alerts`.
    """
    name = await _policy(caller, policy)

    async def shown() -> Response:
        found = await _report(caller, since, name)
        if format == "json":
            return answer(to_json(found))
        content = page(found, await _items(caller, found, name))
        return Response(content, headers={"Content-Security-Policy": POLICY}, media_type="text/html")

    return await caller.read(shown())


@router.get("/checklist", responses=answers("Checklist", 200, "policy_not_found", "damaged"))
async def get_checklist(caller: Watcher, since: Since = None, policy: PolicyName = None) -> Response:
    """Get the checklist before a policy goes live: each item holds, does not, or is unknown yet, with the number."""
    name = await _policy(caller, policy)

    async def shown() -> Response:
        found = await _report(caller, since, name)
        return answer({"items": to_json(await _items(caller, found, name))})

    return await caller.read(shown())


def _check_visible(caller: Caller, name: str) -> None:
    """Refuse a proposal of another tenant, in the words for one that is not there."""
    if not caller.sees(name):
        raise review.no_proposal(name)


@router.get("/proposals", responses=answers("ProposalList", 200, "damaged"))
async def list_proposals(
    caller: Watcher,
    state: Annotated[
        Literal["open", "accepted", "refused", "superseded"] | None, Query(description="Only those.")
    ] = None,
    limit: LimitQuery = USUAL,
    cursor: CursorQuery = None,
) -> Response:
    """List the thresholds that reviews proposed, per agent and person, newest first: with the evidence."""
    found = await caller.read(review.proposals(_store(caller), state=state, tenant=caller.tenant))
    page = _PROPOSALS.of(found, limit, cursor)
    return answer({"proposals": to_json(page.items), "next": page.next})


@router.post(
    "/proposals/{name}/accept",
    responses=answers(
        "Proposal", 200, "proposal_not_found", "proposal_settled", "policy_unchanged", "damaged", body=True
    ),
)
async def accept_proposal(name: ProposalPath, body: schemas.Settling, caller: Administrator) -> Response:
    """Save the policy that was proposed. Agents whose terms name it use it from their next session on."""
    now = caller.clock.now()
    _check_visible(caller, name)
    done = await review.accept(_store(caller), name, by=caller.principal.by, why=body.why, now=now)
    return answer(to_json(done))


@router.post(
    "/proposals/{name}/refuse",
    responses=answers("Proposal", 200, "proposal_not_found", "proposal_settled", "damaged", body=True),
)
async def refuse_proposal(name: ProposalPath, body: schemas.Settling, caller: Administrator) -> Response:
    """Say that it is not wanted, and why. The same is not proposed again."""
    now = caller.clock.now()
    _check_visible(caller, name)
    done = await review.refuse(_store(caller), name, by=caller.principal.by, why=body.why, now=now)
    return answer(to_json(done))
