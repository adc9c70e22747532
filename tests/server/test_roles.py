"""Every route × every role, as one table: a route without a row here fails."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import httpx2
import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount, Route

import midcourse
from midcourse.server import Limits, Server
from tests.promises.harness import Place, resumable
from tests.server.reading import Data, Latch, refusal, served, until_status

Who = Literal["nobody", "unknown", "watch", "steer", "approve", "operate", "session"]
Needs = Literal["open", "anybody", "watch", "steer", "operate"]
LADDER = ("watch", "steer", "approve", "operate")
CALLERS: tuple[Who, ...] = ("nobody", "unknown", *LADDER, "session")


class Row(NamedTuple):
    """What a route needs, a request that it understands, and whether it is about one session."""

    needs: Needs
    body: Data | None = None
    of_a_session: bool = True


ONE = "/api/v1/sessions/{session_id}"
NOBODYS = {"kind": "label", "value": "none"}
"""What a kill switch may halt here: no session has this label."""
TABLE: dict[tuple[str, str], Row] = {
    ("POST", "/api/v1/chat"): Row("steer", {"agent": "agent", "message": "hi", "session_id": "SESSION"}),
    ("POST", "/api/v1/chat/resume"): Row("steer", {"session_id": "SESSION", "answer": "hi"}),
    ("GET", "/api/v1/chat/{session_id}"): Row("watch"),
    ("POST", "/api/v1/sessions"): Row("steer", {"agent": "agent"}, of_a_session=False),
    ("GET", "/api/v1/sessions"): Row("watch", of_a_session=False),
    ("POST", "/api/v1/sessions/bulk"): Row("steer", {"verb": "pause", "sessions": ["sess_none"]}, of_a_session=False),
    ("GET", ONE): Row("watch"),
    ("GET", f"{ONE}/contact"): Row("watch"),
    ("GET", f"{ONE}/inspect"): Row("watch"),
    ("POST", f"{ONE}/fork"): Row("steer", {}, of_a_session=False),
    ("GET", f"{ONE}/events"): Row("watch"),
    ("GET", f"{ONE}/receipt"): Row("watch"),
    ("GET", f"{ONE}/cancel/preview"): Row("watch"),
    ("GET", f"{ONE}/result"): Row("watch"),
    ("GET", ONE + "/blobs/{digest}"): Row("watch"),
    ("DELETE", f"{ONE}/payloads"): Row("operate", of_a_session=False),
    ("POST", f"{ONE}/pause"): Row("steer", {}),
    ("POST", f"{ONE}/resume"): Row("steer", {}),
    ("POST", f"{ONE}/redirect"): Row("steer", {"text": "left", "level": "step"}),
    ("PATCH", ONE + "/messages/{message}"): Row("steer", {"text": "right"}),
    ("DELETE", ONE + "/messages/{message}"): Row("steer"),
    ("POST", f"{ONE}/cancel"): Row("steer", {}),
    ("POST", f"{ONE}/undo"): Row("steer", {}),
    ("POST", f"{ONE}/answer"): Row("steer", {"value": 1}),
    ("POST", f"{ONE}/message"): Row("steer", {"text": "hi"}),
    ("POST", f"{ONE}/event"): Row("steer", {"text": "the price changed"}),
    ("POST", f"{ONE}/budget"): Row("steer", {"budget": 5}),
    ("GET", f"{ONE}/interventions"): Row("watch"),
    ("GET", f"{ONE}/signals"): Row("watch"),
    # A session's own token may not judge what was done about it.
    ("POST", f"{ONE}/label"): Row("steer", {"about": "msg_1", "verdict": "right"}, of_a_session=False),
    ("POST", f"{ONE}/rate"): Row("steer", {"score": 4}, of_a_session=False),
    ("GET", "/api/v1/interventions"): Row("watch", of_a_session=False),
    ("GET", "/api/v1/alarms"): Row("watch", of_a_session=False),
    ("GET", "/api/v1/inbox"): Row("watch", of_a_session=False),
    ("GET", "/api/v1/artifacts"): Row("watch", of_a_session=False),
    # Nor may it review what it made, nor say whose its asks are.
    ("POST", f"{ONE}/artifacts/reviewed"): Row("steer", {"name": "report.md"}, of_a_session=False),
    ("POST", "/api/v1/inbox/{session_id}/{ask}/own"): Row("steer", {}, of_a_session=False),
    ("POST", "/api/v1/inbox/hand-over"): Row("steer", {"to": "bob", "seconds": 1}, of_a_session=False),
    ("GET", "/api/v1/webhooks"): Row("operate", of_a_session=False),
    ("POST", "/api/v1/webhooks"): Row(
        "operate", {"url": "http://127.0.0.1:1/", "kinds": ["review.proposed"]}, of_a_session=False
    ),
    ("DELETE", "/api/v1/webhooks/{webhook}"): Row("operate", of_a_session=False),
    ("POST", "/api/v1/webhooks/{webhook}/test"): Row("operate", of_a_session=False),
    ("GET", "/api/v1/webhooks/{webhook}/deliveries"): Row("operate", of_a_session=False),
    ("GET", "/api/v1/reports"): Row("watch", of_a_session=False),
    ("GET", "/api/v1/checklist"): Row("watch", of_a_session=False),
    ("GET", "/api/v1/proposals"): Row("watch", of_a_session=False),
    ("POST", "/api/v1/proposals/{name}/accept"): Row("operate", {"why": "x"}, of_a_session=False),
    ("POST", "/api/v1/proposals/{name}/refuse"): Row("operate", {"why": "x"}, of_a_session=False),
    ("GET", "/api/v1/policies"): Row("watch", of_a_session=False),
    ("POST", "/api/v1/policies/check"): Row("watch", {"document": "policy: x"}, of_a_session=False),
    ("POST", "/api/v1/policies/backtest"): Row("watch", {"policy": "standard"}, of_a_session=False),
    ("POST", "/api/v1/policies/calibrate"): Row("watch", {"policy": "standard"}, of_a_session=False),
    ("GET", "/api/v1/policies/{name}"): Row("watch", of_a_session=False),
    ("GET", "/api/v1/policies/{name}/history"): Row("watch", of_a_session=False),
    ("GET", "/api/v1/policies/{name}/diff"): Row("watch", of_a_session=False),
    ("PUT", "/api/v1/policies/{name}"): Row("operate", {"document": "policy: nobody", "why": "x"}, of_a_session=False),
    ("GET", "/api/v1/agents"): Row("watch", of_a_session=False),
    ("GET", "/api/v1/me"): Row("anybody", of_a_session=False),
    ("GET", "/api/v1/audit"): Row("operate", of_a_session=False),
    ("GET", "/api/v1/audit/export"): Row("operate", of_a_session=False),
    ("GET", "/api/v1/kill-switches"): Row("watch", of_a_session=False),
    ("POST", "/api/v1/kill-switches/preview"): Row("watch", {"scope": NOBODYS}, of_a_session=False),
    ("POST", "/api/v1/kill-switches"): Row("operate", {"scope": NOBODYS, "reason": "x"}, of_a_session=False),
    ("GET", "/api/v1/kill-switches/{switch}"): Row("watch", of_a_session=False),
    ("POST", "/api/v1/kill-switches/{switch}/lift"): Row("operate", {"why": "x"}, of_a_session=False),
    ("POST", "/api/v1/kill-switches/{switch}/release"): Row("operate", {}, of_a_session=False),
    ("GET", "/api/v1/tokens"): Row("operate", of_a_session=False),
    ("POST", "/api/v1/tokens"): Row("operate", {"name": "new", "role": "watch"}, of_a_session=False),
    ("DELETE", "/api/v1/tokens/{name}"): Row("operate", of_a_session=False),
    ("GET", "/healthz"): Row("open", of_a_session=False),
    ("GET", "/readyz"): Row("open", of_a_session=False),
    ("GET", "/metrics"): Row("watch", of_a_session=False),
    ("GET", "/api/v1/openapi.json"): Row("open", of_a_session=False),
    ("GET", "/"): Row("open", of_a_session=False),
    ("GET", "/login"): Row("open", of_a_session=False),
}


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


def test_every_route_has_a_row() -> None:
    """And every row is a route: who adds one decides here who may use it."""
    app = Server(store="memory://", token="a-token-for-the-routes").app
    assert routes_of(app) == TABLE.keys()
    documented = {(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods}
    assert documented <= TABLE.keys()


def expected(row: Row, who: Who) -> tuple[int, str] | None:
    """How somebody is refused; None if the route is theirs to use."""
    if row.needs == "open":
        return None
    if who in ("nobody", "unknown"):
        return 401, "unauthorized"
    if row.needs == "anybody":
        return None
    if who == "session":  # its token has the role operate, and reaches nothing but its own session
        return None if row.of_a_session else (403, "forbidden")
    return None if LADDER.index(who) >= LADDER.index(row.needs) else (403, "forbidden")


async def test_each_role_may_use_what_its_row_says_and_nothing_else(memory: Place) -> None:
    """Whoever is refused is refused before anything happens, with the code of the reason."""

    async def agent(run: midcourse.Run) -> object:
        return await run.ask("Well?", reason="need_input")

    unlimited = Limits(rate=10_000, burst=10_000)
    with served(memory, resumable(agent), limits=unlimited) as server:
        async with server.client() as operator, httpx2.AsyncClient(base_url=server.url, timeout=30) as anybody:
            own = await _started(operator)
            tokens = await _tokens(operator, own)
            untouched = await _started(operator)
            for (method, path), row in TABLE.items():
                for who in CALLERS:
                    wanted = expected(row, who)
                    # Whoever changes something gets a session of its own; who is refused changes nothing.
                    changes = wanted is None and method != "GET" and row.of_a_session
                    session = own if who == "session" else await _started(operator) if changes else untouched
                    refused = await _refusal(anybody, method, path, row, session, tokens[who])
                    assert refused == wanted, f"{who}: {method} {path}"
            # Nothing of another session, whatever the role of the token.
            for (method, path), row in TABLE.items():
                if row.of_a_session:
                    refused = await _refusal(anybody, method, path, row, untouched, tokens["session"])
                    assert refused == (403, "forbidden"), f"{method} {path}"
            shown = (await operator.get(f"/sessions/{untouched}")).json()
            assert (shown["status"], len(shown["messages"]), shown["pause"]) == ("waiting", 1, None)


async def _started(client: httpx2.AsyncClient) -> str:
    session = (await client.post("/sessions", json={"agent": "agent"})).json()["id"]
    await until_status(client, session, "waiting")
    return session


async def _tokens(client: httpx2.AsyncClient, own: str) -> dict[Who, str]:
    tokens: dict[Who, str] = {"nobody": "", "unknown": "mct_of-somebody-whom-nobody-knows"}
    for role in LADDER:
        made = await client.post("/tokens", json={"name": f"a-{role}", "role": role})
        tokens[role] = made.json()["token"]
    made = await client.post("/tokens", json={"name": "the-session", "role": "operate", "session": own})
    tokens["session"] = made.json()["token"]
    return tokens


async def _refusal(
    client: httpx2.AsyncClient, method: str, path: str, row: Row, session: str, token: str
) -> tuple[int, str] | None:
    """The status and code with which access was refused; None if it was not."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body: Any = row.body and {name: session if value == "SESSION" else value for name, value in row.body.items()}
    if body is not None and "name" in body:
        body["name"] = f"new-{abs(hash((token, session)))}"
    address = path.format(
        session_id=session, message="msg_2", digest="none", name="nobody", ask="ask_1", webhook="none", switch="none"
    )
    async with client.stream(method, address, json=body, headers=headers) as response:
        if response.status_code not in (401, 403) or path == "/login":
            assert response.status_code < 500
            return None
        await response.aread()
        code = response.json()["code"]
        if response.status_code == 401:
            assert response.headers["www-authenticate"] == "Bearer"
        # These are about the ask, not about the address.
        return None if code in ("own_ask", "approver_only") else (response.status_code, code)


