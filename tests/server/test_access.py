"""Who may use which address, complete: every route × every credential × whose session it is about.

What is expected is read from the published table, ``docs/reference/access.md``: who changes that changes a promise.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount, Route

import midcourse
from midcourse.core import commands as cmd
from midcourse.core.agent_rights import RIGHTS
from midcourse.ports.sender import AGENT_HEADER
from midcourse.server import CallerLimits, Server
from tests.promises.harness import Place, resumable
from tests.server.stream_reader import Data, served, until_status

LADDER: Final = ("watch", "steer", "approve", "operate")
PAGE: Final = Path(__file__).parents[2] / "docs/reference/access.md"
ONE: Final = "/sessions/{session_id}"
NOBODYS: Final = {"kind": "label", "value": "none"}
"""What a kill switch may halt here: no session has this label."""
BODIES: Final[Mapping[str, Data]] = {
    "POST /chat": {"agent": "agent", "message": "hi", "session_id": "SESSION"},
    "POST /chat/resume": {"session_id": "SESSION", "answer": "hi", "ask_id": "ask_1"},
    "POST /sessions": {"agent": "agent"},
    "POST /sessions/bulk": {"verb": "pause", "sessions": ["sess_none"]},
    f"POST {ONE}/redirect": {"text": "left", "level": "step"},
    f"PATCH {ONE}/messages/{{message}}": {"text": "right"},
    f"POST {ONE}/answer": {"value": 1},
    f"POST {ONE}/message": {"text": "hi"},
    f"POST {ONE}/event": {"text": "the price changed"},
    f"POST {ONE}/budget": {"budget": 5},
    f"POST {ONE}/label": {"about": "msg_1", "verdict": "right"},
    f"POST {ONE}/rate": {"score": 4},
    f"POST {ONE}/artifacts/reviewed": {"name": "report.md"},
    "POST /inbox/hand-over": {"to": "bob", "seconds": 1},
    "POST /webhooks": {"url": "http://127.0.0.1:1/", "kinds": ["review.proposed"]},
    "POST /proposals/{name}/accept": {"why": "x"},
    "POST /proposals/{name}/refuse": {"why": "x"},
    "POST /policies/check": {"document": "policy: x"},
    "POST /policies/backtest": {"policy": "standard"},
    "POST /policies/calibrate": {"policy": "standard"},
    "PUT /policies/{name}": {"document": "policy: nobody", "why": "x"},
    "POST /kill-switches": {"scope": NOBODYS, "reason": "x"},
    "POST /kill-switches/preview": {"scope": NOBODYS},
    "POST /kill-switches/{switch}/lift": {"why": "x"},
    "POST /kill-switches/{switch}/release": {},
    "POST /tokens": {"name": "NAME", "role": "watch"},
    "POST /login": {"credential": "mcl_none"},
}
"""A body that each address understands; those that are not here take none."""
IN_THE_BODY: Final = ("POST /chat", "POST /chat/resume")
"""Addresses that name the session they are about in the body."""
OF_NO_SESSION: Final = ("GET /me",)
"""Addresses that every token reaches, also one of a single session: they are about the token itself."""
FOR_HOSTS: Final = ("GET /metrics",)
"""Addresses that no tenant's token reaches."""
FORK: Final = f"POST {ONE}/fork"
"""It makes another session, which a token of one session does not reach."""
UNDOCUMENTED: Final = {("GET", "/api/v1/openapi.json"), ("GET", "/"), ("GET", "/login")}
"""What is no part of the interface, and open to everybody."""
SENDS: Final[Mapping[str, type[cmd.AnyCommand]]] = {
    "POST /chat": cmd.Message,
    "POST /chat/resume": cmd.Answer,
    f"PATCH {ONE}/messages/{{message}}": cmd.Edit,
    f"DELETE {ONE}/messages/{{message}}": cmd.Withdraw,
    **{f"POST {ONE}/{cmd.verb(kind)}": kind for kind in RIGHTS},
}
"""The command that an address sends."""


class Row(NamedTuple):
    """A line of the published table: the least role, None for everybody, and what agents may (yes, own, list, no)."""

    role: str | None
    agent: str


