"""How an answer goes on that a pause has cut, by what is known of the model."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.core.events import SegmentWritten
from midcourse.models.local import LocalModel
from midcourse.models.script import Text, replies
from midcourse.testing.provider import Provider
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk
from tests.promises.harness import Place

TALE = " ".join(f"word{number}" for number in range(150))
SLOWLY = Text(TALE, every=0.002)


async def paused_and_resumed(place: Place, agent: midcourse.Agent[Any], words: int = 10) -> tuple[str, list[str], str]:
    """What it says in the end, how the cut said that it goes on, and what had been said by then."""
    async with place.open(agent) as mc:
        session = await mc.start(agent, "Tell me a tale.")
        said = ""
        async for seen in session.watch(deltas=True):
            # The first previews may have come before anybody watched: then the segment tells.
            if isinstance(seen, midcourse.Delta):
                said += seen.text
            elif isinstance(seen.event, SegmentWritten):
                said = seen.event.text
            if len(said.split()) > words:
                break
        await session.pause(until="stopped")
        ways: list[str] = list((await session.state()).cuts.values())
        await session.resume()
        return await session.result(2 * PATIENCE), ways, said


async def test_a_scripted_model_goes_on_from_the_cut(place: Place) -> None:
    desk = Desk(replies(SLOWLY))
    said, ways, _ = await paused_and_resumed(place, desk.held())
    assert (said, ways) == (TALE, ["quote"])


@pytest.mark.parametrize(
    ("name", "way", "statuses"),
    [("claude-sonnet-4-5-of-a-test", "prefix", [200, 200]), ("claude-opus-4-6", "quote", [200, 200])],
)
async def test_anthropics_models_go_on_as_each_allows(place: Place, name: str, way: str, statuses: list[int]) -> None:
    async with Provider(replies(SLOWLY)) as provider:
        model = AnthropicModel(name, provider=AnthropicProvider(base_url=provider.anthropic_url, api_key="any"))
        said, ways, _ = await paused_and_resumed(place, wrap(Agent(model, name="tale")))
        assert (said, ways) == (TALE, [way])
        assert [one.status for one in provider.requests] == statuses


async def test_a_function_of_ones_own_begins_again(place: Place) -> None:
    heard: list[int] = []

    async def stream(messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        heard.append(len(messages))
        for number, word in enumerate(SLOWLY.parts):
            if number == 4 and len(heard) == 1:
                await asyncio.Event().wait()  # until it is stopped
            yield word

    async def whole(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        raise NotImplementedError

    agent = wrap(Agent(FunctionModel(whole, stream_function=stream), name="own"))
    said, ways, _ = await paused_and_resumed(place, agent, words=2)
    assert said == TALE
    assert ways == [""]
    assert set(heard) == {1}


@pytest.mark.thorough
async def test_the_real_local_model_goes_on_with_its_own_words(place: Place) -> None:
    async with LocalModel() as local:
        model = OpenAIChatModel(local.name, provider=OpenAIProvider(base_url=local.base_url, api_key="none"))
        model.goes_on = "prefix"  # pyright: ignore[reportAttributeAccessIssue] - as an agent file's `model: local` has it
        agent = wrap(Agent(model, name="local", model_settings={"max_tokens": 16, "temperature": 0.0}))
        said, ways, before = await paused_and_resumed(place, agent, words=2)
        assert ways == ["prefix"]
        assert before.strip() in said  # the first words may have come before the watch began
