"""A clock that jumps, a price nobody knows, numbers that cannot be: told in clear words, and nothing is made up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.core.policy_decision import Decision
from midcourse.policy.profiles import STANDARD
from midcourse.policy.run_activity import AnyAct, Called
from midcourse.policy.signals.run_monitor import RunMonitor
from tests.policy.runs import MINUTE, Run, called


def why(decision: Decision | None, signal: str) -> str:
    """What a decision says it could not see of a signal."""
    assert decision is not None
    return "; ".join(one.why for one in decision.unseen if one.signal == signal)


def test_a_clock_that_jumps_back_counts_nothing_and_is_told() -> None:
    run = Run(at=10_000.0)
    run.wait(9 * MINUTE).call()
    run.wait(-60 * MINUTE).call()
    assert run.value("duration") == 9 * MINUTE
    decision = run.wait(MINUTE).call()
    assert run.value("duration") == 10 * MINUTE
    assert why(decision, "duration") == "the clock went back by 3.6e+03 s, not counted"


def test_a_clock_that_jumps_back_in_a_pause_or_between_looks_stops_nothing() -> None:
    run = Run(at=10_000.0)
    run.wait(5 * MINUTE).rest()
    run.wait(-100 * MINUTE).go_on()
    run.wait(-1).look()
    assert run.value("duration") == 5 * MINUTE
    assert run.levels == []
    due = run.oversight.due()
    assert due is not None
    assert due == pytest.approx(run.at + 5 * MINUTE, abs=0.1)


def test_a_clock_that_jumps_forward_is_believed_for_nothing_else_can_be_known() -> None:
    run = Run()
    run.calls(5)
    decision = run.wait(1e9).call()
    assert decision is not None
    assert decision.level == "stop"


def test_without_a_clock_what_depends_on_one_is_told_as_not_seen() -> None:
    oversight = RunMonitor(STANDARD, asks=False)
    decision = None
    for _ in range(5):
        decision = oversight.see(called(error="ValueError")) or decision
    assert decision is not None
    assert decision.level == "stop"
    assert why(decision, "duration") == "the record has no clock"


def test_a_price_that_nobody_knows_is_told_and_taken_for_neither_nothing_nor_a_guess() -> None:
    run = Run()
    run.calls(2, kind="model", cost=None)
    decision = [run.call(error="ValueError") for _ in range(5)][-1]
    assert why(decision, "cost") == "2 model calls have no known price; the cost is not known"
    assert run.value("cost") is None


def test_with_some_prices_known_the_cost_is_at_least_their_sum() -> None:
    run = Run()
    run.call("model", cost=None)
    run.call("model", cost=1.5)
    decision = [run.call(error="ValueError") for _ in range(5)][-1]
    assert why(decision, "cost") == "1 model calls have no known price; at least $1.50"


def test_a_tool_without_a_price_costs_nothing_and_needs_no_word() -> None:
    run = Run()
    run.call("model", cost=1.0)
    run.calls(3)
    decision = [run.call(error="ValueError") for _ in range(5)][-1]
    assert why(decision, "cost") == ""


@pytest.mark.parametrize("field", ["cost", "seconds", "bytes"])
def test_a_negative_number_takes_nothing_back(field: str) -> None:
    signal = {"cost": "cost", "seconds": "compute_seconds", "bytes": "bytes"}[field]
    run = Run()
    for number in (3, -2):
        given: dict[str, Any] = {field: number}
        run.call("model", **given)
    assert run.value(signal) == 3


def test_a_negative_price_is_no_price() -> None:
    run = Run()
    run.call("model", cost=3.0)
    run.call("model", cost=-2.0)
    decision = [run.call(error="ValueError") for _ in range(5)][-1]
    assert why(decision, "cost") == "1 model calls have no known price; at least $3.00"


_any = st.floats(-1e300, 1e300, allow_nan=False)
_negative: st.SearchStrategy[AnyAct] = st.builds(
    Called,
    at=st.none() | _any,
    kind=st.sampled_from(["tool", "model"]),
    name=st.just("read"),
    cost=st.none() | _any,
    seconds=st.none() | _any,
    tokens_out=st.none() | st.integers(-(10**9), 10**9),
    tokens_in=st.none() | st.integers(-(10**9), 10**9),
    bytes=st.none() | st.integers(-(10**9), 10**9),
)


@given(stream=st.lists(_negative, max_size=40), budget=st.none() | st.floats(0.01, 10))
def test_no_number_however_wrong_crashes_it_or_makes_a_sum_shrink(stream: list[AnyAct], budget: Any) -> None:
    oversight = RunMonitor(STANDARD, budget=budget)
    before: dict[str, float] = {}
    for act in stream:
        oversight.see(act)
        for signal in ("cost", "compute_seconds", "bytes", "duration", "api_calls"):
            value = oversight.values.get(signal, 0.0)
            assert value >= before.get(signal, 0.0)
            before[signal] = value
