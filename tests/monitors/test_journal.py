"""A journal in the words of monitors: every event it may hold, and the work and memory that reading it takes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.core import events as ev
from midcourse.core.ids import Position, StepId
from midcourse.core.policy_decision import Decision
from midcourse.policy.profiles import STANDARD
from midcourse.policy.run_activity import (
    AnyAct,
    Begun,
    Called,
    Ended,
    Planned,
    Reported,
    Rested,
    Said,
    SteppedIn,
    WentOn,
)
from midcourse.policy.signals.journal_reader import JournalReader, resources_in
from midcourse.policy.signals.run_monitor import RunMonitor
from tests.properties.histories import any_event
from tests.unit.core.stories import FETCH, begun, finished, value


def read(*events: Any, every: float = 1.0) -> list[AnyAct]:
    """The acts of a journal whose events are a second apart."""
    reader = JournalReader()
    return [
        act
        for number, event in enumerate(events)
        for act in reader.read(ev.Recorded(Position(number + 1), number * every, event))
    ]


CREATED = ev.SessionCreated(
    agent="writer", agent_version="1", mode="replay", origin="w:w", resumable=True, goal="write the report"
)


def test_a_session_begins_at_rest_and_works_from_its_start_on() -> None:
    assert read(CREATED, ev.SessionStarted()) == [
        Begun(at=0.0, goal="write the report"),
        Rested(at=0.0),
        WentOn(at=1.0),
    ]


def test_a_call_is_told_when_it_ends_with_how_long_it_took() -> None:
    (act,) = [one for one in read(CREATED, ev.SessionStarted(), begun(), finished(cost=0.5)) if isinstance(one, Called)]
    assert (act.at, act.kind, act.name, act.digest, act.seconds) == (3.0, "tool", "fetch", "d", 1.0)
    assert (act.cost, act.error, act.text) == (0.5, "", '"ok"')


def test_a_model_without_a_price_has_none_and_a_tool_costs_nothing() -> None:
    model = begun(kind="model")
    (called,) = [one for one in read(CREATED, model, finished()) if isinstance(one, Called)]
    assert (called.kind, called.cost) == ("model", None)
    (tool,) = [one for one in read(CREATED, begun(), finished()) if isinstance(one, Called)]
    assert (tool.kind, tool.cost) == ("tool", 0.0)


def test_a_call_that_failed_is_told_with_its_kind_of_error() -> None:
    failed = ev.StepFailed(step=FETCH, attempt=1, kind="ValueError", detail="no number")
    (act,) = [one for one in read(CREATED, begun(), failed) if isinstance(one, Called)]
    assert (act.error, act.detail) == ("ValueError", "no number")


def test_a_call_that_was_cut_or_aborted_is_none() -> None:
    for end in (ev.StepAborted(step=FETCH, attempt=1), ev.StepCut(step=FETCH, attempt=1, length=3)):
        assert [one for one in read(CREATED, begun(), end, finished()) if isinstance(one, Called)] == []


def test_what_was_cut_is_paid_for_with_the_next_call() -> None:
    model, again = begun(kind="model"), begun(kind="model", attempt=2)
    cut = ev.StepCut(step=FETCH, attempt=1, length=3, cost=0.25)
    (act,) = [one for one in read(CREATED, model, cut, again, finished(attempt=2, cost=0.5)) if isinstance(one, Called)]
    assert act.cost == 0.75


def test_paused_waiting_parked_and_between_two_owners_it_rests() -> None:
    acts = read(
        CREATED,
        ev.SessionStarted(),
        ev.SessionWaiting(),
        ev.AskAnswered(ask="ask_1", step=StepId("1/ask#0"), value=value('"yes"'), by="ada"),  # pyright: ignore[reportArgumentType]
        ev.PauseRequested(pause="pause_1", by="ada"),  # pyright: ignore[reportArgumentType]
        ev.SessionPaused(),
        ev.SessionResumed(by="ada"),
        ev.SessionTaken(epoch=2, worker="w"),  # pyright: ignore[reportArgumentType]
        every=10.0,
    )
    assert acts[3:] == [
        Rested(at=20.0),
        WentOn(at=30.0),
        Rested(at=50.0),
        WentOn(at=60.0),
        # Nobody knows when the owner before died: its last word is what is known.
        Rested(at=60.0),
        WentOn(at=70.0),
    ]


def test_what_people_say_is_told_and_what_a_policy_says_is_not() -> None:
    acts = read(
        CREATED,
        ev.SessionRedirected(text="in French", level="goal", by="ada"),
        ev.SessionRedirected(text="explain your plan", level="clarify", by="policy:standard@1"),
        ev.SessionRedirected(text="an answer", level="clarify", by="agent:writer"),
        ev.SessionRedirected(text="it broke", level="event", by="ci"),
    )
    assert acts[2:] == [Said(at=1.0, text="in French", by="ada", is_goal=True), Said(at=4.0, text="it broke", by="ci")]


def test_reports_plans_and_ends_are_told() -> None:
    acts = read(
        CREATED,
        ev.ReportMade(progress=0.5, hypothesis="cache", artifact="plan.md", message="", documentation="the plan"),
        ev.PlanChanged(items=(ev.PlanItem("a", "done"), ev.PlanItem("b", "queued"))),
        ev.SessionCompleted(result=value("1")),
        ev.TurnOpened(text="and now in French", level="goal", by="ada"),
    )
    assert acts[2:] == [
        Reported(at=1.0, progress=0.5, hypothesis="cache", artifact="plan.md", documentation="the plan"),
        Planned(at=2.0, items=2, done=1, titles=("a", "b")),
        Ended(at=3.0, outcome="completed"),
        Begun(at=4.0, goal="and now in French"),
    ]


def test_what_a_policy_decided_is_told_with_its_question() -> None:
    decision = Decision(level="ask", wanted="ask", policy="standard@1", question="unknown_error", words="What now?")
    made = ev.InterventionMade(intervention="int_1", by="agent:writer", decision=decision)  # pyright: ignore[reportArgumentType]
    assert read(CREATED, made)[2:] == [SteppedIn(at=1.0, level="ask", question="unknown_error")]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ('{"path": "src/a.py"}', ("src/a.py",)),
        ('{"file_paths": ["a", "b"]}', ("a", "b")),
        ('{"table": "orders", "limit": 3}', ("orders",)),
        ('{"query": "https://example.org/x"}', ("https://example.org/x",)),
        ('{"text": "some words"}', ()),
        ('["src/a.py", 3]', ("src/a.py",)),
        ("src/a.py", ("src/a.py",)),
        ("plain words", ()),
        ('{"path": "cut sho', ()),
        ('{"path": ""}', ()),
        ("", ()),
        ("[" * 2000, ()),
    ],
)
def test_resources_are_what_arguments_name(arguments: str, found: tuple[str, ...]) -> None:
    assert resources_in(arguments) == found


def test_a_call_names_twenty_resources_at_most_and_none_that_is_endless() -> None:
    many = '{"paths": [' + ", ".join(f'"a/{number}"' for number in range(100)) + "]}"
    assert len(resources_in(many)) == 20
    assert resources_in('{"path": "' + "a" * 301 + '"}') == ()


@given(st.lists(st.tuples(any_event, st.floats(-1e9, 1e12)), max_size=40))
def test_no_journal_crashes_a_reader_or_what_watches_it(records: list[tuple[ev.AnyEvent, float]]) -> None:
    reader, oversight = JournalReader(), RunMonitor(STANDARD)
    for number, (event, at) in enumerate(records):
        for act in reader.read(ev.Recorded(Position(number + 1), at, event)):
            oversight.see(act)
