"""A process that is killed in the middle of a call, after a handoff, inside an agent that is a tool."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from midcourse.models.script import Call, Conversation, Piece, Script, Text, replies
from midcourse.testing.provider import Provider

PROGRAM = Path(__file__).with_name("program.py")


def by_itself(heard: Conversation, /) -> Sequence[Piece]:
    """After the handoff, the porter posts the letter."""
    return replies(Call("transfer_to_porter"), Call("post", {"letter": "A"}), Text(f"The {heard.system} did."))(heard)


def by_another(heard: Conversation, /) -> Sequence[Piece]:
    """After the handoff, the porter has the scribe post it."""
    if heard.system == "scribe":
        return replies(Call("post", {"letter": "A"}), Text("Posted."))(heard)
    done = Text(f"The {heard.system} did.")
    return replies(Call("transfer_to_porter"), Call("have_written", {"input": "A"}), done)(heard)


async def child(folder: Path, provider: Provider, do: str) -> asyncio.subprocess.Process:
    store, effects = f"sqlite:///{folder / 'sessions.db'}", str(folder / "effects")
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM), store, provider.base_url, effects, do), stdout=asyncio.subprocess.PIPE
    )


@pytest.mark.parametrize(
    ("script", "requests"), [pytest.param(by_itself, 3, marks=pytest.mark.thorough), (by_another, 5)]
)
async def test_another_process_goes_on_with_the_right_agent_and_asks_nothing_twice(
    script: Script, requests: int, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    async with Provider(script) as provider:
        first = await child(tmp_path, provider, "start")
        try:
            async with asyncio.timeout(40):
                while not effects.exists() or not effects.read_text(encoding="utf-8"):
                    await asyncio.sleep(0.05)
        finally:
            first.send_signal(signal.SIGKILL)
            await first.communicate()

        second = await child(tmp_path, provider, "go on")
        said, _ = await second.communicate()
        assert (said.decode().strip(), second.returncode) == ("The porter did.", 0)
        # The same key each time: what had begun is done again, what had been said is not asked again.
        lines = effects.read_text(encoding="utf-8").splitlines()
        assert (len(lines), len(set(lines))) == (2, 1)
        assert len(provider.requests) == requests
        assert [one.refused for one in provider.requests if one.refused] == []
