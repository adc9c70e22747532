"""Output that a page or a docstring promises: lines in order, with ``…`` for what differs from run to run."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path, folder: Path, seconds: float) -> str:
    """What the program prints, run in ``folder`` with warnings as errors; it must end well and in time."""
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert not done.stderr, f"complained:\n{done.stderr}"
    return done.stdout


def assert_prints(output: str, promised: Sequence[str]) -> None:
    """Every promised line is in the output, in order; other lines may stand between."""
    lines = iter(line.rstrip() for line in output.splitlines())
    for promise in promised:
        pattern = re.compile(".*".join(re.escape(part) for part in promise.strip().split("…")))
        found = any(pattern.fullmatch(line.strip()) for line in lines)
        assert found, f"not printed, or not in this order: {promise!r}\n{output}"
