"""The way in for browsers: a login code that works once within a minute, exchanged for a browser session.

A browser session has two secrets. The cookie is kept from scripts, and a browser sends it to every port of its host.
The page key is kept by the console's own origin, and goes to no other port. Neither is of any use without the other.
"""

from collections.abc import Mapping, Sequence
from hmac import compare_digest
from typing import Final, NamedTuple, TypeVar

import msgspec

from midcourse.errors import AccessDenied, ShelfChanged
from midcourse.ports.clock import Clock
from midcourse.ports.shelves import readable
from midcourse.ports.store import Store
from midcourse.server.shelf_cache import ShelfTable
from midcourse.server.tokens import HOST, LOCAL, Holder, Principal, TokenStore, audited, digest_of, new_token

CODE_SECONDS: Final = 60.0
"""The lifetime of a login code."""
SESSION_SECONDS: Final = 7 * 86_400.0
"""The lifetime of a browser session, unless its token expires sooner."""
CODE: Final = "mcl_"
COOKIE: Final = "mcb_"
PAGE: Final = "mcp_"
"""The prefix of each kind of secret."""

_CODES: Final = "login-codes"
_SESSIONS: Final = "browser-sessions"
_MOST: Final = 50
"""Codes, and browser sessions, of one token at a time: those that expire first make room."""
_ID: Final = 16
"""Characters of a digest that name a browser session."""


class LoginCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code as it lies on the shelf, under its digest. ``holder``: the digest of the token that it stands for."""

    holder: str
    expires_at: float


class KeptBrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    """A browser session as it lies on the shelf, under the digest of its cookie."""

    holder: str
    page: str
    place: str
    name: str
    tenant: str | None = None
    created_at: float
    expires_at: float


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    """A browser session, without what makes it one."""

    id: str
    name: str
    tenant: str | None
    place: str
    created_at: float
    expires_at: float


class Login(NamedTuple):
    """The result of a browser's login with a code or a token."""

    principal: Principal
    cookie: str
    page: str
    expires_at: float


Kept = TypeVar("Kept", LoginCode, KeptBrowserSession)


