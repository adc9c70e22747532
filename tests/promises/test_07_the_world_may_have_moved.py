"""Promise 7: what tools had observed is looked at again before a cold resume goes on; a change is shown and handled."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

import midcourse
from midcourse.core import events as ev
from midcourse.core.session import OpenAsk
from midcourse.core.switches import Scope
from midcourse.runtime.tools import declared_tool, register
from midcourse.testing import FakeClock
from tests.promises.faults import Faulty
from tests.promises.harness import QUICK, Place, history, resumable, until_status, until_true


class Shelf:
    """What the agent looks at: texts by name, each with a version. It can be out of reach."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {"a": "one"}
        self.fails: Exception | None = None
        self.hangs = False
        self.looks = 0
        self.together: asyncio.Barrier | None = None

    def resource(self, arguments: Mapping[str, Any]) -> str:
        """The name of what is observed."""
        return f"shelf:{arguments['name']}"

    async def version(self, arguments: Mapping[str, Any]) -> str | None:
        """The text itself is its version."""
        self.looks += 1
        if self.fails is not None:
            raise self.fails
        if self.hangs:
            await asyncio.Event().wait()
        if self.together is not None:
            await self.together.wait()
        return self.texts.get(arguments["name"])

    async def read(self, name: str) -> str:
        """A tool's body."""
        return self.texts[name]

    async def write(self, name: str, text: str) -> None:
        """Another tool's body."""
        self.texts[name] = text


class Reader:
    """An agent that looks at the shelf, waits for a person, and tells what it was told has changed."""

    def __init__(self, shelf: Shelf, on_change: str = "tell", *, names: str = "a", writes: bool = False) -> None:
        self.shelf = shelf
        read = declared_tool(
            shelf.read,
            origin=f"{__name__}:read {id(shelf)}",
            effect="read",
            observes=shelf,
            on_change=on_change,
        )
        write = declared_tool(
            shelf.write, origin=f"{__name__}:write {id(shelf)}", effect="idempotent", settle=0, observes=shelf
        )
        register(read)
        register(write)

        async def agent(run: midcourse.Run) -> list[tuple[str, str | None, str | None, str]]:
            for name in names:
                await run.step(f"read {name}", read, name)
            if writes:
                await run.step("write", write, "a", "the agent's own")
            await run.ask("Go on?")
            return [(one.resource, one.before, one.now, one.why) for one in run.changes]

        self.agent = resumable(agent)

    async def park(self, place: Place) -> None:
        """Until it waits, in a program that then ends."""
        async with place.open(self.agent) as mc:
            session = await mc.start(self.agent, session_id="s")
            await until_status(session, "waiting")


def _changes(events: list[midcourse.Recorded]) -> list[tuple[ev.Change, ...]]:
    return [one.event.changes for one in events if isinstance(one.event, ev.WorldChanged)]


async def _asked(session: midcourse.SessionHandle[Any]) -> OpenAsk:
    """The question whether to go on, once it is there."""
    while True:
        await until_status(session, "waiting")
        for ask in (await session.state()).asks:
            if ask.reason == "world_changed":
                return ask
        await asyncio.sleep(0.002)


async def test_nothing_is_said_if_nothing_has_changed(place: Place) -> None:
    """It was looked at, and is as it was."""
    reader = Reader(Shelf())
    await reader.park(place)
    before = reader.shelf.looks
    async with place.open(reader.agent) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        assert await session.result() == []
        assert reader.shelf.looks == before + 1
        assert _changes(await history(session)) == []


@pytest.mark.parametrize("now", ["two", None])
async def test_a_change_is_told_to_the_agent_as_a_difference(now: str | None, place: Place) -> None:
    """``tell``: what it was, and what it is; also that it is gone."""
    reader = Reader(Shelf())
    await reader.park(place)
    reader.shelf.texts = {} if now is None else {"a": now}
    async with place.open(reader.agent) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        assert await session.result() == [["shelf:a", "one", now, ""]]
        assert _changes(await history(session)) == [(ev.Change("shelf:a", "one", now),)]