@dataclass(frozen=True)
class Credential:
    """What a request comes with."""

    name: str
    role: str = ""
    """Its rung; empty: none, as an agent's token has."""
    tenant: str | None = None
    agent: bool = False
    only: bool = False
    known: bool = True
    says_agent: bool = False
    """An agent's own code sends it, with a person's token."""
    page: bool = False
    """A browser sends it that has logged in with the token."""

    @property
    def is_of_one_session(self) -> bool:
        """Whether it reaches one session alone."""
        return self.agent or self.only or self.says_agent


CREDENTIALS: Final = (
    Credential("nobody", known=False),
    Credential("unknown", known=False),
    *(Credential(f"host-{role}", role) for role in LADDER),
    *(Credential(f"acme-{role}", role, "acme") for role in LADDER),
    *(Credential(f"beta-{role}", role, "beta") for role in LADDER),
    *(Credential(f"only-{role}", role, "acme", only=True) for role in LADDER),
    *(Credential(f"code-{role}", role, "acme", says_agent=True) for role in LADDER),
    *(Credential(f"page-{role}", role, "acme", page=True) for role in LADDER),
    *(Credential(f"only-page-{role}", role, "acme", only=True, page=True) for role in ("watch", "operate")),
    *(Credential(f"{tenant or 'host'}-page", "operate", tenant, page=True) for tenant in (None, "beta")),
    Credential("agent", tenant="acme", agent=True),
)
TARGETS: Final = ("own", "child", "other", "beta")
"""Whose session an address is about: the credential's own, a child's, another one of its tenant, another tenant's."""


def published() -> dict[str, Row]:
    """The table as people read it."""
    rows: dict[str, Row] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if found := re.fullmatch(r"`([A-Z]+ /\S*)`", cells[0]):
            *people, agent = cells[-5:]
            first = people.index("yes")
            assert people == ["no"] * first + ["yes"] * (4 - first), "each role may do what the ones before may"
            is_open = "(no token needed)" in line
            rows[found[1]] = Row(None if is_open else LADDER[first], agent)
    return rows


TABLE: Final = published()


def routes_of(app: FastAPI) -> set[tuple[str, str]]:
    """Every method and address that the application answers."""
    return {
        (method, path)
        for route in app.routes
        for path, methods in _addresses(route)
        for method in methods - {"HEAD", "OPTIONS"}
    }


def _addresses(route: BaseRoute) -> Iterator[tuple[str, set[str]]]:
    """What a route answers, or those of a router in it."""
    if isinstance(route, Route):
        yield route.path, set(route.methods or ())
        return
    if isinstance(route, Mount):  # the console's files, which are for everybody
        yield f"{route.path}/", {"GET"}
        return
    included: Any = route
    for inner in included.original_router.routes:
        assert isinstance(inner, Route), "a router in a router needs a look here"
        yield f"{included.include_context.prefix}{inner.path}", set(inner.methods or ())


def test_the_published_table_has_every_route() -> None:
    """And nothing else: who adds a route decides who may use it, in public."""
    app = Server(store="memory://", token="a-token-for-the-routes").app
    answered = {f"{method} {path.removeprefix('/api/v1')}" for method, path in routes_of(app) - UNDOCUMENTED}
    documented = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }
    assert answered == documented == TABLE.keys()
    assert BODIES.keys() <= TABLE.keys()


def test_whatever_sends_a_command_is_on_the_agents_list_or_no_agents_address() -> None:
    """An address for agents that changes something sends a command which the core decides by the list."""
    for address, row in TABLE.items():
        assert row.agent != "list" or address in SENDS, address
        assert row.agent in ("yes", "no", "own", "list")
    assert {kind for address, kind in SENDS.items() if address in TABLE} >= set(RIGHTS) - {
        cmd.Halt,
        cmd.Lift,
        cmd.Intervene,
    }


