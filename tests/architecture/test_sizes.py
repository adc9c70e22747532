"""The checks of size and of commit subjects refuse what they are for."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import sizes, subject

ROOT = Path(__file__).parents[2]
LINES = "\n".join(f"    value_{number} = compute({number})" for number in range(8))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small source in place of this one."""
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.py").write_text(f"import os\n\n\ndef first():\n{LINES}\n")
    monkeypatch.setattr(sizes, "SOURCE", tmp_path)
    return tmp_path


def test_a_run_of_lines_in_two_places_is_counted_in_both(source: Path) -> None:
    assert sizes.repeated_lines() == 0
    (source / "core" / "b.py").write_text(f"import os\n\n\ndef second():\n{LINES}\n\n\ndef third(): ...\n")
    assert sizes.repeated_lines() == 2 * 8


def test_lines_branches_and_repetition_may_not_rise_without_a_reason() -> None:
    kept: sizes.Figures = {"lines": {"core": 100}, "complex": [], "repeated": 10}
    assert sizes.compare(kept, {"lines": {"core": 160}, "complex": [], "repeated": 70}) == []
    assert len(sizes.compare(kept, {"lines": {"core": 161}, "complex": ["core/a.py: f"], "repeated": 71})) == 3


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("Refuse a late resume", False),
        ("wip", True),
        ("Fixes", True),
        ("x" * 73, True),
        ("Fix a resume that lifts a later pause", False),
    ],
)
def test_a_subject_that_says_nothing_or_too_much_is_refused(said: str, refused: bool) -> None:
    assert bool(subject.fault(said)) is refused


def test_the_hooks_of_pre_commit_can_be_read() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
