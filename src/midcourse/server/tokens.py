"""Tokens: who a request comes from, and what that one may do. Only their hashes are kept.

Browsers never hold a token: they exchange it for a session of their own, see :mod:`midcourse.server.browser_sessions`.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from midcourse.core.audit import AuditEntry
from midcourse.core.commands import Role, agent_name, is_below
from midcourse.core.deadlines import DEADLINE, LAPSE
from midcourse.core.ids import SessionId
from midcourse.core.tenants import MARK, check_tenant, tenant_of
from midcourse.errors import InvalidInput, Refused, ShelfChanged
from midcourse.ports.clock import Clock
from midcourse.ports.sender import check_people_send
from midcourse.ports.shelves import readable
from midcourse.ports.store import Store
from midcourse.server.roles import role_named
from midcourse.server.shelf_cache import ShelfTable

PREFIX: Final = "mct_"
"""The prefix of every token made here, by which people and scanners recognise it."""
LOCAL: Final = "local"
"""The name of the server's own token, which is on no shelf."""
RESERVED: Final = frozenset({LOCAL, DEADLINE, LAPSE})
"""Names under which others than people act."""
LONGEST: Final = 256
"""Characters of the longest token that is looked up."""
GIVEN_SHORTEST: Final = 16
"""The fewest characters of a token from a command line."""
LIFETIME: Final = 90 * 86_400.0
"""Seconds that a token is valid if its maker names no other time."""
SHORTEST_LIFETIME: Final = 60.0
LONGEST_LIFETIME: Final = 10 * 365 * 86_400.0

_SHELF: Final = "tokens"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_MADE: Final = re.compile(PREFIX + r"[\w-]{43}", re.ASCII)
_GIVEN: Final = re.compile(r"[!-~]+")


class Principal(msgspec.Struct, frozen=True):
    """Whom a request comes from.

    ``session``: the session whose agent it is, if it is one; its role is ``agent`` then. ``only``: the one session that
    a person's token reaches, if it reaches no other. ``tenant``: whose sessions it sees, and whose its own are; None:
    the host's, over all tenants.
    """

    name: str
    role: Role
    session: SessionId | None = None
    tenant: str | None = None
    only: SessionId | None = None

    @property
    def full_name(self) -> str:
        """The name with its tenant, which no other principal has: keys are made of it. The host's is bare."""
        return _key(self.tenant, self.name)

    @property
    def by(self) -> str:
        """The sender of this principal's commands, unique over all tenants."""
        return self.full_name if self.session is None else agent_name(self.session)

    def as_agent_of(self, session: SessionId) -> "Principal":
        """Return the agent of a session as the holder of this token, which still reaches no further than it did."""
        if self.session is not None and not is_below(session, self.session):
            return self
        return msgspec.structs.replace(self, role="agent", session=session)


HOST: Final = Principal(LOCAL, "operate")
"""The principal of the store's own user, and of the server's own token."""


class KeptToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it lies on the shelf: all but the token itself. ``expires_at``: None is never."""

    name: str
    role: Role
    session: SessionId | None = None
    created_at: float
    digest: str
    tenant: str | None = None
    only: SessionId | None = None
    expires_at: float | None = None
    made_with: str = ""
    """The digest of the Idempotency-Key that it was made with."""
    salt: str = ""
    """The salt of its secret, if it was made with a key."""

    @property
    def principal(self) -> Principal:
        if self.session is None:
            return Principal(self.name, self.role, None, self.tenant, self.only)
        return Principal(self.name, "agent", self.session, tenant_of(self.session))

    @property
    def key(self) -> str:
        """Its place on the shelf."""
        return _key(self.tenant, self.name)


class Once(NamedTuple):
    """The common part of a request and its retries: the digest of their key, and the secret of their sender.

    A token made with it is derived from that secret, so that a retry is answered with it although only a hash is kept.
    """

    key: str
    secret: str

    def token(self, salt: str) -> str:
        """Return the secret of a token: it cannot be computed without the sender's secret and the salt in the store."""
        derived = hmac.digest(self.secret.encode(), f"token\n{salt}\n{self.key}".encode(), "sha256")
        return PREFIX + base64.urlsafe_b64encode(derived).decode().rstrip("=")


class Holder(NamedTuple):
    """The holder of a token, and when it expires."""

    principal: Principal
    expires_at: float | None


