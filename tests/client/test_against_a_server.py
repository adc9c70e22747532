"""The client and a real server on a real port: whatever the file says, the server says, in the same values."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import midcourse
from midcourse.core.audit_export import verify
from midcourse.core.session import Session
from midcourse.server.to_json import BOOKKEEPING
from tests.client.live_server import FETCHING, TOKEN, both, fetcher, held, serving

Wish = Callable[[Any], Awaitable[object]]


def shown(session: Session) -> dict[str, object]:
    """Without what is not sent."""
    sent = {name: getattr(session, name) for name in session.__struct_fields__ if name not in BOOKKEEPING}
    return sent | {name: getattr(session, name) for name in ("at", "seen", "said", "amendable", "goal", "running")}


async def test_a_session_is_started_watched_paused_redirected_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(held, 59, asyncio.Event())
    async with both(tmp_path) as (here, there):
        session = await there.start("served-ticker", "60", session_id="sess_ticks")
        seen: list[midcourse.Recorded] = []
        async for event in session.watch():
            seen.append(event)
            # Once: more reports may have been made before the pause than were seen by then.
            if event.type == "report.made" and not held[59].is_set():
                reply = await session.pause("look", grace=0, until="stopped")
                assert (reply.level, reply.status, reply.running) == ("stopped", "paused", ())
                assert await session.status() == "paused"
                local = await here.get("sess_ticks")
                assert shown(await session.state()) == shown(await local.state())
                told = await session.redirect("slower")
                assert told.message is not None
                assert shown(await session.state()) == shown(await local.state())
                assert (await session.edit(told.message, "even slower")).level == "decided"
                assert (await session.withdraw(told.message)).level == "decided"
                assert shown(await session.state()) == shown(await local.state())
                held[59].set()
                await session.resume(reply.pause)
        assert await session.result() == {"ticks": 60}
        local = await here.get("sess_ticks")
        assert seen == [event async for event in local.watch()]
        assert [event.position for event in seen] == list(range(1, len(seen) + 1))
        assert shown((await session.inspect(5)).session) == shown((await local.inspect(5)).session)
        assert (await session.inspect()).steps == (await local.inspect()).steps
        fork = await session.fork(5, paused=True)
        assert (await fork.state()).forked_from.startswith("sess_ticks@5")
        assert {head.id for head in await there.list()} == {"sess_ticks", fork.id}
        assert [head.id for head in await there.list(search="TICKS", status=["completed"])] == ["sess_ticks"]
        mine = [
            msgspec.structs.replace(head, digest=b"", wake_at=None) for head in await here.list(agent="served-ticker")
        ]
        assert list(await there.list(agent="served-ticker")) == mine
        assert list(await there.audit(limit=150)) == list(await here.audit(limit=150))
        since = (await here.audit())[1].entry.at
        one_session: dict[str, Any] = {"session": session.id, "since": since}
        assert list(await there.audit(**one_session)) == list(await here.audit(**one_session)) != []
        found = [
            verify(b"".join([piece async for piece in of.audit_export(**one_session)]).splitlines(keepends=True))
            for of in (here, there)
        ]
        assert (found[0].entries, found[0].digest) == (found[1].entries, found[1].digest)


async def test_an_ask_is_waited_for_and_answered_once(tmp_path: Path) -> None:
    async with both(tmp_path) as (here, there):
        session = await there.start("served-asker", "Löschen?")
        ask = await session.next_ask(timeout=10)
        assert (ask.prompt, ask.options) == ("Löschen?", ("yes", "no"))
        await session.answer({"väl": [1, None]}, ask=ask.id, command_id="one-click")
        assert await session.result(timeout=10) == {"väl": [1, None]}
        assert (await session.answer({"väl": [1, None]}, ask=ask.id, command_id="one-click")).level == "decided"
        with pytest.raises(midcourse.Refused) as there_said:
            await session.answer("no", ask=ask.id)
        with pytest.raises(midcourse.Refused) as here_said:
            await (await here.get(session.id)).answer("no", ask=ask.id)
        assert str(there_said.value) == str(here_said.value)
        assert there_said.value.code == here_said.value.code
        assert there_said.value.allowed == here_said.value.allowed


async def test_a_cancel_is_foreseen_done_and_rolled_back(tmp_path: Path) -> None:
    async with both(tmp_path) as (here, there):
        session = await there.start("served-writer")
        await session.next_ask(timeout=10)
        local = await here.get(session.id)
        assert await session.preview() == await local.preview()
        assert await session.preview(force=True) == await local.preview(force=True)
        reply = await session.cancel("enough", until="stopped", undo="none")
        assert reply.level == "stopped"
        assert await session.receipt() == await local.receipt()
        with pytest.raises(midcourse.SessionEnded) as there_said:
            await session.result()
        with pytest.raises(midcourse.SessionEnded) as here_said:
            await local.result()
        assert str(there_said.value) == str(here_said.value)
        undone = await session.undo("all of it", wait=100)
        assert undone.final
        assert {line.name: line.outcome for line in undone.lines} == {"put": "undone", "send_mail": "cannot be undone"}


async def test_every_refusal_is_the_same_sentence_as_on_the_file(tmp_path: Path) -> None:
    async with both(tmp_path) as (here, there):
        session = await there.start("served-failer", session_id="sess_f")
        local = await here.get("sess_f")
        with pytest.raises(midcourse.SessionEnded, match="täglich.csv"):
            await session.result(timeout=10)
        on_one: tuple[Wish, ...] = (
            lambda one: one.pause(),
            lambda one: one.answer("x"),
            lambda one: one.answer("x", ask="ask_9"),
            lambda one: one.edit("msg_9", "x"),
            lambda one: one.redirect("  "),
            lambda one: one.redirect("x", level="nonsense"),
            lambda one: one.cancel(grace=float("nan")),
            lambda one: one.pause(grace=-1),
            lambda one: one.answer(object()),
            lambda one: one.resume("pause_9"),
            lambda one: one.message("x" * 100_001),
        )
        for wish in on_one:
            with pytest.raises(midcourse.MidcourseError) as there_said:
                await wish(session)
            with pytest.raises(midcourse.MidcourseError) as here_said:
                await wish(local)
            assert type(there_said.value) is type(here_said.value)
            assert (str(there_said.value), there_said.value.code) == (str(here_said.value), here_said.value.code)
        on_all: tuple[Wish, ...] = (
            lambda one: one.get("sess_nowhere"),
            lambda one: one.list(status=["asleep"]),
            lambda one: one.list(limit=0),
            lambda one: one.start("served-ticker", "1", session_id="a/b"),
            lambda one: one.start("served-failer", "", session_id="sess_f"),
        )
        for wish in on_all:
            with pytest.raises(midcourse.MidcourseError) as there_said:
                await wish(there)
            with pytest.raises(midcourse.MidcourseError) as here_said:
                await wish(here)
            assert there_said.value.code in (here_said.value.code, "session_exists")
        with pytest.raises(midcourse.AgentUnavailable):
            await there.start("nobody")


async def test_previews_come_before_what_is_durable(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, there):
        session = await there.start("served-singer", "all the way down to the sea")
        seen = [event async for event in session.watch(deltas=True)]
        previews = [one for one in seen if isinstance(one, midcourse.Delta)]
        assert previews
        assert all(one.session == session.id for one in previews)
        assert await session.result() == "all the way down to the sea "


async def test_watching_goes_on_across_a_restart_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(held, 149, asyncio.Event())
    store = tmp_path / "runs.db"
    seen: list[midcourse.Recorded] = []
    restarted = asyncio.Event()
    async with serving(store) as url:
        port = int(url.rpartition(":")[2])
        client = midcourse.connect(url, token=TOKEN)
        there = await client.__aenter__()
        session = await there.start("served-ticker", "150")

        async def watch() -> None:
            async for event in session.watch():
                seen.append(event)
                if len(seen) == 20:
                    restarted.set()

        watching = asyncio.create_task(watch())
        await restarted.wait()
    await asyncio.sleep(0.3)
    async with serving(store, port):
        held[149].set()
        await asyncio.wait_for(watching, 30)
        assert await session.result() == {"ticks": 150}
        await client.__aexit__(None, None, None)
        async with midcourse.open(f"sqlite:///{store}", drive=False, durability="process") as here:
            assert seen == [event async for event in (await here.get(session.id)).watch()]
    assert any(event.type == "session.taken" for event in seen)


async def test_messages_events_and_budgets_go_through(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, there):
        terms = midcourse.Terms(budget=1.0, task_class="long")
        session = await there.start("served-asker", "What now?", terms=terms)
        await session.next_ask(timeout=10)
        assert (await session.state()).terms.budget == 1.0
        queued = await session.message("and then this")
        assert queued.message is not None
        await session.withdraw(queued.message)
        assert (await session.raise_budget(2.5)).level == "decided"
        assert (await session.event("the file was replaced", source="disk")).level == "decided"
        with pytest.raises(midcourse.InvalidInput, match="only task_class, budget and labels"):
            await there.start("served-asker", terms=midcourse.Terms(policy="strict"))


async def test_who_has_no_token_is_told_so(tmp_path: Path) -> None:
    async with serving(tmp_path / "runs.db") as url:
        for token in (None, "mct_wrong-0123456789"):
            async with midcourse.connect(url, token=token) as there:
                with pytest.raises(midcourse.MidcourseError) as raised:
                    await there.list()
                assert raised.value.code == "unauthorized"
                assert "mct_wrong" not in str(raised.value)


async def test_interventions_labels_and_ratings_are_the_same_on_both_sides(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    watched = midcourse.Settings(policy="standard")
    async with midcourse.open(f"sqlite:///{store}", durability="process", settings=watched) as mc:
        stopped = await mc.start(fetcher, FETCHING, session_id="sess_down", by="ada")
        ask = await stopped.next_ask(timeout=30)
        while not await mc.interventions():
            await asyncio.sleep(0.01)
    async with both(tmp_path) as (here, there):
        session, local = await there.get("sess_down"), await here.get("sess_down")
        [made] = await session.interventions()
        assert [made] == await local.interventions()
        assert (made.level, made.ask, made.label) == ("stop", ask.id, None)
        assert "errors.streak 5 ≥ 5" in made.arithmetic
        assert (await session.label(made.id, "right", "the pages were down")).level == "decided"
        assert (await session.interventions())[0].label == "right"
        assert list(await session.interventions()) == list(await local.interventions())
        while not await there.interventions(label="right"):
            await asyncio.sleep(0.01)
        each: tuple[dict[str, Any], ...] = (
            {},
            {"agent": "served-fetcher"},
            {"agent": "x"},
            {"since": made.at},
            {"label": "none"},
        )
        for filters in each:
            assert await there.interventions(**filters) == await here.interventions(**filters)
        assert [one.person for one in await there.interventions(since=made.at, limit=1)] == ["ada"]
        for wanted in (None, "ada", "bob"):
            assert await there.alarms(wanted, gather=60) == await here.alarms(wanted, gather=60)
        [batch] = await there.alarms()
        assert batch.ready_at == batch.since == made.at
        wishes: tuple[Wish, ...] = (
            lambda one: one.rate(4),
            lambda one: one.rate(9),
            lambda one: one.label("int_9", "right"),
            lambda one: one.label("int_1", "maybe"),
            lambda one: one.redirect("x" * 201),
            lambda one: one.redirect("x" * 201, level="clarify"),
        )
        for wish in wishes:
            with pytest.raises(midcourse.MidcourseError) as there_said:
                await wish(session)
            with pytest.raises(midcourse.MidcourseError) as here_said:
                await wish(local)
            assert type(there_said.value) is type(here_said.value)
            assert (str(there_said.value), there_said.value.code) == (str(here_said.value), here_said.value.code)
        lists: tuple[Wish, ...] = (
            lambda one: one.interventions(since=-1),
            lambda one: one.interventions(label="maybe"),
            lambda one: one.interventions(limit=0),
            lambda one: one.alarms(gather=-1),
        )
        for wish in lists:
            for side in (here, there):
                with pytest.raises(midcourse.InvalidInput):
                    await wish(side)
        await session.cancel(until="stopped")
        assert (await session.rate(5)).status == "cancelled"
        assert (await session.state()).score == (await local.state()).score == 5
