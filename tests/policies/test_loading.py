"""Policies in YAML: what is inherited, what is refused and with which words, and that nothing is silently another."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from midcourse.errors import InvalidInput
from midcourse.policy import load_policy, read_policy
from midcourse.policy.document import Policy
from midcourse.policy.durations import Span
from midcourse.policy.profiles import BUILT_IN, CONSERVATIVE, STANDARD
from midcourse.policy.validation import difference
from midcourse.policy.yaml_positions import SIZE_LIMIT, scalar


def paths(policy: Policy, base: Policy = STANDARD) -> list[str]:
    return [one.path for one in difference(base, policy)]


def refused(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as found:
        load_policy(text)
    return found.value


# ---- what is inherited


def test_a_name_alone_is_the_standard_profile_under_another_name() -> None:
    policy = load_policy("policy: mine")

    assert paths(policy) == []
    assert (policy.name, policy.version, policy.extends, policy.about) == ("mine", 0, "standard", "")


def test_only_what_is_written_differs_from_the_base() -> None:
    policy = load_policy(
        """
        policy: mine
        extends: conservative
        about: For the new agent.
        response_target: 90s
        signals:
          duration: {warn: 3m, stop: 1h}
          cost:
            milestones: [1, 2.5]
        classes:
          long: {automatic: yes, interruption_rate: [0, 0.5]}
        """
    )

    assert paths(policy, CONSERVATIVE) == [
        "response_target",
        "signals.duration.warn",
        "signals.duration.stop",
        "signals.cost.milestones",
        "classes.long.interruption_rate",
    ]
    assert policy.signals.duration.warn == 180
    assert policy.signals.cost.milestones == (1.0, 2.5)
    assert policy.about == "For the new agent."


def test_null_takes_a_threshold_away_and_nothing_else() -> None:
    policy = load_policy("policy: mine\nsignals: {duration: {stop: null}, loops: {warn: ~}}")

    assert policy.signals.duration.stop is None
    assert policy.signals.loops.warn is None
    assert policy.signals.loops.intervene == 5


@pytest.mark.parametrize(
    ("written", "seconds"), [("15m", 900), ("1.5h", 5400), ("500ms", 0.5), ("7d", 604800), ("90", 90), ("'2 m'", 120)]
)
def test_spans_are_written_as_people_do(written: str, seconds: float) -> None:
    found = load_policy(f"policy: mine\nresponse_target: {written}").response_target

    assert (found, type(found)) == (seconds, Span)


def test_a_base_may_be_a_preset_a_version_of_one_or_nothing() -> None:
    assert load_policy("policy: mine\nextends: trading").classes == BUILT_IN["trading"].classes
    assert load_policy("policy: mine\nextends: trading@1").classes == BUILT_IN["trading"].classes
    for nothing in ("null", '""', ""):
        policy = load_policy(f"policy: mine\nextends: {nothing}")
        assert replace(policy, version=1) == Policy(name="mine")


def test_a_base_may_be_any_policy_that_is_known() -> None:
    team = replace(STANDARD, name="team", version=3, correction=77)

    assert load_policy("policy: mine\nextends: team@3", {"team": team}).correction == 77
    assert load_policy("policy: mine\nextends: team", {"team": team}).correction == 77
    with pytest.raises(InvalidInput, match="there is no policy 'team@2' to extend"):
        load_policy("policy: mine\nextends: team@2", {"team": team})


def test_a_later_version_may_be_made_from_an_earlier_one_of_the_same_name() -> None:
    assert load_policy("policy: standard\nextends: standard@1\ncorrection: 300").correction == 300


def test_json_is_yaml_too() -> None:
    assert load_policy('{"policy": "mine", "signals": {"cost": {"warn": 3e0}}}').signals.cost.warn == 3


# ---- what is refused

TYPO = "line 2: unknown signal 'scope_drfit'. Did you mean 'scope_drift'? Nothing was saved."
MISTAKES = {
    "a typo": ("policy: mine\nsignals: {scope_drfit: {warn: 0.3}}", TYPO, 2, "signals.scope_drfit"),
    "a typo in a key": (
        "policy: mine\nsignals:\n  cost:\n    wran: 5",
        "line 4: unknown key 'wran' in signals.cost. Did you mean 'warn'?",
        4,
        "signals.cost.wran",
    ),
    "a typo at the top": ("policy: mine\nsingals: {}", "unknown key 'singals'. Did you mean 'signals'?", 2, "singals"),
    "a typo in a class": (
        "policy: mine\nclasses: {lon: {}}",
        "unknown task class 'lon'. Did you mean 'long'?",
        2,
        "classes.lon",
    ),
    "in the wrong place": ("policy: mine\ncost: {warn: 5}", "unknown key 'cost'. It belongs under signals.", 2, "cost"),
    "a typo in a word": (
        "policy: mine\nclasses: {long: {strategy: chekpoint}}",
        "one of checkpoint, finish, incremental, interrupt, protect. Did you mean 'checkpoint'?",
        2,
        "classes.long.strategy",
    ),
    "contradictory, both written": (
        "policy: mine\nsignals:\n  loops:\n    warn: 9\n    intervene: 4",
        "line 4: signals.loops.warn is 9, above signals.loops.intervene, which is 4",
        4,
        "signals.loops.warn",
    ),
    "contradicts what it inherits": (
        "policy: mine\nsignals:\n  duration:\n    stop: 5m",
        "line 4: signals.duration.intervene is 25m, above signals.duration.stop, which is 5m",
        4,
        "signals.duration.intervene",
    ),
    "milestones that it inherits": (
        "policy: mine\nsignals:\n  cost: {stop: 20}",
        "line 3: signals.cost.milestones has 25, above signals.cost.stop, which is 20",
        3,
        "signals.cost.milestones",
    ),
    "a text for a number": (
        "policy: mine\nsignals: {cost: {warn: ten}}",
        "signals.cost.warn is 'ten'; it must be a number from 0 on or null.",
        2,
        "signals.cost.warn",
    ),
    "a number for a text": ("policy: mine\nabout: 5", "about is 5; it must be a text.", 2, "about"),
    "a half for a whole": (
        "policy: mine\nrestraint: {labels: 2.5}",
        "restraint.labels is 2.5; it must be a whole number from 0 on.",
        2,
        "restraint.labels",
    ),
    "no span": (
        "policy: mine\nresponse_target: soon",
        "response_target is 'soon'; it must be a span of time (500ms, 30s, 15m, 1h, 7d; or seconds).",
        2,
        "response_target",
    ),
    "a span below zero": (
        "policy: mine\nresponse_target: -5",
        "response_target is -5; it must be",
        2,
        "response_target",
    ),
    "minutes and seconds": ("policy: mine\nresponse_target: 1:30", "response_target is '1:30'", 2, "response_target"),
    "a truth that is a word": (
        "policy: mine\nask_plan: yes",
        "ask_plan is 'yes'; it must be true or false.",
        2,
        "ask_plan",
    ),
    "above one": (
        "policy: mine\ntargets: {quality: 95}",
        "targets.quality is 95; it must be a number from 0 to 1.",
        2,
        "targets.quality",
    ),
    "endless": ("policy: mine\nsignals: {cost: {warn: .inf}}", "signals.cost.warn is inf", 2, "signals.cost.warn"),
    "half a character": ('policy: mine\nabout: "\\ud800"', "half a character", 2, "about"),
    "no number": ("policy: mine\nsignals: {cost: {warn: .nan}}", "signals.cost.warn is nan", 2, "signals.cost.warn"),
    "too large a number": (
        "policy: mine\nsignals: {cost: {warn: 1e999}}",
        "signals.cost.warn is inf",
        2,
        "signals.cost.warn",
    ),
    "a list for a number": (
        "policy: mine\nsignals: {cost: {warn: [1]}}",
        "signals.cost.warn is [1]; it must be",
        2,
        "signals.cost.warn",
    ),
    "a number for a part": (
        "policy: mine\nsignals: {cost: 5}",
        "signals.cost is 5; below it there may be: warn, stop, per_action, milestones, acceleration.",
        2,
        "signals.cost",
    ),
    "an empty part": (
        "policy: mine\nsignals:\n  loops:\n",
        "line 3: signals.loops is empty; below it there may be: warn, intervene, alike.",
        3,
        "signals.loops",
    ),
    "what cannot be taken away": (
        "policy: mine\nrestraint: {first_after: null}",
        "restraint.first_after is null; it must be a span of time",
        2,
        "restraint.first_after",
    ),
    "three for a pair": (
        "policy: mine\nclasses: {long: {interruption_rate: [0, 0.1, 0.2]}}",
        "a list of two numbers from 0 to 1, the lower one first",
        2,
        "classes.long.interruption_rate",
    ),
    "no name": ("signals: {}", "line 1: the policy has no name. Begin it with 'policy: NAME'.", 1, "policy"),
    "a bad name": ("policy: My Policy", "policy is 'My Policy'; it must be a name of up to 64", 1, "policy"),
    "an unknown base": (
        "policy: mine\nextends: standrad",
        "line 2: there is no policy 'standrad' to extend. Did you mean 'standard'?",
        2,
        "extends",
    ),
    "an unknown version": (
        "policy: mine\nextends: standard@9",
        "there is no policy 'standard@9' to extend",
        2,
        "extends",
    ),
    "a cycle": (
        "policy: mine\nextends: mine",
        "line 2: 'mine' extends itself. Name another base, or a saved version of it, such as mine@1.",
        2,
        "extends",
    ),
    "a cycle through a built-in name": (
        "policy: standard\nextends: standard",
        "'standard' extends itself",
        2,
        "extends",
    ),
    "a cycle by saying nothing": ("policy: standard", "'standard' extends itself", 1, "extends"),
    "a key twice": (
        "policy: mine\nask_plan: true\nask_plan: false",
        "line 3: 'ask_plan' is here for the second time; the first is on line 2. Keep one.",
        3,
        "ask_plan",
    ),
    "a key twice, deeper": (
        "policy: mine\nsignals:\n  cost: {warn: 1}\n  loops: {}\n  cost: {warn: 2}",
        "line 5: 'cost' is here for the second time; the first is on line 3.",
        5,
        "signals.cost",
    ),
    "no YAML": ("policy: mine\nsignals: [1", "line 2: this is no YAML: ", 2, "document"),
    "no YAML by its indent": ("policy: mine\n signals: 1", "line 2: this is no YAML: ", 2, "document"),
    "tabs": ("policy: mine\nsignals:\n\tcost: 1", "line 3: this is no YAML: ", 3, "document"),
    "a character": (
        "policy: mine\nabout: \x07",
        "line 2: this is no YAML: it has a character that no text has.",
        2,
        "document",
    ),
    "nothing": ("", "line 1: this is empty; a policy is a mapping that begins with 'policy: NAME'.", 1, "policy"),
    "comments": ("# nothing\n", "this is empty", 1, "policy"),
    "a number": ("5", "this is 5; a policy is a mapping", 1, "policy"),
    "a list": ("- policy: mine", "this is [a mapping]; a policy is a mapping", 1, "policy"),
    "two policies": (
        "policy: mine\n---\npolicy: yours",
        "line 2: a second document begins here; a file holds one policy.",
        2,
        "document",
    ),
    "an anchor": ("policy: mine\nsignals: &all {}", "line 2: '&all' names a part", 2, "signals"),
    "an alias": ("policy: *other", "line 1: '*other' repeats another part; in a policy, write it out.", 1, "policy"),
    "a tag": ("policy: !!python/object/apply:os.system [ls]", "is a tag; a policy has none. Take it out.", 1, "policy"),
    "no name for a value": (
        "policy: mine\n? [a]\n: 1",
        "line 2: a name must stand here, and this is none.",
        2,
        "document",
    ),
    "a merge": ("policy: mine\n<<: {version: 2}", "unknown key '<<'", 2, "<<"),
    "nested without end": ("policy: mine\nabout: " + "[" * 99_000, "this is nested more than 20 deep", 2, None),
    "nested mappings without end": ("{a: " * 20_000, "this is nested more than 20 deep", 1, None),
    "values without end": (f"policy: mine\nabout: [{'1, ' * 30_000}]", "more than 2,000 values", 2, None),
    "too large": (f"policy: mine\nabout: {'x' * SIZE_LIMIT}", "a policy has at most 100,000.", 0, "document"),
    "a number without end": (f"policy: mine\nversion: {'9' * 5000}", "version is '9999", 2, "version"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_with_its_line_and_what_to_do(case: str) -> None:
    text, says, line, field = MISTAKES[case]

    error = refused(text)

    assert says in str(error)
    assert str(error).endswith("Nothing was saved.")
    assert error.fields["line"] == line
    assert field in (None, error.fields["field"])
    assert len(str(error)) < 5_000
    assert error.code == "invalid_input"


def test_a_bomb_of_aliases_is_refused_at_its_first_name() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{two}: &{two} [*{one}, *{one}, *{one}, *{one}]\n" for one, two in zip("abcdefghi", "bcdefghij", strict=True)
    )

    assert "line 1: '&a' names a part" in str(refused(bomb))


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines() -> None:
    error = refused("policy: mine\nask_plan: 5\nfoo: 1\nsignals:\n  cost: {warn: x}\nextends: nobody")

    assert [line.partition(":")[0] for line in str(error).splitlines()[:-1]] == ["line 2", "line 3", "line 5", "line 6"]
    told: Any = error.fields["mistakes"]
    assert [one["field"] for one in told] == ["ask_plan", "foo", "signals.cost.warn", "extends"]


def test_of_very_many_mistakes_the_first_are_told() -> None:
    error = refused("policy: mine\n" + "".join(f"key{number}: 1\n" for number in range(500)))

    assert "And 490 more." in str(error)


def test_what_yaml_1_1_reads_otherwise_is_read_as_editors_do() -> None:
    assert [scalar(word) for word in ("yes", "on", "010", "1:30", "0x10", "1_000", "2020-01-01")] == [
        *("yes", "on", 10, "1:30", "0x10", "1_000", "2020-01-01")
    ]
    assert [scalar(word) for word in ("", "~", "null", "true", "-3", ".5", "1e3", "5.")] == [
        *(None, None, None, True, -3, 0.5, 1000.0, 5.0)
    ]


# ---- names and files


def test_a_policy_is_read_by_its_name_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("\ufeffpolicy: mine\nsignals: {cost: {warn: 3}}\n", encoding="utf-8")

    assert read_policy("standard") is read_policy("standard@1") is STANDARD
    assert read_policy(str(file)) == read_policy(file) == load_policy(file.read_text(encoding="utf-8-sig"))


def test_a_mistake_in_a_file_is_told_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("policy: mine\nsignals: {scope_drfit: {warn: 0.3}}")

    with pytest.raises(InvalidInput) as found:
        read_policy(file)

    assert str(found.value) == f"{file}, {TYPO}"


def test_a_name_that_is_none_is_told_what_there_is() -> None:
    with pytest.raises(InvalidInput, match=r"There is no policy 'standrad'. Did you mean 'standard'\?") as found:
        read_policy("standrad")
    assert found.value.code == "policy_not_found"
    for name in ("", "standard@2", "standard@x", "x" * 10_000):
        with pytest.raises(InvalidInput, match="There is no policy"):
            read_policy(name)


def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"policy: mine\nabout: caf\xe9\n")
    (tmp_path / "large.yaml").write_bytes(b"#" * (SIZE_LIMIT + 1))
    for name, says in (
        ("none.yaml", "cannot be read: no such file or directory"),
        (".", "cannot be read: is a directory"),
        ("latin.yaml", "line 2: this is not UTF-8"),
        ("large.yaml", "more than 100,000 bytes"),
    ):
        with pytest.raises(InvalidInput, match=says):
            read_policy(tmp_path / name)
