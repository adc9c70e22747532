"""Every threshold of the design, for every profile: just below it, at it and above it.

The numbers are the design's, written down once more: nothing here is read from the code that is tested.
"""

import math
from collections.abc import Iterator
from typing import Any, Final

import pytest
from msgspec.structs import replace

from midcourse.core.policy_decision import Level
from midcourse.core.signals import TITLES
from midcourse.core.terms import TaskClass
from midcourse.policy.document import CostRule, Levels, Policy
from midcourse.policy.evaluation import after, evaluate
from midcourse.policy.observation import Latch
from midcourse.policy.profiles import PROFILES, STANDARD
from midcourse.policy.restraint import worth_of
from midcourse.policy.run_activity import Called
from midcourse.policy.signals.calls_left import CallHistory
from midcourse.policy.signals.cost import Spending
from midcourse.policy.signals.threshold_state import Latches
from midcourse.policy.thresholds import rules_of
from tests.policy.runs import MINUTE, Run, level, observed
from tests.policy.watched_programs import FixedDrift

Marks = list[tuple[float, Level]]
TURNS: Final = {"conservative": (6, 12, 15, 27), "standard": (10, 20, 25, 45), "permissive": (18, 36, 45, 45)}
"""Minutes: 0.4, 0.8, 1 and 1.8 times the profile's turn, the last one never more than 45."""
COSTS: Final[dict[str, Marks]] = {
    "conservative": [(5, "notify"), (10, "pause"), (25, "stop")],
    # A milestone beats a warning at the same amount, and a stop beats both.
    "standard": [(10, "pause"), (25, "pause"), (50, "stop")],
    "permissive": [(10, "pause"), (25, "pause"), (50, "pause"), (100, "stop")],
}
STREAKS: Final = {"conservative": 3, "standard": 5, "permissive": 10}
DRIFTS: Final = {"conservative": 0.5, "standard": 0.7, "permissive": 0.85}
RESOURCES: Final = {"conservative": (12, 30, 60), "standard": (20, 50, 100), "permissive": (40, 100, 200)}
PER_HOUR: Final = {"conservative": 3, "standard": 5, "permissive": 10}
RESPONSE: Final = {"conservative": 2, "standard": 5, "permissive": 15}
THREE: Final[tuple[Level, ...]] = ("notify", "ask_plan", "stop")
FOUR: Final[tuple[Level, ...]] = ("notify", "ask_plan", "ask_plan", "stop")


def table(profile: str) -> dict[str, Marks]:
    """For each signal its thresholds, and what is done at each in a run of which nothing was decided before."""
    turn: Marks = [(MINUTE * one, level) for one, level in zip(TURNS[profile], FOUR, strict=True)]
    resources: Marks = [(float(one), level) for one, level in zip(RESOURCES[profile], THREE, strict=True)]
    return {
        # The permissive profile pauses where it stops: it stops.
        "duration": [one for one in turn if profile != "permissive" or one != (45 * MINUTE, "ask_plan")],
        "cost": COSTS[profile],
        "cost.per_action": [(1, "ask_plan")],
        "budget": [(0.8, "notify"), (1, "stop")],
        "errors": [(0.2, "notify"), (0.4, "ask_plan")],
        "errors.streak": [(STREAKS[profile], "stop")],
        "scope_drift": [(DRIFTS[profile], "ask_plan")],
        "resources": resources,
        "hypothesis": [(10 * MINUTE, "notify"), (15 * MINUTE, "ask_plan")],
        "scope.expansion": [(2, "ask_plan")],
        "scope.new_domain": [(5, "ask_plan")],
        "loops": [(3, "notify"), (5, "ask_plan")],
    }


def cases() -> Iterator[tuple[str, str, float, str]]:
    """Profile, signal, value, level."""
    for profile in TURNS:
        for signal, marks in table(profile).items():
            before: str = "none"
            for mark, at in marks:
                if signal == "scope_drift":
                    before = "notify"  # the warning stands below it, at a number that the design gives only once
                yield profile, signal, math.nextafter(mark, 0), before
                yield profile, signal, mark, at
                yield profile, signal, math.nextafter(mark, math.inf), at
                before = at


