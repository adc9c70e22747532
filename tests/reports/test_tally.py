"""Rates against targets: exact intervals, honest verdicts, and an alert for every target that was missed."""

from math import comb

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midcourse.analysis.reports.counters import times
from midcourse.analysis.reports.facts import Interruption, SessionFacts
from midcourse.analysis.reports.intervals import exact, rate, verdict
from midcourse.analysis.reports.number_format import amount, percent, seconds, span_of_target
from midcourse.analysis.reports.report import Report
from midcourse.analysis.reports.totals import report_of
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.budget import Outlay
from midcourse.core.caps import at_cap
from midcourse.core.policy_decision import Decision
from midcourse.core.rates import MEANINGS, by_whom
from midcourse.core.terms import TaskClass, Terms
from midcourse.policy.profiles import BUILT_IN, STANDARD
from tests.reports.journals import Journal

ASKS = Decision(level="ask", wanted="ask", policy="standard@1", question="ambiguous", words="Which of the two?")


def of(*facts: SessionFacts, policy: str = "standard") -> Report:
    """The report of these sessions."""
    sessions = [(one, BUILT_IN[policy]) for one in facts]
    return report_of(sessions, 0.0, 1.0)


def ran(
    outcome: str = "completed", *, task_class: TaskClass = "medium", stops: int = 0, score: int | None = None
) -> SessionFacts:
    """A session that was paused so many times, each for 20 ms."""
    journal = Journal(terms=Terms(policy="standard@1", task_class=task_class)).started()
    for number in range(stops):
        at = 10.0 * (number + 1)
        journal.wished(cmd.Pause, at).happens(ev.SessionPaused(), at=at + 0.02).wished(cmd.Resume, at + 5)
    end = ev.SessionFailed(code="x", message="y") if outcome == "failed" else ev.SessionCompleted()
    if outcome:
        journal.happens(end, at=10.0 * (stops + 2))
    return replace(journal.facts(), score=score)


# ---- intervals


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
        (1, 100, 0.000253, 0.05446),
        (10, 100, 0.0490, 0.1762),
        (100, 101, 0.9461, 0.99975),
    ],
)
def test_intervals_are_those_of_the_tables(part: int, whole: int, low: float, high: float) -> None:
    assert exact(part, whole) == (pytest.approx(low, rel=2e-3), pytest.approx(high, rel=2e-4))


@given(st.integers(1, 60).flatmap(lambda whole: st.tuples(st.integers(0, whole), st.just(whole))))
def test_an_interval_leaves_no_more_than_a_fortieth_on_each_side(given: tuple[int, int]) -> None:
    part, whole = given
    low, high = exact(part, whole)
    assert 0.0 <= low <= part / whole <= high <= 1.0

    def at_least(share: float, least: int) -> float:
        return sum(comb(whole, n) * share**n * (1 - share) ** (whole - n) for n in range(least, whole + 1))

    if part:
        assert at_least(low, part) == pytest.approx(0.025, abs=1e-6)
    if part < whole:
        assert 1 - at_least(high, part + 1) == pytest.approx(0.025, abs=1e-6)


def test_a_million_sessions_are_no_trouble() -> None:
    low, high = exact(150_000, 1_000_000)
    assert (low, high) == (pytest.approx(0.1493, abs=1e-4), pytest.approx(0.1507, abs=1e-4))


@pytest.mark.parametrize(
    ("part", "whole", "target", "said"),
    [
        (0, 0, (0.0, 0.0), "too few to say"),
        (0, 29, (0.0, 0.0), "too few to say"),
        (0, 612, (0.0, 0.0), "kept"),
        (1, 612, (0.0, 0.0), "above"),  # none at all was the target
        (62, 841, (0.05, 0.10), "kept"),
        (89, 402, (0.10, 0.20), "above"),
        (11, 58, (0.15, 0.30), "kept"),
        (100, 101, (0.999, 1.0), "too few to say"),  # one in a hundred may be chance
        (5, 12, (0.10, 0.20), "too few to say"),
        (12, 12, (0.10, 0.20), "above"),  # however few: this is no chance
        (1, 100, (0.05, 0.10), "too few to say"),
        (10, 1000, (0.05, 0.10), "below"),
    ],
)
def test_a_verdict_says_no_more_than_the_numbers_do(
    part: int, whole: int, target: tuple[float, float], said: str
) -> None:
    assert verdict(part, whole, target) == said
    assert rate(part, whole, target).verdict == said


