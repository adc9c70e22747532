"""One verb per control. What each answers is what is known, and never more."""

from typing import Annotated

from fastapi import APIRouter
from msgspec.structs import replace
from starlette.responses import Response

from midcourse.api import Midcourse
from midcourse.core import commands as cmd
from midcourse.core.ids import AskId, MessageId, PauseId, SessionId
from midcourse.core.replies import Reply
from midcourse.core.requests import answer_value, check_restart
from midcourse.errors import InvalidInput
from midcourse.runtime.desk import open_ask
from midcourse.server import schemas
from midcourse.server.caller import Commander
from midcourse.server.counting import note_answer
from midcourse.server.documents import BODY, Responses, answers
from midcourse.server.routes.places import MessagePath, SessionPath
from midcourse.server.views import answer, reply_view

router = APIRouter(tags=["controls"])


def control_answers(*codes: str, body: bool = True) -> Responses:
    """The answers of a control: a reply, and the problems that each of them may have beside ``codes``.

    A cancel of an erased session is granted, but one that is sent again has lost its answer to the erasure.
    """
    known = ("session_not_found", "precondition_failed", "command_id_taken", "invalid_input", "damaged")
    return answers("Reply", 200, 202, *known, "session_erased", *codes, changes=True, body=body)


def told(reply: Reply) -> Response:
    """What a control has come to."""
    return answer(reply_view(reply), 202 if reply.level == "accepted" else 200)


@router.post("/sessions/{session_id}/pause", responses=control_answers("not_allowed", "session_ended"))
async def pause(
    session_id: SessionPath, caller: Commander, body: Annotated[schemas.Pause | None, BODY] = None
) -> Response:
    """Stop, keep the context. Streams are cut; tool calls in flight may finish, for `grace` seconds if given."""
    wish = body or schemas.Pause()
    command = caller.wish(
        cmd.Pause,
        reason=wish.reason,
        grace=wish.grace,
        lapses=wish.lapses,
    )
    return told(await caller.send(session_id, command, until=wish.until, wait=wish.wait))


@router.post(
    "/sessions/{session_id}/resume",
    responses=control_answers(
        "already_resumed",
        "budget_spent",
        "checkpoint_not_found",
        "kill_switch_stands",
        "not_allowed",
        "own_ask",
        "operator_only",
        "session_ended",
        "session_damaged",
    ),
)
async def resume(
    session_id: SessionPath, caller: Commander, body: Annotated[schemas.Resume | None, BODY] = None
) -> Response:
    """Go on after a pause, or try a failed session again. `pause` (or If-Match) names the pause to lift."""
    wish = body or schemas.Resume()
    names_pause = caller.if_match.startswith("pause_")
    named = wish.pause or (caller.if_match if names_pause else None)
    command = caller.wish(
        cmd.Resume,
        expects="" if names_pause else caller.if_match,
        pause=None if named is None else PauseId(named),
    )
    return told(await caller.send(session_id, command, wait=wish.wait))


@router.post(
    "/sessions/{session_id}/redirect",
    responses=control_answers("budget_spent", "not_allowed", "own_ask", "session_damaged", "session_discarded"),
)
async def redirect(session_id: SessionPath, caller: Commander, body: schemas.Redirect) -> Response:
    """Change the course. The instruction is durable at once and is what the agent's model sees next.

    Until it has, the message named in the answer can be edited and withdrawn. A session's policy may want corrections
    (all but another goal) to be short.
    """
    command = caller.wish(
        cmd.Redirect,
        text=body.text,
        level=body.level,
        grace=body.grace,
        resume=body.resume,
    )
    return told(await caller.send(session_id, command, wait=body.wait))


@router.patch(
    "/sessions/{session_id}/messages/{message}", responses=control_answers("message_not_found", "message_seen")
)
async def edit(session_id: SessionPath, message: MessagePath, caller: Commander, body: schemas.Edit) -> Response:
    """Say a redirect or a queued message in other words, as long as the model has not seen it."""
    command = caller.wish(
        cmd.Edit,
        message=MessageId(message),
        text=body.text,
    )
    return told(await caller.send(session_id, command, wait=body.wait))


@router.delete(
    "/sessions/{session_id}/messages/{message}",
    responses=control_answers("message_not_found", "message_seen", body=False),
)
async def withdraw(session_id: SessionPath, message: MessagePath, caller: Commander) -> Response:
    """Take a redirect or a queued message back, as long as the model has not seen it."""
    command = caller.wish(
        cmd.Withdraw,
        message=MessageId(message),
    )
    return told(await caller.send(session_id, command, wait=10.0))


