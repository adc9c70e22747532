"""A decision depends on nothing but its inputs; the same acts always give the same decisions, live and recorded."""

import copy
import tracemalloc
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midcourse.analysis.backtest import replay
from midcourse.analysis.backtest.importers.journal import recording_of
from midcourse.analysis.backtest.recordings import Recording
from midcourse.core.policy_decision import INTERRUPTS, SEVERITY, Decision, Reason
from midcourse.core.signals import TITLES
from midcourse.errors import StepError
from midcourse.handle import SessionHandle
from midcourse.policy.document import CLASSES, Policy
from midcourse.policy.evaluation import evaluate
from midcourse.policy.observation import Latch, Observed
from midcourse.policy.profiles import BUILT_IN, PROFILES, STANDARD
from midcourse.policy.run_activity import (
    AnyAct,
    Begun,
    Called,
    Ended,
    Planned,
    Reported,
    Rested,
    Said,
    SteppedIn,
    WentOn,
)
from midcourse.policy.signals.calls_left import CallHistory
from midcourse.policy.signals.run_monitor import RunMonitor
from midcourse.policy.thresholds import rules_of
from midcourse.runtime.supervisor import Supervisor
from tests.policy.agents import Box, World, fail, finish, take, think, work
from tests.policy.runs import GOAL
from tests.policy.watched_programs import a_while, interventions, no_drift, opened, under
from tests.promises.harness import Place, history, stop_watching

NOT_APPLICABLE: Final = frozenset(
    {"budget", "resources", "scope.new_domain", "own_artifacts", "cost.per_action", "cost.acceleration"}
    | {"loops", "api_calls", "errors.streak"}
)
"""Signals of which nothing is to be seen where there is no budget, resource, artifact, price or call."""

# ---- whatever may happen

policies: Final = st.sampled_from(tuple(BUILT_IN.values()))
numbers: Final = st.floats(0, 1e9) | st.sampled_from([0.0, 1.0, 5.0, 10.0, 50.0, 1e300])
words: Final = st.text(max_size=12) | st.sampled_from(
    ["same", "src/a.py", "https://example.org/a", "http://[::1", GOAL, "fix it"]
)
times: Final = st.none() | st.floats(0, 5000) | st.sampled_from([0.0, 1e12, 1e300])
calls: Final[st.SearchStrategy[AnyAct]] = st.builds(
    Called,
    at=times,
    kind=st.sampled_from(["tool", "tool", "model"]),
    name=st.sampled_from(["read", "write", "search"]),
    arguments=words | st.just('{"query": "a", "page": 1}'),
    digest=st.sampled_from(["", "same", "other"]),
    error=st.sampled_from(["", "", "ValueError", "PermissionError", "Wobble"]),
    detail=words,
    text=words,
    resources=st.lists(words, max_size=3).map(tuple),
    environment=words,
    effect=st.sampled_from(["", "read", "reversible", "irreversible"]),
    seconds=st.none() | numbers,
    tokens_out=st.none() | st.integers(0, 10**9),
    cost=st.none() | numbers,
    bytes=st.none() | st.integers(0, 10**15),
)
reasons: Final = st.builds(
    Reason,
    st.sampled_from([*TITLES, "nobody knows"]),
    st.sampled_from(["warn", "explain", "intervene", "pause", "stop"]),
    numbers,
    numbers,
    words,
)
others: Final[st.SearchStrategy[AnyAct]] = st.one_of(
    st.builds(Begun, at=times, goal=words),
    st.builds(Said, at=times, text=words, by=words, is_goal=st.booleans()),
    st.builds(Reported, at=times, progress=st.none() | st.floats(0, 1), hypothesis=words, artifact=words),
    st.builds(Planned, at=times, items=st.integers(0, 9), done=st.integers(0, 9)),
    st.builds(Rested, at=times),
    st.builds(WentOn, at=times),
    st.builds(Ended, at=times, outcome=words),
)
stepped_in: Final = st.builds(
    SteppedIn,
    at=times,
    level=st.sampled_from(tuple(SEVERITY)),
    reasons=st.lists(reasons, max_size=3).map(tuple),
    question=st.sampled_from(["", "near_limit", "unknown_error"]),
)
acts: Final = calls | calls | calls | others
streams: Final = st.lists(acts, max_size=60)
histories: Final = st.sampled_from(
    [CallHistory(), CallHistory((20,) * 9, (10.0,) * 9), CallHistory((100,) * 9, (900.0,) * 9)]
)
latches: Final = st.dictionaries(
    st.tuples(st.sampled_from(tuple(TITLES)), st.sampled_from(["warn", "explain", "intervene", "pause", "stop"])),
    st.builds(Latch, st.integers(0, 3), st.integers(0, 3)),
    max_size=6,
)
looks: Final = st.builds(
    Observed,
    task_class=st.sampled_from(CLASSES),
    is_class_declared=st.booleans(),
    elapsed=st.none() | numbers,
    actions=st.integers(0, 5000),
    requests=st.integers(0, 5000),
    values=st.dictionaries(st.sampled_from(tuple(TITLES)), numbers, max_size=8),
    unseen=st.dictionaries(st.sampled_from(tuple(TITLES)), words, max_size=3),
    told=latches,
    plan_asked_at=st.none() | st.integers(0, 5000),
    occasions=st.integers(0, 5),
    is_explaining=st.booleans(),
    share_left=st.none() | st.floats(0, 1),
    calls_left=st.none() | numbers,
    dollars_per_request=st.none() | numbers,
    seconds_per_request=st.none() | numbers,
)


