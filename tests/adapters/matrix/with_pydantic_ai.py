"""The agent of the story in Pydantic AI."""

import os
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent, Tool
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from tests.adapters.matrix import courses


async def model() -> Model:
    """The real client, of the server that the environment names."""
    client = AsyncOpenAI(base_url=os.environ[courses.URL], api_key="any")
    return OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))


traveller = Agent(
    name="matrix-pydantic-ai",
    instructions=courses.INSTRUCTIONS,
    tools=[*courses.TOOLS, Tool(courses.pay, requires_approval=True)],
)
agent = wrap(traveller, model=model)


def build() -> midcourse.Agent[Any]:
    """The agent, for the server that the environment names."""
    return agent