@pytest.mark.parametrize(("profile", "signal", "value", "wanted"), list(cases()))
def test_a_signal_leads_to_its_level_from_its_threshold_on(
    profile: str, signal: str, value: float, wanted: str
) -> None:
    decision = evaluate(PROFILES[profile], observed({signal: value}), 1.0)
    assert (decision.level, decision.wanted) == (wanted, wanted)
    assert decision.held == ()
    assert [reason.signal for reason in decision.reasons] == ([signal] if wanted != "none" else [])
    assert decision.policy == f"{profile}@1"


@pytest.mark.parametrize("profile", TURNS)
@pytest.mark.parametrize(
    "signal",
    ["duration", "cost.per_action", "errors", "scope_drift", "resources", "hypothesis", "loops", "scope.new_domain"],
)
def test_what_asks_for_the_plan_first_pauses_once_that_was_asked(profile: str, signal: str) -> None:
    marks = [mark for mark, level in table(profile)[signal] if level == "ask_plan"]
    asked = observed({signal: marks[-1]}, plan_asked_at=40)
    # Permissive, a turn is only asked to explain itself before it is stopped.
    wanted = "notify" if (profile, signal) == ("permissive", "duration") else "pause"
    assert evaluate(PROFILES[profile], asked, 1.0).level == wanted


@pytest.mark.parametrize("profile", TURNS)
def test_at_eight_tenths_of_a_turn_an_agent_is_only_ever_asked_to_explain_itself(profile: str) -> None:
    explain = TURNS[profile][1] * MINUTE
    assert evaluate(PROFILES[profile], observed({"duration": explain}, plan_asked_at=40), 1.0).level == "notify"
    silent = replace(PROFILES[profile], ask_plan=False)
    assert evaluate(silent, observed({"duration": explain}), 1.0).level == "notify"


def test_the_standard_profile_warns_of_drift_at_a_half() -> None:
    assert evaluate(STANDARD, observed({"scope_drift": math.nextafter(0.5, 0)}), None).level == "none"
    assert evaluate(STANDARD, observed({"scope_drift": 0.5}), None).level == "notify"


@pytest.mark.parametrize("profile", TURNS)
@pytest.mark.parametrize(("value", "wanted"), [(0.0, "ask_plan"), (0.29, "ask_plan"), (0.3, "none"), (1.0, "none")])
def test_a_token_rate_below_three_tenths_of_the_average_is_a_reason_and_three_tenths_are_not(
    profile: str, value: float, wanted: str
) -> None:
    assert evaluate(PROFILES[profile], observed({"token_rate": value}), None).level == wanted


@pytest.mark.parametrize("profile", TURNS)
@pytest.mark.parametrize(("value", "wanted"), [(0.49, "none"), (0.5, "none"), (0.51, "ask_plan"), (1.0, "ask_plan")])
def test_over_half_of_the_calls_left_is_a_reason_and_half_is_not(profile: str, value: float, wanted: str) -> None:
    assert evaluate(PROFILES[profile], observed({"calls_left": value}), None).level == wanted


@pytest.mark.parametrize("signal", ["api_calls", "compute_seconds", "bytes"])
@pytest.mark.parametrize(
    ("value", "wanted"),
    [(9.9, "none"), (10, "notify"), (19.9, "notify"), (20, "ask_plan"), (29.9, "ask_plan"), (30, "stop"), (31, "stop")],
)
def test_what_is_set_for_an_agent_has_three_levels_and_without_it_none(signal: str, value: float, wanted: str) -> None:
    levels = Levels(warn=10, intervene=20, stop=30)
    limited = replace(STANDARD, signals=replace(STANDARD.signals, **{signal: levels}))
    assert evaluate(limited, observed({signal: value}), None).level == wanted
    assert evaluate(STANDARD, observed({signal: 1e12}), None).level == "none"


@pytest.mark.parametrize("profile", TURNS)
def test_a_profile_has_the_designs_interventions_per_hour_and_response_time(profile: str) -> None:
    policy = PROFILES[profile]
    assert policy.restraint.interventions_per_hour == PER_HOUR[profile]
    assert policy.response_target == RESPONSE[profile] * MINUTE


def test_every_signal_with_a_threshold_is_in_this_table() -> None:
    elsewhere = {
        "token_rate",
        "calls_left",
        "api_calls",
        "compute_seconds",
        "bytes",
        "cost.acceleration",
        "own_artifacts",
    }
    off_by_default = {"risk", "scope_drift.alignment"}
    assert set(table("standard")) | elsewhere | off_by_default == set(TITLES)


