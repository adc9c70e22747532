"""Task classes: which of them a policy may interrupt, how a class is known; and the presets, by the design."""

from typing import Final

import pytest
from msgspec.structs import replace

from midcourse.core.terms import TaskClass
from midcourse.policy.document import CLASSES, ClassRule
from midcourse.policy.evaluation import evaluate
from midcourse.policy.profiles import BUILT_IN, PRESETS, PROFILES, STANDARD
from midcourse.policy.signals.calls_left import ENOUGH, NO_HISTORY, CallHistory, class_of
from tests.policy.runs import MINUTE, Run, level, observed, runs_of

DOES: Final[dict[TaskClass, dict[str, str]]] = {
    "short": {"warn": "notify", "intervene": "notify", "stop": "notify"},
    "medium": {"warn": "notify", "intervene": "notify", "stop": "stop"},
    "long": {"warn": "notify", "intervene": "ask_plan", "stop": "stop"},
    "very_long": {"warn": "notify", "intervene": "ask_plan", "stop": "stop"},
    "protected": {"warn": "notify", "intervene": "notify", "stop": "notify"},
}
RESOURCES: Final = {"warn": 20.0, "intervene": 50.0, "stop": 100.0}


@pytest.mark.parametrize("task_class", CLASSES)
@pytest.mark.parametrize("stage", RESOURCES)
def test_a_class_lets_a_policy_do_what_the_design_says(task_class: TaskClass, stage: str) -> None:
    seen = observed({"resources": RESOURCES[stage]}, task_class=task_class, is_class_declared=True)
    decision = evaluate(STANDARD, seen, None)
    assert decision.level == DOES[task_class][stage]
    assert decision.wanted == DOES["long"][stage]
    is_held = decision.level != decision.wanted
    assert bool(decision.held) == is_held
    if is_held:
        assert f"declared {task_class}" in decision.held[0]


@pytest.mark.parametrize("task_class", ["short", "protected"])
@pytest.mark.parametrize("profile", PROFILES)
def test_no_run_of_a_class_that_is_never_interrupted_is_whatever_happens(profile: str, task_class: TaskClass) -> None:
    run = Run(PROFILES[profile], asks=True, task_class=task_class, budget=1.0)
    run.begin("fix it")
    for number in range(300):
        run.wait(MINUTE).call(digest="same", error="PermissionError", cost=3.0, resources=(f"d{number}/a",))
    assert set(run.levels) == {"notify"}
    assert {"budget", "cost", "duration", "errors.streak", "resources"} <= {
        reason.signal for one in run.decisions for reason in one.reasons if reason.stage == "stop"
    }


def test_people_are_told_of_a_hard_stop_in_a_protected_run_once() -> None:
    run = Run(task_class="protected")
    for _ in range(5):
        run.call(error="ValueError")
    run.call(error="ValueError")
    assert run.levels == ["notify"]
    assert run.decisions[0].wanted == "stop"


def test_in_a_class_that_is_watched_an_agent_may_still_ask_of_its_own_accord() -> None:
    run = Run(asks=True, task_class="medium")
    assert level(run.call(error="PermissionError")) == "ask"


# ---- how a class is known


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        (5, "short"),
        (29.9, "short"),
        (30, "medium"),
        (299.9, "medium"),
        (300, "long"),
        (3599.9, "long"),
        (3600, "very_long"),
        (9e9, "very_long"),
    ],
)
def test_a_class_is_predicted_from_the_agents_own_runs(seconds: float, wanted: str) -> None:
    assert class_of(runs_of(seconds), STANDARD.classes, 0.0) == wanted
    assert Run(history=runs_of(seconds)).oversight.task_class == wanted


def test_the_middle_run_counts_not_the_longest() -> None:
    seconds = (1.0, 1.0, 10.0, 5000.0, 9000.0)
    assert class_of(CallHistory((1,) * 5, seconds), STANDARD.classes, 0.0) == "short"


@pytest.mark.parametrize("history", [NO_HISTORY, CallHistory((3,) * (ENOUGH - 1), (1.0,) * (ENOUGH - 1))])
def test_undeclared_and_without_a_history_a_run_is_long(history: CallHistory) -> None:
    assert Run(history=history).oversight.task_class == "long"


def test_a_declared_class_stands_whatever_the_history_says_and_however_long_it_takes() -> None:
    run = Run(task_class="short", history=runs_of(5000))
    run.wait(60 * MINUTE).look()
    assert run.oversight.task_class == "short"
    assert Run(task_class="very_long", history=runs_of(1)).oversight.task_class == "very_long"


def test_a_run_that_outlives_its_class_moves_up() -> None:
    run = Run(history=runs_of(10))
    assert run.oversight.task_class == "short"
    run.wait(29).look()
    assert run.oversight.task_class == "short"
    run.wait(1).look()
    assert run.oversight.task_class == "medium"
    run.wait(270).look()
    assert run.oversight.task_class == "long"
    run.wait(55 * MINUTE).look()
    assert run.oversight.task_class == "very_long"


def test_a_run_without_a_history_has_no_end_in_sight_after_an_hour() -> None:
    run = Run()
    run.wait(3599).look()
    assert run.oversight.task_class == "long"
    run.wait(1).look()
    assert run.oversight.task_class == "very_long"


