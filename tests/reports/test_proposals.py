"""What labels say of thresholds: what is proposed, with which evidence, and what is not."""

import itertools
from collections.abc import Iterable, Mapping

import pytest
from msgspec.structs import replace

from midcourse.analysis.reports.facts import Interruption, Kind, Outcome, SessionFacts
from midcourse.analysis.reports.fleet import FleetSession
from midcourse.analysis.reports.proposals import Proposal, Tuned, name_for, path_of, tune, with_setting
from midcourse.analysis.reports.totals import report_of
from midcourse.core.ids import SessionId
from midcourse.core.policy_decision import Reason, Stage
from midcourse.policy.document import Policy, Restraint
from midcourse.policy.durations import Span
from midcourse.policy.profiles import STANDARD

_hours = itertools.count()
"""Interruptions come so far apart, unless a test says otherwise, that nobody is interrupted too often."""


def made(
    value: float,
    label: str | None,
    *,
    signal: str = "scope_drift",
    stage: Stage = "intervene",
    threshold: float = 0.7,
    kind: Kind = "pause",
    by: str = "policy:standard@1",
    at: float | None = None,
    answer: float | None = None,
    outcome: Outcome = "",
) -> Interruption:
    verdict = label if label in ("right", "wrong", "unsure") else None
    at = 7200.0 * next(_hours) if at is None else at
    return Interruption(
        kind=kind, by=by, id="int_1", at=at, answer=answer, outcome=outcome, label=verdict,
        reasons=(Reason(signal, stage, value, threshold, "It is so."),),
    )  # fmt: skip


def session(
    *interruptions: Interruption,
    agent: str = "researcher",
    person: str = "ada",
    policy: Policy = STANDARD,
    values: Iterable[Mapping[str, float]] = (),
) -> FleetSession:
    facts = SessionFacts(
        id=SessionId("sess_1"), agent=agent, task_class="long", is_class_declared=True, policy=policy.id,
        person=person, started=0.0,
        interruptions=tuple(one for one in interruptions if one.kind != "notify"),
        notices=tuple(one for one in interruptions if one.kind == "notify"),
    )  # fmt: skip
    return FleetSession(facts=facts, policy=policy, values={f"pause_{n}": one for n, one in enumerate(values)})


def reviewed(*sessions: FleetSession) -> Tuned:
    return tune(sessions, 1000.0)


def only(tuned: Tuned) -> Proposal:
    [found] = tuned.proposals
    return found


def changes(proposal: Proposal) -> list[tuple[str, str, str, bool | None]]:
    return [(one.path, one.before, one.after, one.tightens) for one in proposal.changes]


# ---- up


def test_a_threshold_that_was_wrong_too_often_goes_up_to_the_value_that_keeps_the_right_ones() -> None:
    wrong = [made(0.71 + 0.005 * n, "wrong") for n in range(14)]
    right = [made(0.802 + 0.001 * n, "right") for n in range(30)]
    found = only(reviewed(session(*wrong, *right)))
    assert changes(found) == [("signals.scope_drift.intervene", "0.7", "0.802", False)]
    assert (found.agent, found.policy, found.name, found.state) == (
        "researcher", "standard@1", "standard--researcher", "open",
    )  # fmt: skip
    [evidence] = found.evidence
    assert evidence.startswith("Of 44 labelled interventions by scope_drift (researcher) 30 were right and 14 wrong")
    assert "31.8 %, and the limit is 30 %" in evidence
    assert "14 of the 14 wrong ones would not have happened there, and all 30 right ones would." in evidence
    assert (found.after.extends, found.after.signals.scope_drift.intervene) == ("standard@1", 0.802)


def test_what_is_lost_is_said() -> None:
    right = [made(0.71, "right"), *(made(0.9, "right") for _ in range(9))]
    found = only(reviewed(session(*(made(0.75, "wrong") for _ in range(8)), *right)))
    assert changes(found)[0][2] == "0.9"
    assert "1 of the 10 right ones would have come later, or not at all" in found.evidence[0]


def test_where_no_value_tells_them_apart_nothing_is_proposed_and_that_is_said() -> None:
    seen = [made(5.0, label, signal="loops", threshold=5.0) for label in ["right", "wrong"] * 10]
    tuned = reviewed(session(*seen))
    assert tuned.proposals == ()
    assert "No threshold tells the right ones from the wrong ones" in tuned.remarks[0]


def test_a_threshold_that_was_never_right_is_taken_away() -> None:
    seen = [made(21.0, "wrong", signal="resources", stage="warn", threshold=20.0, kind="notify") for _ in range(12)]
    assert changes(only(reviewed(session(*seen)))) == [("signals.resources.warn", "20", "null", False)]


