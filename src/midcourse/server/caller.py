"""The caller of a request, and its rights on the server: the dependencies of every route."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Annotated, Any, Final, TypeVar, cast

from fastapi import Depends, Header, Request

from midcourse.core.agent_rights import check_no_agent
from midcourse.core.audit import AuditEntry
from midcourse.core.choices import did_you_mean
from midcourse.core.commands import ID_LIMIT, MARK_LIMIT, AnyCommand, Command, Role, Rung, is_below, verb
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.replies import Level, Reply
from midcourse.core.session import Session
from midcourse.core.tenants import MARK, in_tenant, tenant_of
from midcourse.errors import AccessDenied, InvalidInput, MidcourseError, Refused, SessionNotFound
from midcourse.handle import LocalTransport, Sessions
from midcourse.ports.clock import Clock
from midcourse.ports.sender import AGENT_HEADER, agent_here, has_session
from midcourse.ports.store import Store
from midcourse.server.auth import access_of, check_role
from midcourse.server.conventions import address_in, bare_tag
from midcourse.server.fleet_changes import FleetBoard
from midcourse.server.host_threads import ReadingThread
from midcourse.server.limits import Streams
from midcourse.server.origins import SAFE
from midcourse.server.problems import redacted_error
from midcourse.server.shutdown import Shutdown
from midcourse.server.tokens import Principal
from midcourse.server.validation_errors import shortened

log = logging.getLogger("midcourse.server")
C = TypeVar("C", bound=Command)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
NEEDED: Final[dict[object, Rung]] = {}
"""The role that each dependency of a route wants: what the OpenAPI document tells of it."""
FOR_AGENTS: Final[set[object]] = set()
"""The dependencies of the routes that an agent may use on its own session and its children, too."""
PATH_LIMIT: Final = 300
"""Characters of a session's id in an address: more than any has."""
TAG_LIMIT: Final = MARK_LIMIT + 30
"""The longest accepted If-Match, with its quotes and a position."""
KEY_LIMIT: Final = 128
"""The longest Idempotency-Key."""


