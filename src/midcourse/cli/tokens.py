"""``midcourse token`` and ``midcourse browser``: who may use a store's server, how far, and from which browsers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from midcourse.cli.opening import DEFAULT_STORE, JsonOption, StoreOption, store_path
from midcourse.cli.printing import carry_out, print_json, say, show_table
from midcourse.cli.words import ago, expiry_words
from midcourse.core.ids import SessionId
from midcourse.core.policy.spans import span_of
from midcourse.core.tenants import MARK, tenant_of
from midcourse.errors import InvalidInput
from midcourse.runtime.clock import SystemClock
from midcourse.wiring import open_store

if TYPE_CHECKING:
    from midcourse.ports.store import Store
    from midcourse.server.logins import Logins
    from midcourse.server.tokens import Tokens

app = typer.Typer(
    help="Who may use a store's server: watch, steer, approve or operate. Each may what the ones before may.",
    no_args_is_help=True,
)


browsers = typer.Typer(
    help="The browsers that are logged in to a store's server. A browser logs in with: midcourse link",
    no_args_is_help=True,
)


def add_to(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="token", short_help="Who may use a server, and in which role.")
    root.add_typer(browsers, name="browser", short_help="Which browsers are logged in to a server.")


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Who it is for, as journals and the audit log will say.")],
    role: Annotated[str, typer.Option(help="watch, steer, approve or operate.")] = "watch",
    session: Annotated[
        str | None, typer.Option(help="For this session's agent and its tools. It has no role but 'agent'.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="The one session that it reaches, with its role.")] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Whose sessions it reaches, and no other's. Without: those of all.")
    ] = None,
    expires: Annotated[str, typer.Option(metavar="SPAN", help="How long it is valid: 12h, 90d, or never.")] = "90d",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make a token and print it, this once: only its hash is kept.

    \b
    Examples:
      midcourse token add nightly-report --role watch --expires never
      midcourse token add ada --role approve --tenant acme
      midcourse token add callback --session sess_0198f2
    """
    from midcourse.server.tokens import expiry

    lifetime = _lifetime(expires)

    async def work() -> None:
        whose = tenant
        reached = session or only
        if reached is not None:
            whose = tenant_of(reached) or None
            if tenant not in (None, whose):
                raise InvalidInput(
                    f"Session '{reached}' is not of tenant '{tenant}'. Leave --tenant out.", field="tenant"
                )
        async with _tokens(store) as tokens:
            expires_at = expiry(lifetime, SystemClock().now())
            agent, person = (None if one is None else SessionId(one) for one in (session, only))
            token = await tokens.add(name, role, agent, tenant=whose, only=person, expires_at=expires_at)
        if json:
            may = "agent" if session else role
            shown = {"name": name, "role": may, "session": session, "only": only, "tenant": whose}
            print_json({**shown, "expires_at": expires_at, "token": token})
        else:
            say(token)

    carry_out(work(), as_json=json)


@app.command("list")
def show(store: StoreOption = None, json: JsonOption = False) -> None:
    """List the tokens: names and roles, never the tokens themselves."""

    async def work() -> None:
        async with _tokens(store) as tokens:
            found = await tokens.list()
        if json:
            shown = ("name", "role", "session", "only", "tenant", "created_at", "expires_at")
            print_json([{name: getattr(one, name) for name in shown} for one in found])
        elif not found:
            say("No tokens were added. Add one: midcourse token add NAME --role watch")
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

    carry_out(work(), as_json=json)


@app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="Its name; of a tenant's, acme~name.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Take a token away, with the browsers that logged in with it.

    A running server refuses it within a second, and ends its open streams within five.
    """

    async def work() -> None:
        async with _tokens(store) as tokens:
            if not await tokens.revoke(name):
                sentence = f"There is no token '{name}'. List them: midcourse token list"
                raise InvalidInput(sentence, code="token_not_found")
        if json:
            print_json({"revoked": name})
        else:
            say(f"'{name}' is revoked.")

    carry_out(work(), as_json=json)


@browsers.command("list")
def show_browsers(store: StoreOption = None, json: JsonOption = False) -> None:
    """List the browsers that are logged in, the newest first."""

    async def work() -> None:
        async with _logins(store) as logins:
            found = await logins.list()
        if json:
            print_json(found)
        elif not found:
            say("No browser is logged in. Print a link for one: midcourse link")
        else:
            now = SystemClock().now()
            rows = [
                (one.id, f"{one.tenant}{MARK}{one.name}" if one.tenant else one.name, one.place,
                 expiry_words(one.expires_at, now), ago(one.created_at, now))
                for one in found
            ]  # fmt: skip
            show_table(("id", "name", "at", "expires", "since"), rows)

    carry_out(work(), as_json=json)


@browsers.command("end")
def end_browser(
    name: Annotated[str, typer.Argument(metavar="ID", help="Its id, as midcourse browser list shows it.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Log a browser out. A running server refuses it within a second, and ends its open streams within five."""

    async def work() -> None:
        async with _logins(store) as logins:
            if not await logins.end(name):
                sentence = f"There is no browser session '{name}'. List them: midcourse browser list"
                raise InvalidInput(sentence, code="browser_session_not_found")
        if json:
            print_json({"ended": name})
        else:
            say(f"Browser session {name} has ended.")

    carry_out(work(), as_json=json)


def _lifetime(written: str) -> float | None:
    if written == "never":
        return None
    try:
        return float(span_of(written))
    except ValueError as error:
        raise typer.BadParameter(f"--expires: {error}; or never.") from error


@asynccontextmanager
async def _logins(store: str | None) -> "AsyncGenerator[Logins]":
    from midcourse.server.logins import Logins

    async with _opened(store) as (opened, tokens):
        yield Logins(opened, SystemClock(), tokens)


@asynccontextmanager
async def _tokens(store: str | None) -> "AsyncGenerator[Tokens]":
    async with _opened(store) as (_, tokens):
        yield tokens


@asynccontextmanager
async def _opened(store: str | None) -> "AsyncGenerator[tuple[Store, Tokens]]":
    from midcourse.server.tokens import Tokens

    url = store or DEFAULT_STORE
    path = store_path(url)
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = await open_store(url)
    try:
        yield opened, Tokens(opened, SystemClock())
    finally:
        await opened.close()
