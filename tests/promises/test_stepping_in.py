"""A policy that steps in keeps the promises that a person's controls keep, on every store."""

import asyncio
import contextlib
import dataclasses
import itertools
import logging
from typing import Any

import pytest
from msgspec.structs import replace

import midcourse
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.ids import CommandId
from midcourse.core.policy_decision import Alarm, Decision, Reason
from midcourse.errors import Damaged, InvalidInput, Refused, StepError, StoreFull, StoreUnavailable
from midcourse.handle import SessionHandle
from midcourse.policy import versions
from midcourse.policy.document import DurationRule, ErrorRule, Policy
from midcourse.policy.durations import Span
from midcourse.policy.intervention_shelf import (
    INTERVENTIONS,
    LABELS,
    LabelRecord,
    alarm_items,
    label_items,
    read_alarms,
)
from midcourse.policy.profiles import STANDARD
from midcourse.ports.store import NEWEST, HeadQuery
from midcourse.runtime import active_switches, supervisor, worker
from midcourse.runtime.command_inbox import CommandInbox
from midcourse.runtime.settings import Settings
from midcourse.runtime.supervisor import Supervisor
from midcourse.runtime.tools import declared_tool, register
from tests.policy.agents import Skipping, think
from tests.policy.runs import GOAL
from tests.policy.watched_programs import a_while, interventions, levels, no_drift, of_type, opened, under
from tests.promises.faults import Faulty
from tests.promises.harness import QUICK, Place, history, types, until, until_status, until_true

_numbers = itertools.count(1)


