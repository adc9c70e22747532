"""The agent of the story in the OpenAI Agents SDK."""

import os
from typing import Any

import agents
from agents import OpenAIResponsesModel, function_tool
from openai import AsyncOpenAI

import midcourse
from midcourse.adapters.openai_agents import wrap
from tests.adapters.matrix import courses

TOOLS: list[agents.Tool] = [*map(function_tool, courses.TOOLS), function_tool(courses.pay, needs_approval=True)]


def build() -> midcourse.Agent[Any]:
    """The agent, for the server that the environment names."""
    client = AsyncOpenAI(base_url=os.environ[courses.URL], api_key="any")
    traveller = agents.Agent[Any](
        name="matrix-openai-agents",
        instructions=courses.INSTRUCTIONS,
        model=OpenAIResponsesModel("m", client),
        tools=TOOLS,
    )
    return wrap(traveller)