# ---- the report


def test_each_class_is_held_against_its_own_targets() -> None:
    sessions = [ran(task_class="short") for _ in range(40)]
    sessions += [ran(stops=int(n < 8)) for n in range(100)]
    sessions += [ran("failed" if n < 60 else "completed", task_class="long") for n in range(100)]
    found = {row.task_class: row for row in of(*sessions).classes}
    assert list(found) == ["short", "medium", "long"]
    assert (found["short"].interrupted.verdict, found["short"].completed.verdict) == ("kept", "kept")
    medium = found["medium"].interrupted
    assert (medium.part, medium.of, medium.target, medium.verdict) == (8, 100, (0.05, 0.10), "kept")
    assert found["medium"].completed.share == 1.0
    assert (found["long"].completed.verdict, found["long"].completed.target) == ("below", (0.90, 0.95))


def test_live_sessions_count_for_interruption_and_not_for_completion() -> None:
    report = of(ran(""), ran(stops=1))
    assert (report.sessions, report.ended) == (2, 1)
    assert (report.classes[0].interrupted.of, report.classes[0].completed.of) == (2, 1)


def test_a_policy_s_own_targets_make_a_row_of_their_own() -> None:
    sessions = [(ran(task_class="long"), BUILT_IN[name]) for name in ("standard", "customer-support", "conservative")]
    rows = report_of(sessions, 0, 1).classes
    # Conservative aims at the same as standard.
    assert sorted(row.policies for row in rows) == [("conservative", "standard"), ("customer-support",)]


def test_every_missed_target_is_an_alert_with_its_numbers() -> None:
    sessions = [ran("failed", task_class="short", stops=1, score=1) for _ in range(60)]
    alerts = {one.what: one for one in of(*sessions).alerts}
    assert alerts.keys() == {"Interrupted", "Completed", "Satisfied", "Recovered"}
    assert (alerts["Interrupted"].measured, alerts["Interrupted"].target, alerts["Interrupted"].count) == (
        "100 %",
        "0 %",
        60,
    )
    assert alerts["Satisfied"].sentence == "Satisfied, short: 0 % of 60; the target is at least 80 %."


def test_to_complete_more_than_was_aimed_at_is_no_alert() -> None:
    report = of(*(ran(task_class="long", stops=int(n < 60)) for n in range(400)))
    assert report.classes[0].completed.verdict == "above"
    assert "Completed" not in {one.what for one in report.alerts}


def test_satisfied_are_those_who_gave_four_or_five() -> None:
    row = of(*(ran(score=score) for score in (1, 3, 4, 5, 5)), ran()).classes[0]
    assert (row.satisfied.part, row.satisfied.of, row.score) == (3, 5, 3.6)


def test_response_and_stop_times_are_held_against_p50_and_p99() -> None:
    fast, slow = [0.01] * 990, [0.4] * 9 + [3.0]
    found = times([*fast, *slow], 0.1, 0.5)
    assert (found.p50, found.p99, found.most) == (0.01, 0.01, 3.0)
    assert (found.verdict_p50, found.verdict_p99) == ("kept", "kept")
    found = times([0.2] * 300, 0.1, 0.5)
    assert (found.verdict_p50, found.verdict_p99) == ("above", "kept")
    assert times([0.01] * 10, 0.1, 0.5).verdict_p99 == "too few to say"
    assert times([], 0.1, 0.5).p50 is None


def test_a_preset_s_response_target_is_used() -> None:
    assert of(ran(stops=1), policy="trading").classes[0].stops.target_p99 == 0.2
    assert of(ran(stops=1), policy="code-generation").classes[0].stops.target_p99 == 5.0


def test_stops_that_let_a_call_finish_are_counted_apart() -> None:
    journal = Journal().started()
    step = journal.begun(5.0, name="send_mail", effect="irreversible")
    journal.wished(cmd.Pause, 6.0).finished(step, 15.9).happens(ev.SessionPaused(), at=16.0)
    report = of(journal.facts(), ran(stops=2))
    assert (report.stops.count, report.waited.count, report.waited.most) == (2, 1, pytest.approx(10.0))
    assert sum(bar.count for bar in report.histogram) == 2


