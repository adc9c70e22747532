"""How long does a recorded run take in a backtest, read from its file and tried on the standard policy without drift?

Runs are made here, like those of coding agents: about 80 rows, half of them calls of a model with tokens, price and
time. The policy's thresholds are out of their reach, so that every row of every run is looked at.
"""

import gc
import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.harness import Result, folder, median
from midcourse.analysis.backtest import backtest, read_recordings
from midcourse.analysis.backtest.scores import RESAMPLES

QUESTION: Final = "backtest, a run of 80 rows"
RUNS: Final = 500
CALLS: Final = 40
REPEATS: Final = 5
MUST: Final = 1000.0
"""Microseconds: a thousand runs a second."""


def _rows(run: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(CALLS):
        # A few files, looked at in turn: work that stays where it began.
        asked = {
            "name": "bash",
            "args": f"sed -n '{number},{number + run % 7 + 40}p' src/package/module_{number % 5}.py",
        }
        rows.append(
            {
                **asked,
                "kind": "model",
                "text": f"THOUGHT: I look at part {number} of run {run}. " + "It may be here. " * 25,
                "t_offset_s": 8.0 * number,
                "tokens_in": 3000 + 400 * number,
                "tokens_out": 150,
                "cost_usd": 0.004,
            }
        )
        rows.append(
            {
                **asked,
                "kind": "tool",
                "text": "<returncode>0</returncode>\n<output>\n" + "    return value\n" * 28,
                "error": number % 9 == 8,
                "resources": [f"src/package/module_{number % 5}.py"],
            }
        )
    return rows


def _write(path: Path) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for run in range(RUNS):
            line = {
                "source": "made",
                "run_id": f"made/{run}",
                "task_key": str(run),
                "goal": "Mend the module.",
                "outcome": "failure" if run % 3 == 0 else "success",
                "decisive_error_step": None,
                "steps": _rows(run),
            }
            file.write(json.dumps(line) + "\n")


def _timed(work: Callable[[], object]) -> float:
    """Microseconds a run."""
    gc.collect()
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) / RUNS * 1e6


def answers() -> list[Result]:
    """The table's lines."""
    with folder() as place:
        path = place / "runs.jsonl.gz"
        _write(path)
        recordings = list(read_recordings([path]))
        tried = backtest("standard", recordings, resamples=0)
        assert len(tried.verdicts) == RUNS
        assert not any(one.is_stopped for one in tried.verdicts)
        cases: dict[str, Callable[[], object]] = {
            "read from a gzip file": lambda: list(read_recordings([path])),
            "replayed": lambda: backtest("standard", recordings, resamples=0),
            f"read, replayed and scored ({RESAMPLES:,} resamples)": lambda: backtest("standard", [path]),
        }
        return [
            Result(
                QUESTION,
                case,
                median([_timed(work) for _ in range(REPEATS)]),
                "µs",
                REPEATS,
                must=MUST if case.startswith("read, ") else None,
            )
            for case, work in cases.items()
        ]