def expected(address: str, row: Row, who: Credential, target: str) -> set[str]:
    """The codes of which one refuses it; empty: it is the credential's to use."""
    if row.role is None:
        return set()
    if not who.known:
        return {"unauthorized"}
    if who.role and LADDER.index(who.role) < LADDER.index(row.role):
        return {"forbidden"}
    is_agent = who.agent or who.says_agent
    if is_agent and row.agent == "no":
        return {"not_for_agents"}
    if address in FOR_HOSTS and who.tenant is not None:
        return {"forbidden"}
    if address in OF_NO_SESSION:
        return set()
    if not is_about_a_session(address):
        return {"forbidden"} if who.is_of_one_session else set()
    if who.tenant is not None and (target == "beta") != (who.tenant == "beta"):
        return {"hidden", "forbidden"} if who.is_of_one_session else {"hidden"}
    if (who.is_of_one_session and target not in ("own", "child")) or (who.only and address == FORK):
        return {"forbidden"}
    if not is_agent or row.agent != "list":
        return set()
    right, limits = RIGHTS[SENDS[address]], {"own_ask"} if SENDS[address] is cmd.OutsideEvent else set[str]()
    if target == "child" and right.child:
        return {"own_ask"} if SENDS[address] in (cmd.Redirect, cmd.OutsideEvent) else set()
    return limits if target == "own" and right.itself else {"not_for_agents", "own_ask"}


def is_about_a_session(address: str) -> bool:
    """Whether it names the session it is about."""
    return "{session_id}" in address or address in IN_THE_BODY


def place_of(path: str) -> str:
    """Where an address of the table is."""
    return path if path in ("/healthz", "/readyz", "/metrics") else f"/api/v1{path}"