def test_what_is_taken_away_is_not_called_later() -> None:
    warned = [made(21.0, "wrong", signal="resources", stage="warn", threshold=20.0, kind="notify") for _ in range(12)]
    paused = [made(0.71, "wrong") for _ in range(12)]
    found = only(reviewed(session(*warned, *paused)))
    assert {one.path: (one.after, one.words) for one in found.changes} == {
        "signals.resources.warn": ("null", "no longer warns"),
        "signals.scope_drift.intervene": ("null", "no longer steps in"),
    }
    assert "Without signals.scope_drift.intervene the 12 wrong ones at this stage would not have" in found.evidence[0]
    later = [made(0.71, "wrong") for _ in range(6)] + [made(0.9, "right") for _ in range(6)]
    assert only(reviewed(session(*later))).changes[0].words == "steps in later"


def streak(value: float, label: str) -> Interruption:
    return made(value, label, signal="errors.streak", stage="stop", threshold=5.0, kind="stop")


def test_a_stop_that_was_never_right_stays_and_that_is_said() -> None:
    tuned = reviewed(session(*(streak(5.0, "wrong") for _ in range(12))))
    assert tuned.proposals == ()
    [said] = tuned.remarks
    assert said.startswith("Of 12 labelled interventions by errors.streak (researcher) 0 were right and 12 wrong")
    assert said.endswith(
        "signals.errors.streak stays 5: a stop is never proposed away. If such runs should continue, save a higher one."
    )


def test_what_came_with_a_stop_does_not_speak_against_the_thresholds_below_it() -> None:
    rate = Reason("errors", "intervene", 1.0, 0.4, "All of its recent calls failed.")
    stops = [streak(5.0, "wrong") for _ in range(12)]
    tuned = reviewed(session(*(replace(one, reasons=(*one.reasons, rate)) for one in stops)))
    assert tuned.proposals == ()
    assert any(said.endswith("A stop came with each wrong one: nothing is proposed for it.") for said in tuned.remarks)


def test_no_stop_of_any_signal_is_ever_proposed_away() -> None:
    from midcourse.policy.thresholds import rules_of

    stops = [(rule.signal, mark) for rule in rules_of(STANDARD) for stage, mark in rule.steps if stage == "stop"]
    assert {"cost", "duration", "errors.streak", "resources", "budget"} <= {signal for signal, _ in stops}
    for signal, mark in stops:
        seen = [made(mark, "wrong", signal=signal, stage="stop", threshold=mark, kind="stop") for _ in range(12)]
        assert reviewed(session(*seen)).proposals == (), signal


@pytest.mark.parametrize(("right", "proposed"), [(8.0, "8"), (40.0, "10")])
def test_a_stop_goes_up_to_what_keeps_the_right_ones_and_to_twice_what_it_is_at_most(
    right: float, proposed: str
) -> None:
    seen = [*(streak(5.0, "wrong") for _ in range(6)), *(streak(right, "right") for _ in range(6))]
    found = only(reviewed(session(*seen)))
    assert changes(found) == [("signals.errors.streak", "5", proposed, False)]
    assert f"With signals.errors.streak = {proposed} 6 of the 6 wrong ones would not have" in found.evidence[0]


def test_a_stop_whose_right_and_wrong_ones_are_alike_stays() -> None:
    tuned = reviewed(session(*(streak(5.0, label) for label in ["right", "wrong"] * 6)))
    assert tuned.proposals == ()
    assert "signals.errors.streak stays 5: no value up to twice that tells the right ones" in tuned.remarks[0]


def test_warnings_and_interventions_are_counted_apart_as_the_report_counts_them() -> None:
    warned = [made(0.55, "wrong", stage="warn", threshold=0.5, kind="notify") for _ in range(2)]
    held = [replace(made(0.75, "right", kind="notify"), was_held=True) for _ in range(3)]
    paused = [made(0.75, "right") for _ in range(8)]
    one = session(*warned, *held, *paused, policy=with_setting(STANDARD, "restraint.labels", 2))
    sessions = [(one.facts, one.policy)]
    report, tuned = report_of(sessions, 0.0, 1.0), reviewed(one)
    assert (report.labelled.of, report.warnings.of) == (tuned.labelled, tuned.warnings) == (11, 2)
    assert report.signals[0].only_told == "5 (2 wrong)"
    assert (report.signals[0].right, report.signals[0].wrong) == (11, 0)
    [evidence] = only(tuned).evidence
    assert evidence.startswith("Of 2 labelled warnings by scope_drift (researcher) 0 were right and 2 wrong: 100 %")
    assert changes(only(tuned)) == [("signals.scope_drift.warn", "0.5", "null", False)]


