"""The checklist: each item holds, does not, or is unknown, with the number behind it; nothing is ticked by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from midcourse.analysis.reports.checklist import ChecklistItem, checklist
from midcourse.analysis.reports.checklist_inputs import Grounds, grounds_of, read_backtest
from midcourse.analysis.reports.report import Report
from midcourse.analysis.reports.totals import Tally
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.terms import Terms
from midcourse.errors import InvalidInput
from midcourse.policy.document import DriftRule
from midcourse.policy.profiles import STANDARD
from tests.reports.journals import Journal
from tests.reports.recorded_fleet import recorded_fleet

GROUNDS = Grounds(policy=STANDARD, durability="power", encoder="words-1", domains=frozenset({"general"}))
EMPTY = Tally().report(0.0, 1.0)


def items(report: Report = EMPTY, grounds: Grounds = GROUNDS) -> dict[str, ChecklistItem]:
    return {one.id: one for one in checklist(report, grounds)}


def of(*journals: Journal) -> Report:
    tally = Tally()
    for journal in journals:
        tally.add(journal.facts(), STANDARD)
    return tally.report(0.0, 1.0)


def stopped(**tool: Any) -> Journal:
    journal = Journal(terms=Terms(policy="standard@1", budget=5.0)).started()
    if tool:
        journal.called(2.0, **tool)
    journal.wished(cmd.Pause, 5.0).happens(ev.SessionPaused(), at=5.01)
    return journal.wished(cmd.Resume, 9.0)


def test_of_an_empty_store_nothing_that_needs_sessions_is_claimed() -> None:
    found = items()
    known = {name for name, one in found.items() if one.answer != "unknown"}
    assert known == {"durability", "drift-encoder", "drift-calibrated", "thresholds-own"}
    assert all(one.number for one in found.values())
    assert all(one.todo for one in found.values() if one.answer != "holds")


@pytest.mark.parametrize(
    ("durability", "answer"), [("power", "holds"), ("process", "does not"), ("nothing", "does not")]
)
def test_a_store_must_survive_a_power_cut(durability: str, answer: str) -> None:
    assert items(grounds=replace(GROUNDS, durability=durability))["durability"].answer == answer


def test_stops_are_measured_in_the_journals() -> None:
    found = items(of(*(stopped() for _ in range(40))))
    assert (found["stop-p50"].answer, found["stop-p99"].answer) == ("holds", "holds")
    assert found["stop-p50"].number == "10 ms, of 40 stops; 0 more let a call finish"
    slow = [Journal().started().wished(cmd.Pause, 5.0).happens(ev.SessionPaused(), at=9.0) for _ in range(40)]
    assert items(of(*slow))["stop-p99"].answer == "does not"
    assert items(of(stopped()))["stop-p99"].answer == "unknown"


@pytest.mark.parametrize(
    ("tool", "declared", "probed"),
    [
        ({}, "unknown", "unknown"),
        ({"effect": "read"}, "unknown", "unknown"),
        ({"effect": "irreversible"}, "does not", "does not"),
        ({"effect": "irreversible", "can_probe": True}, "holds", "holds"),
        ({"effect": "reversible", "can_undo": True}, "holds", "holds"),
        ({"effect": "idempotent"}, "holds", "holds"),
    ],
)
def test_tools_are_judged_by_what_they_declared_when_they_were_called(
    tool: dict[str, object], declared: str, probed: str
) -> None:
    found = items(of(stopped(**tool)))
    assert (found["tools-declared"].answer, found["irreversible-probed"].answer) == (declared, probed)
    if declared == "does not":
        assert "call" in found["tools-declared"].number


def test_a_call_that_outlived_its_stop_is_named() -> None:
    journal = Journal().started()
    step = journal.begun(5.0, name="send_mail", effect="irreversible")
    journal.wished(cmd.Cancel, 6.0)
    journal.happens(ev.SessionCancelled(receipt=(ev.ReceiptLine(step, "send_mail", "still running"),)), at=8.0)
    found = items(of(journal))["no-call-outlives"]
    assert (found.answer, found.number) == ("does not", "in 1 of 1 sessions: sess_1 (send_mail)")


def answered(after: float) -> Journal:
    journal = Journal().started().stepped_in("pause", 20.0).happens(ev.SessionPaused(), at=20.2)
    return journal.answered("ask_1", "go on", 20.0 + after)


@pytest.mark.parametrize(("after", "answer"), [(60.0, "holds"), (3000.0, "does not")])
def test_somebody_must_answer_in_time(after: float, answer: str) -> None:
    assert items(of(*(answered(after) for _ in range(30))))["answered"].answer == answer


@pytest.mark.parametrize("after", [60.0, 3000.0])
def test_one_answer_says_as_little_here_as_in_the_report(after: float) -> None:
    report = of(answered(after))
    found = items(report)["answered"]
    assert (report.answers.within.verdict, found.answer) == ("too few to say", "unknown")
    assert found.number.startswith(f"{'100' if after < 300 else '0'} % of 1 answers")
    assert found.todo == "Too few to say: it takes 30 answers."


def test_labels_must_be_enough_and_right_often_enough() -> None:
    def alarm(label: ev.Verdict | None) -> Journal:
        journal = Journal().started().stepped_in("ask_plan", 5.0)
        return journal if label is None else journal.labelled("int_1", label)

    few = items(of(alarm(None)))
    assert (few["labelled"].answer, few["false-positives"].answer) == ("does not", "unknown")
    assert few["labelled"].number == "0 of 1 are; too few: loops of worker (0)"
    good = items(of(*(alarm("right") for _ in range(10))))
    assert (good["labelled"].answer, good["false-positives"].answer) == ("holds", "holds")
    bad = items(of(*(alarm("wrong") for _ in range(10))))
    assert (bad["false-positives"].answer, "loops of worker (100 %)" in bad["false-positives"].number) == (
        "does not",
        True,
    )


def test_policies_must_be_pinned_and_budgets_set() -> None:
    assert [items(of(stopped()))[name].answer for name in ("pinned", "budget")] == ["holds", "holds"]
    bare = Journal(terms=Terms()).started()
    found = items(of(stopped(), bare))
    assert (found["pinned"].answer, found["pinned"].number) == ("does not", "1 of 2 sessions")
    assert found["budget"].answer == "does not"


def test_a_backtest_must_be_of_this_policy() -> None:
    assert items()["backtested"].answer == "unknown"
    assert items(grounds=replace(GROUNDS, backtested={"standard@1": 500}))["backtested"].answer == "holds"
    other = items(grounds=replace(GROUNDS, backtested={"team@2": 500}))["backtested"]
    assert (other.answer, "team@2" in other.number) == ("does not", True)


def test_drift_needs_an_encoder_and_a_scale_unless_the_policy_has_no_threshold_for_it() -> None:
    none = items(grounds=replace(GROUNDS, encoder=None, no_encoder="none is installed", domains=frozenset()))
    assert (none["drift-encoder"].answer, none["drift-encoder"].number) == ("does not", "none is installed")
    assert none["drift-calibrated"].answer == "unknown"
    assert items(grounds=replace(GROUNDS, domains=frozenset({"web"})))["drift-calibrated"].answer == "does not"
    without = replace(STANDARD, signals=replace(STANDARD.signals, scope_drift=DriftRule(warn=None, intervene=None)))
    assert "drift-encoder" not in items(grounds=replace(GROUNDS, policy=without))


def test_drift_from_the_hypothesis_alone_needs_an_encoder_and_a_scale_too() -> None:
    rule = DriftRule(warn=None, intervene=None, alignment=0.6)
    policy = replace(STANDARD, signals=replace(STANDARD.signals, scope_drift=rule))
    found = items(grounds=replace(GROUNDS, policy=policy, encoder=None, domains=frozenset()))
    assert (found["drift-encoder"].answer, found["drift-calibrated"].answer) == ("does not", "unknown")


def test_task_classes_must_be_declared_and_fit() -> None:
    found = items(of(*recorded_fleet()))
    assert (found["classes-declared"].answer, found["classes-declared"].number) == ("holds", "19 of 19 sessions")
    assert (found["classes-fit"].answer, found["classes-fit"].number) == (
        "unknown",
        "short (up to 30 s): 66.7 % of 3; medium (30 s–5 min): 100 % of 1; long (over 5 min): 50 % of 2",
    )
    undeclared = items(of(stopped(), *recorded_fleet()))["classes-declared"]
    assert (undeclared.answer, undeclared.number) == ("does not", "19 of 20 sessions")
    slow = [took(45.0) for _ in range(40)]
    assert items(of(*slow))["classes-fit"].answer == "does not"
    assert items(of(*(took(20.0) for _ in range(40))))["classes-fit"].answer == "holds"


def took(seconds: float) -> Journal:
    journal = Journal(terms=Terms(policy="standard@1", task_class="short")).started(0.0)
    return journal.happens(ev.SessionCompleted(), at=seconds)


def test_strategies_must_be_kept() -> None:
    found = items(of(*recorded_fleet()))
    assert (found["strategy-finish"].answer, found["strategy-finish"].number) == (
        "holds",
        "0 of 3 sessions that declared a short or protected class",
    )
    assert (found["strategy-continue"].answer, found["strategy-continue"].number) == (
        "does not",
        "66.7 % of 6; 1 not known yet",
    )
    terms = Terms(policy="standard@1", task_class="short")
    stopped_by_policy = Journal(terms=terms).started().stepped_in("stop", 5.0).happens(ev.SessionPaused(), at=5.1)
    assert items(of(stopped_by_policy))["strategy-finish"].answer == "does not"


@pytest.mark.parametrize(("flaw", "answer"), [("", "holds"), ("its list says completed", "does not")])
def test_what_was_stopped_must_come_to_the_same_state_again(flaw: str, answer: str) -> None:
    tally = Tally()
    for number in range(40):
        tally.add(replace(stopped().facts(), flaw=flaw if number == 0 else ""), STANDARD)
    found = items(tally.report(0.0, 1.0))["strategy-consistent"]
    assert found.answer == answer
    assert found.number.startswith("40 of 40" if answer == "holds" else "39 of 40 sessions; not: sess_1")


def test_thresholds_must_be_ones_own_and_their_figures_known() -> None:
    found = items(of(*recorded_fleet()))
    assert (found["thresholds-own"].answer, found["thresholds-own"].number) == (
        "does not",
        "standard@1 has the thresholds that were shipped",
    )
    mine = replace(STANDARD, name="mine", signals=replace(STANDARD.signals, scope_drift=DriftRule(warn=0.6)))
    assert items(grounds=replace(GROUNDS, policy=mine))["thresholds-own"].answer == "holds"
    assert (found["thresholds-cost"].answer, found["thresholds-cost"].number) == (
        "holds",
        "unknown in 0 of 3 sessions with a decision",
    )
    assert (found["thresholds-estimate"].answer, found["thresholds-estimate"].number) == (
        "unknown",
        "within 20 % in 50 % of 2; 2 of 13 runs had an estimate",
    )
    blind = Journal().started().stepped_in("pause", 20.0, unseen=("cost",))
    unpriced = items(of(blind))["thresholds-cost"]
    assert (unpriced.answer, unpriced.number) == ("does not", "unknown in 1 of 1 sessions with a decision")


async def test_the_grounds_are_looked_up_here(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    result.write_text(json.dumps({"policies": {"standard@1": {"all": {"runs": 12}}}}), encoding="utf-8")
    found = await grounds_of(STANDARD, "power", result)
    assert found.backtested == {"standard@1": 12}
    assert (found.encoder is None) == bool(found.no_encoder)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\xff", b'{"policies": 5}', b'{"policies": {"a": {}}}', b"{" * 9999]
)
def test_a_file_that_is_no_result_of_a_backtest_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="is not the result of a backtest"):
        read_backtest(path)
    with pytest.raises(InvalidInput, match="is not the result of a backtest"):
        read_backtest(tmp_path / "nowhere.json")


def test_completed_runs_and_the_quality_of_interrupted_ones_are_held_against_the_targets() -> None:
    done = [Journal().started().happens(ev.SessionCompleted(), at=9.0) for _ in range(60)]
    found = items(of(*done))["completed"]
    assert (found.answer, found.number) == ("holds", "60 of 60 that have ended")
    failed = [Journal().started().happens(ev.SessionFailed(code="e", message="no"), at=9.0) for _ in range(60)]
    assert items(of(*done, *failed))["completed"].answer == "does not"
    ended = [stopped().happens(ev.SessionCompleted(), at=12.0) for _ in range(40)]
    assert items(of(*ended))["quality"].answer == "holds"
    assert (
        items(of(*(stopped().happens(ev.SessionFailed(code="e", message="no"), at=12.0) for _ in range(40))))[
            "quality"
        ].answer
        == "does not"
    )