def asking(reason: str) -> midcourse.Agent[Any]:
    """Asks for that reason."""

    async def agent(run: midcourse.Run) -> object:
        return await run.ask("May I?", reason=reason)

    return resumable(agent)


@pytest.mark.parametrize(
    ("role", "reason", "code"),
    [
        ("steer", "need_input", None),
        ("steer", "need_approval", "approver_only"),
        ("approve", "need_approval", None),
        ("operate", "need_approval", None),
    ],
)
async def test_an_approval_is_for_approvers(memory: Place, role: str, reason: str, code: str | None) -> None:
    """On the session's verb and on the chat alike; what was refused leaves the ask open."""
    with served(memory, asking(reason)) as server:
        async with server.client() as operator:
            made = await operator.post("/tokens", json={"name": "ann", "role": role})
            async with server.client(made.json()["token"]) as ann:
                session = await _started(operator)
                assert ("answer" in (await ann.get(f"/sessions/{session}")).json()["allowed"]) == (code is None)
                body = {"session_id": session, "answer": "yes", "ask_id": "ask_1"}
                if code is None:
                    async with ann.stream("POST", "/chat/resume", json=body) as response:
                        assert response.status_code == 200
                    await until_status(operator, session, "completed")
                    return
                assert await refusal(ann, "/chat/resume", body) == (403, code)
                assert await refusal(ann, f"/sessions/{session}/answer", {"value": "yes"}) == (403, code)
                assert (await operator.get(f"/sessions/{session}")).json()["status"] == "waiting"


