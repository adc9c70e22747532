"""Whatever touches prod or a paid API stays in the audit log, for as long as the policy says."""

from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

import midcourse
from midcourse.core.audit import Audited
from midcourse.policy import versions
from midcourse.policy.document import Environments, Policy
from midcourse.policy.profiles import STANDARD
from midcourse.ports.audit_log import prune_audit, read_audit
from midcourse.runtime.settings import Settings
from midcourse.runtime.supervisor import Supervisor
from midcourse.runtime.tools import declared_tool, register
from midcourse.stores.sqlite.memory import MemoryStore, SharedMemory
from midcourse.testing import FakeClock
from tests.policy.runs import GOAL
from tests.policy.watched_programs import no_drift, opened, under
from tests.promises.harness import Place

DAY: Final = 86_400.0
UNASKED: Final = replace(
    STANDARD, name="unasked", extends="standard", environments=Environments(approve=(), approve_paid=False)
)
"""Nobody is asked before a call that touches prod or costs something."""
NOBODY_ASKED: Final = Settings(approve_prod=False, approve_paid=False)


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this is about drift."""
    monkeypatch.setattr(Supervisor, "drift", no_drift)


def tool_of(name: str, **declared: Any) -> midcourse.Tool[..., Any]:
    """A tool that does nothing."""

    async def body(what: str) -> str:
        return what

    made = declared_tool(body, name=name, origin=f"{__name__}:{name}", **declared)
    register(made)
    return made


TOOLS: Final = {
    "look": {"effect": "read", "environment": "prod"},
    "write": {"effect": "idempotent", "environment": "production"},
    "search": {"effect": "read", "cost": 0.02},
    "try": {"effect": "idempotent", "environment": "staging"},
    "note": {"effect": "idempotent"},
}


def touches(policy: Policy | None, *, later: float = 0.0, keep: float = 7 * DAY) -> list[Audited]:
    """Have one run call every tool, prune the log ``later``, and return what is left of the agent's own entries."""
    clock = FakeClock()

    async def work(run: midcourse.Run) -> None:
        for name, declared in TOOLS.items():
            await run.step(name, tool_of(name, **declared), "customers")

    async def main() -> list[Audited]:
        store = MemoryStore(SharedMemory())
        name = "none"
        if policy is not None:
            name = (await versions.save(store, policy, by="ada", why="a test", now=clock.now())).policy.name
        agent = under(work, name, name="worker")
        place = Place("memory", Path())
        async with opened(place, agent, clock=clock, store=store, settings=NOBODY_ASKED) as mc:
            await (await mc.start(agent, GOAL)).result(60)
            clock.step(later)
            await prune_audit(store, clock.now() - keep, by="host", role="operate", now=clock.now())
            return [one for one in await read_audit(store) if one.entry.by == "agent:worker"]

    return clock.run(main())


@pytest.mark.parametrize("policy", [None, UNASKED], ids=["unwatched", "approvals off"])
def test_every_touch_of_prod_and_of_a_paid_api_is_in_the_audit_log_reads_and_unapproved_writes_too(
    policy: Policy | None,
) -> None:
    entries = [one.entry for one in touches(policy)]
    assert [(one.action, one.outcome, one.detail) for one in entries] == [
        ("call", "ok", 'prod (read): look with ["customers"]'),
        ("call", "ok", 'production (idempotent): write with ["customers"]'),
        ("call", "ok", 'a paid API, about $0.02 (read): search with ["customers"]'),
    ]
    assert all(one.keep == 90 * DAY and one.session for one in entries)


def test_they_stay_for_ninety_days_where_the_log_is_kept_for_seven() -> None:
    assert len(touches(UNASKED, later=89 * DAY)) == 3
    assert touches(UNASKED, later=91 * DAY) == []


@pytest.mark.parametrize(("days", "left"), [(30, 0), (365, 3)])
def test_a_policy_says_how_long_they_stay(days: float, left: int) -> None:
    audit = replace(UNASKED.environments, audit=days * DAY)
    assert len(touches(replace(UNASKED, environments=audit), later=100 * DAY)) == left


def test_where_resources_must_be_tagged_a_call_of_an_untagged_one_is_a_touch_of_prod() -> None:
    strict = replace(UNASKED.environments, require_tag=True)
    clock = FakeClock()

    async def main() -> list[str]:
        store = MemoryStore(SharedMemory())
        await versions.save(store, replace(UNASKED, environments=strict), by="ada", why="a test", now=clock.now())

        async def work(run: midcourse.Run) -> None:
            await run.step("peek", tool_of("peek", effect="read"), "customers")

        agent = under(work, "unasked", name="worker")
        async with opened(Place("memory", Path()), agent, clock=clock, store=store, settings=NOBODY_ASKED) as mc:
            await (await mc.start(agent, GOAL)).result(60)
            return [one.entry.detail for one in await read_audit(store) if one.entry.action == "call"]

    assert clock.run(main()) == ['no environment, which counts as prod (read): peek with ["customers"]']


async def test_the_entry_of_a_read_is_durable_before_the_read_begins() -> None:
    store = MemoryStore(SharedMemory())
    seen: list[str] = []

    async def body() -> str:
        seen.extend(one.entry.action for one in await read_audit(store))
        return "read"

    look = declared_tool(body, name="look", origin=f"{__name__}:durable", effect="read", environment="prod")
    register(look)

    async def work(run: midcourse.Run) -> None:
        await run.step("look", look)

    agent = under(work, "none", name="worker")
    async with opened(Place("memory", Path()), agent, store=store) as mc:
        await (await mc.start(agent, GOAL)).result(10)
    assert seen == ["session.start", "call"]


def test_the_undo_of_what_was_done_in_prod_is_in_the_audit_log_too() -> None:
    clock = FakeClock()

    async def undo(arguments: object, result: object, key: str) -> None:
        del arguments, result, key

    async def main() -> list[tuple[str, str]]:
        made = tool_of("make", effect="write", environment="prod", undo=undo)

        async def work(run: midcourse.Run) -> None:
            await run.step("make", made, "customers")
            await run.step("wait", tool_of("wait", effect="read"), "nothing")
            await clock.sleep(3600)

        agent = under(work, "none", name="worker")
        async with opened(
            Place("memory", Path()),
            agent,
            clock=clock,
            store=(store := MemoryStore(SharedMemory())),
            settings=NOBODY_ASKED,
        ) as mc:
            session = await mc.start(agent, GOAL)
            await clock.sleep(5)
            await session.cancel(grace=0, undo="all", until="stopped")
            await clock.sleep(5)
            return [
                (one.entry.action, one.entry.detail)
                for one in await read_audit(store)
                if one.entry.by == "agent:worker"
            ]

    assert clock.run(main()) == [
        ("call", 'prod (reversible): make with ["customers"]'),
        ("call.undo", "prod (reversible): the undo of make"),
    ]
