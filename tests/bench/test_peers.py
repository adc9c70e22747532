"""The peers are asked the same, each says what it follows and what it does less, and the report adds up."""

import ast
import itertools
import json
from pathlib import Path
from typing import Final

import pytest

from bench import plot
from bench.peers import __main__ as command
from bench.peers import chart, growth, report, trial
from bench.peers.case import CASES, Case, Figure
from bench.peers.catalogue import CATALOGUE, OURS, Entry, entry

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = sorted({one.module for one in CATALOGUE})
NEEDED: Final = {
    "stop": {"start", "stop"},
    "stop_elsewhere": {"start", "stop", "elsewhere"},
    "step": {"start", "result"},
    "store": {"start", "result"},
    "sessions": {"start", "result"},
    "resume": {"stand", "resume"},
    "recover": {"start", "result"},
    "start": set[str](),
}
"""By case: the methods of the protocol that a peer has to write itself."""


def source(module: str) -> ast.Module:
    """A peer's module, without importing its framework."""
    return ast.parse((ROOT / "bench" / "peers" / f"{module}.py").read_text(encoding="utf-8"))


def run_of(values: dict[str, dict[str, list[report.Round]]]) -> report.Run:
    """A run with these figures."""
    return report.Run("2026-11-19", 2, 1, {"python": "3.11"}, values)


@pytest.mark.parametrize("module", MODULES)
def test_a_peer_names_the_page_it_follows(module: str) -> None:
    (line,) = [line for line in (ast.get_docstring(source(module)) or "").splitlines() if line.startswith("Page: ")]
    address, _, title = line.removeprefix("Page: ").partition(", ")
    assert address.startswith("https://") or (ROOT / address).is_file()
    assert title.startswith('"')
    assert title.endswith('"')


@pytest.mark.parametrize("module", MODULES)
def test_a_peer_does_every_case_that_it_does_not_refuse_with_a_reason(module: str) -> None:
    (peer,) = [one for one in source(module).body if isinstance(one, ast.ClassDef) and one.name == "Peer"]
    written = {one.name for one in peer.body if isinstance(one, ast.AsyncFunctionDef)}
    for one in CATALOGUE:
        if one.module == module:
            lacking = {case: needed - written for case, needed in NEEDED.items() if case not in one.cannot}
            assert {case: names for case, names in lacking.items() if names} == {}


def test_cases_measures_and_what_the_catalogue_says_fit_together() -> None:
    names = {case.name for case in CASES}
    assert names == set(trial.MEASURES) == set(NEEDED)
    for one in CATALOGUE:
        assert set(one.notes) | set(one.cannot) <= names
        assert not set(one.notes) & set(one.cannot)
    for case in CASES:
        assert case.size.keys() == case.quick.keys()
        assert all(case.quick[part] <= case.size[part] for part in case.size)


def test_every_stop_says_whether_it_is_durable_and_resumable() -> None:
    for one in CATALOGUE:
        if "stop" not in one.cannot:
            said = one.notes["stop"]
            assert "not durable" in said or "durable and resumable" in said or "not resumable" in said


def test_a_case_is_asked_of_all_peers_before_the_next_in_an_order_that_the_seed_decides() -> None:
    trials = command.plan(CATALOGUE, CASES, 3, seed=1)
    assert trials == command.plan(CATALOGUE, CASES, 3, seed=1)
    assert trials != command.plan(CATALOGUE, CASES, 3, seed=2)
    asked = [(number, case.name, one.name) for number, case, one in trials]
    assert len(set(asked)) == len(asked)
    blocks = [block for block, _ in itertools.groupby(asked, key=lambda one: one[:2])]
    assert blocks == [(number, case.name) for number in range(3) for case in CASES if number < case.rounds]
    for number, case in blocks:
        able = {one.name for one in CATALOGUE if case not in one.cannot}
        assert {name for n, c, name in asked if (n, c) == (number, case)} == able


def test_a_ratio_is_taken_within_a_round_and_has_a_spread() -> None:
    ours = [[1.0, 2.0, 3.0], [10.0]]
    theirs = [[4.0], [40.0, 60.0, 50.0]]
    spread = report.ratio(theirs, ours)
    assert spread == report.Spread(3.5, 2.0, 5.0)
    assert str(spread) == "3.5 (2 to 5)"
    assert str(report.ratio(ours, ours)) == "1"


def test_a_round_in_which_a_peer_failed_is_compared_with_no_other() -> None:
    rounds: dict[str, list[report.Round]] = {
        OURS: [{"step": [1.0]}, {"step": [100.0]}, {"step": [10.0]}],
        "dbos": [{"step": [2.0]}, "it broke", {"step": [20.0]}],
    }
    run = run_of({"step": rounds})
    spread = report.ratio(run.values_of("step", "dbos", "step"), run.values_of("step", OURS, "step"))
    assert spread == report.Spread(2.0, 2.0, 2.0)
    assert run.failure("step", "dbos") is None


def test_there_is_no_ratio_to_zero() -> None:
    assert report.ratio([[1.0], [2.0]], [[0.0], [1.0]]) is None