def test_signals_together_are_all_told_the_gravest_first() -> None:
    decision = evaluate(STANDARD, observed({"loops": 3, "errors.streak": 5, "resources": 50, "cost": 3}), None)
    assert decision.level == "stop"
    assert [reason.signal for reason in decision.reasons] == ["errors.streak", "resources", "loops"]
    assert [reason.stage for reason in decision.reasons] == ["stop", "intervene", "warn"]
    assert "errors.streak 5 ≥ 5" in decision.arithmetic


# ---- time, by a clock that the test moves


@pytest.mark.parametrize("profile", TURNS)
def test_a_turn_is_warned_asked_paused_and_stopped_on_time(profile: str) -> None:
    run = Run(PROFILES[profile])
    run.calls(30)
    seen: list[tuple[float, str]] = []
    while (due := run.oversight.due()) is not None:
        run.at = due
        decision = run.look()
        seen.append((round(due), level(decision)))
        # It goes on acting, so that nobody has to wait for the plan it was asked for.
        run.calls(5)
        if decision is not None and decision.level in ("pause", "stop"):
            run.reviewed()
    warn, explain, pause, stop = (60 * one for one in TURNS[profile])
    told = [(warn, "notify"), (explain, "ask_plan")]
    assert seen == [*told, (stop, "stop")] if pause == stop else [*told, (pause, "pause"), (stop, "stop")]


def test_paused_and_waiting_time_is_not_counted() -> None:
    run = Run()
    run.wait(9 * MINUTE).rest()
    assert run.oversight.due() is None
    run.wait(600 * MINUTE)
    assert run.look() is None
    run.go_on()
    assert run.value("duration") == 9 * MINUTE
    assert run.wait(0.9 * MINUTE).look() is None
    assert level(run.wait(0.1 * MINUTE).look()) == "notify"


def test_a_new_turn_begins_at_nothing_and_what_a_session_has_cost_stays() -> None:
    run = Run()
    run.wait(11 * MINUTE)
    assert level(run.call(cost=3.0)) == "notify"
    run.end()
    run.begin("Now the one for May")
    assert (run.value("duration"), run.value("cost")) == (0.0, 3.0)
    assert run.wait(9 * MINUTE).call() is None
    assert level(run.wait(MINUTE).call()) == "notify"


# ---- cost


def test_milestones_pause_and_ask_each_once_and_beat_a_warning_at_the_same_amount() -> None:
    run = Run().settle()
    for _ in range(120):
        if run.call(cost=0.5) is not None:
            run.reviewed()
    spent = [(one.reasons[0].value, one.level) for one in run.decisions]
    assert spent == [(10.0, "pause"), (25.0, "pause"), (50.0, "stop")]


DEAR: Final = replace(STANDARD, signals=replace(STANDARD.signals, cost=CostRule(per_action=None, acceleration=None)))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"task_class": "medium"},
        {"history": CallHistory((3,) * 10, (10.0,) * 10)},
        {"history": CallHistory((14,) * 10, (600.0,) * 10)},
    ],
    ids=["too early", "only watched", "taken for short", "nearly done"],
)
def test_no_restraint_holds_a_milestone_back(given: dict[str, Any]) -> None:
    run = Run(DEAR, **given)
    decision = run.wait(1).call(cost=10.0)
    assert decision is not None
    assert (decision.level, decision.held, decision.is_wish) == ("pause", (), True)


@pytest.mark.parametrize("task_class", ["short", "protected"])
def test_of_a_milestone_in_a_run_that_nothing_interrupts_people_are_told(task_class: TaskClass) -> None:
    assert level(Run(DEAR, task_class=task_class).wait(1).call(cost=10.0)) == "notify"


def test_a_milestone_uses_up_no_occasion_on_which_the_run_may_be_asked_or_paused() -> None:
    run = Run(DEAR).settle()
    assert level(run.call(cost=10.0)) == "pause"
    run.reviewed()
    run.calls(10, digest="same")
    assert run.levels == ["pause", "notify", "ask_plan", "pause"]


def test_a_milestone_that_was_leapt_over_is_asked_once() -> None:
    run = Run(replace(STANDARD, signals=replace(STANDARD.signals, cost=CostRule(per_action=None)))).settle()
    decision = run.call(cost=26.0)
    assert decision is not None
    assert (decision.level, decision.reasons[0].threshold) == ("pause", 25.0)
    assert "past the milestone of $25.00" in decision.sentence
    run.reviewed()
    assert run.call(cost=0.1) is None