async def test_a_change_is_told_once(place: Place) -> None:
    """From then on that is how the world is: the next cold resume finds nothing new."""
    reader = Reader(Shelf())
    two = 0

    async def agent(run: midcourse.Run) -> list[str]:
        nonlocal two
        await run.step("read", read, "a")
        await run.ask("Go on?")
        two += 1
        await run.ask("And now?")
        return [one.resource for one in run.changes]

    read = declared_tool(
        reader.shelf.read, origin=f"{__name__}:read {id(reader)}", effect="read", observes=reader.shelf
    )
    register(read)
    one = resumable(agent)
    async with place.open(one) as mc:
        await until_status(await mc.start(one, session_id="s"), "waiting")
    reader.shelf.texts["a"] = "two"
    async with place.open(one) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        await until_true(lambda: two == 1)
        await until_status(session, "waiting")
    async with place.open(one) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        assert await session.result() == []
        told = _changes(await history(session))
        assert told[0] == (ev.Change("shelf:a", "one", "two"),)
        assert all(changes == () for changes in told[1:])


async def test_after_a_short_rest_a_warm_session_checks_nothing(place: Place) -> None:
    """The agent is where it was; the world had no time to change."""
    reader = Reader(Shelf())
    async with place.open(reader.agent) as mc:
        session = await mc.start(reader.agent)
        await until_status(session, "waiting")
        before = reader.shelf.looks
        await session.pause(until="stopped")
        reader.shelf.texts["a"] = "two"
        await session.resume()
        await session.answer("yes")
        assert await session.result() == []
        assert reader.shelf.looks == before


class Warm:
    """A session that rests in memory on a fake clock, and what is done to it: no real time passes."""

    mc: midcourse.Midcourse

    def __init__(self, place: Place, reader: Reader, **numbers: float) -> None:
        self.reader = reader
        self.clock = FakeClock()
        self._place = place
        # It is never parked: what is checked here is checked warm.
        self._settings = midcourse.Settings(park_after=1e9, **numbers)  # pyright: ignore[reportArgumentType]

    def run(self, test: Callable[[midcourse.SessionHandle[Any]], Awaitable[None]]) -> None:
        """Start the session, let it come to its question, and run ``test``."""

        async def main() -> None:
            async with self._place.open(self.reader.agent, settings=self._settings, clock=self.clock) as self.mc:
                mc = self.mc
                session = await mc.start(self.reader.agent, session_id="s")
                await until_status(session, "waiting")
                await test(session)

        self.clock.run(main())


@pytest.mark.parametrize("rest", ["paused", "waiting", "halted"])
def test_after_a_long_rest_a_warm_session_checks_again(rest: str, place: Place) -> None:
    """Whatever it rested for: the agent is told of the change before it continues."""
    warm = Warm(place, Reader(Shelf()))

    async def test(session: midcourse.SessionHandle[Any]) -> None:
        if rest == "paused":
            await session.pause(until="stopped")
            await session.answer("yes")
        warm.reader.shelf.texts["a"] = "two"
        await warm.clock.sleep(11)
        if rest == "paused":
            await session.resume()
        elif rest == "halted":
            switch = (await warm.mc.kill_switch.throw(Scope(), "freeze")).switch
            assert await session.status() == "halted"
            await warm.clock.sleep(11)
            await warm.mc.kill_switch.lift(switch.id, "thawed")
            await warm.mc.kill_switch.release(switch.id)
        if rest != "paused":
            await session.answer("yes")
        assert await session.result() == [["shelf:a", "one", "two", ""]]
        assert warm.reader.shelf.looks == 2

    warm.run(test)


@pytest.mark.parametrize(("after", "looks"), [(0.0, 2), (30.0, 1), (float("inf"), 1)])
def test_how_long_a_rest_must_be_is_a_setting(after: float, looks: int, place: Place) -> None:
    """0 is always; infinity is never."""
    warm = Warm(place, Reader(Shelf()), world_after=after)

    async def test(session: midcourse.SessionHandle[Any]) -> None:
        await session.pause(until="stopped")
        await warm.clock.sleep(0 if after == 0 else 20)
        await session.resume()
        await session.answer("yes")
        await session.result()
        assert warm.reader.shelf.looks == looks

    warm.run(test)


def test_the_documented_default_is_ten_seconds() -> None:
    """Shorter than the time after which a session is parked."""
    assert midcourse.Settings().world_after == 10.0 < midcourse.Settings().park_after


