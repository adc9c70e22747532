"""Three calls at the same time, and one stop: what cannot be undone runs exactly once, and whole."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import midcourse
from tests.effects.agents import goal, juggler
from tests.effects.child import driving
from tests.effects.remote import Remote
from tests.promises.harness import Kind as Store
from tests.promises.harness import Place, until_status, until_true

STORES: list[tuple[str, Store]] = [("async", "memory"), ("async", "sqlite"), ("process", "sqlite")]
in_each_way = pytest.mark.parametrize(("kind", "store"), STORES)


async def _started(remote: Remote, mc: midcourse.Midcourse, kind: str) -> midcourse.SessionHandle[list[int]]:
    """All three in flight: two wait for the remote, the third is between its two halves."""
    _prepare(remote)
    session = await mc.start(juggler, goal(kind=kind, url=remote.url), session_id="s")
    await _in_flight(remote)
    return session


def _prepare(remote: Remote) -> None:
    remote.remembers("put")
    remote.meet("look", "gone")
    remote.meet("put", "gone")
    remote.meet("send on", "let")


async def _in_flight(remote: Remote) -> None:
    await until_true(lambda: all(remote.arrived[name] == 1 for name in ("look", "put", "send on")))


def _halves(remote: Remote) -> tuple[int, int]:
    return remote.executed("send"), remote.executed("send on")


async def _outcomes(session: midcourse.SessionHandle[Any]) -> dict[str, str]:
    return {line.name: line.outcome for line in (await session.receipt()).lines}


@in_each_way
async def test_a_pause_without_grace_lets_it_finish_and_it_runs_once(
    kind: str, store: Store, tmp_path: Path, remote: Remote
) -> None:
    """The two others are aborted and done again on resume."""
    async with Place(store, tmp_path).open(juggler) as mc:
        session = await _started(remote, mc, kind)
        reply = await session.pause(grace=0)
        assert reply.status == "pausing"
        assert "send" in [call.name for call in reply.running]
        await until_true(lambda: remote.executed("look") == remote.executed("put") == 1)  # aborted
        assert await session.status() == "pausing"
        assert _halves(remote) == (1, 0)
        remote.let("send on")
        assert (await session.pause(until="stopped")).status == "paused"
        assert _halves(remote) == (1, 1)
        await session.resume()
        assert await session.result() == [2, 1, 1]
        assert _halves(remote) == (1, 1)
        assert (remote.executed("look"), remote.executed("put")) == (2, 1)
        assert await _outcomes(session) == {"put": "cannot be undone", "send": "cannot be undone"}


@in_each_way
async def test_a_redirect_without_grace_lets_it_finish_and_it_runs_once(
    kind: str, store: Store, tmp_path: Path, remote: Remote
) -> None:
    """The two others are aborted, and done again for an agent that does not want to be told."""
    async with Place(store, tmp_path).open(juggler) as mc:
        session = await _started(remote, mc, kind)
        await session.redirect("quicker", grace=0)
        await until_true(lambda: remote.arrived["look"] == remote.arrived["put"] == 2)
        assert _halves(remote) == (1, 0)
        remote.let("send on")
        assert (await session.result())[1:] == [1, 1]
        assert _halves(remote) == (1, 1)
        assert (remote.executed("put"), remote.keys("put")) == (1, 1)


@in_each_way
async def test_a_cancel_without_grace_lets_it_finish_and_says_that_it_cannot_be_undone(
    kind: str, store: Store, tmp_path: Path, remote: Remote
) -> None:
    """Until it has ended the session is cancelling, and the receipt provisional."""
    async with Place(store, tmp_path).open(juggler) as mc:
        session = await _started(remote, mc, kind)
        reply = await session.cancel(grace=0)
        while [call.name for call in reply.running] != ["send"]:  # the two others are being torn
            reply = await session.cancel(grace=0, until="stopped", wait=0.02)
        assert (reply.level, reply.status) == ("stopping", "cancelling")
        receipt = await session.receipt()
        assert not receipt.final
        while await _outcomes(session) != {"put": "unknown", "send": "still running"}:  # an end is journaled soon after
            await asyncio.sleep(0)
        remote.let("send on")
        assert (await session.cancel(until="stopped")).status == "cancelled"
        assert _halves(remote) == (1, 1)
        assert await _outcomes(session) == {"put": "unknown", "send": "cannot be undone"}
        assert (await session.receipt()).final


@pytest.mark.parametrize(("kind", "happened"), [("async", True), ("async", False), ("process", False)])
async def test_after_a_kill_it_is_never_run_again_unless_a_person_said_that_it_did_not_happen(
    kind: str, happened: bool, tmp_path: Path, remote: Remote
) -> None:
    """The two others are done again at once; the ask waits, and nothing but its answer decides."""
    place = Place("sqlite", tmp_path)
    _prepare(remote)
    remote.meet("send on", "lost")
    async with driving(place.url, "juggler", goal(kind=kind, url=remote.url)) as child:
        await _in_flight(remote)
        await child.kill()
        await until_true(lambda: remote.executed("look") == remote.executed("put") == 1)
    for _ in range(2):  # nobody who opens the store takes it upon itself
        async with place.open(juggler) as mc:
            session = await mc.get("s")
            await until_status(session, "waiting")
            (ask,) = (await session.state()).asks
            assert ask.reason == "did_it_happen"
            assert "'send'" in ask.prompt
            assert _halves(remote) == (1, 0)
    async with place.open(juggler) as mc:
        session = await mc.get("s")
        await session.answer("it happened" if happened else "it did not happen")
        assert await session.result() == ([2, 1, None] if happened else [2, 1, 1])
        assert _halves(remote) == ((1, 0) if happened else (2, 1))
        assert (remote.executed("put"), remote.keys("put")) == (1, 1)
        assert (await _outcomes(session))["send"] == "cannot be undone"
