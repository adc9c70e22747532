"""Thresholds from recorded runs: as early as the allowed false stops let them be, and only if runs show them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.analysis.backtest.calibration import RunCourse, calibrate, course_of
from midcourse.analysis.backtest.recordings import Recording
from midcourse.errors import InvalidInput
from midcourse.policy.profiles import STANDARD
from midcourse.policy.run_activity import AnyAct, Begun, Called
from midcourse.policy.validation import check_policy

STREAK = "errors.streak"


def course(*, failed: bool, **heights: float) -> RunCourse:
    return RunCourse(failed, {name: ((3, height),) for name, height in heights.items()})


FINE = [course(failed=False, resources=float(count), **{STREAK: 1.0}) for count in range(1, 21)]
FAILING = [course(failed=True, resources=5.0, **{STREAK: 4.0}) for _ in range(12)]


def test_what_its_stops_would_end_anyway_is_counted_first() -> None:
    stopped = [course(failed=False, **{STREAK: 5.0}) for _ in range(2)]
    found = calibrate([*FINE, *stopped, *FAILING], STANDARD, 0.10)
    assert (found.stopped_wrongly, found.successes) == (2, 22)
    assert found.marks == {STREAK: 4.0}
    assert (
        calibrate([*FINE, *stopped, *(course(failed=True, loops=9.0) for _ in range(12))], STANDARD, 0.05).marks == {}
    )


def test_a_threshold_is_as_early_as_the_false_stops_allow() -> None:
    found = calibrate([*FINE, *FAILING], STANDARD, 0.10)
    assert found.marks == {STREAK: 4.0}
    assert (found.stopped, found.stopped_wrongly) == (12, 0)
    assert found.policy.signals.errors.streak == 4


def test_it_never_stops_more_succeeding_runs_than_allowed() -> None:
    failing = [course(failed=True, resources=18.0) for _ in range(12)]
    assert calibrate([*FINE, *failing], STANDARD, 0.20).marks == {"resources": 18.0}
    assert calibrate([*FINE, *failing], STANDARD, 0.10).marks == {}


def test_what_only_one_failing_run_shows_is_not_believed() -> None:
    failing = [course(failed=True, loops=9.0), *(course(failed=True) for _ in range(11))]
    assert calibrate([*FINE, *failing], STANDARD).marks == {}


def test_a_threshold_takes_away_what_it_leaves_on_the_wrong_side() -> None:
    failing = [course(failed=True, duration=300.0, resources=40.0) for _ in range(12)]
    policy = calibrate([*FINE, *failing], STANDARD).policy
    assert (policy.signals.duration.warn, policy.signals.duration.explain) == (None, None)
    assert policy.signals.duration.intervene == 300.0
    assert policy.signals.duration.stop == STANDARD.signals.duration.stop
    assert (policy.signals.loops.intervene, policy.signals.loops.warn) == (None, STANDARD.signals.loops.warn)
    assert check_policy(policy) == policy


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_rate_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InvalidInput, match="a share above 0 and below 1"):
        calibrate([*FINE, *FAILING], STANDARD, share)


def test_too_few_runs_are_refused_with_how_many_there_are() -> None:
    with pytest.raises(InvalidInput, match="9 failing and 20 succeeding runs: at least 10 of each"):
        calibrate([*FINE, *FAILING[:9]], STANDARD)


numbers = st.floats(0, 60).map(lambda number: round(number, 1))


def seen(failed: bool, errors: float, resources: float, loops: float) -> RunCourse:
    return course(failed=failed, errors=errors, resources=resources, loops=loops)


courses = st.builds(seen, st.booleans(), st.floats(0.01, 1), numbers, numbers)


@given(st.lists(courses, min_size=40, max_size=60), st.sampled_from([0.05, 0.1, 0.3]))
def test_whatever_the_runs_its_own_false_stops_keep_to_the_rate_and_the_policy_is_one(
    runs: list[RunCourse], share: float
) -> None:
    try:
        found = calibrate(runs, STANDARD, share)
    except InvalidInput:
        return
    assert found.stopped_wrongly <= share * found.successes
    assert check_policy(found.policy) == found.policy


def test_a_course_holds_each_new_height_with_its_step() -> None:
    acts: list[AnyAct] = [Begun(goal="Read all of it", at=0.0)]
    acts += [
        Called(kind="tool", name="read", arguments=f"{place}", error="error" if place else "", at=100.0 * (place + 2))
        for place in range(4)
    ]
    recording = Recording(source="x", run_id="x/1", acts=tuple(acts), steps=(0, 0, 1, 2, 3), count=4, outcome="failure")
    found = course_of(recording, STANDARD)
    assert found.failed
    assert found.heights[STREAK] == ((2, 2.0), (3, 3.0)), "nothing counts before the third call"
    assert found.heights["duration"][-1] == (3, 500.0)
    assert found.reaches(STREAK, 3.0)
    assert not found.reaches(STREAK, 3.1)
    assert not found.reaches("cost", 0.0)
