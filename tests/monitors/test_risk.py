"""The combined risk: what is counted, how it is weighed, and what a reading says."""

import pickle
import sys
from collections.abc import Callable
from math import exp, log, log1p
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from midcourse.errors import InvalidInput
from midcourse.policy.run_activity import Begun, Called, Rested, Said, WentOn
from midcourse.policy.signals.risk import (
    FEATURES,
    GENERAL,
    Domain,
    Facts,
    Risk,
    RiskModel,
    Stated,
    alarm_at,
    load,
    save,
    shipped,
)

STATED = Stated(false_stops=0.1, recall=0.5, steps_saved=0.3)


def tool(name: str = "read", *, arguments: str = "", error: str = "", text: str = "fine", at: float | None = None):
    return Called(kind="tool", name=name, arguments=arguments, error=error, text=text, at=at)


def said_by_model(
    text: str, *, tokens_in: int | None = None, tokens_out: int | None = None, cost: float | None = None
) -> Called:
    return Called(kind="model", name="m", text=text, tokens_in=tokens_in, tokens_out=tokens_out, cost=cost)


def domain(weights: dict[str, tuple[float, float]], *, alarm: float = 0.8, offset: float = 0.0) -> Domain:
    return Domain(
        offset=offset,
        weights=weights,
        target=0.1,
        alarms={0.05: alarm + 0.1, 0.1: alarm, 0.2: alarm - 0.1},
        runs=40,
        failures=20,
        stated=STATED,
    )


def model_of(weights: dict[str, tuple[float, float]], *, alarm: float = 0.8) -> RiskModel:
    return RiskModel(domains={"shop": domain(weights, alarm=alarm), GENERAL: domain({"steps": (0.0, 0.1)}, alarm=0.99)})


def facts_of(*acts: Begun | Called | Said | Rested | WentOn) -> dict[str, float]:
    facts = Facts()
    for act in acts:
        facts.feed(act)
    return dict(zip(FEATURES, facts.values(), strict=True))


class TestFacts:
    def test_errors_are_counted_and_a_streak_ends_with_the_first_tool_that_works(self):
        failed = [tool(error="boom") for _ in range(3)]
        seen = facts_of(*failed, said_by_model("I try again."))
        assert (seen["errors"], seen["error_rate"], seen["error_streak"]) == (log1p(3), 1.0, 3)
        assert facts_of(*failed, tool())["error_streak"] == 0

    def test_a_call_made_again_is_a_repeat_and_another_is_not(self):
        seen = facts_of(tool(arguments="a"), tool(arguments="a"), tool(arguments="b"), tool(arguments="a"))
        assert (seen["repeats"], seen["most_repeats"]) == (log1p(2), log1p(2))

    def test_entropy_is_that_of_the_tools_so_far(self):
        names = ["a", "b", "a", "c", "a", "b"]
        counts = {name: names.count(name) for name in names}
        expected = -sum(of / 6 * log(of / 6) for of in counts.values())
        assert facts_of(*(tool(name) for name in names))["tool_entropy"] == pytest.approx(expected)

    def test_what_changes_something_is_told_by_name_command_or_declared_effect(self):
        declared = Called(kind="tool", name="x", effect="irreversible")
        for call in (tool("book_flight"), tool("bash", arguments="sed -i s/a/b/ f.py"), declared):
            assert facts_of(call)["writes"] == log1p(1), call
        assert facts_of(tool("bash", arguments="grep -n x f.py"))["writes"] == 0

    def test_tests_are_counted_apart_from_edits(self):
        seen = facts_of(tool("bash", arguments="pytest -q"), tool("bash", arguments="cat <<EOF > test_a.py"))
        assert (seen["tests"], seen["writes"]) == (log1p(1), log1p(1))

    def test_tokens_cost_and_a_context_that_was_cut(self):
        seen = facts_of(
            said_by_model("a", tokens_in=1000, tokens_out=10, cost=0.02),
            said_by_model("b", tokens_in=100, tokens_out=30, cost=0.01),
        )
        assert seen["tokens_in"] == log1p(1100)
        assert seen["tokens_in_last"] == log1p(100)
        assert seen["tokens_out_max"] == log1p(30)
        assert seen["context_resets"] == log1p(1)
        assert seen["cost"] == pytest.approx(log1p(3.0))

    def test_time_in_which_the_run_rested_is_not_counted(self):
        seen = facts_of(Begun(goal="g", at=0.0), tool(at=10.0), Rested(at=12.0), WentOn(at=500.0), tool(at=503.0))
        assert seen["seconds"] == pytest.approx(log1p(15.0))

    def test_words_of_the_goal_that_the_agent_takes_up(self):
        seen = facts_of(Begun(goal="rename every widget"), said_by_model("I rename the widget."))
        assert seen["goal_covered"] == pytest.approx(2 / 3)

    def test_refusals_of_the_agent_and_the_insistence_of_the_user_are_told_apart(self):
        seen = facts_of(Said(text="I really need this, please!"), said_by_model("Unfortunately I cannot."))
        assert seen["refusals"] > 0
        assert seen["user_insists"] == log1p(3)
        assert facts_of(Said(text="Unfortunately I cannot."))["refusals"] == 0

    def test_a_new_turn_begins_anew(self):
        after = facts_of(Begun(goal="one"), tool(error="boom"), Begun(goal="two"))
        assert after == facts_of(Begun(goal="two"))

    def test_what_stands_beyond_the_first_500_characters_says_nothing(self):
        short = "word " * 100
        assert facts_of(said_by_model(short + "? sorry 123")) == facts_of(said_by_model(short))

    def test_memory_is_bounded(self):
        facts = Facts()
        for number in range(12_000):
            facts.feed(tool(f"tool{number}", arguments=f"a{number}"))
        size = len(pickle.dumps(facts))
        for number in range(12_000, 20_000):
            facts.feed(tool(f"tool{number}", arguments=f"a{number}"))
        assert len(pickle.dumps(facts)) < size * 1.01