async def test_a_session_never_answers_its_own_asks(memory: Place) -> None:
    """Nor those of its children, with whatever role its token has; its other verbs are its own."""
    latch = Latch()

    async def child(run: midcourse.Run) -> object:
        return await run.ask("May I?", reason="need_input")

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> object:
        said = await run.spawn(kid, "ask")
        latch.set()
        return [said, await run.ask("And I?", reason="need_input")]

    with served(memory, resumable(parent), kid) as server:
        async with server.client() as operator:
            session = (await operator.post("/sessions", json={"agent": "agent"})).json()["id"]
            made = await operator.post("/tokens", json={"name": "itself", "role": "operate", "session": session})
            async with server.client(made.json()["token"]) as itself:
                me = (await itself.get("/me")).json()
                assert me == {"name": "itself", "role": "operate", "session": session, "tenant": ""}

                async def child_asks() -> list[Data]:
                    return (await itself.get(f"/sessions/{session}")).json()["child_asks"]

                while not (asks := await child_asks()):
                    pass
                ask = f"{asks[0]['child']}/{asks[0]['ask']}"
                body = {"session_id": session, "answer": "yes", "ask_id": ask}
                assert await refusal(itself, "/chat/resume", body) == (403, "own_ask")
                named = {"value": "yes", "ask": ask}
                assert await refusal(itself, f"/sessions/{session}/answer", named) == (403, "own_ask")
                direct = f"/sessions/{asks[0]['child']}/answer"
                assert await refusal(itself, direct, {"value": "yes"}) == (403, "own_ask")
                assert (await operator.post(direct, json={"value": "yes"})).status_code == 200
                await latch.wait()
                await until_status(operator, session, "waiting")
                assert await refusal(itself, f"/sessions/{session}/answer", {"value": "yes"}) == (403, "own_ask")
                paused = await itself.post(f"/sessions/{session}/pause")
                assert paused.status_code == 200
                shown = (await operator.get(f"/sessions/{session}")).json()
                assert shown["pause"]["by"] == f"session:{session}"