def test_a_threshold_that_a_later_version_does_not_have_is_not_put_back() -> None:
    seen = [made(0.71, "wrong") for _ in range(6)] + [made(0.9, "right") for _ in range(6)]
    without = with_setting(STANDARD, "signals.scope_drift.intervene", None)
    assert reviewed(session(*seen, policy=without)).proposals == ()


def test_it_goes_no_further_than_the_graver_threshold() -> None:
    wrong = [made(0.55, "wrong", stage="warn", threshold=0.5, kind="notify") for _ in range(10)]
    right = [made(0.9, "right", stage="warn", threshold=0.5, kind="notify") for _ in range(10)]
    assert changes(only(reviewed(session(*wrong, *right)))) == [("signals.scope_drift.warn", "0.5", "0.7", False)]


def test_counts_stay_whole_and_spans_stay_spans() -> None:
    seen = [made(5.0, "wrong", signal="scope.new_domain", threshold=5.0) for _ in range(9)]
    seen += [made(8.0, "right", signal="scope.new_domain", threshold=5.0) for _ in range(9)]
    assert changes(only(reviewed(session(*seen)))) == [("signals.scope.new_domain", "5", "8", False)]
    seen = [made(1500.0, "wrong", signal="duration", threshold=1500.0) for _ in range(9)]
    seen += [made(1801.0, "right", signal="duration", threshold=1500.0) for _ in range(9)]
    assert changes(only(reviewed(session(*seen)))) == [("signals.duration.intervene", "25m", "30m", False)]


def test_a_signal_for_which_less_is_worse_goes_down() -> None:
    seen = [made(0.28, "wrong", signal="token_rate", threshold=0.3) for _ in range(9)]
    seen += [made(0.1, "right", signal="token_rate", threshold=0.3) for _ in range(9)]
    assert changes(only(reviewed(session(*seen)))) == [("signals.token_rate.intervene", "0.3", "0.1", False)]


@pytest.mark.parametrize("count", [9, 10])
def test_it_takes_as_many_labels_as_the_policy_wants(count: int) -> None:
    wrong = [made(0.71, "wrong") for _ in range(5)]
    right = [made(0.9, "right") for _ in range(count - 5)]
    unsure = [made(0.8, "unsure"), made(0.8, None)]
    tuned = reviewed(session(*wrong, *right, *unsure))
    assert len(tuned.proposals) == (count >= 10)
    assert tuned.labelled == count
    if count < 10:
        assert "10 labels are needed" in tuned.remarks[0]


def test_up_to_the_limit_nothing_changes() -> None:
    seen = [made(0.71, "wrong") for _ in range(3)] + [made(0.9, "right") for _ in range(7)]
    assert reviewed(session(*seen)).proposals == ()


def test_agents_are_told_apart_and_what_nobody_watched_counts_for_nothing() -> None:
    wrong = [made(0.71, "wrong") for _ in range(6)]
    right = [made(0.9, "right") for _ in range(6)]
    found = reviewed(
        session(*wrong, *right, agent="a"),
        session(*right, *right, agent="b"),
        replace(session(*wrong, *right, agent="c"), facts=replace(session(*wrong, *right).facts, policy="")),
    )
    assert [one.agent for one in found.proposals] == ["a"]


def test_tenants_are_told_apart_and_each_is_proposed_a_policy_of_its_own() -> None:
    wrong = [made(0.71, "wrong") for _ in range(6)]
    right = [made(0.9, "right") for _ in range(6)]
    of_acme, of_beta = session(*wrong, *right), session(*right, *right)
    found = only(
        reviewed(
            replace(of_acme, facts=replace(of_acme.facts, id=SessionId("acme~x"), person="acme~ada")),
            replace(of_beta, facts=replace(of_beta.facts, id=SessionId("beta~x"), person="beta~ada")),
        )
    )
    assert (found.id.partition("prop_")[0], found.name) == ("acme~", "acme~standard--researcher")
    assert (found.after.name, found.after.extends) == (found.name, "standard@1")


def test_a_policy_that_is_the_agent_s_own_gets_another_version_and_the_newest_is_what_is_changed() -> None:
    own = replace(STANDARD, name="standard--researcher", extends="standard@1")
    wrong = [made(0.71, "wrong") for _ in range(6)]
    right = [made(0.9, "right") for _ in range(6)]
    newest = with_setting(replace(own, version=3), "signals.loops.warn", 4.0)
    found = only(reviewed(session(*wrong, policy=replace(own, version=2)), session(*right, policy=newest)))
    assert (found.name, found.policy, found.after.extends) == (
        "standard--researcher", "standard--researcher@3", "standard@1",
    )  # fmt: skip
    assert found.after.signals.loops.warn == 4.0


def test_the_same_evidence_makes_the_same_proposal() -> None:
    seen = [made(0.71, "wrong") for _ in range(6)] + [made(0.9, "right") for _ in range(6)]
    assert only(reviewed(session(*seen))).id == only(reviewed(session(*seen))).id


