"""Agents of the OpenAI Agents SDK: ``wrap(agent)`` makes one pausable, redirectable, cancellable and durable."""

from midcourse.adapters.openai_agents.agent import wrap

__all__ = ["wrap"]
