"""Promise 6: receipts never claim more than was observed. "Unknown" is an answer; a guess is not.

What really happened is told by a remote that counts; the receipt is held against it.
"""

import asyncio
import random
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, get_args

import pytest

import midcourse
from midcourse.core.effects import UndoChoice
from tests.effects.clients import EFFECTS, TOOLS
from tests.effects.made_tools import made
from tests.effects.remote import Manner, Remote, serving
from tests.promises.faults import Faulty
from tests.promises.harness import Place, resumable, until_status, until_true

NAMES = ("one", "two", "three", "four")


@pytest.fixture
def remote() -> Generator[Remote]:
    """A remote of the test's own."""
    with serving() as served:
        yield served


def _told(receipt: midcourse.Receipt, name: str) -> list[str]:
    return [line.outcome for line in receipt.lines if line.name == name]


async def test_an_aborted_call_is_unknown_whether_it_happened_or_not(place: Place, remote: Remote) -> None:
    """An abort is not an end: of two aborted calls one landed, and the receipt does not guess which."""
    remote.meet("landed", "gone")
    remote.meet("lost", "lost")

    async def agent(run: midcourse.Run) -> None:
        await asyncio.gather(
            *(run.step(name, TOOLS["idempotent", "async"], remote.url, name) for name in ("landed", "lost"))
        )

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        await until_true(lambda: remote.arrived["landed"] == remote.arrived["lost"] == 1)
        await session.cancel(grace=0, until="stopped")
        await until_true(lambda: remote.executed("landed") == 1)
        receipt = await session.receipt()
        assert _told(receipt, "landed") == _told(receipt, "lost") == ["unknown"]
        assert [line.name for line in receipt.unknown] == ["landed", "lost"]
        assert {line.detail for line in receipt.lines} == {"it was aborted; it may have happened"}


async def test_a_call_that_raised_is_unknown(place: Place, remote: Remote) -> None:
    """It may have raised before it did it, or after."""
    remote.meet("call", "refused")

    async def agent(run: midcourse.Run) -> str:
        try:
            await run.step("call", TOOLS["irreversible", "async"], remote.url, "call")
        except midcourse.StepError as error:
            return error.kind
        return ""

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        assert await session.result() == "Refused"
        (line,) = (await session.receipt()).lines
        assert (line.outcome, line.detail) == ("unknown", "it raised Refused")


@pytest.mark.parametrize("effect", ["reversible", "irreversible"])
async def test_a_thread_that_does_not_end_is_still_running_until_it_does(effect: str, place: Place) -> None:
    """It is asked to, and does not look: nothing is undone beside it, and the session is cancelling as long."""
    begun, may_end = threading.Event(), threading.Event()
    undone: list[bool] = []

    def stubborn() -> str:
        begun.set()
        may_end.wait()
        return "done"

    async def undo(_arguments: object, _result: object, _key: str) -> None:
        undone.append(may_end.is_set())

    declared = {"effect": "write", "undo": undo} if effect == "reversible" else {"effect": "write"}
    tool = made(stubborn, name="stubborn", **declared)
    one = resumable(lambda run: run.step("call", tool))
    async with place.open(one) as mc:
        session = await mc.start(one)
        try:
            await until_true(begun.is_set)
            reply = await session.cancel(grace=0, undo="all", until="stopped", wait=0.1)
            assert (reply.level, reply.status) == ("stopping", "cancelling")
            assert [call.name for call in reply.running] == ["call"]
            receipt = await session.receipt()
            assert not receipt.final
            assert _told(receipt, "call") == ["still running"]
            assert undone == []
        finally:
            may_end.set()
        await session.cancel(until="stopped")
        receipt = await session.receipt()
        assert receipt.final
        # It returned by itself, so it happened; and what was undone was undone after that.
        assert _told(receipt, "call") == (["undone"] if effect == "reversible" else ["cannot be undone"])
        assert undone == ([True] if effect == "reversible" else [])


