"""The built-in policies have the design's numbers; what cannot be meant is refused; a difference tells every change."""

from collections.abc import Iterator
from math import inf, nan
from typing import Any

import pytest
from msgspec.structs import replace

from midcourse.analysis.reports.proposals import with_setting
from midcourse.errors import InvalidInput
from midcourse.policy import validation
from midcourse.policy.document import CLASSES, Part, Policy
from midcourse.policy.durations import Span, parse_duration
from midcourse.policy.profiles import BUILT_IN, CONSERVATIVE, PERMISSIVE, PRESETS, PROFILES, STANDARD
from midcourse.policy.validation import (
    ParameterChange,
    check_policy,
    contradictions,
    difference,
    expected_kind,
    format_duration,
    parameters,
    read_setting,
    shown,
)

MINUTE = 60.0
DAY = 86_400.0


def settings(policy: Policy) -> dict[str, Any]:
    return {one.path: one.value for one in parameters(policy)}


def changed(policy: Policy, **values: object) -> Policy:
    """``policy`` with other settings; ``__`` in a name is a dot."""
    for name, value in values.items():
        policy = _set(policy, name.split("__"), value)
    return policy


def _set(part: Any, path: list[str], value: object) -> Any:
    first, *rest = path
    return replace(part, **{first: _set(getattr(part, first), rest, value) if rest else value})


# ---- the design's tables

PROFILE_TABLE = {
    "conservative": (15, 5, 25, 3, 0.5, 30, 3, 2),
    "standard": (25, 10, 50, 5, 0.7, 50, 5, 5),
    "permissive": (45, 25, 100, 10, 0.85, 100, 10, 15),
}
"""Turn duration (min), cost warning and hard stop ($), error streak, drift, resources, interventions an hour, response
target (min)."""


@pytest.mark.parametrize("name", PROFILE_TABLE)
def test_a_profile_has_the_numbers_of_the_table(name: str) -> None:
    minutes, warn, stop, streak, drift, resources, hourly, response = PROFILE_TABLE[name]
    policy = PROFILES[name]
    turn, touched = policy.signals.duration, policy.signals.resources

    assert (turn.warn, turn.explain, turn.intervene) == (
        0.4 * minutes * MINUTE,
        0.8 * minutes * MINUTE,
        minutes * MINUTE,
    )
    assert turn.stop == min(45, 1.8 * minutes) * MINUTE
    assert (policy.signals.cost.warn, policy.signals.cost.stop) == (warn, stop)
    assert policy.signals.errors.streak == streak
    assert policy.signals.scope_drift.intervene == drift
    assert (touched.warn, touched.intervene, touched.stop) == (0.4 * resources, resources, 2 * resources)
    assert policy.restraint.interventions_per_hour == hourly
    assert policy.response_target == response * MINUTE


SIGNAL_TABLE = {
    "duration.warn": 10 * MINUTE,
    "duration.explain": 20 * MINUTE,
    "duration.stop": 45 * MINUTE,
    "cost.warn": 10,
    "cost.per_action": 1,
    "cost.stop": 50,
    "cost.milestones": (10, 25, 50),
    "errors.warn": 0.2,
    "errors.intervene": 0.4,
    "errors.streak": 5,
    "scope_drift.warn": 0.5,
    "scope_drift.intervene": 0.7,
    "resources.warn": 20,
    "resources.intervene": 50,
    "resources.stop": 100,
    "token_rate.intervene": 0.3,
    "calls_left.intervene": 0.5,
    "calls_left.finish": 0.15,
    "hypothesis.warn": 10 * MINUTE,
    "hypothesis.intervene": 15 * MINUTE,
    "scope.expansion": 2.0,
    "scope.new_domain": 5,
    "loops.warn": 3,
    "loops.intervene": 5,
    **{f"{name}.{level}": None for name in ("api_calls", "compute_seconds", "bytes") for level in ("warn", "stop")},
}


@pytest.mark.parametrize("path", SIGNAL_TABLE)
def test_the_standard_profile_is_the_table_of_signals(path: str) -> None:
    assert settings(STANDARD)[f"signals.{path}"] == SIGNAL_TABLE[path]


