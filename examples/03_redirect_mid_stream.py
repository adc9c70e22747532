"""Redirect a session while its model is speaking.

The stream is cut, what it had said is kept and marked as cut, and the model is called again. It sees the instruction
because it reads ``run.messages`` in its call. The step before is not done again.

Prints:
    collecting facts
    model: A limerick about a cat who
    redirect: decided, running, …
    cut: 'A limerick about a cat who …'
    model: A haiku, as you wish: quiet paws at dawn.
    attempts at the stream: 2, at collecting facts: 1
    result: A haiku, as you wish: quiet paws at dawn.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import midcourse

LIMERICK = "A limerick about a cat who lived in a hat and who sat on a mat and was fat and that was that. " * 5
HAIKU = "A haiku, as you wish: quiet paws at dawn."


@midcourse.tool(effect="read")
def collect_facts() -> list[str]:
    """A tool."""
    print("collecting facts")
    return ["cats have paws"]


async def model(messages: Sequence[midcourse.Message]) -> AsyncIterator[str]:
    """A scripted model: a plain async generator that answers what people said last."""
    text = HAIKU if "haiku" in messages[-1].text else LIMERICK
    for word in text.split(" "):
        yield f"{word} "
        await asyncio.sleep(0.001)


@midcourse.agent
async def poet(run: midcourse.Run) -> str:
    """Collects facts, then writes. It does nothing about redirects: the driver calls the model again."""
    await run.step("collect", collect_facts)
    poem = await run.stream("write", lambda: model(run.messages))
    return poem.strip()


async def main() -> None:
    """Watch the words come, and change one's mind at the seventh."""
    async with midcourse.open("memory://") as mc:
        session = await mc.start(poet, goal="a limerick about a cat")
        said: dict[int, str] = {}
        segments: dict[int, str] = {}
        begun: list[str] = []
        async for seen in session.watch(deltas=True):
            if isinstance(seen, midcourse.Delta):  # a preview of streamed text
                said[seen.attempt] = said.get(seen.attempt, "") + seen.text
                if said[seen.attempt] == "A limerick about a cat who ":
                    print("model:", said[seen.attempt].strip())
                    print("redirect:", await session.redirect("make it a haiku"))
            elif seen.type == "step.begun":
                begun.append(seen.event.name)
            elif seen.type == "segment.written":  # the durable form of what the previews showed
                segments[seen.event.attempt] = segments.get(seen.event.attempt, "") + seen.event.text
            elif seen.type == "step.cut":
                print(f"cut: {segments[seen.event.attempt]!r}")
        print("model:", segments[2].strip())
        print(f"attempts at the stream: {begun.count('write')}, at collecting facts: {begun.count('collect')}")
        print("result:", await session.result())


asyncio.run(main())
