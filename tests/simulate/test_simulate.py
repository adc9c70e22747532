"""The simulation itself: a seed does the same again, time is cheap, and a plan is shortened."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.faults.checker import Violation
from tests.simulate.plan import Plan, plan_of
from tests.simulate.plants import PLANTS, planted
from tests.simulate.shrink import shortened
from tests.simulate.world import Outcome, play

pytestmark = pytest.mark.usefixtures("_nothing_old_to_collect")  # each play collects its own
ROOT: Final = Path(__file__).parents[2]


def test_a_seed_does_exactly_the_same_again() -> None:
    for seed in range(12):
        one, other = play(plan_of(seed)), play(plan_of(seed))
        assert one.trace == other.trace
        assert one.digest == other.digest
        assert one.violations == other.violations


DIGESTS = """
from tests.simulate.plan import plan_of
from tests.simulate.world import play
print(*(play(plan_of(seed)).digest for seed in range(20)))
"""


def test_a_seed_does_the_same_in_every_interpreter() -> None:
    """Whatever the interpreter hashes strings with: no order may come from a set."""

    def digests(hashes: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hashes}
        command = [sys.executable, "-c", DIGESTS]
        return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout

    assert digests("1") == digests("2")


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


@pytest.mark.parametrize("start", range(0, 300, PART))
def test_no_seed_breaks_a_promise_and_nothing_stands_still_or_spins(start: int) -> None:
    broken = {seed: play(plan_of(seed)).violations for seed in range(start, start + PART)}
    told = [f"seed {seed}: {one}" for seed, found in broken.items() for one in found]
    assert not told, f"python -m tests.simulate --seeds 1 --start SEED shows it: {told}"


FAULTS: Final = {
    "answer-spins": (182, {"spins"}),
    "queued-child": (28, {"stands still", "spins", "journal grows without a fact"}),
    "uncarried": (38, {"stands still"}),
    "false-stopped": (88, {"works after a stop"}),
    "lifted-pause": (25, {"pause lifted by somebody else"}),
    "drain-lets-go": (509, {"effect twice", "receipt claims too much"}),
    "stop-needs-store": (1, {"a stop fails"}),
    "late-answers": (6, {"an answer is late"}),
    "journaled-refusals": (204, {"journal grows without a fact"}),
}
"""For each fault that is put back, a seed that finds it, and the promises that it breaks."""


@pytest.mark.parametrize("fault", sorted(PLANTS))
def test_a_fault_that_is_put_back_is_found(fault: str, record_property: Callable[[str, object], None]) -> None:
    """At once by its seed; a change of the simulation may give each seed another course: then by one of those after."""
    first, promises = FAULTS[fault]
    with planted(fault):
        seeds = range(first, first + 300)
        found = next((one for one in map(play, map(plan_of, seeds)) if one.kinds & promises), None)
    assert found is not None
    record_property("told", f"simulate: planted fault '{fault}' is found by seed {found.plan.seed}")


@pytest.mark.parametrize(
    ("seed", "workers", "deeds"),
    [
        pytest.param(301446, 1, "0, fault 0, 4, 5", id="a pause of a parent that waits for an answer reaches children"),
        pytest.param(1103982, 2, "0, 1, 2, 3, 9, fault 0, 13, 14", id="a parent waits for a child of two turns"),
        pytest.param(1106196, 2, "1, 2, 5, fault 0, 11", id="a queued child of an earlier turn begins"),
        pytest.param(1111112, 1, "0, 3, 4, 5", id="a halt of a paused parent reaches a child that was resumed"),
        pytest.param(1114459, 1, "0, 6, 7, fault 0, 9, 10", id="a halted child with a lost call has stopped"),
        pytest.param(1115363, 2, "0, 7, fault 0, 8, fault 2, 13", id="a failed session goes on soon"),
        pytest.param(2004655, 1, "0, 1, 2, 3, 4", id="a halt of a parent reaches a child with a new turn"),
        pytest.param(1038, 1, "0, 1, more 1, 7", id="a cancel of a session with a damaged journal ends"),
    ],
)
def test_a_run_that_once_broke_a_promise_keeps_it(seed: int, workers: int, deeds: str) -> None:
    plan = plan_of(seed)
    needed = {f"{seed}/{which}" for which in deeds.split(", ")}
    deeds_left = [deed for deed in plan.deeds if deed.seed in needed]
    plan = replace(plan, deeds=deeds_left, workers=workers)
    if not any("more" in which for which in needed):  # it was found before runs were wide
        plan = replace(plan, wide=False, forgets=False)
    assert len(plan.deeds) == len(needed)
    assert not play(plan).violations
