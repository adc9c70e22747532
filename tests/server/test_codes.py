"""Every code that an address tells of is provoked there, over HTTP: its status, its words, and what to do then."""

import asyncio
import inspect
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

import midcourse
from midcourse.analysis.reports.proposals import Proposal, State
from midcourse.analysis.reports.review import SHELF
from midcourse.core import commands as cmd
from midcourse.core.ids import CommandId, SessionId
from midcourse.errors import StoreFull, StoreUnavailable
from midcourse.people.outbox import MOST_WEBHOOKS
from midcourse.ports.store import Store
from midcourse.server import CallerLimits, Server
from midcourse.server.problem_codes import CODES
from midcourse.stores.sqlite.memory import MemoryStore
from tests.promises import damage
from tests.promises.harness import Place
from tests.server.live_server import TOKEN, Running, serving
from tests.server.sessions_by_status import Standing, standing
from tests.server.test_document import DOCUMENT, OPERATIONS, resolved
from tests.unit.core.stories import STOP

ADDRESS = {
    one["operationId"]: (method, path) for path, methods in DOCUMENT["paths"].items() for method, one in methods.items()
}
HERE = "server/test_codes.py"
ELSEWHERE = {
    "invalid_cursor": "server/test_list_pages.py",
    "unauthorized": "server/test_auth.py",
    "identity_would_change": "server/test_auth.py",
    "forbidden": "server/test_document.py",
    "not_for_agents": "server/test_access.py",
    "own_ask": "server/test_roles.py",
    "origin_not_allowed": "server/test_origins.py",
    "host_not_allowed": "server/test_origins.py",
    "request_timeout": "server/test_protocol.py",
    "body_too_large": "server/test_limits.py",
    "too_many_requests": "server/test_limits.py",
    "too_many_streams": "server/test_event_streams.py",
    "too_many_runs": "reports/test_trials.py",
    "draining": "server/test_drain.py",
    "not_ready": "server/test_health.py",
    "session_busy": "upkeep/test_erasure.py",
    "session_damaged": HERE,
    "session_discarded": "server/test_protected.py",
    "unclear_answer": "server/test_interventions.py",
    "budget_spent": "server/test_budgets.py",
    "internal_error": HERE,
    "store_unavailable": HERE,
    "store_full": HERE,
    "damaged": HERE,
}
"""Codes of every address, which are not tried at each."""


entered = threading.Event()
"""A call of ``stubborn`` lives: that its start is journaled does not yet say so."""


@midcourse.tool(effect="write")
async def stubborn(text: str) -> str:
    """Cannot be stopped, and does not end by itself."""
    entered.set()
    await asyncio.Event().wait()
    return text


@midcourse.agent(name="stubborn", version="1")
async def stubborn_agent(run: midcourse.Run) -> str:
    """Stays cancelling."""
    return await run.step("stubborn", stubborn, run.goal)


PLACES = {"message": "msg_1", "name": "none", "digest": "0" * 32, "ask": "ask_1", "webhook": "none", "switch": "none"}
"""What an address names, if it is not said."""


class World:
    """A server with sessions in every status, and tokens of every kind."""

    def __init__(self, running: Running, client: httpx2.Client, store: str) -> None:
        self.running = running
        self.client = client
        self.people = Standing(client)
        self._store = store
        self._tokens: dict[str, str] = {}

    def token(self, role: str) -> dict[str, str]:
        """The header of a token with that role."""
        name = f"{role}-{len(self._tokens)}"
        made = self.client.post("/tokens", json={"name": name, "role": role})
        assert made.status_code == 201, made.text
        self._tokens[name] = made.json()["token"]
        return {"Authorization": f"Bearer {self._tokens[name]}"}

    def halted(self) -> str:
        """A session that the kill switch holds."""
        name = self.people.make("waiting")
        asyncio.run(self._halt(name))
        return name

    async def _halt(self, name: str) -> None:
        async with midcourse.open(self._store, drive=False) as mc:
            halt = cmd.Halt(id=CommandId("halt"), by="op", role="operate")
            await mc._control.send(SessionId(name), halt, until="decided", wait=20)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    def left_alone(self) -> str:
        """A session that a policy has paused, of an agent that only the process which started it had."""
        return asyncio.run(self._left_alone())

    async def _left_alone(self) -> str:
        @midcourse.agent(name="closure", version="1")
        async def closure(run: midcourse.Run) -> object:
            return await run.ask("May I?")

        async with midcourse.open(self._store) as mc:
            session = await mc.start(closure, "x", terms=midcourse.Terms(budget=1.0))
            await session.next_ask()
            stop = cmd.Intervene(id=CommandId("policy"), by="policy:standard@1", decision=STOP)
            await mc._control.send(session.id, stop, until="stopped", wait=20)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            return session.id

    def cancelling(self) -> str:
        """A session that is being cancelled and does not end."""
        entered.clear()
        made = self.client.post("/sessions", json={"agent": "stubborn", "goal": "x"}).json()["id"]
        entered.wait()
        self.people.post(made, "cancel", grace=60)
        return made

    def ask(
        self, operation: str, body: object = None, headers: Mapping[str, str] | None = None, **places: str
    ) -> httpx2.Response:
        """Ask at an address of the document."""
        method, path = ADDRESS[operation]
        given: dict[str, Any] = {} if body is None else {"json": body}
        where = self.running.url + path.format(**{**PLACES, **places})
        return self.client.request(method.upper(), where, headers=headers, **given)


