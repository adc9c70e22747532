"""The kill switch: a standing record with a scope. While it stands, nothing in its scope begins. Pure.

It is an operator's, and separate from cancel: it undoes nothing, and lifting it resumes nothing by itself.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, get_args

import msgspec

from midcourse.core.choices import did_you_mean
from midcourse.core.ids import CommandId, Position, SessionId, SwitchId
from midcourse.core.tenants import check_tenant, tenant_of
from midcourse.core.terms import check_labels
from midcourse.errors import AccessDenied, InvalidInput

ScopeKind = Literal["all", "agent", "label", "tenant"]
Reach = Literal["stopped", "still_running", "not_reachable"]
"""The known state of a session in the scope of a switch."""
LONGEST_VALUE: Final = 200
"""Characters of the longest name that a scope takes."""
_NAMES_SHOWN: Final = 10
LONGEST_REASON: Final = 1000
"""Characters of the longest reason: it is shown with every session that was halted."""


class Scope(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """The scope of a switch. ``tenant``: only that tenant's; None: any tenant's."""

    kind: ScopeKind = "all"
    value: str = ""
    tenant: str | None = None

    def covers(self, session_id: SessionId, agent: str, labels: Sequence[str]) -> bool:
        if self.tenant is not None and tenant_of(session_id) != self.tenant:
            return False
        match self.kind:
            case "all":
                return True
            case "agent":
                return agent == self.value
            case "label":
                return self.value in labels
            case "tenant":
                return tenant_of(session_id) == self.value

    def concerns(self, tenant: str | None) -> bool:
        """Return True if a tenant must know of it: it may halt sessions of theirs. None: for all."""
        whose = self.value if self.kind == "tenant" else self.tenant
        return tenant is None or whose is None or whose == tenant

    def __str__(self) -> str:
        whose = f" of tenant '{self.tenant}'" if self.tenant else ""
        match self.kind:
            case "all":
                return f"all sessions{whose}"
            case "tenant":
                return f"all sessions of tenant '{self.value}'"
            case kind:
                return f"sessions of {kind} '{self.value}'{whose}"


def check_scope(kind: str, value: str, tenant: str | None = None) -> Scope:
    """Return the requested scope.

    Raises:
        InvalidInput: the scope is ambiguous.
    """
    if kind not in get_args(ScopeKind):
        raise InvalidInput(f"The scope is {kind!r}; it is one of {', '.join(get_args(ScopeKind))}.", field="scope")
    if kind == "all" and value:
        raise InvalidInput(f"The scope 'all' takes no name, and there is '{value[:100]}'.", field="scope")
    if kind != "all" and not 0 < len(value) <= LONGEST_VALUE:
        raise InvalidInput(f"Name the {kind}, in 1 to {LONGEST_VALUE} characters.", field="scope")
    if kind == "label":
        check_labels([value])
    if kind == "tenant":
        check_tenant(value)
        if tenant is not None and tenant != value:
            raise AccessDenied(f"Tenant '{value}' is not yours to halt.", code="forbidden")
    return Scope(kind, value, tenant)  # pyright: ignore[reportArgumentType] - looked at above


class Switch(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """A switch that was thrown. It stands until it is lifted, whatever is restarted."""

    id: SwitchId
    scope: Scope
    reason: str
    by: str
    at: float
    lifted_at: float | None = None
    lifted_by: str = ""
    lifted_why: str = ""

    @property
    def stands(self) -> bool:
        """True if nothing in its scope may begin."""
        return self.lifted_at is None


class Reached(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One session in a switch's report. ``was``: the status it was halted from. ``running`` continues ``since``."""

    session: SessionId
    agent: str
    goal: str
    state: Reach
    was: str = ""
    since: float = 0.0
    running: str = ""


class SwitchReport(msgspec.Struct, gc=False, frozen=True):
    """A switch, and what is known of every session in its scope: worst first. ``durable``: it survives a restart.

    Not durable: the store fails, and sessions of other processes may not be listed.
    ``hint`` is said when it is thrown over a name that nothing here has.
    """

    switch: Switch
    sessions: tuple[Reached, ...]
    durable: bool = True
    hint: str = ""

    def count(self, state: Reach) -> int:
        """Return how many of them have this state."""
        return sum(one.state == state for one in self.sessions)

    def __str__(self) -> str:
        words = [f"{self.count('stopped')} stopped"]
        words += [f"{number} still running" for number in [self.count("still_running")] if number]
        words += [f"{number} not reachable" for number in [self.count("not_reachable")] if number]
        if not self.sessions:
            words = ["no session is in its scope now" if self.durable else "nothing in its scope runs in this process"]
        state = "is on" if self.switch.stands else "is lifted"
        if not self.switch.stands and self.sessions:
            many = "1 session stays" if len(self.sessions) == 1 else f"{len(self.sessions)} sessions stay"
            words = [f"{many} halted"]
        known = (
            ""
            if self.durable
            else " The store fails: the switch may not survive a restart, and sessions of other processes may not be "
            "listed. It is on in this process, which writes it when it can."
        )
        hint = f" {self.hint}" if self.hint else ""
        return f"The kill switch over {self.switch.scope} {state}: {', '.join(words)}.{known}{hint}"


class SwitchPreview(msgspec.Struct, gc=False, frozen=True):
    """The sessions that a switch would halt now: how many, by status. ``hint``: nothing here has the scope's name."""

    by_status: Mapping[str, int]
    hint: str = ""

    @property
    def count(self) -> int:
        return sum(self.by_status.values())

    def __str__(self) -> str:
        words = ", ".join(f"{count} {status}" for status, count in sorted(self.by_status.items()))
        many = "1 session" if self.count == 1 else f"{self.count} sessions"
        told = f"{many} now ({words})." if self.count else "No session now; what starts in this scope begins halted."
        return f"{told} {self.hint}" if self.hint else told


def name_hint(scope: Scope, known: Collection[str]) -> str:
    """Return a hint for a scope with an unknown name: it is in force all the same, for later sessions."""
    if scope.kind == "all" or scope.value in known:
        return ""
    names = sorted(known)
    rest = ", …" if len(names) > _NAMES_SHOWN else ""
    listed = f" Known: {', '.join(names[:_NAMES_SHOWN])}{rest}." if names else ""
    return f"No {scope.kind} of that name is known here.{did_you_mean(scope.value, known)}{listed}"


class Released(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """The result of releasing one session. ``code`` and ``problem`` say why it failed."""

    session: SessionId
    ok: bool
    status: str = ""
    code: str = ""
    problem: str = ""


_ORDER: Final[Sequence[Reach]] = ("not_reachable", "still_running", "stopped")


def worst_first(sessions: Iterable[Reached]) -> tuple[Reached, ...]:
    """Sort the sessions that need a person first."""
    return tuple(sorted(sessions, key=lambda one: (_ORDER.index(one.state), one.session)))


def halt_id(switch: SwitchId, position: Position) -> CommandId:
    """Return the id of the command with which a switch halts a session at ``position``."""
    return CommandId(f"{switch}/halt/{position}")


def check_reason(reason: str, field: str = "reason") -> str:
    """Return ``reason``, if there is one.

    Raises:
        InvalidInput: there is none, or it is too long.
    """
    if not reason.strip():
        raise InvalidInput(
            "Say why: the people whose sessions are halted read it, and the audit log keeps it.", field=field
        )
    if len(reason) > LONGEST_REASON:
        raise InvalidInput(
            f"The reason has {len(reason):,} characters; at most {LONGEST_REASON:,} are allowed.", field=field
        )
    return reason
