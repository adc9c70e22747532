"""A budget with real clients: priced before the request, counted while the answer comes."""

from pathlib import Path

import pytest

import midcourse
from midcourse.adapters.plain import Api
from midcourse.adapters.prices import TokenUsage, dollars, tokens_in
from midcourse.models.script import Text, replies
from tests.adapters.plain.desk import APIS, priced_desk
from tests.promises.harness import Place, history, resumable, types, until_status

each_api = pytest.mark.parametrize("api", APIS)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place("memory", tmp_path)


@each_api
async def test_a_stream_that_reaches_the_cap_is_closed_there(api: Api, place: Place) -> None:
    async with priced_desk(api, replies(Text("word " * 3_000, every=0.002))) as at:
        agent = resumable(lambda run: run.stream("draft", lambda: at.ask("Tell me everything.")))
        budget = dollars(at.model, TokenUsage(6, 40))
        assert budget is not None
        async with place.open(agent) as mc:
            session = await mc.start(agent, terms=midcourse.Terms(budget=budget))
            await until_status(session, "paused")
            closed = await at.provider.wait_for_close(0)
            assert 30 <= closed.pieces < 400
            assert (await session.state()).cost == pytest.approx(budget, rel=0.1)
            with pytest.raises(midcourse.Refused, match="Raise the budget"):
                await session.resume()


@each_api
async def test_a_request_whose_prompt_and_usual_answer_cost_more_than_is_left_is_not_made(
    api: Api, place: Place
) -> None:
    async with priced_desk(api, replies(*[Text("word " * 50)] * 9)) as at:

        async def work(run: midcourse.Run) -> None:
            for _ in range(5):
                await run.stream("draft", lambda: at.ask("Tell me everything."))

        agent = resumable(work)
        once = dollars(at.model, TokenUsage(3, 50))
        assert once is not None
        async with place.open(agent) as mc:
            session = await mc.start(agent, terms=midcourse.Terms(budget=2.5 * once))
            await until_status(session, "paused")
            assert len(at.provider.requests) == 2
            state = await session.state()
            assert state.cost == pytest.approx(2 * once)
            assert state.pause is not None
            assert "its next call would cost about" in state.pause.reason
            assert types(await history(session)).count("step.cut") == 1
            assert state.unpriced == 0, "what was not asked cost nothing, and that is known"
            await session.raise_budget(10 * once)
            await session.result()
        assert len(at.provider.requests) == 5


async def test_no_more_is_foreseen_than_the_answer_may_have(place: Place) -> None:
    async with priced_desk("messages", replies(*[Text("word " * 50)] * 9)) as at:

        async def work(run: midcourse.Run) -> None:
            await run.stream("draft", lambda: at.ask("Tell me everything."))
            await run.stream("draft", lambda: at.ask("Tell me everything.", max_tokens=5))

        agent = resumable(work)
        once = dollars(at.model, TokenUsage(3, 50))
        assert once is not None
        async with place.open(agent) as mc:
            session = await mc.start(agent, terms=midcourse.Terms(budget=1.2 * once))
            await until_status(session, "paused", "completed")
        assert len(at.provider.requests) == 2, "five words more were affordable"


def test_the_tokens_of_a_prompt_are_guessed_by_its_texts_alone() -> None:
    assert tokens_in("four word text here") == 5
    assert tokens_in([{"role": "user", "content": [{"type": "text", "text": "x" * 400}]}]) == 1 + 1 + 100
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
    assert tokens_in(picture) < 2_000
    assert tokens_in(None) == tokens_in(3) == tokens_in(print) == 0