class TestReading:
    def test_the_value_is_the_logistic_of_the_weighed_sum(self):
        risk = Risk(model_of({"errors": (0.5, 2.0)}), domain="shop")
        risk.feed(tool(error="boom"))
        assert risk.read().value == pytest.approx(1 / (1 + exp(-2.0 * (log1p(1) - 0.5))))

    def test_it_names_the_three_facts_that_moved_it_most_either_way(self):
        weights = {"errors": (0.0, 3.0), "steps": (0.0, -2.0), "tool_share": (0.0, 1.0), "error_rate": (0.0, 0.01)}
        risk = Risk(model_of(weights), domain="shop")
        risk.feed(tool(error="boom"))
        because = risk.read().because
        assert [what for what, _ in because] == [FEATURES[name] for name in ("errors", "steps", "tool_share")]
        assert [part > 0 for _, part in because] == [True, False, True]
        assert risk.read().words.startswith("Moved most by errors (+2.1), how long it has been going (-1.4)")

    def test_nothing_is_an_alarm_before_the_third_call(self):
        risk = Risk(model_of({"errors": (0.0, 50.0)}), domain="shop")
        alarms: list[bool] = []
        for _ in range(3):
            risk.feed(tool(error="boom"))
            alarms.append(risk.read().alarm)
        assert alarms == [False, False, True]

    def test_where_there_is_a_clock_an_alarm_waits_for_the_time_that_it_was_calibrated_to(self):
        model = RiskModel(domains={"shop": msgspec.structs.replace(domain({"errors": (0.0, 50.0)}), after=120.0)})
        risk = Risk(model, domain="shop")
        risk.feed(Begun(goal="g", at=0.0))
        alarms: list[bool] = []
        for at in (10.0, 20.0, 30.0, 119.0, 120.0):
            risk.feed(tool(error="boom", at=at))
            alarms.append(risk.read().alarm)
        assert alarms == [False, False, False, False, True]

    def test_what_was_never_measured_adds_nothing_and_is_named(self):
        risk = Risk(model_of({"tokens_in": (9.0, 5.0), "errors": (0.0, 1.0)}), domain="shop")
        risk.feed(tool(error="boom"))
        reading = risk.read()
        assert reading.unseen == ("tokens",)
        assert reading.value == pytest.approx(1 / (1 + exp(-log1p(1))))
        assert "Not measured: tokens." in reading.words
        risk.feed(said_by_model("hello", tokens_in=10_000, tokens_out=5))
        assert risk.read().unseen == ()

    def test_what_the_model_does_not_weigh_need_not_be_measured(self):
        risk = Risk(model_of({"errors": (0.0, 1.0)}), domain="shop")
        assert risk.read().unseen == ()

    def test_an_unknown_domain_is_read_by_the_general_model_and_says_so(self):
        reading = Risk(model_of({}), domain="never heard of").read()
        assert (reading.calibrated_for, reading.threshold) == (GENERAL, 0.99)
        assert "calibrated for no domain in particular" in reading.words

    def test_fewer_false_stops_ask_for_a_higher_risk(self):
        of = domain({}, alarm=0.8)
        assert [alarm_at(of, share) for share in (0.01, 0.05, 0.075, 0.1, 0.5)] == pytest.approx(
            [0.9, 0.9, 0.85, 0.8, 0.7]
        )
        assert Risk(model_of({}), domain="shop", target=0.05).threshold == pytest.approx(0.9)


