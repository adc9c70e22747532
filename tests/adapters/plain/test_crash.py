"""A process that is killed while a model talks: the provider stops, and another process asks again."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from midcourse.adapters.plain import Api
from midcourse.models.script import Text, replies
from midcourse.testing.provider import Provider
from tests.adapters.plain.desk import APIS

PROGRAM = Path(__file__).with_name("program.py")


async def child(folder: Path, api: Api, provider: Provider, do: str) -> asyncio.subprocess.Process:
    url = provider.anthropic_url if api == "messages" else provider.base_url
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM), f"sqlite:///{folder / 'sessions.db'}", api, url, do),
        stdout=asyncio.subprocess.PIPE,
    )


# What differs from API to API is how a stream is read; that it is cut and asked for again is the same.
@pytest.mark.parametrize(
    "api", [pytest.param(api, marks=() if api == "messages" else pytest.mark.thorough) for api in APIS]
)
async def test_a_killed_process_ends_the_stream_and_another_goes_on(api: Api, tmp_path: Path) -> None:
    async with Provider(replies(Text("word " * 5_000, every=0.005))) as provider:
        first = await child(tmp_path, api, provider, "start")
        try:
            await provider.wait_for_request(0, pieces=500, timeout=40)  # some of it is durable
        finally:
            first.send_signal(signal.SIGKILL)
            await first.communicate()
        assert first.returncode == -signal.SIGKILL
        assert (await provider.wait_for_close(0)).pieces < 4_000

        provider.script = replies(Text("It is done."))
        second = await child(tmp_path, api, provider, "go on")
        said, _ = await second.communicate()
        # What was durable stays said, and the other process asks for the rest of it.
        before, _, rest = said.decode().strip().partition("It is done.")
        assert (set(before.split()), rest, second.returncode) == ({"word"}, "", 0)
        assert len(provider.requests) == 2