def timed(stream: Sequence[AnyAct]) -> list[AnyAct]:
    """The same on a clock that goes forward, ten seconds an act; a run begins with its goal."""
    return [Begun(at=0.0, goal=GOAL), *(replace(act, at=10.0 * (n + 1)) for n, act in enumerate(stream))]


def watched(policy: Policy, stream: Sequence[AnyAct], **given: Any) -> tuple[list[AnyAct], list[tuple[int, Decision]]]:
    """A stream as a journal has it, with what was decided in its place; and the decisions, with their place."""
    oversight = RunMonitor(policy, **given)
    journal: list[AnyAct] = []
    decisions: list[tuple[int, Decision]] = []
    for act in stream:
        journal.append(act)
        decision = oversight.see(act)
        while decision is not None:
            decisions.append((len(journal), decision))
            echo = SteppedIn(at=act.at, level=decision.level, reasons=decision.reasons, question=decision.question)
            journal.append(echo)
            decision = oversight.see(echo)
    return journal, decisions


# ---- nothing but its inputs


@given(policy=policies, look=looks, others=st.lists(st.tuples(policies, looks), max_size=3), now=times)
def test_a_decision_depends_on_nothing_but_its_inputs(
    policy: Policy, look: Observed, others: list[tuple[Policy, Observed]], now: float | None
) -> None:
    first = evaluate(policy, look, now)
    for another, of in others:  # other sessions, in between
        evaluate(another, of, now)
    assert evaluate(policy, look, now) == first
    assert evaluate(copy.deepcopy(policy), copy.deepcopy(look), now) == first
    assert evaluate(policy, look, now, rules=rules_of(policy)) == first


@given(policy=policies, first=streams, second=streams, history=histories)
def test_other_sessions_in_between_change_no_decision(
    policy: Policy, first: list[AnyAct], second: list[AnyAct], history: CallHistory
) -> None:
    def decided(oversight: RunMonitor, act: AnyAct) -> Decision | None:
        return oversight.see(act)

    alone = RunMonitor(policy, history=history)
    expected = [decided(alone, act) for act in first]
    one, other = RunMonitor(policy, history=history), RunMonitor(policy, history=history)
    mixed: list[Decision | None] = []
    for number in range(max(len(first), len(second))):
        if number < len(second):
            decided(other, second[number])
        if number < len(first):
            mixed.append(decided(one, first[number]))
    assert mixed == expected


@given(policy=policies, stream=streams, history=histories, budget=st.none() | st.just(5.0))
def test_acts_that_were_recorded_and_read_again_give_the_same_decisions(
    policy: Policy, stream: list[AnyAct], history: CallHistory, budget: float | None
) -> None:
    codec = msgspec.json.Decoder(list[AnyAct])
    recorded = codec.decode(msgspec.json.encode(stream))
    live, again = (RunMonitor(policy, history=history, budget=budget) for _ in range(2))
    assert [live.see(act) for act in stream] == [again.see(act) for act in recorded]


@given(policy=policies, stream=streams, history=histories)
def test_a_backtest_stops_a_recorded_run_where_it_would_have_been_stopped_live(
    policy: Policy, stream: list[AnyAct], history: CallHistory
) -> None:
    run = timed(stream)
    live = RunMonitor(policy, history=history)
    expected: Decision | None = None
    for act in run:
        due = live.due()
        while due is not None and act.at is not None and due < act.at and expected is None:
            decision = live.look(due)
            expected = decision if decision is not None and decision.level in INTERRUPTS else None
            later = live.due()
            due = later if later is not None and later > due else None
        if expected is None:
            decision = live.see(act)
            expected = decision if decision is not None and decision.level in INTERRUPTS else None
        if expected is not None or isinstance(act, Ended):
            break
    recording = Recording(source="s", run_id="r", acts=tuple(run), steps=tuple(range(len(run))), count=len(run))
    verdict = replay(recording, RunMonitor(policy, history=history))
    if expected is not None:
        assert verdict.decision == expected
    elif not any(isinstance(act, Ended) for act in run):
        assert verdict.decision is None


