"""The API's JSON of a session: the core's own values, without their bookkeeping."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import msgspec
from starlette.responses import Response

from midcourse.core.audit import Audited
from midcourse.core.budget import needed
from midcourse.core.commands import Role
from midcourse.core.decisions import allowed
from midcourse.core.events import Event, Recorded
from midcourse.core.ids import message_id
from midcourse.core.inspection import Inspection
from midcourse.core.interventions import Intervention, LabelledAlarm
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Reply
from midcourse.core.session import Message, Session
from midcourse.core.switches import Reach, SwitchReport
from midcourse.core.to_json import to_json
from midcourse.policy.alarm_batches import Batch
from midcourse.ports.bus import Delta
from midcourse.ports.store import Head
from midcourse.server.browser_sessions import Login, described
from midcourse.server.tokens import KeptToken, Principal

JSON: Final = "application/json"
BOOKKEEPING: Final = frozenset(
    {"scope", "checkpoints", "scope_messages", "seen", "withdrawn", "queued", "asks_opened", "pauses", "halts"}
    | {"loose_keys", "amended", "at", "outputs", "prices", "has_spawned"}
)
"""Fields of a session that are only internal."""
_OF_HEAD: Final = tuple(name for name in Head.__struct_fields__ if name not in ("digest", "wake_at"))
"""Not spelled out one by one: lists have thousands."""
_encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def answer(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return ``content`` as a JSON response."""
    return Response(_encoder.encode(content), status, headers, media_type=JSON)


def encoded(content: object) -> bytes:
    return _encoder.encode(content)


def head_view(head: Head) -> dict[str, Any]:
    """Return a session in a list."""
    shown = {name: getattr(head, name) for name in _OF_HEAD}
    named = {"labels": list(head.labels), "open_asks": to_json(head.open_asks), "pending": to_json(head.pending)}
    return shown | named


def session_view(session: Session, role: Role = "watch", by: str = "") -> dict[str, Any]:
    """Return a session, with the verbs that ``by``, who has this role, may use on it now."""
    shown = {name: value for name, value in to_json(session).items() if name not in BOOKKEEPING}
    shown["messages"] = [_message(session, index, one) for index, one in enumerate(session.messages)]
    shown["updated_at"] = session.at
    shown["goal"] = session.goal
    shown["allowed"] = [] if role == "watch" else list(allowed(session, role, by))
    shown["etag"] = etag_of(session)
    enough = needed(session)
    if enough is not None:
        shown["raise_to"] = enough
    return shown


def _message(session: Session, index: int, message: Message) -> dict[str, Any]:
    return {"id": message_id(index + 1), **to_json(message), "is_seen": index < session.seen}


def etag_of(session: Session) -> str:
    """Return the ETag of a session: its mark, which people decide by, and behind the # its position."""
    return f'"{session.mark}#{session.position}"'


def event_tag(kind: type[Event]) -> tuple[str, int]:
    """Return the type of an event, ``{domain}.{action}``, and its version."""
    name, _, version = str(kind.__struct_config__.tag).partition("@")
    return name, int(version)


def event_view(record: Recorded) -> dict[str, Any]:
    """Return an event with its place, time, type, version and fields."""
    kind, version = event_tag(type(record.event))
    return {
        "position": record.position,
        "at": record.at,
        "type": kind,
        "version": version,
        "data": to_json(record.event),
    }


def delta_view(delta: Delta) -> dict[str, Any]:
    return {"step": delta.step, "attempt": delta.attempt, "offset": delta.offset, "text": delta.text}


def reply_view(reply: Reply) -> dict[str, Any]:
    """Return what a control answers, and the same as a sentence."""
    return {**to_json(reply), "sentence": str(reply)}


def receipt_view(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt, and the same as a table."""
    return {**to_json(receipt), "table": str(receipt)}


def inspection_view(inspection: Inspection, role: Role, by: str = "") -> dict[str, Any]:
    return {**to_json(inspection), "session": session_view(inspection.session, role, by)}


def intervention_view(made: Intervention | LabelledAlarm) -> dict[str, Any]:
    """Return an intervention, of one session or in a list over many."""
    return to_json(made)


def switch_view(report: SwitchReport, *, whole: bool = True) -> dict[str, Any]:
    """Return a kill switch and the sessions in its scope: counted, and (``whole``) each of them named."""
    shown: dict[str, Any] = to_json(report.switch)
    shown["counts"] = {state: report.count(state) for state in get_args(Reach)}
    shown["sessions"] = len(report.sessions)
    shown["stands"] = report.switch.stands
    shown["durable"] = report.durable
    shown["hint"] = report.hint
    shown["sentence"] = str(report)
    if whole:
        shown["report"] = to_json(report.sessions)
    return shown


def batch_view(batch: Batch) -> dict[str, Any]:
    """Return alarms that reach a person together."""
    return to_json(batch)


def audit_view(entries: Sequence[Audited]) -> list[dict[str, Any]]:
    """Rows of the audit log."""
    return [{"seq": one.seq, **to_json(one.entry)} for one in entries]


def principal_view(principal: Principal) -> dict[str, Any]:
    """Whom a request comes from. To an agent, no tenant is the same as to a person: null."""
    return {**to_json(principal), "tenant": principal.tenant or None}


def login_view(made: Login) -> dict[str, Any]:
    """Return the answer to a browser's page that has logged in. The cookie is not for scripts."""
    principal = made.principal
    return {
        "name": principal.name, "role": principal.role, "tenant": principal.tenant, "identity": described(principal),
        "page_key": made.page, "expires_at": made.expires_at,
    }  # fmt: skip


HIDDEN: Final = ("digest", "made_with", "salt")
"""The stored fields of a token that are not shown."""


def token_view(token: KeptToken) -> dict[str, Any]:
    """Return a token, without its secret."""
    shown = to_json(token)
    for hidden in HIDDEN:
        del shown[hidden]
    return shown