class TestFiles:
    def test_a_model_is_read_as_it_was_written(self, tmp_path: Path):
        model = model_of({"errors": (0.5, 2.0)})
        save(model, tmp_path / "risk.json")
        assert load(tmp_path / "risk.json") == model

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"{", "truncated"),
            (b'{"domains": {}}', "no domain"),
            (b'{"version": 99, "domains": {}}', "its version is 99"),
        ],
    )
    def test_a_file_that_is_no_model_is_refused_with_what_to_do(self, tmp_path: Path, content: bytes, why: str):
        path = tmp_path / "risk.json"
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=why) as refused:
            load(path)
        assert "midcourse risk train" in str(refused.value)
        assert refused.value.code == "no_risk_model"

    def test_a_fact_that_nobody_knows_is_refused(self, tmp_path: Path):
        save(model_of({"phase_of_the_moon": (0.0, 1.0)}), tmp_path / "risk.json")
        with pytest.raises(InvalidInput, match="phase_of_the_moon"):
            load(tmp_path / "risk.json")

    def test_a_missing_file_is_refused(self, tmp_path: Path):
        with pytest.raises(InvalidInput, match="is no risk model"):
            load(tmp_path / "nothing.json")


class TestShipped:
    def test_it_knows_its_domains_and_a_general_one(self):
        assert set(shipped().domains) == {
            "agentrx_tau_retail", "aider_swe", "mini_swe", "tau_bench", "trail", GENERAL,
        }  # fmt: skip

    def test_more_false_stops_never_ask_for_a_higher_risk(self):
        for name, of in shipped().domains.items():
            marks = [of.alarms[share] for share in sorted(of.alarms)]
            assert marks == sorted(marks, reverse=True), name
            assert all(0 < mark < 1 for mark in marks), name

    def test_errors_and_cost_upon_cost_end_in_an_alarm_and_a_short_clean_run_does_not(self):
        def last(bad: bool) -> bool:
            risk = Risk(domain="mini_swe")
            risk.feed(Begun(goal="Fix the parser.", at=0.0))
            alarm = False
            for step in range(120 if bad else 20):
                cost = 0.01 * (1 + step) if bad else 0.004
                written = 4000 if bad else 60
                risk.feed(said_by_model("let me see", tokens_in=2000 + 900 * step, tokens_out=written, cost=cost))
                risk.feed(tool("bash", arguments="ls", error="boom" if bad else "", at=6.0 * step))
                alarm = alarm or risk.read().alarm
            return alarm

        assert last(bad=True)
        assert not last(bad=False)

    def test_a_reading_takes_no_more_work_the_longer_a_run_is(self):
        def work(actions: int) -> int:
            risk = Risk(domain="tau_bench")
            risk.feed(Begun(goal="Book the cheapest flight. " * 20))
            for _ in range(actions):
                risk.feed(said_by_model("Unfortunately I cannot do 3 of these 4 things. " * 10))
                risk.feed(tool("search_flights", text='{"price": 120}' * 30))
            return _lines(risk.read)

        assert work(400) < 2 * work(20), "twenty times as long, and not twice the work"


def _lines(act: Callable[[], object]) -> int:
    """Lines of Python that it takes: how long each takes is the machine's business, and a benchmark's."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count
