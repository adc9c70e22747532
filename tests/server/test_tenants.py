"""Every route × every role × own tenant, another tenant and the host: from the one table of routes, so that a new
route has its answer here, too."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple, cast

import httpx2
import pytest
from fastapi import Request

import midcourse
from midcourse.core.audit_export import Verified, verify
from midcourse.core.ids import SessionId
from midcourse.core.switches import Scope
from midcourse.errors import SessionNotFound
from midcourse.handle.kill_switch import KillSwitch
from midcourse.policy.artifact_shelf import ARTIFACTS, artifact_items
from midcourse.policy.artifacts import ArtifactReported
from midcourse.server import CallerLimits, stream
from midcourse.server.caller import Caller
from midcourse.server.tokens import Principal
from tests.promises.harness import QUICK, Place, resumable
from tests.server.live_server import Running
from tests.server.stream_reader import Data, served, until_status
from tests.server.test_access import BODIES, LADDER, OF_NO_SESSION, is_about_a_session, place_of
from tests.server.test_access import TABLE as PUBLISHED

SECRET = "plan-of-acme"


class Row(NamedTuple):
    """What a route needs (None: everybody may, whoever they are), whether it is for agents, and a body for it."""

    needs: str | None
    agent: str
    body: Data | None
    is_about_a_session: bool


TABLE = {
    (method, place_of(path)): Row(
        None if address in OF_NO_SESSION else row.role, row.agent, BODIES.get(address), is_about_a_session(address)
    )
    for address, row in PUBLISHED.items()
    for method, _, path in [address.partition(" ")]
}
UNLIMITED = CallerLimits(rate=10_000, burst=10_000)
HOSTS = {("GET", "/metrics")}
"""About all tenants together: for the host alone."""
STARTS = {("POST", "/api/v1/chat")}
"""Whoever names a session that is not there begins it, which nobody may for another tenant."""
OTHERS: dict[str, tuple[str, str]] = {
    "/api/v1/tokens/{name}": ("acme~ann", "token_not_found"),
    "/api/v1/browser-sessions/{name}": ("BROWSER", "browser_session_not_found"),
    "/api/v1/policies/{name}": ("acme~careful", "policy_not_found"),
    "/api/v1/policies/{name}/history": ("acme~careful", "policy_not_found"),
    "/api/v1/policies/{name}/diff": ("acme~careful", "policy_not_found"),
    "/api/v1/proposals/{name}/accept": ("acme~prop_1", "proposal_not_found"),
    "/api/v1/proposals/{name}/refuse": ("acme~prop_1", "proposal_not_found"),
    "/api/v1/webhooks/{webhook}": ("WEBHOOK", "webhook_not_found"),
    "/api/v1/webhooks/{webhook}/test": ("WEBHOOK", "webhook_not_found"),
    "/api/v1/webhooks/{webhook}/deliveries": ("WEBHOOK", "webhook_not_found"),
    "/api/v1/kill-switches/{switch}": ("SWITCH", "kill_switch_not_found"),
    "/api/v1/kill-switches/{switch}/lift": ("SWITCH", "kill_switch_not_found"),
    "/api/v1/kill-switches/{switch}/release": ("SWITCH", "kill_switch_not_found"),
}
"""Addresses of what a tenant keeps beside its sessions: one of acme's, and what another tenant is told of it."""


async def agent(run: midcourse.Run) -> object:
    return await run.ask(f"{run.goal}: well?", reason="need_input")


