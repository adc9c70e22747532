"""Programs under a policy, on a clock that agents and tests move, without an encoder."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import midcourse
from midcourse.core import events as ev
from midcourse.core.events import Recorded
from midcourse.core.policy_decision import Unseen
from midcourse.handle import LocalTransport, Midcourse, SessionHandle
from midcourse.policy.document import Policy
from midcourse.ports.clock import Clock
from midcourse.ports.store import Store
from midcourse.runtime.settings import Settings
from midcourse.wiring import open_control
from tests.promises.harness import QUICK, Place, history, resumable, turns


class FixedDrift:
    """What an agent does is as far from the goal as the test says."""

    def __init__(self, distance: float | None) -> None:
        self.distance = distance

    def goal(self, text: str) -> None:
        """It makes no difference."""

    def act(self, text: str) -> None:
        """Nor does this."""

    def value(self) -> float | None:
        """As it was said."""
        return self.distance

    def alignment(self, hypothesis: str) -> float | None:
        """The same."""
        del hypothesis
        return self.distance


async def no_drift(*_: object) -> Unseen:
    """What a supervisor says of drift without an encoder."""
    return Unseen("scope_drift", "this test has no encoder")


def under(function: Any, policy: str = "standard", *, name: str = "agent", **terms: Any) -> midcourse.Agent[Any]:
    """An agent under a policy that may go on anywhere."""
    return replace(resumable(function, name=name), terms=midcourse.Terms(policy=policy, **terms))


@asynccontextmanager
async def opened(
    place: Place,
    *agents: midcourse.Agent[Any],
    clock: Clock | None = None,
    store: Store | None = None,
    settings: Settings = QUICK,
    grace: float = 2.0,
) -> AsyncGenerator[Midcourse]:
    """A program that has ``agents`` and opens the store."""
    control = await open_control(
        store or await place.store(),
        durability="process",
        drives=True,
        settings=settings,
        agents={agent.name: agent for agent in agents},
        clock=clock,
        redis="",
    )
    mc = Midcourse(LocalTransport(control))
    try:
        yield mc
    finally:
        await mc.close(grace)


async def interventions(session: SessionHandle[Any]) -> list[ev.InterventionMade]:
    """What policies have decided in a session, and what the agent asked of its own accord."""
    return [one.event for one in await history(session) if isinstance(one.event, ev.InterventionMade)]


async def levels(session: SessionHandle[Any]) -> list[str]:
    """Of all of them."""
    return [one.decision.level for one in await interventions(session)]


async def a_while() -> None:
    """Long enough for whatever was to be decided of what has happened."""
    await turns(200)


def of_type(events: list[Recorded], kind: Any) -> list[Any]:
    """Those events of a journal."""
    return [one.event for one in events if isinstance(one.event, kind)]


def with_restraint(policy: Policy, name: str, **rules: Any) -> Policy:
    """Another policy with other restraint."""
    from msgspec.structs import replace as changed

    return changed(policy, name=name, extends=policy.name, restraint=changed(policy.restraint, **rules))
