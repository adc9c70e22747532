"""Promise 4: a step whose result is in the journal is never executed again, whatever dies."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

import midcourse
from tests.promises.faults import Faulty
from tests.promises.harness import Place, Tool, history, resumable, types, until, until_status


@dataclass(frozen=True)
class Page:
    """A result that is more than plain JSON."""

    url: str
    links: tuple[str, ...]


async def test_a_finished_step_is_not_done_again_when_the_store_is_reopened(place: Place) -> None:
    """Whoever opens the store next goes on behind the last result, which it is given as it was."""
    fetched: list[str] = []
    last = Tool(holds=True)
    given: list[list[Page]] = []

    async def fetch(url: str) -> Page:
        fetched.append(url)
        return Page(url, (f"{url}/1", f"{url}/2"))

    async def agent(run: midcourse.Run) -> str:
        pages = [await run.step("fetch", fetch, url) for url in ("a", "b", "c")]
        given.append(pages)
        await run.step("last", last.run)
        return pages[-1].links[-1]

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await last.entered.wait()
    assert given == [[Page(url, (f"{url}/1", f"{url}/2")) for url in ("a", "b", "c")]]
    for _ in range(3):
        last.entered.clear()
        async with place.open(one, grace=0) as mc:
            await last.entered.wait()
    last.may_end.set()
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == "c/2"
    assert fetched == ["a", "b", "c"]
    assert all(pages == given[0] for pages in given)
    assert len(given) == 5


async def test_a_finished_step_is_not_done_again_when_its_owner_died(place: Place) -> None:
    """The next owner finds the result in the journal; only what had none is done again."""
    first, second = Tool(), Tool(holds=True)

    async def agent(run: midcourse.Run) -> list[object]:
        return [await run.step("first", first.run, 1), await run.step("second", second.run, 2)]

    one = resumable(agent)
    dying = await place.store()
    cut_off = Faulty(dying)
    async with place.open(one, store=cut_off) as owner:
        await owner.start(one, session_id="s")
        await second.entered.wait()
        cut_off.holds = lambda _: True
        dying.abandon()
        second.may_end.set()
        async with place.open(one) as heir:
            session = await heir.get("s")
            assert await session.result() == [1, 2]
            assert (len(first.begun), len(second.begun)) == (1, 2)
            events = await history(session)
            taken = types(events).index("session.taken")
            assert getattr(events[taken].event, "lost", None) == ("1/second#1",)
        cut_off.let_through()  # and what the old owner still wanted to write is refused
    async with place.open(drive=False) as mc:
        assert await history(await mc.get("s")) == events


async def test_a_failed_step_fails_the_same_way_on_a_replay_and_is_tried_again_only_on_resume(place: Place) -> None:
    """An error is a result, too: only a person's resume of the failed session takes it back."""
    tries: list[str] = []
    handled = Tool(holds=True)

    async def flaky(name: str) -> str:
        tries.append(name)
        if tries.count(name) == 1:
            raise ValueError(f"{name} is down")
        return name

    async def agent(run: midcourse.Run) -> list[object]:
        answers: list[object] = []
        try:
            answers.append(await run.step("optional", flaky, "optional"))
        except midcourse.StepError as error:
            answers.append(f"{error.kind}: {error.detail}")
        await run.step("handled", handled.run)
        answers.append(await run.step("needed", flaky, "needed"))
        return answers

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await handled.entered.wait()
    handled.may_end.set()
    async with place.open(one) as mc:
        session = await mc.get("s")
        with pytest.raises(midcourse.SessionEnded, match="needed is down. Resume it to try again") as ended:
            await session.result()
        assert ended.value.code == "step_failed"
        assert tries == ["optional", "needed"]
    async with place.open(one) as mc:  # a failed session is not tried again by anybody but a person
        session = await mc.get("s")
        assert await session.status() == "failed"
        assert tries == ["optional", "needed"]
        await session.resume()
        assert await session.result() == ["ValueError: optional is down", "needed"]
    assert tries == ["optional", "needed", "needed"]
    assert len(handled.ended) == 1


async def test_a_result_that_cannot_be_encoded_counts_as_finished_and_is_never_run_again(place: Place) -> None:
    """The world has seen it happen: not being able to write it down is no reason to do it twice."""
    runs = 0

    async def body() -> object:
        nonlocal runs
        runs += 1
        return asyncio.Lock()

    one = resumable(lambda run: run.step("make", body))
    async with place.open(one) as mc:
        session = await mc.start(one)
        for _ in range(2):
            with pytest.raises(midcourse.SessionEnded, match="The result of step 'make' cannot be journaled") as ended:
                await session.result()
            assert ended.value.code == "unencodable"
            resumed = await session.resume()
            await until(session, "session.failed", after=resumed.position)
        assert runs == 1


async def test_an_agent_that_gives_up_waiting_finds_its_step_done(place: Place) -> None:
    """The driver owns the call: a timeout in the agent tears nothing, and asking again waits for the same call."""
    tool = Tool(holds=True)

    async def agent(run: midcourse.Run) -> object:
        try:
            async with asyncio.timeout(0.01):
                await run.step("slow", tool.run, "page", key="one")
        except TimeoutError:
            asyncio.get_running_loop().call_later(0.01, tool.may_end.set)
        return await run.step("slow", tool.run, "page", key="one")

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        assert await session.result() == "page"
        assert len(tool.begun) == 1


async def test_parallel_steps_are_each_done_once_wherever_the_process_stops(place: Place) -> None:
    """Stopped again and again in the middle of ten parallel steps, each has one result in the end."""
    finished: dict[str, int] = {}
    permits = asyncio.Semaphore(0)

    @midcourse.tool(effect="idempotent", local=True)
    async def body(name: str) -> str:
        await permits.acquire()
        finished[name] = finished.get(name, 0) + 1
        return name

    async def agent(run: midcourse.Run) -> list[str]:
        return list(await asyncio.gather(*(run.step("work", body, name, key=name) for name in "abcdefghij")))

    one = resumable(agent)
    async with place.open(one, drive=False) as mc:
        await mc.start(one, session_id="s")
    for round_ in range(5):
        async with place.open(one, grace=0) as mc:
            session = await mc.get("s")
            permits.release()
            permits.release()
            while (await session.state()).finished_steps < 2 * round_ + 2:
                await asyncio.sleep(0)
    async with place.open(one) as mc:
        assert await (await mc.get("s")).result() == list("abcdefghij")
    assert finished == dict.fromkeys("abcdefghij", 1)


async def test_a_stream_that_ended_is_not_called_again(place: Place) -> None:
    """Its text is read back from its segments."""
    calls = 0
    last = Tool(holds=True)

    async def model() -> AsyncIterator[str]:
        nonlocal calls
        calls += 1
        for word in ("one ", "two ", "three"):
            yield word

    async def agent(run: midcourse.Run) -> str:
        text = await run.stream("write", model)
        await run.step("last", last.run)
        return text

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        await mc.start(one, session_id="s")
        await last.entered.wait()
    last.may_end.set()
    async with place.open(one) as mc:
        session = await mc.get("s")
        assert await session.result() == "one two three"
        assert await until_status(session, "completed") == "completed"
    assert calls == 1