def test_false_positives_are_counted_per_signal_and_agent_and_alerted_above_the_limit() -> None:
    facts: list[SessionFacts] = []
    for number in range(12):
        journal = Journal(agent="a" if number < 10 else "b").started()
        journal.stepped_in("ask_plan", 20.0, signal="scope_drift")
        facts.append(journal.labelled("int_1", "wrong" if number < 4 else "right").facts())
    report = of(*facts)
    rows = {row.agent: row for row in report.signals}
    assert (rows["a"].wrong, rows["a"].right, rows["a"].rate.share) == (4, 6, 0.4)
    assert (rows["b"].rate.of, rows["b"].needed) == (2, 10)
    assert (rows[""].interventions, rows[""].wrong) == (12, 4)
    assert [one.sentence for one in report.alerts if one.what == "False positives"] == [
        "False positives, scope_drift of a: 40 % of 10; the target is at most 30 %."
    ]


def test_what_a_person_did_is_no_false_positive_of_a_policy() -> None:
    journal = Journal().started().wished(cmd.Pause, 5.0).labelled("pause_1", "wrong")
    report = of(journal.facts())
    assert (report.signals, report.labelled.of) == ((), 0)


def test_a_warning_is_no_stepping_in_and_no_false_positive_unless_the_policy_was_held_back() -> None:
    warned = Journal().started().stepped_in("notify", 20.0).labelled("int_1", "wrong").facts()
    report = of(warned)
    assert (report.interventions, report.by, report.notices, report.kinds) == (0, {}, 1, ())
    assert (report.classes[0].interrupted.part, report.classes[0].interrupted_by) == (0, {})
    row = report.signals[0]
    assert (row.interventions, row.notices, row.wrong, row.rate.of) == (0, 1, 0, 0)
    held = Journal().started().stepped_in("notify", 20.0, wanted="pause").labelled("int_1", "wrong").facts()
    row = of(warned, held).signals[0]
    assert (row.interventions, row.notices, row.wrong, row.rate.share) == (0, 2, 1, 1.0)


def test_who_stopped_a_session_is_told_apart_and_a_session_that_several_stopped_counts_once() -> None:
    both = (
        Journal().started().stepped_in("stop", 5.0).happens(ev.SessionPaused(), at=5.2).answered("ask_1", "go on", 6.0)
    )
    both.wished(cmd.Pause, 8.0, by="ada").happens(ev.SessionPaused(), at=8.1)
    halted = Journal().started().wished(cmd.Halt, 5.0, by="op", role="operate")
    child = Journal().started().wished(cmd.Pause, 5.0, by="parent sess_0")
    late = Journal().started().wished(cmd.Cancel, 5.0, by="deadline")
    asked = Journal().started().wished(cmd.Intervene, 5.0, by="agent:worker", decision=ASKS)
    plan, told = (
        Journal().started().stepped_in("ask_plan", 5.0),
        Journal().started().wished(cmd.Redirect, 5.0, text="left"),
    )
    report = of(*(one.facts() for one in (both, halted, child, late, asked, plan, told)), ran())
    [row] = [one for one in report.classes if one.task_class == "long"]
    assert (row.interrupted.part, row.interrupted.of) == (5, 7)
    assert row.interrupted_by == dict.fromkeys(("person", "policy", "kill_switch", "parent", "deadline", "agent"), 1)
    assert by_whom(report.by).startswith("2 by people, 2 by policies, 1 by the agent itself, 1 by the kill switch")


def test_a_cap_that_holds_is_a_stop_of_the_budget_and_no_false_alarm() -> None:
    journal = Journal(terms=Terms(policy="standard@1", task_class="short", budget=0.3)).started()
    journal.happens(*at_cap(journal.session, Outlay(0.24), 0.12), ev.SessionPaused(), at=5.0).labelled(
        "pause_1", "wrong"
    )
    report = of(journal.facts())
    assert (report.by, by_whom(report.by)) == ({"budget": 1}, "1 by its budget")
    assert (report.classes[0].interrupted.part, report.classes[0].interrupted_by) == (1, {"budget": 1})
    assert (report.labelled.of, report.signals, report.returns.of) == (0, (), 0)
    assert report.against_strategy == {}


def test_a_hard_stop_is_against_the_strategy_only_of_a_class_that_was_declared() -> None:
    stopped = [
        replace(Journal().started().stepped_in("stop", 5.0).facts(), task_class="short", is_class_declared=declared)
        for declared in (True, False)
    ]
    assert of(*stopped).against_strategy == {"short": 1}