class Script:
    """An agent that does what the test says, one deed at a time, on a clock that the test moves."""

    def __init__(self, policy: str = "standard", *, name: str = "agent", **terms: Any) -> None:
        self.clock = Skipping()
        self.deeds: asyncio.Queue[str] = asyncio.Queue()
        self.done = 0
        self.heard: list[str] = []
        # It reads the test's mind: a stop aborts it at once, and it is done again when the session goes on.
        self._tool = declared_tool(self._do, name="do", origin=f"{__name__}:do{next(_numbers)}", effect="read")
        register(self._tool)
        self.agent = under(self._run, policy, name=name, **terms)

    async def _run(self, run: midcourse.Run) -> str:
        number = 0
        while True:
            number += 1
            deed = ""
            try:
                deed = await run.step("do", self._tool, number)
            except StepError:
                continue
            if deed == "same":
                await run.step("look", self._look)
            elif deed.startswith("think"):
                await run.stream("think", think, float(deed.split()[1]))
            elif deed == "end":
                return run.messages[-1].text
            self.heard = [one.text for one in run.messages]

    async def _do(self, number: int) -> str:
        del number
        deed = await self.deeds.get()
        self.done += 1
        if deed == "fail":
            raise ValueError("it does not work")
        if deed == "locked":
            raise PermissionError("no API key")
        return deed

    async def _look(self) -> str:
        return "the same as before"

    async def started(self, mc: midcourse.Midcourse, **given: Any) -> SessionHandle[Any]:
        """A session of it that waits for its first deed."""
        session = await mc.start(self.agent, GOAL, **given)
        await until(session, "step.begun")
        return session

    async def do(self, *deeds: str, minutes: float = 0.0) -> None:
        """These, one after the other, each so much later than the one before."""
        for deed in deeds:
            self.clock.skipped += 60 * minutes
            wanted = self.done + 1
            self.deeds.put_nowait(deed)
            await until_true(lambda wanted=wanted: self.done >= wanted)
            await a_while()

    def later(self, *deeds: str) -> None:
        """These, as soon as it can."""
        for deed in deeds:
            self.deeds.put_nowait(deed)


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this is about drift, and an encoder takes half a second to load."""
    monkeypatch.setattr(Supervisor, "drift", no_drift)


FIVE = ("fail",) * 5
EAGER: Policy = replace(
    STANDARD,
    name="eager",
    extends="standard",
    ask_plan=False,
    signals=replace(STANDARD.signals, cost=replace(STANDARD.signals.cost, milestones=())),
    restraint=replace(
        STANDARD.restraint,
        first_after=Span(0),
        first_after_actions=0,
        worth=replace(STANDARD.restraint.worth, attention=Span(0), quality=0.0),
    ),
)
"""It steps in at once, as far as people bear it."""


async def stopped(session: SessionHandle[Any], script: Script) -> None:
    """Have five calls in a row fail, and the policy stop the session."""
    script.later(*FIVE)
    await until_status(session, "paused")


# ---- what a decision becomes


async def test_a_hard_stop_is_journaled_with_its_reasons_pauses_and_opens_a_review(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await stopped(session, script)
        events = await history(session)
        (made,) = of_type(events, ev.InterventionMade)
        assert (made.decision.level, made.by) == ("stop", "policy:standard@1")
        assert made.decision.reasons[0].signal == "errors.streak"
        assert "errors.streak 5 ≥ 5" in made.decision.arithmetic
        state = await session.state()
        (ask,) = state.asks
        assert (ask.id, ask.reason, ask.prompt) == (made.ask, "review", made.decision.sentence)
        assert ask.options == ("go on", "cancel")
        assert state.pause is not None
        assert (state.pause.id, state.pause.by, state.pause.grace) == (made.pause, "policy:standard@1", 0.0)
        names = types(events)
        place_of = names.index("intervention.made")
        assert names[place_of : place_of + 3] == ["intervention.made", "ask.opened", "session.pause_requested"]
        # What was in flight when it was stopped is done once, after somebody has said go on.
        done = script.done
        await a_while()
        assert script.done == done
        await session.answer("go on")
        script.later("end")
        assert await session.result(20) == GOAL


async def test_an_agent_is_asked_to_explain_itself_in_a_message_and_paused_if_it_goes_on_alike(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await script.do(*("same",) * 5, minutes=1)
        await until(session, "intervention.made", times=2)
        assert await levels(session) == ["notify", "ask_plan"]
        state = await session.state()
        assert state.status == "running"
        assert state.asks == ()
        message = state.messages[-1]
        assert (message.level, message.by) == ("clarify", "policy:standard@1")
        assert "explain your plan" in message.text
        assert "goes round" in message.text
        await script.do("same", "same")
        assert message.text in script.heard
        script.later("same", "same")
        await until(session, "intervention.made", times=3)
        assert await levels(session) == ["notify", "ask_plan", "pause"]
        script.later("ok")
        await until_status(session, "paused")
        await session.cancel(grace=0)


async def test_a_milestone_pauses_and_lets_what_is_in_flight_finish(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await script.do("ok", "ok", "ok", "think 0.9", minutes=1)
        script.later(*("think 0.95",) * 10)
        await until(session, "session.pause_requested")
        script.later("ok")
        await until_status(session, "paused")
        made = (await interventions(session))[-1]
        assert (made.decision.level, made.decision.reasons[0].signal) == ("pause", "cost")
        state = await session.state()
        assert state.pause is not None
        assert state.pause.grace is None
        assert made.decision.worth is not None
        assert made.decision.worth.is_worth_it
        await session.cancel(grace=0)


@pytest.mark.parametrize("how", ["resume", "go on", "yes"])
async def test_a_resume_by_hand_and_an_answer_both_close_the_review_and_lift_the_pause(place: Place, how: str) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await stopped(session, script)
        await (session.resume() if how == "resume" else session.answer(how))
        state = await session.state()
        assert (state.asks, state.pause) == ((), None)
        closed = [one for one in types(await history(session)) if one in ("ask.closed", "ask.answered")]
        assert closed == ["ask.closed" if how == "resume" else "ask.answered"]
        script.later("end")
        assert await session.result(20) == GOAL


async def test_an_answer_in_words_is_what_the_agent_hears_next(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await stopped(session, script)
        await session.answer("use the archive")
        script.later("end")
        assert await session.result(20) == "use the archive"
        assert (await session.state()).messages[-1].level == "step"


async def test_an_answer_of_cancel_ends_it(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await stopped(session, script)
        await session.answer("cancel")
        assert await until_status(session, "cancelled") == "cancelled"


async def test_what_was_decided_is_listed_over_all_sessions(place: Place) -> None:
    script = Script()
    store = await place.store()
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await mc.start(script.agent, GOAL, by="ada")
        await stopped(session, script)
        while not (stops := [one for one in await read_alarms(store) if one.level == "stop"]):
            await a_while()
        (alarm,) = stops
        assert (alarm.session, alarm.person, alarm.agent) == (session.id, "ada", "agent")
        assert "errors.streak" in alarm.signals
        await session.cancel(grace=0)


# ---- another process


async def test_a_decision_is_not_made_twice_when_another_process_goes_on(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await stopped(session, script)
        made = await levels(session)
    async with opened(place, script.agent, clock=script.clock) as mc:
        again = await mc.get(session.id)
        assert await levels(again) == made
        await again.resume()
        await script.do(*("fail",) * 4)
        assert await levels(again) == made
        # Ten in a row are twice five.
        script.later("fail", "fail")
        await until(again, "session.pause_requested", times=2)
        assert (await levels(again)).count("stop") == 2
        await again.cancel(grace=0)


async def test_what_was_counted_before_goes_on_being_counted(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock, grace=0.1) as mc:
        session = await script.started(mc)
        await script.do(*("fail",) * 4)
        assert "stop" not in await levels(session)
    async with opened(place, script.agent, clock=script.clock) as mc:
        again = await mc.get(session.id)
        script.later("fail")
        await until_status(again, "paused")
        assert (await levels(again))[-1] == "stop"
        await again.cancel(grace=0)


async def test_only_working_time_is_counted_across_processes(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock, grace=0.1) as mc:
        session = await script.started(mc)
        await script.do("ok", minutes=4)
        await script.do("ok", minutes=5)
    script.clock.skipped += 600 * 60
    async with opened(place, script.agent, clock=script.clock, grace=0.1) as mc:
        again = await mc.get(session.id)
        script.later("ok")
        await until(again, "step.finished", times=3)
        await a_while()
        assert await levels(again) == []
        await again.pause()
        script.later("ok")
        await until_status(again, "paused")
        script.clock.skipped += 600 * 60
        await again.resume()
        await script.do("ok", minutes=2)
        await until(again, "intervention.made")
        (made,) = await interventions(again)
        assert (made.decision.level, made.decision.reasons[0].signal) == ("notify", "duration")
        assert made.decision.reasons[0].value == pytest.approx(11 * 60, abs=20)
        await again.cancel(grace=0)


async def test_a_question_that_was_asked_is_not_asked_again_by_another_process(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        script.later("locked")
        await until(session, "session.pause_requested")
        script.later("ok")
        await until_status(session, "paused")
    async with opened(place, script.agent, clock=script.clock) as mc:
        again = await mc.get(session.id)
        await again.resume()
        await script.do("locked", "ok")
        assert await levels(again) == ["ask"]
        await again.cancel(grace=0)


async def test_a_decision_that_was_written_when_its_process_died_is_carried_out_once_by_the_next(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock, grace=0.1) as mc:
        session = await script.started(mc)
        await script.do(*("fail",) * 4)
    reason = Reason("errors.streak", "stop", 5.0, 5.0, "5 calls in a row failed.")
    decision = Decision(level="stop", wanted="stop", policy="standard@1", reasons=(reason,))
    command = cmd.Intervene(id=CommandId("policy_9_stop"), by="policy:standard@1", decision=decision)
    store = await place.store()
    await store.put(session.id, command.id, cmd.encode_command(command), script.clock.now())
    await store.close()
    async with opened(place, script.agent, clock=script.clock) as mc:
        again = await mc.get(session.id)
        await until_status(again, "paused")
        assert (await levels(again)).count("stop") == 1
        await again.resume()
        await script.do("fail", "fail")
        assert (await levels(again)).count("stop") == 1
        await again.cancel(grace=0)


# ---- what goes on


async def test_a_turn_after_the_first_is_watched_like_the_first(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        script.later("end")
        assert await session.result(20) == GOAL
        await until_true(lambda: not mc._worker.drivers())  # noqa: SLF001 - it has been let go of  # pyright: ignore[reportPrivateUsage]
        await session.message("Write the churn memo for May")
        await stopped(session, script)
        assert await levels(session) == ["stop"]
        await session.cancel(grace=0)


@pytest.mark.parametrize(("message", "deed"), [("fix it", "ok"), ("Write the churn memo for May", "locked")])
async def test_what_is_unclear_in_a_turn_after_the_first_is_asked(place: Place, message: str, deed: str) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        script.later("end")
        assert await session.result(20) == GOAL
        await until_true(lambda: not mc._worker.drivers())  # noqa: SLF001 - it has been let go of  # pyright: ignore[reportPrivateUsage]
        script.later(deed)
        await session.message(message)
        await until(session, "intervention.made")
        assert await levels(session) == ["ask"]
        await session.cancel(grace=0)


async def test_a_fork_does_not_list_what_its_source_was_stopped_for(place: Place) -> None:
    script = Script()
    store = await place.store()
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await stopped(session, script)
        fork = await session.fork()
        while not await read_alarms(store):
            await a_while()
        await a_while()
        assert [one.session for one in await read_alarms(store)] == [session.id]
        await fork.cancel(grace=0)
        await session.cancel(grace=0)


async def test_a_policy_that_cannot_be_read_any_more_leaves_its_sessions_to_people(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script("quickly")
    store = await place.store()
    await save(store, QUICKLY)
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await session.pause(grace=0)
        await until_status(session, "paused")
        await store.shelve(
            versions.SHELF, {"quickly@000001": b'{"document": {"unheard_of": 1}, "by": "a", "why": "b", "at": 1.0}'}
        )
        damaged = dict(await store.shelved(versions.SHELF))
    store = await place.store()
    await store.shelve(versions.SHELF, damaged)
    with caplog.at_level(logging.WARNING, logger="midcourse"):
        async with opened(place, script.agent, clock=script.clock, store=store) as mc:
            again = await mc.get(session.id)
            await again.cancel(grace=0)
            await until_status(again, "cancelled")


async def test_an_answer_to_a_review_is_refused_where_the_agent_cannot_go_on(place: Place) -> None:
    script = Script()
    closure = dataclasses.replace(script.agent, resumable=False)
    async with opened(place, clock=script.clock) as mc:
        session = await mc.start(closure, GOAL)
        await until(session, "step.begun")
        await stopped(session, script)
    async with opened(place, clock=script.clock) as mc:
        again = await mc.get(session.id)
        with pytest.raises(Refused, match="closure"):
            await again.answer("go on")
        assert await again.status() == "paused"
        await again.cancel(grace=0)


# ---- faults


async def test_a_stop_does_not_wait_for_the_lists_over_many_sessions(place: Place) -> None:
    script = Script()
    store = Unlisted(await place.store())
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        store.is_away = True
        await stopped(session, script)
        assert await levels(session) == ["stop"]
        await session.cancel(grace=0)


async def test_what_interrupts_is_tried_again_when_the_lists_cannot_be_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_DELAYS", (0.05, 0.05, 0.05))
    script = Script("eager")
    store = Unlisted(await place.store())
    await save(store, EAGER)
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await a_while()
        store.is_away = True
        script.later("think 30")
        await until_true(lambda: store.tried > 0)
        store.is_away = False
        await until(session, "intervention.made")
        assert await levels(session) == ["pause"]
        await session.cancel(grace=0)


async def test_a_session_whose_question_cannot_be_written_begins_without_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script()
    store = Faulty(await place.store())
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        failing(store, 1, monkeypatch)
        session = await mc.start(script.agent, "fix it")
        await until(session, "step.begun")
        script.later("end")
        assert await session.result(20) == "fix it"


async def test_a_list_that_is_damaged_keeps_nobody_from_being_asked(place: Place) -> None:
    script = Script("eager")
    store = await place.store()
    await save(store, EAGER)
    await store.shelve("interventions", {"000001700000000/sess_1/int_1": b"{"})
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        script.later("think 30")
        await until(session, "intervention.made")
        assert await levels(session) == ["pause"]
        await session.cancel(grace=0)


async def test_a_session_is_watched_as_soon_as_the_store_can_be_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_DELAYS", (0.01, 0.01, 0.01))
    script = Script()
    store = Unlisted(await place.store())
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        store.is_away = True
        session = await script.started(mc)
        await until_true(lambda: store.tried > 0)
        store.is_away = False
        await stopped(session, script)
        assert await levels(session) == ["stop"]
        await session.cancel(grace=0)


class Unlisted(Faulty):
    """A store of which nothing over many sessions can be read while it ``is_away``."""

    is_away = False
    tried = 0

    async def shelved(self, shelf: str, **given: Any) -> Any:
        """See the port."""
        if shelf not in (versions.SHELF, active_switches.SHELF):
            self._look()
        return await self.inner.shelved(shelf, **given)

    async def heads(self, query: HeadQuery = NEWEST) -> Any:
        """See the port."""
        self._look()
        return await self.inner.heads(query)

    def _look(self) -> None:
        if self.is_away:
            self.tried += 1
            raise StoreUnavailable("The lists are away; try again.")


def failing(store: Faulty, times: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The next commands cannot be written, so often, and nothing can be journaled here; what was tried."""
    tried: list[str] = []

    async def released(_inbox: CommandInbox, _command: cmd.Intervene) -> bool:
        return False

    monkeypatch.setattr(CommandInbox, "step_in", released)

    def fails(write: str) -> bool:
        if write != "put":
            return False
        tried.append(write)
        return len(tried) <= times

    store.fails = fails
    store.error = lambda: StoreUnavailable("The disk is away; try again.")
    return tried


