"""What keeps interventions few enough to be read; and that a hard stop goes through all of it."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from midcourse.core.policy_decision import COSTS_ATTENTION, INTERRUPTS, Alarm, Decision, Level, Reason
from midcourse.policy.alarm_batches import Batch, batches
from midcourse.policy.document import CostRule, LoopRule, Policy, Restraint, WorthRule
from midcourse.policy.durations import Span
from midcourse.policy.evaluation import evaluate
from midcourse.policy.profiles import PROFILES, STANDARD
from midcourse.policy.restraint import (
    InterventionLedger,
    JudgedIntervention,
    counted,
    is_mistrusted,
    restrain,
    share_of_a_run,
    worth_of,
    wrong_lately,
)
from midcourse.policy.run_activity import SteppedIn
from tests.policy.runs import MINUTE, Run, called, level, observed

LOOPS: Final = {"loops": 5.0}
STOPPING: Final = {"loops": 5.0, "errors.streak": 5.0}
HOUR: Final = 3600.0


def restrained(policy: Policy = STANDARD, **rules: Any) -> Policy:
    """The same with other restraint."""
    return replace(policy, restraint=replace(policy.restraint, **rules))


# ---- not too early


@pytest.mark.parametrize(
    ("actions", "elapsed", "held"),
    [
        (2, 121, ("2 of 3 actions",)),
        (3, 119, ("119 of 120 seconds",)),
        (2, 119, ("2 of 3 actions", "119 of 120 seconds")),
        (3, 120, ()),
        (4, 1e6, ()),
        # Without a clock only the actions can be counted.
        (2, None, ("2 of 3 actions",)),
        (3, None, ()),
    ],
)
def test_nothing_steps_in_before_three_actions_and_two_minutes(
    actions: int, elapsed: float | None, held: tuple[str, ...]
) -> None:
    seen = observed(LOOPS, actions=actions, elapsed=elapsed)
    decision = evaluate(STANDARD, seen, None)
    assert (decision.level, decision.held) == ("notify" if held else "ask_plan", held)
    assert decision.wanted == "ask_plan"
    stopping = observed(STOPPING, actions=actions, elapsed=elapsed)
    assert evaluate(STANDARD, stopping, None).level == "stop"


def test_what_came_too_early_is_done_when_the_two_minutes_are_over_without_another_act() -> None:
    run = Run()
    run.wait(10).calls(5)
    for _ in range(5):
        run.call(digest="same")
    assert set(run.levels) == {"notify"}
    due = run.oversight.due()
    assert due == pytest.approx(120, abs=0.1)
    run.at = due or 0.0
    decision = run.look()
    assert decision is not None
    assert (decision.level, decision.reasons[0].signal) == ("ask_plan", "loops")


# ---- not too often


def decision_of(level: Level, *signals: str) -> Decision:
    """A decision for these signals."""
    reasons = tuple(Reason(one, "intervene", 5.0, 5.0, "It goes round.") for one in signals or ("loops",))
    return Decision(level=level, wanted=level, policy="standard@1", reasons=reasons)


@pytest.mark.parametrize(("profile", "most"), [("conservative", 3), ("standard", 5), ("permissive", 10)])
@pytest.mark.parametrize("wanted", sorted(COSTS_ATTENTION - {"stop"}))
def test_a_person_is_interrupted_so_often_an_hour_and_no_more(profile: str, most: int, wanted: Level) -> None:
    policy, decision = PROFILES[profile], decision_of(wanted)
    assert restrain(policy, decision, InterventionLedger(last_hour=most - 1)) == decision
    held = restrain(policy, decision, InterventionLedger(last_hour=most))
    assert (held.level, held.wanted) == ("notify", wanted)
    assert held.held == (f"{most} interventions in an hour; at most {most} for one person",)
    assert held.reasons == decision.reasons


def test_an_agent_is_asked_for_its_plan_however_often_its_person_was_interrupted() -> None:
    asking = decision_of("ask_plan")
    assert restrain(STANDARD, asking, InterventionLedger(last_hour=1000, of_this_run=1000)) == asking


def test_a_milestone_goes_through_whatever_the_person_had_to_bear_and_whoever_called_it_wrong() -> None:
    reason = Reason("cost", "pause", 10.0, 10.0, "It has cost $10.00.")
    milestone = Decision(level="pause", wanted="pause", policy="standard@1", reasons=(reason,))
    ledger = InterventionLedger(last_hour=1000, of_this_run=1000, wrong={"cost": (100, 100)})
    assert restrain(STANDARD, milestone, ledger) == milestone


@pytest.mark.parametrize(("most", "share"), [(0, 0), (1, 1), (2, 1), (3, 2), (5, 3), (10, 5)])
def test_one_run_uses_up_no_more_than_half_of_what_its_person_bears(most: int, share: int) -> None:
    assert share_of_a_run(most) == share
    policy, noisy = restrained(interventions_per_hour=most), [("ada", "noisy")] * 20
    last_hour, of_this_run = counted(noisy, "ada", "quiet", most)
    assert (last_hour, of_this_run) == (share, 0)
    quiet = restrain(policy, decision_of("pause"), InterventionLedger(last_hour=last_hour, of_this_run=of_this_run))
    assert quiet.level == ("pause" if most > 1 else "notify")
    last_hour, of_this_run = counted(noisy, "ada", "noisy", most)
    held = restrain(policy, decision_of("pause"), InterventionLedger(last_hour=last_hour, of_this_run=of_this_run))
    assert held.level == "notify"
    if most > 1:
        assert held.held == (f"20 by this run in an hour; at most {share} of {most} are one run's",)
    assert counted(noisy, "bob", "quiet", most) == (0, 0)


@pytest.mark.parametrize("wanted", ["none", "notify", "stop"])
def test_stops_go_through_everything_and_what_interrupts_nobody_needs_no_restraint(wanted: Level) -> None:
    decision = decision_of(wanted)
    ledger = InterventionLedger(last_hour=1000, wrong={"loops": (100, 100)})
    assert restrain(STANDARD, decision, ledger) == decision


@pytest.mark.parametrize(
    ("requests", "occasions", "is_held"),
    [(0, 0, False), (999, 0, False), (999, 1, True), (1000, 1, False), (1999, 2, True), (2000, 2, False)],
)
def test_there_is_one_occasion_for_every_thousand_requests(requests: int, occasions: int, is_held: bool) -> None:
    seen = observed(LOOPS, requests=requests, occasions=occasions)
    decision = evaluate(STANDARD, seen, None)
    assert decision.level == ("notify" if is_held else "ask_plan")
    if is_held:
        assert decision.held == (f"{occasions} in {requests} requests; at most 1 for every 1,000",)
    assert evaluate(STANDARD, observed(STOPPING, requests=requests, occasions=occasions), None).level == "stop"


def test_to_be_paused_after_explaining_its_plan_is_no_other_occasion_and_the_pause_after_that_is() -> None:
    run = Run().settle()
    for _ in range(10):
        run.call(digest="same")
    assert run.levels == ["notify", "ask_plan", "pause"]
    run.reviewed()
    for number in range(60):
        run.call(resources=(f"src/{number}.py",))
    later = [one for one in run.decisions[3:] if one.wanted == "pause"]
    assert [one.level for one in later] == ["notify"]
    assert "at most 1 for every 1,000" in later[0].arithmetic


def test_after_a_thousand_requests_there_is_another_occasion() -> None:
    run = Run().settle()
    for _ in range(10):
        run.call(digest="same")
    run.reviewed()
    run.calls(985)
    for number in range(50):
        run.call(resources=(f"src/{number}.py",))
    assert run.levels.count("pause") == 2


def test_a_policy_may_do_without_that_limit() -> None:
    free = restrained(requests_per_intervention=0)
    assert evaluate(free, observed(LOOPS, requests=10, occasions=7), None).level == "ask_plan"


# ---- worth it


def test_what_is_not_worth_it_is_held_and_says_so_with_both_sums() -> None:
    # Five requests of a tenth of a cent in half a minute: even if all the rest is waste, it is next to nothing.
    seen = observed(LOOPS, actions=5, dollars_per_request=0.0001, seconds_per_request=0.1)
    decision = evaluate(STANDARD, seen, None)
    assert (decision.level, decision.wanted) == ("notify", "ask_plan")
    assert decision.held == ("it would cost more than it avoids",)
    assert decision.worth is not None
    assert decision.worth.avoided < decision.worth.cost
    # 0.5 × 5 × 0.0001 $ and 0.5 × 5 × 0.1 s against 0.005 + 0.005 $ and 3 s.
    assert decision.worth.dollars_avoided == pytest.approx(0.00025)
    assert decision.worth.minutes_avoided == pytest.approx(0.25 / 60)
    assert decision.worth.dollars_cost == pytest.approx(0.010)
    assert decision.worth.minutes_cost == pytest.approx(0.05)
    for sum_ in ("$0.00025", "0.0042 min", "$0.01", "0.05 min", "0.5 × 5 requests"):
        assert sum_ in decision.arithmetic


def test_a_pause_costs_somebody_attention_and_a_question_to_the_agent_does_not() -> None:
    seen = observed(LOOPS, dollars_per_request=0.01, seconds_per_request=1.0)
    asking, pausing = worth_of(STANDARD, seen, "ask_plan"), worth_of(STANDARD, seen, "pause")
    assert asking is not None
    assert pausing is not None
    assert pausing.minutes_cost - asking.minutes_cost == pytest.approx(0.5)


def test_what_it_costs_is_the_designs_until_it_has_been_measured() -> None:
    rule = WorthRule()
    assert 0.001 <= rule.per_request <= 0.01
    assert (rule.per_kilobyte, rule.recovery, rule.quality, rule.quality_for) == (0.0005, 0.005, 0.10, 30)


def test_what_is_saved_costs_by_the_kilobyte() -> None:
    seen = observed(LOOPS, dollars_per_request=1.0, kilobytes=100.0)
    worth = worth_of(STANDARD, seen, "pause")
    assert worth is not None
    assert worth.dollars_cost == pytest.approx(0.005 + 0.005 + 0.05)


def test_a_stop_does_not_ask_what_it_is_worth() -> None:
    seen = observed(STOPPING, actions=1, dollars_per_request=0.0, seconds_per_request=0.0)
    decision = evaluate(STANDARD, seen, None)
    assert (decision.level, decision.worth) == ("stop", None)


def test_where_neither_price_nor_clock_is_known_nobody_can_say_what_it_is_worth() -> None:
    decision = evaluate(STANDARD, observed(LOOPS), None)
    assert (decision.level, decision.worth) == ("ask_plan", None)


def test_with_more_calls_left_more_is_avoided() -> None:
    few = worth_of(STANDARD, observed(LOOPS, calls_left=2.0, dollars_per_request=0.01), "pause")
    many = worth_of(STANDARD, observed(LOOPS, calls_left=200.0, dollars_per_request=0.01), "pause")
    assert few is not None
    assert many is not None
    assert (few.is_worth_it, many.is_worth_it) == (False, True)


# ---- not by what was wrong too often


@pytest.mark.parametrize(
    ("wrong", "labelled", "mistrusted"),
    [(0, 0, False), (9, 9, False), (3, 10, False), (4, 10, True), (10, 10, True), (30, 100, False), (31, 100, True)],
)
def test_a_signal_that_was_wrong_in_more_than_three_tenths_of_at_least_ten_only_tells(
    wrong: int, labelled: int, mistrusted: bool
) -> None:
    ledger = InterventionLedger(wrong={"loops": (wrong, labelled)})
    assert is_mistrusted(STANDARD, "loops", ledger) == mistrusted
    held = restrain(STANDARD, decision_of("pause"), ledger)
    assert held.level == ("notify" if mistrusted else "pause")
    said = f"wrong too often: loops in {wrong} of {labelled}, labelled within 30d"
    assert held.held == ((said,) if mistrusted else ())


def labelled(
    count: int, *, at: float = 0.0, by: str = "policy:standard@1", wrong: bool = True
) -> list[JudgedIntervention]:
    """So many interventions by loops, of which somebody said that."""
    return [JudgedIntervention(at, by, ("loops",), wrong)] * count


KNOWN = {"policy:standard@1": STANDARD}
MONTH = 30 * 86_400.0


def test_mistrust_of_a_signal_ends_when_what_was_said_of_it_is_a_month_old() -> None:
    judged = labelled(10)
    assert wrong_lately(STANDARD, judged, KNOWN, MONTH - 1) == {"loops": (10, 10)}
    assert wrong_lately(STANDARD, judged, KNOWN, MONTH) == {}
    patient = restrained(labels_for=Span(2 * MONTH))
    assert wrong_lately(patient, judged, KNOWN, MONTH) == {"loops": (10, 10)}


def test_mistrust_of_a_signal_ends_when_people_call_right_what_they_were_told_by_it() -> None:
    judged = [*labelled(4), *labelled(6, wrong=False)]
    ledger = InterventionLedger(wrong=wrong_lately(STANDARD, judged, KNOWN, 1.0))
    assert is_mistrusted(STANDARD, "loops", ledger)
    ledger = InterventionLedger(wrong=wrong_lately(STANDARD, [*judged, *labelled(4, wrong=False)], KNOWN, 1.0))
    assert not is_mistrusted(STANDARD, "loops", ledger)


def test_mistrust_of_a_signal_ends_when_a_person_accepts_other_thresholds_of_it() -> None:
    loops = replace(STANDARD.signals, loops=LoopRule(warn=6.0, intervene=9.0))
    accepted = replace(STANDARD, name="ours", signals=loops)
    assert wrong_lately(accepted, labelled(10), KNOWN, 1.0) == {}
    known = {**KNOWN, "policy:ours@1": accepted}
    assert wrong_lately(accepted, labelled(3, by="policy:ours@1"), known, 1.0) == {"loops": (3, 3)}


def test_mistrust_of_a_signal_does_not_end_with_a_change_of_something_else() -> None:
    other = replace(STANDARD, name="ours", signals=replace(STANDARD.signals, cost=CostRule(warn=1.0)))
    assert wrong_lately(other, labelled(10), KNOWN, 1.0) == {"loops": (10, 10)}


def test_what_was_said_of_thresholds_that_nobody_knows_counts_for_nothing() -> None:
    assert wrong_lately(STANDARD, labelled(10, by="policy:gone@7"), KNOWN, 1.0) == {}


def test_one_signal_that_is_trusted_is_enough() -> None:
    ledger = InterventionLedger(wrong={"loops": (10, 10)})
    decision = decision_of("pause", "loops", "resources")
    assert restrain(STANDARD, decision, ledger).level == "pause"


def test_an_agents_own_question_is_not_taken_for_mistrusted() -> None:
    asking = Decision(
        level="ask", wanted="ask", policy="standard@1", question="unknown_error", words="What shall I do?"
    )
    assert restrain(STANDARD, asking, InterventionLedger(wrong={"loops": (10, 10)})) == asking


# ---- first the plan


def test_an_agent_is_asked_for_its_plan_first_and_paused_three_actions_later_if_nothing_changed() -> None:
    run = Run().settle()
    for _ in range(5):
        run.call(digest="same")
    assert run.levels[-1] == "ask_plan"
    for _ in range(2):
        assert run.call(digest="same") is None
    assert level(run.call(digest="same")) == "pause"
    held = evaluate(STANDARD, observed(LOOPS, actions=12, plan_asked_at=10, is_explaining=True), None)
    assert (held.level, held.held) == ("notify", ("it was asked for its plan 2 actions ago",))


def test_an_agent_that_changed_its_course_is_not_paused() -> None:
    run = Run().settle()
    for _ in range(5):
        run.call(digest="same")
    run.report(progress=0.2)
    run.calls(20)
    assert "pause" not in run.levels


@pytest.mark.parametrize("patience", [0, 1, 10])
def test_patience_is_so_many_actions(patience: int) -> None:
    run = Run(restrained(patience=patience)).settle()
    while "ask_plan" not in run.levels:
        run.call(digest="same")
    actions = 0
    while "pause" not in run.levels:
        run.call(digest="same")
        actions += 1
    assert actions == patience


def test_to_ask_for_the_plan_can_be_switched_off() -> None:
    run = Run(replace(STANDARD, ask_plan=False)).settle()
    for _ in range(5):
        run.call(digest="same")
    assert run.levels == ["notify", "pause"]


def test_what_the_ledger_held_back_was_never_asked_so_that_no_pause_follows_from_it() -> None:
    """The agent was not asked for its plan: it must be asked before it is paused."""
    run = Run().settle()
    oversight = run.oversight

    def again() -> Decision | None:
        return oversight.see(called(at=run.at, digest="same"))

    wanted = [one for _ in range(5) if (one := again()) is not None][-1]
    assert wanted.level == "ask_plan"
    told = restrain(STANDARD, wanted, InterventionLedger(wrong={"loops": (10, 10)}))
    oversight.held(wanted)
    oversight.see(SteppedIn(at=run.at, level=told.level, reasons=told.reasons))
    assert oversight.observed().plan_asked_at is None
    assert oversight.observed().occasions == 0
    # Nobody is told the same with every further call; at twice the threshold it is asked, as for the first time.
    assert [level(again()) for _ in range(5)] == ["none"] * 4 + ["ask_plan"]


# ---- batches


def alarms(count: int, level: str = "notify", *, every: float = 60.0, person: str = "ada") -> list[Alarm]:
    """Alarms of one person, one a minute."""
    return [
        Alarm(at=number * every, session=f"s{number}", intervention="int_1", person=person, level=level)
        for number in range(count)
    ]


def test_twenty_cheap_alarms_in_an_hour_are_one_batch_and_the_hard_stop_among_them_comes_at_once() -> None:
    stop = Alarm(at=601.0, session="s", intervention="int_1", person="ada", level="stop")
    cheap = alarms(20, every=150.0)
    found = batches(sorted([*cheap, stop], key=lambda one: one.at), HOUR)
    assert [len(one.alarms) for one in found] == [1, 20]
    first, second = found
    assert (first.alarms, first.ready_at) == ((stop,), 601.0)
    assert (second.alarms, second.since, second.ready_at) == (tuple(cheap), 0.0, HOUR)


@pytest.mark.parametrize("interrupts", sorted(INTERRUPTS))
def test_what_interrupts_is_never_gathered(interrupts: str) -> None:
    found = batches(alarms(3, interrupts), HOUR)
    assert [(len(one.alarms), one.ready_at) for one in found] == [(1, 0.0), (1, 60.0), (1, 120.0)]


def test_an_alarm_after_the_window_opens_the_next_one() -> None:
    found = batches(alarms(61), HOUR)
    assert [(one.since, len(one.alarms)) for one in found] == [(0.0, 60), (HOUR, 1)]


def test_no_alarm_waits_longer_than_its_own_policy_wants_it_to() -> None:
    patient = Alarm(at=0.0, session="s", intervention="int_1", person="ada", level="notify", by="policy:patient@1")
    hasty = replace(patient, at=600.0, by="policy:hasty@2")
    found = batches([patient, hasty], HOUR, {"policy:patient@1": 7200.0, "policy:hasty@2": 60.0})
    assert [(one.since, one.ready_at, len(one.alarms)) for one in found] == [(0.0, 660.0, 2)]
    assert [one.ready_at for one in batches([patient, hasty], HOUR)] == [HOUR]


def test_each_person_has_a_batch_of_their_own() -> None:
    both = sorted([*alarms(5), *alarms(5, person="bob")], key=lambda one: one.at)
    assert sorted((one.person, len(one.alarms)) for one in batches(both, HOUR)) == [("ada", 5), ("bob", 5)]


def test_no_alarm_is_lost_or_told_twice_and_none_waits_longer_than_the_window() -> None:
    mixed = sorted([*alarms(100), *alarms(7, "pause", every=777.0)], key=lambda one: one.at)
    found: list[Batch] = batches(mixed, HOUR)
    assert sorted((one.at, one.level) for batch in found for one in batch.alarms) == sorted(
        (one.at, one.level) for one in mixed
    )
    assert all(0 <= batch.ready_at - alarm.at <= HOUR for batch in found for alarm in batch.alarms)
    assert batches([], HOUR) == []


def test_the_designs_numbers_of_restraint() -> None:
    rules = Restraint()
    assert (rules.first_after_actions, rules.first_after) == (3, 2 * MINUTE)
    assert (rules.requests_per_intervention, rules.approvals_in_a_row) == (1000, 20)
    assert (rules.false_positives, rules.quality, rules.retries, rules.batch) == (0.30, 0.90, 3, HOUR)