def test_the_response_to_people_counts_against_the_targets_of_their_class() -> None:
    paused = [
        Journal().started().wished(cmd.Pause, 5.2, put=5.0).happens(ev.SessionPaused(), at=5.5).facts()
        for _ in range(210)
    ]
    report = of(*paused)
    [row] = report.classes
    assert (row.response.count, row.response.p50, row.response.verdict_p50) == (210, pytest.approx(0.2), "above")
    assert (row.stops.p50, row.stops.verdict_p99) == (pytest.approx(0.5), "kept")
    assert [one.what for one in report.alerts if one.what.startswith(("Response", "Stop"))] == [
        "Response p50",
        "Stop p50",
    ]


def test_every_figure_has_its_words_beside_it() -> None:
    report = of(ran(stops=1))
    assert report.meanings == MEANINGS
    assert "stopped at least once, by anyone" in report.meanings["interrupted"]
    assert all(any(words in line for line in report.method) for words in MEANINGS.values())


def test_costs_and_quality_are_told_per_kind() -> None:
    journal = Journal().started().planned("done", "queued")
    step = journal.begun(5.0, kind="model")
    journal.stepped_in("pause", 6.0).happens(ev.StepCut(step=step, attempt=1, length=3), ev.SessionPaused(), at=6.2)
    journal.answered("ask_1", "go on", 36.0)
    journal.begun(36.5, kind="model", again=step)
    journal.finished(step, 40.0, attempt=2).planned("done", "done").happens(ev.SessionCompleted(), at=41.0)
    [row] = of(journal.facts()).kinds
    assert (row.kind, row.count, row.by, row.requests, row.estimated) == ("pause", 1, {"policy": 1}, 1, 1)
    assert (row.dollars, row.quality, row.progress) == (0.005, 1.0, 0.5)
    assert (row.expected_avoided, row.compared) == (pytest.approx(2.2), 1)
    assert row.cost is not None


def test_answers_are_held_against_the_policy_s_response_target() -> None:
    facts: list[SessionFacts] = []
    for number in range(40):
        journal = Journal().started().stepped_in("pause", 20.0).happens(ev.SessionPaused(), at=20.2)
        facts.append(journal.answered("ask_1", "go on", 3000.0 if number < 35 else 60.0).facts())
    report = of(*facts, Journal().started().stepped_in("pause", 20.0).facts())
    assert (report.answers.asked, report.answers.open, report.answers.within.part) == (41, 1, 5)
    assert report.answers.target == float(STANDARD.response_target)
    assert [one.what for one in report.alerts if one.where == "all questions"] == ["Answered"]
    assert report.answers.resolution.count == 40


def test_sessions_that_could_not_be_stopped_are_named_up_to_a_number() -> None:
    facts = [replace(ran(), id=f"sess_{number}", outlived=("send",)) for number in range(50)]
    report = of(*facts)
    assert (report.outlived_count, len(report.outlived)) == (50, 20)


def test_a_report_of_nothing_says_nothing() -> None:
    report = of()
    assert (report.sessions, report.classes, report.signals, report.kinds, report.alerts) == (0, (), (), (), ())


def test_a_report_survives_json() -> None:
    report = of(ran(stops=2, score=5), ran("failed"))
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_words() -> None:
    assert [percent(one) for one in (None, 0.0, 0.074, 1.0)] == ["–", "0 %", "7.4 %", "100 %"]
    assert [seconds(one) for one in (None, 0.0031, 1.9, 190, 9000, 200_000)] == [
        "–",
        "3.1 ms",
        "1.9 s",
        "3:10 min",
        "2.5 h",
        "2.3 d",
    ]
    targets = ((0.1, 0.2), (0.0, 0.0), (0.8, 1.0), (0.0, 0.3))
    assert [span_of_target(one) for one in targets] == ["10–20 %", "0 %", "at least 80 %", "at most 30 %"]
    assert [amount(one) for one in (None, 0.0, 0.005, 412.0)] == ["–", "$0.00", "$0.005", "$412.00"]
    assert amount(0.31, is_estimate=True) == "~$0.31"


def test_an_interruption_that_is_not_over_has_no_quality_and_no_cost() -> None:
    made = Interruption(kind="pause", by="ada", id="pause_1", at=0.0)
    assert (made.quality, made.cost, made.still) == (None, None, None)
