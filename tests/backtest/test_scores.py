"""Figures that were worked out by hand; null, with a reason, where nobody can say; intervals over tasks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.analysis.backtest import Backtest, PolicyResult, Verdict, scored
from midcourse.analysis.backtest.recordings import Outcome
from midcourse.analysis.backtest.scores import class_of, doing_nothing, score
from midcourse.core.policy_decision import Decision, Reason
from midcourse.policy.profiles import STANDARD


def verdict(outcome: Outcome = "failure", stopped: int | None = None, *, steps: int = 10, **fields: Any) -> Verdict:
    reason = Reason("loops", "intervene", 5, 5, "It loops.")
    decision = Decision(level="pause", wanted="pause", policy="p@1", reasons=(reason,))
    given: dict[str, Any] = {"run_id": "r", "source": "s", "task_key": "t", **fields}
    if stopped is not None:
        given = {"level": "pause", "decision": decision, "steps_saved": steps - stopped - 1, **given}
    return Verdict(outcome=outcome, steps=steps, stopped_at_step=stopped, **given)


EIGHT = [
    verdict("failure", 3, task_key="a", decisive_step=5, minutes=10.0, minutes_saved=6.0, warnings=2),
    verdict("failure", 8, task_key="a", decisive_step=4, minutes=20.0, minutes_saved=0.0),
    verdict("failure", None, task_key="b", minutes=10.0, minutes_saved=0.0),
    verdict("failure", None, task_key="c", steps=70),
    verdict("success", 1, task_key="d", minutes=1.0, minutes_saved=0.9, dollars=5.0, dollars_saved=4.0),
    verdict("success", None, task_key="e"),
    verdict("success", None, task_key="f"),
    verdict("unknown", 2, task_key="g"),
]


def test_the_figures_are_those_worked_out_by_hand() -> None:
    figures = score(EIGHT)
    assert (figures.runs, figures.failures, figures.successes, figures.unknown) == (8, 4, 3, 1)
    assert (figures.interventions, figures.failures_stopped, figures.successes_stopped) == (4, 2, 1)
    assert figures.recall == 2 / 4
    assert figures.false_positive_rate == 1 / 3
    assert figures.precision == 2 / 3
    assert figures.steps_saved == (6 + 1) / (10 + 10 + 10 + 70)
    assert figures.minutes_saved == 6 / 40
    assert figures.before_decisive == 1 / 2
    assert figures.decisive_distance == 1
    assert figures.warnings == 2 / 8
    assert figures.levels == {"pause": 4}
    assert figures.signals == {"loops": {"interventions": 4, "failures": 2, "successes": 1}}
    assert figures.totals["minutes"] == 40
    assert figures.totals["steps_saved"] == 7


def test_what_cannot_be_measured_is_null_with_a_reason() -> None:
    figures = score(EIGHT)
    assert figures.dollars_saved is None  # only a succeeding run has a cost, and there nothing is saved
    assert figures.unmeasured == {"dollars_saved": "no failed run here has a cost"}
    nothing = score([verdict("unknown", None)])
    assert set(nothing.unmeasured) == {
        "recall",
        "false_positive_rate",
        "precision",
        "steps_saved",
        "minutes_saved",
        "dollars_saved",
        "before_decisive",
        "decisive_distance",
    }
    assert all(getattr(nothing, name) is None for name in nothing.unmeasured)
    assert nothing.warnings == 0


@pytest.mark.parametrize(("stopped", "share"), [(4, 1.0), (5, 1.0), (6, 0.0)])
def test_a_stop_at_the_decisive_step_itself_came_in_time(stopped: int, share: float) -> None:
    figures = score([verdict("failure", stopped, decisive_step=5), verdict("failure", 1), verdict("failure", None)])
    assert figures.before_decisive == share
    assert figures.decisive_distance == stopped - 5


def test_doing_nothing_is_zeros_spelled_out() -> None:
    figures = score(doing_nothing(EIGHT))
    assert (figures.interventions, figures.recall, figures.false_positive_rate) == (0, 0.0, 0.0)
    assert (figures.steps_saved, figures.minutes_saved, figures.warnings) == (0.0, 0.0, 0.0)
    assert figures.precision is None
    assert (figures.runs, figures.failures) == (8, 4)


def test_figures_are_given_by_source_by_class_and_in_all() -> None:
    found = scored([verdict(source="x", task_class="short"), verdict(source="y", minutes=3.0), verdict(source="x")])
    assert {name: one.runs for name, one in found.sources.items()} == {"x": 2, "y": 1}
    assert {name: one.runs for name, one in found.classes.items()} == {"short": 1, "medium": 1, "unknown": 1}
    assert found.all.runs == 3


@pytest.mark.parametrize(
    ("minutes", "name"), [(None, "unknown"), (0.5, "short"), (0.51, "medium"), (5.0, "medium"), (5.1, "long")]
)
def test_a_class_that_nobody_declared_is_told_by_the_clock(minutes: float | None, name: str) -> None:
    assert class_of(verdict(minutes=minutes)) == name
    assert class_of(verdict(minutes=minutes, task_class="protected")) == "protected"


def test_an_interval_holds_the_figure_and_is_the_same_every_time() -> None:
    figures = score(EIGHT)
    assert figures == score(EIGHT)
    for name in ("recall", "false_positive_rate", "precision", "steps_saved", "minutes_saved"):
        low, high = figures.intervals[name]
        assert 0 <= low <= getattr(figures, name) <= high <= 1
    assert figures.intervals["recall"][0] < figures.intervals["recall"][1]


def _half_stopped(tasks: int, runs: int) -> list[Verdict]:
    return [
        verdict("failure", 1 if task % 2 else None, task_key=str(task)) for task in range(tasks) for _ in range(runs)
    ]


def _width(verdicts: list[Verdict]) -> float:
    low, high = score(verdicts).intervals["recall"]
    return high - low


def test_more_tasks_make_an_interval_narrower_and_more_runs_of_them_do_not() -> None:
    assert _width(_half_stopped(200, 1)) < _width(_half_stopped(20, 1)) / 2
    assert _width(_half_stopped(20, 50)) == _width(_half_stopped(20, 1))
    # Half of 200, drawn 200 times: 1.96 standard errors to each side.
    assert _width(_half_stopped(200, 1)) == pytest.approx(2 * 1.96 * (0.25 / 200) ** 0.5, rel=0.1)


def test_amounts_beyond_all_measure_leave_the_other_figures_alone() -> None:
    huge = [verdict("failure", 1, task_key=str(n), dollars=1e30 * n, dollars_saved=5e29 * n) for n in range(20)]
    figures = score([*huge, verdict("failure", None, task_key="x", dollars=-1.0, dollars_saved=0.0)])
    assert figures.intervals["dollars_saved"] == pytest.approx((0.5, 0.5))
    low, high = figures.intervals["recall"]
    assert 0.8 < low <= high == 1


def test_what_no_task_shows_may_still_be() -> None:
    never = [verdict("failure", None, task_key=str(task)) for task in range(60)]
    always = [verdict("success", 1, task_key=f"s{task}", warnings=1) for task in range(10)]
    intervals = score([*never, *always]).intervals
    assert intervals["recall"] == (0.0, 3 / 60)
    assert intervals["false_positive_rate"] == (1 - 3 / 10, 1.0)
    assert intervals["warnings"][1] < 1
    assert score(always).intervals["warnings"] == (1.0, 1.0)


def test_one_task_says_nothing_of_others() -> None:
    assert score([verdict("failure", 1), verdict("failure")]).intervals == {}


some_verdicts = st.lists(
    st.builds(
        verdict,
        st.sampled_from(["success", "failure", "unknown"]),
        st.none() | st.integers(0, 9),
        task_key=st.sampled_from("abc"),
        minutes=st.none() | st.floats(0, 1e4),
        dollars=st.none() | st.floats(0, 1e4),
        minutes_saved=st.just(0.0),
        dollars_saved=st.just(0.0),
        warnings=st.integers(0, 5),
    ),
    max_size=12,
)


@given(some_verdicts, st.randoms())
def test_no_figure_depends_on_the_order_of_the_runs(verdicts: list[Verdict], chance: Any) -> None:
    before = score(verdicts, resamples=5)
    chance.shuffle(verdicts)
    after = score(verdicts, resamples=5)
    for name in ("runs", "recall", "false_positive_rate", "precision", "steps_saved", "before_decisive", "warnings"):
        assert getattr(before, name) == getattr(after, name)
    assert before.intervals.get("recall") == after.intervals.get("recall")


@given(some_verdicts)
def test_every_rate_is_a_share_or_null_with_a_reason(verdicts: list[Verdict]) -> None:
    figures = score(verdicts, resamples=3)
    for name in ("recall", "false_positive_rate", "precision", "steps_saved", "minutes_saved", "dollars_saved"):
        value = getattr(figures, name)
        assert (value is None) == (name in figures.unmeasured)
        assert value is None or 0 <= value <= 1


def test_the_document_has_the_first_policys_figures_on_top() -> None:
    tried = PolicyResult(policy=STANDARD, verdicts=EIGHT, scores=scored(EIGHT))
    nothing = PolicyResult(policy=STANDARD, verdicts=EIGHT, scores=scored(doing_nothing(EIGHT)))
    document = Backtest(policies={"p@1": tried, "q@1": nothing}, baseline=nothing.scores).to_json()
    assert document["sources"] == document["policies"]["p@1"]["sources"]
    assert document["sources"]["s"]["recall"] == 0.5
    assert document["policies"]["q@1"]["all"]["recall"] == 0.0
    assert document["baseline"]["sources"]["s"]["steps_saved"] == 0.0
    assert {"runs", "failures", "successes", "interventions", "recall", "false_positive_rate", "precision"} < set(
        document["sources"]["s"]
    )
