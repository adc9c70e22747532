"""What lives is not released: a session whose call has not ended stays with the process that runs the call."""

import asyncio

import midcourse
from tests.promises.harness import QUICK, Place, history, resumable, types, until_true


async def test_a_call_that_outlives_the_close_is_neither_undone_nor_repeated_before_it_has_ended(place: Place) -> None:
    """An async tool that completes its write after it was cancelled is waited for, as a thread would be."""
    happened: list[str] = []
    may_end, entered = asyncio.Event(), asyncio.Event()

    def undo(_arguments: object, _result: object, _key: str) -> None:
        happened.append("undone")

    async def body() -> str:
        happened.append("begun")
        entered.set()
        try:
            await asyncio.sleep(3600 if len(happened) == 1 else 0)
        finally:
            await may_end.wait()
            happened.append("written")
        return "done"

    tool = midcourse.tool(effect="write", undo=undo, local=True)(body)

    async def uploads(run: midcourse.Run) -> str:
        return await run.step("upload", tool)

    agent = resumable(uploads)
    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0, cleanup=0.05)
    async with place.open(agent, grace=0, settings=settings) as mc:
        session = await mc.start(agent)
        await entered.wait()
    worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    assert worker.living() == [f"'upload' of session {session.id}"]
    async with place.open(agent, settings=QUICK) as other:
        session = await other.get(session.id)
        reply = await session.pause()
        assert (reply.level, happened) == ("stopping", ["begun"]), "a stop is heard until the last call has ended"
        may_end.set()
        await worker.closed()
        await until_true(lambda: "undone" in happened or happened.count("begun") > 1)
        await session.resume()
        assert await session.result() == "done"
        assert happened[:3] == ["begun", "written", "undone"]
        assert "session.taken" in types(await history(session))


async def test_a_reversible_call_that_a_close_cuts_is_undone_before_the_store_is_closed(place: Place) -> None:
    """Its undo needs to know that no stop was missed: the inbox is read until nothing lives."""
    happened: list[str] = []
    entered = asyncio.Event()

    def undo(_arguments: object, _result: object, _key: str) -> None:
        happened.append("undone")

    async def body() -> None:
        entered.set()
        await asyncio.Event().wait()

    tool = midcourse.tool(effect="write", undo=undo, local=True)(body)

    async def builds(run: midcourse.Run) -> None:
        await run.step("build", tool)

    agent = resumable(builds)
    settings = midcourse.Settings(poll=0.02, unreachable_after=0.1)
    async with place.open(agent, grace=0.2, settings=settings) as mc:  # longer than the inbox counts as read
        session = await mc.start(agent)
        await entered.wait()
    worker = mc._control.worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    assert (happened, worker.drivers()) == (["undone"], [])
    async with place.open(drive=False) as mc:
        assert types(await history(await mc.get(session.id)))[-2:] == ["undo.ended", "session.parked"]
