"""A fixed sample of the kill points; ``make crash`` runs all of them."""

from dataclasses import replace

import pytest

from tests.crash.points import SECOND_DEATHS, Plan, plan
from tests.crash.scenarios import SCENARIOS
from tests.crash.trial import attempt

POINTS_OF_EACH = 2


def check(chosen: Plan) -> None:
    """Every promise is kept at every one of these points."""
    verdicts = [*chosen.failed, *(attempt(point, chosen.end_of(point)) for point in chosen.points)]
    bad = [verdict for verdict in verdicts if not verdict.is_good]
    assert not bad, "\n".join(map(str, bad))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_killed_session_comes_to_the_same_end_and_repeats_no_finished_step(scenario: str) -> None:
    """Killed before or after a call of its store, the scenario ends as if nothing had happened."""
    check(plan([scenario], recoveries=False).sample(POINTS_OF_EACH))


@pytest.mark.parametrize("scenario", ["cancel", "parking", "undo"])
def test_a_recovery_that_is_killed_itself_is_recovered_too(scenario: str) -> None:
    """Killed a second time, while it recovers, it still ends as if nothing had happened."""
    assert scenario in SECOND_DEATHS
    whole = plan([scenario])
    twice = tuple(point for point in whole.points if len(point.kills) > 1)
    check(replace(whole, points=twice).sample(2))