class Logins:
    """The login codes and browser sessions of one store. Used on one event loop."""

    def __init__(self, store: Store, clock: Clock, tokens: TokenStore) -> None:
        self._store = store
        self._clock = clock
        self._tokens = tokens
        self._table = ShelfTable(clock, self._rows)

    async def code_for(self, token: str) -> tuple[str, float]:
        """Make a login code that stands for ``token``; return it with the time at which it expires.

        Raises:
            AccessDenied: ``unauthorized``: the token is unknown, revoked or expired. ``forbidden``: it is a session's.
        """
        await self._person(digest_of(token), "unauthorized")
        code, now = new_token(CODE), self._clock.now()
        kept = LoginCode(holder=digest_of(token), expires_at=now + CODE_SECONDS)
        items = await self._room(_CODES, LoginCode, kept.holder)
        await self._store.shelve(_CODES, {**items, digest_of(code): msgspec.json.encode(kept)})
        return code, kept.expires_at

    async def log_in(self, credential: str, place: str, *, current: str = "", replace: bool = False) -> Login:
        """Exchange a login code, which is used up, or a token for a browser session at ``place``.

        ``current``: the identity that the browser is logged in with now, as ``described``. A credential of another
        identity takes ``replace``.

        Raises:
            AccessDenied: ``login_refused``: the code was used or is too old, or the token is not valid.
                ``identity_would_change``: the browser is logged in as another; the code is not used up.
        """
        digest, code = digest_of(credential), b""
        holder = digest
        if credential.startswith(CODE):
            rows = await self._store.shelved(_CODES, first=digest, last=digest)
            code = rows[0][1] if rows else b""
            kept = _decoded(code, LoginCode)
            if kept is None or kept.expires_at <= self._clock.now():
                raise _refused()
            holder = kept.holder
        principal, token_expires_at = await self._person(holder, "login_refused")
        if current not in ("", then := described(principal)) and not replace:
            raise AccessDenied(
                f"This browser is logged in as {current}. Logging in would make it {then}.",
                code="identity_would_change",
                now=current,
                then=then,
            )
        if code:
            try:
                await self._store.shelve(_CODES, {digest: None}, expecting={digest: code})
            except ShelfChanged as error:  # another request was faster: a code works once
                raise _refused() from error
        return await self._begin(holder, principal, place, token_expires_at)

    async def _begin(self, holder: str, principal: Principal, place: str, token_expires_at: float | None) -> Login:
        now = self._clock.now()
        expires_at = min(now + SESSION_SECONDS, token_expires_at or float("inf"))
        made = Login(principal, new_token(COOKIE), new_token(PAGE), expires_at)
        kept = KeptBrowserSession(
            holder=holder, page=digest_of(made.page), place=place, name=principal.name, tenant=principal.tenant,
            created_at=now, expires_at=expires_at,
        )  # fmt: skip
        key = digest_of(made.cookie)
        told = audited(principal, "browser.login", f"browser session {key[:_ID]}", principal.tenant, now)
        items = await self._room(_SESSIONS, KeptBrowserSession, holder)
        await self._store.shelve(_SESSIONS, {**items, key: msgspec.json.encode(kept)}, audit=[told])
        self._table.changed()
        return made

    async def _person(self, holder: str, code: str) -> Holder:
        found = await self._tokens.holder(holder)
        if found is None:
            raise _refused(code)
        if found.principal.session is not None:
            raise AccessDenied(
                f"This token belongs to session '{found.principal.session}'. Log in with a person's token.",
                code="forbidden",
            )
        return found

    async def principal_of(self, cookie: str, page: str, place: str) -> Principal | None:
        """Return who comes with a cookie and a page key to ``place``; None: there is no such session any more.

        Raises:
            StoreUnavailable: it may be there, and the shelf cannot be read.
        """
        kept = await self._valid(cookie, page, place)
        holder = None if kept is None else await self._tokens.holder(kept.holder)
        return None if holder is None else holder.principal

    async def current(self, cookie: str, page: str, place: str) -> BrowserSession | None:
        """Return the browser session with that cookie and page key; None if there is none any more."""
        kept = await self._valid(cookie, page, place)
        return None if kept is None else _shown(digest_of(cookie), kept)

    async def _valid(self, cookie: str, page: str, place: str) -> KeptBrowserSession | None:
        if not cookie.startswith(COOKIE) or not page.startswith(PAGE):
            return None
        kept = await self._table.find(digest_of(cookie))
        if kept is None or kept.expires_at <= self._clock.now():
            return None
        return kept if kept.place == place and compare_digest(kept.page, digest_of(page)) else None

    async def list(self, *, tenant: str | None = None) -> Sequence[BrowserSession]:
        """Return the browser sessions that are valid, the newest first, of one tenant or (None) all."""
        now = self._clock.now()
        valid = [
            _shown(key, kept)
            for key, kept in (await self._rows()).items()
            if kept.expires_at > now
            and tenant in (None, kept.tenant)
            # A server's own token is on no shelf, and this may be another process.
            and (kept.name == LOCAL or await self._tokens.holder(kept.holder) is not None)
        ]
        return sorted(valid, key=lambda one: -one.created_at)

    async def end(self, name: str, *, by: Principal = HOST, action: str = "browser.revoke") -> bool:
        """End a browser session by its id: here at once, in other processes within a second. False: there is none.

        A tenant's principal reaches the sessions of that tenant alone.
        """
        rows = await self._rows()
        key = next((key for key in rows if key[:_ID] == name), None)
        if key is None or by.tenant not in (None, rows[key].tenant):
            return False
        kept = rows[key]
        whose = Principal(kept.name, "watch", None, kept.tenant).full_name
        told = audited(by, action, f"browser session {name} of {whose}", kept.tenant, self._clock.now())
        await self._store.shelve(_SESSIONS, {key: None}, audit=[told])
        self._table.changed()
        self._tokens.changed()
        return True

    def now(self) -> float:
        """Return the time by which codes and browser sessions expire."""
        return self._clock.now()

    async def _rows(self) -> Mapping[str, KeptBrowserSession]:
        rows, _ = await readable(self._store, _SESSIONS)
        return {key: kept for key, content in rows if (kept := _decoded(content, KeptBrowserSession)) is not None}

    async def _room(self, shelf: str, kind: type[Kept], holder: str) -> dict[str, bytes | None]:
        """Return what must leave a shelf before something new is put there: what expired, and what is too much."""
        rows, _ = await readable(self._store, shelf)
        now = self._clock.now()
        known = [(key, kept) for key, content in rows if (kept := _decoded(content, kind)) is not None]
        own = sorted((kept.expires_at, key) for key, kept in known if kept.holder == holder and kept.expires_at > now)
        gone = [key for key, kept in known if kept.expires_at <= now]
        return dict.fromkeys([*gone, *(key for _, key in own[: max(0, len(own) - _MOST + 1)])])


def described(principal: Principal) -> str:
    """Return a principal as people read it: ``ada (approve)``."""
    return f"{principal.full_name} ({principal.role})"


def _refused(code: str = "login_refused") -> AccessDenied:
    return AccessDenied(
        "This code or token is not valid. A code works once, within a minute; a token may have expired or been "
        "revoked. Run 'midcourse browser link' for a new link.",
        code=code,
    )


def _shown(key: str, kept: KeptBrowserSession) -> BrowserSession:
    return BrowserSession(
        id=key[:_ID], name=kept.name, tenant=kept.tenant, place=kept.place, created_at=kept.created_at,
        expires_at=kept.expires_at,
    )  # fmt: skip


def _decoded(content: bytes, kind: type[Kept]) -> Kept | None:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # of a later version, say, or nothing
        return None
