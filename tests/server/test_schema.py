"""The OpenAPI document against the real server: every request it allows, and many it does not, at every address.

A longer search: ``MIDCOURSE_SCHEMA_EXAMPLES=1000 MIDCOURSE_SCHEMA_SEED=2 pytest tests/server/test_schema.py``.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks

from midcourse.server import CallerLimits
from midcourse.server.roles import LADDER
from tests.server.documented import document
from tests.server.live_server import TOKEN, Running, serving
from tests.server.sessions_by_status import Standing, standing

pytestmark = pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies")
"""The server runs in a thread of this process. What its libraries draw at random is no fault of a strategy."""
EXAMPLES = int(os.environ.get("MIDCOURSE_SCHEMA_EXAMPLES", "2"))
SEED = int(os.environ.get("MIDCOURSE_SCHEMA_SEED", "1"))
STREAMS = ("chat", "resume_chat", "follow_chat")
"""They answer with streams that go on: test_fuzzing.py sends them what they refuse."""
LONG = ("backtest_policy", "calibrate_policy")
"""They compute, each time anew. Logging out is left out, too: the browser's requests after it would all be refused."""
SHORTEST = 0.05
"""Seconds that a request may want to wait here."""

DOCUMENT = document()
SCHEMA: Any = schemathesis.openapi.from_dict(deepcopy(DOCUMENT))  # it adds links of its own
OPERATIONS = {
    one["operationId"]: (path, method) for path, methods in DOCUMENT["paths"].items() for method, one in methods.items()
}
CHECKS: list[Any] = [
    getattr(checks, name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "allow_header_conformance",
        "unsupported_method",
        "missing_required_header",
    )
]
CONFIG = """
[checks]
ignored_auth.enabled = IGNORED
positive_data_acceptance.enabled = false  # what names something that is not there, or contradicts another, is refused
max_response_time = 200  # a machine may be slow

# The other methods are those of a policy, a session or a kill switch of that name: they are taken there, and the
# document tells of them at /policies/{name} and so on.
[[operations]]
include-path = ["/api/v1/policies/check", "/api/v1/sessions/bulk", "/api/v1/kill-switches/preview"]
checks.allow_header_conformance.enabled = false
"""
USUAL = (None, "operate")
CALLERS = [
    pytest.param(tenant, role, marks=[pytest.mark.thorough] if (tenant, role) != USUAL else [])
    for tenant in (None, "acme")
    for role in (*LADDER, "session", "browser")
    if (tenant, role) != ("acme", "session")
]
"""Whose token, or browser session, is used: whose answers are not all refusals; in ``make thorough`` everybody's."""


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    limits = CallerLimits(rate=1e6, burst=1_000_000)
    with serving("memory://", standing, limits=limits) as one:
        yield one


@pytest.fixture(scope="module")
def people(running: Running) -> Iterator[Standing]:
    with httpx2.Client(base_url=running.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
        yield Standing(client)


@pytest.fixture(autouse=True)
def lifted(people: Standing) -> Iterator[None]:
    """A kill switch that a case has thrown stands no longer than it: it would halt the sessions of those after it."""
    yield
    for one in people.client.get("/kill-switches", params={"limit": 200}).json()["switches"]:
        if one["lifted_at"] is None:
            people.client.post(f"/kill-switches/{one['id']}/lift", json={"why": "tried out"}).raise_for_status()


@pytest.fixture(scope="module")
def switch(people: Standing) -> str:
    """A kill switch that was lifted."""
    thrown = {"scope": {"kind": "agent", "value": "nobody"}, "reason": "tried out"}
    return people.client.post("/kill-switches", json=thrown).json()["id"]


def _hurry(case: Any) -> None:
    """Nobody waits here: what is waited for is another test's."""
    for values in (case.body, case.query):
        if isinstance(values, dict) and isinstance(wait := cast("dict[str, Any]", values).get("wait"), int | float):
            cast("dict[str, Any]", values)["wait"] = min(wait, SHORTEST) if wait <= 60 else wait


def _bounded(examples: int, **more: Any) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        **more,
    )


def _modes() -> Iterator[tuple[str, GenerationMode]]:
    for name, (path, method) in OPERATIONS.items():
        takes_something = DOCUMENT["paths"][path][method].keys() & {"parameters", "requestBody"}
        if name not in STREAMS:
            yield name, GenerationMode.POSITIVE
            if takes_something:
                yield name, GenerationMode.NEGATIVE


