"""Training: what is learned from runs, what is stated of it, and what is refused."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from midcourse.analysis.backtest import read_recordings, risk_model
from midcourse.analysis.backtest.recordings import Outcome, Recorder, Recording
from midcourse.analysis.backtest.risk_model import (
    MARKS,
    RunFacts,
    assign_folds,
    effects,
    fit,
    observe,
    summary,
    thresholds,
    train,
)
from midcourse.errors import InvalidInput
from midcourse.policy.run_activity import Called
from midcourse.policy.signals.risk import FEATURES, GENERAL, Risk, load, save

NARROW = {"synthetic": ("effort",), "second": ("effort",)}


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer folds and draws: what is tested here is not how sure the numbers are."""
    for name, value in {"INNER_FOLDS": 3, "INNER_REPEATS": 1}.items():
        monkeypatch.setattr(risk_model, name, value)
    for name, value in {"REPEATS": 1, "FOLDS": 4, "BOOTSTRAPS": 40}.items():
        monkeypatch.setattr(risk_model, name, value)


def recording(
    number: int, outcome: Outcome, *, error_rate: float, chance: Random, source: str = "synthetic", task: str = ""
) -> Recording:
    recorder = Recorder("Make it work.")
    recorder.begin()
    for step in range(chance.randint(6, 14)):
        recorder.told(Called(kind="model", name="m", text="I go on.", tokens_in=100 + step, tokens_out=10))
        error = "boom" if chance.random() < error_rate else ""
        recorder.told(Called(kind="tool", name="run", arguments=f"{number} {step}", error=error, text="done"))
    return recorder.done(
        source=source, run_id=f"{source}/{number}", task_key=task or f"{source}-{number}", outcome=outcome
    )


def recordings(count: int = 30, *, told_apart: bool = True, source: str = "synthetic") -> list[Recording]:
    chance = Random(7)
    made: list[Recording] = []
    for number in range(2 * count):
        failed = number % 2 == 1
        rate = (0.7 if failed else 0.05) if told_apart else 0.3
        outcome: Outcome = "failure" if failed else "success"
        made.append(recording(number, outcome, error_rate=rate, chance=chance, source=source))
    return made


def run_of(failed: bool, *, task: str = "t", length: int = 4) -> RunFacts:
    return RunFacts(task, failed, np.zeros((length, len(FEATURES))), np.ones(length, dtype=np.bool_))


class TestLearning:
    def test_runs_that_differ_are_told_apart_and_the_model_works_the_same_live(self, tmp_path: Path):
        runs = recordings()
        model = train(runs, sets=NARROW)
        assert model.domains["synthetic"].stated.recall > 0.7
        save(model, tmp_path / "risk.json")
        stopped = {"failure": 0, "success": 0, "unknown": 0}
        for one in runs:
            risk = Risk(load(tmp_path / "risk.json"), domain="synthetic")
            alarms: list[bool] = []
            for act in one.acts:
                risk.feed(act)
                alarms.append(risk.read().alarm)
            stopped[one.outcome] += any(alarms)
        assert stopped["failure"] >= 21
        assert stopped["success"] <= 6

    def test_where_there_is_nothing_to_learn_little_is_promised(self):
        stated = train(recordings(40, told_apart=False), sets=NARROW).domains["synthetic"].stated
        assert stated.recall < 0.45
        assert stated.recall_interval[0] <= stated.recall <= stated.recall_interval[1]

    def test_errors_count_against_a_run(self):
        runs = [run for one in recordings() if (run := observe(one)) is not None]
        column = list(FEATURES).index("errors")
        assert fit(runs, [column], 1.0).weights[column] > 0

    def test_a_stronger_penalty_gives_smaller_weights(self):
        runs = [run for one in recordings() if (run := observe(one)) is not None]
        columns = [list(FEATURES).index(name) for name in ("errors", "steps")]
        weak, strong = (np.abs(fit(runs, columns, penalty).weights).sum() for penalty in (1.0, 100.0))
        assert strong < weak

    def test_alarms_are_known_for_every_mark_and_a_run_of_no_domain_has_a_model(self):
        model = train(recordings(), sets=NARROW)
        assert set(model.domains) == {"synthetic", GENERAL}
        assert tuple(model.domains["synthetic"].alarms) == MARKS

    def test_each_source_with_runs_enough_is_a_domain_and_each_has_its_target(self):
        both = [*recordings(20), *recordings(20, source="second"), *recordings(2, source="tiny")]
        model = train(both, sets=NARROW, target={"second": 0.2})
        assert set(model.domains) == {"synthetic", "second", GENERAL}
        assert [model.domains[name].target for name in ("synthetic", "second")] == [0.1, 0.2]

    def test_the_hash_is_that_of_the_runs(self):
        runs = recordings(20)
        same, other = train(runs, sets=NARROW).data, train(runs[:-2], sets=NARROW, least=10).data
        assert same == train(recordings(20), sets=NARROW).data != other