@dataclass(frozen=True)
class World:
    """A server with sessions of several tenants, and a credential of each kind."""

    host: httpx2.AsyncClient
    anybody: httpx2.AsyncClient
    tokens: Mapping[str, str]
    sessions: Mapping[str, str]
    pages: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Headers of the pages of those who have logged in."""

    async def headers(self, who: Credential) -> dict[str, str]:
        """What a request of a credential carries."""
        if who.page and who.name in self.pages:
            return self.pages[who.name]
        if who.page:
            login = await self.anybody.post("/api/v1/login", json={"credential": self.tokens[who.name]})
            assert login.status_code == 200, login.text
            self.anybody.cookies.clear()
            cookie = login.headers["Set-Cookie"].partition(";")[0]
            origin = str(self.anybody.base_url).rstrip("/")
            self.pages[who.name] = {"Cookie": cookie, "Midcourse-Page": login.json()["page_key"], "Origin": origin}
            return self.pages[who.name]
        found = {"Authorization": f"Bearer {self.tokens[who.name]}"} if who.name != "nobody" else {}
        return found | ({AGENT_HEADER: self.sessions["own"]} if who.says_agent else {})

    async def refusal(self, address: str, who: Credential, session: str) -> set[str]:
        """The code with which access was refused; empty if it was not."""
        method, _, path = address.partition(" ")
        fill = {"SESSION": session, "NAME": f"new-{abs(hash((who.name, session)))}"}
        body = BODIES.get(address, Data() if method == "POST" else None)
        sent = None if body is None else {name: fill.get(str(value), value) for name, value in body.items()}
        names = {"message": "msg_99", "digest": "none", "name": "nobody", "ask": "ask_1", "webhook": "none"}
        where = place_of(path).format(session_id=session, switch="none", **names)
        headers = await self.headers(who)
        if address == "DELETE /login":
            self.pages.pop(who.name, None)
        async with self.anybody.stream(method, where, json=sent, headers=headers) as response:
            assert response.status_code < 500, (address, who.name)
            if response.status_code not in (401, 403, 404, 422):
                return set()
            await response.aread()
            if not response.headers["content-type"].startswith("application/problem"):
                return set()
            code = response.json()["code"]
            if response.status_code == 401:
                assert response.headers["www-authenticate"] == "Bearer"
            is_hidden = code in ("session_not_found", "checkpoint_not_found") or (
                address in IN_THE_BODY and code == "invalid_input"
            )
            if is_hidden:
                return {"hidden"}
            # The others are about what was asked for, not about who asks.
            by_rank = code in ("approver_only", "operator_only", "login_refused") or (
                code == "own_ask" and who.role and not who.says_agent
            )
            return {code} if response.status_code in (401, 403) and not by_rank else set()


async def _child(run: midcourse.Run) -> object:
    return await run.ask("And I?", reason="need_input")


KID: Final = resumable(_child, name="kid")


async def _agent(run: midcourse.Run) -> object:
    if run.goal == "family":
        return await asyncio.gather(run.spawn(KID, "ask"), run.ask("Well?", reason="need_input"))
    return await run.ask("Well?", reason="need_input")


async def _started(host: httpx2.AsyncClient, tenant: str = "", goal: str = "") -> str:
    made = await host.post(
        "/sessions", json={"agent": "agent", "goal": goal, "tenant": tenant} if tenant else {"agent": "agent"}
    )
    assert made.status_code == 201, made.text
    session = str(made.json()["id"])
    if goal == "family":
        while not ((shown := (await host.get(f"/sessions/{session}")).json())["child_asks"] and shown["asks"]):
            pass
        return str(shown["child_asks"][0]["child"])
    await until_status(host, session, "waiting")
    return session


async def _until_parents_pause_is_lifted(host: httpx2.AsyncClient, child: str) -> None:
    """A resume goes down the tree after it was answered."""
    while (shown := (await host.get(f"/sessions/{child}")).json())["pause"]:
        if not shown["pause"]["by"].startswith(cmd.BY_PARENT):
            break


async def _token(host: httpx2.AsyncClient, who: Credential, own: str) -> str:
    if who.name in ("nobody", "unknown"):
        return "mct_of-somebody-whom-nobody-knows"
    body: Data = {"name": who.name, "role": who.role or "operate", "tenant": who.tenant}
    body |= {"session": own} if who.agent else {}
    body |= {"only": own} if who.only else {}
    made = await host.post("/tokens", json={name: value for name, value in body.items() if value is not None})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


@pytest.mark.timeout(600)
async def test_each_credential_may_use_what_the_table_says_and_nothing_else(memory: Place) -> None:
    """Every route × every role and kind of credential × own session, child, other session, other tenant."""
    unlimited = CallerLimits(rate=100_000, burst=100_000)
    with served(memory, resumable(_agent), KID, limits=unlimited) as server:
        async with server.client() as host, httpx2.AsyncClient(base_url=server.url, timeout=30) as anybody:
            child, held = await _started(host, "acme", "family"), await _started(host, "acme", "family")
            sessions = {
                "own": child.partition(".")[0],
                "child": child,
                "only own": held.partition(".")[0],
                "only child": held,
                "other": await _started(host, "acme"),
                "beta": await _started(host, "beta"),
            }
            tokens = {
                who.name: await _token(host, who, sessions["only own" if who.only else "own"]) for who in CREDENTIALS
            }
            world = World(host, anybody, tokens, sessions)
            wrong: list[str] = []
            # Last what ends the sessions that the tokens are for.
            for address in sorted(TABLE, key=lambda one: one.endswith("/cancel")):
                for who in CREDENTIALS:
                    for target in TARGETS if is_about_a_session(address) else ("own",):
                        wanted = expected(address, TABLE[address], who, target)
                        changes = not wanted and not address.startswith("GET")
                        session = sessions.get(f"only {target}" if who.only else target) or sessions[target]
                        if changes and is_about_a_session(address) and target not in ("own", "child"):
                            # Whoever changes something gets a session of its own; who is refused changes nothing.
                            session = await _started(host, {"other": "acme", "beta": "beta"}.get(target, ""))
                        if changes and target in ("own", "child") and not who.is_of_one_session:
                            continue  # as for "other"
                        got = await world.refusal(address, who, session)
                        if address.endswith("/resume") and target == "own" and not got:
                            await _until_parents_pause_is_lifted(host, sessions["only child" if who.only else "child"])
                        if got != wanted and not (got and got <= wanted):
                            wrong.append(
                                f"{address} by {who.name} to {target}: {got or 'taken'}, not {wanted or 'taken'}"
                            )
            assert not wrong, "\n".join(wrong)
