"""The story of ``talking`` in Pydantic AI."""

from pydantic_ai import Agent

from midcourse.adapters.pydantic_ai import wrap
from midcourse.adapters.pydantic_ai.scripted import scripted
from tests.crash.chat_story import TOOLS, story

agent = wrap(Agent(scripted(story), name="crash-pydantic-ai", instructions="Do it.", tools=list(TOOLS)))
