"""Which errors pass, how long is waited, and what the fold makes of a call that is tried again."""

import socket
import urllib.error
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import requests
import urllib3.exceptions
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.effects import Effect
from midcourse.core.interrupted_calls import next_act
from midcourse.core.receipt import ledger_of
from midcourse.core.retries import MODEL_RETRY, Retry, is_transient, retry_after, was_answered
from midcourse.errors import ImpossibleEvent, InvalidInput, StoreError
from tests.unit.core.stories import ID, WRITE, Story, begun

# ---- which errors


def carrying(**fields: Any) -> Exception:
    """An error as some client raises it."""
    error = Exception("refused")
    for name, value in fields.items():
        setattr(error, name, value)
    return error


def from_cause(cause: Exception, outer: Exception | None = None) -> Exception:
    """A wrapper's error."""
    made = outer or RuntimeError("the request failed")
    made.__cause__ = cause
    return made


def odd(kind: str, name: str) -> Exception:
    """An error of a library that is not installed here."""
    return type(name, (Exception,), {"__module__": kind})()


REQUEST = httpx.Request("POST", "http://provider.test")
PASSES = {
    "a reset": ConnectionResetError(),
    "a time-out": TimeoutError(),
    "an unknown host": socket.gaierror(-3, "again"),
    "no route": OSError(113, "No route to host"),
    "httpx: connect": httpx.ConnectError("no"),
    "httpx: read time-out": httpx.ReadTimeout("no"),
    "httpx: broken off": httpx.RemoteProtocolError("peer closed"),
    "httpx: status": httpx.HTTPStatusError("no", request=REQUEST, response=httpx.Response(503)),
    "httpx2": odd("httpx2._exceptions", "NetworkError"),
    "requests: connection": requests.ConnectionError(),
    "requests: time-out": requests.ReadTimeout(),
    "urllib: status": urllib.error.HTTPError("http://x", 502, "no", {}, None),  # pyright: ignore[reportArgumentType]
    "urllib: reason": urllib.error.URLError(ConnectionRefusedError()),
    "urllib3": urllib3.exceptions.ProtocolError("broken"),
    "aiohttp: status": carrying(status=429),
    "aiohttp: connection": odd("aiohttp.client_exceptions", "ClientConnectionError"),
    "botocore": carrying(response={"ResponseMetadata": {"HTTPStatusCode": 503}}),
    "google": carrying(code=429),
    "an answer told to be tried again": carrying(
        status_code=400, response=SimpleNamespace(headers={"x-should-retry": "true"})
    ),
    "a stream that tells of it": carrying(status_code=200, body={"error": {"type": "overloaded_error"}}),
    "raised from one": from_cause(ConnectionResetError()),
    "one of a group": ExceptionGroup("all failed", [ValueError(), carrying(status_code=503)]),
}
STAYS = {
    "a mistake": ValueError(),
    "no such file": FileNotFoundError(2, "No such file"),
    "a bad request": carrying(status_code=400),
    "a bad request, raised from a reset": from_cause(ConnectionResetError(), carrying(status_code=400)),
    "httpx: no such protocol": httpx.UnsupportedProtocol("gopher"),
    "a quota that is used up": carrying(status_code=429, body={"code": "insufficient_quota"}),
    "an answer told not to be tried again": carrying(
        status_code=503, response=SimpleNamespace(headers={"x-should-retry": "false"})
    ),
    "a status that is none": carrying(code=3),
    "our own": StoreError("the disk is gone"),
    "raised from our own": from_cause(StoreError("the disk is gone")),
}


