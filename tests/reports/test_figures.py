"""Every figure of a report against a fleet whose answers are worked out by hand: see ``recorded_fleet.py``."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import midcourse
from midcourse.analysis.reports.fleet import Fleet, report_on
from midcourse.analysis.reports.intervals import Proportion
from midcourse.analysis.reports.report import Report
from midcourse.analysis.reports.totals import report_of
from midcourse.core import events as ev
from midcourse.core.fold import Row, fold
from midcourse.core.ids import Epoch, Position, SessionId, WorkerId
from midcourse.core.snapshot import Snapshot, encode_snapshot
from midcourse.ports.store import Store
from midcourse.wiring import open_store
from tests.promises.harness import until
from tests.reports.journals import Journal
from tests.reports.recorded_fleet import recorded_fleet
from tests.reports.stores import keep


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = await open_store("memory://")
    yield opened
    await opened.close()


@pytest.fixture
async def report(store: Store) -> Report:
    await keep(store, *recorded_fleet())
    return await report_on(Fleet(store, since=0.0, until=1e9))


def share(found: Proportion) -> tuple[int, int]:
    return found.part, found.of


def test_run_durations_are_held_against_the_range_of_their_class(report: Report) -> None:
    rows = {row.task_class: row.duration for row in report.classes}
    short, medium, long, very_long = (rows[name] for name in ("short", "medium", "long", "very_long"))
    # 10, 20 and 40 s: what it was paused is not counted; 40 s are more than a short run takes.
    assert (short.worked.count, short.worked.p50, short.worked.p99) == (3, 20.0, 40.0)
    assert (short.range, share(short.inside)) == ((0.0, 30.0), (2, 3))
    # One has completed; the 40 s in which nobody drove it are not counted.
    assert (medium.worked.count, medium.worked.p50, medium.range) == (1, 60.0, (30.0, 300.0))
    assert (long.worked.p50, long.worked.p99, long.range, share(long.inside)) == (200.0, 400.0, (300.0, None), (1, 2))
    # 8, 10, 10, 11, 12, 12, 14 s; there is no range to hold them against.
    assert (very_long.worked.count, very_long.worked.p50, very_long.worked.p99) == (7, 11.0, 14.0)
    assert (very_long.range, very_long.inside.share) == (None, None)
    assert {one.verdict for one in rows.values()} == {"too few to say"}


def test_the_token_rate_is_of_model_calls_that_said_their_tokens(report: Report) -> None:
    rate = report.token_rate
    assert (rate.count, rate.p50, rate.p99, rate.most) == (3, 30.0, 40.0, 40.0)
    assert (rate.curve[0], rate.curve[-1], len(rate.curve)) == (10.0, 40.0, 21)
    assert [row.token_rate.count for row in report.classes] == [3, 0, 0, 0]
    assert report.classes[1].token_rate.p50 is None


def test_the_estimate_of_remaining_calls_is_held_against_what_was_left(report: Report) -> None:
    """Of 13 completed runs two had five earlier runs of their agent.

    count_6: after 6 of 12 calls the runs 10, 10, 11, 12, 14 say 11 - 6 = 5 are left, of 6: wrong by a sixth.
    count_7: after 4 of 8 calls the runs 10, 10, 11, 12, 12, 14 say 12 - 4 = 8 are left, of 4: wrong by the whole.
    """
    found = report.estimates
    assert (share(found.known), share(found.within)) == ((2, 13), (1, 2))
    assert found.error == pytest.approx(1 / 6)
    assert (found.within.target, found.within.verdict) == ((0.8, 1.0), "too few to say")


def test_recoveries_count_whether_a_session_got_further(report: Report) -> None:
    found = report.recoveries
    assert share(found.after_stop) == (3, 4)  # short_3, long_1, long_2; not medium_3
    assert share(found.after_loss) == (1, 2)  # medium_1; not medium_2
    assert (share(found.all), found.open) == ((4, 6), 1)  # medium_5; medium_4 says nothing


def test_completion_of_stopped_runs_stands_beside_that_of_the_others(report: Report) -> None:
    found = report.outcomes
    assert share(found.stopped) == (3, 4)  # short_3, long_1, long_2; medium_3 failed
    assert share(found.unstopped) == (10, 11)  # short_1, short_2, medium_1, seven counts; medium_2 failed
    assert found.cancelled == 1
    assert found.difference == pytest.approx(3 / 4 - 10 / 11)
    medium = report.classes[1].outcomes
    assert (share(medium.stopped), share(medium.unstopped), medium.difference) == ((0, 1), (1, 2), -0.5)


def test_the_return_is_worth_above_cost_and_a_wrong_intervention_was_worth_nothing(report: Report) -> None:
    """long_1 avoided $2.20, long_2 nothing; each stopped for a minute, $0.05. long_3 is not over."""
    found = report.returns
    assert (found.counted, found.of) == (2, 3)
    assert (found.worth, found.cost) == (pytest.approx(2.2), pytest.approx(0.1))
    assert found.roi == pytest.approx(21.0)


def test_sessions_that_were_stopped_or_lost_come_to_what_the_store_has(report: Report) -> None:
    """short_3, six medium and three long ones; none of the others was stopped or lost."""
    assert (share(report.consistency.sessions), report.consistency.flaws) == ((10, 10), {})


async def test_a_session_whose_head_says_otherwise_is_not_consistent_and_is_named(store: Store) -> None:
    await keep(store, *recorded_fleet(), status={"sess_medium_5": "completed"})
    found = (await report_on(Fleet(store, since=0.0, until=1e9))).consistency
    assert share(found.sessions) == (9, 10)
    assert found.flaws == {
        "sess_medium_5": "its list says completed, and its journal running at position 5",
    }


async def test_a_journal_that_breaks_a_promise_is_not_consistent(store: Store) -> None:
    """The finished call of a paused and resumed session begins once more: the fold refuses it."""
    journal = Journal().started()
    step = journal.begun(2.0)
    journal.finished(step, 3.0)
    broken = ev.StepBegun(step=step, name="call", kind="tool", attempt=2, digest="d")
    journal.happens(ev.SessionTaken(epoch=Epoch(2), worker="w2"), at=4.0)
    journal.happens(broken, at=5.0)
    await keep(store, journal)
    found = (await report_on(Fleet(store, since=0.0, until=1e9))).consistency
    assert share(found.sessions) == (0, 1)
    assert "is finished; attempt 2" in found.flaws["sess_1"]


async def test_a_snapshot_that_says_otherwise_is_not_consistent(store: Store) -> None:
    [journal] = [one for one in recorded_fleet() if one.id == "sess_short_3"]
    await keep(store, journal)
    head = (await store.head(journal.id)).head
    state = fold(head.id, None, await store.read(head.id, Position(0)))
    worker = WorkerId("w")
    await store.enlist(worker, "")
    epoch = (await store.take(head.id, worker)).epoch
    for cost, flawed in ((state.session.cost, 0), (state.session.cost + 1.0, 1)):
        session = replace(state.session, cost=cost)
        content = encode_snapshot(Snapshot(head.position, state.digest, session, state.log)).content
        await store.save_snapshot(head.id, head.position, content, epoch=epoch)
        found = (await report_on(Fleet(store, since=0.0, until=1e9))).consistency
        assert share(found.sessions) == (1 - flawed, 1)


async def test_a_journal_that_cannot_be_read_is_not_consistent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await keep(store, *recorded_fleet())
    read = store.read

    async def damaged(session_id: SessionId, after: Position, limit: int = 1000) -> list[Row]:
        rows = await read(session_id, after, limit)
        return [(one[0], one[1] + b" ", one[2]) if session_id == "sess_short_1" else one for one in rows]

    monkeypatch.setattr(store, "read", damaged)
    found = (await report_on(Fleet(store, since=0.0, until=1e9))).consistency
    assert share(found.sessions) == (10, 11)
    assert list(found.flaws) == ["sess_short_1"]


def test_what_nobody_can_know_is_said_with_how_many_there_are() -> None:
    report = report_of((), 0.0, 1.0)
    assert report.token_rate.count == report.estimates.known.of == report.recoveries.open == report.returns.of == 0
    unknown = (
        report.token_rate.p50,
        report.estimates.within.share,
        report.estimates.error,
        report.recoveries.all.share,
        report.consistency.sessions.share,
        report.outcomes.difference,
        report.returns.roi,
    )
    assert set(unknown) == {None}
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


@midcourse.tool(effect="read")
async def look(number: int) -> str:
    return f"{number}: {'x' * 200}"


_was_paused = asyncio.Event()


@midcourse.agent(name="tests.looker")
async def looker(run: midcourse.Run) -> str:
    for number in range(400):
        if number == 200:
            await _was_paused.wait()
        await run.step("look", look, number)
    return "done"


async def test_what_a_real_run_left_behind_is_consistent_with_its_snapshots(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    async with midcourse.open(url, durability="process") as mc:
        session = await mc.start(looker, "look", session_id="sess_1")
        await until(session, "step.finished", times=20)
        await session.pause("let me see", until="stopped")
        _was_paused.set()
        await session.resume()
        assert await session.result(timeout=30) == "done"
    store = await open_store(url)
    snapshots = await store.snapshots(SessionId("sess_1"))
    report = await report_on(Fleet(store, since=0.0, until=1e12))
    await store.close()
    assert snapshots
    assert (share(report.consistency.sessions), share(report.recoveries.after_stop)) == ((1, 1), (1, 1))