@given(policy=policies, stream=streams, history=histories, cut=st.integers(0, 60), asks=st.booleans())
def test_to_read_the_past_and_go_on_is_to_have_seen_it_all(
    policy: Policy, stream: list[AnyAct], history: CallHistory, cut: int, asks: bool
) -> None:
    journal, decisions = watched(policy, timed(stream), history=history, asks=asks)
    heir = RunMonitor(policy, history=history, asks=asks)
    place = min(cut, len(journal))
    for act in journal[:place]:
        assert heir.see(act, past=True) is None
    expected = [one for at, one in decisions if at > place]
    found: list[Decision] = []
    for act in journal[place:]:
        decision = heir.see(act)
        if decision is not None:
            found.append(decision)
    assert found == expected


# ---- never weaker


@given(
    policy=st.sampled_from(tuple(PROFILES.values())),
    look=looks,
    signal=st.sampled_from(sorted(set(TITLES) - {"token_rate"})),
    low=numbers,
    more=numbers,
)
def test_a_decision_never_gets_weaker_when_only_a_value_grows(
    policy: Policy, look: Observed, signal: str, low: float, more: float
) -> None:
    base = replace(look, told={})
    first, second = (
        evaluate(policy, replace(base, values={**look.values, signal: value}), None) for value in (low, low + more)
    )
    assert SEVERITY[second.wanted] >= SEVERITY[first.wanted]
    assert SEVERITY[second.level] >= SEVERITY[first.level]


@given(policy=st.sampled_from(tuple(PROFILES.values())), look=looks, low=st.floats(0, 1), more=st.floats(0, 1))
def test_a_slower_model_never_leads_to_a_weaker_decision(
    policy: Policy, look: Observed, low: float, more: float
) -> None:
    base = replace(look, told={})
    slow, quick = (
        evaluate(policy, replace(base, values={**look.values, "token_rate": value}), None)
        for value in (low, low + more)
    )
    assert SEVERITY[slow.wanted] >= SEVERITY[quick.wanted]


# ---- no more than once


@given(
    policy=st.sampled_from(tuple(PROFILES.values())),
    start=st.sampled_from(["warn", "intervene"]),
    course=st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 11)), min_size=1, max_size=30),
)
def test_a_value_that_wavers_about_its_threshold_is_told_of_once_however_far_it_falls_for_a_moment(
    policy: Policy, start: str, course: list[tuple[float, int]]
) -> None:
    drift = policy.signals.scope_drift
    mark = drift.warn if start == "warn" else drift.intervene
    assert mark is not None
    gauge = Dial()
    oversight = RunMonitor(policy, drift=gauge, asks=False, task_class="medium")
    told: list[Reason] = []

    def act(value: float) -> None:
        gauge.at = value
        decision = oversight.see(Called(kind="tool", name="read", digest=f"d{gauge.acts}"))
        if decision is not None:
            told.extend(decision.reasons)
            oversight.see(SteppedIn(level=decision.level, reasons=decision.reasons))

    oversight.see(Begun(goal=GOAL))
    act(mark)
    for one, falls in course:
        for _ in range(falls):
            act(0.0)
        # As far down as the margin lets it, and never up to the next threshold.
        act(mark * (1 + (policy.restraint.again if one < 0 else 0.1) * one))
    assert [(reason.signal, reason.stage) for reason in told] == [("scope_drift", start)]


class Dial:
    """Drift, as a test sets it."""

    at = 0.0
    acts = 0

    def goal(self, text: str) -> None:
        """Whatever it is."""

    def act(self, text: str) -> None:
        """One more."""
        self.acts += 1

    def value(self) -> float:
        """As it was set."""
        return self.at

    def alignment(self, hypothesis: str) -> float | None:
        """Nobody asks."""
        return None


# ---- nothing crashes it