def test_a_policy_that_sets_no_end_to_long_runs_predicts_no_longer_ones() -> None:
    endless = replace(STANDARD.classes, long=replace(STANDARD.classes.long, up_to=None))
    assert class_of(runs_of(9e9), endless, 9e9) == "long"
    assert class_of(NO_HISTORY, endless, 9e9) == "long"


@pytest.mark.parametrize("task_class", ["short", "medium"])
def test_a_run_that_is_only_taken_for_short_is_stopped_and_one_declared_short_is_not(task_class: TaskClass) -> None:
    policy = PRESETS["customer-support"]  # it never interrupts medium runs, either
    seconds = {"short": 10, "medium": 100}[task_class]
    guessed = Run(policy, history=runs_of(seconds))
    assert guessed.oversight.task_class == task_class
    assert level(guessed.wait(1).calls(5, error="ValueError")) == "stop"
    declared = Run(policy, task_class=task_class)
    assert level(declared.wait(1).calls(5, error="ValueError")) == "notify"
    assert f"declared {task_class}" in declared.decisions[0].held[0]


def test_a_run_that_is_only_taken_for_short_is_asked_and_paused_for_nothing_less() -> None:
    run = Run(history=runs_of(25))
    run.wait(20).calls(10)
    run.calls(10, digest="same")
    assert set(run.levels) == {"notify"}
    assert "taken for short" in run.decisions[-1].held[0]


# ---- the table of classes


@pytest.mark.parametrize(
    ("task_class", "automatic", "strategy", "interruption", "completion"),
    [
        ("short", "never", "finish", (0.0, 0.0), (1.0, 1.0)),
        ("medium", "watched", "interrupt", (0.05, 0.10), (0.95, 0.98)),
        ("long", "yes", "checkpoint", (0.10, 0.20), (0.90, 0.95)),
        ("very_long", "yes", "incremental", (0.15, 0.30), (0.85, 0.90)),
        ("protected", "never", "protect", (0.0, 0.0), (0.999, 1.0)),
    ],
)
def test_a_class_has_the_designs_strategy_and_targets(
    task_class: TaskClass,
    automatic: str,
    strategy: str,
    interruption: tuple[float, float],
    completion: tuple[float, float],
) -> None:
    for profile in PROFILES.values():
        rule = profile.classes.of(task_class)
        assert (rule.automatic, rule.strategy) == (automatic, strategy)
        assert (rule.interruption_rate, rule.completion_rate) == (interruption, completion)


def test_long_runs_checkpoint_every_thousand_calls_and_very_long_ones_write_segments_of_a_hundred_tokens() -> None:
    assert STANDARD.classes.long.checkpoint_calls == 1000
    assert STANDARD.classes.very_long.segment_tokens == 100


# ---- presets


def test_customer_support_finishes_what_takes_up_to_five_minutes() -> None:
    policy = PRESETS["customer-support"]
    assert policy.targets.load == "10,000 a day"
    assert (policy.classes.short.up_to, policy.classes.medium.up_to) == (30, 300)
    assert (policy.classes.medium.automatic, policy.classes.medium.strategy) == ("never", "finish")
    assert policy.classes.long.interruption_rate == (0.10, 0.15)
    assert policy.classes.long.completion_rate == (0.95, 0.98)
    assert (policy.targets.completion, policy.targets.satisfaction) == (0.95, 0.80)
    seen = observed({"errors.streak": 5.0}, task_class="medium", is_class_declared=True)
    assert evaluate(policy, seen, None).level == "notify"
    assert evaluate(policy, observed({"errors.streak": 5.0}), None).level == "stop"


@pytest.mark.parametrize("task_class", CLASSES)
def test_trading_is_never_interrupted_in_any_class(task_class: TaskClass) -> None:
    policy = PRESETS["trading"]
    rule: ClassRule = policy.classes.of(task_class)
    assert (rule.automatic, rule.strategy, rule.interruption_rate) == ("never", "protect", (0.0, 0.0))
    for values in ({"errors.streak": 50.0}, {"budget": 3.0}, {"duration": 86_400.0}, {"loops": 50.0}):
        assert evaluate(policy, observed(values, task_class=task_class), None).level == "notify"


def test_trading_has_the_designs_targets() -> None:
    targets = PRESETS["trading"].targets
    assert (targets.load, targets.response_p99) == ("100 a second", 0.2)
    assert (targets.completion, targets.satisfaction) == (0.999, 0.95)


def test_code_generation_is_written_piece_by_piece() -> None:
    policy = PRESETS["code-generation"]
    rule = policy.classes.long
    assert (rule.segment_tokens, rule.checkpoint_tokens) == (100, 1000)
    assert (rule.interruption_rate, rule.completion_rate) == ((0.10, 0.15), (0.90, 0.95))
    assert (policy.targets.load, policy.targets.response_p99, policy.targets.quality) == ("1,000 a day", 5, 0.95)


def test_reports_hold_against_the_designs_targets() -> None:
    targets = STANDARD.targets
    assert (targets.response_p50, targets.response_p99) == (0.1, 0.5)
    assert (targets.completion, targets.satisfaction) == (0.95, 0.80)


def test_presets_keep_the_thresholds_of_the_profile_they_extend() -> None:
    for preset in PRESETS.values():
        assert preset.extends == "standard"
        assert replace(preset.signals, budget=STANDARD.signals.budget) == STANDARD.signals
    assert set(BUILT_IN) == {"conservative", "standard", "permissive", "customer-support", "trading", "code-generation"}
