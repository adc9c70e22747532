"""``midcourse policy backtest``: tables for people, one document for programs, and clear words for bad input."""

import json
from pathlib import Path

import pytest

from midcourse.policy.signals.risk import Domain, RiskModel, Stated, load, save
from tests.cli.conftest import Command

DATA = Path(__file__).parent.parent / "backtest" / "data"
RUNS = str(DATA / "runs.jsonl")


def test_it_prints_the_figures_by_source(midcourse: Command) -> None:
    done = midcourse("policy", "backtest", RUNS)
    assert done.code == 0, done.err
    header, *rows = done.out.splitlines()[1:]
    assert header.split()[:3] == ["source", "policy", "runs"]
    fixer = next(row for row in rows if row.startswith("fixer"))
    assert fixer.split()[1:6] == ["standard@1", "3", "2", "1", "0.50"]
    assert any("(doing nothing)" in row for row in rows)
    assert "– recall: no run here is known to have failed (desk)." in rows
    assert done.err == ""


def test_its_document_has_every_source_on_top(midcourse: Command) -> None:
    done = midcourse("policy", "backtest", "--policy", "standard", RUNS, "--format", "json")
    assert done.code == 0, done.err
    document = done.json()
    assert done.out.count("\n") == 1
    fixer = document["sources"]["fixer"]
    assert (fixer["runs"], fixer["failures"], fixer["successes"], fixer["interventions"]) == (3, 2, 1, 1)
    assert (fixer["recall"], fixer["false_positive_rate"], fixer["precision"]) == (0.5, 0.0, 1.0)
    assert 0 < fixer["steps_saved"] < 1
    assert document["sources"]["desk"]["recall"] is None
    assert document["policies"]["standard@1"]["sources"] == document["sources"]
    assert document["baseline"]["all"]["interventions"] == 0
    assert midcourse("policy", "backtest", RUNS, "--json").json() == document


def test_policies_are_built_in_or_files_and_stand_side_by_side(midcourse: Command, folder: Path) -> None:
    (folder / "strict.yaml").write_text("policy: strict\nsignals:\n  errors:\n    streak: 2\n")
    done = midcourse("policy", "backtest", "-p", "permissive", "-p", "strict.yaml", RUNS, "--format", "json")
    assert done.code == 0, done.err
    document = done.json()
    assert list(document["policies"]) == ["permissive@1", "strict@0"]
    assert document["policies"]["strict@0"]["all"]["levels"] == {"stop": 1}


def test_a_policy_that_cannot_be_read_is_told_and_nothing_runs(midcourse: Command, folder: Path) -> None:
    (folder / "typo.yaml").write_text("policy: mine\nsignals:\n  scope_drfit:\n    warn: 0.5\n")
    done = midcourse("policy", "backtest", "-p", "typo.yaml", RUNS)
    assert (done.code, done.out) == (1, "")
    assert "line 3" in done.err
    assert "scope_drift" in done.err
    nobody = midcourse("policy", "backtest", "-p", "nobody", RUNS).err
    assert "There is no policy" in nobody
    assert "midcourse policy show NAME > NAME.yaml" in nobody


def test_a_policy_that_is_saved_in_the_store_is_found_there(midcourse: Command, folder: Path) -> None:
    (folder / "mine.yaml").write_text("policy: mine\nsignals:\n  errors:\n    streak: 2\n")
    store = "sqlite:///.midcourse/midcourse.db"
    assert midcourse("policy", "save", "mine.yaml", "--why", "a trial").code == 0
    for given in (store, ".midcourse/midcourse.db"):
        done = midcourse("policy", "backtest", "-p", "mine", given, "--json")
        assert done.code == 0, done.err
        assert list(done.json()["policies"]) == ["mine@1"]
    elsewhere = midcourse("policy", "backtest", "-p", "mine", RUNS)
    assert (elsewhere.code, elsewhere.out) == (1, "")
    assert "There is no policy" in midcourse("policy", "backtest", "-p", "yours", store).err
    missing = midcourse("policy", "backtest", "-p", "standard", "sqlite:///nowhere.db")
    assert "There is no store" in missing.err
    assert not (folder / "nowhere.db").exists()


def test_a_file_that_is_not_there_is_told(midcourse: Command) -> None:
    done = midcourse("policy", "backtest", "nowhere.jsonl", "--format", "json")
    assert (done.code, done.out) == (1, "")
    told = json.loads(done.err)
    assert told["code"] == "no_such_file"
    assert "nowhere.jsonl" in told["detail"]


