"""What is measured of a stop: until it is answered, and until nothing of the session runs."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

import midcourse
from midcourse.api import Midcourse
from midcourse.core import commands as cmd
from midcourse.core.ids import CommandId, SessionId
from midcourse.runtime.clock import SystemClock
from midcourse.runtime.settings import Settings
from midcourse.telemetry.metrics import Metrics
from midcourse.wiring import open_control
from tests.promises.harness import Place, resumable, until_status, until_true


def count(registry: CollectorRegistry, name: str, **labels: str) -> float:
    """How many were measured."""
    return registry.get_sample_value(f"midcourse_{name}_seconds_count", labels) or 0.0


@pytest.mark.parametrize("verb", ["pause", "cancel", "halt"])
async def test_a_stop_is_answered_at_once_and_over_when_the_last_call_has_ended(memory: Place, verb: str) -> None:
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
        mc = Midcourse(control)
        session = await mc.start(resumable(agent), "x", session_id="s")
        await begun.wait()
        stop: cmd.AnyCommand
        match verb:
            case "pause":
                stop = cmd.Pause(id=CommandId("c"), by="ada")
            case "cancel":
                stop = cmd.Cancel(id=CommandId("c"), by="ada")
            case _:
                stop = cmd.Halt(id=CommandId("c"), by="ada", role="operate")
        await control.send(SessionId("s"), stop, until="decided", wait=30)
        assert count(metrics.registry, "stop_response", verb=verb, by="person") == 1
        assert count(metrics.registry, "stop", verb=verb, by="person") == 0
        if verb == "pause":  # said again of a pause that is under way, it is no second stop
            again = cmd.Pause(id=CommandId("d"), by="ada", reason="said again")
            await control.send(SessionId("s"), again, until="decided", wait=30)
        may_end.set()
        await until_true(lambda: count(metrics.registry, "stop", verb=verb, by="person") == 1)
        await until_status(session, {"pause": "paused", "cancel": "cancelled", "halt": "halted"}[verb])
        assert count(metrics.registry, "stop_response", verb=verb, by="person") == 1
    finally:
        await control.worker.close(0.0)
