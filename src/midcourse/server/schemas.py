"""The bodies of requests. Untrusted input becomes a value here, or a sentence that says why not."""

from functools import cache
from typing import Annotated, Any, Final, Literal, cast

from msgspec import inspect
from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model, model_validator

from midcourse.analysis.backtest.calibration import FALSE_STOPS
from midcourse.analysis.reports.recorded_runs import MOST as MOST_RUNS
from midcourse.analysis.reports.recorded_runs import USUAL as USUAL_RUNS
from midcourse.core.bulk import MOST_SESSIONS, BulkVerb
from midcourse.core.commands import ID_LIMIT, LONGEST_GRACE, TEXT_LIMIT, Behaviour, Command, Message, Rung
from midcourse.core.parameters import Parameter, parameters
from midcourse.core.replies import Level
from midcourse.core.switches import LONGEST_REASON, LONGEST_VALUE, ScopeKind
from midcourse.core.tenants import MARK
from midcourse.core.tenants import PATTERN as TENANT
from midcourse.core.terms import LABEL, MOST_LABELS, TaskClass
from midcourse.people.inbox_rules import LONGEST_HAND_OVER, NAME_LIMIT
from midcourse.people.webhooks import ABOUT_LIMIT, URL_LIMIT
from midcourse.policy.artifacts import ARTIFACT_LIMIT, DOCUMENTATION_LIMIT
from midcourse.policy.schema import REFERENCE
from midcourse.policy.versions import WHY_LIMIT
from midcourse.policy.yaml_positions import SIZE_LIMIT
from midcourse.server.tokens import LIFETIME, LONGEST_LIFETIME, SHORTEST_LIFETIME

LONGEST_WAIT = 60.0
"""Seconds the longest request waits for an outcome."""
MOST_FIELDS = 100
"""The number of a body's fields that are read, known or not."""

Text = Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT)]
Reason = Annotated[str, Field(max_length=TEXT_LIMIT)]
Name = Annotated[str, Field(min_length=1, max_length=ID_LIMIT)]
_TENANT = f"({TENANT.strip('^$')}{MARK})?"
SESSION = rf"^{_TENANT}[A-Za-z0-9_][A-Za-z0-9_.-]*$"
NEW_SESSION = rf"^{_TENANT}[A-Za-z0-9_][A-Za-z0-9_-]*$"
SessionName = Annotated[str, Field(max_length=ID_LIMIT, pattern=SESSION)]
NewSessionName = Annotated[str, Field(max_length=ID_LIMIT, pattern=NEW_SESSION)]
SessionLabel = Annotated[str, Field(pattern=LABEL)]
Grace = Annotated[float, Field(ge=0, le=LONGEST_GRACE, allow_inf_nan=False)]
Wait = Annotated[
    float, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False, description="Seconds to wait for the outcome.")
]
PolicyReference = Annotated[str, Field(pattern=REFERENCE)]
Money = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False, description="Dollars.")]
Until = Annotated[
    Level,
    Field(description="How far it must have got before the answer comes: the gate is shut, or nothing runs."),
]