class TokenStore:
    """The tokens of one store, and the server's own. Used on one event loop."""

    def __init__(self, store: Store, clock: Clock, *, local: str | None = None) -> None:
        """``local`` is the token of the user who started the server; it may do everything."""
        self._store = store
        self._clock = clock
        self._own = "" if local is None else digest_of(local)
        self._table = ShelfTable(clock, self._rows)
        self._adding = asyncio.Lock()
        self._changed = asyncio.Event()

    async def add(
        self,
        name: str,
        role: str,
        session: SessionId | None = None,
        *,
        tenant: str | None = None,
        only: SessionId | None = None,
        expires_at: float | None = None,
        by: Principal = HOST,
        once: Once | None = None,
    ) -> str:
        """Make a token and return it. It is shown this once, and cannot be read again.

        ``once``: a retry of the same request returns the same token.

        ``tenant``: the tenant whose sessions it reaches; None: all sessions. ``session``: it is for the agent of that
        session, of whose tenant it is, and has no role but ``agent``. ``only``: it reaches that session alone. ``by``
        is its maker, for the audit log. ``expires_at``: when it stops being valid; None: never.

        Raises:
            InvalidInput: the name, role or tenant cannot be used, or both ``session`` and ``only`` are given; code
                ``token_exists`` if the tenant has such a name.
            SessionNotFound: the session that it is for, or reaches, does not exist.
            Refused: ``idempotency_key_reused``: another token was made with that key.
        """
        if session is not None and only is not None:
            raise InvalidInput("session is for an agent's token, only for a person's: give one of them.", field="only")
        if _NAME.fullmatch(name) is None or name in RESERVED:
            raise InvalidInput(
                f"{name!r} cannot be a token's name. Use 1 to 64 letters, digits and . _ @ + -, beginning with a "
                f"letter or digit; {', '.join(sorted(RESERVED))} are reserved.",
                field="name",
            )
        known: Role = "agent" if session is not None else role_named(role)
        await check_people_send(self._store, "make a token")
        if (reached := session or only) is not None:
            await self._store.head(reached)
            tenant = tenant_of(reached) or None
        if tenant is not None:
            check_tenant(tenant)
        salt = "" if once is None else secrets.token_urlsafe(16)
        token = new_token() if once is None else once.token(salt)
        now = self._clock.now()
        kept = KeptToken(
            name=name, role=known, session=session, created_at=now, digest=digest_of(token), tenant=tenant, only=only,
            expires_at=expires_at, made_with="" if once is None else once.key, salt=salt,
        )  # fmt: skip
        reach = f" for session {reached}" if reached else ""
        told = audited(by, "token.add", f"{kept.key} may {known}{reach}", tenant, now)
        async with self._adding:
            if once is not None and (earlier := await self._made_with(once, kept)) is not None:
                return earlier
            try:
                content = msgspec.json.encode(kept)
                await self._store.shelve(_SHELF, {kept.key: content}, expecting={kept.key: None}, audit=[told])
            except ShelfChanged as error:
                raise InvalidInput(
                    f"There is a token '{name}' already. Revoke it first, or use another name.",
                    code="token_exists",
                    field="name",
                ) from error
        self._table.changed()
        return token

    async def _made_with(self, once: Once, wanted: KeptToken) -> str | None:
        """Return the token that was made with this key before; None if there is none."""
        for kept in await self.list():
            if kept.made_with == once.key:
                token = once.token(kept.salt)
                same = (kept.key, kept.role, kept.session, kept.only) == (
                    wanted.key, wanted.role, wanted.session, wanted.only
                )  # fmt: skip
                if same and digest_of(token) == kept.digest:
                    return token
                raise Refused(
                    "This Idempotency-Key was used before, for another token. Use a fresh one for each.",
                    code="idempotency_key_reused",
                )
        return None

    async def list(self, *, tenant: str | None = None) -> Sequence[KeptToken]:
        """Return the tokens on the shelf by name, of one tenant or (None) all, without those that are damaged."""
        rows, _ = await readable(self._store, _SHELF)  # one bad row shuts out its owner, not everybody
        found = [kept for key, content in rows if (kept := _kept(content)) is not None and kept.key == key]
        return [kept for kept in found if tenant in (None, kept.tenant)]

    async def revoke(self, name: str, *, by: Principal = HOST) -> bool:
        """Revoke a token: here at once, in other processes within a second. False: there was none of that name.

        A tenant's is ``acme~name``; a user of that tenant may leave that out, and reaches no other's.

        Raises:
            InvalidInput: it is the server's own, which is on no shelf.
        """
        if name == LOCAL and by.tenant is None:
            raise InvalidInput(
                f"'{LOCAL}' is the server's own token, from --token or the file token in the server's .midcourse "
                "folder. To replace it, delete that file and start the server again.",
                field="name",
            )
        await check_people_send(self._store, "revoke a token")
        key = name if by.tenant is None or MARK in name else _key(by.tenant, name)
        reached = by.tenant is None or tenant_of(key) == by.tenant
        told = audited(by, "token.revoke", key, tenant_of(key), self._clock.now())
        async with self._adding:
            there = bool(await self._store.shelf_keys(_SHELF, first=key, last=key)) if name and reached else False
            if there:
                await self._store.shelve(_SHELF, {key: None}, audit=[told])
        self.changed()
        return there

    async def principal_of(self, token: str) -> Principal | None:
        """Return who comes with ``token``; None if it is unknown, revoked or expired.

        Raises:
            StoreUnavailable: it may be on the shelf, and the shelf cannot be read.
        """
        holder = await self.holder(digest_of(token)) if 0 < len(token) <= LONGEST else None
        return None if holder is None else holder.principal

    async def holder(self, digest: str) -> Holder | None:
        """Return who has the token with that digest; None if it is unknown, revoked or expired.

        Raises:
            StoreUnavailable: it may be on the shelf, and the shelf cannot be read.
        """
        if digest == self._own:
            return Holder(HOST, None)
        kept = await self._table.find(digest)
        if kept is None or (kept.expires_at is not None and kept.expires_at <= self._clock.now()):
            return None
        return Holder(kept.principal, kept.expires_at)

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a token was revoked or a browser session ended in this process, or for so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def changed(self) -> None:
        """Have every token looked up again, and open streams ask whether they may stay."""
        self._table.changed()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _rows(self) -> Mapping[str, KeptToken]:
        return {kept.digest: kept for kept in await self.list()}


