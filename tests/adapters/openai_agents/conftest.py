"""A desk for each API."""

from collections.abc import AsyncIterator

import pytest

from midcourse.models.script import Text, replies
from tests.adapters.openai_agents.desk import APIS, Api, Desk, desk


@pytest.fixture(params=APIS)
async def at(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    """A desk, once for each API that OpenAI's models speak."""
    api: Api = request.param
    async with desk(api, replies(Text("Nothing to say."))) as made:
        yield made


@pytest.fixture
async def at_responses() -> AsyncIterator[Desk]:
    """A desk, where the API makes no difference."""
    async with desk("responses", replies(Text("Nothing to say."))) as made:
        yield made
