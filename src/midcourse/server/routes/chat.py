"""The chat contract: a message in, a stream of frames out, and answers to what the agent asks."""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from midcourse.core import commands as cmd
from midcourse.core.agent_rights import check_no_agent
from midcourse.core.events import ChildAskClosed
from midcourse.core.ids import Position, SessionId
from midcourse.core.replies import Reply
from midcourse.core.session import Session
from midcourse.errors import MidcourseError, Refused, SessionNotFound, StoreError
from midcourse.server import schemas
from midcourse.server.caller import Caller, Commander, Reader, checks_reach
from midcourse.server.chat_frames import ChatFrames, Told, chat_frames, error_frame
from midcourse.server.delivered_asks import TOO_LATE, Answering, BegunSessions, Delivered, checkpoint_gone, open_asks
from midcourse.server.limits import Slot
from midcourse.server.openapi import LAST_EVENT_ID, streams
from midcourse.server.routes.path_parameters import SessionPath
from midcourse.server.stream import Stream, beginning, frame

router = APIRouter(tags=["chat"])
Frames = AsyncIterator[bytes]
_WAIT = 10.0
_LOST = ("last_event_id", "position", "detail")


@router.post(
    "/chat",
    responses=streams(
        "",
        *cmd.refusals(cmd.Message),
        *("agent_mismatch", "agent_unavailable", "draining", "idempotency_key_reused"),
        body=True,
    ),
)
@checks_reach
async def chat(caller: Commander, body: schemas.Chat) -> Response:
    """Start a session, or continue one: `delta`, `tool`, `retrying`, `interrupt`, `resumed`, `done`, `error`.

    The header X-Session-Id names the session. After an `interrupt` no `done` comes: answer at /chat/resume.
    """
    session_id = caller.derived_session_id() if body.session_id is None else caller.own_id(body.session_id)
    caller.check_reach(body.session_id and session_id)
    with _reserved(caller) as place:
        try:
            session = await caller.session(session_id)
        except SessionNotFound:
            frames = await _first_message(caller, session_id, body)
        else:
            frames = await _next_message(caller, session, body)
        return Stream(frames, caller, {"X-Session-Id": session_id}, place, flushes=True)


@contextmanager
def _reserved(caller: Caller) -> Generator[Slot]:
    """Take a place for the stream before anything is done: a caller without a place has changed nothing."""
    place = caller.streams.open(caller.principal)
    try:
        yield place
    except BaseException:
        place.close()
        raise


async def _first_message(caller: Caller, session_id: SessionId, wish: schemas.Chat) -> Frames:
    check_no_agent(caller.principal.session, "start a session; it spawns children with run.spawn")
    caller.check_match(None)
    begun = BegunSessions(caller, session_id)
    try:
        await begun.note()
        await caller.sessions.start(wish.agent, wish.message, session_id=session_id, by=caller.principal.by)
    except StoreError as error:
        if error.code != "session_exists":
            raise
        session = await caller.session(session_id)
        if (session.messages[0].text, session.messages[0].by) != (wish.message, caller.principal.by):
            await begun.forget()
        return await _next_message(caller, session, wish)
    except MidcourseError:  # nothing was begun: a later beginning has another key
        await begun.forget()
        raise
    return _frames(caller, ChatFrames(session_id), after=0)


async def _next_message(caller: Caller, session: Session, wish: schemas.Chat) -> Frames:
    if session.agent != wish.agent:
        raise Refused(
            f"Session '{session.id}' is of the agent '{session.agent}', not of '{wish.agent}'. "
            "Leave session_id out to start a new one.",
            code="agent_mismatch",
            session_id=session.id,
        )
    # Found by its Idempotency-Key: the first message was sent before.
    if wish.session_id is None or await BegunSessions(caller, session.id).was_by_this():
        if session.messages[0].text != wish.message:
            raise Refused(
                "This Idempotency-Key was used before, for another message. Use a fresh one for each.",
                code="idempotency_key_reused",
                session_id=session.id,
            )
        caller.check_match(session)
        return _frames(caller, ChatFrames(session.id), after=0)
    command = caller.make_command(cmd.Message, text=wish.message, behaviour=wish.behaviour)

    async def send() -> Reply:
        return await caller.send(session.id, command, wait=_WAIT)

    async def begin(reply: Reply) -> Frames:
        queued = reply.message if reply.message and reply.message.startswith("queued_") else None
        return _frames(caller, ChatFrames(session.id, queued=queued), after=reply.position)

    return _once_decided(session.id, caller.told, await send(), send, begin)


