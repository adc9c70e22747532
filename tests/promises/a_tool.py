"""A tool that another process can import by its name, as a test's module cannot be."""

import asyncio

import midcourse
from midcourse.errors import MidcourseError


@midcourse.tool(effect="read", run_in="process")
def in_a_process(url: str, session: str) -> str:
    """Raise a session's budget from the process of a tool, which opens the store as a program of its own."""

    async def attempt() -> str:
        async with midcourse.open(url, drive=False) as mc:
            try:
                await (await mc.get(session)).raise_budget(9, by="ann")
            except MidcourseError as error:
                return error.code
        return "granted"

    return asyncio.run(attempt())
