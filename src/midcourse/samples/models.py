"""Choose the model of the sample agents: their script, or a real one that the environment names."""

import os
from typing import Final

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model

from midcourse.adapters.pydantic_ai.scripted import scripted
from midcourse.core.prices import FREE
from midcourse.errors import InvalidInput
from midcourse.models.script import Script, Text

MODEL: Final = "MIDCOURSE_MODEL"
"""A model as Pydantic AI names it, such as ``openai:gpt-5-mini``. Without it the samples play their scripts."""
BASE_URL: Final = "MIDCOURSE_BASE_URL"
"""A server that speaks the chat API of OpenAI. The model is then any name that the server knows."""
API_KEY: Final = "MIDCOURSE_API_KEY"
"""The key for that server; a server of one's own needs none."""
PACE: Final = "MIDCOURSE_SAMPLE_PACE"
"""Seconds that a script takes for a word."""

PRICES: Final = {"scripted": FREE}
"""A script costs nothing, which is on no price list."""

_A_WORD: Final = 0.03


def model_for(script: Script) -> Model:
    """Return the model that the environment names, else one that plays ``script``.

    Raises:
        InvalidInput: it is not available: its provider's package is missing, or a key, or the name is unknown.
    """
    name, server = os.environ.get(MODEL, ""), os.environ.get(BASE_URL, "")
    if not name and not server:
        return scripted(script)
    if not name:
        raise InvalidInput(
            f"{BASE_URL} is set and {MODEL} is not. Set {MODEL} to the name of a model that the server has, or unset "
            f"both to play the scripts.",
            field=MODEL,
        )
    try:
        return _behind(server, name.partition(":")[2] or name) if server else infer_model(name)
    except (ImportError, UserError, ValueError) as error:
        raise InvalidInput(
            f"The sample agents cannot use {MODEL}={name}: {f'{error}'.rstrip('.')}. "
            f"Mend that, or unset {MODEL} to play the scripts.",
            field=MODEL,
        ) from error


def _behind(server: str, name: str) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=server, api_key=os.environ.get(API_KEY) or "none"))


def pace() -> float:
    """Seconds for a word of a script.

    Raises:
        InvalidInput: the environment asks for something else than a number from 0 to 10.
    """
    asked = os.environ.get(PACE, "")
    try:
        seconds = float(asked) if asked else _A_WORD
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 10:
        raise InvalidInput(f"{PACE} is '{asked}'; it is a number of seconds from 0 to 10.", field=PACE)
    return seconds


def words(text: str, *, slowly: float = 1.0) -> Text:
    """Return a script's text, at its pace. ``slowly``: so many times slower, unless the environment names a pace."""
    return Text(text, every=pace() * (1.0 if os.environ.get(PACE) else slowly))