@pytest.mark.parametrize("error", PASSES.values(), ids=PASSES.keys())
def test_what_may_pass_is_transient(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize("error", STAYS.values(), ids=STAYS.keys())
def test_what_stays_is_not_transient(error: Exception) -> None:
    assert not is_transient(error)


def test_errors_that_are_their_own_cause_end() -> None:
    error = RuntimeError()
    error.__cause__ = error
    assert not is_transient(error)


def test_a_status_is_an_answer_and_a_lost_connection_is_none() -> None:
    assert was_answered(carrying(status_code=503))
    assert was_answered(ValueError())
    assert not was_answered(ConnectionResetError())
    assert not was_answered(from_cause(TimeoutError()))


# ---- how long


def test_a_retry_after_is_read_in_seconds_milliseconds_and_as_a_date() -> None:
    def told(**headers: str) -> float | None:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return retry_after(carrying(response=SimpleNamespace(headers=given)), now=1_000_000.0)

    later = format_datetime(datetime.fromtimestamp(1_000_030, UTC), usegmt=True)
    assert told(retry_after="7") == 7.0
    assert told(retry_after_ms="1500", retry_after="2") == 1.5
    assert told(retry_after=later) == 30.0
    assert told(retry_after="-4") == 0.0
    assert [told(retry_after=words) for words in ("soon", "nan", "inf", "")] == [None] * 4
    assert told() is None


def test_waits_grow_up_to_the_longest_and_chance_shortens_them() -> None:
    retry = Retry(attempts=6, first_wait=1.0, factor=3.0, max_wait=10.0, jitter=0.5)
    assert [retry.wait(failures, 0.0) for failures in range(1, 7)] == [1.0, 3.0, 9.0, 10.0, 10.0, None]
    assert [retry.wait(failures, 1.0) for failures in (1, 2, 4)] == [0.5, 1.5, 5.0]
    assert Retry(attempts=100, factor=1e300).wait(99, 0.0) == 60.0


def test_a_retry_after_is_the_least_and_one_beyond_the_longest_is_none() -> None:
    retry = Retry(first_wait=4.0, max_wait=10.0, jitter=0.0)
    assert [retry.wait(1, 0.0, told) for told in (1.0, 7.0, 10.0, 10.5)] == [4.0, 7.0, 10.0, None]


def test_a_model_request_is_tried_for_about_eight_seconds() -> None:
    waits = [MODEL_RETRY.wait(failures, 0.0) or 0.0 for failures in range(1, 6)]
    assert (len([one for one in waits if one]), sum(waits)) == (4, 7.5)


@pytest.mark.parametrize(
    "given",
    [
        {"attempts": 0},
        {"attempts": 1.5},
        {"attempts": 101},
        {"first_wait": -1.0},
        {"factor": 0.5},
        {"max_wait": float("inf")},
        {"jitter": 1.5},
        {"jitter": float("nan")},
    ],
    ids=str,
)
def test_a_retry_that_makes_no_sense_is_refused_with_its_field(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        Retry(**given)
    assert refused.value.fields["field"] == next(iter(given))


# ---- what the fold makes of it


def raised(attempt: int = 1, *, unanswered: bool = False) -> ev.StepRetrying:
    """A write raised, and is tried again."""
    return ev.StepRetrying(
        step=WRITE,
        attempt=attempt,
        kind="ConnectionError",
        detail="gone",
        wait=2.0,
        again_at=102.0,
        attempts=5,
        unanswered=unanswered,
        cost=0.5,
    )


def writing(effect: Effect) -> Story:
    """A session with a write under way."""
    return Story().happen(ev.SessionStarted(), replace(begun(WRITE, effect=effect), settle=5.0))


def test_an_irreversible_call_cannot_be_tried_again_whatever_a_journal_says() -> None:
    with pytest.raises(ImpossibleEvent, match="not done again by itself"):
        writing("irreversible").happen(raised())


def test_nothing_of_a_session_that_is_being_cancelled_is_tried_again() -> None:
    with pytest.raises(ImpossibleEvent):
        writing("idempotent").want(cmd.Cancel(id=ID)).happen(raised())


def test_what_does_not_run_any_more_is_not_tried_again() -> None:
    story = writing("idempotent").happen(ev.StepAborted(step=WRITE, attempt=1))
    with pytest.raises(ImpossibleEvent, match="does not run any more"):
        story.happen(raised())


def test_a_reversible_call_is_undone_before_it_begins_again() -> None:
    story = writing("reversible").happen(raised())
    call = story.session.calls[WRITE]
    assert (call.end, call.raised, call.again_at, story.session.cost) == ("failed", "ConnectionError", 102.0, 0.5)
    assert next_act(story.session, call, call.ended_at).do == "undo"
    with pytest.raises(ImpossibleEvent, match="was not undone"):
        story.happen(begun(WRITE, 2, effect="reversible"))


def test_what_was_not_answered_settles_first_and_what_was_does_not() -> None:
    for unanswered, act in ((True, "wait"), (False, "undo")):
        story = writing("reversible").happen(raised(unanswered=unanswered))
        call = story.session.calls[WRITE]
        assert next_act(story.session, call, call.ended_at).do == act


def test_while_it_is_paused_nothing_is_done_about_it() -> None:
    story = writing("reversible").happen(raised()).want(cmd.Pause(id=ID))
    assert next_act(story.session, story.session.calls[WRITE], 1e9).do == "leave"


def test_the_failures_of_a_step_count_until_a_redirect_or_a_resume_of_the_session() -> None:
    story = writing("idempotent").happen(raised(), begun(WRITE, 2, effect="idempotent"), raised(2))
    assert (story.log.steps[WRITE].failures, story.log.steps[WRITE].again_at) == (2, 102.0)
    story.want(cmd.Redirect(id=ID, text="in French"))
    assert story.log.steps[WRITE].failures == 0


def test_the_receipt_says_what_it_raised_and_that_it_may_have_happened() -> None:
    story = writing("idempotent").happen(raised())
    [line] = ledger_of(story.records).receipt.lines
    said = "it raised ConnectionError, and was to be tried again; it may have happened"
    assert (line.outcome, line.detail) == ("unknown", said)
    story.want(cmd.Cancel(id=ID))
    assert story.session.cancel is not None
    assert [one.outcome for one in story.session.cancel.receipt.values()] == ["unknown"]
