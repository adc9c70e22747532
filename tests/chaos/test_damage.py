"""Stores with a damaged file, each driven to its end; ``make chaos`` and ``python -m tests.chaos.damage`` try more."""

import pytest

from tests.chaos.damage import main


@pytest.mark.timeout(240)
def test_damage_ends_in_a_sentence_and_no_session_stands_still(capsys: pytest.CaptureFixture[str]) -> None:
    """One store for each template: some sessions of it are reported, and all others end."""
    assert main(["--stores", "6", "--seed", "sample", "--jobs", "3"]) == 0, capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_damage_ends_in_a_sentence_in_many_stores(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--stores", "200", "--jobs", "6"]) == 0, capsys.readouterr().out
