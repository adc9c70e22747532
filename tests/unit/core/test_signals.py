"""A signal's history: few points, and no extreme is lost."""

from hypothesis import given
from hypothesis import strategies as st

from midcourse.core.signals import MOST_POINTS, Curve, thinned
from midcourse.policy.thresholds import Rule, threshold_state

POINTS = st.lists(st.tuples(st.floats(0, 1e4), st.floats(-1e6, 1e6)), min_size=1, max_size=60)


@given(POINTS, st.integers(4, 20))
def test_of_any_history_the_first_the_last_the_lowest_and_the_highest_are_kept(
    points: list[tuple[float, float]], most: int
) -> None:
    kept = thinned(points, most)
    assert len(kept) <= most
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    values = [value for _, value in points]
    assert (min(value for _, value in kept), max(value for _, value in kept)) == (min(values), max(values))
    places = iter(points)
    assert all(any(point == one for one in places) for point in kept)  # in their order


@given(st.integers(1, 3000), st.integers(0, 3000), st.integers(0, 3000))
def test_a_curve_of_any_length_has_its_extremes_however_often_it_was_thinned(length: int, peak: int, pit: int) -> None:
    values = [float(number % 7) for number in range(length)]
    values[peak % length] = 99.0
    values[pit % length] = -99.0
    curve = Curve()
    for at, value in enumerate(values):
        curve.add(float(at), value)
    shown = curve.shown((length + 5.0, 0.5))
    assert len(shown) <= MOST_POINTS
    assert (shown[0], shown[-1]) == ((0.0, values[0]), (length + 5.0, 0.5))
    assert {min(values), max(values)} <= {value for _, value in shown}


def test_what_stays_where_it_was_takes_two_points() -> None:
    curve = Curve()
    for at in range(1000):
        curve.add(float(at), 3.0)
    curve.add(1000.0, 4.0)
    assert curve.shown() == ((0.0, 3.0), (999.0, 3.0), (1000.0, 4.0))


def test_a_value_stands_past_the_gravest_threshold_that_it_has_reached() -> None:
    rule = Rule("resources", (("stop", 100.0), ("intervene", 50.0), ("warn", 20.0)))
    assert [threshold_state(rule, value).past for value in (19.9, 20, 50, 100)] == [None, "warn", "intervene", "stop"]
    assert threshold_state(rule, 50).mark == 50


def test_the_less_the_worse_where_the_rule_says_so() -> None:
    rule = Rule("token_rate", (("intervene", 0.3),), below=True)
    assert [threshold_state(rule, value).past for value in (0.31, 0.29)] == [None, "intervene"]


def test_of_milestones_the_next_one_steps_in() -> None:
    rule = Rule("cost", (("stop", 50.0),), milestones=(10.0, 25.0))
    assert [threshold_state(rule, value).intervene for value in (None, 9.0, 10.0, 30.0)] == [10.0, 10.0, 25.0, None]
    assert threshold_state(rule, 30.0).past is None
