"""The small monitors by themselves: what each counts, and what it leaves alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.policy.document import Classes
from midcourse.policy.run_activity import Begun, Called, Rested, WentOn
from midcourse.policy.signals.calls_left import CallHistory, calls_left, class_of
from midcourse.policy.signals.cost import Spending
from midcourse.policy.signals.error_rate import Errors
from midcourse.policy.signals.hypotheses import MOST as MOST_ARTIFACTS
from midcourse.policy.signals.hypotheses import Hypothesis, MadeArtifacts
from midcourse.policy.signals.repeated_calls import Loops
from midcourse.policy.signals.scope_growth import MOST, ResourceScope, domain_of
from midcourse.policy.signals.token_rate import TokenRate
from midcourse.policy.signals.working_time import Stopwatch


def call(**fields: object) -> Called:
    """A tool call."""
    return Called(**{"kind": "tool", "name": "read", **fields})  # pyright: ignore[reportArgumentType]


# ---- the clock


def test_a_stopwatch_counts_only_while_it_works() -> None:
    watch = Stopwatch()
    assert (watch.seconds, watch.now, watch.when(5)) == (None, None, None)
    watch.feed(Begun(at=100.0))
    watch.advance(110.0)
    watch.feed(Rested(at=112.0))
    assert (watch.seconds, watch.when(20)) == (12.0, None)
    watch.advance(500.0)
    watch.feed(WentOn(at=600.0))
    watch.advance(603.0)
    assert (watch.seconds, watch.now, watch.when(20)) == (15.0, 603.0, 608.0)


@given(st.lists(st.floats(-1e9, 1e9), max_size=30))
def test_a_stopwatch_never_goes_back(times: list[float]) -> None:
    watch = Stopwatch()
    watch.feed(Begun(at=0.0))
    before = 0.0
    for time in times:
        watch.advance(time)
        assert watch.seconds is not None
        assert watch.seconds >= before
        before = watch.seconds
    assert watch.went_back >= 0


# ---- errors


@given(st.lists(st.booleans(), max_size=80))
def test_the_rate_is_that_of_the_last_twenty_and_the_streak_that_of_the_end(failed: list[bool]) -> None:
    errors = Errors()
    for one in failed:
        errors.feed(call(error="ValueError" if one else ""))
    recent = failed[-20:]
    assert errors.rate(1) == (sum(recent) / len(recent) if recent else None)
    streak = 0
    for one in reversed(failed):
        if not one:
            break
        streak += 1
    assert errors.streak == streak


# ---- loops


def test_what_else_is_done_in_between_ends_no_loop() -> None:
    loops = Loops(4)
    for number in range(4):
        loops.feed(call(name="look", digest="same"))
        loops.feed(call(name="do", digest=str(number)))
    assert loops.value == 4
    assert loops.words == "The call is look."


def test_calls_alike_count_in_an_unbroken_row() -> None:
    loops = Loops(4)
    for page in range(9):
        loops.feed(call(name="search", arguments=f'{{"query": "churn", "page": {page}}}', digest=str(page)))
    assert loops.value == pytest.approx(7 / 4)
    assert "differ in one argument alone" in loops.words
    loops.feed(call(name="search", arguments='{"query": "x", "page": 99}', digest="x"))
    assert loops.value == 1


def test_arguments_that_were_cut_short_or_have_no_names_are_not_alike() -> None:
    loops = Loops(4)
    for number, arguments in enumerate(['{"query": "chu…', "[1, 2]", "plain", '{"one": 1}', '{"one": 2}', "{}"] * 3):
        loops.feed(call(name="search", arguments=arguments, digest=str(number)))
    assert loops.value == 1


@given(st.lists(st.sampled_from("abc"), max_size=60))
def test_the_window_of_loops_is_the_last_twenty_calls(names: list[str]) -> None:
    loops = Loops(4)
    for name in names:
        loops.feed(call(name=name, digest="d"))
    recent = names[-20:]
    assert loops.value == max((recent.count(one) for one in recent), default=0)


# ---- estimates


def test_calls_left_are_the_median_of_the_runs_that_needed_more() -> None:
    history = CallHistory(tuple(range(10, 20)), ())
    assert calls_left(0, history) == 15
    assert calls_left(12, history) == 16 - 12 or calls_left(12, history) == 17 - 12
    assert calls_left(15, history) is None  # four runs needed more: too few


def test_runs_that_differ_too_much_give_no_estimate() -> None:
    assert calls_left(0, CallHistory((1, 2, 5, 20, 90, 400, 900), ())) is None


def test_a_class_is_never_predicted_to_be_the_one_that_must_be_declared() -> None:
    for seconds in (0.1, 100.0, 1e9):
        assert class_of(CallHistory((), (seconds,) * 9), Classes(), 0.0) != "protected"


# ---- hypotheses and artifacts


def test_a_hypothesis_in_the_same_words_is_no_other() -> None:
    hypothesis = Hypothesis()
    assert hypothesis.age(10.0) is None
    hypothesis.state("cache", 10.0)
    hypothesis.state("cache", 50.0)
    hypothesis.state("", 60.0)
    assert hypothesis.age(70.0) == 60.0
    hypothesis.state("clock", 70.0)
    assert hypothesis.age(71.0) == 1.0


def test_an_artifact_is_known_by_its_first_step_and_flagged_when_it_is_used() -> None:
    artifacts = MadeArtifacts()
    artifacts.add("plan.md", 3)
    artifacts.add("notes.md", 4)
    artifacts.add("plan.md", 9)
    artifacts.touched(("other.md", "plan.md"), 12)
    artifacts.touched(("plan.md",), 13)
    assert (artifacts.made["plan.md"].step, artifacts.made["plan.md"].used_at, artifacts.used) == (3, 12, 1)


def test_artifacts_are_bounded() -> None:
    artifacts = MadeArtifacts()
    for number in range(MOST_ARTIFACTS + 50):
        artifacts.add(str(number), number)
    assert len(artifacts.made) == MOST_ARTIFACTS


# ---- token rate


def test_a_token_rate_is_compared_with_the_requests_before() -> None:
    rate = TokenRate()
    for _ in range(10):
        rate.feed(call(kind="model", tokens_out=100, seconds=1.0))
    assert rate.value == pytest.approx(1.0)
    for _ in range(8):
        rate.feed(call(kind="model", tokens_out=1, seconds=1.0))
    assert rate.value is not None
    assert rate.value < 0.3


# ---- scope


@pytest.mark.parametrize(
    ("resource", "domain"),
    [
        ("https://example.org/a/b?c=d", "example.org"),
        ("src/midcourse/api.py", "src/midcourse"),
        ("/src/api.py", "src"),
        ("./api.py", "."),
        ("shop.orders", "shop"),
        ("customer:42", "customer"),
        ("file:src/a.py", "src"),
        ("", ""),
        ("http://[::1", "[::1"),
    ],
)
def test_a_resource_belongs_to_a_host_a_folder_a_database_or_a_kind(resource: str, domain: str) -> None:
    assert domain_of(resource) == domain


@given(st.text())
def test_any_text_has_a_domain(text: str) -> None:
    assert isinstance(domain_of(text), str)
    assert isinstance(domain_of(f"http://{text}"), str)


def test_scope_is_bounded() -> None:
    scope = ResourceScope()
    for number in range(MOST + 50):
        scope.feed(call(resources=(f"d{number}/a",), effect="reversible"))
    assert scope.resources == MOST


# ---- spending


def test_spending_sums_what_was_measured_and_counts_what_was_not() -> None:
    spending = Spending()
    spending.feed(call(kind="model", cost=0.5, seconds=2.0, bytes=10))
    spending.feed(call(kind="model"))
    spending.feed(call(cost=0.0))
    assert (spending.cost, spending.requests, spending.unpriced) == (0.5, 3, 1)
    assert (spending.seconds, spending.bytes, spending.timed) == (2.0, 10, 1)
    assert spending.per_request == pytest.approx(0.5 / 3)
    assert spending.acceleration is None


def test_steady_costs_do_not_accelerate_and_growing_ones_do() -> None:
    steady, growing = Spending(), Spending()
    for number in range(30):
        steady.feed(call(kind="model", cost=0.01))
        growing.feed(call(kind="model", cost=0.01 * 1.2**number))
    assert steady.acceleration == pytest.approx(1.0)
    assert growing.acceleration is not None
    assert growing.acceleration > 2
