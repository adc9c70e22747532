"""The interventions of policies: of one session, over all, and in the batches of notifications."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from midcourse.core.interventions import LATEST, LONGEST_GATHER, Intervention, LabelFilter, LabelledAlarm
from midcourse.core.to_json import to_json
from midcourse.people.alarms import alarms_in_batches, interventions_in
from midcourse.policy.alarm_batches import Batch
from midcourse.policy.intervention_shelf import alarm_key
from midcourse.server.caller import Reader, Watcher
from midcourse.server.openapi import answers
from midcourse.server.pages import USUAL, CursorQuery, LimitQuery, Pages
from midcourse.server.routes.path_parameters import SessionPath, TenantQuery
from midcourse.server.to_json import answer, batch_view, intervention_view

router = APIRouter(tags=["interventions"])


def _batch_order(batch: Batch) -> tuple[float, float, str, str, str]:
    first = batch.alarms[0]
    return (-batch.ready_at, -batch.since, batch.person, first.session, first.intervention)


_OF_SESSION = Pages[tuple[int, Intervention]]("session-interventions", int, lambda one: one[0])
_NEWEST = Pages[LabelledAlarm]("interventions", str, alarm_key)
_BATCHES = Pages("alarms", tuple[float, float, str, str, str], _batch_order)


@router.get(
    "/sessions/{session_id}/interventions", responses=answers("InterventionList", 200, "session_not_found", "damaged")
)
async def get_interventions(
    session_id: SessionPath, caller: Reader, limit: LimitQuery = USUAL, cursor: CursorQuery = None
) -> Response:
    """List the interventions of policies, and of the agent itself, oldest first: reasons and arithmetic."""
    handle = await caller.sessions.get(session_id)

    async def shown() -> Response:
        page = _OF_SESSION.of(enumerate(await handle.interventions()), limit, cursor)
        return answer({"interventions": [intervention_view(one) for _, one in page.items], "next": page.next})

    return await caller.read(shown())


@router.get("/sessions/{session_id}/signals", responses=answers("Signals", 200, "session_not_found", "damaged"))
async def get_signals(session_id: SessionPath, caller: Reader) -> Response:
    """Get each signal that has a value or a threshold: its state, since when, and its course.

    Measured from the journal as the session's policy does; of a history at most 200 points, with every extreme.
    """
    handle = await caller.sessions.get(session_id)

    async def shown() -> Response:
        return answer(to_json(await handle.signals()))

    return await caller.read(shown())


@router.get("/interventions", responses=answers("AlarmList", 200, "damaged"))
async def list_interventions(
    caller: Watcher,
    since: Annotated[
        float | None,
        Query(ge=0, le=LATEST, allow_inf_nan=False, description="From this time on, in seconds since 1970."),
    ] = None,
    agent: Annotated[str | None, Query(max_length=200, description="Those of one agent.")] = None,
    label: Annotated[
        LabelFilter | None, Query(description="Those that were labelled so; `none`: those without a label.")
    ] = None,
    limit: LimitQuery = USUAL,
    cursor: CursorQuery = None,
    tenant: TenantQuery = None,
) -> Response:
    """Interventions over all sessions, newest first, each with the last label. A new one is listed within a moment."""

    async def shown() -> Response:
        found = await interventions_in(
            caller.store,
            since=since,
            agent=agent,
            label=label,
            limit=limit + 1,
            tenant=caller.narrowed(tenant),
            before=_NEWEST.after(cursor) or "",
        )
        page = _NEWEST.first(found, limit)
        return answer({"interventions": [intervention_view(one) for one in page.items], "next": page.next})

    return await caller.read(shown())


@router.get("/alarms", responses=answers("BatchList", 200, "damaged"))
async def list_alarms(
    caller: Watcher,
    person: Annotated[str | None, Query(max_length=1000, description="Those of one person's sessions.")] = None,
    gather: Annotated[
        float | None,
        Query(
            ge=0,
            le=LONGEST_GATHER,
            allow_inf_nan=False,
            description="Seconds for which what does not interrupt is gathered; left out, as its policy says.",
        ),
    ] = None,
    limit: LimitQuery = USUAL,
    cursor: CursorQuery = None,
    tenant: TenantQuery = None,
) -> Response:
    """List interventions in batches, as people are notified, newest first. An interruption comes at once, alone."""

    async def shown() -> Response:
        whom = person and caller.person(person)
        whose = caller.narrowed(tenant)
        store, now = caller.store, caller.clock.now()
        found = await alarms_in_batches(store, now, person=whom, gather=gather, tenant=whose)
        page = _BATCHES.of(found, limit, cursor)
        return answer({"batches": [batch_view(one) for one in page.items], "next": page.next})

    return await caller.read(shown())
