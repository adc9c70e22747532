"""The agent of the story as a YAML file."""

import os
from typing import Any

import midcourse
from midcourse.adapters.yaml_agents import load_agents
from tests.adapters.matrix import courses

FILE = """\
metadata:
  name: matrix-yaml
spec:
  type: chat_model_agent
  model:
    name: m
    base_url: {url}
  instructions: {instructions}
  tools:
    - tests.adapters.matrix.courses:look
    - tests.adapters.matrix.courses:note
    - tests.adapters.matrix.courses:book
    - tests.adapters.matrix.courses:send
    - tests.adapters.matrix.courses:wire
    - tests.adapters.matrix.courses:stumble
    - tests.adapters.matrix.courses:nap
    - tests.adapters.matrix.courses:nap_apart
    - use: tests.adapters.matrix.courses:pay
      requires_approval: true
"""


def build() -> midcourse.Agent[Any]:
    """The agent, for the server that the environment names."""
    path = courses.folder() / "traveller.yaml"
    path.write_text(FILE.format(url=os.environ[courses.URL], instructions=courses.INSTRUCTIONS))
    (made,) = load_agents(path)
    return made