class Body(BaseModel):
    """A request's body. Unknown fields are refused: a misspelt one would be ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, str_strip_whitespace=False, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _check_number(cls, given: object) -> object:
        # A sentence for each of a hundred thousand fields would keep everybody waiting.
        if isinstance(given, dict) and (number := len(cast("dict[object, object]", given))) > MOST_FIELDS:
            raise ValueError(f"it has {number:,} fields; there are {len(cls.model_fields)}")
        return cast("object", given)


class _Made(Body):
    """A body that is made from a command: its fields say what they are for, and no source has to be searched."""

    model_config = ConfigDict(use_attribute_docstrings=False)


@cache
def body_of(kind: type[Command]) -> type[Body]:
    """Return the body with which a command is sent, made from its class: its fields, and how long to wait."""
    assert kind.sent is not None
    fields: dict[str, Any] = {
        name: _field(one, is_required=one.is_required or name in kind.sent.chosen)
        for name, one in parameters(kind).items()
        if name not in Command.__struct_fields__ and f"{{{name}}}" not in kind.sent.place
    }
    if kind.sent.is_stop:
        fields["until"] = (Until, "stopping")
    fields["wait"] = (Wait, kind.sent.wait)
    return create_model(kind.__name__, __base__=_Made, __doc__=str(kind.__doc__).partition("\n")[0], **fields)


def _field(one: Parameter, *, is_required: bool) -> tuple[Any, Any]:
    kind = one.type
    limits = {name: limit for name in _LIMITS if (limit := getattr(kind, name, None)) is not None}
    if isinstance(kind, inspect.FloatType):
        limits["allow_inf_nan"] = False
    plain: Any = Literal[one.choices] if one.choices else _PLAIN.get(type(kind), JsonValue)
    annotated: Any = Annotated[plain, Field(**limits)] if limits else plain
    whole: Any = annotated | None if one.is_nullable else annotated
    return Annotated[whole, Field(description=one.help)], ... if is_required else one.default


_LIMITS: Final = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern")
_PLAIN: Final[dict[type[inspect.Type], type]] = {
    inspect.BoolType: bool,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.StrType: str,
}


class NewSession(Body):
    """Give an agent a goal."""

    agent: Name
    """One of /agents."""
    goal: Reason = ""
    """The task of the agent."""
    session_id: NewSessionName | None = None
    """An id of your own; left out, one is made."""
    task_class: TaskClass | None = None
    """The length of such a task; left out, the agent's own."""
    budget: Money | None = None
    """Dollars the session may cost; left out, the agent's own."""
    labels: Annotated[tuple[SessionLabel, ...], Field(max_length=MOST_LABELS, strict=False)] = ()
    """Operators find and stop it by these; they are added to the agent's own."""
    tenant: Annotated[str, Field(pattern=TENANT)] | None = None
    """Whose it is. Left out, the tenant of the caller's token; only the host's may name another."""


class Fork(Body):
    """A new session that continues from a point of this one."""

    at: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """A journal position; left out, the last checkpoint."""
    session_id: NewSessionName | None = None
    """An id of your own; left out, one is made."""
    paused: bool = False
    """If it is paused before it begins."""


class Bulk(Body):
    """One verb for many sessions. Each gets the ordinary command."""

    verb: BulkVerb
    """The command to each of them."""
    sessions: Annotated[list[Name], Field(min_length=1, max_length=MOST_SESSIONS)]
    """The ids of the sessions."""
    reason: Reason = ""
    """The reason, for later readers."""
    grace: Grace | None = None
    """Seconds that calls in flight have to finish; left out, as with the verb for one session."""


class ReviewedArtifact(Body):
    """A person's review of an artifact."""

    name: Annotated[str, Field(min_length=1, max_length=ARTIFACT_LIMIT)]
    """The agent's name of it."""
    documentation: Annotated[str, Field(max_length=DOCUMENTATION_LIMIT)] = ""
    """Its description. Left out, the known one stays."""


class NewToken(Body):
    """A token for a program or a person, or (with ``session``) for an agent."""

    name: Annotated[
        str, Field(min_length=1, max_length=64, json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9._@+-]*$"})
    ]
    """The user of the token: letters, digits and . _ @ + -, beginning with a letter or digit."""
    role: Rung = "watch"
    """Its role. With ``session`` it is an agent's, whose role is ``agent``, with any value here."""
    session: SessionName | None = None
    """The session whose agent it is for. It may do what is on the agents' list, to that session and its children."""
    only: SessionName | None = None
    """The one session that a person's token reaches. Left out, those of its tenant."""
    tenant: Annotated[str, Field(pattern=TENANT)] | None = None
    """Whose sessions it reaches. Left out, those that the caller's own token reaches."""
    lifetime: Annotated[float, Field(ge=SHORTEST_LIFETIME, le=LONGEST_LIFETIME, allow_inf_nan=False)] | None = LIFETIME
    """Seconds after which it expires. Left out, 90 days; null: never."""


class LogIn(Body):
    """The input of a browser's login."""

    credential: Annotated[str, Field(min_length=1, max_length=256)]
    """A login code, which is used up, or a token."""
    replace: bool = False
    """Log in although the browser is logged in with another identity."""


class OwnAsk(Body):
    """Whose an ask is to be."""

    owner: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)] | None = None
    """A name, as tokens have it; left out, the caller's own."""


class HandOverTo(Body):
    """The substitute of the caller."""

    to: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]
    """A name, as tokens have it."""
    seconds: Annotated[float, Field(ge=0, le=LONGEST_HAND_OVER, allow_inf_nan=False)] = 3600.0
    """For how long; 0 ends it."""


