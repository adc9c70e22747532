"""A kill in the middle of a call, or of its undo, leaves whole files, and all of it can be taken back."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_call_that_was_killed_anywhere_can_be_undone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.unit.tools.kill_program", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