def expiry(lifetime: float | None, now: float) -> float | None:
    """Return when something made now with that lifetime expires; None: never.

    Raises:
        InvalidInput: it is shorter than a minute, or longer than ten years.
    """
    if lifetime is None:
        return None
    if not SHORTEST_LIFETIME <= lifetime <= LONGEST_LIFETIME:
        raise InvalidInput("A token's lifetime is between one minute and ten years, or never.", field="lifetime")
    return now + lifetime


def new_token(prefix: str = PREFIX) -> str:
    """Return a secret that cannot be guessed: 32 random bytes."""
    return prefix + secrets.token_urlsafe(32)


def local_token(folder: Path) -> str:
    """Return the server's own token, from the file ``token`` in ``folder``, made if missing.

    Raises:
        InvalidInput: the file is open to others or another user's and cannot be made ours, or holds no token.
    """
    path = folder / "token"
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _create(path)
        token = _read_private(path)
    except OSError as error:
        raise InvalidInput(
            f"The token file {path} cannot be used ({error.strerror or error}). "
            "Check the folder, or give a token with --token.",
            field="token",
        ) from error
    if _MADE.fullmatch(token) is None:
        raise InvalidInput(f"{path} holds no token. Delete it, and a new one is made.", field="token")
    return token


def _create(path: Path) -> None:
    """Write a new token beside ``path`` and link it there: the file is never seen half written or open to others."""
    beside = path.with_name(f"token.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(new_token() + "\n")
        with contextlib.suppress(FileExistsError):  # another process was quicker: its token it is
            os.link(beside, path)
    finally:
        beside.unlink()


def _read_private(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_mode & 0o077:
            with contextlib.suppress(OSError):
                os.fchmod(descriptor, 0o600)
            status = os.fstat(descriptor)
        if status.st_mode & 0o077 or status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            raise InvalidInput(
                f"The token file {path} can be read by others or is not yours. "
                "Delete it, and a new one is made; or give a token with --token.",
                field="token",
            )
        return file.read(LONGEST + 1).decode("utf-8", "replace").strip()


def check_given_token(token: str) -> str:
    """Return ``token`` from the command line, if it can be used.

    Raises:
        InvalidInput: it is short or long, or holds what a header cannot carry.
    """
    if not GIVEN_SHORTEST <= len(token) <= LONGEST or _GIVEN.fullmatch(token) is None:
        raise InvalidInput(
            f"A token has {GIVEN_SHORTEST} to {LONGEST} printable ASCII characters and no spaces. "
            "Leave --token out, and one is made.",
            field="token",
        )
    return token


def audited(by: Principal, action: str, detail: str, tenant: str | None, now: float) -> AuditEntry:
    """Return an entry for the audit log about what lets callers in."""
    return AuditEntry(
        session=SessionId(""), tenant=tenant or "", by=by.by, role=by.role, action=action, detail=detail, at=now
    )


def _key(tenant: str | None, name: str) -> str:
    # Neither a tenant's name nor a token's holds the mark.
    return f"{tenant}{MARK}{name}" if tenant else name


def digest_of(secret: str) -> str:
    """Return what the store keeps in place of a secret."""
    # Not salted, not slow: what is hashed is 32 random bytes, which no dictionary holds. And a lookup by hash tells
    # by its time nothing about the token.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _kept(content: bytes) -> KeptToken | None:
    try:
        return msgspec.json.decode(content, type=KeptToken)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # of a later version, say
        return None
