"""The soak's verdict finds nothing wrong with a session as it was, and everything that is planted."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

import midcourse
from bench.soak import growth_of
from bench.soak_verdict import Ran, Sent, judge, read_ledger
from midcourse.core.events import AskOpened
from midcourse.core.ids import CommandId, SessionId
from midcourse.ports.store import Store
from midcourse.wiring import open_store

SESSION = SessionId("sess_soaked")
STEP = "1/work#1"


async def work() -> str:
    return "done"


@midcourse.agent
async def soaked(run: midcourse.Run) -> object:
    await run.step("work", work)
    return await run.ask("And now?")


async def _asked(session: midcourse.SessionHandle[object], ask: str) -> None:
    async for one in session.watch():
        if isinstance(one.event, AskOpened) and one.event.ask == ask:
            return


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A session that has run one step, was told something, answered, and has ended."""
    opened = await open_store("memory://")
    async with midcourse.open(opened) as mc:
        session = await mc.start(soaked, session_id=SESSION)
        await _asked(session, "ask_1")
        await session.redirect("mark-1", command_id="cmd_1")
        await _asked(session, "ask_2")
        with pytest.raises(midcourse.Refused):
            await session.resume(command_id="cmd_2")
        await session.answer("mark-3", command_id="cmd_3")
        await session.result()
        yield opened


def sent() -> list[Sent]:
    return [
        Sent(SESSION, CommandId("cmd_1"), "redirect", "mark-1", "ok"),
        Sent(SESSION, CommandId("cmd_2"), "resume", "mark-2", "already_resumed"),
        Sent(SESSION, CommandId("cmd_3"), "answer", "mark-3", "ok"),
    ]


def ran() -> list[Ran]:
    return [Ran(SESSION, STEP, 1, 0.0)]


async def test_a_session_as_it_was_is_as_it_must_be(store: Store) -> None:
    verdict = await judge(store, sent(), ran())
    assert verdict.wrong == []
    assert verdict.looked_at["journals"] == 1
    assert verdict.looked_at["commands"] == 3


async def test_an_attempt_that_ran_twice_is_found(store: Store) -> None:
    verdict = await judge(store, sent(), ran() * 2)
    assert any("ran 2 times" in one for one in verdict.wrong)


async def test_a_run_after_the_step_had_finished_is_found(store: Store) -> None:
    verdict = await judge(store, sent(), [*ran(), Ran(SESSION, STEP, 2, time.time() + 60)])
    assert any("after it had finished" in one for one in verdict.wrong)


async def test_a_run_without_a_journaled_start_is_found(store: Store) -> None:
    verdict = await judge(store, sent(), [*ran(), Ran(SESSION, "1/work#2", 1, 0.0)])
    assert any("unannounced" in one for one in verdict.wrong)


async def test_an_acknowledged_command_that_is_not_there_is_found(store: Store) -> None:
    lost = Sent(SESSION, CommandId("cmd_4"), "pause", "mark-4", "ok")
    verdict = await judge(store, [*sent(), lost], ran())
    assert [one for one in verdict.wrong if "cmd_4" in one]


async def test_an_answer_other_than_the_decision_is_found(store: Store) -> None:
    first, *others = sent()
    verdict = await judge(store, [replace(first, code="session_ended"), *others], ran())
    assert len(verdict.wrong) == 1


async def test_a_granted_command_without_its_effect_is_found(store: Store) -> None:
    first, *others = sent()
    verdict = await judge(store, [replace(first, mark="mark-5"), *others], ran())
    assert any("stands 0 times" in one for one in verdict.wrong)


def test_a_ledger_is_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "ledger-one").write_text(f"{SESSION} 1/blocking work#1 2 17.5 4711\n")
    assert read_ledger(tmp_path) == [Ran(SESSION, "1/blocking work#1", 2, 17.5)]


def test_growth_is_what_the_line_rises_by() -> None:
    assert growth_of([5.0]) == 0.0
    assert growth_of([1.0, 2.0, 3.0]) == pytest.approx(2.0)
    assert growth_of([4.0, 4.0, 4.0]) == pytest.approx(0.0)