def test_after_a_stop_the_milestones_below_it_are_not_asked_for_once_more() -> None:
    run = Run(replace(STANDARD, signals=replace(STANDARD.signals, cost=CostRule(per_action=None)))).settle()
    assert level(run.call(cost=51.0)) == "stop"
    run.reviewed()
    assert run.calls(5, cost=0.1) is None
    assert run.levels == ["stop"]


def test_one_dear_action_is_a_reason_and_the_cheap_ones_after_it_are_not() -> None:
    run = Run().settle()
    assert run.call(cost=0.99) is None
    decision = run.call(cost=1.0)
    assert decision is not None
    assert [reason.signal for reason in decision.reasons] == ["cost.per_action"]
    assert decision.level == "ask_plan"
    assert run.calls(5, cost=0.01) is None


def test_requests_that_become_dearer_warn_and_steady_ones_never_do() -> None:
    run = Run().settle()
    assert run.calls(40, kind="model", cost=0.001) is None
    run.calls(20, kind="model", cost=0.01)
    assert run.levels == ["notify"]
    assert run.decisions[0].reasons[0].signal == "cost.acceleration"


def test_the_cost_of_three_requests_has_not_become_dearer() -> None:
    run = Run().settle()
    for cost in (0.001, 0.01, 0.1):
        assert run.call("model", cost=cost) is None
    assert run.value("cost.acceleration") is None


# ---- budget


def test_a_budget_warns_at_eight_tenths_and_stops_when_it_is_spent() -> None:
    run = Run(budget=5.0).settle()
    assert run.calls(7, cost=0.5) is None
    assert level(run.call(cost=0.5)) == "notify"
    assert run.call(cost=0.5) is None
    assert level(run.call(cost=0.5)) == "stop"


def test_a_budget_that_was_raised_warns_and_stops_again() -> None:
    run = Run(budget=2.5).settle()
    run.calls(5, cost=0.5)
    assert run.levels == ["notify", "stop"]
    run.oversight.budget = 5.0
    run.reviewed()
    assert run.calls(2, cost=0.5) is None
    assert level(run.call(cost=0.5)) == "notify"
    run.calls(2, cost=0.5)
    assert run.levels == ["notify", "stop", "notify", "stop"]


def test_without_a_budget_nothing_is_spent_of_it() -> None:
    run = Run().settle()
    run.call(cost=0.5)
    assert run.value("budget") is None


# ---- errors


@pytest.mark.parametrize("profile", TURNS)
def test_so_many_errors_in_a_row_stop_at_once_and_a_success_between_them_begins_anew(profile: str) -> None:
    streak = STREAKS[profile]
    run = Run(PROFILES[profile])
    run.calls(streak - 1, error="ValueError")
    run.call()
    run.calls(streak - 1, error="ValueError")
    assert "stop" not in run.levels
    assert level(run.call(error="ValueError")) == "stop"
    assert "The last: read: ValueError." in run.decisions[-1].sentence


def test_the_error_rate_needs_at_least_five_calls() -> None:
    run = Run().wait(5 * MINUTE)
    for error in ("ValueError", "", "ValueError", ""):
        assert run.call(error=error) is None
        assert run.value("errors") is None
    assert level(run.call()) == "ask_plan"
    assert run.value("errors") == 0.4


def test_the_error_rate_is_that_of_the_last_twenty_calls() -> None:
    run = Run().wait(5 * MINUTE)
    for _ in range(3):
        run.call(error="ValueError")
        run.call()
    assert run.value("errors") == 0.5
    run.calls(40)
    assert run.value("errors") == 0.0


def test_a_model_that_answers_says_nothing_of_whether_tools_work() -> None:
    run = Run()
    for _ in range(4):
        run.call(error="ValueError")
        run.call("model")
    assert (run.value("errors.streak"), run.value("errors")) == (4, None)


def test_an_error_rate_counts_again_after_it_has_been_below() -> None:
    run = Run().settle(20)
    run.calls(4, error="ValueError")
    run.calls(30)
    run.calls(4, error="ValueError")
    assert run.levels == ["notify", "notify"]


# ---- token rate