class NewWebhook(Body):
    """A new subscription."""

    url: Annotated[str, Field(min_length=1, max_length=URL_LIMIT)]
    """The address: http:// or https://. A tenant's is a public address."""
    kinds: Annotated[list[Annotated[str, Field(max_length=50)]], Field(min_length=1, max_length=20)]
    """The kinds to send, or `*` for all: `ask.opened`, `ask.reminder`, `ask.escalated`, `ask.closed`,
    `alarms.batched`, `kill_switch.thrown`, `kill_switch.lifted`, `review.proposed`."""
    about: Annotated[str, Field(max_length=ABOUT_LIMIT)] = ""
    """Its purpose, for later readers."""


class PolicyText(Body):
    """A policy as YAML."""

    document: Annotated[str, Field(min_length=1, max_length=SIZE_LIMIT)]
    """The text of the file."""


class PolicyDraft(PolicyText):
    """A policy as YAML that is not finished yet."""

    against: PolicyReference | None = None
    """The policy to compare with: `standard`, or `standard@1`. Left out: its base."""


class NewPolicy(PolicyText):
    """A policy as YAML, to be kept as the next version of its name."""

    why: Annotated[str, Field(min_length=1, max_length=WHY_LIMIT)]
    """The reason of the change, for later readers."""


class _Tried(Body):
    """The recorded runs to use."""

    since: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] | None = None
    """Runs that began since: seconds since 1970. Left out: all."""
    limit: Annotated[int, Field(ge=1, le=MOST_RUNS)] = USUAL_RUNS
    """The most runs, the newest first."""


class PolicyTrial(_Tried):
    """A policy, as YAML or by its name, and others that it is held against."""

    document: Annotated[str, Field(min_length=1, max_length=SIZE_LIMIT)] | None = None
    """The text of a policy that is not saved yet."""
    policy: PolicyReference | None = None
    """Or a saved one: `standard`, or `standard@1`."""
    against: Annotated[list[PolicyReference], Field(max_length=4)] = []
    """Others on the same runs."""


class PolicyCalibration(_Tried):
    """The input for new thresholds."""

    policy: PolicyReference
    """The policy to begin with: `standard`, or `standard@1`."""
    false_stops: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = FALSE_STOPS
    """The share of succeeding runs that may be stopped."""


class Settling(Body):
    """A person's decision about a proposal."""

    why: Annotated[str, Field(min_length=1, max_length=WHY_LIMIT)]
    """The reason, for later readers."""


class Chat(Body):
    """A message to an agent, in a new session or an existing one."""

    agent: Name
    """One of /agents."""
    message: Text
    """The text of the message."""
    session_id: SessionName | None = None
    """The session to continue; left out, a new one."""
    behaviour: Annotated[Behaviour, Field(description=parameters(Message)["behaviour"].help)] = "enqueue"


class ChatResume(Body):
    """The answer to what the agent asked."""

    session_id: Name
    """The session that asked."""
    answer: JsonValue
    """The answer: any JSON value. An approval is `yes`, `approve` or `true`."""
    ask_id: Annotated[str, Field(min_length=1, max_length=2 * ID_LIMIT)] | None = None
    """Which ask; left out, the only one that is open, if this caller was shown it."""


class SwitchScope(Body):
    """The scope of a kill switch."""

    kind: ScopeKind
    """`all`, or those of an `agent`, with a `label`, or of a `tenant`."""
    value: Annotated[str, Field(max_length=LONGEST_VALUE)] = ""
    """The name of the agent, label or tenant."""


class PreviewSwitch(Body):
    """A preview of a kill switch."""

    scope: SwitchScope
    """Over what."""


class ThrowSwitch(Body):
    """Halt everything in a scope."""

    scope: SwitchScope
    """Over what."""
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]
    """The reason, for the people whose sessions are halted."""
    wait: Wait = 5.0


class LiftSwitch(Body):
    """End a kill switch."""

    why: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]
    """For the audit log."""


class ReleaseHalted(Body):
    """Let sessions go back to where they were."""

    sessions: Annotated[list[Name], Field(max_length=1000)] | None = None
    """Those; left out, all that it halted."""
    wait: Wait = 5.0
