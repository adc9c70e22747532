"""Agents at a desk with a few tools, for a provider on this machine, and a session handle to try them with."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from agents import Agent, Model, OpenAIChatCompletionsModel, OpenAIResponsesModel, Tool, function_tool
from openai import AsyncOpenAI

import midcourse
from midcourse.adapters.openai_agents import wrap
from midcourse.core.session import OpenAsk, Status
from midcourse.models.script import Conversation, Piece, Script
from midcourse.testing.provider import Provider
from tests.promises.harness import until_asks, until_state, until_status

Api: TypeAlias = Literal["responses", "chat"]
APIS: tuple[Api, ...] = ("responses", "chat")
PATIENCE = 40.0


@midcourse.tool(effect="read")
async def find(what: str) -> str:
    """Find something."""
    return f"found {what}"


@midcourse.tool(effect="read")
async def search(what: str) -> str:
    """Search for something, until somebody says otherwise."""
    await asyncio.sleep(600)
    return f"found {what}"


@midcourse.tool(effect="read", run_in="process")
def add(left: int, right: int) -> int:
    """Add two numbers, in another process."""
    return left + right


finding: Tool = function_tool(find)
searching: Tool = function_tool(search)
adding: Tool = function_tool(add)


@dataclass
class Desk:
    """A provider that says what a script says, and sessions of agents that ask it."""

    provider: Provider
    sessions: Any
    api: Api
    client: AsyncOpenAI

    @property
    def model(self) -> Model:
        """The model of an agent at this desk."""
        return (OpenAIResponsesModel if self.api == "responses" else OpenAIChatCompletionsModel)("m", self.client)

    def agent(self, *tools: Tool, name: str = "desk", **given: Any) -> Agent[Any]:
        """An agent at this desk."""
        return Agent(name=name, instructions=name, model=self.model, tools=list(tools), **given)

    async def start(
        self, agent: Agent[Any], script: Script, goal: str = "Go.", **given: Any
    ) -> "midcourse.SessionHandle[Any]":
        """A session of the agent, whose models say what ``script`` says."""
        self.provider.script = script
        return await self.sessions.start(wrap(agent, **given), goal)

    @property
    def heard(self) -> list[str]:
        """The last conversation that a model was given, a line for each message."""
        return [
            f"{said.role}: {said.text}{''.join(f'[{call.name}]' for call in said.calls)}"
            for said in self.provider.requests[-1].conversation
            if said.role != "system"
        ]

    def assert_that_all_requests_were_valid(self) -> None:
        """No request was one that a real provider refuses."""
        assert [one.refused for one in self.provider.requests if one.refused] == []


@asynccontextmanager
async def desk(api: Api, script: Script) -> AsyncGenerator[Desk]:
    """A desk whose models speak that API."""
    async with (
        Provider(script) as provider,
        AsyncOpenAI(base_url=provider.base_url, api_key="any") as client,
        midcourse.open("memory://") as sessions,
    ):
        yield Desk(provider, sessions, api, client)


def says(decide: Callable[[Conversation], Sequence[Piece]]) -> Script:
    """A script made of a lambda."""

    def script(conversation: Conversation, /) -> Sequence[Piece]:
        return decide(conversation)

    return script


async def ask_of(session: "midcourse.SessionHandle[Any]") -> OpenAsk:
    """What a session asks, once it does."""
    return (await until_asks(session))[0]


async def until_begun(session: "midcourse.SessionHandle[Any]", name: str, count: int = 1) -> None:
    """Return when ``count`` steps of that name are under way."""
    await until_state(
        session, lambda state: sum(step.partition("/")[2].startswith(f"{name}#") for step in state.running) >= count
    )


async def until(session: "midcourse.SessionHandle[Any]", status: Status) -> None:
    """Return when the session has that status."""
    await until_status(session, status)


async def failure_of(session: "midcourse.SessionHandle[Any]") -> str:
    """Why a session failed."""
    try:
        result = await session.result(PATIENCE)
    except midcourse.SessionEnded as error:
        return error.message
    raise AssertionError(f"it did not fail, and gave {result!r}")
