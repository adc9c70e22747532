"""A server's problem documents as the exceptions that the same call raises on an open store."""

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from midcourse import errors
from midcourse.errors import MidcourseError, Refused

KINDS: Final[Mapping[str, type[MidcourseError]]] = {
    **{
        kind.code: kind
        for kind in (
            errors.InvalidInput,
            errors.AccessDenied,
            errors.SessionNotFound,
            errors.AgentUnavailable,
            errors.ToolUnavailable,
            errors.Unencodable,
            errors.Damaged,
            errors.ImpossibleEvent,
            errors.StoreError,
            errors.StoreUnavailable,
            errors.StoreFull,
            errors.StaleEpoch,
            errors.OwnerAlive,
            errors.InboxNotEmpty,
        )
    },
    "model_unavailable": errors.AgentUnavailable,
    **dict.fromkeys(
        (
            *("unauthorized", "origin_not_allowed", "host_not_allowed", "too_many_requests", "too_many_streams"),
            *("login_refused", "identity_would_change"),
        ),
        errors.AccessDenied,
    ),
    **dict.fromkeys(
        (
            *("body_too_large", "invalid_cursor", "unreadable_body", "method_not_allowed", "not_found", "not_started"),
            *("artifact_not_found", "blob_not_found", "browser_session_not_found"),
            *("policy_not_found", "proposal_not_found", "token_not_found", "token_exists"),
            *("webhook_not_found", "kill_switch_not_found", "no_recordings", "too_few_runs"),
        ),
        errors.InvalidInput,
    ),
    **dict.fromkeys(
        (
            *("session_exists", "command_not_found", "already_decided", "already_enlisted", "worker_exists"),
            *("not_enlisted", "out_of_order", "too_big"),
        ),
        errors.StoreError,
    ),
    **dict.fromkeys(("command_id_taken", "idempotency_key_reused", "draining"), Refused),
}
"""The class of an error by its code, where its status does not tell."""

_BY_STATUS: Final[Mapping[int, type[MidcourseError]]] = {
    401: errors.AccessDenied,
    **dict.fromkeys((403, 404, 409, 412), Refused),
    422: errors.InvalidInput,
    429: errors.AccessDenied,
    503: errors.StoreUnavailable,
    507: errors.StoreFull,
}
_ITS_OWN: Final = ("type", "title", "status", "detail", "code", "instance")


def error_of(status: int, content: bytes, url: str) -> MidcourseError:
    """Return the exception for an answer with this ``status``."""
    problem: dict[str, Any] = {}
    try:
        problem = msgspec.json.decode(content, type=dict[str, Any])
        code, sentence = problem["code"], problem["detail"]
    except (msgspec.MsgspecError, UnicodeDecodeError, LookupError):
        code = sentence = None
    if not isinstance(code, str) or not isinstance(sentence, str):
        return not_midcourse(url, f"status {status}")
    fields = {name: value for name, value in problem.items() if name not in _ITS_OWN}
    if "status_now" in fields:
        fields["status"] = fields.pop("status_now")
    kind = KINDS.get(code) or _BY_STATUS.get(status, MidcourseError)
    if kind is Refused:
        allowed = cast("list[str]", fields.pop("allowed", ()) or ())
        return Refused(sentence, code=code, allowed=allowed, **fields)
    return kind(sentence, code=code, **fields)


def not_midcourse(url: str, what: str) -> MidcourseError:
    """Return the error for an answer that no Midcourse server gives."""
    return errors.ServerUnreachable(
        f"What answers at {url} is no server of Midcourse, or of another version ({what}). Check the address; "
        "a proxy in between may answer in its place.",
        code="not_midcourse",
        url=url,
    )
