"""Whoever sent a request, and what it may use of the server: the dependencies of every route."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any, Final, TypeVar, cast

from fastapi import Depends, Header, Request

from midcourse.core.allowed import did_you_mean
from midcourse.core.audit import AuditEntry
from midcourse.core.commands import ID_LIMIT, AnyCommand, Command, Role, verb
from midcourse.core.ids import CommandId, SessionId
from midcourse.core.replies import Level, Reply
from midcourse.core.session import Session
from midcourse.core.tenants import MARK, in_tenant, tenant_of
from midcourse.errors import AccessDenied, InvalidInput, SessionNotFound
from midcourse.runtime.control import Control
from midcourse.server.auth import access_of, check_role
from midcourse.server.fleet import Board
from midcourse.server.hosting import Reading
from midcourse.server.leaving import Leaving
from midcourse.server.limits import Streams
from midcourse.server.tokens import Principal
from midcourse.server.wording import shortened

log = logging.getLogger("midcourse.server")
C = TypeVar("C", bound=Command)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
NEEDED: Final[dict[object, Role]] = {}
"""The role that each dependency of a route wants: what the OpenAPI document tells of it."""
KEY_LIMIT: Final = 128
"""The longest Idempotency-Key that is taken."""
TAG_LIMIT: Final = 1000
"""The longest If-Match."""


class Caller:
    """One request's principal, its headers that every control takes, and the controls themselves."""

    def __init__(
        self, request: Request, principal: Principal, key: str | None = None, if_match: str | None = None
    ) -> None:
        self._request = request
        self.principal = principal
        self.key = key
        self.if_match = _unquoted(if_match)

    @property
    def role(self) -> Role:
        """What the caller may do."""
        return self.principal.role

    @property
    def tenant(self) -> str | None:
        """Whose sessions, and what else is kept, the caller sees. None: those of all tenants; it is the host's."""
        return self.principal.tenant

    def sees(self, key: str) -> bool:
        """Whether a session, or anything else whose key begins with its tenant, is the caller's to see."""
        return self.tenant is None or tenant_of(key) == self.tenant

    def narrowed(self, tenant: str | None) -> str | None:
        """The tenant whose things are listed: the caller's own. The host's callers may name one, or (None) see all.

        Raises:
            AccessDenied: it is another's.
        """
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
        """The session that the caller means: within a tenant, that may be left out of the id."""
        is_whole = self.tenant is None or MARK in session_id
        return SessionId(session_id) if is_whole else self.own_id(session_id)

    def own_id(self, session_id: str) -> SessionId:
        """The id that the caller gives a new session, as its tenant's; the host's callers name any tenant.

        Raises:
            InvalidInput: it names another tenant.
        """
        return SessionId(session_id) if self.tenant is None else in_tenant(self.tenant, session_id)

    @property
    def control(self) -> Control:
        """The controls over the store."""
        return cast("Control", self._request.app.state.control)

    @property
    def streams(self) -> Streams:
        """The places for open streams."""
        return cast("Streams", self._request.app.state.streams)

    @property
    def trials(self) -> asyncio.Semaphore:
        """The places for what computes long: policies on recorded runs."""
        return cast("asyncio.Semaphore", self._request.app.state.trials)

    @property
    def board(self) -> Board:
        """The fleet, for those who follow it."""
        return cast("Board", self._request.app.state.board)

    @property
    def leaving(self) -> Leaving:
        """Whether the server is about to end."""
        return cast("Leaving", self._request.app.state.leaving)

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a token was revoked or a browser session ended here, or for so many seconds."""
        await access_of(self._request.app).tokens.wait_for_change(seconds)

    async def is_still_allowed(self) -> bool:
        """Whether the token or browser session it came with is still valid: asked while a stream is open."""
        return await access_of(self._request.app).identify(self._request.scope) == self.principal

    def address(self, path: str) -> str:
        """Where something is, also if the server is mounted somewhere."""
        return f"{self._request.scope.get('root_path', '')}{path}"

    @property
    def command_id(self) -> CommandId:
        """The id of the caller's command: its Idempotency-Key, so that a retry is the same command, or a fresh one."""
        if self.key is None:
            return CommandId(f"cmd_{self.control.worker.clock.fresh_id()}")
        name = f"{self.principal.full_name}:{self.key}"
        if len(name) > ID_LIMIT:
            name = f"{self.principal.full_name}:{hashlib.blake2b(self.key.encode(), digest_size=20).hexdigest()}"
        return CommandId(name)

    def wish(self, kind: type[C], **fields: Any) -> C:
        """A command of the caller."""
        own: dict[str, Any] = {
            "id": self.command_id,
            "by": self.principal.by,
            "role": self.role,
            "expects": self.if_match,
        }
        return kind(**{**own, **fields})

    def derived_session_id(self) -> SessionId:
        """The id of a session that the caller creates: made of its Idempotency-Key, else fresh."""
        if self.key is None:
            return self.own_id(f"sess_{self.control.worker.clock.fresh_id()}")
        words = f"{self.principal.full_name}\n{self.key}".encode()
        return self.own_id(f"sess_{hashlib.blake2b(words, digest_size=10).hexdigest()}")

    def person(self, name: str) -> str:
        """Somebody as journals name them: within a tenant, that may be left out of the name."""
        return f"{self.tenant}{MARK}{name}" if self.tenant and MARK not in name else name

    def audited(self, action: str, detail: str = "", *, tenant: str | None = None) -> AuditEntry:
        """An entry for the audit log: what the caller changes that concerns no single session.

        ``tenant``: whom it concerns; left out, the caller's own.
        """
        return AuditEntry(
            session=SessionId(""),
            tenant=(self.tenant or "") if tenant is None else tenant,
            by=self.principal.by,
            role=self.role,
            action=action,
            detail=detail,
            at=self.control.worker.clock.now(),
        )

    async def session(self, session_id: str) -> Session:
        """A session as its journal tells it.

        Raises:
            SessionNotFound: no such session.
        """
        return await self.read(self.control.session(SessionId(session_id)))

    async def session_at(self, session_id: str, position: int) -> Session:
        """A session as it was at a position."""
        return (await self.read(self.control.inspect(SessionId(session_id), position))).session

    async def read(self, work: Coroutine[Any, Any, T]) -> T:
        """Something that folds a journal, or shows one, however long it is, and holds nobody else's request up."""
        return await cast("Reading", self._request.app.state.reading)(work)

    async def send(self, session_id: str, command: AnyCommand, *, wait: float, until: Level = "decided") -> Reply:
        """Send a command and answer once ``until`` is reached, or after ``wait`` seconds with what is known by then."""
        reply = await self.control.send(SessionId(session_id), command, until=until, wait=wait)
        facts = {"session": session_id, "by": self.principal.by, "reached": reply.level, "status": reply.status}
        log.info("%s of session %s", verb(command), session_id, extra=facts)
        return reply


