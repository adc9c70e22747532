"""The adapters of the matrix, by name. Only the one that is wanted is imported: a child process starts sooner."""

from importlib import import_module
from typing import Any

import midcourse

ADAPTERS = ("pydantic_ai", "yaml_agents", "langgraph", "langgraph_react", "openai_agents", "plain")


def build(adapter: str) -> midcourse.Agent[Any]:
    """The agent of the story in that framework, for the server and the folder that the environment names."""
    return import_module(f"tests.adapters.matrix.with_{adapter}").build()
