"""A run is shown as it would have been lived: act by act, with the clock between, up to the first interruption."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.analysis.backtest import Recording, backtest, read_recordings, replay
from midcourse.analysis.backtest.recordings import Recorder
from midcourse.core.policy_decision import Decision, Level
from midcourse.errors import InvalidInput
from midcourse.policy.document import Policy
from midcourse.policy.profiles import BUILT_IN, STANDARD
from midcourse.policy.run_activity import AnyAct, Begun, Called, Said
from midcourse.policy.signals.risk import RiskReading
from midcourse.policy.signals.run_monitor import RunMonitor

DATA = Path(__file__).with_name("data")


class Watcher:
    """Decides what it is told to: at the n-th call, or once so many seconds have passed since the turn began."""

    def __init__(self, at_call: dict[int, Level] | None = None, at_time: dict[float, Level] | None = None) -> None:
        self.at_call = at_call or {}
        self.at_time: dict[float, Level] = dict(at_time or {})
        self.seen: list[AnyAct] = []
        self.looks: list[float] = []
        self.began: float | None = None

    def see(self, act: AnyAct, /) -> Decision | None:
        self.seen.append(act)
        if isinstance(act, Begun):
            self.began = act.at
        calls = sum(isinstance(one, Called) for one in self.seen)
        return self._decision(self.at_call.get(calls) if isinstance(act, Called) else None, act.at)

    def look(self, now: float, /) -> Decision | None:
        self.looks.append(now)
        assert self.began is not None
        return self._decision(self.at_time.pop(now - self.began, None), now)

    def due(self) -> float | None:
        return None if self.began is None or not self.at_time else self.began + min(self.at_time)

    def _decision(self, level: Level | None, at: float | None) -> Decision | None:
        return None if level is None else Decision(level=level, wanted=level, policy="w@1", at=at)


def recording(times: Sequence[float | None], *, cost: float | None = None) -> Recording:
    recorder = Recorder("goal")
    recorder.begin(next((at for at in times if at is not None), None))
    for number, at in enumerate(times):
        recorder.told(Called(kind="tool", name="t", arguments=str(number), at=at, cost=cost))
    return recorder.done(source="s", run_id="r", outcome="failure", decisive_step=2)


def test_a_run_nobody_minds_is_left_alone() -> None:
    watcher, run = Watcher(), recording([0, 60, 120], cost=0.5)
    verdict = replay(run, watcher)
    assert watcher.seen == list(run.acts)
    assert not verdict.is_stopped
    assert (verdict.steps, verdict.steps_saved, verdict.decision) == (3, 0, None)
    assert (verdict.minutes, verdict.minutes_saved) == (2.0, 0.0)
    assert (verdict.dollars, verdict.dollars_saved) == (1.5, 0.0)


def test_the_first_interruption_counts_and_nothing_after_it() -> None:
    watcher = Watcher(at_call={2: "notify", 3: "ask_plan", 4: "stop"})
    verdict = replay(recording([0, 60, 120, 180, 240], cost=0.5), watcher)
    assert (verdict.stopped_at_step, verdict.level, verdict.warnings) == (2, "ask_plan", 1)
    assert (verdict.steps_saved, verdict.minutes_saved, verdict.dollars_saved) == (2, 2.0, 1.0)
    assert len(watcher.seen) == 1 + 3


def test_which_levels_interrupt_can_be_said() -> None:
    watcher = Watcher(at_call={2: "notify", 3: "ask_plan", 4: "stop"})
    verdict = replay(recording([0, 60, 120, 180, 240]), watcher, interrupts=frozenset({"pause", "stop"}))
    assert (verdict.stopped_at_step, verdict.level, verdict.warnings) == (3, "stop", 2)


def test_time_alone_interrupts_when_it_would_have() -> None:
    watcher = Watcher(at_time={90.0: "notify", 100.0: "pause"})
    verdict = replay(recording([0, 60, 300, 600], cost=1.0), watcher)
    assert watcher.looks == [90.0, 100.0]
    # The call that took from 60 to 300 is let finish; what it would have taken is saved from the stop on.
    assert (verdict.stopped_at_step, verdict.warnings, verdict.steps_saved) == (2, 1, 1)
    assert (verdict.minutes_saved, verdict.dollars_saved) == ((600 - 100) / 60, 1.0)
    assert verdict.decision is not None
    assert verdict.decision.at == 100.0


def test_a_time_that_never_came_is_not_looked_at() -> None:
    watcher = Watcher(at_time={60.0: "pause", 60.5: "pause"})
    assert not replay(recording([0, 30, 60]), watcher).is_stopped
    assert watcher.looks == []


def test_rows_without_a_clock_are_seen_between_those_that_have_one() -> None:
    watcher = Watcher(at_call={4: "stop"})
    verdict = replay(recording([0, None, 60, None, 120, None]), watcher)
    assert (verdict.stopped_at_step, verdict.minutes_saved) == (3, 1.0)


def test_without_clock_and_cost_nothing_of_them_is_saved_or_lost() -> None:
    verdict = replay(recording([None, None, None]), Watcher(at_call={1: "stop"}))
    assert (verdict.minutes, verdict.minutes_saved, verdict.dollars, verdict.dollars_saved) == (None,) * 4
    assert verdict.steps_saved == 2


def test_nobody_looks_between_two_turns_and_that_time_is_not_saved() -> None:
    recorder = Recorder("one")
    recorder.begin(0)
    recorder.said("one", 0)
    recorder.told(Called(kind="model", name="m", at=10))
    recorder.said("two", 5000, new_turn=True)
    recorder.told(Called(kind="model", name="m", at=5060))
    run = recorder.done(source="s", run_id="r", outcome="failure")
    watcher = Watcher(at_time={50.0: "notify"})
    assert replay(run, watcher).warnings == 1
    assert watcher.looks == [5050.0]
    stopped = replay(run, Watcher(at_call={1: "stop"}))
    assert (stopped.minutes, stopped.minutes_saved) == (70 / 60, 60 / 60)


def test_a_watcher_that_wants_to_look_at_the_same_time_for_ever_is_asked_once() -> None:
    class Stuck(Watcher):
        def due(self) -> float | None:
            return 5.0

    watcher = Stuck()
    assert not replay(recording([0, 10, 20]), watcher).is_stopped
    assert watcher.looks == [5.0, 5.0]


def test_a_clock_that_goes_back_saves_nothing_and_breaks_nothing() -> None:
    verdict = replay(recording([0, 60, 30, 90]), Watcher(at_call={1: "stop"}))
    assert (verdict.minutes, verdict.minutes_saved) == (2.0, 2.0)


# ---- with the oversight that watches live sessions


def fixture() -> dict[str, Recording]:
    return {run.run_id: run for run in read_recordings([DATA / "runs.jsonl"])}


def test_the_standard_policy_stops_a_run_of_errors_and_leaves_a_good_one_alone() -> None:
    tried = backtest("standard", fixture().values())
    verdicts = {one.run_id: one for one in tried.verdicts}
    assert not verdicts["fixer/a/0"].is_stopped
    bad = verdicts["fixer/b/0"]
    assert bad.is_stopped
    assert bad.decision is not None
    assert {reason.signal for reason in bad.decision.reasons} & {"errors", "errors.streak"}
    assert {one.signal for one in bad.decision.unseen} >= {"scope_drift"}


@pytest.mark.parametrize("policy", [*BUILT_IN.values()], ids=lambda one: one.name)
def test_a_backtest_decides_what_the_oversight_decides(policy: Policy) -> None:
    """Seen act by act, without a backtest's help, the first interruption is the same one."""
    for run in fixture().values():
        oversight = RunMonitor(policy, asks=False)
        expected: Decision | None = None
        for act in run.acts:
            while act.at is not None and (due := oversight.due()) is not None and due < act.at and expected is None:
                decision = oversight.look(due)
                expected = decision if decision is not None and decision.interrupts else None
            if expected is None:
                decision = oversight.see(act)
                expected = decision if decision is not None and decision.interrupts else None
        assert replay(run, RunMonitor(policy, asks=False)).decision == expected


