"""A real model on this machine: a pause in the middle of its answer stops the computation."""

import asyncio
from pathlib import Path

from openai import AsyncOpenAI

import midcourse
from midcourse.adapters.plain import streamed
from midcourse.core.events import SegmentWritten, StepCut, StepFinished
from midcourse.models.local import LocalModel
from tests.promises.harness import Place, history, resumable, types


async def first_words(session: midcourse.SessionHandle[str]) -> None:
    async for seen in session.watch(deltas=True):
        if isinstance(seen, midcourse.Delta) and seen.offset > 40:
            return


async def test_a_pause_stops_the_computation_and_a_resume_goes_on_with_it(tmp_path: Path) -> None:
    tokens = 3_000
    async with LocalModel() as model, AsyncOpenAI(base_url=model.base_url, api_key="any") as client:

        async def function(run: midcourse.Run) -> str:
            return await run.stream(
                "tell",
                lambda: streamed(
                    client.chat.completions.create,
                    model=model.name,
                    messages=[{"role": "user", "content": run.goal}],
                    max_tokens=tokens,
                    extra_body={"ignore_eos": True},
                ),
            )

        agent = resumable(function)
        async with Place("memory", tmp_path).open(agent) as mc:
            session = await mc.start(agent, goal="Tell a very long story about a ship.")
            await first_words(session)
            assert (await model.activity()).answering == 1
            assert (await session.pause(until="stopped")).level == "stopped"

            while (await model.activity()).answering:
                await asyncio.sleep(0.01)
            stopped = await model.activity()
            assert stopped.evaluated < 1_500, "it went on for most of the answer"
            await asyncio.sleep(0.3)
            assert await model.activity() == stopped, "it went on after it had stopped"

            (cut,) = [one.event for one in await history(session) if isinstance(one.event, StepCut)]
            assert cut.continues == "prefix", "it is llama.cpp, which goes on with its own words"
            so_far = "".join(one.event.text for one in await history(session) if isinstance(one.event, SegmentWritten))

            tokens = 8
            await session.resume()
            said = await session.result()
            assert said.startswith(so_far.rstrip())
            assert len(said) > len(so_far)
            (finished,) = [one.event for one in await history(session) if isinstance(one.event, StepFinished)]
            assert finished.tokens == 8, "what had been said is not output again"
            assert types(await history(session)).count("step.begun") == 2
            assert (await model.activity()).evaluated > stopped.evaluated
