"""The OpenAPI document: valid, complete in words and examples, and true of what a real server sends."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import httpx2
import jsonschema
import pytest
import schemathesis
from fastapi.openapi.models import OpenAPI

import midcourse
from midcourse.core import commands as cmd
from midcourse.core.commands import Role
from midcourse.server.delivered_asks import TOO_LATE
from midcourse.server.problem_codes import CODES
from midcourse.server.problems import BY_CLASS, status_of
from midcourse.server.roles import LADDER
from tests.server.documented import document
from tests.server.live_server import TOKEN, Running, serving
from tests.server.sessions_by_status import Standing, standing

Schema = Mapping[str, Any]
ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = document()
OPERATIONS: dict[str, dict[str, Any]] = {
    one["operationId"]: one for methods in DOCUMENT["paths"].values() for one in methods.values()
}


def check(value: object, schema: Schema) -> None:
    """``value`` is what ``schema`` says, a part of the document."""
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)  # pyright: ignore[reportUnknownMemberType]


def resolved(answer: Schema) -> Schema:
    name = str(answer.get("$ref", "")).rpartition("/")[2]
    return DOCUMENT["components"]["responses"][name] if name else answer


def refs(value: object) -> Iterator[str]:
    match value:
        case {"$ref": str(where)}:
            yield where
        case dict():
            for one in cast("dict[str, object]", value).values():
                yield from refs(one)
        case list():
            for one in cast("list[object]", value):
                yield from refs(one)
        case _:
            pass


def test_it_is_a_valid_openapi_3_1_document_and_all_it_refers_to_is_there() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    OpenAPI.model_validate(DOCUMENT)
    for where in set(refs(DOCUMENT)):
        _, _, kind, name = where.split("/")
        assert name in DOCUMENT["components"][kind], where


def test_every_schema_is_a_schema_and_is_used() -> None:
    used = {where.rpartition("/")[2] for where in refs(DOCUMENT)}
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert name in used, f"{name} is told of, and nothing has it"


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_address_says_what_it_does_what_it_takes_and_what_it_answers(name: str) -> None:
    operation = OPERATIONS[name]

    assert re.fullmatch(r"[a-z_]{2,20}", name)
    assert 2 < len(operation["summary"]) < 100
    assert len(operation["description"]) > len(operation["summary"])
    assert operation["tags"][0] in {tag["name"] for tag in DOCUMENT["tags"]}
    for parameter in operation.get("parameters", ()):
        assert parameter["description"], parameter
        assert "title" not in parameter["schema"]
    for status, answer in operation["responses"].items():
        found = resolved(answer)
        assert found["description"]
        if int(status) >= 400:
            assert list(found["content"]) == ["application/problem+json"]
            assert all(CODES[code].status == int(status) for code in found["x-codes"])


@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if "requestBody" in one])
def test_every_body_has_an_example_that_would_be_taken_and_words_for_each_field(name: str) -> None:
    [content] = OPERATIONS[name]["requestBody"]["content"].values()
    schema = DOCUMENT["components"]["schemas"][next(refs(content)).rpartition("/")[2]]

    for example in schema["examples"]:
        check(example, content["schema"])
    for field, about in schema["properties"].items():
        assert about.get("description"), field
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_answer_has_an_example_that_is_what_its_schema_says(name: str) -> None:
    for status, answer in OPERATIONS[name]["responses"].items():
        for media, content in resolved(answer).get("content", {}).items():
            if media == "application/json":
                assert "example" in content, f"{name} {status}"
                check(content["example"], content["schema"])
            elif media == "text/event-stream" and "example" in content:
                for line in content["example"].splitlines():
                    if line.startswith("data: "):
                        check(json.loads(line.removeprefix("data: ")), content["x-event-schema"])


def test_the_example_of_a_problem_is_one() -> None:
    [example] = DOCUMENT["components"]["schemas"]["Problem"]["examples"]

    check(example, {"$ref": "#/components/schemas/Problem"})
    assert example["code"] in CODES


def test_the_role_of_an_address_is_the_one_that_its_dependency_checks(tmp_path: Path) -> None:
    """Whoever is one step lower on the ladder is refused, whoever has the role is not; at every address."""
    with (
        serving(f"sqlite:///{tmp_path}/runs.db", standing) as running,
        _client(running) as operator,
        httpx2.Client(timeout=30) as anybody,  # one for all: to make one takes longer than to ask
    ):
        tokens: dict[Role, str] = {}
        for role in LADDER:
            made = operator.post("/tokens", json={"name": f"a-{role}", "role": role})
            tokens[role] = made.json()["token"]
        for path, methods in DOCUMENT["paths"].items():
            for method, operation in methods.items():
                role: Role | None = operation["x-role"]
                if role is None:
                    assert operation["security"] == []
                    continue
                names = dict.fromkeys(("session_id", "name", "digest", "ask", "webhook", "switch"), "none")
                where = running.url + path.format(message="msg_1", **names)
                for index, one in enumerate(LADDER):
                    headers = {"Authorization": f"Bearer {tokens[one]}"}
                    given: dict[str, Any] = {} if method == "get" else {"json": {}}
                    answer = anybody.request(method.upper(), where, headers=headers, **given)
                    code = (
                        answer.json().get("code")
                        if answer.headers["content-type"].endswith(("/json", "+json"))
                        else None
                    )
                    assert (code == "forbidden") is (index < LADDER.index(role)), (path, one, code)


def _client(running: Running) -> httpx2.Client:
    return httpx2.Client(base_url=running.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)


def test_a_server_gives_it_to_everybody_as_it_lies_in_the_docs() -> None:
    kept = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text(encoding="utf-8"))

    with serving("memory://", standing) as running:
        response = httpx2.get(f"{running.api}/openapi.json", timeout=30)

    assert response.status_code == 200
    assert response.json() == kept
    assert "mct_a" not in response.text


def test_events_and_frames_of_a_real_session_are_what_the_document_says() -> None:
    with serving("memory://", standing) as running, _client(running) as client:
        people = Standing(client)
        for name in people.make_all().values():
            events = client.get(f"/sessions/{name}/events").json()["events"]
            assert events
            for event in events:
                check(event, {"$ref": "#/components/schemas/Event"})
            with client.stream("GET", f"/sessions/{name}/events", headers={"Accept": "text/event-stream"}) as stream:
                lines = stream.iter_lines()
                for event in events:
                    assert next(lines) == f"id: {event['position']}"
                    assert next(lines) == f"event: {event['type']}"
                    assert json.loads(next(lines).removeprefix("data: ")) == event
                    assert next(lines) == ""
        seen = {frame["type"] for goal in ("waiting", "completed", "failed") for frame in _chat(client, goal)}
        assert seen == {"tool", "interrupt", "done", "error"}


def _chat(client: httpx2.Client, goal: str) -> Iterator[dict[str, Any]]:
    with client.stream("POST", "/chat", json={"agent": "standing", "message": goal}) as stream:
        assert stream.headers["x-session-id"]
        for line in stream.iter_lines():
            if line.startswith("data: "):
                frame = json.loads(line.removeprefix("data: "))
                check(frame, {"$ref": "#/components/schemas/Frame"})
                yield frame
                if frame["type"] in ("interrupt", "done", "error"):
                    return


# ---- codes


def _given_codes() -> Iterator[str]:
    """The codes that the server, and the core that it asks, may answer with: where they are written."""
    source = ROOT / "src" / "midcourse"
    for path in (
        source / "core" / "decisions.py",
        source / "runtime" / "control.py",
        *(source / "server").rglob("*.py"),
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            places = {"refused": node.args[2:3], "_refusal": node.args[:1], "problem_response": node.args[1:2]}
            given = [*places.get(node.func.id, ()), *(one.value for one in node.keywords if one.arg == "code")]
            for one in given:
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.value


def test_every_code_that_a_server_can_give_is_told_of() -> None:
    frames = {"message_withdrawn"}  # not an answer, but the last frame of a stream
    errors = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")

    for code in {*_given_codes(), *(kind.code for kind, _ in BY_CLASS)} - frames - {"refused", "store_error"}:
        assert code in CODES, code
        assert f"| `{code}` | {CODES[code].status} |" in errors


@pytest.mark.parametrize("kind", cmd.SENT, ids=cmd.verb)
def test_whatever_address_sends_a_command_tells_of_every_refusal_of_it(kind: type[cmd.AnyCommand]) -> None:
    chats = {cmd.Message: "chat", cmd.Answer: "resume_chat"}
    sent = kind.sent
    assert sent is not None
    for name in (sent.operation, *([chats[kind]] if kind in chats else [])):
        answers = map(resolved, OPERATIONS[name]["responses"].values())
        told = {code for answer in answers for code in answer.get("x-codes", ())}
        assert set(cmd.refusals(kind)) - told == (TOO_LATE if name == "resume_chat" else set())


def test_every_code_is_a_code_of_some_address() -> None:
    told = {
        code
        for one in OPERATIONS.values()
        for answer in one["responses"].values()
        for code in resolved(answer).get("x-codes", ())
    }

    # Of no address in particular.
    assert CODES.keys() - told == {"not_found", "method_not_allowed", "not_started"}


@pytest.mark.parametrize("code", CODES)
def test_what_a_code_means_is_a_sentence_and_says_what_to_do(code: str) -> None:
    assert re.fullmatch(r"[A-Z].*\.", CODES[code].means)
    assert len(CODES[code].means.split()) >= 6


def test_an_unknown_error_of_a_store_says_that_the_store_is_to_blame() -> None:
    assert status_of(midcourse.StoreError("The store is tired.", code="store_tired")) == 503
    assert status_of(midcourse.MidcourseError("Something.", code="something_new")) == 500
