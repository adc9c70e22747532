"""A provider, and a real client of one of its three APIs, with the retries that clients have by default."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from midcourse.adapters.plain import Api, Create, Streamed, streamed
from midcourse.models.script import Script
from midcourse.testing.provider import Provider

APIS: tuple[Api, ...] = ("chat.completions", "responses", "messages")
KEY = "sk-a-secret-that-nobody-may-read"


class Desk:
    """One API of a provider, as an agent uses it."""

    def __init__(self, api: Api, provider: Provider, client: AsyncOpenAI | AsyncAnthropic, model: str = "m") -> None:
        self.api: Api = api
        self.provider = provider
        self.client = client
        self.model = model

    @property
    def create(self) -> Create:
        """The method that is given to ``streamed``."""
        match self.client, self.api:
            case AsyncAnthropic(), _:
                return cast("Create", self.client.messages.create)
            case AsyncOpenAI(), "responses":
                return cast("Create", self.client.responses.create)
            case _:
                return cast("Create", self.client.chat.completions.create)

    def ask(self, *messages: Any, **options: Any) -> Streamed:
        """A request with ``messages``; a string is one of the user."""
        said = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
        if self.api == "messages":
            options = {"max_tokens": 900, **options}
        return streamed(
            self.create, model=self.model, **{"input" if self.api == "responses" else "messages": said}, **options
        )


@asynccontextmanager
async def desk(
    api: Api, script: Script, *, api_key: str | None = None, gives: str | None = KEY, url: str | None = None
) -> AsyncGenerator[Desk]:
    """A provider that wants ``api_key``, and a client that ``gives`` one; at ``url``, if the provider is not there."""
    async with Provider(script, api_key=api_key) as provider, client_of(api, provider, gives, url) as client:
        yield Desk(api, provider, client)


def client_of(api: Api, provider: Provider, key: str | None, url: str | None = None) -> AsyncOpenAI | AsyncAnthropic:
    """A client as a user makes it."""
    if api == "messages":
        return AsyncAnthropic(base_url=url or provider.anthropic_url, api_key=key)
    return AsyncOpenAI(base_url=url or provider.base_url, api_key=key)


class _Detour(httpx2.AsyncHTTPTransport):
    """Leads to this machine, whatever the address."""

    def __init__(self, provider: Provider) -> None:
        super().__init__()
        self._to = httpx2.URL(provider.anthropic_url)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(scheme="http", host=self._to.host, port=self._to.port)
        return await super().handle_async_request(request)


@asynccontextmanager
async def priced_desk(api: Api, script: Script) -> AsyncGenerator[Desk]:
    """As ``desk``, with a client that takes the provider for the real one, whose prices are known."""
    async with Provider(script) as provider:
        wire = httpx2.AsyncClient(transport=_Detour(provider))
        if api == "messages":
            async with AsyncAnthropic(api_key=KEY, http_client=wire) as client:
                # A name that the price list takes for a model's, and the client for none that is to be retired.
                yield Desk(api, provider, client, "claude-sonnet-4-5-of-a-test")
        else:
            async with AsyncOpenAI(api_key=KEY, http_client=wire) as client:
                yield Desk(api, provider, client, "gpt-4o")