# ---- down


def good(count: int = 12, quality: Outcome = "completed") -> list[Interruption]:
    return [made(0.9, None, by="bob", outcome=quality) for _ in range(count)]


def test_a_threshold_goes_down_only_where_people_stepped_in_first_and_quality_allows() -> None:
    misses = [{"loops": 3.0 + n / 10, "duration": 60.0, "errors": 0.0} for n in range(11)]
    found = only(reviewed(session(*good(), values=misses)))
    assert changes(found) == [("signals.loops.intervene", "5", "3.5", True)]
    assert "In 11 sessions of researcher a person stepped in, rightly, before the policy did" in found.evidence[0]
    assert "midcourse policy backtest" in found.evidence[0]


@pytest.mark.parametrize(
    ("interruptions", "misses", "said"),
    [
        (good(), 9, "10 such labels are needed"),
        (good(quality="failed"), 12, "Nothing is tightened: the quality of interrupted runs is 0 %"),
        (good(3), 12, "is not known yet"),
    ],
)
def test_else_nothing_is_tightened_and_the_reason_is_said(
    interruptions: list[Interruption], misses: int, said: str
) -> None:
    tuned = reviewed(session(*interruptions, values=[{"loops": 4.0}] * misses))
    assert tuned.proposals == ()
    assert said in tuned.remarks[0]


def test_a_signal_that_was_far_from_its_threshold_is_not_blamed() -> None:
    tuned = reviewed(session(*good(), values=[{"duration": 60.0}] * 12))
    assert tuned.proposals == ()
    assert "No signal was near its threshold" in tuned.remarks[0]


def test_a_signal_that_is_wrong_too_often_is_never_tightened() -> None:
    noisy = [made(4.0, "wrong", signal="loops", stage="warn", threshold=3.0, kind="notify") for _ in range(12)]
    tuned = reviewed(session(*good(), *noisy, values=[{"loops": 4.0}] * 12))
    assert not any(change.tightens for one in tuned.proposals for change in one.changes)


# ---- people


def test_somebody_to_whom_most_interruptions_were_no_use_is_interrupted_less_often() -> None:
    seen = [made(0.9, "wrong" if n % 2 else "right", at=60.0 * n, signal="cost", stage="pause") for n in range(12)]
    found = only(reviewed(session(*seen)))
    assert (found.person, found.agent, found.name) == ("ada", "", "standard--ada")
    assert changes(found) == [("restraint.interventions_per_hour", "5", "4", False)]
    assert found.evidence[0] == "ada was interrupted up to 12 times in an hour; at most 5 are allowed."


def test_somebody_who_cannot_keep_up_is_interrupted_less_often() -> None:
    seen = [made(0.9, None, at=60.0 * n, answer=10.0 if n < 2 else 4000.0) for n in range(12)]
    found = only(reviewed(session(*seen)))
    assert changes(found) == [("restraint.interventions_per_hour", "5", "1", False)] or changes(found)[0][2] == "2"
    assert "10 of 12 were answered later than 5m" in found.evidence[1]


def test_somebody_who_answers_in_time_is_left_alone() -> None:
    assert reviewed(session(*(made(0.9, None, at=60.0 * n, answer=10.0) for n in range(12)))).proposals == ()


# ---- documents


def test_every_threshold_of_the_rules_is_found_in_the_document() -> None:
    from midcourse.policy.thresholds import rules_of

    risky = replace(STANDARD, signals=replace(STANDARD.signals, risk=replace(STANDARD.signals.risk, enabled=True)))
    for rule in rules_of(risky, 0.5):
        for stage, mark in rule.steps:
            path = path_of(rule.signal, stage)
            if rule.signal == "own_artifacts":  # a switch, and no number
                continue
            assert path is not None, (rule.signal, stage)
            found: object = risky
            for name in path.split("."):
                found = getattr(found, name)
            assert found == mark or rule.signal == "risk"


def test_a_setting_that_cannot_be_is_refused() -> None:
    assert with_setting(STANDARD, "response_target", 60.0).response_target == Span(60)
    with pytest.raises(ValueError, match="it must be"):
        with_setting(STANDARD, "signals.scope_drift.intervene", 1.5)


def test_names_fit_a_policy_s_rules_whoever_it_is_for() -> None:
    assert name_for("standard", "Résearch Bot/2") == "standard--r-search-bot-2"
    assert name_for("standard--a", "a") == "standard--a"
    long = name_for("standard", "x" * 200)
    assert len(long) == 64
    assert long != name_for("standard", "x" * 201)
    assert name_for("standard", "研究") == "standard--nobody"
    assert Restraint().labels == 10