@router.post("/sessions/{session_id}/cancel", responses=control_answers("operator_only"))
async def cancel(
    session_id: SessionPath, caller: Commander, body: Annotated[schemas.Cancel | None, BODY] = None
) -> Response:
    """End the session. `undo`: what is in flight (the default), `all` that had been done, or `none`.

    A session of the class `protected` finishes its turn first (`finishes_first` in the answer). An operator ends it
    half-way with `force`: what it had reached is discarded. With `restart` as well, a new session begins the same
    anew, and `restarted_as` names it.
    """
    wish = body or schemas.Cancel()
    command = caller.wish(
        cmd.Cancel,
        reason=wish.reason,
        grace=wish.grace,
        undo=wish.undo,
        force=wish.force,
        restart=check_restart(wish.force, wish.restart),
    )
    return told(await caller.send(session_id, command, until=wish.until, wait=wish.wait))


@router.post("/sessions/{session_id}/undo", responses=control_answers("not_allowed"))
async def undo(
    session_id: SessionPath, caller: Commander, body: Annotated[schemas.Undo | None, BODY] = None
) -> Response:
    """Roll back every effect of a session that has ended, newest first, as far as it can be."""
    wish = body or schemas.Undo()
    command = caller.wish(
        cmd.Undo,
        reason=wish.reason,
    )
    reply = await caller.send(session_id, command, wait=wish.wait)
    await caller.control.undone(SessionId(session_id), wish.wait)
    receipt = await caller.read((await Midcourse(caller.control).get(session_id)).receipt())
    return told(replace(reply, receipt=receipt.lines))


@router.post(
    "/sessions/{session_id}/answer",
    responses=control_answers(
        "already_answered",
        "approver_only",
        "ask_id_required",
        "ask_not_found",
        "budget_spent",
        "not_allowed",
        "own_ask",
        "unclear_answer",
        "session_ended",
        "unencodable",
    ),
)
async def answer_ask(session_id: SessionPath, caller: Commander, body: schemas.Answer) -> Response:
    """Answer an ask, once. Asks with the reason `need_approval` want the role `approve`."""
    child, _, name = (body.ask or "").rpartition("/")
    if child and not child.startswith(f"{session_id}."):
        raise InvalidInput(f"'{child}' is not a child of session '{session_id}'.", field="ask")
    value = answer_value(body.value)
    command = caller.wish(cmd.Answer, value=value, ask=None if body.ask is None else AskId(name))
    asked = await open_ask(caller.control.worker.store, SessionId(child or session_id), name or None)
    reply = await caller.send(child or session_id, command, wait=body.wait)
    await note_answer(caller, asked, value, reply)
    return told(reply)


@router.post(
    "/sessions/{session_id}/message",
    responses=control_answers("busy", "not_allowed", "own_ask", "session_damaged", "session_discarded"),
)
async def message(session_id: SessionPath, caller: Commander, body: schemas.Message) -> Response:
    """Say something. It opens a new turn of an ended session; while one works, `behaviour` says what it does."""
    command = caller.wish(
        cmd.Message,
        text=body.text,
        behaviour=body.behaviour,
    )
    return told(await caller.send(session_id, command, wait=body.wait))


@router.post("/sessions/{session_id}/event", responses=control_answers("not_allowed", "own_ask", "session_ended"))
async def tell_event(session_id: SessionPath, caller: Commander, body: schemas.OutsideEvent) -> Response:
    """Something happened outside: what the agent assumes may no longer hold. Its model sees this next."""
    command = caller.wish(
        cmd.OutsideEvent,
        text=body.text,
        source=body.source,
    )
    return told(await caller.send(session_id, command, wait=body.wait))


@router.post(
    "/sessions/{session_id}/budget",
    responses=control_answers("budget_spent", "not_allowed", "not_raised", "session_ended"),
)
async def raise_budget(session_id: SessionPath, caller: Commander, body: schemas.Budget) -> Response:
    """Let it cost more, and go on with it if it is paused."""
    command = caller.wish(
        cmd.Budget,
        budget=body.budget,
        resume=body.resume,
    )
    return told(await caller.send(session_id, command, wait=body.wait))