class Caller:
    """One request's principal, its headers that every control takes, and the controls themselves."""

    def __init__(
        self, request: Request, principal: Principal, key: str | None = None, if_match: str | None = None
    ) -> None:
        self._request = request
        self.principal = principal
        self.key = key
        self.if_match = _unquoted(if_match)
        self.has_condition = if_match is not None

    @property
    def role(self) -> Role:
        return self.principal.role

    def check_reach(self, session_id: str | None) -> None:
        """Refuse what a token that is for one session does not reach: any other, and what is about all of them.

        Raises:
            AccessDenied: this is neither its session nor, for an agent, one of its children.
        """
        for own in (self.principal.session, self.principal.only):
            if own is not None and session_id != own and not is_below(session_id or "", own):
                whose = "is for the agent of" if self.principal.session else "reaches"
                raise AccessDenied(f"This token {whose} session '{own}', and reaches that one alone.", code="forbidden")

    @property
    def tenant(self) -> str | None:
        """Whose sessions, and what else is kept, the caller sees. None: those of all tenants; it is the host's."""
        return self.principal.tenant

    def sees(self, key: str) -> bool:
        """Return True if the caller may see a session, or anything else whose key begins with its tenant."""
        return self.tenant is None or tenant_of(key) == self.tenant

    def told(self, error: MidcourseError) -> MidcourseError:
        """Return an error in the form for this caller, outside of problem documents."""
        return redacted_error(error, self.principal)

    def narrowed(self, tenant: str | None) -> str | None:
        """Return the tenant of a list: the caller's own. The host's callers may name one, or (None) see all."""
        if self.tenant is None or tenant in (None, self.tenant):
            return tenant if self.tenant is None else self.tenant
        raise AccessDenied(
            f"The token '{self.principal.name}' is of tenant '{self.tenant}' and reaches that one alone. "
            "Leave tenant out.",
            code="forbidden",
        )

    def check_visible(self, session_id: str) -> None:
        """Refuse a session of another tenant, in the words for one that is not there. Nothing is looked up.

        Raises:
            SessionNotFound: it is another tenant's.
        """
        if not self.sees(session_id):
            raise SessionNotFound(f"There is no session '{session_id}' here.", session_id=session_id)

    def named(self, session_id: str) -> SessionId:
        """Return the session that the caller means: within a tenant, that may be left out of the id."""
        is_whole = self.tenant is None or MARK in session_id
        return SessionId(session_id) if is_whole else self.own_id(session_id)

    def own_id(self, session_id: str) -> SessionId:
        """Return the caller's id for a new session, as its tenant's; the host's callers name any tenant.

        Raises:
            InvalidInput: it names another tenant.
        """
        return SessionId(session_id) if self.tenant is None else in_tenant(self.tenant, session_id)

    @property
    def local(self) -> LocalTransport:
        """The open store, for the caller's role."""
        return cast("LocalTransport", self._request.app.state.local).for_role(self.principal.role)

    @property
    def store(self) -> Store:
        """The store with the sessions."""
        return self.local.store

    @property
    def clock(self) -> Clock:
        """The clock of the store."""
        return self.local.clock

    @property
    def sessions(self) -> Sessions:
        """The verbs over many sessions, in the caller's name."""
        return Sessions(self.local)

    @property
    def streams(self) -> Streams:
        """The places for open streams."""
        return cast("Streams", self._request.app.state.streams)

    @property
    def trials(self) -> asyncio.Semaphore:
        """The places for long computations: policies on recorded runs."""
        return cast("asyncio.Semaphore", self._request.app.state.trials)

    @property
    def board(self) -> FleetBoard:
        return cast("FleetBoard", self._request.app.state.board)

    @property
    def leaving(self) -> Shutdown:
        """The state of the server's shutdown."""
        return cast("Shutdown", self._request.app.state.leaving)

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a token was revoked or a browser session ended here, or for so many seconds."""
        await access_of(self._request.app).tokens.wait_for_change(seconds)

    async def is_still_allowed(self) -> bool:
        """Return True if its token or browser session is still valid: asked while a stream is open."""
        known = await access_of(self._request.app).identify(self._request.scope)
        return known is not None and await _as_sent(self._request, known) == self.principal

    def address(self, path: str) -> str:
        """Return a URL, also if the server is mounted somewhere."""
        return address_in(self._request.scope, path)

    @property
    def command_id(self) -> CommandId:
        """The id of the caller's command: its Idempotency-Key, so that a retry is the same command, or a fresh one."""
        if self.key is None:
            return CommandId(f"cmd_{self.local.clock.fresh_id()}")
        name = f"{self.principal.full_name}:{self.key}"
        if len(name) > ID_LIMIT:
            name = f"{self.principal.full_name}:{hashlib.blake2b(self.key.encode(), digest_size=20).hexdigest()}"
        return CommandId(name)

    def make_command(self, kind: type[C], **fields: Any) -> C:
        own: dict[str, Any] = {
            "id": self.command_id,
            "by": self.principal.by,
            "role": self.principal.role,
            "expects": self.if_match,
        }
        return kind(**{**own, **fields})

    def derived_session_id(self) -> SessionId:
        """The id of a session that the caller creates: made of its Idempotency-Key, else fresh."""
        if self.key is None:
            return self.own_id(f"sess_{self.clock.fresh_id()}")
        return self.own_id(f"sess_{self.key_digest}")

    @property
    def key_digest(self) -> str:
        """The digest of the caller's Idempotency-Key, for the id of something that it makes; empty without one."""
        if self.key is None:
            return ""
        return hashlib.blake2b(f"{self.principal.full_name}\n{self.key}".encode(), digest_size=10).hexdigest()

    def person(self, name: str) -> str:
        """Return a person as journals name them: within a tenant, that may be left out of the name."""
        return f"{self.tenant}{MARK}{name}" if self.tenant and MARK not in name else name

    def audited(self, action: str, detail: str = "", *, tenant: str | None = None) -> AuditEntry:
        """Return an entry for the audit log: a change by the caller that concerns no single session.

        ``tenant``: whom it concerns; left out, the caller's own.
        """
        return AuditEntry(
            session=SessionId(""),
            tenant=(self.tenant or "") if tenant is None else tenant,
            by=self.principal.by,
            role=self.role,
            action=action,
            detail=detail,
            at=self.clock.now(),
        )

    async def session(self, session_id: str) -> Session:
        """Return a session by its journal.

        Raises:
            SessionNotFound: no such session.
        """
        return await self.read(self.local.state(SessionId(session_id)))

    def check_match(self, session: Session | None) -> None:
        """Check that a session is the one that If-Match means; a missing one matches nothing.

        Raises:
            Refused: ``precondition_failed``.
        """
        if not self.has_condition or (session is not None and self.if_match in ("", session.mark)):
            return
        if session is None:
            sentence = "If-Match names a state of a session, and there is none yet. Leave it out to begin one."
            raise Refused(sentence, code="precondition_failed")
        raise Refused(
            f"Session '{session.id}' has moved on from '{shortened(self.if_match)}', and is '{session.mark}' now. "
            "Look again, then decide.",
            code="precondition_failed",
            session_id=session.id,
        )

    async def session_at(self, session_id: str, position: int) -> Session:
        """A session as it was at a position."""
        return (await self.read(self.local.inspect(SessionId(session_id), position))).session

    async def read(self, work: Coroutine[Any, Any, T]) -> T:
        """Fold a journal, or show one, of any length, without delaying other requests."""
        return await cast("ReadingThread", self._request.app.state.reading)(work)

    async def send(self, session_id: str, command: AnyCommand, *, wait: float, until: Level = "decided") -> Reply:
        """Send a command and answer once ``until`` is reached, or after ``wait`` seconds with what is known by then."""
        reply = await self.local.send(SessionId(session_id), command, until=until, wait=wait)
        facts = {"session": session_id, "by": self.principal.by, "reached": reply.level, "status": reply.status}
        log.info("%s of session %s", verb(command), session_id, extra=facts)
        return reply


