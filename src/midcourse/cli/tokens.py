"""``midcourse token``: who may use the server of a store, and how far."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from midcourse.cli.opening import DEFAULT_STORE, JsonOption, StoreOption, store_path
from midcourse.cli.printing import carry_out, print_json, say, show_table
from midcourse.cli.words import ago
from midcourse.core.ids import SessionId
from midcourse.core.tenants import tenant_of
from midcourse.errors import InvalidInput
from midcourse.runtime.clock import SystemClock
from midcourse.wiring import open_store

if TYPE_CHECKING:
    from midcourse.server.tokens import Tokens

app = typer.Typer(
    help="Who may use a store's server: watch, steer, approve or operate. Each may what the ones before may.",
    no_args_is_help=True,
)


def add_to(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="token", short_help="Who may use a server, and in which role.")


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
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make a token and print it, this once: only its hash is kept.

    \b
    Examples:
      midcourse token add nightly-report --role watch
      midcourse token add ada --role approve --tenant acme
      midcourse token add callback --session sess_0198f2
    """

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
            agent, person = (None if one is None else SessionId(one) for one in (session, only))
            token = await tokens.add(name, role, agent, tenant=whose, only=person)
        if json:
            may = "agent" if session else role
            print_json({"name": name, "role": may, "session": session, "only": only, "tenant": whose, "token": token})
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
            shown = ("name", "role", "session", "only", "tenant", "created_at")
            print_json([{name: getattr(one, name) for name in shown} for one in found])
        elif not found:
            say("No tokens were added. Add one: midcourse token add NAME --role watch")
        else:
            now = SystemClock().now()
            rows = [(one.key, one.role, one.session or one.only or "", ago(one.created_at, now)) for one in found]
            show_table(("name", "role", "session", "made"), rows)

    carry_out(work(), as_json=json)


@app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="Its name; of a tenant's, acme~name.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Take a token away. A running server refuses it within a second, and ends its open streams soon after."""

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


@asynccontextmanager
async def _tokens(store: str | None) -> "AsyncGenerator[Tokens]":
    from midcourse.server.tokens import Tokens

    url = store or DEFAULT_STORE
    path = store_path(url)
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = await open_store(url)
    try:
        yield Tokens(opened, SystemClock())
    finally:
        await opened.close()
