"""What a policy says of its people: how long alarms are gathered for them, and when they have approved too often."""

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

import midcourse
from midcourse.people.inbox_rules import InboxAsk
from midcourse.policy import versions
from midcourse.policy.alarm_batches import Batch
from midcourse.policy.document import ErrorRule, Policy
from midcourse.policy.durations import Span
from midcourse.policy.profiles import STANDARD
from midcourse.runtime.supervisor import Supervisor
from midcourse.stores.sqlite.memory import MemoryStore, SharedMemory
from midcourse.testing import FakeClock
from tests.policy.runs import GOAL
from tests.policy.watched_programs import no_drift, opened, under
from tests.promises.harness import Place

HOUR: Final = 3600.0


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this is about drift."""
    monkeypatch.setattr(Supervisor, "drift", no_drift)


async def fail() -> None:
    """A call that does not work."""
    raise ValueError("no")


async def stumble(run: midcourse.Run) -> None:
    """Fail three times in ten, and ask a person."""
    for number in range(10):
        try:
            await run.step("work", fail if number % 4 == 0 else _nothing)
        except midcourse.StepError:
            continue
    await run.ask("May I?")


async def _nothing() -> None:
    """A call that works."""


def under_policy(policy: Policy) -> tuple[list[Batch], list[InboxAsk]]:
    """What people of a run under a policy are told later, and asked now."""
    clock = FakeClock()

    async def main() -> tuple[list[Batch], list[InboxAsk]]:
        store = MemoryStore(SharedMemory())
        await versions.save(store, policy, by="ada", why="a test", now=clock.now())
        agent = under(stumble, policy.name, name="worker")
        async with opened(Place("memory", Path()), agent, clock=clock, store=store) as mc:
            session = await mc.start(agent, GOAL, by="ada")
            await clock.sleep(5)
            found = list(await mc.alarms()), list((await mc.inbox()).asks)
            await session.cancel(grace=0)
            return found

    return clock.run(main())


def ours(**restraint: object) -> Policy:
    """A policy that tells people of errors, with other restraint."""
    return replace(
        STANDARD,
        name="ours",
        extends="standard",
        signals=replace(STANDARD.signals, errors=ErrorRule(streak=None, intervene=None)),
        restraint=replace(STANDARD.restraint, **restraint),
    )


@pytest.mark.parametrize("gather", [60.0, HOUR, 4 * HOUR])
def test_alarms_are_gathered_for_as_long_as_the_policy_of_their_run_says(gather: float) -> None:
    told, _ = under_policy(ours(batch=Span(gather)))
    assert [one.ready_at - one.since for one in told] == [gather]


@pytest.mark.parametrize("count", [3, 20])
def test_an_ask_says_after_how_many_approvals_in_a_row_its_policy_wants_a_warning(count: int) -> None:
    _, asked = under_policy(ours(approvals_in_a_row=count))
    assert [one.tired_after for one in asked] == [count]