def _unquoted(tag: str | None) -> str:
    """Return the session's mark in an entity tag; empty if any will do."""
    bare = bare_tag(tag or "").partition("#")[0]
    return "" if bare == "*" else bare


def caller_with(needed: Rung, *, agents: bool = False) -> Callable[..., Awaitable[Caller]]:
    """Return a dependency: the caller, if its role includes ``needed``; ``agents``: or if it is the session's agent."""

    async def allowed(request: Request) -> Caller:
        return Caller(request, await _principal(request, needed, agents=agents))

    return _known(allowed, needed, agents=agents)


def _known(allowed: F, needed: Rung, *, agents: bool) -> F:
    NEEDED[allowed] = needed
    if agents:
        FOR_AGENTS.add(allowed)
    return allowed


async def _principal(request: Request, needed: Rung, *taken: str, agents: bool) -> Principal:
    known = await access_of(request.app).principal(request)
    request.state.principal = known  # what a problem may tell depends on it
    principal = await _as_sent(request, known)
    check_headers(request, taken)
    _check_query(request)
    if known.session is None:  # also if an agent uses it: to claim to be one gives no more rights
        check_role(known, needed)
    if not agents:
        check_no_agent(principal.session, "use this address")
    caller = Caller(request, principal)
    _check_path(request, caller)
    if request.scope.get("endpoint") not in _CHECKED_THERE:
        caller.check_reach(request.path_params.get("session_id"))
    return principal


async def _as_sent(request: Request, principal: Principal) -> Principal:
    """Return the token's holder; or the agent whose code uses a person's token, as far as its sender is known."""
    named = request.headers.get(AGENT_HEADER) or agent_here()
    if not named:
        return principal
    agent = SessionId(named)
    store = cast("LocalTransport", request.app.state.local).store
    return principal.as_agent_of(agent) if await has_session(store, agent) else principal


def _check_path(request: Request, caller: Caller) -> None:
    """Check the session that the address names, in the caller's tenant, which may be left out.

    Raises:
        SessionNotFound: it is another tenant's.
    """
    named: str | None = request.path_params.get("session_id")
    if named is None or caller.tenant is None:
        return
    # Read by the endpoint after this.
    request.path_params["session_id"] = session_id = caller.named(named)
    caller.check_visible(session_id)
    if len(named) <= PATH_LIMIT < len(session_id):  # only with its tenant is it longer than any
        raise SessionNotFound(f"There is no session '{session_id}' here.", session_id=session_id)


