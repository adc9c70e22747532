"""The kill switch over processes: a storm of starting sessions, and a worker that was stopped with SIGSTOP."""

import asyncio
from pathlib import Path

import pytest

from midcourse.core.switches import Scope
from midcourse.errors import Refused
from midcourse.runtime.settings import Settings
from tests.control.agents import lines
from tests.control.remote import Remote
from tests.control.test_stopped_owner import IMPATIENT, freeze_between_two_commits
from tests.promises.harness import Place, until_status, until_true

STORM = 40


async def test_none_in_scope_starts_a_call_after_it_and_the_silent_worker_is_listed(
    place: Place, effects: Path
) -> None:
    """Thrown from a third process, in the middle of a storm of starts, while one worker lives and does nothing."""
    silent_effects = effects.with_name("silent")
    async with (
        Remote.open(place.url, unreachable_after=IMPATIENT) as storming,
        Remote.open(place.url, unreachable_after=IMPATIENT) as silent,
        place.open(drive=False, settings=Settings(poll=0.05, unreachable_after=IMPATIENT)) as here,
    ):
        await silent.do("start", agent="full_speed", goal=str(silent_effects), session="silent")
        await until_true(lambda: len(lines(silent_effects)) > 20)
        storm = [
            asyncio.ensure_future(storming.do("start", agent="full_speed", goal=str(effects), session=f"storm{number}"))
            for number in range(STORM)
        ]
        await until_true(lambda: len(lines(effects)) > 5)
        await freeze_between_two_commits(silent, place)
        try:
            report = await here.kill_switch.throw(Scope(), "storm", wait=2.0)
            # A machine under load may take its time; from when all others have stopped, nothing begins.
            while report.count("stopped") < len(report.sessions) - 1:
                report = await here.kill_switch.report(report.switch.id)
            known = {str(line.session): line.state for line in report.sessions}
            assert known["silent"] == "not_reachable"
            before, silent_before = len(lines(effects)), len(lines(silent_effects))
            # Not even an operator's resume overtakes a halt that nobody has decided yet.
            with pytest.raises(Refused, match="is in force over all sessions"):
                await (await here.get("silent")).lift()
            await asyncio.gather(*storm)
        finally:
            silent.thaw()
        for number in range(STORM):
            session = await here.get(f"storm{number}")
            assert await until_status(session, "halted") == "halted"
        assert await until_status(await here.get("silent"), "halted") == "halted"
        assert len(lines(effects)) == before
        # One call may have stood behind the gate when the process was stopped; none began after it went on.
        assert len(lines(silent_effects)) <= silent_before + 1
        after = await here.kill_switch.report(report.switch.id)
        assert (after.count("stopped"), after.count("not_reachable")) == (STORM + 1, 0)


async def test_a_halt_that_a_silent_worker_finds_after_the_switch_was_lifted_halts_nothing(
    place: Place, effects: Path
) -> None:
    """It is followed by its lifting: nobody is left halted by a switch that nobody sees."""
    async with (
        Remote.open(place.url, unreachable_after=IMPATIENT) as silent,
        place.open(drive=False, settings=Settings(poll=0.05, unreachable_after=IMPATIENT)) as here,
    ):
        await silent.do("start", agent="full_speed", goal=str(effects), session="silent")
        await until_true(lambda: len(lines(effects)) > 20)
        await freeze_between_two_commits(silent, place)
        try:
            thrown = await here.kill_switch.throw(Scope(), "freeze", wait=1.0)
            assert thrown.count("not_reachable") == 1
            await here.kill_switch.lift(thrown.switch.id, "over")
            before = len(lines(effects))
        finally:
            silent.thaw()
        await until_true(lambda: len(lines(effects)) > before + 20)
        assert await (await here.get("silent")).status() == "running"