class TestRefusals:
    def test_too_few_failures_are_refused_with_what_there_is(self):
        runs = [one for one in recordings(25) if one.outcome == "success" or int(one.run_id.split("/")[1]) < 10]
        with pytest.raises(InvalidInput) as refused:
            train(runs)
        assert "at least 20 failures and 20 successes" in str(refused.value)
        assert "synthetic has 5 failures and 25 successes" in str(refused.value)
        assert refused.value.code == "too_few_runs"

    def test_runs_of_a_single_task_are_refused_for_nothing_could_be_said_of_another(self):
        alike = [msgspec.structs.replace(one, task_key="the same") for one in recordings(25)]
        with pytest.raises(InvalidInput, match="of 1 tasks"):
            train(alike)

    def test_runs_without_an_outcome_do_not_count(self):
        unknown = [msgspec.structs.replace(one, outcome="unknown") for one in recordings(25)]
        with pytest.raises(InvalidInput, match="no run with a known outcome"):
            train(unknown)

    def test_a_run_in_which_nothing_happened_is_left_out(self):
        empty = Recorder("Nothing.").done(source="s", run_id="s/0", outcome="failure")
        assert observe(empty) is None


class TestEffects:
    def test_a_run_is_stopped_at_its_first_row_above_and_what_comes_after_is_saved(self):
        runs = [run_of(True), run_of(True), run_of(False), run_of(False)]
        scores = [np.array(one) for one in ([0, 5, 0, 9.0], [0, 0, 1, 0.0], [0, 0, 0, 2.0], [3, 0, 0, 0.0])]
        none, half = effects(scores, runs, [0.0, 0.5])
        # Above 3 none of the succeeding is stopped; above 2 the one with 3 is.
        assert none == pytest.approx((0.5, 2 / 8, 0.25))
        assert half == pytest.approx((0.5, 2 / 8, 0.25))

    def test_between_two_possible_shares_it_goes_in_proportion(self):
        runs = [run_of(True, length=2), run_of(False, length=2), run_of(False, length=2)]
        scores = [np.array(one) for one in ([2.0, 2.0], [3.0, 3.0], [1.0, 1.0])]
        recalls = [one.recall for one in effects(scores, runs, [0.0, 0.25, 0.5])]
        assert recalls == pytest.approx([0.0, 0.5, 1.0])

    def test_alarms_are_conformal(self):
        runs = [run_of(False) for _ in range(9)]
        scores = [np.full(4, float(top)) for top in range(1, 10)]
        # Another run is above the highest of nine in one case of ten, above the second in two.
        assert thresholds(scores, runs, [0.1, 0.2, 0.9]) == pytest.approx([9.0, 8.0, 1.0])


class TestFolds:
    def test_the_runs_of_a_task_stay_together(self):
        runs = [run_of(bool(number % 2), task=f"t{number // 3}") for number in range(60)]
        for seed in range(5):
            folds: dict[str, set[int]] = {}
            for run, fold in zip(runs, assign_folds(runs, 5, seed), strict=True):
                folds.setdefault(run.task, set()).add(int(fold))
            assert all(len(of) == 1 for of in folds.values())
            assert len({next(iter(of)) for of in folds.values()}) == 5

    def test_a_run_can_be_stopped_at_calls_from_the_third_on(self):
        recorder = Recorder("Help me.")
        recorder.begin()
        recorder.said("Hello?")
        for _ in range(4):
            recorder.told(Called(kind="tool", name="look"))
        recorder.said("Thanks.")
        run = observe(recorder.done(source="s", run_id="s/1", outcome="success"))
        assert run is not None
        assert run.may_stop.tolist() == [False, False, False, True, True, False]

    def test_a_run_with_a_clock_can_be_stopped_after_the_time_that_is_asked_for(self):
        recorder = Recorder("Help me.")
        recorder.begin(0.0)
        for at in (50.0, 60.0, 70.0, 119.0, 121.0):
            recorder.told(Called(kind="tool", name="look", at=at))
        one = recorder.done(source="s", run_id="s/1", outcome="success")
        late, soon = observe(one, after=120.0), observe(one)
        assert late is not None
        assert soon is not None
        assert late.may_stop.tolist() == [False, False, False, False, True]
        assert soon.may_stop.tolist() == [False, False, True, True, True]

    def test_runs_that_could_not_be_stopped_do_not_lower_the_alarm(self):
        runs = [run_of(False) for _ in range(9)]
        scores = [np.full(4, top) for top in (7.0, 8.0, 9.0, *[-50.0] * 6)]
        assert thresholds(scores, runs, [0.1, 0.3, 0.8]) == pytest.approx([9.0, 7.0, 7.0])


class TestFiles:
    def test_a_file_of_runs_becomes_a_file_with_a_model(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(risk_model, "SETS", {"effort": risk_model.SETS["effort"]})
        runs, out = tmp_path / "runs.jsonl.gz", tmp_path / "risk.json"
        _write(runs, recordings(20))
        told: list[str] = []
        model = train(read_recordings([runs]), progress=told.append)
        save(model, out)
        assert load(out) == model
        assert told
        said = summary(model)
        assert "synthetic: 40 runs, 20 failed. Where 10% of the succeeding runs are stopped" in said
        assert "tasks that the model had not seen" in said


def _write(path: Path, runs: Sequence[Recording]) -> None:
    lines: list[bytes] = []
    for run in runs:
        steps: list[dict[str, object]] = [
            {
                "index": index,
                "kind": act.kind,
                "name": act.name,
                "text": act.text,
                "args": act.arguments,
                "error": bool(act.error),
                "resources": [],
                "tokens_in": act.tokens_in,
                "tokens_out": act.tokens_out,
            }
            for index, act in enumerate(one for one in run.acts if isinstance(one, Called))
        ]
        line: dict[str, object] = {
            "source": run.source,
            "run_id": run.run_id,
            "task_key": run.task_key,
            "goal": run.goal,
            "outcome": run.outcome,
            "steps": steps,
        }
        lines.append(msgspec.json.encode(line))
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