@given(
    policy=policies,
    stream=st.lists(acts | stepped_in, max_size=80),
    history=histories,
    budget=st.none() | st.floats(0.01, 100),
    task_class=st.none() | st.sampled_from(CLASSES),
)
def test_no_stream_of_acts_crashes_it_and_every_decision_names_what_it_could_not_see(
    policy: Policy, stream: list[AnyAct], history: CallHistory, budget: float | None, task_class: Any
) -> None:
    oversight = RunMonitor(policy, history=history, budget=budget, task_class=task_class)
    # Calls that are left are only held against half of a budget.
    signals = {rule.signal for rule in rules_of(policy)} - NOT_APPLICABLE - ({"calls_left"} if budget else set())
    for act in stream:
        due = oversight.due()
        for decision in (oversight.see(act), oversight.look(due) if due is not None else None):
            if decision is None:
                continue
            assert decision.level != "none"
            assert decision.arithmetic
            assert decision.sentence
            named = {one.signal for one in decision.unseen}
            assert signals - set(oversight.values) <= named
            assert all(one.why for one in decision.unseen)
            assert msgspec.json.decode(msgspec.json.encode(decision), type=Decision) == decision
        assert oversight.observed().values.keys() <= TITLES.keys()


def test_what_is_kept_of_a_run_is_bounded_however_long_and_various_it_is() -> None:
    oversight = RunMonitor(STANDARD)
    oversight.see(Begun(at=0.0, goal=GOAL))

    def feed(first: int, last: int) -> None:
        for number in range(first, last):
            oversight.see(
                Called(
                    at=float(number),
                    kind="tool",
                    name=f"tool{number}",
                    arguments=f'{{"a": {number}}}',
                    digest=f"d{number}",
                    error=f"Error{number}",
                    resources=(f"d{number}/{number}",),
                    environment=f"env{number}",
                    effect="reversible",
                    cost=0.0001,
                )
            )
            if number % 10 == 0:
                oversight.see(Reported(at=float(number), artifact=f"made{number}", hypothesis=f"h{number}"))

    feed(0, 12_000)
    tracemalloc.start()
    feed(12_000, 18_000)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 64_000


# ---- live and recorded


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A clock that agents move, and no encoder."""
    monkeypatch.setattr(Supervisor, "drift", no_drift)
    made = Box.world = World()
    return made


async def loops(run: Any) -> None:
    """The same call, again and again."""
    for _ in range(12):
        await run.step("take", take, 0.5)
    await run.step("finish", finish)


async def fails(run: Any) -> None:
    """Nothing works."""
    for number in range(8):
        try:
            await run.step("crm", fail, "value", str(number))
        except StepError:
            continue
    await run.step("finish", finish)


async def spends(run: Any) -> None:
    """A model that is not cheap."""
    await run.step("take", take, 3.0)
    for number in range(20):
        await run.stream("think", think, 0.9)
        await run.step("work", work, number)
    await run.step("finish", finish)


async def takes_long(run: Any) -> None:
    """Forty minutes, one after the other."""
    for number in range(40):
        await run.step("take", take, 1.0 + number / 1000)
    await run.step("finish", finish)


async def works(run: Any) -> None:
    """As one would wish."""
    for number in range(20):
        await run.step("work", work, number)
    await run.step("finish", finish)


async def stepped_into(session: SessionHandle[Any]) -> None:
    """Once a policy has paused it, or asked it for its plan."""
    watching = session.watch(follow=True)
    async for event in watching:
        if event.type in ("session.pause_requested", "session.redirected"):
            break
    await stop_watching(watching)


@pytest.mark.parametrize("function", [loops, fails, spends, takes_long, works], ids=lambda one: one.__name__)
async def test_a_real_session_is_decided_about_live_as_in_a_backtest_of_its_journal(
    place: Place, world: World, function: Any
) -> None:
    agent = under(function)
    async with opened(place, agent, clock=world.clock) as mc:
        session = await mc.start(agent, GOAL)
        if function is works:
            await world.at_the_end.wait()
            await a_while()
        else:
            await stepped_into(session)
        events = await history(session)
        made = [one.decision for one in await interventions(session) if one.decision.interrupts]
        recording = recording_of(events, run_id=session.id)
        assert recording is not None
        verdict = replay(recording, RunMonitor(STANDARD))
        if function is works:
            assert (made, verdict.decision) == ([], None)
            world.may_end.set()
            return
        decided = verdict.decision
        if function is takes_long:  # on this clock time passes at once: a live session is not looked at in between
            oversight = RunMonitor(STANDARD)
            found = (oversight.see(act) for act in recording.acts)
            decided = next(one for one in found if one is not None and one.interrupts)
        assert decided is not None
        assert (decided.level, decided.reasons) == (made[0].level, made[0].reasons)
        assert (decided.held, decided.at) == (made[0].held, made[0].at)
        world.may_end.set()
        await session.cancel(grace=0)
