"""The core's values as JSON schemas: what the API's answers and frames look like, made from the types themselves."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from msgspec import inspect as types

from midcourse.analysis.reports.checklist import ChecklistItem
from midcourse.analysis.reports.proposals import Proposal
from midcourse.analysis.reports.report import Report
from midcourse.analysis.reports.trials import Trial
from midcourse.core import events as ev
from midcourse.core.audit import AuditEntry
from midcourse.core.bulk import BulkOutcome
from midcourse.core.codec import Value
from midcourse.core.contact import Contact
from midcourse.core.inspection import StepView
from midcourse.core.interventions import Intervention, LabelledAlarm
from midcourse.core.receipt import Receipt
from midcourse.core.replies import Reply
from midcourse.core.session import Failure, Message, Session, Status
from midcourse.core.signals import Signals
from midcourse.core.switches import Reach, Reached, Released, Switch
from midcourse.core.terms import Terms
from midcourse.people.inbox_rules import HandOver, Inbox
from midcourse.people.webhooks import DeliveryView, WebhookView
from midcourse.policy.alarm_batches import Batch
from midcourse.policy.artifacts import Artifact
from midcourse.ports.store import Head
from midcourse.server.browser_sessions import BrowserSession
from midcourse.server.stream import Reason
from midcourse.server.to_json import BOOKKEEPING, HIDDEN, event_tag
from midcourse.server.tokens import KeptToken, Principal

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def value_schemas() -> dict[str, Schema]:
    """Return every value that an answer or a frame may hold, by name."""
    found: dict[str, Schema] = {}
    for kind in (Session, Message, Reply, Receipt, Head, StepView, Terms, AuditEntry, KeptToken, Principal, Failure):
        _shape(types.type_info(kind), found)
    for kind in (BulkOutcome, Intervention, LabelledAlarm, Signals, Batch, Report, ChecklistItem, Proposal, Trial):
        _shape(types.type_info(kind), found)
    for kind in (Inbox, HandOver, WebhookView, DeliveryView, Artifact, Contact):
        _shape(types.type_info(kind), found)
    for kind in (Switch, Reached, Released, BrowserSession):
        _shape(types.type_info(kind), found)
    _as_shown(found)
    _switches(found)
    events = _events(found)
    found["Value"] = {
        "type": "object",
        "description": "A value: `raw` is it, or `blob` names where it lies (above 32 KB; see /blobs).",
        "properties": {"raw": {}, "blob": TEXT, "size": COUNT},
        "required": ["raw", "blob", "size"],
    }
    frames = {frame_name(kind): schema for kind, schema in FRAMES.items()}
    return {**found, **events, **PLAIN, **frames, "Frame": _one_of(frames, {kind: frame_name(kind) for kind in FRAMES})}


def _switches(found: dict[str, Schema]) -> None:
    """Describe a kill switch as it is shown: with what is known of the sessions in its scope."""
    known = {
        **found.pop("Switch")["properties"],
        "counts": fields(dict.fromkeys(get_args(Reach), COUNT)),
        "sessions": {**COUNT, "description": "How many it holds, or should."},
        "stands": {"type": "boolean"},
        "durable": {
            "type": "boolean",
            "description": "False: the store fails. It may end with the server, and not list all sessions.",
        },
        "hint": {**TEXT, "description": "When it is thrown over a name that nothing here has."},
        "sentence": TEXT,
    }
    found["SwitchSummary"] = fields(known)
    found["SwitchReport"] = fields({**known, "report": listed("Reached")})


def frame_name(kind: str) -> str:
    """Return the name of the schema of a chat's frame."""
    return f"{kind.capitalize()}Frame"