async def _once_decided(
    session_id: SessionId,
    told: Told,
    reply: Reply,
    send: Callable[[], Awaitable[Reply]],
    begin: Callable[[Reply], Awaitable[Frames]],
) -> Frames:
    """Yield what follows a command, once it is decided. If the session's owner is silent, the stream waits for it."""
    try:
        while reply.level == "accepted":
            reply = await send()
        frames = await begin(reply)
    except MidcourseError as error:
        yield error_frame(session_id, told(error))
        return
    async for one in frames:
        yield one


@router.post(
    "/chat/resume",
    responses=streams(
        "",
        *(set(cmd.refusals(cmd.Answer)) - TOO_LATE),
        *("already_resumed", "checkpoint_not_found"),
        body=True,
    ),
)
@checks_reach
async def resume_chat(caller: Commander, body: schemas.ChatResume) -> Response:
    """Answer an ask, and continue with the same kind of stream. The stream that waited gets `resumed`.

    Without `ask_id` the only open ask is meant, if it was delivered on a stream of this caller.
    """
    arrived = caller.clock.now()
    session_id = caller.named(body.session_id)
    caller.check_reach(session_id)
    try:
        caller.check_visible(session_id)
        session = await caller.session(session_id)
    except SessionNotFound as error:
        raise checkpoint_gone(f"There is no session '{session_id}' to resume.", session_id) from error
    answering = Answering(caller, session, body.answer, arrived)
    ask = await answering.named(body.ask_id) if body.ask_id is not None else await answering.meant()

    async def send() -> Reply:
        return await answering.give(ask)

    async def begin(reply: Reply) -> Frames:
        return await _after_answer(caller, session, ask, reply)

    with _reserved(caller) as place:
        reply = await send()
        frames = _once_decided(session_id, caller.told, reply, send, begin)
        return Stream(frames, caller, {"X-Session-Id": session_id}, place, flushes=True)


async def _after_answer(caller: Caller, session: Session, ask: str, reply: Reply) -> Frames:
    """Yield the stream after the answer. ``session`` is from before it, or from now if the answer is a retry.

    A child's answer is at a position of the child; the session itself continues from its own.
    """
    answered = reply.position if reply.session == session.id else session.position
    if reply.session != session.id and ask not in open_asks(session):
        answered = await _where_closed(caller, session.id, ask)
    if answered < session.position:
        session = await caller.session_at(session.id, answered)
    shown = ChatFrames(session.id, joins=session, shown_until=answered)
    shown.asked.discard(ask)
    return _frames(caller, shown, after=session.position)


async def _where_closed(caller: Caller, session_id: SessionId, ask: str) -> Position:
    """Where a session was told that a child's ask was closed."""
    after = Position(0)
    async for record in caller.local.every_event(session_id):
        after = record.position
        if isinstance(record.event, ChildAskClosed) and f"{record.event.child}/{record.event.ask}" == ask:
            break
    return after


@router.get("/chat/{session_id}", responses=streams("", "session_not_found", "damaged"), openapi_extra=LAST_EVENT_ID)
async def follow_chat(
    session_id: SessionPath,
    request: Request,
    caller: Reader,
    after: Annotated[int, Query(ge=0, le=2**53, description="The id of the last frame seen; 0: all.")] = 0,
) -> Response:
    """Send the frames of a chat again, from a position on: for a client that lost its stream (`Last-Event-ID`).

    If the session has no such event, the first is `reset`, and all of them follow.
    """
    session = await caller.session(session_id)
    start, lost = beginning(request, after, session.id, session.position)
    before = await caller.session_at(session.id, start) if start else None
    frames = _frames(caller, ChatFrames(session.id, joins=before), after=start)
    if lost is not None:
        frames = _after_reset(lost, frames)
    return Stream(frames, caller, {"X-Session-Id": session_id}, flushes=True)


async def _after_reset(lost: Mapping[str, object], frames: Frames) -> Frames:
    yield frame({"type": "reset", "session_id": lost["session"], **{name: lost[name] for name in _LOST}}, position=0)
    async for one in frames:
        yield one


def _frames(caller: Caller, shown: ChatFrames, *, after: int) -> Frames:
    delivered = Delivered(caller.store, caller.clock)
    name = caller.principal.full_name
    ends = caller.leaving.ended.is_set
    where = Position(after)
    return chat_frames(caller.local, shown, after=where, delivered=delivered, caller=name, told=caller.told, ends=ends)