def test_what_is_left_out_is_told_on_stderr_and_counted(midcourse: Command, folder: Path) -> None:
    cut = (DATA / "runs.jsonl").read_text()[:-100]
    (folder / "cut.jsonl").write_text(cut)
    done = midcourse("policy", "backtest", "cut.jsonl", "--format", "json")
    assert done.code == 0
    assert "cut.jsonl, line 5: This line is not JSON" in done.err
    document = done.json()
    assert (document["all"]["runs"], document["left_out"]) == (4, 1)
    assert document["notices"][0]["line"] == 5
    assert "Left out: 1 lines" in midcourse("policy", "backtest", "cut.jsonl").out


def test_what_became_of_each_run_can_be_written(midcourse: Command, folder: Path) -> None:
    done = midcourse("policy", "backtest", "-p", "standard", "-p", "permissive", RUNS, "--verdicts", "verdicts.jsonl")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in (folder / "verdicts.jsonl").read_text().splitlines()]
    assert len(lines) == 2 * 5
    stopped = next(line for line in lines if line["stopped_at_step"] is not None)
    assert (stopped["policy"], stopped["run_id"]) == ("standard@1", "fixer/b/0")
    assert "errors" in stopped["why"]
    refused = midcourse("policy", "backtest", RUNS, "--verdicts", "no/such/folder.jsonl")
    assert refused.code == 1
    assert "cannot be written" in refused.err


def test_asking_for_a_plan_need_not_count(midcourse: Command) -> None:
    counted = midcourse("policy", "backtest", RUNS, "--json").json()["all"]
    only_stops = midcourse("policy", "backtest", "--no-plan-asks", RUNS, "--json").json()["all"]
    assert counted["levels"] == {"ask_plan": 1}
    assert "ask_plan" not in only_stops["levels"]
    assert only_stops["warnings"] > counted["warnings"]


def test_pictures_are_drawn_where_they_are_wanted(midcourse: Command, folder: Path) -> None:
    done = midcourse("policy", "backtest", RUNS, "--plots", "pictures")
    assert done.code == 0, done.err
    assert "Drawn: pictures/recall.png" in done.out
    assert (folder / "pictures" / "when.svg").is_file()


def model(folder: Path) -> Path:
    """A risk that alarms at errors alone, and of runs of the desk never."""
    stated = Stated(false_stops=0.1, recall=0.2, steps_saved=0.1)
    often = Domain(
        offset=-2.0, weights={"errors": (0.0, 5.0)}, target=0.1, alarms={0.1: 0.5}, runs=9, failures=3, stated=stated
    )
    never = Domain(offset=-9.0, weights={}, target=0.1, alarms={0.1: 0.9}, runs=9, failures=3, stated=stated)
    save(RiskModel(domains={"general": never, "fixer": often, "desk": never}), folder / "risk.json")
    return folder / "risk.json"


def test_the_risk_is_switched_on_before_the_files(
    midcourse: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midcourse.policy.signals.risk.shipped", lambda: load(model(folder)))
    done = midcourse("policy", "backtest", "--policy", "standard", "--risk", RUNS, "--format", "json")
    assert done.code == 0, done.err
    document = done.json()
    assert document["risk"] is True
    assert document["sources"]["fixer"]["signals"]["risk"] == {"interventions": 1, "failures": 1, "successes": 0}
    own = midcourse("policy", "backtest", "--risk-model", str(model(folder)), RUNS, "--format", "json").json()
    assert own == document
    assert midcourse("policy", "backtest", RUNS, "--json").json()["risk"] is False


def test_a_file_that_is_no_risk_model_is_told(midcourse: Command) -> None:
    done = midcourse("policy", "backtest", "--risk-model", RUNS, RUNS)
    assert (done.code, done.out) == (1, "")
    assert "runs.jsonl is no risk model" in done.err


@pytest.mark.parametrize("given", [".midcourse/midcourse.db", "sqlite:///.midcourse/midcourse.db"])
def test_the_sessions_of_a_store_are_runs_of_their_agents(midcourse: Command, given: str) -> None:
    done = midcourse("policy", "backtest", given, "--json")
    assert done.code == 0, done.err
    document = done.json()
    assert document["sources"]["told-writer"]["runs"] >= 1
    sessions = len(midcourse("ps", "--all", "--json").json()["sessions"])
    assert document["all"]["runs"] + document["left_out"] == sessions
    assert f"{document['left_out']} sessions here have no call that has ended" in done.err


def test_files_of_several_formats_are_read_together(midcourse: Command) -> None:
    done = midcourse("policy", "backtest", str(DATA), "--json")
    assert done.code == 0, done.err
    assert set(done.json()["sources"]) == {"fixer", "desk", "claude_code", "otel"}
    assert "The price of nobody-9 is unknown" in done.err
