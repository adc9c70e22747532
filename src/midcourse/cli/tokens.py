"""``midcourse token`` and ``midcourse browser``: who may use a store's server, how far, and from which browsers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from midcourse.cli.command import STORE, Call, command
from midcourse.cli.printer import print_json, print_lines, show_table
from midcourse.cli.status_text import ago, expiry_words
from midcourse.cli.target import DEFAULT_STORE, argument, check_there, span_or_never, store_path
from midcourse.clock import SystemClock
from midcourse.core.ids import SessionId
from midcourse.core.tenants import MARK, tenant_of
from midcourse.errors import InvalidInput
from midcourse.wiring import open_store

if TYPE_CHECKING:
    from midcourse.ports.store import Store
    from midcourse.server.browser_sessions import Logins
    from midcourse.server.tokens import TokenStore


@command("token add", "Make a token.", where=STORE)
async def add(
    call: Call,
    name: Annotated[str, typer.Argument(help="Whom the token is for: the name in journals and the audit log.")],
    role: Annotated[str, typer.Option(help="Its role: watch, steer, approve or operate.")] = "watch",
    session: Annotated[
        str | None, typer.Option(help="Make it for the agent of this session and its tools, with the role agent.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Limit it to this session.")] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Limit it to the sessions of this tenant. Default: all sessions.")
    ] = None,
    expires: Annotated[str, typer.Option(metavar="SPAN", help="How long it is valid: 12h, 90d, or never.")] = "90d",
) -> None:
    """Make a token and print it. It is shown only once: the store keeps a hash.

    \b
    Examples:
      midcourse token add nightly-report --role watch --expires never
      midcourse token add ada --role approve --tenant acme
      midcourse token add callback --session sess_0198f2
    """
    from midcourse.server.tokens import expiry

    lifetime = span_or_never(expires, "--expires")

    whose = tenant
    reached = session or only
    if reached is not None:
        whose = tenant_of(reached) or None
        if tenant not in (None, whose):
            raise InvalidInput(f"Session '{reached}' is not of tenant '{tenant}'. Leave --tenant out.", field="tenant")
    async with _tokens(call.store, make=True) as tokens:
        expires_at = expiry(lifetime, SystemClock().now())
        agent, person = (None if one is None else SessionId(one) for one in (session, only))
        token = await tokens.add(name, role, agent, tenant=whose, only=person, expires_at=expires_at)
    if call.as_json:
        may = "agent" if session else role
        shown = {"name": name, "role": may, "session": session, "only": only, "tenant": whose}
        print_json({**shown, "expires_at": expires_at, "token": token})
    else:
        print_lines(token)


@command("token list", "List the tokens.", where=STORE)
async def show(call: Call) -> None:
    """List the tokens: names and roles, never the tokens themselves.

    \b
    Examples:
      midcourse token list
    """

    async with _tokens(call.store) as tokens:
        found = await tokens.list()
    if call.as_json:
        shown = ("name", "role", "session", "only", "tenant", "created_at", "expires_at")
        print_json([{name: getattr(one, name) for name in shown} for one in found])
    elif not found:
        print_lines("No tokens were added. Add one: midcourse token add NAME --role watch")
    else:
        now = SystemClock().now()
        rows = [
            (
                one.key,
                one.role,
                one.session or one.only or "",
                expiry_words(one.expires_at, now),
                ago(one.created_at, now),
            )
            for one in found
        ]
        show_table(("name", "role", "session", "expires", "made"), rows)


@command("token revoke", "Revoke a token.", where=STORE)
async def revoke(
    call: Call, name: Annotated[str, typer.Argument(help="The token's name; with a tenant, acme~name.")]
) -> None:
    """Revoke a token, and log out the browsers that logged in with it.

    A running server refuses it within a second, and ends its open streams within five.

    \b
    Examples:
      midcourse token revoke ada
    """

    async with _tokens(call.store) as tokens:
        if not await tokens.revoke(name):
            sentence = f"There is no token '{name}'. List them: midcourse token list"
            raise InvalidInput(sentence, code="token_not_found")
    if call.as_json:
        print_json({"revoked": name})
    else:
        print_lines(f"'{name}' is revoked.")


@command("browser list", "List the browsers that are logged in.", where=STORE)
async def show_browsers(call: Call) -> None:
    """List the browsers that are logged in, the newest first.

    \b
    Examples:
      midcourse browser list
    """

    async with _logins(call.store) as logins:
        found = await logins.list()
    if call.as_json:
        print_json(found)
    elif not found:
        print_lines("No browser is logged in. Print a link for one: midcourse browser link")
    else:
        now = SystemClock().now()
        rows = [
            (one.id, f"{one.tenant}{MARK}{one.name}" if one.tenant else one.name, one.place,
             expiry_words(one.expires_at, now), ago(one.created_at, now))
            for one in found
        ]  # fmt: skip
        show_table(("id", "name", "at", "expires", "since"), rows)


@command("browser end", "Log a browser out.", where=STORE)
async def end_browser(call: Call, name: Annotated[str, argument("ID", "Its id, from midcourse browser list.")]) -> None:
    """Log a browser out. A running server refuses it within a second, and ends its open streams within five.

    \b
    Examples:
      midcourse browser end 3f6c1f0b9d2a4e58
    """

    async with _logins(call.store) as logins:
        if not await logins.end(name):
            sentence = f"There is no browser session '{name}'. List them: midcourse browser list"
            raise InvalidInput(sentence, code="browser_session_not_found")
    if call.as_json:
        print_json({"ended": name})
    else:
        print_lines(f"Browser session {name} has ended.")


@asynccontextmanager
async def _logins(store: str | None) -> "AsyncGenerator[Logins]":
    from midcourse.server.browser_sessions import Logins

    async with _opened(store) as (opened, tokens):
        yield Logins(opened, SystemClock(), tokens)


@asynccontextmanager
async def _tokens(store: str | None, *, make: bool = False) -> "AsyncGenerator[TokenStore]":
    async with _opened(store, make=make) as (_, tokens):
        yield tokens


@asynccontextmanager
async def _opened(store: str | None, *, make: bool = False) -> "AsyncGenerator[tuple[Store, TokenStore]]":
    from midcourse.server.tokens import TokenStore

    url = store or DEFAULT_STORE
    path = store_path(url)
    if make and path is not None:  # tokens may be there before the server's first start
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        check_there(url)
    opened = await open_store(url)
    try:
        yield opened, TokenStore(opened, SystemClock())
    finally:
        await opened.close()
