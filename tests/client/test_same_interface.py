"""One interface, two implementations: an open store and a server have the same verbs with the same parameters."""

import inspect
import runpy
import sys
from collections.abc import Callable
from typing import Any

import pytest

from midcourse import errors
from midcourse.errors import AccessDenied, InvalidInput, MidcourseError, Refused, SessionNotFound, StoreError
from midcourse.handle import Midcourse, Sessions, Transport
from midcourse.handle.http import HttpTransport, RemoteMidcourse
from midcourse.handle.http.problems import error_of
from midcourse.handle.local import LocalTransport
from midcourse.server.problems import problem_of
from tests.examples.expected import ROOT

HERE_ONLY = {"work", "durability", "prune_audit", "erase_older"}
"""What only a process that drives sessions has."""
SERVED = {"batches", "blob", "contact", "content", "events", "every_event", "for_role", "undone"}
"""What a server reads of its open store beside the verbs of a handle."""
THERE_ONLY = {"url", "login_link"}
"""What only a server has: an address, and logins of browsers."""


def fits(here: Midcourse, there: RemoteMidcourse) -> tuple[Sessions, Sessions]:
    """Never called: the type checker reads it."""
    return here, there


def transports_fit(here: LocalTransport, there: HttpTransport) -> tuple[Transport, Transport]:
    """Never called: the type checker reads it."""
    return here, there


def verbs(kind: type) -> dict[str, Callable[..., Any]]:
    return {name: one for name, one in inspect.getmembers(kind) if not name.startswith("_") and callable(one)}


def parameters(verb: Callable[..., Any]) -> list[tuple[str, object, object]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(verb).parameters.values()]


@pytest.mark.parametrize(
    ("here", "there", "protocol"), [(LocalTransport, HttpTransport, Transport), (Midcourse, RemoteMidcourse, Sessions)]
)
def test_both_have_the_same_verbs_with_the_same_parameters(here: type, there: type, protocol: type) -> None:
    ours, theirs, promised = verbs(here), verbs(there), verbs(protocol)
    assert set(ours) - HERE_ONLY - SERVED == set(theirs) - THERE_ONLY
    assert set(promised) <= set(ours)
    assert set(ours) - HERE_ONLY - SERVED - set(promised) <= {"close"}
    for name in promised:
        assert parameters(ours[name]) == parameters(theirs[name]) == parameters(promised[name]), name


@pytest.mark.parametrize(
    "error",
    [
        Refused("No.", code="already_resumed", allowed=("pause",), session_id="s", status="running"),
        Refused("No.", code="own_ask", session_id="s"),
        Refused("No.", code="session_ended", session_id="s"),
        Refused("No.", code="precondition_failed"),
        InvalidInput("No.", field="text"),
        SessionNotFound("There is no session 's' here. GET /api/v1/sessions lists them.", session_id="s"),
        AccessDenied("No."),
        AccessDenied("No.", code="unauthorized"),
        AccessDenied("No.", code="too_many_streams"),
        StoreError("No.", code="session_exists"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_survives_its_way_through_a_problem_document(error: MidcourseError) -> None:
    sent = problem_of(error)
    come = error_of(sent.status_code, bytes(sent.body), "http://x")
    assert type(come) is type(error)
    assert (str(come), come.code) == (str(error), error.code)
    assert {name: value for name, value in come.fields.items() if value} == {
        name: value for name, value in error.fields.items() if value
    }


CROSSING = (
    *(errors.Refused, errors.InvalidInput, errors.AccessDenied, errors.SessionNotFound, errors.AgentUnavailable),
    *(errors.ToolUnavailable, errors.Unencodable, errors.Damaged, errors.StoreError, errors.StoreUnavailable),
    errors.StoreFull,
)
"""What a verb may raise on an open store, and so over HTTP."""


def test_every_code_in_the_source_comes_back_as_the_class_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    given = runpy.run_path(str(ROOT / "docs" / "generate.py"))["codes_in_source"]()
    seen = 0
    for kind in CROSSING:
        for code in {kind.code, *given[kind.__name__]} - {"refused"}:
            sent = problem_of(kind("No.", code=code))
            assert type(error_of(sent.status_code, bytes(sent.body), "http://x")) is kind, code
            seen += 1
    assert seen > 40
