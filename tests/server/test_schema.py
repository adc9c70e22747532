"""The OpenAPI document against the real server: every request it allows, and many it does not, at every address.

A longer search: ``MIDCOURSE_SCHEMA_EXAMPLES=1000 pytest tests/server/test_schema.py``.
"""

import os
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import (
    allow_header_conformance,
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from midcourse.server import Limits, Server
from tests.server.serving import TOKEN, Running, serving
from tests.server.standing import STATUSES, Standing, standing

EXAMPLES = int(os.environ.get("MIDCOURSE_SCHEMA_EXAMPLES", "10"))
STREAMS = ("chat", "resume_chat", "follow_chat")
"""They answer with streams that go on: test_fuzzing.py sends them what they refuse."""
SHORTEST = 0.05
"""Seconds that a request may want to wait here."""

DOCUMENT = Server(store="memory://", token=TOKEN, agents={}).app.openapi()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = {
    one["operationId"]: (path, method) for path, methods in DOCUMENT["paths"].items() for method, one in methods.items()
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    allow_header_conformance,
]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    limits = Limits(rate=1e6, burst=1_000_000)
    with serving("memory://", standing, limits=limits) as one:
        yield one


@pytest.fixture(scope="module")
def people(running: Running) -> Iterator[Standing]:
    with httpx2.Client(base_url=running.api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
        yield Standing(client)


def _hurried(values: Any) -> None:
    """Nobody waits here: what is waited for is another test's."""
    if isinstance(values, dict):
        wait = values.get("wait")
        if isinstance(wait, int | float) and not isinstance(wait, bool) and wait > SHORTEST:
            values["wait"] = SHORTEST if wait <= 60 else wait


def _modes() -> Iterator[tuple[str, schemathesis.GenerationMode]]:
    for name, (path, method) in OPERATIONS.items():
        takes_something = DOCUMENT["paths"][path][method].keys() & {"parameters", "requestBody"}
        if name not in STREAMS:
            yield name, schemathesis.GenerationMode.POSITIVE
            if takes_something:
                yield name, schemathesis.GenerationMode.NEGATIVE


@pytest.mark.parametrize(("name", "mode"), list(_modes()), ids=lambda one: getattr(one, "value", one))
def test_every_answer_is_one_that_the_document_tells_of(
    running: Running, people: Standing, name: str, mode: schemathesis.GenerationMode
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
        }
    )
    http = requests.Session()
    http.headers["Authorization"] = f"Bearer {TOKEN}"

    @seed(1)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(mode), found=known, real=st.integers(0, 4))
    def ask(case: schemathesis.Case, found: dict[str, str], real: int) -> None:
        if real:
            for part in case.path_parameters or {}:
                case.path_parameters[part] = found[part]
        _hurried(case.body)
        _hurried(case.query)
        case.call_and_validate(base_url=running.url, session=http, checks=CHECKS)

    ask()