def test_a_rate_that_accelerates_warns() -> None:
    assert all(policy.signals.cost.acceleration for policy in BUILT_IN.values())


RESTRAINT_TABLE = {
    "restraint.first_after_actions": 3,
    "restraint.first_after": 2 * MINUTE,
    "restraint.requests_per_intervention": 1000,
    "restraint.approvals_in_a_row": 20,
    "restraint.false_positives": 0.30,
    "restraint.quality": 0.90,
    "restraint.retries": 3,
    "restraint.worth.per_kilobyte": 0.0005,
    "restraint.worth.recovery": 0.005,
    "restraint.worth.quality": 0.10,
    "restraint.worth.quality_for": 30,
    "correction": 200,
    "environments.approve": ("prod",),
    "environments.approve_paid": True,
    "environments.audit": 90 * DAY,
    "artifacts.documented": True,
    "artifacts.review": 7 * DAY,
    "ask_plan": True,
}


@pytest.mark.parametrize("path", RESTRAINT_TABLE)
def test_every_profile_has_the_design_s_restraint(path: str) -> None:
    for policy in PROFILES.values():
        assert settings(policy)[path] == RESTRAINT_TABLE[path]


def test_a_request_is_worth_what_the_design_says_until_it_is_measured() -> None:
    assert 0.001 <= STANDARD.restraint.worth.per_request <= 0.01


def test_the_agent_asks_for_all_five_reasons() -> None:
    asks = STANDARD.agent_asks
    assert asks.ambiguous and asks.credentials and asks.drift and asks.limits and asks.unknown_errors  # noqa: PT018