def test_a_model_that_writes_at_less_than_three_tenths_of_its_own_speed_is_asked_why() -> None:
    run = Run().settle()
    assert run.calls(20, kind="model", tokens_out=100, seconds=1.0) is None
    run.calls(4, kind="model", tokens_out=10, seconds=1.0)
    assert run.levels == ["ask_plan"]
    assert run.decisions[0].reasons[0].signal == "token_rate"


def test_a_token_rate_needs_six_calls_that_were_measured() -> None:
    run = Run().settle()
    run.calls(5, kind="model", tokens_out=100, seconds=1.0)
    run.calls(5, kind="model", tokens_out=None, seconds=1.0)
    run.calls(5, kind="model", tokens_out=100, seconds=0.0)
    assert run.value("token_rate") is None
    run.call("model", tokens_out=100, seconds=1.0)
    assert run.value("token_rate") == pytest.approx(1.0)


# ---- calls left


HUNDRED: Final = CallHistory((100,) * 10, (600.0,) * 10)


def test_over_half_of_the_calls_left_when_half_of_the_budget_is_spent_is_a_reason() -> None:
    run = Run(budget=10.0, history=HUNDRED)
    run.wait(5 * MINUTE).calls(40)
    assert run.call(cost=0.9) is None
    run.calls(4, cost=0.9)
    assert run.value("calls_left") is None  # only 4.50 are spent
    decision = run.call(cost=0.5)
    assert run.value("calls_left") == pytest.approx(0.54)
    assert level(decision) == "ask_plan"


def test_with_half_of_the_calls_made_half_of_the_budget_may_be_spent() -> None:
    run = Run(budget=10.0, history=HUNDRED)
    run.wait(5 * MINUTE).calls(44)
    run.calls(6, cost=0.9)
    assert run.value("calls_left") == 0.5
    assert run.levels == []


def test_a_raised_budget_takes_back_that_half_of_it_is_spent() -> None:
    run = Run(budget=10.0, history=HUNDRED)
    run.wait(5 * MINUTE).calls(30)
    run.calls(6, cost=0.9)
    assert run.levels == ["ask_plan"]
    run.oversight.budget = 100.0
    run.calls(10, cost=0.01)
    assert run.value("calls_left") is None
    assert run.levels == ["ask_plan"]


def test_what_is_nearly_done_may_finish_unless_a_stop_fires() -> None:
    run = Run(history=HUNDRED)
    run.wait(5 * MINUTE).calls(83)
    for _ in range(3):
        run.call(digest="same")
    # 14 of 100 calls are left.
    decision = run.call(digest="same")
    decision = run.call(digest="same")
    assert decision is not None
    assert (decision.level, decision.wanted) == ("notify", "ask_plan")
    assert any("may finish" in rule for rule in decision.held)
    run.calls(4, error="ValueError")
    assert level(run.call(error="ValueError")) == "stop"


def test_with_fifteen_percent_left_it_is_still_asked() -> None:
    values = {"loops": 5.0}
    assert evaluate(STANDARD, observed(values, share_left=0.15, calls_left=15.0), None).level == "ask_plan"
    held = evaluate(STANDARD, observed(values, share_left=math.nextafter(0.15, 0), calls_left=14.9), None)
    assert (held.level, held.held) == ("notify", ("15% of its calls are left: it may finish",))


# ---- hypothesis


def test_a_hypothesis_that_stands_unchanged_warns_after_ten_minutes_and_is_asked_about_after_fifteen() -> None:
    run = Run().settle()
    run.report(hypothesis="The invoices are counted twice")
    assert run.wait(9.9 * MINUTE).look() is not None  # the turn itself has taken ten minutes by now
    assert run.decisions[-1].reasons[0].signal == "duration"
    assert run.wait(0.1 * MINUTE).look() is not None
    assert [reason.signal for reason in run.decisions[-1].reasons if reason.stage == "warn"] == ["hypothesis"]
    decision = run.wait(5 * MINUTE).look()
    assert decision is not None
    assert (decision.level, decision.reasons[0].signal) == ("ask_plan", "hypothesis")
    assert decision.reasons[0].value == 15 * MINUTE


def test_the_same_words_are_no_update_and_other_words_are() -> None:
    run = Run()
    run.report(hypothesis="It is the cache")
    run.wait(5 * MINUTE).report(hypothesis="It is the cache")
    assert run.value("hypothesis") == 5 * MINUTE
    run.report(hypothesis="It is the clock")
    assert run.value("hypothesis") == 0.0


