"""An encoder that is still loading while a run works: that is said, and what was done meanwhile is measured then."""

import asyncio

import pytest

import midcourse
from midcourse.core.policy_decision import Unseen
from midcourse.runtime.supervisor import Supervisor
from tests.policy.runs import Run, called
from tests.policy.watched_programs import FixedDrift, a_while, interventions, opened, under
from tests.promises.harness import Place, until


class Told(FixedDrift):
    """A gauge that remembers what it was held to, and what was done for it."""

    def __init__(self) -> None:
        super().__init__(0.6)
        self.held_to = ""
        self.done: list[str] = []

    def goal(self, text: str) -> None:
        """From here on only this counts."""
        self.held_to, self.done = text, []

    def act(self, text: str) -> None:
        """One more."""
        self.done.append(text)


def why(run: Run) -> str:
    return {one.signal: one.why for one in run.oversight.unseen()}["scope_drift"]


def test_that_it_is_still_loading_is_not_that_there_is_none() -> None:
    run = Run(awaits_drift=True)
    run.call()
    assert why(run) == "its encoder is still loading"
    run.oversight.measure_drift(Unseen("scope_drift", "no encoder is installed"))
    assert why(run) == "no encoder is installed"
    assert why(Run()) == "no encoder measures it"


@pytest.mark.parametrize("loaded_after", range(8))
def test_whenever_it_comes_it_knows_what_it_would_have_known_from_the_start(loaded_after: int) -> None:
    early, late = Told(), Told()
    first, second = Run(drift=early), Run(awaits_drift=True)
    for number in range(8):
        if number == loaded_after:
            second.oversight.measure_drift(late)
        for run in (first, second):
            if number == 3:
                run.say("Leave out the tables")
            else:
                run.see(called(at=run.at, digest=f"d{number}", arguments=f"chapter {number} of the memo on churn"))
    assert (late.held_to, late.done) == (early.held_to, early.done)
    assert second.oversight.values["scope_drift"] == first.oversight.values["scope_drift"] == 0.6


def test_what_was_done_meanwhile_counts_without_another_act() -> None:
    run = Run(awaits_drift=True)
    run.settle()
    run.oversight.measure_drift(Told())
    decision = run.look()
    assert decision is not None
    assert [(one.signal, one.stage) for one in decision.reasons] == [("scope_drift", "warn")]


async def test_a_live_session_is_judged_by_its_drift_as_soon_as_the_encoder_is_there(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, may_end, has_worked = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def drift(*_: object) -> FixedDrift:
        await loaded.wait()
        return FixedDrift(0.6)

    @midcourse.tool(effect="read")
    async def read(page: int) -> str:
        return f"page {page} of something else"

    async def reader(run: midcourse.Run) -> str:
        for page in range(12):
            await run.step(f"read {page}", read, page)
        has_worked.set()
        await may_end.wait()
        return "read"

    monkeypatch.setattr(Supervisor, "drift", drift)
    async with opened(place, agent := under(reader)) as mc:
        session = await mc.start(agent, "Write the churn memo for April")
        await has_worked.wait()
        await a_while()
        assert await interventions(session) == []
        loaded.set()
        await until(session, "intervention.made")
        [made] = await interventions(session)
        assert [one.arithmetic for one in made.decision.reasons] == ["scope_drift 0.6 ≥ 0.5"]
        may_end.set()
        assert await session.result(20) == "read"
