"""The inbox: what people are asked over all sessions, whose it is, and who stands in for whom."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, NamedTuple, cast

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from midcourse.core.ids import SessionId
from midcourse.core.tenants import MARK, tenant_of
from midcourse.core.to_json import to_json
from midcourse.errors import InvalidInput
from midcourse.people.alarms import waiting_beside_asks
from midcourse.people.inbox import PeopleInbox
from midcourse.people.inbox_rules import Inbox, ask_order, check_hand_over, check_name
from midcourse.policy.alarm_batches import Batch
from midcourse.policy.artifacts import Artifact
from midcourse.server import schemas
from midcourse.server.auth import Access
from midcourse.server.caller import Caller, Sender, Watcher
from midcourse.server.openapi import BODY, answers, streams
from midcourse.server.pages import USUAL, CursorQuery, Pages
from midcourse.server.routes.path_parameters import SessionPath, TenantQuery
from midcourse.server.stream import Stream, frame, wants_stream
from midcourse.server.to_json import answer

router = APIRouter(tags=["inbox"])
AskPath = Annotated[str, Path(min_length=1, max_length=200, description="The ask's id, such as ask_1.")]
EVERY = 0.5
"""Seconds between two looks at what is asked."""
_ASKS = Pages("inbox", tuple[float, float, str, str], ask_order)
SELDOM = 10
"""The number of polls between two reads of the less urgent: alarms, artifacts, and how many sessions run."""


class _Slow(NamedTuple):
    """The less urgent parts."""

    alarms: tuple[Batch, ...]
    artifacts: tuple[Artifact, ...]
    running: int


@router.get("/inbox", responses=streams("Inbox", "damaged", frames="InboxChange"))
async def get_inbox(
    request: Request,
    caller: Watcher,
    tenant: TenantQuery = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many asks at most; a stream sends all.")] = USUAL,
    cursor: CursorQuery = None,
) -> Response:
    """Return what waits for people: asks by deadline, with their owners, alarms in batches, and artifacts that are due.

    The asks come in pages; each page also has the most urgent alarms and artifacts.
    With `Accept: text/event-stream` everything comes as `event: inbox`, and then each change: in `asks` those that
    are new or changed, in `gone` the `session/ask` of those that are gone, alarms and artifacts whole.
    """
    desk, whose = _desk(caller), caller.narrowed(tenant)
    if wants_stream(request):
        if cursor is not None:
            raise InvalidInput("A stream has no pages. Leave cursor out, or ask for a page.", field="cursor")
        return Stream(inbox_frames(caller, desk, whose), caller)
    found = await _read(caller, desk, whose, await _slow(caller, desk, whose))
    page = _ASKS.of(found.asks, limit, cursor)
    return answer({**to_json(found), "asks": to_json(page.items), "next": page.next})


def _desk(caller: Caller) -> PeopleInbox:
    return PeopleInbox(caller.store, caller.clock, policy=caller.local.worker.settings.policy)


async def _slow(caller: Caller, desk: PeopleInbox, tenant: str | None) -> _Slow:
    async def read() -> _Slow:
        alarms, artifacts = await waiting_beside_asks(caller.store, caller.clock.now(), tenant=tenant)
        return _Slow(alarms, artifacts, await desk.running(tenant))

    return await caller.read(read())


async def _read(caller: Caller, desk: PeopleInbox, tenant: str | None, slow: _Slow) -> Inbox:
    you = caller.principal.by
    row, quick = await desk.approvals(you)
    asks = tuple(await desk.asks(tenant))
    return Inbox(
        asks=asks,
        alarms=slow.alarms,
        artifacts=slow.artifacts,
        approvals_in_a_row=row,
        quick=quick,
        running=slow.running,
        you=you,
    )


async def inbox_frames(caller: Caller, desk: PeopleInbox, tenant: str | None) -> AsyncIterator[bytes]:
    """Yield the inbox as it is, then each time its changes."""
    known: Inbox | None = None
    slow = await _slow(caller, desk, tenant)
    looks = 0
    while True:
        if looks and looks % SELDOM == 0:
            slow = await _slow(caller, desk, tenant)
        looks += 1
        now = await _read(caller, desk, tenant, slow)
        if now != known:
            yield frame(_changes(known, now), event="inbox")
        known = now
        await caller.clock.sleep(EVERY)


def _changes(known: Inbox | None, now: Inbox) -> dict[str, Any]:
    before = {ask.key: ask for ask in known.asks} if known else {}
    here = {ask.key for ask in now.asks}
    changed = [to_json(ask) for ask in now.asks if before.get(ask.key) != ask]
    return {**to_json(now), "asks": changed, "gone": [key for key in before if key not in here]}


@router.post(
    "/inbox/{session_id}/{ask}/own", responses=answers("InboxAsk", 200, "session_not_found", "ask_not_found", body=True)
)
async def own_ask(
    session_id: SessionPath, ask: AskPath, caller: Sender, body: Annotated[schemas.OwnAsk | None, BODY] = None
) -> Response:
    """Take an open ask, or give it to a person; the last one counts. An agent may not."""
    given = None if body is None else body.owner
    owner = caller.principal.by if given is None else _person(caller, given, "owner")
    desk = _desk(caller)
    return answer(to_json(await desk.own(SessionId(session_id), ask, owner, by=caller.principal.by, role=caller.role)))


@router.post("/inbox/hand-over", responses=answers("HandOver", 200, body=True))
async def hand_over(body: schemas.HandOverTo, request: Request, caller: Sender) -> Response:
    """Name a substitute: until then the caller's asks go to that person, and then to the caller again.

    An unknown name, without a token and without any action here, is accepted with a `warning`.
    """
    to, seconds = check_hand_over(_person(caller, body.to, "to"), body.seconds, caller.principal.by)
    tokens = await cast("Access", request.app.state.access).tokens.list(tenant=caller.tenant)
    people = {one.principal.by for one in tokens}
    made = await _desk(caller).hand_over(to, seconds, by=caller.principal.by, role=caller.role, people=people)
    return answer(to_json(made))


def _person(caller: Caller, name: str, field: str) -> str:
    """Return a person whom the caller may name: within a tenant, one of its own.

    Raises:
        InvalidInput: that is no name, or another tenant's.
    """
    found = caller.person(check_name(name, field))
    if caller.tenant is not None and tenant_of(found) != caller.tenant:
        raise InvalidInput(f"'{name}' is not of this tenant: the part before '{MARK}' names it.", field=field)
    return found
