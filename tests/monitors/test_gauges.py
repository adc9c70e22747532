"""Gauges: measured from the journal as a policy measures, whoever looks and when."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from midcourse.core import events as ev
from midcourse.core.ids import Position, StepId
from midcourse.core.signals import Signal
from midcourse.policy.profiles import STANDARD
from midcourse.policy.signals.journal_reader import JournalReader
from midcourse.policy.signals.run_monitor import RunMonitor
from midcourse.policy.signals.session_signals import Gauges
from tests.properties.histories import any_event
from tests.unit.core.stories import value

CREATED = ev.SessionCreated(
    agent="writer", agent_version="1", mode="replay", origin="w:w", resumable=True, goal="write the report"
)


def journal(*events: Any, every: float = 1.0) -> list[ev.Recorded]:
    """Events that are so many seconds apart."""
    return [ev.Recorded(Position(number + 1), number * every, event) for number, event in enumerate(events)]


def reads(path: str, *, fails: bool = False, cost: float = 0.0) -> tuple[ev.StepBegun, Any]:
    """A call that touches something."""
    step = StepId(f"1/read {path}#0")
    begun = ev.StepBegun(step=step, name="read", kind="tool", attempt=1, digest=path, arguments=f'{{"path":"{path}"}}')
    if fails:
        return begun, ev.StepFailed(step=step, attempt=1, kind="TimeoutError", detail="no answer")
    return begun, ev.StepFinished(step=step, attempt=1, value=value('"ok"'), cost=cost)


def gauges(records: list[ev.Recorded], *, is_watched: bool = True, **given: Any) -> Gauges:
    """What has read them."""
    made = Gauges(RunMonitor(STANDARD, asks=False, **given), is_watched=is_watched)
    for record in records:
        made.read(record)
    return made


def named(shown: tuple[Signal, ...], name: str) -> Signal:
    """One of them."""
    (found,) = [one for one in shown if one.name == name]
    return found


@given(st.lists(any_event, max_size=40))
@settings(max_examples=40)
def test_the_numbers_are_those_that_the_policy_decides_by(events: list[Any]) -> None:
    records = journal(CREATED, *events)
    oversight, reader = RunMonitor(STANDARD, asks=False), JournalReader()
    for record in records:
        for act in reader.read(record):
            oversight.see(act)
    shown = gauges(records).shown()
    budgets = {"budget", "calls_left"}  # a raised one is told to the session's own watch, not by an act
    assert {one.name: one.value for one in shown if one.value is not None and one.name not in budgets} == {
        name: value for name, value in oversight.values.items() if name not in budgets
    }


def test_a_signal_is_past_its_threshold_since_the_event_that_brought_it_there() -> None:
    calls = [event for number in range(25) for event in reads(f"src/{number}.py")]
    found = named(gauges(journal(CREATED, ev.SessionStarted(), *calls)).shown(), "resources")
    assert (found.value, found.warn, found.intervene, found.stop) == (25, 20, 50, 100)
    # The twentieth call ends with the 42nd event, at second 41.
    assert (found.past, found.since) == ("warn", 41.0)
    assert found.history[0][1] == 1
    assert found.history[-1][1] == 25


def test_what_has_gone_back_behind_its_threshold_is_not_past_it_any_more() -> None:
    failing = [event for number in range(3) for event in reads(f"a/{number}.py", fails=True)]
    going = [event for number in range(20) for event in reads(f"b/{number}.py")]
    begun = [CREATED, ev.SessionStarted(), *failing, *reads("c/1.py"), *reads("c/2.py")]
    assert named(gauges(journal(*begun)).shown(), "errors").past == "intervene"
    after = named(gauges(journal(*begun, *going)).shown(), "errors")
    assert (after.past, after.since, after.value) == (None, None, 0.0)
    assert max(value for _, value in after.history) == 0.6


def test_time_alone_brings_a_turn_past_its_threshold_at_the_right_moment() -> None:
    made = gauges(journal(CREATED, ev.SessionStarted()))
    assert named(made.shown(600.0), "duration").past is None
    later = named(made.shown(700.0), "duration")
    # It began to work at second 1: ten minutes later it is warned of.
    assert (later.value, later.past, later.since) == (699.0, "warn", 601.0)
    assert later.history[-1] == (700.0, 699.0)
    assert named(made.shown(600.0), "duration").past is None  # to look changes nothing


def test_a_session_at_rest_grows_no_older() -> None:
    made = gauges(journal(CREATED, ev.SessionStarted(), ev.SessionPaused()))
    assert named(made.shown(5000.0), "duration").value == 1.0


def test_what_is_not_measured_says_why() -> None:
    shown = gauges(journal(CREATED, ev.SessionStarted(), *reads("a.py"))).shown()
    assert named(shown, "scope_drift").unseen == "no encoder measures it"
    assert named(shown, "hypothesis").unseen == "the agent has stated none"
    assert all(one.unseen for one in shown if one.value is None)
    assert all(one.value is None or one.unseen is None for one in shown)


def test_a_raised_budget_is_what_is_spent_of_from_then_on() -> None:
    records = journal(CREATED, ev.SessionStarted(), *reads("a.py", cost=4.0))
    made = gauges(records, budget=5.0)
    assert named(made.shown(), "budget").value == 0.8
    raised = ev.BudgetRaised(budget=20.0, by="ada")
    for record in journal(*(one.event for one in records), raised, *reads("b.py", cost=1.0))[len(records) :]:
        made.read(record)
    assert named(made.shown(), "budget").value == 0.25


def test_a_session_that_nobody_watches_has_values_and_no_thresholds() -> None:
    made = gauges(journal(CREATED, ev.SessionStarted(), *reads("a.py")), is_watched=False)
    assert made.policy == ""
    shown = made.shown()
    assert named(shown, "resources").value == 1
    assert all((one.warn, one.intervene, one.stop, one.past) == (None, None, None, None) for one in shown)
    assert all(one.value is not None for one in shown)
