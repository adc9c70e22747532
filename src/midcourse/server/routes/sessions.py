"""Sessions: create, list, show, inspect, fork; their events, receipts and results."""

import contextlib
from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec import Raw
from msgspec.structs import replace
from starlette.responses import Response

from midcourse.core.ids import SessionId
from midcourse.core.request_checks import REASON_LIMIT
from midcourse.core.session import ENDED, Session, Status
from midcourse.core.tenants import DEFAULT, in_tenant, tenant_of
from midcourse.core.terms import TaskClass, Terms
from midcourse.core.to_json import to_json
from midcourse.errors import InvalidInput, MidcourseError, Refused, SessionNotFound, StoreError
from midcourse.handle import SessionHandle
from midcourse.ports.store import Head, HeadQuery
from midcourse.server.caller import Caller, Eraser, Reader, Sender, Steerer, Watcher
from midcourse.server.fleet_changes import MOST
from midcourse.server.openapi import BODY, LAST_EVENT_ID, answers, streams
from midcourse.server.pages import CursorQuery, Pages, not_a_cursor
from midcourse.server.routes.path_parameters import DigestPath, SessionPath, TenantQuery
from midcourse.server.schemas import LONGEST_WAIT, Fork, NewSession
from midcourse.server.stream import PIECE, Stream, beginning, check_after, event_frames, list_frames, wants_stream
from midcourse.server.to_json import answer, etag_of, event_view, head_view, inspection_view, receipt_view, session_view

router = APIRouter(tags=["sessions"])
PAGE_BYTES = 2 * 1024 * 1024
"""A page of events ends early if they are large; `next` says so."""
PAGE = 200
"""The most sessions of one page."""
_PAGES = Pages[Head]("sessions", str, lambda one: one.id)
EventPosition = Annotated[int, Query(ge=0, le=2**53, description="The position of the last event seen; 0: all.")]


@router.post(
    "/sessions",
    status_code=201,
    responses=answers(
        "Session",
        200,
        201,
        "agent_unavailable",
        "session_exists",
        "idempotency_key_reused",
        "draining",
        headers=("ETag", "Location"),
        body=True,
    ),
)
async def create_session(body: NewSession, caller: Sender) -> Response:
    """Give an agent a goal. With an Idempotency-Key a retry finds the session that the first try made."""
    session_id = caller.derived_session_id() if body.session_id is None else caller.own_id(body.session_id)
    if body.tenant is not None:
        session_id = in_tenant(caller.narrowed(body.tenant) or DEFAULT, session_id)
    agent = caller.local.worker.agents.get(body.agent)
    terms = _terms(body, agent.terms if agent else Terms())
    try:
        await caller.sessions.start(body.agent, body.goal, session_id=session_id, terms=terms, by=caller.principal.by)
    except StoreError as error:
        if error.code != "session_exists" or caller.key is None:
            raise
        session = await caller.session(session_id)
        # As it was created: its budget may have been raised since.
        first = await caller.session_at(session_id, 1)
        # The version of its policy was settled when it began.
        wanted = replace(terms or (agent.terms if agent else Terms()), policy=first.terms.policy)
        if (first.agent, first.messages[0].text, first.terms) != (body.agent, body.goal, wanted):
            raise Refused(
                "This Idempotency-Key was used before, for another session. Use a fresh one for each.",
                code="idempotency_key_reused",
                session_id=session_id,
            ) from None
        return _shown(session, caller)
    return _shown(await caller.session(session_id), caller, status=201)


def _terms(body: NewSession, own: Terms) -> Terms | None:
    if body.task_class is None and body.budget is None and not body.labels:
        return None
    labels = tuple(dict.fromkeys((*own.labels, *body.labels)))
    return replace(own, task_class=body.task_class or own.task_class, budget=body.budget or own.budget, labels=labels)


def _shown(session: Session, caller: Caller, status: int = 200) -> Response:
    headers = {"ETag": etag_of(session)}
    if status == 201:
        headers["Location"] = caller.address(f"/api/v1/sessions/{session.id}")
    return answer(session_view(session, caller.role, caller.principal.by), status, headers)