async def test_a_stop_is_journaled_at_once_and_never_passes_through_the_inbox(place: Place) -> None:
    script = Script()
    store = Faulty(await place.store())
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await script.do(*("fail",) * 4)
        written: list[str] = []
        store.holds = lambda write: bool(written.append(write))
        script.later("fail")
        await until_status(session, "paused")
        assert "put" not in written
        assert (await levels(session)).count("stop") == 1
        await session.cancel(grace=0)


@pytest.mark.parametrize("error", [StoreFull("The disk is full."), Damaged("The file is damaged.")])
async def test_a_stop_that_cannot_be_journaled_is_carried_out_by_the_next_owner(
    place: Place, error: midcourse.MidcourseError, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script()
    store = Faulty(await place.store())
    store.error = lambda: error
    journal = CommandInbox.step_in

    async def on_a_full_disk(inbox: CommandInbox, command: cmd.Intervene) -> bool:
        store.fails = lambda write: write == "append"
        try:
            return await journal(inbox, command)
        finally:
            store.fails = lambda _: False

    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await script.do(*("fail",) * 4)
        monkeypatch.setattr(CommandInbox, "step_in", on_a_full_disk)
        script.later("fail")
        await until_status(session, "paused")
        assert (await levels(session)).count("stop") == 1
        await session.cancel(grace=0)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_an_interruption_that_fails_is_tried_again_up_to_three_times(
    place: Place, times: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "_DELAYS", (0.001, 0.002, 0.003))
    script = Script()
    store = Faulty(await place.store())
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await script.do(*("fail",) * 4)
        tried = failing(store, times, monkeypatch)
        with caplog.at_level(logging.WARNING, logger="midcourse"):
            script.later("fail")
            await until_status(session, "paused")
        assert len(tried) == times + 1
        assert (await levels(session)).count("stop") == 1
        assert sum("could not stop, tries again" in one.message for one in caplog.records) == times
        await session.cancel(grace=0)


async def test_one_that_fails_four_times_is_given_up_with_a_word_and_decided_again_later(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "_DELAYS", (0.001, 0.002, 0.003))
    script = Script()
    store = Faulty(await place.store())
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await script.do(*("fail",) * 4)
        tried = failing(store, 4, monkeypatch)
        with caplog.at_level(logging.WARNING, logger="midcourse"):
            await script.do("fail")
            await until_true(lambda: len(tried) == 4)
            await until_true(lambda: any("could not act" in one.message for one in caplog.records))
        assert await session.status() == "running"
        assert "stop" not in await levels(session)
        script.later("fail")
        await until_status(session, "paused")
        assert (await levels(session)).count("stop") == 1
        await session.cancel(grace=0)


async def test_a_pause_that_was_given_up_is_no_occasion_that_people_were_interrupted_by(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_DELAYS", (0.0, 0.0, 0.0))
    script = Script()
    store = Faulty(await place.store())
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        await script.do("ok", "ok", "ok", *("think 0.9",) * 11, minutes=0.3)
        tried = failing(store, 4, monkeypatch)
        await script.do("think 0.9")
        await until_true(lambda: len(tried) >= 4)
        await a_while()
        await script.do("ok")
        script.later("ok")
        await until_status(session, "paused")
        assert (await levels(session))[-1] == "pause"
        await session.cancel(grace=0)


async def test_a_person_who_pauses_at_the_same_moment_makes_one_pause_and_the_stop_comes_when_they_lift_it(
    place: Place,
) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await script.do(*("fail",) * 4)
        assert (await session.pause("let me look", by="ada")).status == "pausing"
        script.later("fail")
        await until_status(session, "paused")
        await a_while()
        state = await session.state()
        assert (state.pauses, state.asks) == (1, ())
        assert state.pause is not None
        assert state.pause.by == "ada"
        assert "stop" not in await levels(session)
        # Who only looked has not been told why the policy would have stopped it: a hard stop goes through.
        await session.resume()
        await until(session, "session.pause_requested", times=2)
        assert (await levels(session)).count("stop") == 1
        (ask,) = (await session.state()).asks
        assert ask.reason == "review"
        await session.cancel(grace=0)


async def test_a_decision_about_a_session_that_has_ended_is_none(place: Place) -> None:
    script = Script()
    async with opened(place, script.agent, clock=script.clock) as mc:
        session = await script.started(mc)
        await script.do(*("fail",) * 4)
        await session.cancel(grace=0, until="stopped")
        await until_status(session, "cancelled")
        await a_while()
        assert "stop" not in await levels(session)


# ---- by the clock alone

QUICKLY: Policy = replace(
    STANDARD,
    name="quickly",
    extends="standard",
    signals=replace(
        STANDARD.signals, duration=DurationRule(warn=Span(0.05), explain=None, intervene=None, stop=Span(0.3))
    ),
    restraint=replace(STANDARD.restraint, first_after=Span(0.2)),
)


async def save(store: Any, policy: Policy, why: str = "a test") -> Policy:
    """Keep a policy."""
    return (await versions.save(store, policy, by="ada", why=why, now=1.0)).policy


@pytest.mark.parametrize(("level", "event"), [("notify", "intervention.made"), ("stop", "session.paused")])
async def test_a_session_that_hangs_in_one_call_is_told_of_and_stopped_on_time(
    place: Place, level: str, event: str
) -> None:
    late = 3600.0 if level == "notify" else 0.3
    rule = DurationRule(warn=Span(0.05), explain=None, intervene=None, stop=Span(late))
    script = Script("quickly")
    store = await place.store()
    await save(store, replace(QUICKLY, signals=replace(QUICKLY.signals, duration=rule)))
    async with opened(place, script.agent, store=store) as mc:
        session = await script.started(mc)
        await until(session, event)
        made = await interventions(session)
        assert [one.decision.level for one in made if one.decision.reasons[0].signal == "duration"][-1] == level
        assert script.done == 0
        await session.cancel(grace=0)


async def test_what_came_too_early_is_done_when_it_is_not_without_waiting_for_another_act(place: Place) -> None:
    policy = replace(QUICKLY, signals=replace(QUICKLY.signals, duration=STANDARD.signals.duration))
    script = Script("quickly")
    store = await place.store()
    await save(store, policy)
    async with opened(place, script.agent, store=store) as mc:
        session = await script.started(mc)
        script.later(*("same",) * 10)
        made = await until(session, "session.redirected")
        assert isinstance(made.event, ev.SessionRedirected)
        assert made.event.by == "policy:quickly@1"
        await session.cancel(grace=0)


# ---- which policy


async def test_a_session_keeps_the_version_it_began_with_whatever_is_saved_since(place: Place) -> None:
    script, later = Script("mine"), Script("mine", name="later")
    store = await place.store()
    await save(store, replace(STANDARD, name="mine", extends="standard"))
    async with opened(place, script.agent, later.agent, clock=script.clock, store=store) as mc:
        session = await script.started(mc)
        assert (await session.state()).terms.policy == "mine@1"
        stricter = replace(
            STANDARD, name="mine", extends="standard", signals=replace(STANDARD.signals, errors=ErrorRule(streak=2))
        )
        assert (await save(store, stricter, "it is too mild")).version == 2
        await script.do("fail", "fail", "fail")
        assert "stop" not in await levels(session)
        other = await mc.start(later.agent, GOAL)
        assert (await other.state()).terms.policy == "mine@2"
        later.later("fail", "fail")
        await until_status(other, "paused")
        await other.cancel(grace=0)
    async with opened(place, script.agent, clock=script.clock) as mc:
        again = await mc.get(session.id)
        assert (await again.state()).terms.policy == "mine@1"
        await script.do("fail")
        assert "stop" not in await levels(again)
        script.later("fail")
        await until_status(again, "paused")
        assert (await interventions(again))[-1].by == "policy:mine@1"
        await again.cancel(grace=0)


async def test_a_policy_that_nobody_knows_is_refused_with_a_sentence_and_nothing_is_stored(place: Place) -> None:
    script = Script("standrad")
    async with opened(place, script.agent) as mc:
        with pytest.raises(InvalidInput) as refused:
            await mc.start(script.agent, GOAL)
        assert "standrad" in refused.value.message
        assert "standard" in refused.value.message
        assert refused.value.code == "policy_not_found"
        assert await mc.list() == []
    with pytest.raises(InvalidInput, match="nobody"):
        async with opened(place, settings=Settings(policy="nobody")):
            pass


# ---- who is left alone


@pytest.mark.parametrize(
    ("default", "named", "watched"), [("", "", 0), ("standard", "none", 0), ("standard", "", 1), ("", "standard", 1)]
)
async def test_an_unwatched_session_costs_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, default: str, named: str, watched: int
) -> None:
    made: list[object] = []

    class Counted(supervisor.WatchedSession):
        def __init__(self, *given: Any) -> None:
            made.append(given)
            super().__init__(*given)

    monkeypatch.setattr(worker, "WatchedSession", Counted)
    script = Script(named)
    settings = Settings(poll=QUICK.poll, unreachable_after=QUICK.unreachable_after, policy=default)
    async with opened(place, script.agent, clock=script.clock, settings=settings) as mc:
        session = await script.started(mc)
        script.later(*FIVE)
        if watched:
            await until_status(session, "paused")
            await session.resume()
        script.later("end")
        assert await session.result(20) == GOAL
        assert len(made) == watched
        assert len(await interventions(session)) == watched


async def test_protected_sessions_under_load_are_never_interrupted(place: Place) -> None:
    """Orders in which everything goes wrong, two hundred at once: people are told, and every one is finished."""

    async def order(run: midcourse.Run) -> str:
        for number in range(6):
            try:
                await run.step("place", refuse, number)
            except StepError:
                continue
        for _ in range(6):
            await run.step("check", check)
        return run.goal

    async def refuse(number: int) -> None:
        raise PermissionError(f"order {number} was not let in")

    async def check() -> str:
        return "priced"

    count = 200
    agent = under(order, name="order", task_class="protected", budget=0.01)
    async with opened(place, agent) as mc:
        sessions = [await mc.start(agent, f"order {number}") for number in range(count)]
        assert await asyncio.gather(*(one.result(60) for one in sessions)) == [f"order {n}" for n in range(count)]
        told = 0
        for session in sessions:
            events = await history(session)
            assert not {"session.pause_requested", "session.redirected", "ask.opened"} & set(types(events))
            told += len(of_type(events, ev.InterventionMade))
            assert {one.decision.level for one in of_type(events, ev.InterventionMade)} <= {"notify"}
        assert told > 0


# ---- over many sessions


async def test_the_sixth_interruption_of_a_person_in_an_hour_is_only_told_and_a_hard_stop_goes_through(
    place: Place,
) -> None:
    async def locked(run: midcourse.Run) -> None:
        with contextlib.suppress(StepError):
            await run.step("crm", not_let_in)
        await run.step("wait", may_end.wait)

    async def not_let_in() -> None:
        raise PermissionError("no API key")

    may_end = asyncio.Event()
    agent, script = under(locked, name="locked"), Script(name="script")
    async with opened(place, agent, script.agent, clock=script.clock) as mc:
        for number in range(6):
            session = await mc.start(agent, GOAL, by="ada")
            await until(session, "intervention.made")
            (made,) = await interventions(session)
            assert (made.decision.level, made.decision.wanted) == ("ask" if number < 5 else "notify", "ask")
            if number == 5:
                assert made.decision.held == ("5 interventions in an hour; at most 5 for one person",)
        other = await mc.start(agent, GOAL, by="bob")
        await until(other, "intervention.made")
        assert await levels(other) == ["ask"]
        hard = await mc.start(script.agent, GOAL, by="ada")
        await stopped(hard, script)
        assert (await levels(hard))[-1] == "stop"
        # An hour later she may be asked again.
        script.clock.skipped += 3601
        session = await mc.start(agent, GOAL, by="ada")
        await until(session, "intervention.made")
        assert await levels(session) == ["ask"]
        for one in await mc.list():
            await (await mc.get(one.id)).cancel(grace=0)


async def test_many_that_come_at_the_same_moment_are_no_more_than_a_person_bears(place: Place) -> None:
    async def dear(run: midcourse.Run) -> None:
        await run.step("wait", now.wait)
        await run.stream("think", think, 30.0)
        await run.step("end", may_end.wait)

    now, may_end = asyncio.Event(), asyncio.Event()
    agent = under(dear, "eager", name="dear")
    store = await place.store()
    await save(store, EAGER)
    async with opened(place, agent, store=store) as mc:
        sessions = [await mc.start(agent, GOAL, by="ada") for _ in range(20)]
        for one in sessions:
            await until(one, "step.begun")
        now.set()
        for one in sessions:
            await until(one, "intervention.made")
        made = [(await interventions(one))[0].decision for one in sessions]
        assert {one.wanted for one in made} == {"pause"}
        assert sorted(one.level for one in made) == ["notify"] * 15 + ["pause"] * 5
        may_end.set()
        for one in sessions:
            await one.cancel(grace=0)


async def test_a_signal_that_people_called_wrong_only_tells_and_interrupts_again_a_month_later(place: Place) -> None:
    script = Script("eager")
    store = await place.store()
    await save(store, EAGER)
    now = script.clock.now()
    for number in range(10):
        alarm = Alarm(
            at=now,
            session=f"old{number}",
            intervention="int_1",
            agent="agent",
            by="policy:eager@1",
            level="pause",
            signals=("cost", "cost.per_action"),
        )
        label = LabelRecord(at=now, session=alarm.session, about="int_1", verdict="wrong", by="ada", agent="agent")
        await store.shelve(INTERVENTIONS, alarm_items([alarm]))
        await store.shelve(LABELS, label_items(label))
    async with opened(place, script.agent, clock=script.clock, store=store) as mc:
        for days, level in ((0, "notify"), (31, "pause")):
            script.clock.skipped += 86_400 * days
            session = await script.started(mc)
            script.later("think 30")
            await until(session, "intervention.made")
            [made] = await interventions(session)
            assert (made.decision.level, made.decision.wanted) == (level, "pause")
            held = [one for one in made.decision.held if "wrong too often" in one]
            assert len(held) == (level == "notify")
            assert all("cost.per_action in 10 of 10" in one and "labelled within 30d" in one for one in held)
            await session.cancel(grace=0)
