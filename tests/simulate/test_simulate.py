"""The simulation itself: a seed does the same again, time is cheap, and a plan is shortened."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.faults.checker import Violation
from tests.simulate.plan import Plan, plan_of
from tests.simulate.plants import PLANTS, planted
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


PART = 25
"""Seeds of one test, so that several processes share them."""


@pytest.mark.parametrize("start", range(0, 200, PART))
def test_no_seed_breaks_a_promise_and_nothing_stands_still_or_spins(start: int) -> None:
    broken = {seed: play(plan_of(seed)).violations for seed in range(start, start + PART)}
    told = [f"seed {seed}: {one}" for seed, found in broken.items() for one in found]
    assert not told, f"python -m tests.simulate --seeds 1 --start SEED shows it: {told}"


@pytest.mark.parametrize(
    ("fault", "promises"),
    [
        ("answer-spins", {"spins"}),
        ("queued-child", {"stands still", "spins", "journal grows without a fact"}),
        ("false-stopped", {"works after a stop"}),
        ("lifted-pause", {"pause lifted by somebody else"}),
    ],
)
def test_a_fault_that_is_put_back_is_found(
    fault: str, promises: set[str], record_property: Callable[[str, object], None]
) -> None:
    with planted(fault):
        found = next((one for one in map(play, map(plan_of, range(200))) if one.kinds & promises), None)
    assert found is not None
    record_property("told", f"simulate: planted fault '{fault}' is found by seed {found.plan.seed}")


def test_every_fault_that_can_be_put_back_is_looked_for() -> None:
    assert {*PLANTS} == {"answer-spins", "queued-child", "false-stopped", "lifted-pause"}


def test_a_pause_of_a_parent_that_waits_for_an_answer_reaches_its_children() -> None:
    plan = plan_of(301446)
    needed = {f"301446/{which}" for which in ("0", "fault 0", "4", "5")}  # start, kill, answer, pause
    assert not play(replace(plan, deeds=[deed for deed in plan.deeds if deed.seed in needed])).violations
