"""Facts out of a store: of a time, page by page, whatever else lies there."""

from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec.structs import replace

from midcourse.analysis.reports.fleet import Fleet, FleetSession, default_policy, report_on
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.budget import Outlay
from midcourse.core.caps import at_cap
from midcourse.core.fold import Row
from midcourse.core.ids import Position, SessionId
from midcourse.core.terms import Terms
from midcourse.policy.profiles import BUILT_IN, STANDARD
from midcourse.policy.versions import save
from midcourse.ports.store import NEWEST, Head, HeadQuery, Store
from midcourse.wiring import open_store
from tests.reports.journals import Journal
from tests.reports.stores import keep


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = await open_store("memory://")
    yield opened
    await opened.close()


async def gathered(gathering: Fleet) -> list[FleetSession]:
    return [one async for one in gathering.sessions()]


async def test_only_sessions_that_began_in_the_time_are_read_newest_first(store: Store) -> None:
    await keep(store, *(Journal(f"sess_{n}", began=100.0 * n).started() for n in range(1, 8)))
    found = await gathered(Fleet(store, since=300.0, until=600.0))
    assert [one.facts.id for one in found] == ["sess_6", "sess_5", "sess_4", "sess_3"]


async def test_every_page_is_read_and_progress_is_told(store: Store) -> None:
    journal = Journal("sess_long", began=1.0).started()
    for number in range(700):
        journal.called(float(number))
    await keep(store, journal, *(Journal(f"sess_{n}", began=2.0).started() for n in range(450)))
    told: list[int] = []
    found = await gathered(Fleet(store, since=0.0, until=10.0, progress=told.append))
    assert (len(found), told[-1]) == (451, 451)
    assert found[-1].facts.calls == 700


async def test_no_more_than_the_newest_are_read_and_that_is_said(store: Store) -> None:
    await keep(store, *(Journal(f"sess_{n}", began=float(n)).started() for n in range(10)))
    gathering = Fleet(store, since=0.0, until=100.0, most=4)
    assert (await report_on(gathering)).sessions == 4
    assert "Only the newest 4 sessions" in gathering.notes[0]


async def test_a_damaged_journal_is_left_out_and_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await keep(store, *(Journal(f"sess_{name}", began=1.0).started() for name in ("good", "broken")))
    read = store.read

    async def damaged(session_id: SessionId, after: Position, limit: int = 1000) -> list[Row]:
        """What a bad disk does: a row is another one than its digest was made of."""
        rows = await read(session_id, after, limit)
        return [(one[0], one[1] + b" ", one[2]) if session_id == "sess_broken" else one for one in rows]

    monkeypatch.setattr(store, "read", damaged)
    gathering = Fleet(store, since=0.0, until=10.0)
    report = await report_on(gathering)
    assert (report.sessions, list(gathering.damaged)) == (1, ["sess_broken"])
    assert "sess_broken" in report.notes[0]


async def test_a_session_is_held_against_the_version_of_the_policy_it_ran_under(store: Store) -> None:
    strict = replace(STANDARD, name="team", targets=replace(STANDARD.targets, satisfaction=0.99))
    await save(store, strict, by="ada", why="stricter", now=1.0)
    await save(store, replace(strict, response_target=STANDARD.response_target / 2), by="ada", why="faster", now=2.0)
    journals = [Journal(f"sess_{n}", terms=Terms(policy=f"team@{n}"), began=5.0).started() for n in (1, 2)]
    await keep(store, *journals, Journal("sess_none", terms=Terms(), began=5.0).started())
    found = {str(one.facts.id): one.policy for one in await gathered(Fleet(store, since=0.0, until=10.0))}
    assert (found["sess_1"].id, found["sess_2"].id, found["sess_none"]) == ("team@1", "team@2", STANDARD)
    assert found["sess_1"].targets.satisfaction == 0.99


async def test_a_policy_that_is_gone_is_said(store: Store) -> None:
    await keep(store, Journal("sess_1", terms=Terms(policy="lost@3"), began=5.0).started())
    gathering = Fleet(store, since=0.0, until=10.0, default=BUILT_IN["conservative"])
    [one] = await gathered(gathering)
    assert one.policy.name == "conservative"
    assert "lost@3" in gathering.notes[0]


async def test_signals_are_measured_again_where_a_person_stepped_in_rightly(store: Store) -> None:
    journal = Journal("sess_1", began=5.0).started()
    for number in range(4):
        journal.called(10.0 * (number + 1), digest="same", arguments='{"path": "a.txt"}')
    journal.wished(cmd.Pause, 100.0).happens(ev.SessionPaused(), at=100.1).labelled("pause_1", "right")
    await keep(store, journal)
    [without] = await gathered(Fleet(store, since=0.0, until=10.0))
    [found] = await gathered(Fleet(store, since=0.0, until=10.0, with_values=True))
    assert without.values == {}
    values = found.values["pause_1"]
    assert (values["loops"], values["api_calls"]) == (4.0, 4)
    assert values["duration"] == pytest.approx(39.5)


async def test_the_policy_of_those_without_one_can_be_named(store: Store) -> None:
    assert (await default_policy(store, "")).name == "standard"
    assert (await default_policy(store, "none")).name == "standard"
    assert (await default_policy(store, "permissive")).name == "permissive"


async def test_a_class_that_nobody_declared_is_what_its_watch_took_it_for(store: Store) -> None:
    """Without five earlier runs it is long; with them their middle one says, until it has worked for longer."""
    runs = [Journal(f"sess_{n}", terms=Terms(), began=100.0 * n).started(0.0) for n in range(9)]
    for number, run in enumerate(runs):
        run.happens(ev.SessionCompleted(), at=45.0 if number == 8 else 5.0)
    capped = Journal("sess_capped", terms=Terms(budget=0.1), began=350.0).started(0.0)
    capped.happens(*at_cap(capped.session, Outlay(0.1)), ev.SessionPaused(), at=2.0)
    other = Journal("sess_other", agent="other", terms=Terms(), began=950.0).started(0.0)
    await keep(store, *runs, capped, other.happens(ev.SessionCompleted(), at=5.0))
    found = {str(one.facts.id): one.facts for one in await gathered(Fleet(store, since=0.0, until=1e9))}
    classes = [found[f"sess_{n}"].task_class for n in range(9)]
    assert classes == [*["long"] * 5, "short", "short", "short", "medium"]
    assert (found["sess_capped"].task_class, found["sess_other"].task_class) == ("long", "long")
    assert not any(one.is_class_declared for one in found.values())


async def test_the_runs_that_a_class_rests_on_are_read_once_whatever_came_between(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [Journal(f"sess_{n:04}", terms=Terms(), began=10.0 * n).started(0.0) for n in range(450)]
    await keep(store, *(run.happens(ev.SessionCompleted(), at=5.0) for run in runs))
    pages = list[int]()
    heads = store.heads

    async def counted(query: HeadQuery = NEWEST) -> Sequence[Head]:
        found = await heads(query)
        pages.append(len(found) if query.statuses else 0)
        return found

    monkeypatch.setattr(store, "heads", counted)
    found = await gathered(Fleet(store, since=0.0, until=1e9))
    assert [one.facts.task_class for one in found] == ["short"] * 445 + ["long"] * 5
    assert sum(pages) == 450
