"""One address for each command that people send. What a control answers is what is known, and never more."""

from inspect import Parameter, Signature, cleandoc
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from msgspec.structs import replace
from starlette.responses import Response

from midcourse.core import commands as cmd
from midcourse.core.ids import PauseId, SessionId
from midcourse.core.replies import Level, Reply
from midcourse.core.request_checks import answer_value
from midcourse.handle import addressed
from midcourse.people.inbox import open_ask
from midcourse.server.approval_counts import note_answer
from midcourse.server.caller import Caller, commander_with
from midcourse.server.openapi import BODY, answers
from midcourse.server.routes.path_parameters import MessagePath, SessionPath
from midcourse.server.schemas import Body, body_of
from midcourse.server.to_json import answer, reply_view

router = APIRouter()


def control_response(reply: Reply) -> Response:
    """Return what a control has come to."""
    return answer(reply_view(reply), 202 if reply.level == "accepted" else 200)


def add(kind: type[cmd.AnyCommand], sent: cmd.Verb) -> None:
    """Add the address of a command."""
    model = body_of(kind) if sent.method != "DELETE" else None

    async def control(session_id: str, caller: Caller, body: Body | None = None, **of_path: str) -> Response:
        fields: dict[str, Any] = of_path | ({} if body is None else dict(body))
        wait, until = fields.pop("wait", sent.wait), fields.pop("until", "stopping" if sent.is_stop else "decided")
        if "value" in fields:
            fields["value"] = answer_value(fields["value"])
        return control_response(await _carry_out(caller, session_id, caller.make_command(kind, **fields), until, wait))

    access = commander_with(sent.role, agents=True)
    taken: dict[str, tuple[Any, Any]] = {"session_id": (SessionPath, ...)}
    if "{message}" in sent.place:
        taken["message"] = (MessagePath, ...)
    taken["caller"] = (Annotated[Caller, Depends(access)], ...)
    if model is not None:
        needs_body = any(field.is_required() for field in model.model_fields.values())
        taken["body"] = (model, ...) if needs_body else (Annotated[model | None, BODY], None)
    # FastAPI reads what an endpoint takes from its signature.
    control.__signature__ = Signature(
        [
            Parameter(
                name, Parameter.KEYWORD_ONLY, annotation=kind, default=Parameter.empty if default is ... else default
            )
            for name, (kind, default) in taken.items()
        ]
    )
    router.add_api_route(
        f"/sessions/{{session_id}}/{sent.place or cmd.verb(kind)}",
        control,
        methods=[sent.method],
        name=sent.operation,
        tags=[sent.tag],
        description=cleandoc(kind.__doc__ or "").replace("``", "`"),
        responses=answers(
            "Reply",
            *(200, 202),
            *("session_not_found", "invalid_input", *cmd.refusals(kind)),
            changes=True,
            body=model is not None,
        ),
    )


async def _carry_out(caller: Caller, session_id: str, command: cmd.AnyCommand, until: Level, wait: float) -> Reply:
    """Send a command, with what only some of them need before and after."""
    match command:
        case cmd.Resume(pause=None, expects=expects) if expects.startswith("pause_"):
            command = replace(command, pause=PauseId(expects), expects="")
        case cmd.Resume(expects=expects) if expects.startswith("pause_"):
            command = replace(command, expects="")
        case cmd.Answer():
            return await _answer(caller, session_id, command, wait)
        case _:
            pass
    ends = caller.local.clock.monotonic() + wait
    reply = await caller.send(session_id, command, until=until, wait=wait)
    if isinstance(command, cmd.Undo):
        await caller.local.undone(SessionId(session_id), ends - caller.local.clock.monotonic())
        receipt = await caller.read(caller.local.receipt(SessionId(session_id)))
        return replace(reply, receipt=receipt.lines)
    return reply


async def _answer(caller: Caller, session_id: str, command: cmd.Answer, wait: float) -> Reply:
    holder, own = addressed(SessionId(session_id), command)
    asked = await open_ask(caller.store, holder, own.ask)
    reply = await caller.send(holder, own, wait=wait)
    await note_answer(caller, asked, command.value, reply)
    return reply


for _kind in cmd.SENT:
    if _kind.sent is not None:
        add(_kind, _kind.sent)