@pytest.mark.parametrize("says", ["approve", "refuse", "redirect", "cancel"])
def test_a_person_is_asked_before_a_warm_session_continues(says: str, place: Place) -> None:
    """The agent stands where it stood until the answer; a redirect or a cancel answers, too."""
    warm = Warm(place, Reader(Shelf(), "ask"))

    async def test(session: midcourse.SessionHandle[Any]) -> None:
        await session.pause(until="stopped")
        await session.answer("yes")
        warm.reader.shelf.texts["a"] = "two"
        await warm.clock.sleep(11)
        await session.resume()
        ask = await _asked(session)
        assert "shelf:a was one, is two" in ask.prompt
        await warm.clock.sleep(5)
        assert await session.status() == "waiting"
        if says == "cancel":
            assert (await session.cancel(until="stopped")).level == "stopped"
            return
        if says == "redirect":
            await session.redirect("something else")
        else:
            await session.answer(says, ask=ask.id)
        if says == "refuse":
            with pytest.raises(midcourse.SessionEnded, match="A person refused to continue") as ended:
                await session.result()
            assert ended.value.code == "world_changed"
            await session.resume()
        assert await session.result() == [["shelf:a", "one", "two", ""]]

    warm.run(test)


def test_a_refusing_tool_stops_a_warm_session_until_somebody_resumes_it(place: Place) -> None:
    """As it does a cold one."""
    warm = Warm(place, Reader(Shelf(), "refuse"))

    async def test(session: midcourse.SessionHandle[Any]) -> None:
        warm.reader.shelf.texts["a"] = "two"
        await warm.clock.sleep(11)
        await session.answer("yes")
        with pytest.raises(midcourse.SessionEnded, match="shelf:a was one, is two"):
            await session.result()
        await session.resume()
        assert await session.result() == [["shelf:a", "one", "two", ""]]

    warm.run(test)


@pytest.mark.parametrize("meanwhile", ["nothing", "redirect", "pause", "cancel"])
def test_a_check_that_hangs_has_a_deadline_and_holds_up_no_control(meanwhile: str, place: Place) -> None:
    """Could not check is an outcome of a warm check, too; what a person wants meanwhile works at once."""
    warm = Warm(place, Reader(Shelf()))

    async def test(session: midcourse.SessionHandle[Any]) -> None:
        shelf = warm.reader.shelf
        await session.pause(until="stopped")
        await session.answer("yes")
        await warm.clock.sleep(11)
        shelf.hangs = True
        await session.resume()
        while shelf.looks == 1:
            await asyncio.sleep(0)
        began = warm.clock.now()
        match meanwhile:
            case "redirect":
                await session.redirect("something else")
            case "pause":
                assert (await session.pause(until="stopped")).level == "stopped"
                shelf.hangs, shelf.texts["a"] = False, "two"
                await session.resume()
            case "cancel":
                assert (await session.cancel(until="stopped")).level == "stopped"
                assert warm.clock.now() - began < 5
                return
            case _:
                pass
        assert warm.clock.now() - began < 5
        hung = ["shelf:a", "one", None, "could not be checked: no answer in time"]
        assert await session.result() == [hung]

    warm.run(test)


def test_the_agents_own_writes_are_no_changes_for_a_warm_session(place: Place) -> None:
    """It knows what it did, and is told of what another did after that."""
    warm = Warm(place, Reader(Shelf(), writes=True))

    async def test(session: midcourse.SessionHandle[Any]) -> None:
        await warm.clock.sleep(11)
        await session.answer("yes")
        assert await session.result() == []
        assert warm.reader.shelf.looks == 3

    warm.run(test)


def test_a_change_stays_told_over_another_rest(place: Place) -> None:
    """A warm agent may not have read it yet: a second check that finds nothing new takes nothing back."""
    warm = Warm(place, Reader(Shelf()))

    async def test(session: midcourse.SessionHandle[Any]) -> None:
        warm.reader.shelf.texts["a"] = "two"
        for _ in range(2):
            await session.pause(until="stopped")
            await warm.clock.sleep(11)
            await session.resume()
        await session.answer("yes")
        assert await session.result() == [["shelf:a", "one", "two", ""]]

    warm.run(test)


@pytest.mark.parametrize("says_yes", [True, False])
async def test_a_person_is_asked_whether_to_go_on(says_yes: bool, place: Place) -> None:
    """``ask``: the agent does not move before the answer; no means no, until somebody resumes."""
    reader = Reader(Shelf(), "ask")
    await reader.park(place)
    reader.shelf.texts["a"] = "two"
    async with place.open(reader.agent) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        ask = await _asked(session)
        assert ask.reason == "world_changed"
        assert "shelf:a was one, is two" in ask.prompt
        await session.answer("approve" if says_yes else "refuse", ask=ask.id)
        if not says_yes:
            with pytest.raises(midcourse.SessionEnded, match="A person refused to continue") as ended:
                await session.result()
            assert ended.value.code == "world_changed"
            await session.resume()
        assert await session.result() == [["shelf:a", "one", "two", ""]]