@given(st.permutations(list(range(5))))
def test_no_run_depends_on_those_before_it(order: list[int]) -> None:
    runs = list(fixture().values())
    shuffled = backtest("conservative", [runs[number] for number in order], resamples=0)
    alone = backtest("conservative", runs, resamples=0)
    assert sorted(shuffled.verdicts, key=lambda one: one.run_id) == sorted(alone.verdicts, key=lambda one: one.run_id)


def test_a_declared_class_counts_and_a_run_that_only_turned_out_so_does_not() -> None:
    run = fixture()["fixer/b/0"]
    recorder = Recorder(run.goal)
    for act in run.acts:
        recorder.told(act)
    short = recorder.done(source="s", run_id="r", outcome="failure", task_class="short")
    assert backtest("standard", [run]).verdicts[0].is_stopped
    assert not backtest("standard", [short]).verdicts[0].is_stopped


def test_what_an_agent_would_have_asked_by_itself_is_not_counted() -> None:
    recorder = Recorder("goal")
    recorder.begin()
    recorder.told(Called(kind="tool", name="t", error="AuthenticationError", detail="401: no API key"))
    run = recorder.done(source="s", run_id="r", outcome="success")
    asked = replay(run, RunMonitor(STANDARD))
    assert asked.level == "ask"
    assert not backtest("standard", [run]).verdicts[0].is_stopped


