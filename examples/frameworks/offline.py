"""Takes the place of OpenAI and Anthropic, so that the examples beside it need neither a network nor a key.

A real HTTP server on this machine, which says what ``script`` says. An example that does not import this asks the real
providers.
"""

import asyncio
import os
import re
from collections.abc import Sequence

from midcourse.models.script import Call, Conversation, Piece, Text
from midcourse.testing.provider import Provider


def script(conversation: Conversation) -> Sequence[Piece]:
    """What the model says: it looks at the thermometer, unless it was told, then it tells, word by word."""
    seen = conversation.results("temperature") or re.findall(r"thermometer says (\d+)", conversation.user)
    if not seen:
        return [Call("temperature", {"city": "Rome"})]
    return [Text(f"It is {seen[-1]} degrees in Rome.", every=0.02)]


provider = Provider(script)
asyncio.run(provider.__aenter__())  # it has a thread of its own, which ends with the program
os.environ.update(
    OPENAI_BASE_URL=provider.base_url,
    OPENAI_API_KEY="any",
    ANTHROPIC_BASE_URL=provider.anthropic_url,
    ANTHROPIC_API_KEY="any",
)
