"""The simulation itself: a seed does the same again, time is cheap, and a plan is shortened."""

from dataclasses import replace

from tests.faults.checker import Violation
from tests.simulate.plan import Plan, plan_of
from tests.simulate.shrink import shortened
from tests.simulate.world import Outcome, play


def test_a_seed_does_exactly_the_same_again() -> None:
    for seed in range(12):
        one, other = play(plan_of(seed)), play(plan_of(seed))
        assert one.trace == other.trace
        assert one.digest == other.digest
        assert one.violations == other.violations


def test_two_seeds_do_not_do_the_same() -> None:
    assert len({play(plan_of(seed)).digest for seed in range(6)}) == 6


def test_a_plan_is_shortened_to_the_deeds_that_matter() -> None:
    plan = plan_of(5)
    assert len(plan.deeds) > 5
    wanted = {plan.deeds[1], plan.deeds[-1]}

    def tried(shorter: Plan) -> Outcome:
        found = [Violation(promise="planted", session="-", what="", at=0.0)] if wanted <= {*shorter.deeds} else []
        return Outcome(plan=shorter, violations=found)

    assert {*shortened(tried(plan), tried).plan.deeds} == wanted


def test_a_plan_without_anything_ends_at_once() -> None:
    outcome = play(replace(plan_of(0), deeds=()))
    assert not outcome.violations
    assert not outcome.journals
