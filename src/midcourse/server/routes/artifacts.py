"""What agents made themselves: which of it somebody should look at, and that somebody has."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from midcourse.core.ids import SessionId
from midcourse.core.to_json import to_json
from midcourse.server import schemas
from midcourse.server.caller import Sender, Watcher
from midcourse.server.openapi import answers
from midcourse.server.routes.path_parameters import SessionPath, TenantQuery
from midcourse.server.to_json import answer

router = APIRouter(tags=["inbox"])


@router.get("/artifacts", responses=answers("ArtifactList", 200, "damaged"))
async def list_artifacts(
    caller: Watcher,
    session: Annotated[str | None, Query(min_length=1, max_length=300, description="Those of one session.")] = None,
    due: Annotated[bool, Query(description="Those alone that somebody should look at by now.")] = False,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
    tenant: TenantQuery = None,
) -> Response:
    """What agents told they made, the most urgent first.

    What nobody documented is due at once, everything else every seven days, or as often as its policy says.
    """
    whose, named = caller.narrowed(tenant), session and caller.named(session)

    async def shown() -> Response:
        found = await caller.sessions.artifacts(session=named, due=due, limit=limit, tenant=whose)
        return answer({"artifacts": to_json(found)})

    return await caller.read(shown())


@router.post(
    "/sessions/{session_id}/artifacts/reviewed",
    responses=answers("Artifact", 200, "session_not_found", "artifact_not_found", "damaged", body=True),
)
async def review_artifact(session_id: SessionPath, caller: Sender, body: schemas.ReviewedArtifact) -> Response:
    """Say that you have looked at an artifact, and what it is: it comes up again later. A session's token may not."""
    await caller.store.head(SessionId(session_id))
    done = await caller.sessions.reviewed(session_id, body.name, body.documentation, by=caller.principal.by)
    return answer(to_json(done))
