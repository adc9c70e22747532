"""A short round of chaos; ``make chaos`` plays longer ones. And faults of the past that it finds when they are back."""

import asyncio
from pathlib import Path

import pytest

from tests.chaos.__main__ import numbers
from tests.chaos.plants import PLANTS
from tests.chaos.round import Outcome, play
from tests.chaos.ways import Ways

ROUNDS = 6
"""So many are played at most to find a fault that was put back."""


def told(outcome: Outcome) -> str:
    """What was broken, for whoever reads of the failure."""
    found = "\n".join(map(str, [*outcome.violations, *outcome.stuck]))
    return f"seed {outcome.ways.seed}, {outcome.folder}: {numbers([outcome])}\n{found}"


@pytest.mark.timeout(240)
def test_a_round_of_chaos_breaks_no_promise_and_leaves_nothing_stuck(tmp_path: Path) -> None:
    """Workers are killed, stopped, ended and full; people do everything; then all sessions end."""
    outcome = asyncio.run(play(Ways(seed="sample", workers=2, seconds=8.0, fault_every=1.0), tmp_path))
    assert outcome.is_good, told(outcome)
    assert outcome.sessions
    assert outcome.commands["sent"]
    assert outcome.deeds


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", sorted(PLANTS))
def test_a_fault_that_is_put_back_is_found(fault: str, tmp_path: Path) -> None:
    """Within a few rounds, and by name of the promise that it breaks."""
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = asyncio.run(play(Ways(seed=f"{fault}.{number}", plant=fault, seconds=20.0), folder))
        if {one.promise for one in [*outcome.violations, *outcome.stuck]} & PLANTS[fault].breaks:
            return
    pytest.fail(f"'{fault}' was not found in {ROUNDS} rounds")