@pytest.mark.parametrize(("name", "mode"), list(_modes()), ids=lambda one: getattr(one, "value", one))
def test_every_answer_is_one_that_the_document_tells_of(
    running: Running, people: Standing, switch: str, name: str, mode: GenerationMode
) -> None:
    path, method = OPERATIONS[name]
    operation = SCHEMA[path][method]
    sessions = list(people.kept().values())
    known = st.fixed_dictionaries(
        {
            "session_id": st.sampled_from(sessions),
            "message": st.sampled_from(["msg_1", "msg_2", "queued_1"]),
            "name": st.sampled_from(["nightly-report", "local"]),
            "digest": st.sampled_from(["0" * 32]),
            "ask": st.sampled_from(["ask_1", "ask_2"]),
            "webhook": st.sampled_from(["wh_nobody"]),
            "switch": st.sampled_from([switch, "ks_nobody"]),
        }
    )
    http = requests.Session()
    http.headers["Authorization"] = f"Bearer {TOKEN}"

    @seed(SEED)
    @_bounded(EXAMPLES)
    @given(case=operation.as_strategy(mode), found=known, real=st.integers(0, 4))
    def ask(case: Any, found: dict[str, str], real: int) -> None:
        if real:
            for part in cast("dict[str, str]", case.path_parameters or {}):
                case.path_parameters[part] = found[part]
        _hurry(case)
        case.call_and_validate(base_url=running.url, session=http, checks=CHECKS)

    with http:
        ask()


def test_what_an_answer_names_can_be_used_at_the_addresses_it_links_to(running: Running) -> None:
    """A session that was created is paused, redirected, its message edited; a token that was made is revoked."""
    linked = SCHEMA.exclude(operation_id=list(STREAMS))

    class Workflow(linked.as_state_machine()):
        def before_call(self, case: Any) -> None:
            _hurry(case)

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"base_url": running.url, "headers": {"Authorization": f"Bearer {TOKEN}"}}

        def validate_response(self, response: Any, case: Any, **more: Any) -> None:
            case.validate_response(response, checks=CHECKS)

    seed(SEED)(Workflow).run(settings=_bounded(max(3, EXAMPLES // 3), stateful_step_count=8))


def _browser(running: Running, token: str) -> dict[str, str]:
    """What the page of a browser that has logged in with a token sends."""
    login = httpx2.post(f"{running.api}/login", json={"credential": token})
    cookie = login.headers["Set-Cookie"].partition(";")[0]
    return {"Cookie": cookie, "Midcourse-Page": login.json()["page_key"], "Origin": running.url}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("tenant", "role"), CALLERS, ids=str)
def test_for_nobody_is_there_a_method_header_or_body_that_is_answered_otherwise_than_the_document_says(
    running: Running, people: Standing, tmp_path: Path, tenant: str | None, role: str
) -> None:
    """Every boundary of every parameter, methods that are none, headers and tokens left out: for each kind of token."""
    rung = "operate" if role in ("session", "browser") else role
    body: dict[str, Any] = {"name": f"schema-{tenant}-{role}", "role": rung}
    if role == "session":
        body["session"] = people.kept()["paused"]
    elif tenant is not None:
        body["tenant"] = tenant
    token = people.client.post("/tokens", json=body).json()["token"]
    # It puts another credential beside the cookie and its page key, and a request with a valid one is let in.
    config = CONFIG.replace("IGNORED", "false" if role == "browser" else "true")
    (tmp_path / "schemathesis.toml").write_text(config, encoding="utf-8")
    left_out = [part for name in (*STREAMS, *LONG, "log_out") for part in ("--exclude-operation-id", name)]
    program = Path(sys.executable).with_name("schemathesis")
    command = [str(program), "run", f"{running.api}/openapi.json"]
    for name, value in (
        _browser(running, token) if role == "browser" else {"Authorization": f"Bearer {token}"}
    ).items():
        command += ["--header", f"{name}: {value}"]
    command += ["--phases", "examples,coverage", "--mode", "all", "--seed", str(SEED), "--no-color", *left_out]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280)
    assert told.returncode == 0, told.stdout[-8000:] + told.stderr[-2000:]
