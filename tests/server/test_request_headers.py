"""What a request's header says is done, or refused: none that would matter is passed over in silence."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from starlette.types import Scope

from midcourse.server import CallerLimits
from midcourse.server.auth import Access
from midcourse.server.tokens import Principal
from tests.server.documented import document
from tests.server.live_server import TOKEN, Running, serving
from tests.server.sessions_by_status import Standing, standing
from tests.server.test_tenants import TABLE, Row

DOCUMENT: dict[str, Any] = document()
CHANGES = [one for one in TABLE if one[0] in ("POST", "PUT", "PATCH", "DELETE")]
KEPT = ("sessions", "tokens", "webhooks", "kill-switches", "policies", "proposals", "artifacts", "inbox")
STALE = '"running.1.1.9.9.9.9"'


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving("memory://", standing, limits=CallerLimits(rate=1e6, burst=1_000_000)) as one:
        yield one


@pytest.fixture(scope="module")
def people(running: Running) -> Iterator[Standing]:
    with httpx2.Client(base_url=running.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
        yield Standing(client)


def takes(method: str, path: str, header: str) -> bool:
    """Whether the document says that an address takes a header."""
    return any(one["name"] == header for one in DOCUMENT["paths"][path][method.lower()].get("parameters", ()))


def asked(people: Standing, method: str, path: str, headers: dict[str, str]) -> httpx2.Response:
    """A request that the address would grant, or refuse for what it names."""
    row: Row = TABLE[method, path]
    session = people.kept()["waiting" if path.endswith("/resume") else "paused"]
    body = row.body and {key: session if value == "SESSION" else value for key, value in row.body.items()}
    if body and "agent" in body:
        body["agent"] = "standing"
    if path.endswith("/chat/resume"):
        body = {**(body or {}), "ask_id": "ask_1"}
    names = dict.fromkeys(("name", "digest", "webhook", "switch"), "nobody")
    where = path.removeprefix("/api/v1").format(session_id=session, message="msg_1", ask="ask_1", **names)
    return people.client.request(method, where, json=body, headers=headers)


def everything(people: Standing) -> list[str]:
    """All that is kept, as an operator sees it."""
    return [people.client.get(f"/{one}").text for one in KEPT]


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_a_condition_that_does_not_hold_or_is_not_understood_changes_nothing(
    people: Standing, method: str, path: str
) -> None:
    people.kept()
    before = everything(people)
    refused = asked(people, method, path, {"If-Match": STALE})
    if takes(method, path, "If-Match"):
        assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed"), refused.text
    else:
        told = refused.json()
        assert (refused.status_code, told["code"], told["field"]) == (422, "invalid_input", "If-Match"), refused.text
    for name in ("If-None-Match", "If-Unmodified-Since"):
        told = asked(people, method, path, {name: "*"}).json()
        assert (told["status"], told["code"], told["field"]) == (422, "invalid_input", name)
    if not takes(method, path, "Idempotency-Key"):
        told = asked(people, method, path, {"Idempotency-Key": "once"}).json()
        assert (told["status"], told["code"], told["field"]) == (422, "invalid_input", "Idempotency-Key")
    assert everything(people) == before


def test_a_key_is_taken_wherever_a_retry_can_be_answered() -> None:
    """Also by what removes, and by what only computes; not where a secret is made, which is shown once."""
    refused = {(method, path) for method, path in CHANGES if not takes(method, path, "Idempotency-Key")}

    assert refused == {("POST", "/api/v1/login"), ("POST", "/api/v1/login/codes")}


@pytest.mark.parametrize("path", ["/policies/check", "/kill-switches/preview"])
def test_what_only_computes_answers_a_retry_alike(people: Standing, path: str) -> None:
    first, again = (asked(people, "POST", f"/api/v1{path}", {"Idempotency-Key": "once"}) for _ in range(2))

    assert (first.status_code, again.json()) == (200, first.json())


def test_what_is_removed_once_more_under_a_key_is_gone_and_nothing_else_is(people: Standing) -> None:
    for name in ("spare", "other"):
        assert people.client.post("/tokens", json={"name": name}).status_code == 201
    key = {"Idempotency-Key": "away"}
    first, again = (people.client.delete("/tokens/spare", headers=key) for _ in range(2))

    assert (first.status_code, again.status_code) == (204, 404)
    names = {one["name"] for one in people.client.get("/tokens", params={"limit": 1000}).json()["tokens"]}
    assert "other" in names


def test_what_has_not_changed_since_it_was_seen_is_not_sent_again(people: Standing) -> None:
    name = people.make("completed")
    for path in (f"/sessions/{name}", "/policies/standard"):
        seen = people.client.get(path)
        for tag in (seen.headers["etag"], f"W/{seen.headers['etag']}", f'"other", {seen.headers["etag"]}', "*"):
            for method in ("GET", "HEAD"):
                again = people.client.request(method, path, headers={"If-None-Match": tag})
                assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", seen.headers["etag"])
        other = people.client.get(path, headers={"If-None-Match": STALE})
        assert (other.status_code, other.json()) == (200, seen.json())


def test_what_decides_nothing_changes_the_answer_and_no_condition(people: Standing) -> None:
    """A rating: the session is another one to look at, and the same one to command."""
    name = people.make("completed")
    tag = people.client.get(f"/sessions/{name}").headers["etag"]
    assert people.client.post(f"/sessions/{name}/rate", json={"score": 4}).status_code == 200

    shown = people.client.get(f"/sessions/{name}", headers={"If-None-Match": tag})
    assert (shown.status_code, shown.json()["score"]) == (200, 4)
    again = people.client.post(f"/sessions/{name}/rate", json={"score": 5}, headers={"If-Match": tag})
    assert again.status_code == 200, again.text


def test_a_session_is_forked_and_erased_only_as_it_was_seen(people: Standing) -> None:
    name = people.make("completed")
    tag = people.client.get(f"/sessions/{name}").headers["etag"]
    fork = people.client.post(f"/sessions/{name}/fork", json={"paused": True}, headers={"If-Match": tag})
    assert fork.status_code == 201, fork.text
    key = {"Idempotency-Key": "fork it once"}
    made = people.client.post(f"/sessions/{name}/fork", json={"paused": True}, headers={"If-Match": tag, **key})
    assert people.client.post(f"/sessions/{name}/message", json={"text": "completed"}).status_code == 200
    late = people.client.post(f"/sessions/{name}/fork", headers={"If-Match": tag})
    assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")
    again = people.client.post(f"/sessions/{name}/fork", json={"paused": True}, headers={"If-Match": tag, **key})
    assert (again.status_code, again.json()["id"]) == (200, made.json()["id"]), "a retry is the first try"
    assert people.client.get(f"/sessions/{name}/result", params={"wait": 20}).json()["ended"]
    late = people.client.delete(f"/sessions/{name}/payloads", headers={"If-Match": tag})
    assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")
    tag = people.client.get(f"/sessions/{name}").headers["etag"]
    erased = people.client.delete(f"/sessions/{name}/payloads", headers={"If-Match": tag})
    assert erased.status_code == 200, erased.text


def test_a_chat_begins_no_session_for_somebody_who_has_seen_one(people: Standing) -> None:
    before = people.client.get("/sessions").json()
    for more in ({}, {"session_id": "sess_new"}):
        for tag in (STALE, "*"):
            body = {"agent": "standing", "message": "completed", **more}
            refused = people.client.post("/chat", json=body, headers={"If-Match": tag})
            assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    assert people.client.get("/sessions").json() == before


def test_lifting_a_kill_switch_once_more_under_its_key_is_the_same_lifting(people: Standing) -> None:
    thrown = {"scope": {"kind": "label", "value": "none"}, "reason": "x"}
    path = f"/kill-switches/{people.client.post('/kill-switches', json=thrown).json()['id']}/lift"
    key = {"Idempotency-Key": "once"}
    first, again = (people.client.post(path, json={"why": "over"}, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code, again.json()) == (200, 200, first.json())
    other = people.client.post(path, json={"why": "another reason"}, headers=key)
    assert other.json()["code"] == "already_lifted"


def test_a_token_that_is_made_once_more_under_its_key_is_the_same_token(people: Standing) -> None:
    key = {"Idempotency-Key": "a token"}
    body = {"name": "retried", "role": "steer"}
    first, again = (people.client.post("/tokens", json=body, headers=key) for _ in range(2))

    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    own = {"Authorization": f"Bearer {again.json()['token']}"}
    assert people.client.get("/me", headers=own).json()["name"] == "retried"
    other = people.client.post("/tokens", json={**body, "role": "watch"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    twin = people.client.post("/tokens", json=body, headers={"Idempotency-Key": "another"})
    assert twin.json()["code"] == "token_exists"
    kept = next(one for one in people.client.get("/tokens").json()["tokens"] if one["name"] == "retried")
    assert not {"digest", "made_with", "salt"} & kept.keys()


def test_with_the_key_of_another_sender_no_token_comes_back(people: Standing) -> None:
    body, key = {"name": "mine"}, {"Idempotency-Key": "shared"}
    made = people.client.post("/tokens", json={"name": "second-operator", "role": "operate"}).json()["token"]
    assert people.client.post("/tokens", json=body, headers=key).status_code == 201

    theirs = people.client.post("/tokens", json=body, headers={**key, "Authorization": f"Bearer {made}"})

    assert theirs.json()["code"] == "token_exists"


def test_a_webhook_is_tried_out_once_under_a_key(people: Standing) -> None:
    body = {"url": "http://127.0.0.1:1/", "kinds": ["review.proposed"]}
    path = f"/webhooks/{people.client.post('/webhooks', json=body).json()['webhook']['id']}"
    key = {"Idempotency-Key": "try it"}
    first, again = (people.client.post(f"{path}/test", headers=key) for _ in range(2))

    assert (first.status_code, again.json()) == (200, first.json())
    assert len(people.client.get(f"{path}/deliveries").json()["deliveries"]) == 1


def test_the_token_of_a_request_is_looked_up_once(people: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    identify = Access.identify

    async def counted(access: Access, scope: Scope) -> Principal | None:
        looked.append(scope["path"])
        return await identify(access, scope)

    session = people.kept()["paused"]
    monkeypatch.setattr(Access, "identify", counted)

    assert people.client.post(f"/sessions/{session}/pause").status_code == 200
    assert looked == [f"/api/v1/sessions/{session}/pause"]
