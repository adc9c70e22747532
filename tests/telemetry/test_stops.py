"""What is measured of a stop: until it is answered, and until nothing of the session runs."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

import midcourse
from midcourse.analysis.reports.reader import facts_of
from midcourse.clock import SystemClock
from midcourse.core import commands as cmd
from midcourse.core.ids import CommandId, Position, SessionId
from midcourse.core.policy_decision import Decision
from midcourse.handle import LocalTransport, Midcourse
from midcourse.policy.profiles import STANDARD
from midcourse.runtime.session_loader import read_events
from midcourse.runtime.settings import Settings
from midcourse.telemetry.metrics import Metrics
from midcourse.wiring import open_control
from tests.promises.harness import Place, resumable, until, until_status, until_true


def count(registry: CollectorRegistry, name: str, **labels: str) -> float:
    """How many were measured."""
    return registry.get_sample_value(f"midcourse_{name}_seconds_count", labels) or 0.0


def total(registry: CollectorRegistry, name: str, **labels: str) -> float:
    """How long it was in all."""
    return registry.get_sample_value(f"midcourse_{name}_seconds_sum", labels) or 0.0


@pytest.mark.parametrize(
    ("verb", "by"), [("pause", "person"), ("cancel", "person"), ("halt", "kill_switch"), ("pause", "policy")]
)
async def test_a_stop_is_answered_at_once_and_over_when_the_last_call_has_ended(
    memory: Place, verb: str, by: str
) -> None:
    """And a report reads the same times out of the journal, whoever's stop it was."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def finishes_first() -> None:  # declares no effect: no stop aborts it
        begun.set()
        await may_end.wait()

    async def agent(run: midcourse.Run) -> None:
        await run.step("finishes first", finishes_first)
        await run.step("never", finishes_first)

    metrics = Metrics(SystemClock())
    control = await open_control(
        await memory.store(),
        durability="process",
        drives=True,
        settings=Settings(poll=0.05, policy="none"),
        agents={"agent": resumable(agent)},
        meter=metrics,
    )
    try:
        mc = Midcourse(LocalTransport(control))
        session = await mc.start(resumable(agent), "x", session_id="s")
        await begun.wait()
        stop: cmd.AnyCommand
        match verb, by:
            case "pause", "person":
                stop = cmd.Pause(id=CommandId("c"), by="ada")
            case "pause", _:  # it had decided before it could say so
                decision = Decision(
                    level="stop", wanted="stop", policy="standard@1", at=control.worker.clock.now() - 0.5
                )
                stop = cmd.Intervene(id=CommandId("c"), by="policy:standard@1", decision=decision)
            case "cancel", _:
                stop = cmd.Cancel(id=CommandId("c"), by="ada")
            case _:
                stop = cmd.Halt(id=CommandId("c"), by="ada", role="operate")
        await control.send(SessionId("s"), stop, until="decided", wait=30)
        assert count(metrics.registry, "stop_response", verb=verb, by=by) == 1
        assert count(metrics.registry, "stop", verb=verb, by=by) == 0
        if by == "person" and verb == "pause":  # said again of a pause that is under way, it is no second stop
            again = cmd.Pause(id=CommandId("d"), by="ada", reason="said again")
            await control.send(SessionId("s"), again, until="decided", wait=30)
        may_end.set()
        await until_true(lambda: count(metrics.registry, "stop", verb=verb, by=by) == 1)
        await until(session, "step.finished")  # a halted session's, too, which is called halted before
        await until_status(session, {"pause": "paused", "cancel": "cancelled", "halt": "halted"}[verb])
        assert count(metrics.registry, "stop_response", verb=verb, by=by) == 1
        events = await read_events(control.worker.store, SessionId("s"), Position(0), 1000)
        [found] = facts_of(SessionId("s"), events, STANDARD).interruptions
        assert (found.stopper, found.waited_for) == (by, ("finishes first",))
        assert found.stop == pytest.approx(total(metrics.registry, "stop", verb=verb, by=by))
        assert found.response is not None
        answered = total(metrics.registry, "stop_response", verb=verb, by=by)  # until it was durable, too
        assert (0.5 if by == "policy" else 0.0) <= found.response <= answered
    finally:
        await control.worker.close(0.0)
