"""What is wrong with a request, in one sentence for each thing: never a parser's words, always what is allowed."""

from collections.abc import Iterator
from typing import Any, cast

import httpx2
import pytest

from midcourse.server.validation_errors import PATTERNS
from tests.server.documented import document
from tests.server.live_server import TOKEN, serving


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with serving("memory://") as running, httpx2.Client(base_url=running.api, headers=headers, timeout=30) as one:
        yield one


@pytest.mark.parametrize(
    ("path", "field", "said"),
    [
        ("/sessions?status=pausd", "status", "not 'pausd'. Did you mean 'paused'?"),
        ("/sessions?status=failed&status=runing", "status", "not 'runing'. Did you mean 'running'?"),
        ("/sessions?limit=x", "limit", "'limit' must be a whole number, not 'x'."),
        ("/sessions?limit=0", "limit", "'limit' must be at least 1, not '0'."),
        ("/sessions?lmit=3", "lmit", "There is no query parameter 'lmit'. Did you mean 'limit'?"),
        ("/reports?since=then", "since", "'since' must be seconds since 1970, such as 1760000000, not 'then'."),
        ("/reports?policy=My%20own", "policy", "must be a policy's name (small letters, digits and -, such as"),
        ("/policies/My%20own", "name", "'name' must be a policy's name (small letters, digits and -"),
        ("/interventions?label=rigt", "label", "must be 'right', 'wrong', 'unsure' or 'none', not 'rigt'. Did"),
    ],
)
def test_an_address_with_a_mistake_is_told_what_is_allowed(
    client: httpx2.Client, path: str, field: str, said: str
) -> None:
    problem = client.get(path)
    assert (problem.status_code, problem.json()["code"], problem.json()["field"]) == (422, "invalid_input", field)
    assert said in problem.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "field", "said"),
    [
        ("/sessions/s/rate", {"score": 7}, "score", "'score' must be at most 5, not 7."),
        ("/sessions/s/rate", {"score": "good"}, "score", "'score' must be a whole number, not 'good'."),
        ("/sessions/s/pause", {"until": "stoped"}, "until", "not 'stoped'. Did you mean 'stopped'?"),
        ("/sessions/s/pause", {"resaon": "x"}, "resaon", "There is no field 'resaon'. Did you mean 'reason'?"),
        ("/sessions/s/redirect", {"text": "x", "level": "gaol"}, "level", "not 'gaol'. Did you mean 'goal'?"),
        ("/sessions/s/redirect", {"text": "x"}, "level", "'level' is missing. It must be 'step', 'goal' or 'clarify'."),
        ("/sessions/s/redirect", {"level": "goal"}, "text", "'text' is missing."),
        ("/sessions", {"agent": "a", "session_id": "my id!"}, "session_id", "must be a session's id (letters, digits"),
        ("/chat", {"agent": "a", "message": "x", "session_id": "my id!"}, "session_id", "must be a session's id ("),
        ("/sessions", {"agent": "a", "labels": ["two words"]}, "labels.0", "'labels.0' must be a label (up to 64"),
    ],
)
def test_a_body_with_a_mistake_is_told_what_is_allowed(
    client: httpx2.Client, path: str, body: dict[str, Any], field: str, said: str
) -> None:
    problem = client.post(path, json=body)
    assert (problem.status_code, problem.json()["code"], problem.json()["field"]) == (422, "invalid_input", field)
    assert said in problem.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/sessions", '{"agent": }', "line 1, column 11"),
        ("/sessions", '{\n  "agent": "a",\n  goal: 1\n}', "line 3, column 3"),
        ("/chat", '{\n  "agent": }', "line 2, column 12"),
    ],
)
def test_a_body_that_is_no_json_is_told_where_that_begins(
    client: httpx2.Client, path: str, body: str, where: str
) -> None:
    problem = client.post(path, content=body, headers={"Content-Type": "application/json"}).json()
    assert (problem["code"], problem["field"]) == ("unreadable_body", "body")
    assert problem["detail"].startswith("The body is not JSON: ")
    assert problem["detail"].endswith(f" at {where}.")


def test_every_pattern_that_a_request_is_held_against_has_words() -> None:
    operations = [one for methods in document()["paths"].values() for one in methods.values()]
    asked = [one.get("parameters", []) for one in operations]
    bodies = [schema for name, schema in document()["components"]["schemas"].items() if name in _bodies(operations)]
    by_hand = {"^[0-9]{1,15}$", "^[ -~]+$", "^[A-Za-z0-9][A-Za-z0-9._@+-]*$"}  # checked by code of their own
    found = set(_patterns([asked, bodies]))
    assert found - by_hand == set(PATTERNS) & found
    assert len(found - by_hand) > 3


def _bodies(operations: list[dict[str, Any]]) -> set[str]:
    said = [str(one.get("requestBody", "")) for one in operations]
    return {part.partition("'")[0] for text in said for part in text.split("#/components/schemas/")[1:]}


def _patterns(value: object) -> Iterator[str]:
    match value:
        case dict():
            for name, one in cast("dict[str, object]", value).items():
                if name == "pattern" and isinstance(one, str):
                    yield one
                yield from _patterns(one)
        case list():
            for one in cast("list[object]", value):
                yield from _patterns(one)
        case _:
            pass