@router.get("/sessions", responses=streams("SessionList", "session_not_found"))
async def list_sessions(
    request: Request,
    caller: Watcher,
    status: Annotated[list[Status] | None, Query(description="Any of these; may be repeated.")] = None,
    agent: Annotated[str | None, Query(max_length=200, description="Those of one agent.")] = None,
    task_class: Annotated[TaskClass | None, Query(description="Those of one task class.")] = None,
    label: Annotated[str | None, Query(max_length=64, description="Those with this label.")] = None,
    search: Annotated[str, Query(max_length=1000, description="Words of the id, agent or goal, in any case.")] = "",
    tenant: TenantQuery = None,
    limit: Annotated[int, Query(ge=1, le=MOST, description="How many at most; a page has 200 at most.")] = 50,
    before: Annotated[str | None, Query(max_length=300, description="Those older than this one: its id.")] = None,
    cursor: CursorQuery = None,
) -> Response:
    """Sessions, newest first: a page, or (`Accept: text/event-stream`) the newest, and then what changes of them.

    A stream's first frame says `all`; each names the `sessions` that changed and those that are `gone` from it, and
    `counts` says, when it has changed, how many of the whole fleet (of this filter, but in any status) there are in
    each status.
    """
    whose = caller.narrowed(tenant)
    seen = _PAGES.after(cursor)
    if seen is not None and not (caller.sees(seen) and await _exists(caller, seen)):
        raise not_a_cursor()
    if seen is None and before is not None:
        seen = caller.named(before)
        caller.check_visible(seen)
        await caller.local.worker.must_exist(seen)
    query = HeadQuery(
        statuses=[one.value for one in status or ()],
        agent=agent,
        search=search,
        tenant=whose,
        task_class=task_class,
        label=label,
        limit=limit,
        before=None if seen is None else SessionId(seen),
    )
    if wants_stream(request):
        if seen is not None:
            sentence = "A stream has no pages. Leave cursor and before out, or ask for a page."
            raise InvalidInput(sentence, field="before" if cursor is None else "cursor")
        await caller.board.look()  # a store that cannot be read is a problem document, and no stream that breaks off
        return Stream(list_frames(caller.board, query), caller)
    limit = min(limit, PAGE)
    heads = (await caller.sessions.page(replace(query, limit=limit + 1))).items
    page = _PAGES.first(heads, limit)
    return answer({"sessions": [head_view(head) for head in page.items], "next": page.next})


async def _exists(caller: Caller, session_id: str) -> bool:
    try:
        await caller.local.find(session_id)
    except SessionNotFound:
        return False
    return True


@router.get(
    "/sessions/{session_id}", responses=answers("Session", 200, "session_not_found", "damaged", headers=("ETag",))
)
async def get_session(session_id: SessionPath, caller: Reader) -> Response:
    """Get a session by its journal, and what the caller may do with it now."""
    return _shown(await caller.session(session_id), caller)


@router.get("/sessions/{session_id}/contact", responses=answers("Contact", 200, "session_not_found"))
async def get_contact(session_id: SessionPath, caller: Reader) -> Response:
    """Commands that are stored and not decided yet, and whether the worker answers: what the journal cannot tell."""
    return answer(to_json(await caller.local.contact(SessionId(session_id))))


@router.get("/sessions/{session_id}/inspect", responses=answers("Inspection", 200, "session_not_found", "damaged"))
async def inspect_session(
    session_id: SessionPath,
    caller: Reader,
    at: Annotated[int | None, Query(ge=1, le=2**53, description="A journal position; left out: now.")] = None,
) -> Response:
    """Get the session as it was at a position: messages, plan, steps, open calls and asks, state and history."""

    async def shown() -> Response:
        return answer(
            inspection_view(await caller.local.inspect(SessionId(session_id), at), caller.role, caller.principal.by)
        )

    return await caller.read(shown())


@router.post(
    "/sessions/{session_id}/fork",
    status_code=201,
    responses=answers(
        "Session",
        200,
        201,
        "session_not_found",
        "session_exists",
        "session_erased",
        "session_discarded",
        "idempotency_key_reused",
        "precondition_failed",
        "damaged",
        headers=("ETag", "Location"),
        body=True,
    ),
)
async def fork_session(session_id: SessionPath, caller: Steerer, body: Annotated[Fork | None, BODY] = None) -> Response:
    """Make a new session that continues from a point of this one. What had finished by then is not done again."""
    wish = body or Fork()
    new = in_tenant(tenant_of(session_id), wish.session_id or caller.derived_session_id())
    caller.check_reach(new)
    if caller.has_condition and not (caller.key is not None and await _exists(caller, new)):
        caller.check_match(await caller.session(session_id))
    try:
        handle = await _handle(caller, session_id)
        await caller.read(handle.fork(wish.at, session_id=new, paused=wish.paused, by=caller.principal.by))
    except StoreError as error:
        if error.code != "session_exists" or caller.key is None:
            raise
        session = await caller.session(new)
        source, _, position = session.forked_from.rpartition("@")
        if source != session_id or wish.at not in (None, int(position)):
            raise Refused(
                "This Idempotency-Key was used before, for something else. Use a fresh one for each.",
                code="idempotency_key_reused",
                session_id=new,
            ) from None
        return _shown(session, caller)
    return _shown(await caller.session(new), caller, status=201)


async def _handle(caller: Caller, session_id: str) -> SessionHandle[object]:
    return await caller.sessions.get(session_id)