async def test_a_lost_irreversible_call_of_a_cancelled_session_is_unknown_and_nobody_is_asked(
    place: Place, remote: Remote
) -> None:
    """There is nothing to go on with: the receipt says that nobody knows."""
    remote.meet("send", "gone")

    async def agent(run: midcourse.Run) -> None:
        await run.step("send", TOOLS["irreversible", "async"], remote.url, "send")

    one = resumable(agent)
    dying = await place.store()
    cut_off = Faulty(dying)
    async with place.open(one, store=cut_off, grace=0) as owner:
        await owner.start(one, session_id="s")
        await until_true(lambda: remote.arrived["send"] == 1)
        cut_off.holds = lambda _: True
        dying.abandon()
        async with place.open(one) as heir:
            session = await heir.get("s")
            await until_status(session, "waiting", "cancelling", "running")
            await session.cancel(grace=0, until="stopped")
            (line,) = (await session.receipt()).lines
            assert (line.outcome, line.detail) == ("unknown", "its process is gone; it may have happened")
            assert (await session.state()).asks == ()
        cut_off.let_through()


@pytest.mark.parametrize("answer", ["it happened", "it did not happen"])
async def test_what_a_person_tells_is_what_the_receipt_says(answer: str, place: Place, remote: Remote) -> None:
    """A yes is a call that finished; a no one that never was, until it is done again."""
    remote.meet("send", "lost" if "not" in answer else "gone")

    async def agent(run: midcourse.Run) -> None:
        await run.step("send", TOOLS["irreversible", "async"], remote.url, "send")

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await until_true(lambda: remote.arrived["send"] == 1)
    async with place.open(one) as mc:
        session = await mc.get("s")
        await until_status(session, "waiting")
        assert _told(await session.receipt(), "send") == ["unknown"]
        await session.answer(answer)
        await session.result()
        assert _told(await session.receipt(), "send") == ["cannot be undone"]
        assert remote.executed("send") == 1


class Chance:
    """A session with four calls of any effect, met in any manner, and stopped in any way. One seed is one course."""

    def __init__(self, seed: int, remote: Remote) -> None:
        self.chance = random.Random(seed)
        self.remote = remote
        self.effects = {name: self.chance.choice(sorted(EFFECTS)) for name in NAMES}
        for name, effect in self.effects.items():
            if effect.startswith("idempotent"):
                remote.remembers(name)
            manners = self._manners(effect)
            remote.meet(name, *self.chance.choices(manners, k=3))
        self.pair = self.chance.random() < 0.5
        self.agent = resumable(self._run)

    def _manners(self, effect: str) -> tuple[Manner, ...]:
        # One that cannot be aborted would wait for ever for a client that does not go away.
        return ("now", "refused") if effect.startswith("irreversible") else ("now", "now", "gone", "lost", "refused")

    async def _run(self, run: midcourse.Run) -> None:
        async def call(name: str) -> None:
            try:
                tool = TOOLS[self.effects[name], "async"]
                on_redirect = "raise" if name in ("one", "three") else "again"
                await run.step(name, tool, self.remote.url, name, on_redirect=on_redirect)
            except (midcourse.StepError, midcourse.Redirected):
                return

        await asyncio.gather(call("one"), call("two")) if self.pair else None
        for name in NAMES[2 if self.pair else 0 :]:
            await call(name)
        await run.ask("Well done?")

    async def stop(self, session: midcourse.SessionHandle[Any]) -> None:
        """Some stops, and a cancel in the end."""
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(self.chance.random() * 0.03)
            if self.chance.random() < 0.5:
                await session.redirect("otherwise", grace=0)
            else:
                await session.pause(grace=0, until="stopped")
                await session.resume()
        await asyncio.sleep(self.chance.random() * 0.03)
        choice: UndoChoice = self.chance.choice(get_args(UndoChoice))
        await session.cancel(grace=0, undo=choice, until="stopped")


@pytest.mark.parametrize("seed", range(16))
async def test_whatever_happens_the_receipt_is_true(seed: int, tmp_path: Path, remote: Remote) -> None:
    """`undone` is gone, `kept` and `cannot be undone` stand, and what stands is in the receipt."""
    course = Chance(seed, remote)
    async with Place("memory", tmp_path).open(course.agent) as mc:
        session = await mc.start(course.agent)
        await course.stop(session)
        receipt = await session.receipt()
        assert receipt.final
        await asyncio.to_thread(remote.land)
    for name, effect in course.effects.items():
        outcomes = _told(receipt, name)
        stands, about = remote.standing(name), (name, effect, outcomes, remote.acts)
        certain = sum(outcome in ("kept", "cannot be undone") for outcome in outcomes)
        uncertain = sum(outcome not in ("kept", "cannot be undone", "undone") for outcome in outcomes)
        if effect == "read":
            assert outcomes == [], about
        else:
            assert certain <= stands <= certain + uncertain, about
            assert "still running" not in outcomes, about