def test_the_second_hypothesis_that_grows_old_is_told_like_the_first() -> None:
    policy = replace(
        STANDARD, signals=replace(STANDARD.signals, duration=replace(STANDARD.signals.duration, warn=None))
    )
    run = Run(policy).settle()
    run.report(hypothesis="It is the cache")
    assert level(run.wait(11 * MINUTE).look()) == "notify"
    run.report(hypothesis="It is the clock")
    assert run.wait(1 * MINUTE).look() is None
    decision = run.wait(9 * MINUTE).look()
    assert decision is not None
    assert "hypothesis" in [reason.signal for reason in decision.reasons]


def test_without_a_hypothesis_there_is_none_to_grow_old() -> None:
    run = Run().settle()
    run.wait(4 * MINUTE).look()
    assert run.value("hypothesis") is None
    assert "hypothesis" in {one.signal for one in run.oversight.unseen()}


def test_where_a_hypothesis_is_required_acting_without_one_is_told() -> None:
    rule = replace(STANDARD.signals.hypothesis, required=True)
    run = Run(replace(STANDARD, signals=replace(STANDARD.signals, hypothesis=rule)))
    run.wait(9.9 * MINUTE).calls(10)
    assert run.levels == []
    run.wait(0.1 * MINUTE).call()
    assert "hypothesis" in [reason.signal for reason in run.decisions[0].reasons]
    assert "It has stated none at all." in run.decisions[0].sentence
    decision = run.wait(5 * MINUTE).call()
    assert decision is not None
    assert (decision.level, decision.reasons[0].signal) == ("ask_plan", "hypothesis")


# ---- scope


def begun_in(*folders: str) -> Run:
    """A run that has shown where it changes things."""
    run = Run().settle()
    for folder in folders:
        run.call(resources=(f"{folder}/a.py",), effect="reversible")
    return run


def test_twice_the_domains_it_began_in_is_a_reason() -> None:
    run = begun_in("src", "tests", "src")
    assert run.value("scope.expansion") == 1.0
    assert run.call(resources=("docs/a.md",), effect="reversible") is None
    assert run.value("scope.expansion") == 1.5
    assert level(run.call(resources=("infra/a.tf",), effect="reversible")) == "ask_plan"
    assert run.value("scope.expansion") == 2.0
    assert run.decisions[0].reasons[0].signal == "scope.expansion"


def test_to_look_around_is_no_expansion() -> None:
    run = begun_in("src", "tests", "src")
    for number in range(15):
        assert run.call(resources=(f"d{number}/a.md",), effect="read") is None
    assert run.value("scope.expansion") == 1.0
    assert run.value("scope.new_domain") == 0


def test_five_actions_in_a_new_domain_are_a_reason_and_a_person_who_resumes_confirms_it() -> None:
    run = begun_in("src", "tests", "bench")
    for number in range(4):
        assert run.call(resources=(f"new/{number}.md",), effect="reversible") is None
    decision = run.call(resources=("new/4.md",), effect="reversible")
    assert decision is not None
    assert (decision.level, decision.reasons[0].signal) == ("ask_plan", "scope.new_domain")
    assert "The latest is new." in decision.sentence
    run.calls(3, resources=("new/5.md",), effect="reversible")
    assert run.levels == ["ask_plan", "pause"]
    run.reviewed()
    assert run.value("scope.new_domain") == 0
    assert run.calls(20, resources=("new/6.md",), effect="reversible") is None
    # Confirmed is what it works on now, and nothing else.
    run.calls(4, resources=("other/6.md",), effect="reversible")
    assert run.value("scope.new_domain") == 4


def test_a_person_who_says_something_confirms_where_it_works() -> None:
    run = begun_in("src", "src", "src")
    run.calls(3, resources=("docs/a.md",), effect="reversible")
    assert run.value("scope.new_domain") == 3
    run.say("yes, the docs too")
    assert run.value("scope.new_domain") == 0