class Fleet:
    """A server with a session of each tenant, and a token for every role in each."""

    def __init__(self, server: Running, host: httpx2.AsyncClient) -> None:
        self.server = server
        self.host = host
        self.tokens: dict[tuple[str, str], str] = {}
        self.sessions: dict[str, str] = {}
        self.client = httpx2.AsyncClient(base_url=server.url, timeout=30)

    async def set_up(self) -> None:
        for tenant in ("acme", "beta"):
            for role in LADDER:
                await self.add((tenant, role), name="ann" if role == "operate" else role, role=role, tenant=tenant)
            began = await self.ask((tenant, "operate"), "POST", "/api/v1/sessions", self.start(tenant))
            self.sessions[tenant] = began.json()["id"]
            await until_status(self.host, self.sessions[tenant], "waiting")
            await self.add((tenant, "session"), name="bot", role="operate", session=self.sessions[tenant])
        await self.add(("host", "operate"), name="ann", role="operate")

    @staticmethod
    def start(tenant: str) -> Data:
        return {"agent": "agent", "goal": SECRET if tenant == "acme" else "nothing", "session_id": "kept"}

    async def add(self, who: tuple[str, str], **body: object) -> None:
        self.tokens[who] = (await self.host.post("/tokens", json=body)).json()["token"]

    async def ask(self, who: tuple[str, str], method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        """One request. Of a stream only the beginning is read."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}", **more.pop("headers", {})}
        async with self.client.stream(method, path, json=body, headers=headers, **more) as response:
            if "event-stream" in response.headers.get("content-type", ""):
                async for piece in response.aiter_bytes():
                    response._content = piece  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - what came so far
                    break
                return response
            await response.aread()
            return response


@asynccontextmanager
async def fleet(place: Place, policy: str = "") -> AsyncGenerator[Fleet]:
    settings = replace(QUICK, policy=policy)
    with served(place, resumable(agent), limits=UNLIMITED, settings=settings) as server:
        async with server.client() as host:
            found = Fleet(server, host)
            async with found.client:
                await found.set_up()
                yield found


def request_of(path: str, row: Row, session: str, name: str = "nobody") -> tuple[str, Any]:
    body: Any = row.body and {key: session if value == "SESSION" else value for key, value in row.body.items()}
    parts = {"message": "msg_2", "digest": "0" * 32, "ask": "ask_1"}
    address = re.sub(r"{(\w+)}", lambda part: parts.get(part[1], session if part[1] == "session_id" else name), path)
    return address, body


def test_every_address_of_something_kept_says_what_another_tenant_is_told() -> None:
    named = {path for _, path in TABLE if "{" in path and "{session_id}" not in path}

    assert named == OTHERS.keys()


async def test_of_another_tenants_session_everybody_is_told_what_is_told_of_none(memory: Place) -> None:
    """With whatever role, on every route: too low a role is too low, a session is not there, and nothing happens."""
    async with fleet(memory) as found:
        theirs, nothing = found.sessions["acme"], "acme~none"
        for (method, path), row in TABLE.items():
            if not row.is_about_a_session:
                continue
            for role in (*LADDER, "session"):
                told: list[Any] = []
                for session in (theirs, nothing) if role in ("operate", "session") else (theirs,):
                    address, body = request_of(path, row, session)
                    answer = await found.ask(("beta", role), method, address, body)
                    problem = json.loads(answer.text.replace(session, "SESSION"))
                    told.append(problem)
                    assert (answer.status_code, problem["code"]) == expected((method, path), row, role), (role, path)
                assert all(one == told[0] for one in told), (role, path)
        shown = (await found.host.get(f"/sessions/{theirs}")).json()
        assert (shown["status"], len(shown["messages"]), shown["pause"]) == ("waiting", 1, None)
        assert [one["id"] for one in (await found.host.get("/sessions")).json()["sessions"]] == [
            "beta~kept",
            "acme~kept",
        ]


def expected(route: tuple[str, str], row: Row, role: str) -> tuple[int, str]:
    """What somebody of another tenant is told of a session."""
    if role == "session" and row.agent == "no":
        return 403, "not_for_agents"
    if role != "session" and LADDER.index(role) < LADDER.index(row.needs or "watch"):
        return 403, "forbidden"
    if route in STARTS:
        return 422, "invalid_input"
    if route == ("POST", "/api/v1/chat/resume"):
        return (403, "forbidden") if role == "session" else (404, "checkpoint_not_found")
    return 404, "session_not_found"


async def test_nothing_of_another_tenant_is_in_any_answer(memory: Place) -> None:
    """Whatever is listed, streamed or reported: neither its text nor its names. The host sees both."""
    async with fleet(memory) as found:
        await fill(found)
        for (method, path), row in TABLE.items():
            if method != "GET" or "{" in path or row.needs is None or path == "/api/v1/login":
                continue
            streamed = {"Accept": "text/event-stream"}
            for headers in ({}, streamed) if path in ("/api/v1/sessions", "/api/v1/inbox") else ({},):
                theirs = await found.ask(("beta", "operate"), method, path, headers=headers)
                if (method, path) in HOSTS:
                    assert theirs.status_code == 403
                    continue
                assert theirs.status_code == 200, path
                leaked = [word for word in ("acme", SECRET) if word in theirs.text]
                assert not leaked, f"{path} tells beta of {leaked}: {theirs.text[:500]}"
        kept = ("sessions", "tokens", "browser-sessions", "audit", "policies", "webhooks", "artifacts")
        for path in (f"/api/v1/{one}" for one in kept):
            for who in (("acme", "operate"), ("host", "operate")):
                assert "acme" in (await found.ask(who, "GET", path)).text, (who, path)


async def fill(found: Fleet) -> dict[str, str]:
    """Something of acme's on every shelf that a tenant can write to."""
    ann = ("acme", "operate")
    policy = {"document": f"policy: careful\nabout: {SECRET}\nresponse_target: 1m\n", "why": SECRET}
    assert (await found.ask(ann, "PUT", "/api/v1/policies/careful", policy)).json()["name"] == "acme~careful"
    hook = {"url": "https://8.8.8.8/acme", "kinds": ["review.proposed"]}
    webhook = (await found.ask(ann, "POST", "/api/v1/webhooks", hook)).json()["webhook"]["id"]
    told = {"text": SECRET, "level": "clarify"}
    assert (await found.ask(ann, "POST", "/api/v1/sessions/kept/redirect", told)).status_code == 200
    assert found.server.server.local is not None
    made = ArtifactReported(name=SECRET, session="acme~kept", agent="agent", position=2, made_at=1.0)
    await found.server.server.local.worker.store.shelve(ARTIFACTS, artifact_items(made))
    thrown = {"scope": {"kind": "agent", "value": "agent"}, "reason": SECRET}
    switch = (await found.ask(ann, "POST", "/api/v1/kill-switches", thrown)).json()["id"]
    wish = {"credential": found.tokens[ann]}
    assert (await found.ask(ann, "POST", "/api/v1/login", wish)).status_code == 200
    (browser,) = (await found.ask(ann, "GET", "/api/v1/browser-sessions")).json()["browser_sessions"]
    return {"WEBHOOK": webhook, "SWITCH": switch, "BROWSER": browser["id"]}


async def test_what_another_tenant_keeps_is_not_there(memory: Place) -> None:
    """Its tokens, policies, proposals, webhooks and kill switches; and its own kill switch halts its own sessions."""
    async with fleet(memory) as found:
        ids = await fill(found)
        for (method, path), row in TABLE.items():
            if path not in OTHERS:
                continue
            name, code = OTHERS[path]
            address, body = request_of(path, row, "", ids.get(name, name))
            params = {"to": "standard"} if path.endswith("/diff") else None
            if method == "PUT":
                body = {"document": "policy: careful\n", "why": "x"}
            answer = await found.ask(("beta", "operate"), method, address, body, params=params)
            assert (answer.status_code, answer.json()["code"]) == (404, code), (method, path, answer.text)
            # Of one that nobody has, it is told the same to the letter.
            none = f"{ids.get(name, name)[:-3]}zzz"
            other, body = request_of(path, row, "", none)
            if method == "PUT":
                body = {"document": "policy: careful\n", "why": "x"}
            nothing = await found.ask(("beta", "operate"), method, other, body, params=params)
            assert nothing.text.replace(none, "NAME") == answer.text.replace(ids.get(name, name), "NAME"), path
        statuses = {one["id"]: one["status"] for one in (await found.host.get("/sessions")).json()["sessions"]}
        assert statuses == {"acme~kept": "halted", "beta~kept": "waiting"}


async def test_the_beginning_of_another_tenants_kill_switch_names_nothing_and_hides_no_switch_of_ones_own(
    memory: Place,
) -> None:
    """Neither found by it, nor in the way: who could tell the two apart would find the id letter by letter."""
    async with fleet(memory) as found:
        switch = (await fill(found))["SWITCH"]
        beta, control = ("beta", "operate"), found.server.server.local
        assert control is not None
        own = f"{switch[:-1]}{'0' if switch[-1] != '0' else '1'}"
        for end in range(4, len(switch)):
            answer = await found.ask(beta, "GET", f"/api/v1/kill-switches/{switch[:end]}")
            assert answer.json()["detail"] == f"There is no kill switch '{switch[:end]}'. List the kill switches.", end
        scope = Scope(kind="label", value="none", tenant="beta")
        await KillSwitch(control).throw(scope, "x", switch=own)
        for end in (len(switch) - 1, len(switch)):
            found_by = await found.ask(beta, "GET", f"/api/v1/kill-switches/{own[:end]}")
            assert (found_by.status_code, found_by.json()["id"]) == (200, own)


async def test_within_its_tenant_everybody_may_what_the_role_says(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every route; and the tenant may be left out of a session's id."""
    monkeypatch.setattr(stream, "KEEP_ALIVE", 0.1)  # a chat that has nothing to say begins with it
    async with fleet(memory) as found:
        for (method, path), row in TABLE.items():
            if row.needs is None or (method, path) in HOSTS:
                continue
            for role in LADDER:
                address, body = request_of(path, row, "kept", "nobody")
                answer = await found.ask(("acme", role), method, address, body)
                problem: Data = answer.json() if "problem" in answer.headers.get("content-type", "") else {}
                if LADDER.index(role) < LADDER.index(row.needs):
                    assert (answer.status_code, problem["code"]) == (403, "forbidden"), (role, path)
                else:
                    is_refused = problem.get("code") in ("forbidden", "unauthorized", "session_not_found")
                    assert not is_refused, (role, method, path, answer.text)
        shown = (await found.host.get("/sessions/beta~kept")).json()
        assert (shown["status"], len(shown["messages"])) == ("waiting", 1)


async def test_a_session_is_its_starters_tenants(memory: Place) -> None:
    """Whether its id was given, made of a key, or came from the chat; forks and children stay where they are."""
    async with fleet(memory) as found:
        ann, host = ("acme", "operate"), ("host", "operate")
        start = {"agent": "agent", "goal": "x"}
        key = {"Idempotency-Key": "k"}
        made = [
            (await found.ask(who, "POST", "/api/v1/sessions", start, headers=key)).json()["id"]
            for who in (ann, ("beta", "operate"), host)
        ]
        assert [one.partition("~sess_")[0] for one in made[:2]] == ["acme", "beta"]
        assert "~" not in made[2]
        assert len({one.rpartition("~")[2] for one in made}) == 3, "one key, three people of one name"
        given = {
            "x1": "acme~x1",
            "acme~x2": "acme~x2",
        }
        for wanted, became in given.items():
            answer = await found.ask(ann, "POST", "/api/v1/sessions", {**start, "session_id": wanted})
            assert answer.json()["id"] == became
        for body in ({"session_id": "beta~x"}, {"tenant": "beta"}, {"session_id": "a~b~c"}):
            answer = await found.ask(ann, "POST", "/api/v1/sessions", {**start, **body})
            assert answer.status_code in (403, 422), body
        hosted = await found.ask(host, "POST", "/api/v1/sessions", {**start, "tenant": "acme", "session_id": "x3"})
        assert hosted.json()["id"] == "acme~x3"
        chat = {"agent": "agent", "message": "hi", "session_id": "chat"}
        answer = await found.ask(ann, "POST", "/api/v1/chat", chat)
        assert answer.headers["x-session-id"] == "acme~chat"
        for who in (ann, host):
            forked = await found.ask(who, "POST", "/api/v1/sessions/acme~kept/fork", {"paused": True})
            assert forked.json()["id"].startswith("acme~sess_")
        answer = await found.ask(host, "POST", "/api/v1/sessions/acme~kept/fork", {"session_id": "beta~f"})
        assert answer.status_code == 422


async def test_a_blob_is_only_for_those_whose_journal_names_it(memory: Place) -> None:
    """Who knows the digest, and writes it into a journal of its own as text or as a look-alike, gets nothing."""

    async def large(run: midcourse.Run) -> object:
        said = await run.ask("What?", reason="need_input")
        return said if run.session_id.startswith("beta") else ["acme's own", "x" * 50_000]

    with served(memory, resumable(large), limits=UNLIMITED) as server:
        async with server.client() as host:
            found = Fleet(server, host)
            async with found.client:
                await found.set_up()
                await host.post("/sessions/acme~kept/answer", json={"value": "go"})
                await until_status(host, "acme~kept", "completed")
                events = (await host.get("/sessions/acme~kept/events")).text
                [digest] = set(re.findall(r'"blob":"([0-9a-f]{32})"', events))
                forged = {"value": {"blob": digest, "size": 50_017}}
                await host.post("/sessions/beta~kept/answer", json=forged)
                await until_status(host, "beta~kept", "completed")
                for who in (("beta", "operate"), ("host", "operate")):
                    refused = await found.ask(who, "GET", f"/api/v1/sessions/beta~kept/blobs/{digest}")
                    assert (refused.status_code, refused.json()["code"]) == (404, "blob_not_found")
                given = await found.ask(("acme", "watch"), "GET", f"/api/v1/sessions/kept/blobs/{digest}")
                assert given.json()[0] == "acme's own"


async def test_a_tenants_operator_makes_tokens_of_its_own_tenant_alone(memory: Place) -> None:
    async with fleet(memory) as found:
        ann = ("acme", "operate")
        made = await found.ask(ann, "POST", "/api/v1/tokens", {"name": "eve", "role": "operate"})
        assert made.json()["tenant"] == "acme"
        found.tokens["acme", "eve"] = made.json()["token"]
        assert (await found.ask(("acme", "eve"), "GET", "/api/v1/me")).json() == {
            "name": "eve",
            "role": "operate",
            "session": None,
            "only": None,
            "tenant": "acme",
        }
        for body in ({"tenant": "beta"}, {"session": "beta~kept"}):
            refused = await found.ask(ann, "POST", "/api/v1/tokens", {"name": "mallory", **body})
            assert refused.status_code in (403, 422), body
        assert "mallory" not in (await found.host.get("/tokens")).text
        assert (await found.ask(ann, "DELETE", "/api/v1/tokens/eve")).status_code == 204
        assert (await found.ask(("acme", "eve"), "GET", "/api/v1/me")).status_code == 401
        kept = [one for one in (await found.host.get("/tokens")).json()["tokens"] if one["name"] == "ann"]
        assert {one["tenant"] for one in kept} == {None, "acme", "beta"}


async def test_a_tenants_policy_is_its_own_and_wins_in_its_own_sessions(memory: Place) -> None:
    """The pinned name says whose it is: nothing that anybody saves later changes what a journal means."""
    async with fleet(memory, policy="standard") as found:
        ann, bob = ("acme", "operate"), ("beta", "operate")
        wish = {"document": "policy: standard\nextends: standard@1\nresponse_target: 1m\n", "why": "quicker"}
        saved = await found.ask(ann, "PUT", "/api/v1/policies/standard", wish)
        assert (saved.json()["name"], saved.json()["version"], saved.json()["extends"]) == (
            "acme~standard",
            1,
            "standard@1",
        )
        start = {"agent": "agent", "goal": "x"}
        used = [
            (await found.ask(who, "POST", "/api/v1/sessions", start)).json()["terms"]["policy"] for who in (ann, bob)
        ]
        assert used == ["acme~standard@1", "standard@1"]
        shown = [(await found.ask(who, "GET", "/api/v1/policies/standard")).json()["name"] for who in (ann, bob)]
        assert shown == ["acme~standard", "standard"]
        diff = await found.ask(ann, "GET", "/api/v1/policies/standard/diff", params={"to": "standard@1"})
        assert "response_target" in diff.text


async def test_an_export_shows_a_tenant_its_own_and_proves_the_rest(memory: Place) -> None:
    async with fleet(memory) as found:
        await fill(found)
        exports: dict[str, tuple[str, Verified]] = {}
        for who in (("acme", "operate"), ("beta", "operate"), ("host", "operate")):
            answer = await found.ask(who, "GET", "/api/v1/audit/export")
            exports[who[0]] = (answer.text, verify(answer.content.splitlines(keepends=True)))
        assert "acme" not in exports["beta"][0]
        host, acme, beta = (exports[name][1] for name in ("host", "acme", "beta"))
        assert host.digest == acme.digest == beta.digest
        assert host.withheld == 0
        assert {entry.action for _, entry in acme.entries} >= {"redirect", "policy.save", "webhook.add", "token.add"}
        assert {entry.by for _, entry in acme.entries} == {"acme~ann", "local"}
        assert {entry.whose for _, entry in beta.entries} == {"beta"}
        assert len(host.entries) >= len(acme.entries) + len(beta.entries)


def test_a_session_of_another_tenant_is_refused_without_a_look() -> None:
    """No store is asked: an answer takes as long for one that is there as for one that is not."""
    nowhere = cast("Request", None)
    caller = Caller(nowhere, Principal("ann", "operate", tenant="beta"))
    for session in ("acme~x", "x", "betaa~x", "~x"):
        with pytest.raises(SessionNotFound):
            caller.check_visible(session)
    caller.check_visible("beta~x")
    Caller(nowhere, Principal("ann", "operate")).check_visible("acme~x")
    assert caller.named("x") == "beta~x"


def test_principals_of_one_name_share_no_key() -> None:
    ones = [
        Principal("ann", "watch"),
        Principal("ann", "watch", tenant="acme"),
        Principal("ann", "watch", tenant="beta"),
        Principal("ann", "watch", SessionId("acme~x"), "acme"),
    ]
    assert [one.full_name for one in ones] == ["ann", "acme~ann", "beta~ann", "acme~ann"]
    assert [one.by for one in ones] == ["ann", "acme~ann", "beta~ann", "session:acme~x"]
