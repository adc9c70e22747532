"""The control protocol holds in every state of the small cases, and each rule is needed.

Cases above ``BUDGET`` states are left to ``make model``.
"""

import re
from pathlib import Path

import pytest

from tests.model import scope
from tests.model.cases import LATER_PAUSE, SMALL, SWITCHED_OFF, B, Off, describe, send
from tests.model.explore import explore
from tests.model.rules import ALL_RULES, ALTERNATIVES, IN_CODE, Bounds, Rules, toggled

BUDGET = 30_000
"""States per case: up to here all of them take about a quarter of a minute together, on one core."""

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "midcourse"
LINE = re.compile(r"(?P<case>.+): (?P<states>\d+) states, (?P<moves>\d+) moves, holds")
RECORDED = {
    found["case"]: (int(found["states"]), int(found["moves"]))
    for found in map(LINE.fullmatch, (HERE / "results" / "all-on-small.txt").read_text().splitlines())
    if found
}
"""States and moves of each small case, as ``python -m tests.model all-on small`` printed them last."""

WITHIN = sorted((b for b in SMALL if RECORDED.get(describe(b), (0, 0))[0] <= BUDGET), key=describe)


def off_id(case: Off) -> str:
    with_them = "".join(f" and {rule}" for rule in case.also)
    return f"without {case.rule}{with_them}: {describe(case.bounds)}"


@pytest.mark.parametrize("bounds", WITHIN, ids=describe)
def test_with_all_rules_nothing_breaks_and_every_state_was_seen(bounds: Bounds) -> None:
    found = explore(Rules(), bounds)
    assert found.complete
    assert found.found == {}
    assert (found.states, found.moves) == RECORDED[describe(bounds)], "the model has changed: record its results again"


@pytest.mark.parametrize("case", SWITCHED_OFF, ids=off_id)
def test_a_rule_switched_off_breaks_what_is_recorded_and_nothing_with_the_rule_on(case: Off) -> None:
    assert set(explore(toggled(case.rule, *case.also), case.bounds).found) == set(case.breaks)
    assert set(explore(toggled(*case.also), case.bounds).found) == set(case.left)


def test_every_rule_is_needed_somewhere() -> None:
    needed = {case.rule for case in SWITCHED_OFF if set(case.breaks) - set(case.left)}
    assert needed == set(ALL_RULES) - set(ALTERNATIVES)


def test_a_resume_that_names_its_pause_never_lifts_a_later_one_in_whatever_order_rows_are_decided() -> None:
    bounds = B(("read",), send("pause resume", "pause"))
    assert LATER_PAUSE not in explore(toggled("inbox_order"), bounds).found
    assert LATER_PAUSE in explore(toggled("inbox_order", "resume_names_pause"), bounds).found


def test_a_silent_workers_call_may_be_called_unknown_instead_of_trusting_settle() -> None:
    bounds = B(("rev",), send("cancel"), stall=1)
    assert explore(toggled("stall_in_settle"), bounds).found
    assert not explore(toggled("stall_in_settle", "silent_unknown"), bounds).found


@pytest.mark.parametrize(
    ("reading", "holds"),
    [
        pytest.param(scope.Reading(True, True), False, id="a snapshot opens a scope"),
        pytest.param(scope.Reading(False, False), False, id="a checkpoint has a fresh id"),
        pytest.param(scope.Reading(False, True), True, id="only checkpoints open a scope, named by their place"),
    ],
)
def test_a_journaled_step_runs_again_unless_only_checkpoints_named_by_place_open_scopes(
    reading: scope.Reading, holds: bool
) -> None:
    _, trace = scope.search(reading)
    assert (trace is None) == holds


def test_every_rule_has_a_flag_a_sentence_and_a_place() -> None:
    assert tuple(ALL_RULES) == Rules._fields == tuple(name for name in Rules._fields if name in IN_CODE)
    assert set(IN_CODE) == set(ALL_RULES)


@pytest.mark.parametrize("rule", [rule for rule, place in IN_CODE.items() if not isinstance(place, str)])
def test_the_modules_that_implement_a_rule_exist(rule: str) -> None:
    missing = [module for module in IN_CODE[rule] if not module_exists(module)]
    assert not missing, f"{rule}: say in tests/model/rules.py where the code has it now"


def module_exists(module: str) -> bool:
    path = SOURCE / module
    return path.is_file() or (path.with_suffix("") / "__init__.py").is_file()


def test_all_small_cases_are_recorded() -> None:
    assert [describe(b) for b in SMALL] == list(RECORDED)