def _unquoted(tag: str | None) -> str:
    """An entity tag as the session spells it; empty if any will do."""
    bare = (tag or "").strip().removeprefix("W/").strip('"')
    return "" if bare == "*" else bare


def caller_with(needed: Role) -> Callable[..., Awaitable[Caller]]:
    """A dependency: the caller, if its role includes ``needed``."""

    async def allowed(request: Request) -> Caller:
        return Caller(request, await _principal(request, needed))

    NEEDED[allowed] = needed
    return allowed


async def _principal(request: Request, needed: Role) -> Principal:
    principal = await access_of(request.app).principal(request)
    _check_query(request)
    check_role(principal, needed)
    _check_path(request, principal)
    if principal.session is not None and request.scope.get("endpoint") not in _CHECKED_THERE:
        check_reach(principal, request.path_params.get("session_id"))
    return principal


def _check_path(request: Request, principal: Principal) -> None:
    """The session that the address names, in the caller's tenant: within it, the tenant may be left out.

    Raises:
        SessionNotFound: it is another tenant's.
    """
    named: str | None = request.path_params.get("session_id")
    if named is None:
        return
    caller = Caller(request, principal)
    # Read by the endpoint after this.
    request.path_params["session_id"] = session_id = caller.named(named)
    caller.check_visible(session_id)


def _check_query(request: Request) -> None:
    """A misspelt filter would be a wish that nobody hears.

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
    """Marks an endpoint that checks itself what a session's own token reaches: its address names no session."""
    _CHECKED_THERE.add(endpoint)
    return endpoint


def commander_with(needed: Role, what: str = "session") -> Callable[..., Awaitable[Caller]]:
    """A dependency: the caller with the headers that every change takes, if its role includes ``needed``."""

    async def allowed(
        request: Request,
        idempotency_key: Annotated[
            str | None,
            Header(
                alias="Idempotency-Key",
                description="Makes a retry the same command. Any text of 1 to 128 printable ASCII characters.",
                json_schema_extra={"minLength": 1, "maxLength": KEY_LIMIT, "pattern": "^[ -~]+$"},
            ),
        ] = None,
        if_match: Annotated[
            str | None,
            Header(
                alias="If-Match",
                description=f"The {what}'s ETag: the command is refused once the {what} has moved on from it.",
                json_schema_extra={"maxLength": TAG_LIMIT},
            ),
        ] = None,
    ) -> Caller:
        principal = await _principal(request, needed)
        if idempotency_key is not None and not (
            0 < len(idempotency_key) <= KEY_LIMIT and idempotency_key.isascii() and idempotency_key.isprintable()
        ):
            raise InvalidInput(
                f"An Idempotency-Key has 1 to {KEY_LIMIT} printable ASCII characters.", field="Idempotency-Key"
            )
        if if_match is not None and len(if_match) > TAG_LIMIT:
            raise InvalidInput(f"If-Match is the ETag of the {what}.", field="If-Match")
        return Caller(request, principal, idempotency_key, if_match)

    NEEDED[allowed] = needed
    return allowed


Watcher = Annotated[Caller, Depends(caller_with("watch"))]
Steerer = Annotated[Caller, Depends(commander_with("steer"))]
Operator = Annotated[Caller, Depends(caller_with("operate"))]
PolicyKeeper = Annotated[Caller, Depends(commander_with("operate", "policy"))]


def check_reach(principal: Principal, session_id: str | None) -> None:
    """A session's own token reaches that session and its children alone.

    Raises:
        AccessDenied: this is another session, or about all of them.
    """
    own = principal.session
    reached = session_id is not None and (session_id == own or session_id.startswith(f"{own}."))
    if own is not None and not reached:
        raise AccessDenied(f"This token belongs to session '{own}' and reaches that one alone.", code="forbidden")


def refuse_for_session(principal: Principal, what: str) -> None:
    """What a session's own token may not do even to itself.

    Raises:
        AccessDenied: it is one.
    """
    if principal.session is not None:
        raise AccessDenied(
            f"This token belongs to session '{principal.session}', which may not {what}.", code="forbidden"
        )
