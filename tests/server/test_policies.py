"""Policies over HTTP: looked at by everybody, saved by operators, once, and never over somebody else's change."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

import midcourse
from midcourse.core.terms import Terms
from midcourse.policy import load_policy
from midcourse.policy.profiles import BUILT_IN
from midcourse.server import Server
from tests.promises.harness import Place
from tests.server.live_server import TOKEN, serving
from tests.server.stream_reader import served
from tests.server.test_interventions import failing

MINE = "policy: mine\nextends: conservative\nsignals:\n  cost: {warn: 2}\n"
Data = dict[str, Any]


@pytest.fixture
def client() -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with serving("memory://") as running, httpx2.Client(base_url=running.api, headers=headers, timeout=30) as one:
        yield one


def put(client: httpx2.Client, document: str = MINE, why: str = "a new agent", **headers: str) -> httpx2.Response:
    return client.put("/policies/mine", json={"document": document, "why": why}, headers=headers)


def code(response: httpx2.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert response.json()["detail"].endswith((".", "?"))
    return response.status_code, response.json()["code"]


def test_the_built_in_policies_are_there(client: httpx2.Client) -> None:
    listed = client.get("/policies").json()["policies"]

    assert [one["name"] for one in listed] == list(BUILT_IN)
    assert all(one["is_built_in"] and one["version"] == 1 for one in listed)
    shown = client.get("/policies/trading")
    assert shown.headers["etag"] == '"1"'
    assert load_policy(shown.json()["yaml"]) == BUILT_IN["trading"]
    assert shown.json()["document"]["targets"]["response_p99"] == "200ms"


def test_a_policy_is_saved_with_who_and_why_and_found_by_its_version(client: httpx2.Client) -> None:
    first = put(client)
    second = put(client, MINE.replace("2", "3"), "too loud")

    assert (first.status_code, first.headers["etag"], second.headers["etag"]) == (200, '"1"', '"2"')
    shown = client.get("/policies/mine").json()
    assert (shown["version"], shown["by"], shown["why"]) == (2, "local", "too loud")
    assert client.get("/policies/mine", params={"version": 1}).json() == first.json()
    history = client.get("/policies/mine/history").json()["versions"]
    assert [(one["version"], one["why"]) for one in history] == [(2, "too loud"), (1, "a new agent")]
    assert client.get("/policies").json()["policies"][-1]["version"] == 2


def test_a_difference_is_told_parameter_by_parameter(client: httpx2.Client) -> None:
    put(client)

    found = client.get("/policies/conservative/diff", params={"to": "mine@1"}).json()

    assert found == {
        "from": "conservative@1",
        "to": "mine@1",
        "changes": [
            {"path": "signals.cost.warn", "before": 5, "after": 2, "tightens": True, "words": "steps in earlier"}
        ],
    }
    back = client.get("/policies/mine/diff", params={"to": "conservative", "version": 1}).json()
    assert [one["tightens"] for one in back["changes"]] == [False]


def test_a_text_is_checked_over_what_was_saved_here_and_nothing_is_kept(client: httpx2.Client) -> None:
    put(client)

    found = client.post("/policies/check", json={"document": "policy: other\nextends: mine\ncorrection: 9"}).json()

    assert (found["name"], found["extends"], found["document"]["signals"]["cost"]["warn"]) == ("other", "mine", 2)
    assert [one["path"] for one in found["changes"]] == ["correction"]
    assert code(client.get("/policies/other")) == (404, "policy_not_found")


def test_every_mistake_in_a_text_is_told_with_its_line(client: httpx2.Client) -> None:
    text = "policy: mine\nsignals:\n  scope_drfit: {warn: 0.3}\n  cost: {warn: x}\n"
    for response in (client.post("/policies/check", json={"document": text}), put(client, text)):
        assert code(response) == (422, "invalid_input")
        problem = response.json()
        assert problem["line"] == 3
        assert "line 3: unknown signal 'scope_drfit'. Did you mean 'scope_drift'?" in problem["detail"]
        assert [one["field"] for one in problem["mistakes"]] == ["signals.scope_drfit", "signals.cost.warn"]
    assert code(client.get("/policies/mine")) == (404, "policy_not_found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"document": MINE}, "why"),
        ({"document": MINE, "why": ""}, "why"),
        ({"document": MINE, "why": "   "}, "why"),
        ({"document": MINE, "why": "x" * 2001}, "why"),
        ({"why": "x"}, "document"),
        ({"document": "", "why": "x"}, "document"),
        ({"document": "x" * 100_001, "why": "x"}, "document"),
        ({"document": "é" * 60_000, "why": "x"}, "document"),
        ({"document": MINE.replace("mine", "other"), "why": "x"}, "policy"),
        ({"document": MINE, "why": "x", "by": "root"}, "by"),
        ({"document": "policy: mine\nextends: nobody", "why": "x"}, "extends"),
        ({"document": "policy: mine\nextends: mine", "why": "x"}, "extends"),
        ({"document": "- a\n" * 20_000, "why": "x"}, None),
        ({"document": "[" * 99_000, "why": "x"}, None),
    ],
)
def test_what_cannot_be_saved_is_told_and_changes_nothing(client: httpx2.Client, body: Data, field: str | None) -> None:
    response = client.put("/policies/mine", json=body)

    assert code(response) == (422, "invalid_input")
    assert field in (None, response.json()["field"])
    assert client.get("/policies/mine").status_code == 404


def test_a_save_sent_again_is_one_save_and_its_key_is_for_nothing_else(client: httpx2.Client) -> None:
    key = {"Idempotency-Key": "once"}
    first = put(client, **key)

    assert put(client, **key).json() == first.json()
    assert code(put(client, why="other words", **key)) == (422, "idempotency_key_reused")
    assert code(put(client)) == (409, "policy_unchanged")
    assert len(client.get("/policies/mine/history").json()["versions"]) == 1


def test_who_has_not_seen_the_newest_version_saves_nothing(client: httpx2.Client) -> None:
    etag = put(client, **{"If-Match": '"0"'}).headers["etag"]
    other = MINE.replace("2", "3")
    assert put(client, other, **{"If-Match": etag}).status_code == 200

    for stale in (etag, '"7"', '"mine@1"', '"nonsense"', '"-1"'):
        response = put(client, MINE.replace("2", "4"), **{"If-Match": stale})
        assert code(response) == (412, "precondition_failed")
    assert code(put(client, f"{MINE.replace('2', '4')}version: 1\n")) == (412, "precondition_failed")
    assert put(client, MINE.replace("2", "4"), **{"If-Match": '"mine@2"'}).status_code == 200
    assert put(client, f"{MINE.replace('2', '6')}version: 3\n").status_code == 200
    assert put(client, MINE.replace("2", "7"), **{"If-Match": "*"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/policies/nobody", "/policies/nobody/history", "/policies/nobody/diff?to=standard"),
        *("/policies/standard?version=9", "/policies/standard/diff?to=nobody", "/policies/standard/diff?to=standard@4"),
    ],
)
def test_what_is_not_there_is_not_found(client: httpx2.Client, path: str) -> None:
    assert code(client.get(path)) == (404, "policy_not_found")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/policies/No%20Name",
            "/policies/standard@1",
            "/policies/standard?version=0",
            "/policies/standard?version=x",
        ),
        *("/policies/standard/diff", "/policies/standard/diff?to=a/b", "/policies/standard?verison=1"),
    ],
)
def test_what_names_nothing_is_told_so(client: httpx2.Client, path: str) -> None:
    assert code(client.get(path)) == (422, "invalid_input")


async def test_a_saver_is_known_by_its_token(memory: Place) -> None:
    with served(memory) as server:
        async with server.client() as operator:
            made = await operator.post("/tokens", json={"name": "grace", "role": "operate"})
            async with server.client(made.json()["token"]) as grace:
                saved = await grace.put("/policies/mine", json={"document": MINE, "why": "x"})
            assert saved.json()["by"] == "grace"
            low = await operator.post("/tokens", json={"name": "low", "role": "approve"})
            async with server.client(low.json()["token"]) as approver:
                refused = await approver.put("/policies/mine", json={"document": MINE, "why": "x"})
                assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
                assert (await approver.get("/policies/mine")).status_code == 200


async def test_a_policy_that_is_missing_is_told_when_the_server_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def named(name: str, policy: str) -> midcourse.Agent[Any]:
        return replace(failing(), name=name, terms=Terms(policy=policy))

    agents = {one.name: one for one in (named("slip", "standrd"), named("fine", "standard@1"), named("alone", "none"))}
    server = Server(store=f"sqlite:///{tmp_path}/runs.db", token=TOKEN, agents=agents)
    with caplog.at_level(logging.WARNING, "midcourse.server"):
        async with server.lifespan():
            told = [one for one in caplog.messages if "cannot be started" in one]
    [said] = told
    assert said.startswith(
        "Agent 'slip' cannot be started: There is no policy 'standrd'. Did you mean 'standard'? Save a"
    )


async def test_a_server_whose_own_policy_is_missing_does_not_start(tmp_path: Path) -> None:
    settings = midcourse.Settings(policy="standrd")
    server = Server(store=f"sqlite:///{tmp_path}/runs.db", token=TOKEN, agents={}, settings=settings)
    said = r"There is no policy 'standrd'\. Did you mean 'standard'\? Save a file as one: midcourse policy save FILE"
    with pytest.raises(midcourse.InvalidInput, match=said) as refused:
        async with server.lifespan():
            raise AssertionError("it has started")
    assert (refused.value.code, refused.value.fields) == ("policy_not_found", {"field": "policy"})