@router.get(
    "/sessions/{session_id}/events",
    responses=streams("EventList", "session_not_found", "damaged"),
    openapi_extra=LAST_EVENT_ID,
)
async def get_events(
    session_id: SessionPath,
    request: Request,
    caller: Reader,
    after: EventPosition = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="For a page; a stream sends all.")] = 100,
    deltas: Annotated[bool, Query(description="For a stream: previews of streamed text too.")] = False,
    follow: Annotated[bool, Query(description="For a stream: continue after the end of a turn.")] = True,
) -> Response:
    """Get every event once, in order: a page of JSON, or (`Accept: text/event-stream`) a stream as they become durable.

    A lost stream continues with `Last-Event-ID`, also after the server was restarted. If the journal has no such event,
    the first is `event: reset`, and everything follows from the start. `event: caught_up` comes once, after what was
    there when it was opened; `event: end` is the last and has the reason.
    """
    identity = SessionId(session_id)
    end = (await caller.local.worker.must_exist(identity)).head.position
    if wants_stream(request):
        start, lost = beginning(request, after, identity, end)
        ends = caller.leaving.ended.is_set
        batches = caller.local.batches(identity, after=start, deltas=deltas, follow=follow, limit=PIECE, ends=ends)
        return Stream(event_frames(batches, start, end, ends, lost), caller, flushes=True)
    start = check_after(request, after, identity, end)
    events = await caller.local.events(identity, start, limit, most_bytes=PAGE_BYTES)
    is_page_full = len(events) == limit or (events and events[-1].position < end)
    more = events[-1].position if is_page_full else None
    return answer({"events": [event_view(one) for one in events], "next": more})


@router.get("/sessions/{session_id}/receipt", responses=answers("Receipt", 200, "session_not_found", "damaged"))
async def get_receipt(session_id: SessionPath, caller: Reader) -> Response:
    """Get the outcome of each effect: undone, kept, cannot be undone, …, unknown. Provisional until `final`."""
    handle = await _handle(caller, session_id)

    async def shown() -> Response:
        return answer(receipt_view(await handle.receipt()))

    return await caller.read(shown())


@router.get(
    "/sessions/{session_id}/cancel/preview",
    responses=answers("CancelPreview", 200, "session_not_found", "operator_only", "damaged"),
)
async def preview_cancel(
    session_id: SessionPath,
    caller: Reader,
    force: Annotated[bool, Query(description="What a cancel with `force` would; refused as that would be.")] = False,
    restart: Annotated[bool, Query(description="What one with `force` and `restart` would.")] = False,
) -> Response:
    """Preview what a cancel would make of each effect, for each choice of `undo`. Nothing is changed."""
    handle = await _handle(caller, session_id)

    async def shown() -> Response:
        found = await handle.preview(force=force, restart=restart)
        return answer({choice: receipt_view(receipt) for choice, receipt in found.items()})

    return await caller.read(shown())


@router.get("/sessions/{session_id}/result", responses=answers("Result", 200, "session_not_found", "damaged"))
async def get_result(
    session_id: SessionPath,
    caller: Reader,
    wait: Annotated[
        float, Query(ge=0, le=LONGEST_WAIT, allow_inf_nan=False, description="Seconds to wait for the end.")
    ] = 0.0,
) -> Response:
    """Get the agent's result, or why there is none; waits up to `wait` seconds for that."""
    handle = await _handle(caller, session_id)
    with contextlib.suppress(TimeoutError, MidcourseError):  # how it stands is told below
        await handle.result(timeout=wait)
    session = await handle.state()
    shown: dict[str, object] = {"status": session.status, "ended": session.status in ENDED, "result": None}
    shown["failure"] = to_json(session.failure)
    if session.status is Status.COMPLETED and session.result is not None:
        shown["result"] = Raw(await caller.local.content(session.result))
    return answer(shown)


@router.delete(
    "/sessions/{session_id}/payloads",
    responses=answers(
        "Session",
        200,
        "session_not_found",
        "not_ended",
        "session_busy",
        "precondition_failed",
        "invalid_input",
        "damaged",
        headers=("ETag",),
        changes=True,
    ),
)
async def erase_session(
    session_id: SessionPath,
    caller: Eraser,
    children: Annotated[bool, Query(description="Its children, too.")] = False,
    reason: Annotated[str, Query(max_length=REASON_LIMIT, description="Why. It stays.")] = "",
) -> Response:
    """Erase what anybody wrote in a session that has ended. It cannot be taken back.

    When what happened, states, costs, names of agents and tools, and who did what stay, with the digests that prove it.
    """
    session = await caller.session(session_id)
    caller.check_match(session)
    handle = await _handle(caller, session_id)
    await caller.read(handle.erase(reason, children=children, by=caller.principal.by))
    return _shown(await caller.session(session_id), caller)


@router.get(
    "/sessions/{session_id}/blobs/{digest}",
    responses=answers("Blob", 200, "session_not_found", "blob_not_found", "damaged"),
)
async def get_blob(session_id: SessionPath, digest: DigestPath, caller: Reader) -> Response:
    """A value above 32 KB, which events of this session name by its digest."""
    content = await caller.read(caller.local.blob(SessionId(session_id), digest))
    if content is None:
        raise InvalidInput(f"There is no blob '{digest[:100]}'.", code="blob_not_found")
    return Response(content, media_type="application/json")