# ---- the combined risk


class Doubt:
    """A risk that grows with every call."""

    def __init__(self) -> None:
        self._value = 0.0

    def feed(self, act: AnyAct) -> None:
        self._value = min(1.0, self._value + 0.1 * isinstance(act, Called))

    def read(self) -> RiskReading:
        return RiskReading(self._value, 0.5, self._value >= 0.5, (("calls", self._value),), "tests")


def test_the_risk_is_asked_only_when_it_is_wanted_and_knows_where_a_run_is_from() -> None:
    run, domains = recording([0, 60, 120, 180, 240, 300, 360]), list[str]()

    def doubt(domain: str) -> Doubt:
        domains.append(domain)
        return Doubt()

    assert not backtest("standard", [run]).verdicts[0].is_stopped
    tried = backtest("standard", [run], risk=doubt)
    assert tried.with_risk
    (verdict,) = tried.verdicts
    assert verdict.stopped_at_step == 4
    assert verdict.decision is not None
    assert verdict.decision.reasons[0].signal == "risk"
    backtest("standard", [run], risk=doubt, domain_by="none")
    assert domains == ["s", ""]


# ---- what is asked for


def test_policies_are_held_side_by_side_on_the_same_runs() -> None:
    tried = backtest(["standard", "permissive"], [DATA / "runs.jsonl"])
    assert list(tried.policies) == ["standard@1", "permissive@1"]
    assert tried.scores == tried.policies["standard@1"].scores
    assert [one.run_id for one in tried.policies["permissive@1"].verdicts] == [one.run_id for one in tried.verdicts]


def test_a_policy_that_is_not_there_or_there_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="There is no policy 'standrad'. There are: conservative, standard"):
        backtest("standrad", [DATA / "runs.jsonl"])
    with pytest.raises(InvalidInput, match="Two different policies are called standard@1"):
        backtest([STANDARD, Policy(name="standard", about="another")], [DATA / "runs.jsonl"])
    with pytest.raises(InvalidInput, match="No policy was given"):
        backtest([], [DATA / "runs.jsonl"])


def test_files_without_a_run_are_refused_with_what_is_wrong_with_them(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InvalidInput, match="There is no run in what was given. .*empty.jsonl: The file is empty"):
        backtest("standard", [tmp_path / "empty.jsonl"])


def test_drift_is_measured_when_it_is_asked_for() -> None:
    run = fixture()["fixer/b/0"]
    seen = backtest("standard", [run], drift=True).verdicts[0].decision
    assert seen is not None
    assert "scope_drift" not in {one.signal for one in seen.unseen}


def test_where_no_encoder_is_installed_drift_is_named_as_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midcourse.policy.signals.encoders.find_encoder", lambda: None)
    monkeypatch.setattr("midcourse.policy.signals.encoders.why_none", lambda: "no encoder is installed")
    tried = backtest("standard", fixture().values(), drift=True)
    assert "no encoder is installed" in tried.notices[0].sentence
    (stopped,) = (one for one in tried.verdicts if one.decision is not None)
    assert stopped.decision is not None
    assert ("scope_drift", "no encoder is installed") in {(one.signal, one.why) for one in stopped.decision.unseen}


def test_what_a_person_says_is_a_row_of_its_own() -> None:
    run = fixture()["desk/c/0"]
    assert [run.steps[index] for index, act in enumerate(run.acts) if isinstance(act, Said)] == [0, 2]
