"""``midcourse risk`` and ``midcourse policy calibrate``, as they are typed."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from midcourse.analysis.backtest import risk_model
from midcourse.cli.main import build


def runs(path: Path, failures: int, successes: int) -> Path:
    """Runs that fail after many errors, and runs that do not."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(failures + successes):
            failed = number < failures
            rows: list[dict[str, Any]] = [
                {
                    "index": place,
                    "kind": "tool" if place % 2 else "model",
                    "name": "search",
                    "text": "nothing found" if failed else "found it",
                    "args": f"{number} {place}",
                    "error": failed and place % 2 == 1,
                    "resources": [],
                    "t_offset_s": 20.0 * place,
                    "tokens_in": 100,
                    "tokens_out": 40,
                    "cost_usd": 0.01,
                }
                for place in range(8)
            ]
            run: dict[str, Any] = {
                "source": "mine",
                "run_id": f"mine/{number}",
                "task_key": f"task-{number}",
                "goal": "Find the invoice of March",
                "outcome": "failure" if failed else "success",
                "steps": rows,
            }
            file.write(json.dumps(run) + "\n")
    return path


def typed(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(build(), arguments)
    return result.exit_code, result.output


def test_the_model_that_comes_along_says_what_to_expect_of_it() -> None:
    code, said = typed("risk", "show")
    assert code == 0
    assert "mini_swe" in said
    assert "tasks that the model had not seen" in said


def test_a_model_of_ones_own_is_made_in_one_command_and_used_by_a_backtest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, quick in (("PENALTIES", (4.0,)), ("INNER_REPEATS", 1), ("INNER_FOLDS", 2)):
        monkeypatch.setattr(risk_model, name, quick)
    for name, quick in (("REPEATS", 1), ("FOLDS", 3)):
        monkeypatch.setattr(risk_model, name, quick)
    recorded = runs(tmp_path / "runs.jsonl", 20, 20)
    model = tmp_path / "risk.json"
    code, said = typed("risk", "train", str(recorded), "-o", str(model))
    assert code == 0, said
    assert "mine: 40 runs, 20 failed" in said
    code, said = typed("policy", "backtest", str(recorded), "--risk-model", str(model), "--format", "json")
    assert code == 0, said
    source = json.loads(said)["sources"]["mine"]
    assert source["recall"] == 1.0
    assert source["false_positive_rate"] == 0.0


@pytest.mark.parametrize(("failures", "successes"), [(19, 30), (30, 0)])
def test_too_few_runs_make_no_model(tmp_path: Path, failures: int, successes: int) -> None:
    recorded = runs(tmp_path / "runs.jsonl", failures, successes)
    code, said = typed("risk", "train", str(recorded), "-o", str(tmp_path / "risk.json"))
    assert code == 1
    assert "20" in said
    assert not (tmp_path / "risk.json").exists()


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "risk.json").write_text("{}")
    code, said = typed("risk", "show", str(tmp_path / "risk.json"))
    assert code == 1
    assert "is no risk model" in said


def test_calibrated_thresholds_are_printed_as_a_policy_that_can_be_checked(tmp_path: Path) -> None:
    recorded = runs(tmp_path / "runs.jsonl", 12, 12)
    code, said = typed("policy", "calibrate", str(recorded))
    assert code == 0, said
    assert "Would have stopped 12 of 12 failing" in said
    mine = tmp_path / "mine.yaml"
    mine.write_text(said, encoding="utf-8")
    code, said = typed("policy", "check", str(mine))
    assert code == 0, said
    assert "standard-calibrated" in said
