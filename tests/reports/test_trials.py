"""Policies on the runs of a store: read newest first, as figures of a backtest, in a process of their own."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from midcourse.analysis.backtest import backtest
from midcourse.analysis.reports import trials
from midcourse.analysis.reports.recorded_runs import Going, Runs, read_runs
from midcourse.analysis.reports.trial_process import calibrate, try_policies
from midcourse.analysis.reports.trials import propose, scaled, tried
from midcourse.clock import SystemClock
from midcourse.errors import InvalidInput, Refused
from midcourse.policy.profiles import BUILT_IN, STANDARD
from midcourse.ports.store import Store
from midcourse.wiring import open_store
from tests.reports.journals import Journal
from tests.reports.recordings import FAILED, SUCCEEDED, recorded
from tests.reports.stores import keep

NOW = 1_000_000.0
CLOCK = SystemClock()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = await open_store("memory://")
    await keep(opened, *recorded(NOW), Journal("sess_idle", began=NOW).started())
    yield opened
    await opened.close()


async def runs_of(store: Store, most: int = 500, since: float = 0.0, tenant: str | None = None) -> Runs:
    return await read_runs(store, CLOCK, Going(), most=most, since=since, tenant=tenant)


async def test_all_runs_that_called_something_are_read_newest_first_and_what_is_left_out_is_said(store: Store) -> None:
    runs = await runs_of(store)
    assert len(runs.recordings) == FAILED + SUCCEEDED
    assert [one.run_id for one in runs.recordings[:2]] == ["sess_bad_0", "sess_bad_1"]
    assert runs.until == NOW - 3600
    assert runs.notes == ("1 session has no call that has ended, of a model or a tool, and is left out.",)


async def test_no_more_are_read_than_asked_for_nor_older_ones_nor_those_of_another_tenant(store: Store) -> None:
    few = await runs_of(store, most=3)
    assert (len(few.recordings), few.notes[0]) == (3, "Only the newest 3 runs were tried.")
    assert len((await runs_of(store, since=NOW - 3601)).recordings) == 1
    assert (await runs_of(store, tenant="acme")).recordings == ()
    assert len((await runs_of(store, tenant="")).recordings) == FAILED + SUCCEEDED


async def test_reading_ends_when_its_time_is_over_and_says_so(store: Store) -> None:
    found = await read_runs(store, CLOCK, Going(), seconds=-1.0)
    assert found.recordings == ()
    assert found.notes == ("Reading took longer than -1 s: only the newest 0 runs were tried.",)


async def test_a_trial_says_what_a_backtest_says(store: Store) -> None:
    runs = await runs_of(store)
    found = tried(runs, [STANDARD, BUILT_IN["conservative"]], Going())
    expected = backtest([STANDARD, BUILT_IN["conservative"]], runs.recordings, resamples=0)
    assert [(one.name, one.version) for one in found.policies] == [("standard", 1), ("conservative", 1)]
    for one, wanted in zip(found.policies, expected.policies.values(), strict=True):
        assert replace(one.all, intervals={}) == wanted.scores.all
    assert (found.runs, found.failures, found.successes, found.is_enough) == (32, FAILED, SUCCEEDED, True)
    assert found.policies[0].all.failures_stopped > 0
    assert sum(found.policies[0].when["failure"]) == found.policies[0].all.failures_stopped
    assert found.limit == STANDARD.restraint.false_positives


async def test_a_curve_goes_from_stopping_nothing_to_stopping_all_and_passes_where_the_policy_stands(
    store: Store,
) -> None:
    [one] = tried(await runs_of(store), [STANDARD], Going()).policies
    caught = [point.recall or 0.0 for point in one.curve]
    assert [point.scale for point in one.curve] == sorted({*trials.SCALES, 1.0})
    assert caught == sorted(caught, reverse=True)
    assert (caught[0], caught[-1]) == (1.0, 0.0)
    assert next(point.recall for point in one.curve if point.scale == 1.0) == one.all.recall


async def test_a_rail_has_how_high_each_run_rose_and_no_more_than_can_be_drawn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = await runs_of(store)
    loops = next(one for one in tried(runs, [STANDARD], Going()).rails if one.signal == "loops")
    assert len(loops.failed) == FAILED
    assert min(loops.failed) == 4.0
    assert max(loops.others) == 3.0
    monkeypatch.setattr(trials, "TICKS", 5)
    few = next(one for one in tried(runs, [STANDARD], Going()).rails if one.signal == "loops")
    assert (few.failed[0], few.failed[-1], len(few.failed)) == (loops.failed[0], loops.failed[-1], 5)


async def test_few_runs_are_too_few_to_say_and_are_not_calibrated_from(store: Store) -> None:
    runs = await runs_of(store, most=5)
    found = tried(runs, [STANDARD], Going())
    assert not found.is_enough
    assert found.sentence.startswith("Too few to say. 5 recorded runs: ")
    with pytest.raises(InvalidInput) as refused:
        propose(runs, STANDARD, Going())
    assert refused.value.code == "too_few_runs"


async def test_what_is_proposed_is_the_next_version_of_the_policy_and_stops_more_failing_runs(store: Store) -> None:
    runs = await runs_of(store)
    found = propose(runs, STANDARD, Going(), 0.1)
    assert (found.policy.name, found.policy.extends) == ("standard", "standard@1")
    assert found.policy.signals.loops.intervene == 4.0
    assert "expect less of others" in found.sentence
    [before] = tried(runs, [STANDARD], Going()).policies
    [after] = tried(runs, [replace(found.policy, version=0)], Going()).policies
    assert after.all.failures_stopped > before.all.failures_stopped
    assert after.all.successes_stopped <= SUCCEEDED // 10


async def test_beside_the_server_the_same_is_computed_and_told_of(store: Store) -> None:
    runs = await runs_of(store)
    going = Going()
    assert await try_policies(runs, [STANDARD], going) == tried(runs, [STANDARD], Going())
    assert (going.phase, going.done, going.of) == ("measuring", FAILED + SUCCEEDED, FAILED + SUCCEEDED)
    few = await runs_of(store, most=5)
    with pytest.raises(InvalidInput) as there:
        await calibrate(few, STANDARD, Going(), false_stops=0.1)
    with pytest.raises(InvalidInput) as here:
        propose(few, STANDARD, Going())
    assert (there.value.message, there.value.code, there.value.fields) == (
        here.value.message, here.value.code, here.value.fields,
    )  # fmt: skip


async def test_what_takes_too_long_is_refused_with_what_to_do(store: Store) -> None:
    runs = await runs_of(store)
    with pytest.raises(Refused, match="take fewer with `limit`") as refused:
        await try_policies(runs, [STANDARD], Going(), seconds=0.01)
    assert refused.value.code == "too_many_runs"


def test_scaling_moves_every_threshold_and_nothing_else() -> None:
    twice = scaled(STANDARD, 2.0)
    assert (twice.signals.duration.warn, twice.signals.loops.intervene, twice.signals.errors.streak) == (1200, 10.0, 10)
    assert twice.signals.cost.milestones == (20.0, 50.0, 100.0)
    assert twice.signals.token_rate.intervene == 0.15  # a lower rate is worse
    assert (twice.signals.budget, twice.signals.loops.alike) == (STANDARD.signals.budget, STANDARD.signals.loops.alike)
    assert twice.restraint == STANDARD.restraint
    assert scaled(STANDARD, 0.01).signals.errors.streak == 1
