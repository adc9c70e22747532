"""The agent of the story as LangGraph's own ready-made one, which runs each call as a task of its own."""

import os
import warnings
from typing import Any

from langchain_openai import ChatOpenAI
from langgraph import prebuilt
from langgraph.warnings import LangGraphDeprecationWarning
from openai import DefaultAsyncHttpxClient
from pydantic import SecretStr

import midcourse
from midcourse.adapters.langgraph import held, wrap
from tests.adapters.matrix import courses
from tests.adapters.matrix.with_langgraph import TOOLS


def build() -> midcourse.Agent[Any]:
    """The agent, for the server that the environment names."""
    client = DefaultAsyncHttpxClient()
    url = os.environ[courses.URL]
    model = held(ChatOpenAI(model="m", base_url=url, api_key=SecretStr("any"), http_async_client=client))
    with warnings.catch_warnings():
        # It has moved to LangChain, and is in use where it was.
        warnings.simplefilter("ignore", LangGraphDeprecationWarning)
        make: Any = vars(prebuilt)["create_react_agent"]
        graph = make(model, TOOLS, prompt=courses.INSTRUCTIONS, name="matrix-langgraph-react")
    return wrap(graph)