def talking(running: Running) -> httpx2.Client:
    """A client of the operator's."""
    return httpx2.Client(base_url=running.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    store = f"sqlite:///{tmp_path_factory.mktemp('codes')}/runs.db"
    limits = CallerLimits(rate=1e6, burst=1_000_000)
    with (
        serving(store, standing, stubborn_agent, limits=limits, durability="process") as running,
        talking(running) as client,
    ):
        yield World(running, client, store)


Provoked = Callable[[World], httpx2.Response]
BODY: Mapping[str, object] = {
    "redirect": {"text": "x", "level": "step"},
    "label": {"about": "msg_1", "verdict": "right"},
    "review_artifact": {"name": "report.md"},
    "rate": {"score": 4},
    "edit": {"text": "x"},
    "answer_ask": {"value": 1},
    "message": {"text": "x"},
    "tell_event": {"text": "x"},
    "raise_budget": {"budget": 5},
    "chat": {"agent": "standing", "message": "x"},
    "resume_chat": {"answer": "yes"},
}


def at(operation: str, status: str, **body: object) -> Provoked:
    """Ask for it of a session in that status."""

    def provoke(world: World) -> httpx2.Response:
        made = {"halted": world.halted, "cancelling": world.cancelling, "left alone": world.left_alone}
        name = made[status]() if status in made else world.people.make(status)
        return world.ask(operation, {**_body(operation, name), **body} or None, session_id=name)

    return provoke


def _body(operation: str, name: str) -> dict[str, object]:
    given: Any = BODY.get(operation, {})
    return {**given, "session_id": name} if operation in ("chat", "resume_chat") else dict(given)


def by(role: str, operation: str, status: str, **body: object) -> Provoked:
    """The same by somebody with that role."""

    def provoke(world: World) -> httpx2.Response:
        name = world.halted() if status == "halted" else world.people.make(status)
        headers = world.token(role)
        return world.ask(operation, {**_body(operation, name), **body} or None, headers, session_id=name)

    return provoke


def _forces(world: World) -> httpx2.Response:
    path = ADDRESS["preview_cancel"][1].format(session_id=world.halted())
    return world.client.get(f"{world.running.url}{path}?force=true", headers=world.token("steer"))


def twice(operation: str, first: object, second: object, status: str = "paused") -> Provoked:
    """Two different things with one Idempotency-Key."""

    def provoke(world: World) -> httpx2.Response:
        name = world.people.make(status)
        headers = {"Idempotency-Key": f"key-{name}"}
        world.ask(operation, first, headers, session_id=name)
        return world.ask(operation, second, headers, session_id=name)

    return provoke


def _stale(operation: str) -> Provoked:
    def provoke(world: World) -> httpx2.Response:
        name = world.people.make("waiting")
        body = _body(operation, name) or None
        return world.ask(operation, body, {"If-Match": '"running.1.1.9.9.9.9"'}, session_id=name)

    return provoke


def _nowhere(operation: str) -> Provoked:
    return lambda world: world.ask(operation, BODY.get(operation), session_id="none")


def _erased(operation: str) -> Provoked:
    """A cancel of an erased session is granted, and no ask of one is open: sent again, they have lost their answers."""

    def provoke(world: World) -> httpx2.Response:
        status, first = _BEFORE_ERASURE.get(operation, ("completed", None))
        name = world.people.make(status)
        body, headers = _body(operation, name) or None, {"Idempotency-Key": f"key-{name}"}
        if first is not None:
            body = _of_session(first, name)
            assert world.ask(operation, body, headers, session_id=name).status_code == 200
        while world.client.delete(f"/sessions/{name}/payloads").json().get("code") == "not_ended":
            pass
        assert world.people.look(name)["erased_at"] is not None
        return world.ask(operation, body, headers, session_id=name)

    return provoke


_BEFORE_ERASURE: Mapping[str, tuple[str, dict[str, object]]] = {
    "cancel": ("paused", {"until": "stopped"}),
    "resume_chat": ("waiting", {"session_id": "its id", "answer": "yes", "ask_id": "ask_1"}),
}


def _plain(operation: str) -> Provoked:
    def provoke(world: World) -> httpx2.Response:
        method, path = ADDRESS[operation]
        where = world.running.url + path.format(**{**PLACES, "session_id": world.people.make("paused")})
        return world.client.request(method.upper(), where, content=b"text", headers={"Content-Type": "text/plain"})

    return provoke


def _nonsense(operation: str) -> Provoked:
    def provoke(world: World) -> httpx2.Response:
        if "requestBody" in OPERATIONS[operation]:
            return world.ask(operation, {"nonsense": 1}, session_id=world.people.make("paused"))
        given = [one["name"] for one in OPERATIONS[operation].get("parameters", ())]
        method, path = ADDRESS[operation]
        unheard = {} if method == "get" else {"If-None-Match": "*"}
        where = world.running.url + path
        if "session_id" in given:
            name = world.people.make("completed") if set(given) & {"after", "at", "wait"} else "x" * 301
            where = where.format(session_id=name, message="msg_1", digest="0")
        return world.client.request(
            method.upper(),
            where.format(name="x" * 65, webhook="x" * 201, switch="x" * 301),
            params={"after": "x", "at": "x", "wait": "x", "limit": "x"},
            headers=unheard,
        )

    return provoke


def _another_tenants_policy(world: World) -> httpx2.Response:
    made = world.ask("add_token", {"name": "of-beta", "role": "operate", "tenant": "beta"}).json()
    own = {"Authorization": f"Bearer {made['token']}"}
    return world.ask("save_policy", {"document": "policy: careful", "why": "x"}, own, name="acme~careful")


def _with_id(operation: str, first: object, second: object) -> Provoked:
    """The second of two, with the id that the first one made."""

    def provoke(world: World) -> httpx2.Response:
        name = world.people.make("paused")
        world.ask(operation, first, session_id=name)
        return world.ask(operation, second, session_id=name)

    return provoke


def _answered(operation: str, **body: object) -> Provoked:
    def provoke(world: World) -> httpx2.Response:
        name = world.people.make("twice")
        world.people.post(name, "answer", value=1, ask="ask_1")
        return world.ask(operation, {**_body(operation, name), **body}, session_id=name)

    return provoke


def _keyed_chat(*messages: Mapping[str, object]) -> Provoked:
    def provoke(world: World) -> httpx2.Response:
        name = world.people.make("completed")
        headers = {"Idempotency-Key": f"chat-{name}"}
        found = [world.ask("chat", _of(one, name), headers) for one in messages]
        return found[-1]

    return provoke


def _of(body: Mapping[str, object], name: str) -> dict[str, object]:
    return {"agent": "standing", **_of_session(body, name)}


def _of_session(body: Mapping[str, object], name: str) -> dict[str, object]:
    return {key: name if value == "its id" else value for key, value in body.items()}


def _keyed_answer(world: World) -> httpx2.Response:
    name = world.people.make("waiting")
    headers = {"Idempotency-Key": f"answer-{name}"}
    world.ask("resume_chat", {"session_id": name, "answer": "yes", "ask_id": "ask_1"}, headers)
    return world.ask("resume_chat", {"session_id": name, "answer": "no", "ask_id": "ask_1"}, headers)


def _lowered(world: World) -> httpx2.Response:
    name = world.people.make("paused")
    world.people.post(name, "budget", budget=5, resume=False)
    return world.ask("raise_budget", {"budget": 4}, session_id=name)


def _infinite(operation: str, field: str) -> Provoked:
    """An answer that is JSON for some, and a number for nobody."""

    def provoke(world: World) -> httpx2.Response:
        name = world.people.make("waiting")
        body = json.dumps({**_body(operation, name), "ask_id": "ask_1", field: "X"}).replace('"X"', "1e999")
        if operation == "answer_ask":
            body = '{"value": 1e999}'
        _, path = ADDRESS[operation]
        headers = {"Content-Type": "application/json"}
        return world.client.post(world.running.url + path.format(session_id=name), content=body, headers=headers)

    return provoke


def _withdrawn_twice(world: World) -> httpx2.Response:
    name = world.people.make("paused")
    headers = {"Idempotency-Key": f"key-{name}"}
    world.ask("withdraw", None, headers, session_id=name)
    return world.ask("withdraw", None, headers, session_id=name, message="msg_2")


def _saved(*more: tuple[str, str], headers: Mapping[str, str] | None = None) -> Provoked:
    """A policy is saved, and then again: each time with a number and why."""

    def provoke(world: World) -> httpx2.Response:
        found = [
            world.ask(
                "save_policy", {"document": f"policy: saved\ncorrection: {number}", "why": why}, sent, name="saved"
            )
            for (number, why), sent in ((("7", "first"), {}), *((one, headers or {}) for one in more))
        ]
        return found[-1]

    return provoke


def _keyed_save(world: World) -> httpx2.Response:
    bodies = ({"document": f"policy: keyed\ncorrection: {number}", "why": "x"} for number in (7, 8))
    return [world.ask("save_policy", one, {"Idempotency-Key": "save"}, name="keyed") for one in bodies][-1]


def _proposed(operation: str, state: State, document: Mapping[str, Any] | None = None) -> Provoked:
    """A proposal lies there, and somebody settles it, or did before."""

    def provoke(world: World) -> httpx2.Response:
        control = world.running.server.local
        assert control is not None
        made = Proposal(
            id="prop_1", name="proposed", policy="standard@1", changes=(), evidence=(), document=dict(document or {}),
            made_at=0.0, state=state, by="" if state == "open" else "bob",
        )  # fmt: skip
        asyncio.run(_shelved(control.worker.store, made))
        return world.ask(operation, {"why": "x"}, name=made.id)

    return provoke


async def _shelved(store: Store, made: Proposal) -> None:
    await store.shelve(SHELF, {made.id: msgspec.json.encode(made)})


def _proposes_the_same(world: World) -> httpx2.Response:
    body = {"document": "policy: proposed\ncorrection: 7", "why": "x"}
    kept = world.ask("save_policy", body, name="proposed").json()
    return _proposed("accept_proposal", "open", kept["document"])(world)


def _crowded(world: World) -> httpx2.Response:
    body = {"url": "http://127.0.0.1:1/", "kinds": ["review.proposed"]}
    made = [world.ask("add_webhook", body) for _ in range(MOST_WEBHOOKS + 1)]
    for one in made[:-1]:
        world.ask("remove_webhook", webhook=one.json()["webhook"]["id"])
    return made[-1]


def _another_webhook(world: World) -> httpx2.Response:
    key = {"Idempotency-Key": "one webhook"}
    made, other = (
        world.ask("add_webhook", {"url": f"http://127.0.0.1:{port}/", "kinds": ["review.proposed"]}, key)
        for port in (1, 2)
    )
    world.ask("remove_webhook", webhook=made.json()["webhook"]["id"])
    return other


def _another_token(world: World) -> httpx2.Response:
    key = {"Idempotency-Key": "one token"}
    return [world.ask("add_token", {"name": name}, key) for name in ("ours", "theirs")][-1]


def _thrown(world: World) -> str:
    """A kill switch over an agent that nobody has."""
    wish = {"scope": {"kind": "agent", "value": "nobody"}, "reason": "x"}
    return world.ask("throw_kill_switch", wish).json()["id"]


def _thrown_twice(world: World) -> httpx2.Response:
    headers = {"Idempotency-Key": "thrown"}
    wish = {"scope": {"kind": "agent", "value": "nobody"}, "reason": "x"}
    switch = world.ask("throw_kill_switch", wish, headers).json()["id"]
    refused = world.ask("throw_kill_switch", {**wish, "reason": "y"}, headers)
    world.ask("lift_kill_switch", {"why": "x"}, switch=switch)
    return refused


def _lifted_twice(world: World) -> httpx2.Response:
    switch = _thrown(world)
    world.ask("lift_kill_switch", {"why": "x"}, switch=switch)
    return world.ask("lift_kill_switch", {"why": "x"}, switch=switch)


def _resumed_below_it(world: World) -> httpx2.Response:
    name = world.people.make("paused")
    body = {"scope": {"kind": "agent", "value": "standing"}, "reason": "x"}
    switch = world.client.post("/kill-switches", json=body).json()["id"]
    try:
        return world.ask("resume", {}, session_id=name)
    finally:
        world.ask("lift_kill_switch", {"why": "x"}, switch=switch)


def _still_stands(world: World) -> httpx2.Response:
    switch = _thrown(world)
    refused = world.ask("release_halted", {}, switch=switch)
    world.ask("lift_kill_switch", {"why": "x"}, switch=switch)
    return refused


PROVOKED: Mapping[tuple[str, str], Provoked] = {
    ("get_report", "policy_not_found"): lambda world: world.client.get("/reports?policy=nobody"),
    ("get_checklist", "policy_not_found"): lambda world: world.client.get("/checklist?policy=nobody"),
    ("accept_proposal", "proposal_not_found"): lambda world: world.ask("accept_proposal", {"why": "x"}),
    ("accept_proposal", "proposal_settled"): _proposed("accept_proposal", "refused"),
    ("accept_proposal", "policy_unchanged"): _proposes_the_same,
    ("refuse_proposal", "proposal_not_found"): lambda world: world.ask("refuse_proposal", {"why": "x"}),
    ("refuse_proposal", "proposal_settled"): _proposed("refuse_proposal", "accepted"),
    ("check_policy", "policy_not_found"): lambda world: world.ask(
        "check_policy", {"document": "policy: x", "against": "nobody"}
    ),
    ("backtest_policy", "policy_not_found"): lambda world: world.ask("backtest_policy", {"policy": "nobody"}),
    ("backtest_policy", "no_recordings"): lambda world: world.ask(
        "backtest_policy", {"policy": "standard", "since": 9e11}
    ),
    ("calibrate_policy", "policy_not_found"): lambda world: world.ask("calibrate_policy", {"policy": "nobody"}),
    ("calibrate_policy", "too_few_runs"): lambda world: world.ask(
        "calibrate_policy", {"policy": "standard", "since": 9e11}
    ),
    ("throw_kill_switch", "idempotency_key_reused"): _thrown_twice,
    ("get_kill_switch", "kill_switch_not_found"): lambda world: world.ask("get_kill_switch", switch="none"),
    ("lift_kill_switch", "kill_switch_not_found"): lambda world: world.ask(
        "lift_kill_switch", {"why": "x"}, switch="none"
    ),
    ("lift_kill_switch", "already_lifted"): _lifted_twice,
    ("release_halted", "kill_switch_not_found"): lambda world: world.ask("release_halted", {}, switch="none"),
    ("release_halted", "kill_switch_stands"): _still_stands,
    ("resume", "kill_switch_stands"): _resumed_below_it,
    ("list_sessions", "session_not_found"): lambda world: world.client.get("/sessions?before=sess_none"),
    ("save_policy", "policy_not_found"): _another_tenants_policy,
    ("get_policy", "policy_not_found"): lambda world: world.ask("get_policy"),
    ("policy_history", "policy_not_found"): lambda world: world.ask("policy_history"),
    ("diff_policies", "policy_not_found"): lambda world: world.client.get("/policies/none/diff?to=standard"),
    ("save_policy", "policy_unchanged"): _saved(("7", "again")),
    ("save_policy", "precondition_failed"): _saved(("8", "other"), headers={"If-Match": '"99"'}),
    ("save_policy", "idempotency_key_reused"): _keyed_save,
    ("create_session", "agent_unavailable"): lambda world: world.ask("create_session", {"agent": "nobody"}),
    ("create_session", "session_exists"): _with_id(
        "create_session", {"agent": "standing", "session_id": "taken"}, {"agent": "standing", "session_id": "taken"}
    ),
    ("create_session", "idempotency_key_reused"): twice(
        "create_session", {"agent": "standing", "goal": "completed"}, {"agent": "standing", "goal": "failed"}
    ),
    ("fork_session", "session_exists"): _with_id("fork_session", {"session_id": "forked"}, {"session_id": "forked"}),
    ("fork_session", "idempotency_key_reused"): twice("fork_session", {"at": 2}, {"at": 3}),
    ("erase_session", "not_ended"): at("erase_session", "running"),
    ("erase_session", "invalid_input"): lambda world: world.client.delete("/sessions/x/payloads?children=perhaps"),
    ("get_blob", "blob_not_found"): at("get_blob", "completed"),
    ("pause", "not_allowed"): at("pause", "cancelling"),
    ("pause", "session_ended"): at("pause", "completed"),
    ("resume", "already_resumed"): at("resume", "running"),
    ("resume", "checkpoint_not_found"): at("resume", "paused", pause="pause_99"),
    ("resume", "not_allowed"): at("resume", "cancelling"),
    ("resume", "operator_only"): by("approve", "resume", "halted"),
    ("resume", "session_ended"): at("resume", "cancelled"),
    ("redirect", "not_allowed"): at("redirect", "halted"),
    ("edit", "message_not_found"): lambda world: world.ask(
        "edit", {"text": "x"}, session_id=world.people.make("paused"), message="msg_99"
    ),
    ("edit", "message_seen"): at("edit", "paused"),
    ("withdraw", "message_not_found"): lambda world: world.ask(
        "withdraw", session_id=world.people.make("paused"), message="nonsense"
    ),
    ("withdraw", "message_seen"): at("withdraw", "paused"),
    ("withdraw", "command_id_taken"): _withdrawn_twice,
    ("cancel", "operator_only"): by("steer", "cancel", "halted"),
    ("preview_cancel", "operator_only"): _forces,
    ("undo", "not_allowed"): at("undo", "running"),
    ("answer_ask", "already_answered"): _answered("answer_ask", ask="ask_1"),
    ("answer_ask", "approver_only"): by("steer", "answer_ask", "waiting"),
    ("answer_ask", "ask_id_required"): at("answer_ask", "twice"),
    ("answer_ask", "ask_not_found"): at("answer_ask", "waiting", ask="ask_9"),
    ("answer_ask", "not_allowed"): at("answer_ask", "cancelling"),
    ("answer_ask", "session_ended"): at("answer_ask", "failed"),
    ("answer_ask", "unencodable"): _infinite("answer_ask", "value"),
    ("message", "busy"): at("message", "running", behaviour="reject"),
    ("message", "not_allowed"): at("message", "cancelling"),
    ("tell_event", "not_allowed"): at("tell_event", "halted"),
    ("tell_event", "session_ended"): at("tell_event", "completed"),
    ("raise_budget", "not_allowed"): at("raise_budget", "halted"),
    ("raise_budget", "not_raised"): _lowered,
    ("label", "intervention_not_found"): at("label", "paused", about="int_9"),
    ("review_artifact", "artifact_not_found"): at("review_artifact", "paused"),
    ("rate", "not_allowed"): at("rate", "running"),
    ("chat", "agent_mismatch"): at("chat", "completed", agent="stubborn"),
    ("chat", "agent_unavailable"): lambda world: world.ask("chat", {"agent": "nobody", "message": "x"}),
    ("chat", "busy"): at("chat", "running", behaviour="reject"),
    ("chat", "not_allowed"): at("chat", "halted"),
    ("chat", "command_id_taken"): _keyed_chat(
        {"message": "completed", "session_id": "its id"}, {"message": "completed again", "session_id": "its id"}
    ),
    ("chat", "idempotency_key_reused"): _keyed_chat({"message": "completed"}, {"message": "completed again"}),
    ("resume_chat", "already_resumed"): _answered("resume_chat", ask_id="ask_1"),
    ("resume_chat", "approver_only"): by("steer", "resume_chat", "waiting", ask_id="ask_1"),
    ("resume_chat", "ask_id_required"): at("resume_chat", "twice"),
    ("resume_chat", "checkpoint_not_found"): at("resume_chat", "completed"),
    ("resume_chat", "command_id_taken"): _keyed_answer,
    ("resume_chat", "precondition_failed"): lambda world: world.ask(
        "resume_chat",
        {"session_id": world.people.make("waiting"), "answer": "yes", "ask_id": "ask_1"},
        {"If-Match": '"running.1.1.9.9.9.9"'},
    ),
    ("resume_chat", "unencodable"): _infinite("resume_chat", "answer"),
    ("own_ask", "ask_not_found"): at("own_ask", "completed"),
    ("add_webhook", "address_refused"): lambda world: world.ask("add_webhook", {"url": "ftp://x/", "kinds": ["*"]}),
    ("add_webhook", "too_many_webhooks"): _crowded,
    ("add_webhook", "idempotency_key_reused"): _another_webhook,
    ("remove_webhook", "webhook_not_found"): lambda world: world.ask("remove_webhook"),
    ("test_webhook", "webhook_not_found"): lambda world: world.ask("test_webhook"),
    ("list_deliveries", "webhook_not_found"): lambda world: world.ask("list_deliveries"),
    ("add_token", "idempotency_key_reused"): _another_token,
    ("add_token", "session_not_found"): lambda world: world.ask("add_token", {"name": "lost", "session": "sess_none"}),
    ("add_token", "token_exists"): _with_id("add_token", {"name": "twin"}, {"name": "twin"}),
    ("revoke_token", "token_not_found"): lambda world: world.ask("revoke_token"),
    ("log_in", "login_refused"): lambda world: world.ask("log_in", {"credential": "mcl_none"}),
    ("login_status", "browser_session_not_found"): lambda world: world.ask("login_status"),
    ("log_out", "browser_session_not_found"): lambda world: world.ask("log_out"),
    ("end_browser", "browser_session_not_found"): lambda world: world.ask("end_browser"),
}
GENERAL: Mapping[str, Callable[[str], Provoked]] = {
    "session_not_found": _nowhere,
    "session_erased": _erased,
    "agent_unavailable": lambda operation: at(operation, "left alone", **_GOES_ON.get(operation, {})),
    "precondition_failed": _stale,
    "unreadable_body": _plain,
    "invalid_input": _nonsense,
    "command_id_taken": lambda operation: twice(
        operation, _first_of(operation), _second_of(operation), _GRANTS.get(operation, "paused")
    ),
}
_GOES_ON: Mapping[str, dict[str, object]] = {
    "answer_ask": {"value": "go on", "ask": "ask_2"},
    "resume_chat": {"answer": "go on", "ask_id": "ask_2"},
    "redirect": {"resume": True},
}
"""What would let a session that is paused for a review continue."""
_GRANTS = {
    "answer_ask": "waiting",
    "undo": "completed",
    "rate": "completed",
    "pause": "running",
    "tell_event": "paused",
}


def _first_of(operation: str) -> object:
    return BODY.get(operation, {})


def _second_of(operation: str) -> object:
    given: Any = BODY.get(operation, {})
    changes: Mapping[str, object] = {
        "pause": {"reason": "other"},
        "cancel": {"reason": "other"},
        "undo": {"reason": "other"},
        "resume": {"pause": "pause_9"},
        "answer_ask": {"value": 2},
        "raise_budget": {"budget": 6},
        "label": {"verdict": "wrong"},
        "rate": {"score": 5},
    }
    more: Any = changes.get(operation, {"text": "other"})
    return {**given, **more}


def _told() -> Iterator[tuple[str, str]]:
    for name, operation in OPERATIONS.items():
        for answer in operation["responses"].values():
            for code in resolved(answer).get("x-codes", ()):
                if code not in ELSEWHERE:
                    yield name, code


@pytest.mark.parametrize(("operation", "code"), list(_told()))
def test_a_code_that_is_told_of_is_given(world: World, operation: str, code: str) -> None:
    provoke = PROVOKED.get((operation, code)) or GENERAL[code](operation)

    response = provoke(world)

    assert (response.status_code, response.json()["code"]) == (CODES[code].status, code), response.text
    assert_says_what_happened(response)


def assert_says_what_happened(response: httpx2.Response) -> None:
    problem: dict[str, Any] = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert re.match(r"[A-Z'\w]", problem["detail"])
    assert problem["detail"].endswith((".", "?")), problem["detail"]
    assert len(problem["detail"].split()) >= 3
    if problem["code"] == "invalid_input":
        assert problem["field"], problem


# ---- what goes wrong in the store


@midcourse.tool(effect="read")
async def fetch(size: int) -> str:
    """More than an event holds itself."""
    return "x" * size


@midcourse.agent(name="large", version="1")
async def large(run: midcourse.Run) -> int:
    """Has a large value when it asks."""
    text = await run.step("fetch", fetch, 40_000)
    await run.ask("Go on?")
    return len(text)


def _status(client: httpx2.Client, name: str) -> str:
    found = client.get("/sessions", params={"search": name}).json()["sessions"]
    return found[0]["status"] if found else ""


def test_a_damaged_session_is_neither_tried_again_nor_given_a_new_turn(tmp_path: Path) -> None:
    place = Place("sqlite", tmp_path)
    with serving(f"sqlite:///{place.path}", large) as running, talking(running) as client:
        client.post("/sessions", json={"agent": "large", "session_id": "s"})
        while _status(client, "s") != "waiting":
            pass
    assert damage.damage_blobs(place, damage.flipped)
    with serving(f"sqlite:///{place.path}", large) as running, talking(running) as client:
        client.post("/sessions/s/answer", json={"value": 1})
        while _status(client, "s") != "failed":
            pass
        chat = {"agent": "large", "message": "x", "session_id": "s"}
        for path, body in (
            ("resume", {}),
            ("redirect", {"text": "x", "level": "step"}),
            ("message", {"text": "x"}),
            ("../../chat", chat),
        ):
            response = client.post(f"{running.api}/sessions/s/{path}".replace("sessions/s/../../", ""), json=body)
            assert (response.status_code, response.json()["code"]) == (409, "session_damaged"), response.text
            assert_says_what_happened(response)


def test_a_damaged_journal_is_not_followed_and_everybody_is_told(tmp_path: Path) -> None:
    place = Place("sqlite", tmp_path)
    with serving(f"sqlite:///{place.path}", standing) as running, talking(running) as client:
        name = Standing(client).make("waiting")
    damage.damage_journal(place, name, "flip", 2)
    damage.damage_snapshots(place, name, damage.emptied)
    with serving(f"sqlite:///{place.path}", standing, drive=False) as running, talking(running) as client:
        for path in ("", "/inspect", "/events", "/receipt", "/result", "/cancel/preview"):
            response = client.get(f"/sessions/{name}{path}")
            assert (response.status_code, response.json()["code"]) == (500, "damaged"), (path, response.text)
            assert_says_what_happened(response)


class Failing:
    """A store that fails from now on, with whatever error is set."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != "shelve" and not inspect.iscoroutinefunction(found):
            return found

        async def asked(*arguments: Any, **more: Any) -> Any:
            if self.error is not None and name not in ("close", "beat", "leave", "dismiss"):
                raise self.error
            return await found(*arguments, **more)

        return asked


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StoreUnavailable("The disk is gone. Bring it back."), 503),
        (StoreUnavailable("Another program holds it. Wait.", code="store_busy"), 503),
        (StoreFull("No space is left. Make some."), 507),
        (RuntimeError("a bug, with the password hunter2"), 500),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_a_store_that_fails_is_told_of_at_every_address(error: Exception, status: int) -> None:
    store = Failing(MemoryStore())
    with serving(store, standing) as running, talking(running) as client:  # pyright: ignore[reportArgumentType]
        name = Standing(client).make("completed")
        store.error = error
        try:
            for path in (
                f"/sessions/{name}",
                "/sessions",
                f"/sessions/{name}/events",
                f"/sessions/{name}/receipt",
                "/audit",
                "/tokens",
            ):
                response = client.get(path)
                assert response.status_code == status, (path, response.text)
                assert_says_what_happened(response)
                assert "hunter2" not in response.text
                assert status != 503 or int(response.headers["retry-after"]) > 0
            for path, body in (
                (f"/sessions/{name}/message", {"text": "x"}),
                ("/sessions", {"agent": "standing"}),
                ("/chat", {"agent": "standing", "message": "x"}),
                ("/tokens", {"name": "x"}),
            ):
                response = client.post(path, json=body)
                assert response.status_code == status, (path, response.text)
                assert response.json()["code"] == getattr(error, "code", "internal_error")
            assert client.get(f"{running.url}/healthz").status_code == 200
        finally:
            store.error = None
        assert client.get(f"/sessions/{name}").json()["status"] == "completed"


def test_a_server_that_was_mounted_without_its_lifespan_says_what_is_missing() -> None:
    server = Server(store="memory://", token=TOKEN, agents={})

    async def ask() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(server.app)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost/api/v1", headers=headers
        ) as client:
            return [await client.get("/sessions"), await client.post("/sessions", json={"agent": "x"})]

    for response in asyncio.run(ask()):
        assert (response.status_code, response.json()["code"]) == (503, "not_started"), response.text
        assert "lifespan" in response.json()["detail"]


@pytest.mark.parametrize(("code", "file"), [one for one in ELSEWHERE.items() if one[1] != HERE])
def test_what_is_tried_elsewhere_is_a_code_that_is_named_there(code: str, file: str) -> None:
    assert code in CODES
    assert code in (Path(__file__).parents[1] / file).read_text()