async def test_a_refusing_tool_stops_the_session_until_somebody_resumes_it(place: Place) -> None:
    """``refuse``: it fails, and says what has changed; a person may go on all the same."""
    reader = Reader(Shelf(), "refuse")
    await reader.park(place)
    reader.shelf.texts["a"] = "two"
    async with place.open(reader.agent) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        with pytest.raises(midcourse.SessionEnded, match="shelf:a was one, is two") as ended:
            await session.result()
        assert ended.value.code == "world_changed"
        await session.resume()
        assert await session.result() == [["shelf:a", "one", "two", ""]]


async def test_a_tool_that_does_not_mind_goes_on_and_the_journal_knows(place: Place) -> None:
    """``go_on``: the agent is told nothing."""
    reader = Reader(Shelf(), "go_on")
    await reader.park(place)
    reader.shelf.texts["a"] = "two"
    async with place.open(reader.agent) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        assert await session.result() == []
        assert _changes(await history(session)) == [(ev.Change("shelf:a", "one", "two", "go_on"),)]


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_could_not_check_is_an_outcome(how: str, place: Place) -> None:
    """It is neither a change nor none; it is told as what it is, and after a deadline."""
    reader = Reader(Shelf())
    await reader.park(place)
    if how == "fails":
        reader.shelf.fails = OSError("the shelf is locked")
    else:
        reader.shelf.hangs = True
    quick = midcourse.Settings(poll=QUICK.poll, unreachable_after=30.0, world_timeout=0.05)
    async with place.open(reader.agent, settings=quick) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        why = "the shelf is locked" if how == "fails" else "no answer in time"
        assert await session.result() == [["shelf:a", "one", None, f"could not be checked: {why}"]]


async def test_could_not_check_is_as_strict_as_a_change(place: Place) -> None:
    """A tool that wants a refusal is not content with not knowing."""
    reader = Reader(Shelf(), "refuse")
    await reader.park(place)
    reader.shelf.fails = OSError("the shelf is locked")
    async with place.open(reader.agent) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        with pytest.raises(midcourse.SessionEnded, match="shelf:a could not be checked: the shelf is locked"):
            await session.result()


async def test_many_things_are_looked_at_at_the_same_time(place: Place) -> None:
    """Each look waits for all the others: one after the other they would never end."""
    shelf = Shelf()
    names = "abcdefgh"
    shelf.texts = dict.fromkeys(names, "one")
    reader = Reader(shelf, names=names)
    await reader.park(place)
    shelf.together = asyncio.Barrier(len(names))
    shelf.texts["c"] = "two"
    async with place.open(reader.agent) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        assert await session.result() == [["shelf:c", "one", "two", ""]]


async def test_the_agents_own_writes_are_no_changes(place: Place) -> None:
    """It knows what it did; somebody else's write after that is one."""
    for number, by_others in enumerate((None, "somebody else's")):
        shelf = Shelf()
        reader = Reader(shelf, writes=True)
        async with place.open(reader.agent) as mc:
            await until_status(await mc.start(reader.agent, session_id=f"s{number}"), "waiting")
        if by_others:
            shelf.texts["a"] = by_others
        async with place.open(reader.agent) as mc:
            session = await mc.get(f"s{number}")
            await session.answer("yes")
            expected = [["shelf:a", "the agent's own", by_others, ""]] if by_others else []
            assert await session.result() == expected


async def test_a_killed_owners_session_is_checked_too(place: Place) -> None:
    """Nobody parked it: its heir goes on cold all the same."""
    reader = Reader(Shelf())
    dying = await place.store()
    cut_off = Faulty(dying)
    async with place.open(reader.agent, store=cut_off) as mc:
        session = await mc.start(reader.agent, session_id="s")
        await until_status(session, "waiting")
        cut_off.holds = lambda _: True
        dying.abandon()
        reader.shelf.texts["a"] = "two"
        async with place.open(reader.agent) as heir:
            session = await heir.get("s")
            await session.answer("yes")
            assert await session.result() == [["shelf:a", "one", "two", ""]]
        cut_off.let_through()


async def test_an_observer_that_fails_during_the_call_does_not_fail_the_step(place: Place) -> None:
    """What could not be looked at is not remembered, and nobody is told of a change that nobody saw."""
    reader = Reader(Shelf())
    reader.shelf.fails = OSError("the shelf is locked")
    await reader.park(place)
    reader.shelf.fails = None
    async with place.open(reader.agent) as mc:
        session = await mc.get("s")
        await session.answer("yes")
        assert await session.result() == []