@pytest.mark.parametrize("profile", TURNS)
def test_different_resources_are_counted_once_each(profile: str) -> None:
    warn, intervene, stop = RESOURCES[profile]
    run = Run(PROFILES[profile]).wait(5 * MINUTE)
    for number in range(stop):
        run.call(resources=(f"src/{number}.py", f"src/{number}.py"))
        run.call(resources=(f"src/{number}.py",))
        if run.decisions and run.decisions[-1].level == "pause":
            run.reviewed()
    told = {reason.threshold: one.level for one in run.decisions for reason in one.reasons[:1]}
    assert {warn: "notify", stop: "stop"}.items() <= told.items()
    assert run.levels[:2] == ["notify", "ask_plan"]
    assert [one.reasons[0].value for one in run.decisions][:2] == [warn, intervene]


# ---- loops


def test_the_same_call_three_times_warns_and_five_times_asks_for_the_plan() -> None:
    run = Run().settle()
    decisions = [level(run.call(digest="same")) for _ in range(5)]
    assert decisions == ["none", "none", "notify", "none", "ask_plan"]
    assert "The call is read." in run.decisions[-1].sentence


def test_progress_of_any_kind_begins_the_count_anew() -> None:
    for progress in ("report", "plan", "say"):
        run = Run().settle()
        for _ in range(2):
            run.call(digest="same")
        match progress:
            case "report":
                run.report(progress=0.5)
            case "plan":
                run.plan(3, 1)
            case _:
                run.say("go on")
        for _ in range(2):
            assert run.call(digest="same") is None, progress
        assert run.value("loops") == 2


def test_the_same_progress_once_more_is_none() -> None:
    run = Run().settle()
    run.report(progress=0.5)
    for _ in range(2):
        run.call(digest="same")
    run.report(progress=0.5)
    run.plan(3, 0)
    assert level(run.call(digest="same")) == "notify"


def test_a_person_who_speaks_into_a_loop_is_not_answered_with_an_alarm_about_it() -> None:
    run = Run()
    for _ in range(6):
        run.call(digest="same")
    assert run.levels == ["notify", "notify"]  # two minutes have not passed
    run.wait(3 * MINUTE)
    assert run.say("try the other file") is None
    assert run.look() is None


def test_calls_that_differ_in_one_argument_count_for_a_quarter_and_only_in_a_row() -> None:
    run = Run().settle()
    for number in range(13):
        run.call(name="search", arguments=f'{{"query": "churn", "page": {number}}}')
    assert run.value("loops") == pytest.approx(11 / 4) or run.value("loops") == pytest.approx(12 / 4)
    run.call(name="write")
    run.call(name="search", arguments='{"query": "churn", "page": 99}')
    assert run.value("loops") == 1


def test_a_model_that_is_asked_again_is_no_loop() -> None:
    run = Run().settle()
    assert run.calls(20, kind="model", name="think", digest="same") is None


# ---- latches


def test_what_was_told_is_not_told_again_and_what_was_done_not_done_again() -> None:
    run = Run().settle()
    for number in range(49):
        run.call(resources=(f"src/{number}.py",))
    assert run.levels == ["notify"]
    run.call(resources=("src/49.py",))
    run.calls(10, resources=("src/0.py",))
    assert run.levels == ["notify", "ask_plan", "pause"]
    run.reviewed()
    run.calls(50, resources=("src/0.py",))
    assert run.levels == ["notify", "ask_plan", "pause"]


def test_each_dear_action_counts_once_the_cost_of_one_was_clearly_back() -> None:
    run = Run().settle()

    def costs(*dollars: float) -> None:
        for cost in dollars:
            run.call(kind="model", cost=cost)

    costs(1.2, 0.9, 1.2, 0.9, 1.2, 0.9)  # within the margin
    told = [one for one in run.decisions if any(reason.signal == "cost.per_action" for reason in one.reasons)]
    assert [one.level for one in told] == ["ask_plan", "pause"], "asked for its plan, and paused: nothing else"
    run.reviewed()
    costs(*[0.5] * STANDARD.restraint.requests_per_intervention, 1.2)
    last = run.decisions[-1].reasons[0]
    assert last.signal == "cost.per_action"
    assert last.sentence.endswith("Notified before; since then it was below $0.80.")