def test_a_row_has_the_figures_the_ratio_and_what_is_done_less() -> None:
    case = CASES[0]
    langgraph = entry("langgraph")
    run = run_of(
        {
            "stop": {
                OURS: [{"last": [0.0, 0.0], "confirmed": [4.0, 2.0]}],
                "langgraph": [{"last": [0.0, 1.0], "confirmed": [1.0, 2.0]}],
            }
        }
    )
    note = langgraph.notes["stop"]
    assert report.row(run, case, langgraph) == ["LangGraph", "0.5 / 1 ms", "", "1.5 / 2 ms", "0.5", note]
    assert note in report.text_table(run, case)


def test_a_peer_that_cannot_and_one_that_failed_say_why_in_the_table() -> None:
    case = next(case for case in CASES if case.name == "stop_elsewhere")
    run = run_of({"stop_elsewhere": {OURS: [{"last": [1.0], "confirmed": [2.0]}], "dbos": [trial.LATE]}})
    run.values["stop"] = {"langgraph": [{"last": [0.0], "confirmed": [1.0]}]}
    lines = report.text_table(run, case).splitlines()
    assert any(line.startswith("LangGraph") and entry("langgraph").cannot["stop_elsewhere"] in line for line in lines)
    assert any(line.startswith("DBOS") and trial.LATE in line for line in lines)


def test_a_peer_that_is_not_installed_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    absent = Entry("absent", "Absent", ("no-such-package",), "import no_such_package")
    assert command.installed([entry("floor"), absent]) == [entry("floor")]
    said = capsys.readouterr().out
    assert said == ("Absent is not measured. Missing here: no-such-package. `make peers` installs what is missing.\n")


def test_an_unknown_peer_or_case_ends_with_the_names_there_are() -> None:
    with pytest.raises(SystemExit, match="There is no peer dbso. There are: floor, midcourse"):
        command.main(["--only", "floor,dbso"])
    with pytest.raises(SystemExit, match="There is no case steps. There are: stop, "):
        command.main(["--cases", "steps"])


@pytest.mark.parametrize("name", ["floor", OURS])
def test_a_trial_measures_in_a_process_of_its_own(name: str) -> None:
    stopped = trial.run(name, "stop", {"stops": 1})
    assert isinstance(stopped, dict), stopped
    assert stopped.keys() == {"last", "confirmed"}
    assert 0 <= stopped["last"][0] < 2000, "the call was cut, it did not run to its end"


def test_a_trial_that_fails_says_why() -> None:
    assert trial.run("floor", "step", {"stepps": 1}) == (
        "TypeError: step() got an unexpected keyword argument 'stepps'"
    )


def test_the_lock_of_the_peers_has_them_all_with_hashes_and_no_addresses() -> None:
    lock = (ROOT / "requirements" / "peers.txt").read_text(encoding="utf-8")
    locked = {line.partition("==")[0] for line in lock.splitlines() if "==" in line}
    assert {package for one in CATALOGUE for package in one.packages} <= locked
    assert lock.count("--hash=sha256:") >= len(locked)
    assert "://" not in lock
    servers = (ROOT / "requirements" / "restate" / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in servers
    packages = json.loads(servers)["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)


def test_the_readme_and_the_page_show_the_last_complete_run() -> None:
    if report.RESULTS.exists():
        run = report.Run.read()
        shown, pictured = report.markdown(run), chart.picture(run)
    else:
        shown = pictured = report.UNMEASURED
    assert report.shown_in(report.README) == shown
    assert report.shown_in(report.PAGE) == pictured


def test_an_exponent_is_the_slope_in_logarithms() -> None:
    assert plot.exponent([(1, 5.0), (10, 5.0), (100, 5.0)]) == pytest.approx(0.0)
    assert plot.exponent([(1, 2.0), (3, 6.0), (10, 20.0)]) == pytest.approx(1.0)
    assert plot.exponent([(10, 1.0), (100, 100.0)]) == pytest.approx(2.0)


def test_the_plots_name_everyone_and_are_readable_on_both_pages(tmp_path: Path) -> None:
    case = Case("step", "Step", "A step", (Figure("step", "a step", "ms"),), {}, {})
    run = run_of({case.name: {one.name: [{"step": [1.0]}, {"step": [2.0]}] for one in CATALOGUE}})
    chart.write(run, tmp_path / "peers.svg")
    drawn = (tmp_path / "peers.svg").read_text()
    assert all(one.title.replace("`", "") in drawn for one in CATALOGUE)
    assert "prefers-color-scheme: dark" in drawn
    found = {growth.QUESTIONS[0].says: {OURS: [(100.0, 1.0), (300.0, 3.0), (1000.0, 10.0)]}}
    growth.draw(found, tmp_path / "growth.svg")
    assert "replay: 1.00" in (tmp_path / "growth.svg").read_text()
    assert "| 100, 300, 1,000 | 1, 3, 10 ms | 1.00 |" in growth.markdown(found, "2026-11-19")