def check_headers(request: Request, taken: Sequence[str]) -> None:
    """Refuse a header that would not be kept to: the change would be one that its sender did not want.

    Raises:
        InvalidInput: the address does not take such a header.
    """
    if request.method in SAFE:
        return
    for name in _CONDITIONS:
        if name in request.headers and name not in taken:
            hint = "" if name == "If-Match" or "If-Match" not in taken else " If-Match is what it takes."
            sentence = f"This address does not take {name}: it would change something without looking at it.{hint}"
            raise InvalidInput(f"{sentence} Leave it out.", field=name)

    if "Idempotency-Key" in request.headers and "Idempotency-Key" not in taken:
        sentence = "This address does not take Idempotency-Key: what it makes is shown once, and a retry makes another."
        raise InvalidInput(f"{sentence} Leave it out.", field="Idempotency-Key")


_CONDITIONS: Final = ("If-Match", "If-None-Match", "If-Unmodified-Since")


def _check_query(request: Request) -> None:
    """Refuse a misspelt filter, which would be ignored.

    Raises:
        InvalidInput: the address takes no such query parameter.
    """
    if not request.query_params:
        return
    route: Any = request.scope["route"]
    known: list[str] = [field.alias for field in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            hint = did_you_mean(name, known) or f" There are: {', '.join(known) or 'none'}."
            raise InvalidInput(f"There is no query parameter '{shortened(name)}'.{hint}", field=shortened(name))


_CHECKED_THERE: Final[set[object]] = set()


def checks_reach(endpoint: F) -> F:
    """Marks an endpoint that checks itself what a token of one session reaches: its address names no session."""
    _CHECKED_THERE.add(endpoint)
    return endpoint


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Makes a retry the same command. Any text of 1 to 128 printable ASCII characters.",
        json_schema_extra={"minLength": 1, "maxLength": KEY_LIMIT, "pattern": "^[ -~]+$"},
    ),
]


def sender_with(needed: Rung) -> Callable[..., Awaitable[Caller]]:
    """Return a dependency: the caller with an Idempotency-Key, if its role includes ``needed``."""

    async def allowed(request: Request, idempotency_key: IdempotencyKey = None) -> Caller:
        principal = await _principal(request, needed, "Idempotency-Key", agents=False)
        return Caller(request, principal, _checked_key(idempotency_key))

    return _known(allowed, needed, agents=False)


def commander_with(needed: Rung, what: str = "session", *, agents: bool = False) -> Callable[..., Awaitable[Caller]]:
    """Return a dependency: a sender with If-Match, for changes of one existing thing.

    ``agents``: or if it is the session's agent; its rights are decided with the command.
    """

    async def allowed(
        request: Request,
        idempotency_key: IdempotencyKey = None,
        if_match: Annotated[
            str | None,
            Header(
                alias="If-Match",
                description=f"The {what}'s ETag: the command is refused once the {what} has moved on from it.",
                json_schema_extra={"maxLength": TAG_LIMIT},
            ),
        ] = None,
    ) -> Caller:
        principal = await _principal(request, needed, "Idempotency-Key", "If-Match", agents=agents)
        if if_match is not None and len(if_match) > TAG_LIMIT:
            raise InvalidInput(f"If-Match is the ETag of the {what}.", field="If-Match")
        return Caller(request, principal, _checked_key(idempotency_key), if_match)

    return _known(allowed, needed, agents=agents)


def _checked_key(key: str | None) -> str | None:
    if key is not None and not (0 < len(key) <= KEY_LIMIT and key.isascii() and key.isprintable()):
        raise InvalidInput(
            f"An Idempotency-Key has 1 to {KEY_LIMIT} printable ASCII characters.", field="Idempotency-Key"
        )
    return key


Watcher = Annotated[Caller, Depends(caller_with("watch"))]
Reader = Annotated[Caller, Depends(caller_with("watch", agents=True))]
"""A watcher, or the agent of the session that is read."""
Steerer = Annotated[Caller, Depends(commander_with("steer"))]
Commander = Annotated[Caller, Depends(commander_with("steer", agents=True))]
"""A steerer, or the agent of the commanded session: the core decides about its rights."""
Sender = Annotated[Caller, Depends(sender_with("steer"))]
Reckoner = Annotated[Caller, Depends(sender_with("watch"))]
"""A watcher who has something computed. With an Idempotency-Key or without: it changes nothing."""
Operator = Annotated[Caller, Depends(caller_with("operate"))]
Administrator = Annotated[Caller, Depends(sender_with("operate"))]
"""An operator who makes or settles something, with an Idempotency-Key."""
Eraser = Annotated[Caller, Depends(commander_with("operate"))]
PolicyKeeper = Annotated[Caller, Depends(commander_with("operate", "policy"))]