def test_how_far_and_for_how_long_it_must_have_gone_back_is_the_policys() -> None:
    def goes_back(*shares: float, **restraint: Any) -> bool:
        """Whether drift counts anew after it was at these shares of its threshold, one for each action."""
        mark = STANDARD.signals.scope_drift.warn
        assert mark is not None
        latches = Latches(replace(STANDARD.restraint, **restraint))
        latches.told = {("scope_drift", "warn"): Latch(1, 1)}
        latches.arm(rules_of(STANDARD), (), tells_only=False)
        return any(
            latches.forget_what_went_back({"scope_drift": share * mark}, action) for action, share in enumerate(shares)
        )

    assert goes_back(*[0.7] * 12)
    assert not goes_back(*[0.7] * 11)
    assert not goes_back(*[0.7] * 11, 0.9, *[0.7] * 11), "not in a row"
    assert not goes_back(*[0.9] * 50), "not far enough"
    assert goes_back(0.7, again_after=1)
    assert not goes_back(0.7, again_after=1, again=0.4)
    assert not goes_back(0.0, again_after=1, again=1.0), "never"


def test_who_was_told_of_worse_is_not_warned_on_the_way_back() -> None:
    run = Run(task_class="medium").settle()
    run.calls(5, digest="same")
    run.calls(17)
    assert run.value("loops") == 3
    assert [one.reasons[0].stage for one in run.decisions] == ["warn", "intervene"]


def test_a_milestone_below_the_warning_does_not_take_its_place() -> None:
    rule = CostRule(warn=20, milestones=(10, 40), stop=100, per_action=None, acceleration=None)
    policy = replace(STANDARD, signals=replace(STANDARD.signals, cost=rule))
    told: dict[tuple[str, str], Latch] = {}
    levels: list[tuple[int, str]] = []
    for cost in range(1, 39):
        look = observed({"cost": cost}, told=told)
        decision = evaluate(policy, look, None)
        told = after(decision, look, rules_of(policy))
        levels += [(cost, decision.level)] if decision.level != "none" else []
    assert levels == [(10, "pause"), (20, "notify")]


def test_what_could_not_be_carried_out_warns_nobody_a_second_time() -> None:
    run = Run(task_class="medium").settle()
    run.calls(4, digest="same")
    assert [one.reasons[0].stage for one in run.decisions] == ["warn"]
    decision = run.oversight.see(Called(kind="tool", name="read", digest="same", at=run.at))
    assert decision is not None
    assert decision.reasons[0].stage == "intervene"
    run.oversight.failed(decision)
    assert run.oversight.observed().told == {("loops", "warn"): Latch(1, 1)}


@pytest.mark.parametrize(
    ("costs", "per_request"),
    [([0.0, 0.0], 0.0), ([0.0, None], None), ([None], None), ([0.5, None], 0.25), ([0.0, 0.5], 0.25)],
)
def test_some_free_calls_make_no_price_of_the_others_known(
    costs: list[float | None], per_request: float | None
) -> None:
    spending = Spending()
    for cost in costs:
        spending.feed(Called(kind="model", name="m", cost=cost))
    assert spending.per_request == per_request


def test_what_costs_nothing_and_has_no_clock_is_stepped_into_all_the_same() -> None:
    for price in (None, 0.0):
        assert worth_of(STANDARD, observed({}, dollars_per_request=price, seconds_per_request=None), "pause") is None


def test_twice_a_stop_stops_again() -> None:
    told = {("resources", "stop"): Latch(1, 1), ("resources", "intervene"): Latch(1, 1)}
    assert evaluate(STANDARD, observed({"resources": 199}, told=told), None).level == "none"
    assert evaluate(STANDARD, observed({"resources": 200}, told=told), None).level == "stop"


def test_a_threshold_that_does_not_exist_is_never_reached() -> None:
    bare = Policy(name="bare")
    none = replace(bare.signals.resources, warn=None, intervene=None, stop=None)
    bare = replace(bare, signals=replace(bare.signals, resources=none))
    assert evaluate(bare, observed({"resources": 1e9}), None).level == "none"


@pytest.mark.parametrize("profile", PROFILES)
def test_alignment_is_measured_under_every_profile_from_when_a_hypothesis_is_stated(profile: str) -> None:
    run = Run(PROFILES[profile], drift=FixedDrift(0.4))
    run.calls(2)
    assert run.value("scope_drift.alignment") is None
    run.report(hypothesis="The pool is too small")
    assert run.value("scope_drift.alignment") == 0.4
    run.say("Look at the queue instead")
    assert run.value("scope_drift.alignment") is None
    run.call()
    assert run.value("scope_drift.alignment") == 0.4
