"""Ask a person, and wait for the answer.

An ask is answered once, from any process, also while the session is paused. An agent asks with ``run.ask``; a step
that finds out in its middle that it needs a person raises ``Interrupt`` and is tried again with the answer.

Prints:
    waiting: ask_1 (need_input): Which folder shall I tidy?
    answered: downloads
    waiting: ask_2 (need_approval): Delete 2 files in downloads?
    paused, and still answerable: paused, 1 ask open
    answered: yes
    nothing happens before the resume: deleted 0
    a second answer: Cannot answer session '…': 'ask_2' was answered or closed before (already_answered). …
    result: deleted 2 files in downloads
"""

import asyncio

import midcourse

FILES = {"downloads": ["setup.tmp", "old.tmp"], "desktop": []}
deleted: list[str] = []


@midcourse.tool(effect="write")
def delete(folder: str) -> int:
    """A tool that cannot be undone, and does nothing before a person has said yes."""
    answer = midcourse.current_call().answer
    if answer is None:
        raise midcourse.Interrupt("need_approval", f"Delete {len(FILES[folder])} files in {folder}?")
    if answer == "yes":
        deleted.extend(FILES[folder])
    return len(deleted)


@midcourse.agent
async def tidier(run: midcourse.Run) -> str:
    """Asks where, then deletes with approval."""
    folder = str(await run.ask("Which folder shall I tidy?", options=tuple(FILES)))
    number = await run.step("delete", delete, folder)
    return f"deleted {number} files in {folder}"


async def next_ask(session: midcourse.SessionHandle[str]) -> str:
    """Wait until the session waits for a person; print what it wants, and return the ask's id."""
    async for _ in session.watch():
        state = await session.state()
        if state.status is midcourse.Status.WAITING:
            ask = state.asks[0]
            print(f"waiting: {ask.id} ({ask.reason}): {ask.prompt}")
            return ask.id
    raise RuntimeError("it ended without asking")


async def main() -> None:
    """Be the person."""
    async with midcourse.open("memory://") as mc:
        session = await mc.start(tidier, session_id="sess_tidy")
        first = await next_ask(session)
        await session.answer("downloads", ask=first)
        print("answered: downloads")

        second = await next_ask(session)
        await session.pause("lunch", until="stopped")
        state = await session.state()
        print(f"paused, and still answerable: {state.status}, {len(state.asks)} ask open")
        await session.answer("yes", ask=second)
        print("answered: yes")
        print("nothing happens before the resume: deleted", len(deleted))
        try:
            await session.answer("no", ask=second)
        except midcourse.Refused as refused:
            print("a second answer:", refused)
        await session.resume()
        print("result:", await session.result())


asyncio.run(main())
