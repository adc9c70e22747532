"""Sessions that ran before: some went round in circles and failed, others went straight and were done."""

from midcourse.analysis.reports.review import review
from midcourse.core import events as ev
from midcourse.core.terms import Terms
from midcourse.ports.store import Store
from tests.reports.journals import Journal
from tests.reports.stores import keep
from tests.reports.test_review import labelled

FAILED = 14
SUCCEEDED = 18


def ran(name: str, began: float, *, circles: int, fails: bool, agent: str = "searcher", steps: int = 14) -> Journal:
    """A run of half a minute a step, the last ``circles`` of which are the same call again."""
    journal = Journal(name, agent=agent, began=began, terms=Terms(task_class="long", policy="standard@1")).started()
    for number in range(steps):
        is_same = number >= steps - circles
        asked = "the same" if is_same else f"page {number}"
        # It counts as the same call if its arguments are.
        journal.called(
            30.0 * number + 2, 3.0, name="search", arguments=f'{{"text": "{asked}"}}', digest=asked, cost=0.02
        )
    end = 30.0 * steps
    done = ev.SessionFailed(code="agent_error", message="It found nothing.") if fails else ev.SessionCompleted()
    return journal.happens(done, at=end)


def recorded(now: float, *, failed: int = FAILED, succeeded: int = SUCCEEDED) -> list[Journal]:
    """Runs of the last days: those that failed had gone round four times at least."""
    runs = [
        ran(f"sess_bad_{number}", now - 3600.0 * (number + 1), circles=4 + number % 6, fails=True)
        for number in range(failed)
    ]
    return runs + [
        ran(f"sess_good_{number}", now - 3600.0 * (number + 2) - 60, circles=number % 4, fails=False)
        for number in range(succeeded)
    ]


def stopped(now: float, count: int = 6) -> list[Journal]:
    """Sessions that a policy stopped and a person let go on; half of those stops were wrong, people said."""
    found: list[Journal] = []
    for number in range(count):
        journal = Journal(f"sess_stopped_{number}", agent="writer", began=now - 600.0 * (number + 1)).started()
        journal.called(2.0).stepped_in("stop", 20.0, late=0.02).happens(
            ev.SessionPaused(), at=20.02 + 0.01 * (number + 1)
        )
        journal.answered("ask_1", "go on", 80.0).called(81.0).happens(ev.SessionCompleted(), at=400.0)
        found.append(journal.labelled("int_1", "right" if number % 2 else "wrong"))
    return found


async def fill(store: Store, now: float) -> None:
    """Recorded runs, and labelled alarms from which a review has proposed something."""
    await keep(store, *recorded(now), *stopped(now), *labelled(20))
    await review(store, since=0.0, now=now)
