"""What an agent's earlier runs had needed when another began."""

from collections.abc import AsyncIterator

import pytest

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.terms import Terms
from midcourse.ports.store import Store
from midcourse.runtime.past_runs import RUNS, PastRuns
from midcourse.wiring import open_store
from tests.reports.journals import Journal
from tests.reports.stores import keep


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = await open_store("memory://")
    yield opened
    await opened.close()


def run(number: int, *, agent: str = "worker") -> Journal:
    """Of two calls and 7 s of work, and an hour in which it was paused."""
    journal = Journal(f"sess_{number:04}", agent=agent, terms=Terms(), began=10_000.0 * number).started(0.0)
    journal.called(1.0).wished(cmd.Pause, 5.0).happens(ev.SessionPaused(), at=5.0).wished(cmd.Resume, 3605.0)
    return journal.called(3605.0).happens(ev.SessionCompleted(), at=3607.0)


async def test_what_a_run_was_paused_is_no_work_of_it(store: Store) -> None:
    await keep(store, *(run(number) for number in range(3)), run(3, agent="other"))
    history = await PastRuns(store, "worker", "").before()
    assert (history.calls, history.seconds) == ((2, 2, 2), (7.0, 7.0, 7.0))


async def test_only_what_was_over_by_then_counts_and_of_that_the_newest(store: Store) -> None:
    await keep(store, *(run(number) for number in range(RUNS + 50)))
    past = PastRuns(store, "worker", "")
    counts = [len((await past.before(at)).calls) for at in (1e9, 30_006.0, 30_008.0, 0.0, 2_100_000.0)]
    assert counts == [RUNS, 3, 4, 0, RUNS]


async def test_a_session_of_several_turns_says_nothing_of_one(store: Store) -> None:
    more = run(1).wished(cmd.Redirect, 4000.0, text="more").happens(ev.SessionCompleted(), at=4010.0)
    await keep(store, run(0), more)
    assert len((await PastRuns(store, "worker", "").before()).calls) == 1
