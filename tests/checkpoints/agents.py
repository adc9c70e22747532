"""Agents that another process can go on with."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import midcourse
from midcourse.models.script import Call, Conversation, Piece, Text

TTL = 3600
READABLE = midcourse.Terms(backend="redis", ttl_seconds=TTL)


@midcourse.tool(effect="read")
def look_up(customer: str, api_key: str = "") -> dict[str, str]:
    """A tool whose arguments and result hold what nobody should read."""
    return {"customer": customer, "access_key": f"of {api_key}", "note": "token=tok_12345678 stays here"}


@midcourse.tool(effect="write")
async def pay() -> str:
    """Never ends: what becomes of it when its process dies, nobody can tell."""
    await asyncio.Event().wait()
    return "paid"


async def words() -> AsyncIterator[str]:
    """What a model says."""
    for word in ("I ", "look ", "her ", "up."):
        yield word


@midcourse.agent(name="tests.asker", terms=READABLE)
async def asker(run: midcourse.Run) -> str:
    """Says something, calls a tool, asks."""
    await run.stream("say", words)
    await run.call(look_up, {"customer": "ada", "api_key": "hunter2"}, name="look up")
    answer = await run.ask("Delete ada?", reason="need_approval", options=("approve", "refuse"))
    return f"ada: {answer}"


@midcourse.agent(name="tests.payer", terms=READABLE)
async def payer(run: midcourse.Run) -> str:
    """Is in a call that cannot be undone."""
    return await run.step("pay", pay)


def transfer(iban: str, amount: int, api_key: str, note: str) -> str:
    """Pay somebody."""
    return f"{amount} to {iban}"


def transfers(conversation: Conversation) -> Sequence[Piece]:
    """A script: one transfer, whose arguments hold what nobody should read."""
    if conversation.results("transfer"):
        return [Text("Paid.")]
    secrets = {"api_key": "hunter2", "note": "token=tok_12345678 stays here"}
    return [Call("transfer", {"iban": "DE02", "amount": 12, **secrets})]
