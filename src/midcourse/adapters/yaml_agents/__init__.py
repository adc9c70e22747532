"""Agents from YAML files: a model, instructions, tools by import path, and the terms they work on."""

from midcourse.adapters.yaml_agents.agent_builder import load_agents
from midcourse.adapters.yaml_agents.spec import schema

__all__ = ["load_agents", "schema"]
