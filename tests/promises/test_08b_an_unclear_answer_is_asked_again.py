"""An approval is given by a clear yes alone; a word that may be one is asked about again."""

import pytest

import midcourse
from tests.promises.harness import Place, resumable


@midcourse.tool(effect="write", environment="prod", local=True)
async def drop(table: str) -> str:
    return f"dropped {table}"


@pytest.mark.parametrize("word", ["y", "ok", "sure"])
async def test_a_word_like_yes_leaves_the_approval_open(place: Place, word: str) -> None:
    async def agent(run: midcourse.Run) -> object:
        return await run.step("drop", drop, "logs")

    asker = resumable(agent)
    async with place.open(asker) as mc:
        session = await mc.start(asker)
        ask = await session.next_ask(timeout=10)
        with pytest.raises(midcourse.Refused, match="neither yes nor no") as caught:
            await session.answer(word)
        assert caught.value.code == "unclear_answer"
        assert (await session.next_ask(timeout=10)).id == ask.id, "it is still open"
        await session.answer("yes")
        assert await session.result(timeout=10) == "dropped logs"
