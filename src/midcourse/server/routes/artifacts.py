"""The artifacts of agents: which of them are due for review, and reviews of people."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from midcourse.core.ids import SessionId
from midcourse.core.to_json import to_json
from midcourse.policy.artifact_shelf import read_artifacts
from midcourse.policy.artifacts import due_order
from midcourse.server import schemas
from midcourse.server.caller import Sender, Watcher
from midcourse.server.openapi import answers
from midcourse.server.pages import USUAL, CursorQuery, LimitQuery, Pages
from midcourse.server.routes.path_parameters import SessionPath, TenantQuery
from midcourse.server.to_json import answer

router = APIRouter(tags=["inbox"])
_PAGES = Pages("artifacts", tuple[float, str, int], due_order)


@router.get("/artifacts", responses=answers("ArtifactList", 200, "damaged"))
async def list_artifacts(
    caller: Watcher,
    session: Annotated[str | None, Query(min_length=1, max_length=300, description="Those of one session.")] = None,
    due: Annotated[bool, Query(description="Only those that are due for a review.")] = False,
    limit: LimitQuery = USUAL,
    cursor: CursorQuery = None,
    tenant: TenantQuery = None,
) -> Response:
    """List the artifacts that agents reported, the most urgent first.

    One without documentation is due at once, every other every seven days, or as often as its policy says.
    """
    whose, named = caller.narrowed(tenant), session and caller.named(session)

    async def shown() -> Response:
        store, now = caller.store, caller.clock.now()
        found = await read_artifacts(store, session=named, tenant=whose)
        page = _PAGES.of((one for one in found if not due or one.is_due(now)), limit, cursor)
        return answer({"artifacts": to_json(page.items), "next": page.next})

    return await caller.read(shown())


@router.post(
    "/sessions/{session_id}/artifacts/reviewed",
    responses=answers("Artifact", 200, "session_not_found", "artifact_not_found", "damaged", body=True),
)
async def review_artifact(session_id: SessionPath, caller: Sender, body: schemas.ReviewedArtifact) -> Response:
    """Mark an artifact as reviewed, with its documentation: it comes up again later. A session's token may not."""
    await caller.store.head(SessionId(session_id))
    done = await caller.sessions.reviewed(session_id, body.name, body.documentation, by=caller.principal.by)
    return answer(to_json(done))
