"""The chat contract: a message in, a stream of frames out, and answers to what the agent asks."""

import logging
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from midcourse.api import Midcourse
from midcourse.core import commands as cmd
from midcourse.core.ids import Position, SessionId
from midcourse.core.session import Session
from midcourse.errors import InvalidInput, Refused, SessionNotFound, StoreError
from midcourse.server import schemas
from midcourse.server.caller import Caller, Steerer, Watcher, check_reach
from midcourse.server.chatting import Chat, chat_frames
from midcourse.server.delivered import Answering, Delivered, checkpoint_gone
from midcourse.server.documents import streams
from midcourse.server.routes.places import SessionPath
from midcourse.server.stream import Stream, last_event_id

log = logging.getLogger("midcourse.server")
router = APIRouter(tags=["chat"])
T = TypeVar("T", bound=BaseModel)
_STREAMS = streams("", 200, 404, 409, 422, 429, body=True)
_WAIT = 10.0


def _documented(kind: type[BaseModel]) -> dict[str, object]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
    return {"requestBody": {"required": True, "content": content}}


async def _read(request: Request, kind: type[T]) -> T:
    """The body as JSON, whatever its Content-Type says: chat clients often send none. Its Origin was checked.

    Raises:
        InvalidInput: it is not JSON, or not what is wanted.
    """
    body = await request.body()
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])).encode("utf-8", "replace").decode() or "body"
        said = str(first["msg"]).encode("utf-8", "replace").decode()
        raise InvalidInput(f"{field}: {said}.", field=field) from error


@router.post("/chat", responses=_STREAMS, openapi_extra=_documented(schemas.Chat))
async def chat(request: Request, caller: Steerer) -> Response:
    """Start a session with a message, or go on with one: `delta`, `tool`, `interrupt`, `resumed`, `done`, `error`.

    The header X-Session-Id names the session. After an `interrupt` no `done` comes: answer at /chat/resume.
    """
    wish = await _read(request, schemas.Chat)
    if caller.principal.session is not None:
        check_reach(caller.principal, wish.session_id)
    session_id = SessionId(wish.session_id or caller.derived_session_id())
    try:
        session = await caller.session(session_id)
    except SessionNotFound:
        return await _first_message(caller, session_id, wish)
    return await _next_message(caller, session, wish)


async def _first_message(caller: Caller, session_id: SessionId, wish: schemas.Chat) -> Response:
    try:
        await Midcourse(caller.control).start(wish.agent, wish.message, session_id=session_id, by=caller.principal.by)
    except StoreError as error:
        if error.code != "session_exists":
            raise
        return await _next_message(caller, await caller.session(session_id), wish)
    return _stream(caller, Chat(session_id), after=0)


async def _next_message(caller: Caller, session: Session, wish: schemas.Chat) -> Response:
    if session.agent != wish.agent:
        raise Refused(
            f"Session '{session.id}' is of the agent '{session.agent}', not of '{wish.agent}'. "
            "Leave session_id out to start a new one.",
            code="agent_mismatch",
            session_id=session.id,
        )
    if wish.session_id is None:  # found by its Idempotency-Key: the first message was sent before
        if session.messages[0].text != wish.message:
            raise Refused(
                "This Idempotency-Key was used before, for another message. Use a fresh one for each.",
                code="idempotency_key_reused",
                session_id=session.id,
            )
        return _stream(caller, Chat(session.id), after=0)
    reply = await caller.send(
        session.id, caller.wish(cmd.Message, text=wish.message, behaviour=wish.behaviour), wait=_WAIT
    )
    queued = reply.message if reply.message and reply.message.startswith("queued_") else None
    return _stream(caller, Chat(session.id, queued=queued), after=reply.position)


@router.post("/chat/resume", responses=_STREAMS, openapi_extra=_documented(schemas.ChatResume))
async def resume_chat(request: Request, caller: Steerer) -> Response:
    """Answer what the agent asked, and go on with the same kind of stream. The stream that waited gets `resumed`.

    Without `ask_id` the only open ask is meant, if it was delivered on a stream of this caller.
    """
    wish = await _read(request, schemas.ChatResume)
    session_id = SessionId(wish.session_id)
    if caller.principal.session is not None:
        check_reach(caller.principal, session_id)
    try:
        session = await caller.session(session_id)
    except SessionNotFound as error:
        raise checkpoint_gone(f"There is no session '{session_id}' to resume.", session_id) from error
    answering = Answering(caller, session, wish.answer)
    ask = await answering.named(wish.ask_id) if wish.ask_id is not None else await answering.meant()
    reply = await answering.give(ask)
    log.info("session %s: checkpoint resumed with an answer to %s by %s", session_id, ask, caller.principal.by)
    # A child's answer is at a position of the child; the session itself goes on from where it stands.
    after = reply.position if reply.session == session_id else session.position
    return _stream(caller, Chat(session_id, joins=True), after=after)


@router.get("/chat/{session_id}", responses=streams("", 200, 404, 422, 429))
async def follow_chat(
    session_id: SessionPath,
    request: Request,
    caller: Watcher,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
) -> Response:
    """The frames of a chat again, from a position on: for a client that lost its stream (`Last-Event-ID`)."""
    await caller.control.worker.must_exist(SessionId(session_id))
    start = last_event_id(request, after)
    return _stream(caller, Chat(SessionId(session_id), joins=start > 0), after=start)


def _stream(caller: Caller, shown: Chat, *, after: int) -> Response:
    worker = caller.control.worker
    delivered = Delivered(worker.store, worker.clock)
    frames = chat_frames(
        caller.control, shown, after=Position(after), delivered=delivered, caller=caller.principal.name
    )
    return Stream(frames, caller, {"X-Session-Id": shown.session_id})