CLASS_TABLE = {
    "short": ("never", "finish", 30, (0, 0), (1, 1)),
    "medium": ("watched", "interrupt", 300, (0.05, 0.10), (0.95, 0.98)),
    "long": ("yes", "checkpoint", 3600, (0.10, 0.20), (0.90, 0.95)),
    "very_long": ("yes", "incremental", None, (0.15, 0.30), (0.85, 0.90)),
    "protected": ("never", "protect", None, (0, 0), (0.999, 1)),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", CLASS_TABLE)
def test_a_task_class_has_the_numbers_of_the_table(profile: str, name: Any) -> None:
    rule = PROFILES[profile].classes.of(name)

    assert (rule.automatic, rule.strategy, rule.up_to, rule.interruption_rate, rule.completion_rate) == CLASS_TABLE[
        name
    ]


def test_long_classes_are_cut_into_the_pieces_of_the_table() -> None:
    classes = STANDARD.classes
    assert tuple(CLASS_TABLE) == CLASSES
    assert classes.long.checkpoint_calls == 1000
    assert classes.very_long.segment_tokens == 100


def test_the_presets_have_the_numbers_of_the_table() -> None:
    support, trading, code = PRESETS["customer-support"], PRESETS["trading"], PRESETS["code-generation"]

    assert {one.extends for one in PRESETS.values()} == {"standard"}
    assert support.targets.load == "10,000 a day"
    assert (support.classes.short.up_to, support.classes.medium.up_to) == (30, 300)
    assert support.classes.long.interruption_rate == (0.10, 0.15)
    assert support.classes.long.completion_rate == (0.95, 0.98)
    assert (support.targets.completion, support.targets.satisfaction) == (0.95, 0.80)
    assert (support.classes.medium.strategy, support.classes.medium.automatic) == ("finish", "never")
    assert (trading.targets.load, trading.targets.response_p99) == ("100 a second", 0.2)
    assert (trading.targets.completion, trading.targets.satisfaction) == (0.999, 0.95)
    for name in CLASSES:
        rule = trading.classes.of(name)
        assert (rule.strategy, rule.automatic, rule.interruption_rate) == ("protect", "never", (0, 0))
        assert rule.completion_rate[0] == 0.999
    assert (code.targets.load, code.targets.response_p99, code.targets.quality) == ("1,000 a day", 5, 0.95)
    assert code.classes.long.interruption_rate == (0.10, 0.15)
    assert code.classes.long.completion_rate == (0.90, 0.95)
    assert (code.classes.long.segment_tokens, code.classes.long.checkpoint_tokens) == (100, 1000)
    assert code.targets.completion == 0.90


def test_what_reports_aim_at() -> None:
    targets = STANDARD.targets
    assert (targets.response_p50, targets.response_p99) == (0.1, 0.5)
    assert (targets.completion, targets.satisfaction) == (0.95, 0.80)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_policy_is_version_1_and_can_be_meant(name: str) -> None:
    policy = BUILT_IN[name]

    assert (policy.id, policy.name) == (f"{name}@1", name)
    assert policy.about
    assert check_policy(policy) is policy


# ---- what cannot be meant

CONTRADICTORY = {
    "a warning behind the stop": (
        {"signals__duration__warn": Span(3600)},
        "signals.duration.warn is 1h, above signals.duration.explain, which is 20m",
        "Lower warn to 20m or less, or raise explain to 1h or more.",
    ),
    "intervene above stop": (
        {"signals__resources__intervene": 150.0},
        "signals.resources.intervene is 150, above signals.resources.stop, which is 100",
        "Lower intervene to 100 or less",
    ),
    "warn above stop, with nothing between": (
        {"signals__api_calls__warn": 9.0, "signals__api_calls__stop": 8.0},
        "signals.api_calls.warn is 9, above signals.api_calls.stop, which is 8",
        "raise stop to 9 or more",
    ),
    "explain above intervene": (
        {"signals__duration__explain": Span(2000)},
        "signals.duration.explain is 2000s, above signals.duration.intervene, which is 25m",
        "Lower explain to 25m or less",
    ),
    "cost": ({"signals__cost__warn": 60.0}, "signals.cost.warn is 60, above signals.cost.stop", "or less"),
    "one action": ({"signals__cost__per_action": 51.0}, "signals.cost.per_action is 51", "Lower per_action to 50"),
    "budget": ({"signals__budget__stop": 0.5}, "signals.budget.warn is 0.8, above", "raise stop to 0.8"),
    "errors": ({"signals__errors__warn": 0.5}, "signals.errors.warn is 0.5, above signals.errors.intervene", "0.4"),
    "drift": ({"signals__scope_drift__warn": 0.8}, "signals.scope_drift.warn is 0.8, above", "or less"),
    "hypothesis": ({"signals__hypothesis__warn": Span(3600)}, "signals.hypothesis.warn is 1h, above", "15m or less"),
    "loops": ({"signals__loops__intervene": 2.0}, "signals.loops.warn is 3, above signals.loops.intervene", "2 or"),
    "risk": (
        {"signals__risk__warn": 0.9, "signals__risk__intervene": 0.5},
        "signals.risk.warn is 0.9, above signals.risk.intervene, which is 0.5",
        "or less",
    ),
    "let finish before it is asked": (
        {"signals__calls_left__finish": 0.6},
        "signals.calls_left.finish is 0.6, above signals.calls_left.intervene, which is 0.5",
        "Lower finish",
    ),
    "response": ({"targets__response_p50": Span(2)}, "targets.response_p50 is 2s, above targets.response_p99", "500ms"),
    "milestones that do not ascend": (
        {"signals__cost__milestones": (10.0, 30.0, 20.0)},
        "signals.cost.milestones has 20 behind 30",
        "from the smallest to the largest",
    ),
    "a milestone twice": ({"signals__cost__milestones": (10.0, 10.0)}, "has 10 behind 10", "each once"),
    "a milestone above the stop": (
        {"signals__cost__milestones": (10.0, 70.0, 80.0)},
        "signals.cost.milestones has 70, above signals.cost.stop, which is 50",
        "Keep those up to 50, or raise stop to 80 or more.",
    ),
    "a milestone at nothing": ({"signals__cost__milestones": (0.0, 10.0)}, "has 0", "Take it out"),
    "the first intervention after the stop": (
        {"restraint__first_after": Span(3600)},
        "restraint.first_after is 1h, longer than signals.duration.stop, which is 45m",
        "Lower first_after to 45m or less, or raise stop to 1h or more.",
    ),
    "a rate backwards": (
        {"classes__long__interruption_rate": (0.3, 0.1)},
        "classes.long.interruption_rate is from 0.3 to 0.1",
        "[0.1, 0.3]",
    ),
    "a completion rate backwards": (
        {"classes__medium__completion_rate": (1.0, 0.9)},
        "classes.medium.completion_rate is from 1 to 0.9",
        "lower one first",
    ),
    "never interrupted, and yet in ten of a hundred": (
        {"classes__long__automatic": "never"},
        "classes.long.interruption_rate goes up to 0.2, and classes.long.automatic is 'never', which is 0",
        "Write [0, 0]",
    ),
    "protected, and interrupted": (
        {"classes__protected__automatic": "yes", "classes__protected__interruption_rate": (0.0, 0.0)},
        "classes.protected.automatic is 'yes', and classes.protected.strategy is 'protect'",
        "choose another strategy",
    ),
    "checkpoints never": (
        {"classes__long__checkpoint_calls": None},
        "classes.long.strategy is 'checkpoint', and nothing says how often",
        "Write one above 0",
    ),
    "segments of nothing": (
        {"classes__very_long__segment_tokens": 0},
        "classes.very_long.strategy is 'incremental'",
        "segment_tokens is missing or 0",
    ),
    "checkpoints after nothing": (
        {"classes__long__checkpoint_tokens": 0},
        "classes.long.checkpoint_tokens is 0: that is never",
        "null takes it away",
    ),
    "segments of nothing, where none are needed": (
        {"classes__medium__segment_tokens": 0},
        "classes.medium.segment_tokens is 0: that is never",
        "Write 1 or more",
    ),
    "finished first, and interrupted": (
        {"classes__short__automatic": "watched"},
        "classes.short.automatic is 'watched', and classes.short.strategy is 'finish'",
        "choose another strategy",
    ),
    "a longer class that ends sooner": (
        {"classes__medium__up_to": Span(30)},
        "classes.medium.up_to is 30s, and classes.short.up_to is 30s already",
        "Raise classes.medium.up_to above 30s",
    ),
    "a threshold at nothing": (
        {"signals__loops__warn": 0.0},
        "signals.loops.warn is 0, which every run reaches",
        "null takes the threshold away",
    ),
    "a streak of nothing": ({"signals__errors__streak": 0}, "signals.errors.streak is 0", "above 0"),
    "acceleration below one": (
        {"signals__cost__acceleration": 1.0},
        "signals.cost.acceleration is 1, which is reached when a run costs as much as the ones before it",
        "above 1",
    ),
    "expansion below one": ({"signals__scope__expansion": 0.5}, "signals.scope.expansion is 0.5", "above 1"),
    "a token rate of all": (
        {"signals__token_rate__intervene": 1.0},
        "signals.token_rate.intervene is 1, and every run falls below",
        "between 0 and 1",
    ),
    "a token rate of nothing": ({"signals__token_rate__intervene": 0.0}, "no rate is below 0", "null takes"),
    "nobody can correct": ({"correction": 0}, "correction is 0: no message would be allowed", "1 or more"),
    "a share of no calls": ({"signals__errors__at_least": 0}, "signals.errors.at_least is 0", "1 or more"),
    "a share above one": (
        {"signals__budget__warn": 1.5},
        "signals.budget.warn is 1.5; it must be",
        "from 0 to 1 or null",
    ),
    "below zero": ({"signals__cost__warn": -1.0}, "signals.cost.warn is -1; it must be", "a number from 0 on or null"),
    "a span below zero": ({"response_target": Span(-5)}, "response_target is", "it must be a span of time"),
    "infinite": ({"signals__cost__warn": inf}, "signals.cost.warn is inf", "a number from 0 on"),
    "no number": ({"signals__cost__warn": nan}, "signals.cost.warn is nan", "a number from 0 on"),
    "an endless span": ({"restraint__batch": Span(inf)}, "restraint.batch is", "a span of time"),
    "a word": (
        {"classes__long__automatic": "often"},
        "classes.long.automatic is 'often'",
        "one of never, watched, yes",
    ),
    "no name": ({"name": "My Policy"}, "policy is 'My Policy'", "a name of up to 64 small letters, digits and hyphens"),
    "a text for a truth": ({"ask_plan": "yes"}, "ask_plan is 'yes'", "true or false"),
    "half a call": ({"signals__errors__streak": 2.5}, "signals.errors.streak is 2.5", "a whole number from 0 on"),
}


@pytest.mark.parametrize("case", CONTRADICTORY)
def test_what_cannot_be_meant_is_refused_with_both_numbers_and_what_to_change(case: str) -> None:
    values, says, advises = CONTRADICTORY[case]

    with pytest.raises(InvalidInput) as refused:
        check_policy(changed(STANDARD, **values))

    assert says in str(refused.value)
    assert advises in str(refused.value)
    assert str(refused.value.fields["field"]) in settings(STANDARD)


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = contradictions(changed(STANDARD, signals__loops__warn=9.0, restraint__first_after=Span(9999)))

    assert [one.fields[0] for one in found] == ["signals.loops.warn", "restraint.first_after"]


@pytest.mark.parametrize(
    "values",
    [
        {"signals__duration__warn": None},
        {"signals__duration__stop": None, "restraint__first_after": Span(7200)},
        {"signals__duration__explain": Span(1500)},
        {"signals__cost__milestones": ()},
        {"signals__cost__stop": None},
        {"signals__resources__intervene": None},
        {"classes__long__checkpoint_calls": None, "classes__long__checkpoint_tokens": 500},
        {"restraint__interventions_per_hour": 0},
        {"restraint__worth__chance": 0.0},
    ],
)
def test_what_is_missing_or_equal_contradicts_nothing(values: dict[str, object]) -> None:
    assert contradictions(changed(STANDARD, **values)) == ()


# ---- spans


@pytest.mark.parametrize(
    ("span", "text"),
    [(0.1, "100ms"), (0.5, "500ms"), (30, "30s"), (900, "15m"), (5400, "90m"), (604800, "7d"), (0, "0.0s")],
)
def test_a_span_is_written_as_people_do_and_means_exactly_it(span: float, text: str) -> None:
    assert format_duration(Span(span)) in (text, "0ms")
    assert parse_duration(format_duration(Span(span))) == span


@pytest.mark.parametrize("span", [1 / 3, 0.1 + 0.2, 59.9999, 3600.0001, 1e-7, 1e-30, 1e300, 86399.99999])
def test_no_span_is_rounded(span: float) -> None:
    assert parse_duration(format_duration(Span(span))) == span


@pytest.mark.parametrize("written", ["15", "15 minutes", "-5m", "m", "", "1:30", "1h30m", True, None, [], "1e3s"])
def test_what_is_no_span_is_told_how_one_is_written(written: object) -> None:
    with pytest.raises(ValueError, match="it must be a span of time"):
        read_setting(written, Span)


# ---- differences


@pytest.mark.parametrize(
    ("path", "before", "after", "words"),
    [
        ("signals.loops.intervene", 5, 4, "steps in earlier"),
        ("signals.loops.intervene", 5, 9, "steps in later"),
        ("signals.loops.intervene", 5, None, "no longer steps in"),
        ("signals.loops.intervene", None, 5, "steps in earlier"),
        ("signals.loops.warn", 3, None, "no longer warns"),
        ("signals.loops.warn", 3, 4, "steps in later"),
        ("classes.long.automatic", "yes", "watched", "steps in later"),
        ("classes.long.automatic", "yes", "never", "no longer steps in"),
        ("response_target", Span(60), Span(90), ""),
    ],
)
def test_what_a_change_comes_to_is_said_in_words(path: str, before: Any, after: Any, words: str) -> None:
    first, second = (with_setting(STANDARD, path, value) for value in (before, after))
    [found] = difference(first, second)
    assert (found.path, found.words) == (path, words)


def test_a_difference_tells_every_change_and_whether_it_steps_in_earlier() -> None:
    found = {one.path: one for one in difference(STANDARD, CONSERVATIVE)}

    assert found["signals.cost.stop"] == ParameterChange("signals.cost.stop", 50, 25, True)
    assert found["signals.duration.warn"] == ParameterChange("signals.duration.warn", Span(600), Span(360), True)
    assert found["restraint.interventions_per_hour"].tightens is False
    assert found["response_target"].tightens is None
    assert not found.keys() & {"policy", "version", "about"}
    loosened = [one.path for one in difference(STANDARD, PERMISSIVE) if one.tightens is False]
    assert "signals.errors.streak" in loosened


def test_there_and_back_are_opposites() -> None:
    for one in BUILT_IN.values():
        for other in BUILT_IN.values():
            there, back = difference(one, other), difference(other, one)
            assert [(a.path, a.before, a.after) for a in there] == [(b.path, b.after, b.before) for b in back]
            assert [a.tightens for a in there] == [None if b.tightens is None else not b.tightens for b in back]
    assert difference(STANDARD, replace(STANDARD, name="another", version=7, about="x", extends="y")) == ()


@pytest.mark.parametrize(
    ("name", "value", "tightens"),
    [
        ("signals__duration__stop", None, False),
        ("signals__api_calls__warn", 5.0, True),
        ("signals__token_rate__intervene", 0.5, True),
        ("signals__token_rate__intervene", None, False),
        ("signals__calls_left__finish", 0.05, True),
        ("signals__calls_left__finish", None, True),
        ("signals__cost__milestones", (5.0, 10.0, 25.0, 50.0), True),
        ("signals__cost__milestones", (10.0, 25.0), False),
        ("signals__cost__milestones", (9.0, 25.0), None),
        ("signals__risk__warn", 0.5, None),
        ("signals__risk__enabled", True, True),
        ("signals__risk__alone", False, True),
        ("signals__scope_drift__domain", "code", None),
        ("signals__hypothesis__required", True, True),
        ("restraint__first_after", Span(60), True),
        ("restraint__worth__chance", 0.9, True),
        ("restraint__labels_for", Span(7 * DAY), True),
        ("restraint__worth__attention", Span(60), False),
        ("classes__long__automatic", "watched", False),
        ("classes__long__strategy", "interrupt", None),
        ("environments__approve", ("prod", "staging"), True),
        ("agent_asks__known_errors", ("Timeout",), False),
        ("agent_asks__ambiguous", False, False),
        ("targets__completion", 0.5, None),
    ],
)
def test_what_steps_in_earlier(name: str, value: object, tightens: bool | None) -> None:
    [change] = difference(STANDARD, changed(STANDARD, **{name: value}))

    assert change.tightens is tightens


def test_every_parameter_that_is_told_the_way_of_is_one() -> None:
    known = set(settings(STANDARD))
    for paths in (
        validation.HIGHER_IS_EARLIER,
        validation.LOWER_IS_EARLIER,
        validation.ON_IS_EARLIER,
        validation.OFF_IS_EARLIER,
    ):
        assert paths <= known


# ---- all of them


def parts(part: Part) -> Iterator[Part]:
    yield part
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, Part):
            yield from parts(value)


def test_every_parameter_has_a_path_and_words_for_what_it_may_be() -> None:
    found = list(parameters(STANDARD))
    assert len({one.path for one in found}) == len(found)
    inside = sum(len(part.__struct_fields__) for part in parts(STANDARD)) - (len(list(parts(STANDARD))) - 1)
    assert len(found) == inside
    for one in found:
        assert expected_kind(one.kind)
        assert read_setting(one.value, one.kind) == one.value


def test_a_value_is_shown_on_one_line_and_never_endless() -> None:
    assert shown("a\nb" + "x" * 1000) == f"'a b{'x' * 56}…'"
    assert shown(10**400) == "a very large number"
    assert shown([1] * 50).endswith(", …]")
    assert [shown(one) for one in (None, True, 0.1, 10.0, Span(90), {"a": 1})] == [
        "null",
        "true",
        "0.1",
        "10",
        "90s",
        "a mapping",
    ]