def _as_shown(found: dict[str, Schema]) -> None:
    """Apply the differences between the core's values and their JSON."""
    session = found["Session"]
    for name in BOOKKEEPING:
        session["properties"].pop(name, None)
    session["properties"]["messages"] = listed("MessageView")
    session["properties"] |= {
        "goal": {**TEXT, "description": "The present goal."},
        "updated_at": {**TIME, "description": "When its last event was written."},
        "allowed": {"type": "array", "items": TEXT, "description": "Verbs the caller may use now."},
        "raise_to": {
            "type": "number",
            "description": "Dollars that the budget must be raised to before it can continue. Not there otherwise.",
        },
        "etag": {**TEXT, "description": "For If-Match."},
    }
    message = found.pop("Message")
    message["properties"] |= {
        "id": {**TEXT, "description": "To edit or withdraw it by."},
        "is_seen": {"type": "boolean", "description": "Whether the agent's model has seen it."},
    }
    found["MessageView"] = message
    for name in ("Reply", "Receipt"):
        known_as = "sentence" if name == "Reply" else "table"
        found[name]["properties"][known_as] = {**TEXT, "description": "The same for people."}
    found["AuditEntry"]["properties"]["seq"] = {**COUNT, "description": "Its place, from 1, without gaps."}
    found["Inbox"]["properties"]["next"] = _CURSOR
    found["Inbox"]["required"] = sorted({*found["Inbox"].get("required", ()), "next"})
    for name, hidden in (("Head", ("digest", "wake_at")), ("KeptToken", HIDDEN)):
        for field in hidden:
            found[name]["properties"].pop(field)
    for name in ("Session", "MessageView", "Reply", "Receipt", "AuditEntry", "Head", "KeptToken"):
        found[name]["required"] = sorted(found[name]["properties"].keys() - {"raise_to"})


def _events(found: dict[str, Schema]) -> dict[str, Schema]:
    shown: dict[str, Schema] = {}
    mapping: dict[str, str] = {}
    for kind in get_args(ev.AnyEvent):
        name, version = event_tag(kind)
        data = _struct(types.type_info(kind), found)
        shown[kind.__name__] = fields(
            {
                "position": {**COUNT, "description": "Its place in the session's journal, from 1."},
                "at": {**TIME, "description": "When it was written."},
                "type": {"const": name},
                "version": {"const": version},
                "data": {key: value for key, value in data.items() if key != "description"},
            },
            data.get("description", ""),
        )
        mapping[name] = kind.__name__
    return {**shown, "Event": _one_of(shown, mapping)}


def _one_of(names: Mapping[str, Schema], mapping: Mapping[str, str]) -> Schema:
    where = {kind: f"#/components/schemas/{name}" for kind, name in mapping.items()}
    return {"oneOf": [ref(name) for name in names], "discriminator": {"propertyName": "type", "mapping": where}}


# ---- types


def _shape(kind: types.Type, found: dict[str, Schema]) -> Schema:
    match kind:
        case types.Metadata():
            return _shape(kind.type, found)
        case types.StructType(cls=cls):
            if cls.__name__ not in found and cls is not Value:
                found[cls.__name__] = {}  # it may hold itself
                found[cls.__name__] = _struct(kind, found)
            return ref(cls.__name__)
        case types.UnionType(types=several):
            return {"anyOf": [_shape(one, found) for one in several]}
        case types.VarTupleType(item_type=item) | types.ListType(item_type=item):
            return {"type": "array", "items": _shape(item, found)}
        case types.TupleType(item_types=several):
            shapes = [_shape(one, found) for one in several]
            items = shapes[0] if all(one == shapes[0] for one in shapes) else {"anyOf": shapes}
            return {"type": "array", "items": items, "minItems": len(several), "maxItems": len(several)}
        case types.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _shape(value, found)}
        case types.LiteralType(values=values):
            return {"enum": list(values)}
        case types.EnumType(cls=cls):
            return {"enum": [one.value for one in cls]}
        case _:
            return dict(_SIMPLE[type(kind)])


def _struct(kind: types.Type, found: dict[str, Schema]) -> Schema:
    assert isinstance(kind, types.StructType)
    return fields({field.encode_name: _shape(field.type, found) for field in kind.fields}, kind.cls.__doc__ or "")


def fields(properties: Mapping[str, Schema], description: str = "", *, may_lack: tuple[str, ...] = ()) -> Schema:
    """Return an object that has all of these, except those that it may lack."""
    told = {"description": " ".join(description.replace("``", "`").split())} if description else {}
    required = sorted(set(properties) - set(may_lack))
    return {"type": "object", **told, "properties": dict(properties), "required": required}


def listed(name: str) -> Schema:
    """Return a list of a schema of the document."""
    return {"type": "array", "items": ref(name)}


def paged(name: str, of: str) -> Schema:
    """A page of a list: its items under ``name``, and the cursor of the next one."""
    return fields({name: listed(of), "next": _CURSOR})


TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer"}
TIME: Final[Schema] = {"type": "number"}
_SIMPLE: Final[Mapping[type[types.Type], Schema]] = {
    types.AnyType: {},
    types.RawType: {},
    types.NoneType: {"type": "null"},
    types.BoolType: {"type": "boolean"},
    types.IntType: COUNT,
    types.FloatType: TIME,
    types.StrType: TEXT,
    types.BytesType: TEXT,
}
_NEXT: Final = "the next page; null: this is the last one."
_CURSOR: Final[Schema] = {"type": ["string", "null"], "description": f"`cursor` of {_NEXT}"}
STATUSES: Final[Schema] = {"enum": [status.value for status in Status]}
_SUMMARY: Final[Mapping[str, Schema]] = {
    "name": TEXT,
    "version": {**COUNT, "description": "From 1; given when it is saved."},
    "extends": {**TEXT, "description": "What it was made from; empty: nothing."},
    "about": {**TEXT, "description": "What it is for."},
    "is_built_in": {"type": "boolean", "description": "Whether it comes with Midcourse."},
    "by": {**TEXT, "description": "Who saved it."},
    "why": {**TEXT, "description": "Why."},
    "at": {"type": ["number", "null"], "description": "When."},
}
_POLICY: Final[Mapping[str, Schema]] = {
    **_SUMMARY,
    "document": {"type": "object", "description": "The whole policy, with what it inherits. See policy.schema.json."},
    "yaml": {**TEXT, "description": "What differs from what it extends, as a file."},
}
_EXPIRES: Final[Schema] = {"type": ["number", "null"], "description": "When it expires; null: never."}
PLAIN: Final[Mapping[str, Schema]] = {
    "Problem": fields(
        {
            "type": {**TEXT, "description": "`urn:midcourse:error:<code>`"},
            "title": {**TEXT, "description": "The status in words."},
            "status": {**COUNT, "description": "The HTTP status."},
            "detail": {**TEXT, "description": "For people: what happened, why, and what to do now."},
            "code": {**TEXT, "description": "For programs; it is never renamed."},
            "field": {**TEXT, "description": "Which part of the request is meant."},
            "session_id": TEXT,
            "status_now": {**STATUSES, "description": "The state of the session."},
            "allowed": {"type": "array", "items": TEXT, "description": "The verbs that are allowed now."},
            "raise_to": {"type": "number", "description": "Dollars that a budget must be raised to."},
        },
        "What happened and what to do, and a stable `code` for programs (RFC 9457). Some have more fields.",
        may_lack=("field", "session_id", "status_now", "allowed", "raise_to"),
    ),
    "EventList": fields(
        {"events": listed("Event"), "next": {"type": ["integer", "null"], "description": f"`after` of {_NEXT}"}}
    ),
    "SessionList": paged("sessions", "Head"),
    "BulkOutcomes": fields({"outcomes": listed("BulkOutcome")}),
    "Inspection": fields(
        {
            "session": ref("Session"),
            "steps": listed("StepView"),
            "state": {"description": "What a state agent would start from."},
            "history": {"type": "array", "items": {}, "description": "The conversation, if its adapter keeps one."},
        }
    ),
    "InterventionList": paged("interventions", "Intervention"),
    "AlarmList": paged("interventions", "LabelledAlarm"),
    "ArtifactList": paged("artifacts", "Artifact"),
    "BatchList": paged("batches", "Batch"),
    "SwitchList": paged("switches", "SwitchSummary"),
    "SwitchCount": fields(
        {
            "count": COUNT,
            "by_status": {"type": "object", "additionalProperties": COUNT},
            "hint": TEXT,
            "sentence": TEXT,
        }
    ),
    "ReleasedList": fields({"outcomes": listed("Released")}),
    "CancelPreview": fields({choice: ref("Receipt") for choice in ("none", "in-flight", "all")}),
    "Result": fields(
        {
            "status": STATUSES,
            "ended": {"type": "boolean"},
            "result": {"description": "What the agent returned, once it has completed."},
            "failure": {"anyOf": [ref("Failure"), {"type": "null"}]},
        }
    ),
    "Blob": {"description": "Any JSON value."},
    "Agent": fields(
        {
            **dict.fromkeys(("name", "version", "mode", "origin"), TEXT),
            "description": {**TEXT, "description": "What it does, for people who choose an agent; may be empty."},
            "goals": {
                "type": "array",
                "items": TEXT,
                "description": "Examples of what to ask of it, the plainest first.",
            },
            "resumable": {"type": "boolean", "description": "Whether another process can continue its sessions."},
            "asks": {"type": "boolean", "description": "Whether it may ask people."},
            "terms": ref("Terms"),
        }
    ),
    "AgentList": paged("agents", "Agent"),
    "AuditList": paged("entries", "AuditEntry"),
    "TokenList": paged("tokens", "KeptToken"),
    "NewlyMadeToken": fields(
        {
            "name": TEXT,
            "role": TEXT,
            "session": {"type": ["string", "null"], "description": "The session whose agent it is for."},
            "only": {"type": ["string", "null"], "description": "The one session that it reaches."},
            "tenant": {"type": ["string", "null"], "description": "Whose sessions it reaches; null: those of all."},
            "expires_at": _EXPIRES,
            "token": {**TEXT, "description": "Shown this once."},
        }
    ),
    "Login": fields(
        {
            "name": TEXT,
            "role": TEXT,
            "tenant": {"type": ["string", "null"], "description": "Whose sessions it reaches; null: those of all."},
            "identity": {**TEXT, "description": "The name with its tenant and the role, for people."},
            "page_key": {**TEXT, "description": "What the page sends in the header `Midcourse-Page`."},
            "expires_at": {**TIME, "description": "When the browser session ends by itself."},
        }
    ),
    "LoginCode": fields(
        {
            "code": {**TEXT, "description": "Lets one browser in, once."},
            "link": {**TEXT, "description": "The address to open, with the code behind its `#`."},
            "expires_at": {**TIME, "description": "When the code stops being valid."},
        }
    ),
    "BrowserSessionList": paged("browser_sessions", "BrowserSession"),
    "InboxChange": fields(
        {
            "asks": {**listed("InboxAsk"), "description": "Those that are new, or other than before."},
            "gone": {
                "type": "array",
                "items": TEXT,
                "description": "`session/ask` of those that are not there any more.",
            },
            "alarms": listed("Batch"),
            **dict.fromkeys(("approvals_in_a_row", "quick", "running"), COUNT),
            "you": TEXT,
        },
        "What changed of the inbox; the first time all of it.",
    ),
    "WebhookList": paged("webhooks", "WebhookView"),
    "NewlyMadeWebhook": fields(
        {
            "webhook": ref("WebhookView"),
            "secret": {**TEXT, "description": "What its deliveries are signed with. Shown this once."},
        }
    ),
    "DeliveryList": paged("deliveries", "DeliveryView"),
    "Health": fields({"status": TEXT}),
    "Readiness": fields({"status": TEXT, "checks": {"type": "object", "additionalProperties": TEXT}}),
    "Policy": fields(_POLICY, "A version of a policy: all of it, as JSON and as YAML."),
    "PolicySummary": fields(_SUMMARY, "A version of a policy, without its document."),
    "Checklist": fields({"items": listed("ChecklistItem")}),
    "ProposalList": paged("proposals", "Proposal"),
    "PolicyList": paged("policies", "PolicySummary"),
    "PolicyHistory": paged("versions", "PolicySummary"),
    "PolicyChange": fields(
        {
            "path": {**TEXT, "description": "Which parameter: `signals.cost.warn`."},
            "before": {"description": "Its value in the first policy; null: it has none."},
            "after": {"description": "Its value in the second."},
            "tightens": {
                "type": ["boolean", "null"],
                "description": "Whether the second steps in earlier by it; null: it has nothing to do with that.",
            },
            "words": {**TEXT, "description": "The same for people: `no longer steps in`. Empty where it is null."},
        },
        "A parameter that two policies set differently.",
    ),
    "PolicyProposed": fields(
        {
            "policy": {**TEXT, "description": "What it begins with: `standard@1`."},
            "yaml": {**TEXT, "description": "The policy's next version, as a file."},
            "changes": listed("PolicyChange"),
            "failures": {**COUNT, "description": "Failing runs that it was made from."},
            "successes": {**COUNT, "description": "Succeeding ones."},
            "stopped": {**COUNT, "description": "Failing runs that it would have stopped."},
            "stopped_wrongly": {**COUNT, "description": "Succeeding ones."},
            "sentence": {**TEXT, "description": "The same for people."},
            "notes": {"type": "array", "items": TEXT, "description": "What was left out, or not measured."},
        },
        "Thresholds that recorded runs propose. Nothing was saved.",
    ),
    "PolicyDifference": fields(
        {
            "from": {**TEXT, "description": "The first policy, with its version: `standard@1`."},
            "to": {**TEXT, "description": "The second."},
            "changes": listed("PolicyChange"),
        }
    ),
    "PolicyCheck": fields(
        {
            "name": TEXT,
            "extends": {**TEXT, "description": "What it is put over."},
            "document": {"type": "object", "description": "The whole policy, with what it inherits."},
            "changes": {**listed("PolicyChange"), "description": "Against what it extends, or what was named."},
        },
        "A text that is a policy. Nothing was saved.",
    ),
}
_OF_SESSION: Final = {"session_id": TEXT}
RESET: Final[Mapping[str, Schema]] = {
    "last_event_id": {**TEXT, "description": "What the reader named as the last event that it had seen."},
    "position": {**COUNT, "description": "Where the journal ends."},
    "detail": {**TEXT, "description": "The same in words."},
}
FRAMES: Final[Mapping[str, Schema]] = {
    "reset": fields(
        {"type": {"const": "reset"}, **RESET, **_OF_SESSION},
        "The session has no such event: forget what was shown. Everything follows, from the start.",
    ),
    "delta": fields(
        {
            "type": {"const": "delta"},
            "text": TEXT,
            "step": TEXT,
            "attempt": COUNT,
            "offset": {**COUNT, "description": "Where in the step's text it belongs, in characters."},
        },
        "More of what the agent says.",
    ),
    "tool": fields(
        {
            "type": {"const": "tool"},
            "name": TEXT,
            "step": TEXT,
            "effect": TEXT,
            "state": {"enum": ["begun", "finished", "failed", "interrupted"]},
            "attempt": COUNT,
            "arguments": {**TEXT, "description": "With `begun`."},
            "detail": {**TEXT, "description": "With `failed`: why."},
        },
        "A tool is called, or its call has ended.",
        may_lack=("arguments", "detail"),
    ),
    "retrying": fields(
        {
            "type": {"const": "retrying"},
            "step": TEXT,
            "attempt": {**COUNT, "description": "Which attempt failed."},
            "attempts": {**COUNT, "description": "How many there are at most."},
            "wait": {"type": "number", "description": "Seconds until the next one."},
            "detail": {**TEXT, "description": "Why."},
        },
        "A model request or a tool call failed in a way that may pass, and is tried again.",
    ),
    "interrupt": fields(
        {
            "type": {"const": "interrupt"},
            "reason": TEXT,
            "prompt": TEXT,
            "ask_id": TEXT,
            "checkpoint_id": TEXT,
            "options": {"type": "array", "items": TEXT},
            "expires_at": {"type": ["number", "null"]},
            **_OF_SESSION,
        },
        "The agent asks. No `done` follows: answer at /chat/resume.",
    ),
    "resumed": fields(
        {"type": {"const": "resumed"}, "ask_id": TEXT, **_OF_SESSION},
        "The ask was answered; the stream of the answer continues. The last frame.",
    ),
    "done": fields(
        {
            "type": {"const": "done"},
            "status": {"enum": ["completed", "cancelled"]},
            "result": {},
            "receipt": listed("ReceiptLine"),
            **_OF_SESSION,
        },
        "The turn is over. A cancelled one has no result, but a receipt. The last frame.",
        may_lack=("receipt",),
    ),
    "error": fields(
        {"type": {"const": "error"}, "code": TEXT, "message": TEXT, **_OF_SESSION},
        "The session failed, or the message was withdrawn before its turn. The last frame.",
    ),
    "end": fields(
        {"type": {"const": "end"}, "reason": {"enum": list(get_args(Reason))}},
        "The stream ends although the turn does not: the server stops, or the caller may not read on. Come back "
        "with the last id. Its `event:` is `end`.",
    ),
}
"""The frames of a chat, by their ``type``."""
